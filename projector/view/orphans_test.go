package view_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// TestListOrphansMerges: those of all projections, in the order of records.
func TestListOrphansMerges(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), 3000)
	fold(t, l, func(s *projector.State) {
		var want, got []view.Orphan
		projections := 0
		for _, p := range []string{
			view.Abductions, view.Beliefs, view.Canaries, view.Cases, view.Claims, view.Contradictions, view.Decisions,
			view.Experiments, view.Findings, view.Graph, view.Predictions, view.Queries, view.Results, view.Runs,
		} {
			before := len(want)
			err := view.Orphans(s, p, prod, func(o *view.Orphan) error { want = append(want, *o); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if len(want) > before {
				projections++
			}
		}
		if projections < 3 {
			t.Fatalf("orphans of %d projections only", projections)
		}
		slices.SortStableFunc(want, func(a, b view.Orphan) int { return int(a.Seq) - int(b.Seq) })
		err := view.List(s, "orphans", prod, func(v any) error { got = append(got, *v.(*view.Orphan)); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d orphans in this order, want %d in another: %v", len(got), len(want), err)
		}
		enough := errors.New("enough")
		n := 0
		err = view.List(s, "orphans", prod, func(any) error {
			if n++; n == 3 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 3 {
			t.Errorf("stopped after %d: %v", n, err)
		}
	})
}
