package view_test

import (
	"fmt"
	"reflect"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestClaims(t *testing.T) {
	l := ledgertest.New()
	l.Put("detector/main", prod, opportunity("o"))
	l.Put(dispatcher, prod, call("t1", "bash"))
	l.Put(piper, prod, call("t2", "bash"))
	l.Put(operator, prod, &events.OutcomeRecorded{What: "seen", Source: "operator_report", EvidenceIDs: []string{"ev1"}})
	c := claim("c", "hypothesis")
	c.EvidenceIDs = []string{"t1", "t2", "ev1", "ev2", "t3"}
	c.CompetingIDs = []string{"d"}
	l.Put(piper, prod, c) // 6
	l.Put(dispatcher, prod, call("t3", "bash"))
	l.Put(worker, prod, claim("c", "asserted"))                                                           // a repeat
	l.Put(piper, prod, &events.ClaimRevised{ClaimID: "c", OldStatus: "asserted", NewStatus: "retracted"}) // 9: not its status
	asserted := l.Put(piper, prod, &events.ClaimRevised{ClaimID: "c", OldStatus: "hypothesis", NewStatus: "asserted", TriggerEvidenceID: ptr("t3")})
	l.Put(piper, prod, &events.ClaimRevised{ClaimID: "none", OldStatus: "hypothesis", NewStatus: "asserted"}) // 11
	l.Put(piper, prod, prediction("p", "c", 0.9))
	l.Put(piper, prod, prediction("q", "none", 0.9)) // 13
	l.Put(operator, "sandbox", &events.FixRechecked{ClaimID: "c", Result: "confirmed", Source: "operator_report", Direct: true})
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: "inconclusive", Source: "instrument"})
	l.Put(operator, prod, &events.OutcomeRecorded{What: "restarted", Source: "record", ClaimID: ptr("c")})
	fold(t, l, func(s *projector.State) {
		got := must[*view.Claim](t)(view.GetClaim(s, prod, "c"))
		if got.Status != "asserted" || got.AssertedSeq != asserted || got.RecordedStatus != "hypothesis" || got.Principal != piper ||
			got.Repeats != 1 || got.Revisions != 1 || got.Predictions != 1 || got.Rechecks != 2 || got.Outcomes != 1 {
			t.Errorf("%+v", got)
		}
		if got.Recheck == nil || got.Recheck.Result != "confirmed" || !got.Recheck.Direct {
			t.Errorf("an inconclusive recheck replaced a conclusive one: %+v", got.Recheck)
		}
		h := must[view.ClaimHistory](t)(view.GetClaimHistory(s, got))
		if want := []string{"t2", "ev2", "t3"}; !reflect.DeepEqual(h.Undelivered, want) {
			t.Errorf("undelivered %q, want %q", h.Undelivered, want)
		}
		if len(h.Revisions) != 1 || len(h.Predictions) != 1 || h.Predictions[0].PredID != "p" || len(h.Rechecks) != 2 || len(h.Outcomes) != 1 {
			t.Errorf("%+v", h)
		}
		if got := fmt.Sprint(orphans(t, s, view.Claims, prod)); got != "[8 c status 10 none unknown 12 none unknown]" {
			t.Errorf("orphans %s", got)
		}
	})
}
