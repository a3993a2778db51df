package resolver

import (
	"container/heap"
	"slices"
	"time"
)

// timed is a prediction that something happens to at a time.
type timed struct {
	at   time.Time
	pred *prediction
}

// timeQueue gives out what is due, earliest first and, of equals, the earlier
// recorded.
type timeQueue []timed

func (q timeQueue) Len() int { return len(q) }
func (q timeQueue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].pred.seq < q[j].pred.seq
}
func (q timeQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *timeQueue) Push(x any) { *q = append(*q, x.(timed)) }

// Pop implements heap.Interface.
func (q *timeQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = timed{}
	*q = old[:len(old)-1]
	return last
}

func (q *timeQueue) add(at time.Time, p *prediction) { heap.Push(q, timed{at, p}) }

// next takes the earliest entry if due says so of its time.
func (q *timeQueue) next(due func(time.Time) bool) (timed, bool) {
	if len(*q) == 0 || !due((*q)[0].at) {
		return timed{}, false
	}
	return heap.Pop(q).(timed), true
}

// minSweep spares a small collection most of its sweeping.
const minSweep = 64

// sweep drops the entries that are not wanted any more once they may be more
// than half of all, so that none waits for its time in memory.
func (q *timeQueue) sweep(live int, wanted func(timed) bool) {
	if len(*q) <= 2*live+minSweep {
		return
	}
	*q = slices.DeleteFunc(*q, func(t timed) bool { return !wanted(t) })
	heap.Init(q)
}

// need is since when a settled prediction, by its number, may need segments.
type need struct {
	since stamp
	nth   int
}

// needQueue has the earliest need first. It implements heap.Interface.
type needQueue []need

func (q needQueue) Len() int           { return len(q) }
func (q needQueue) Less(i, j int) bool { return q[i].since < q[j].since }
func (q needQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *needQueue) Push(x any) { *q = append(*q, x.(need)) }

// Pop implements heap.Interface.
func (q *needQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
