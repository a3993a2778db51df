package view_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestWeeksAndAudits(t *testing.T) {
	l := ledgertest.New()
	week := func(who, id string) ledger.Seq {
		return l.Put(who, prod, &events.WeekClosed{Week: id, Zone: "Europe/Berlin", Start: "2026-09-20T22:00:00Z", End: "2026-09-27T22:00:00Z"})
	}
	sampled := func(who, ns, seed string, closed ledger.Seq) ledger.Seq {
		return l.Put(who, prod, &events.AuditSampled{Week: "2026-W39", Namespace: ns, Method: "audit/1", Seed: seed, ClosedSeq: uint64(closed)})
	}
	early := sampled(operator, prod, hash64, 3) // nobody can know the leaf of record 3
	forged := week(piper, "2026-W38")
	closed := week("logger/main", "2026-W39")
	leaf := l.Leaf()
	week("logger/main", "2026-W39")
	broken := l.Put("logger/main", prod, &events.WeekClosed{Week: "2026-W40", Zone: "UTC"})
	own := sampled(piper, prod, leaf.String(), closed)
	first := sampled(operator, prod, leaf.String(), closed)
	sampled("operator/other", prod, leaf.String(), closed)
	sampled(operator, "shadow", leaf.String(), closed)
	fold(t, l, func(s *projector.State) {
		w := must[*view.Week](t)(view.GetWeek(s, "2026-W39"))
		if w.Seq != closed || w.Leaf != leaf.String() || w.Repeats != 1 || w.Zone != "Europe/Berlin" {
			t.Errorf("%+v", w)
		}
		if _, err := view.GetWeek(s, "2026-W38"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("an agent closed a week: %v", err)
		}
		n := 0
		if err := view.ListWeeks(s, func(*view.Week) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("%d weeks, %v", n, err)
		}
		if a := must[*view.Audit](t)(view.GetAudit(s, prod, "2026-W39")); a.Seq != first || a.Repeats != 1 || a.Sampled.ClosedSeq != uint64(closed) {
			t.Errorf("%+v", a)
		}
		if o := orphans(t, s, view.Weeks, prod); !slices.Equal(o, []string{fmt.Sprintf("%d 2026-W39 unknown", early)}) {
			t.Errorf("orphans %v", o)
		}
		want := []string{fmt.Sprintf("weeks/%d", forged), fmt.Sprintf("weeks/%d", broken), fmt.Sprintf("weeks/%d", own)}
		if p := parked(t, s); !slices.Equal(p, want) {
			t.Errorf("parked %v, want %v", p, want)
		}
	})
}

func TestScans(t *testing.T) {
	l := ledgertest.New()
	scan := func(turns, positive, negative int64, ids ...string) *events.DetectorScanned {
		return &events.DetectorScanned{DetectorVersion: "1", Turns: turns, Positive: positive, Negative: negative, NegativeTurnIDs: ids}
	}
	l.Put(detector, prod, scan(10, 2, 8, "t1", "t2"))
	l.Put(detector, prod, scan(10, 2, 9))
	l.Put(detector, prod, scan(10, 2, 1, "t1", "t2"))
	l.Put(piper, prod, scan(1, 0, 1))
	fold(t, l, func(s *projector.State) {
		var got []bool
		if err := view.ListScans(s, prod, func(v *view.Scan) error { got = append(got, v.Inconsistent); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, []bool{false, true, true}) || len(parked(t, s)) != 1 {
			t.Errorf("%v, parked %v", got, parked(t, s))
		}
	})
}
