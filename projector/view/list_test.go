package view_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// listed is everything of a kind as JSON.
func listed(t rapid.TB, list func(fn func(any) error) error) (out []string) {
	t.Helper()
	if err := list(func(v any) error {
		raw, err := json.Marshal(v, json.Deterministic(true))
		out = append(out, string(raw))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryKindLists: every kind answers over a ledger that says nothing, has
// something to say over a busy one, and stops when it is told to.
func TestEveryKindLists(t *testing.T) {
	if !slices.IsSorted(view.Kinds()) {
		t.Errorf("kinds %v", view.Kinds())
	}
	l := ledgertest.New()
	l.Put("logger/main", prod, &events.ClockTicked{BootID: "b"})
	fold(t, l, func(s *projector.State) {
		for _, kind := range view.Kinds() {
			if got := listed(t, func(fn func(any) error) error { return view.List(s, kind, prod, fn) }); len(got) > 0 {
				t.Errorf("%s of nothing: %q", kind, got)
			}
		}
	})
	l.Mix(rand.New(rand.NewPCG(2, 3)), 10000)
	fold(t, l, func(s *projector.State) {
		for _, kind := range view.Kinds() {
			n := 0
			for _, ns := range []string{prod, "bench/run-0", "bench/run-1", "bench/run-2", "bench/run-3"} {
				n += len(listed(t, func(fn func(any) error) error { return view.List(s, kind, ns, fn) }))
			}
			if n == 0 && kind != "skews" {
				t.Errorf("no %s in a busy ledger", kind)
			}
			calls := 0
			err := view.List(s, kind, prod, func(any) error { calls++; return kv.ErrStop })
			if calls > 1 || err != nil && err != kv.ErrStop {
				t.Errorf("%s went on for %d after the stop, %v", kind, calls, err)
			}
		}
	})
}

// TestAsOfIsReplay: what the views say of an earlier record is what they said then.
func TestAsOfIsReplay(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		l := ledgertest.New()
		l.Mix(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)), rapid.IntRange(20, 200).Draw(rt, "records"))
		head, _ := l.Head(context.Background())
		at := ledger.Seq(rapid.Uint64Range(1, uint64(head)).Draw(rt, "at"))
		say := func(to ledger.Seq, q view.GraphQuery) string {
			var out []string
			_, err := projector.Replay(context.Background(), projector.ReplayConfig{
				Source: l, To: to, Projections: view.All(), Dir: dir,
				Inspect: func(s *projector.State) error {
					for _, kind := range []string{"beliefs", "graph"} {
						out = append(out, listed(rt, func(fn func(any) error) error { return view.ListAsOf(s, kind, prod, q, fn) })...)
					}
					ends := view.GraphQuery{At: q.At, Cause: "leak", Effect: "swap"}
					out = append(out, listed(rt, func(fn func(any) error) error { return view.ListAsOf(s, "graph", prod, ends, fn) })...)
					return nil
				},
			})
			if err != nil {
				rt.Fatal(err)
			}
			return fmt.Sprint(out)
		}
		if then, now := say(at, view.GraphQuery{}), say(0, view.GraphQuery{At: at}); then != now {
			rt.Fatalf("at %d of %d\nthen %s\nnow  %s", at, head, then, now)
		}
	})
}
