package resolver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"assay/ledger"
)

// BenchmarkMemory holds many predictions and prints what one of them takes while
// it is open, while it is settled and may be amended, and for ever after. Their
// criteria are all the same, or no two of them.
func BenchmarkMemory(b *testing.B) {
	const n, atOnce = 20_000, 100
	for _, bm := range []struct {
		name      string
		criterion func(i int) string
	}{
		{"same", func(int) string { return low }},
		{"distinct", func(i int) string { return strings.Replace(low, `"value":60`, fmt.Sprintf(`"value":%d`, 60+i), 1) }},
	} {
		b.Run("criteria="+bm.name, func(b *testing.B) {
			for b.Loop() {
				open := newWeighed(b)
				for i := range n {
					open.predict(0, fmt.Sprint("prediction-", i), bm.criterion(i))
					open.apply()
				}
				b.ReportMetric(open.weight()/n, "B/open")

				w := newWeighed(b)
				rounds := func(k int) {
					for i := k * n; i < (k+1)*n; {
						minute := float64(i)*60/atOnce + float64(k)*20*days
						for range atOnce {
							w.predict(minute, fmt.Sprint("prediction-", i), bm.criterion(i))
							i++
						}
						w.seal(minute+66, minute+65, ticks(minute+5, minute+60, 1)...)
						w.apply()
					}
					if w.m.past.live != n {
						b.Fatalf("%d are settled, want %d", w.m.past.live, n)
					}
				}
				rounds(0)
				settled := w.weight()
				b.ReportMetric(settled/n, "B/settled")
				rounds(1) // those of the first are past amending
				b.ReportMetric((w.weight()-settled)/n, "B/done")
			}
		})
	}
}

// weighed is a book whose records are gone once they are folded, so that the heap
// is that of the machine.
type weighed struct {
	*book
	m     *Machine
	empty float64
}

func newWeighed(b testing.TB) *weighed {
	w := &weighed{book: newBook(b)}
	w.m = machineOf(w.book, testRegistry(b))
	w.tick(0)
	w.apply()
	w.empty = w.weight()
	return w
}

func (w *weighed) apply() {
	for _, body := range w.bodies[w.m.Seq():] {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.m.Apply(rec); err != nil {
			w.t.Fatal(err)
		}
		w.bodies[rec.Seq-1] = nil
	}
}

// weight is how many bytes the machine holds more than an empty one.
func (w *weighed) weight() float64 {
	runtime.GC()
	runtime.GC()
	var st runtime.MemStats
	runtime.ReadMemStats(&st)
	runtime.KeepAlive(w.m)
	held := float64(st.HeapAlloc) - float64(24*cap(w.bodies)) - w.empty
	for _, raw := range w.blobs {
		held -= float64(cap(raw))
	}
	return held
}
