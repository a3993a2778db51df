package view_test

import (
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestAbductions(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, &events.AbductionCompleted{AbductionID: "a0"}) // 1: of nothing
	l.Put(piper, prod, &events.AbductionStarted{AbductionID: "a1", QuestionID: ptr("o1"), Mode: ptr("brief")}, ledgertest.Episode("e"))
	l.Put(piper, prod, &events.AbductionStarted{Context: events.Context{OpportunityID: ptr("o2")}, AbductionID: "a2"})
	l.Put(piper, prod, &events.AbductionFailed{AbductionID: "a1", Code: "budget", Cost: &events.Cost{CostUSD: ptr(0.5)}})
	l.Put(piper, prod, &events.AbductionCompleted{AbductionID: "a1"}) // 5: it had failed
	l.Put(piper, prod, &events.AbductionStarted{AbductionID: "a2", QuestionID: ptr("o3")})
	l.Put(piper, prod, &events.AbductionCompleted{AbductionID: "a2", SetID: ptr("s")})
	l.Put(piper, "sandbox", &events.AbductionStarted{AbductionID: "a2"})
	fold(t, l, func(s *projector.State) {
		got := map[string]view.Abduction{}
		if err := view.ListAbductions(s, prod, func(a *view.Abduction) error { got[a.AbductionID] = *a; return nil }); err != nil {
			t.Fatal(err)
		}
		a1, a2 := got["a1"], got["a2"]
		if len(got) != 2 || a1.Seq != 2 || a1.EpisodeID != "e" || *a1.QuestionID != "o1" || *a1.Mode != "brief" || a1.Repeats != 1 {
			t.Errorf("%+v", got)
		}
		if e := a1.Ended; e == nil || e.Seq != 4 || e.Completed || e.Code != "budget" || *e.Cost.CostUSD != 0.5 {
			t.Errorf("a1 ended %+v", e)
		}
		if e := a2.Ended; *a2.QuestionID != "o2" || a2.Repeats != 1 || e == nil || !e.Completed || *e.SetID != "s" || e.Cost != nil {
			t.Errorf("a2 %+v ended %+v", a2, e)
		}
		var orphans []string
		err := view.Orphans(s, view.Abductions, prod, func(o *view.Orphan) error { orphans = append(orphans, o.ID+" "+o.Reason); return nil })
		if err != nil || len(orphans) != 1 || orphans[0] != "a0 unknown" {
			t.Errorf("%v %v", orphans, err)
		}
	})
}
