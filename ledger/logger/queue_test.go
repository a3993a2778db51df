package logger

import (
	"slices"
	"strings"
	"testing"
)

// An event of one principal waits for one event of another, not for its message.
func TestTakeInTurn(t *testing.T) {
	q := &queues{wake: make(chan struct{}, 1)}
	for _, s := range []struct {
		id       string
		messages []int // events of each
	}{{"a", []int{4, 1}}, {"b", nil}, {"c", []int{1, 1}}} {
		src := agentSource()
		src.id = s.id
		q.sources = append(q.sources, src)
		for _, n := range s.messages {
			q.add(newRequest(src, n, make([]item, n)...))
		}
	}
	var order []string
	for {
		r, i, ok := q.take()
		if !ok {
			break
		}
		order = append(order, r.source.id+string(rune('0'+i)))
	}
	if want := strings.Fields("a0 c0 a1 c0 a2 a3 a0"); !slices.Equal(order, want) {
		t.Errorf("taken in the order %v, want %v", order, want)
	}
	if q.waiting() != 0 {
		t.Errorf("%d events wait", q.waiting())
	}
}
