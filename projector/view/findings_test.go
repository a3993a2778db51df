package view_test

import (
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestFindings(t *testing.T) {
	l := ledgertest.New()
	write := func(id string, claimSHA *string) {
		l.Put(piper, prod, &events.FindingWritten{FindingID: id, Claim: "x", ClaimSHA256: claimSHA})
	}
	deliverTo := func(id, injection string, tokens *int64) {
		l.Put(dispatcher, prod, &events.FindingDelivered{FindingID: id, InjectionID: injection, Tokens: tokens})
	}
	withhold := func(id, cause string, tokens *int64) {
		l.Put(dispatcher, prod, &events.FindingWithheld{FindingID: id, Cause: cause, ShadowTokens: tokens})
	}
	rate := func(who, id, rating string, injection, rater *string) ledger.Seq {
		return l.Put(who, prod, &events.FindingRated{FindingID: id, Rating: rating, InjectionID: injection, Rater: rater})
	}
	write("good", ptr(hash64))
	write("bad", nil)
	write("again", ptr(hash64))
	write("good", nil) // the first counts
	write("fresh", nil)
	deliverTo("good", "i1", ptr(int64(100)))
	deliverTo("bad", "i1", ptr(int64(40))) // one injection, two findings
	deliverTo("good", "i2", nil)
	deliverTo("good", "i1", ptr(int64(999))) // told again
	withhold("good", "holdout", ptr(int64(70)))
	withhold("good", "holdout", nil)
	withhold("good", "budget", ptr(int64(5)))
	rate(piper, "good", "helpful", ptr("i1"), nil)
	rate(operator, "good", "harmful", ptr("i2"), ptr("ann"))
	rate(piper, "bad", "harmful", ptr("i1"), nil)
	rate(piper, "bad", "harmful", ptr("i1"), nil) // the same rater on the same delivery
	deliverTo("bad", "i3", nil)                   // still allowed
	second := rate(operator, "bad", "harmful", nil, ptr("ann"))
	rate(operator, "bad", "harmful", ptr("i9"), ptr("ann")) // of a delivery that there was not
	deliverTo("bad", "i4", ptr(int64(1)))                   // a breach
	rate(operator, "bad", "helpful", nil, ptr("bob"))       // takes nothing back
	old := rate(piper, "old", "harmful", nil, nil)          // of before the ledger
	l.Put(piper, prod, &events.FindingDelivered{FindingID: "good", InjectionID: "i7"})
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		if err := view.ListFindings(s, prod, func(f *view.Finding) error {
			got[f.FindingID] = fmt.Sprintf("%d/%d for %s, withheld %v %s, helpful %v harmful %v, quarantined %d, of %s, repeats %d",
				f.Deliveries, f.AfterQuarantine, f.Tokens, f.Withheld, f.ShadowTokens, f.Helpful, f.Harmful, f.QuarantinedSeq, str(f.DuplicateOf), f.Repeats)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{
			"good":  "2/0 for 100 (known for 1 of 2), withheld map[budget:1 holdout:2] 70 (known for 1 of 2), helpful {0 1} harmful {1 0}, quarantined 0, of ?, repeats 2",
			"bad":   fmt.Sprintf("3/1 for 41 (known for 2 of 3), withheld map[] unknown (known for 0 of 0), helpful {1 0} harmful {2 1}, quarantined %d, of ?, repeats 1", second),
			"again": "0/0 for unknown (known for 0 of 0), withheld map[] unknown (known for 0 of 0), helpful {0 0} harmful {0 0}, quarantined 0, of good, repeats 0",
			"fresh": "0/0 for unknown (known for 0 of 0), withheld map[] unknown (known for 0 of 0), helpful {0 0} harmful {0 0}, quarantined 0, of ?, repeats 0",
			"old":   "0/0 for unknown (known for 0 of 0), withheld map[] unknown (known for 0 of 0), helpful {0 0} harmful {0 1}, quarantined 0, of ?, repeats 0",
		} {
			if got[id] != want {
				t.Errorf("%s: %s\nwant %s", id, got[id], want)
			}
		}
		var undelivered []string
		if err := view.ListRatings(s, prod, func(r *view.Rating) error {
			if r.Undelivered {
				undelivered = append(undelivered, r.FindingID+" "+str(r.InjectionID))
			}
			return nil
		}); err != nil || !slices.Equal(undelivered, []string{"bad i9"}) {
			t.Errorf("%q %v", undelivered, err)
		}
		f := must[[]view.FoundFinding](t)(view.FindFinding(s, "bad"))
		if len(f) != 1 || len(f[0].Ratings) != 4 || f[0].Written == nil {
			t.Errorf("%+v", f) // it stays in the record
		}
		if f := must[[]view.FoundFinding](t)(view.FindFinding(s, "old")); f[0].Written != nil {
			t.Errorf("%+v", f)
		}
		if o := orphans(t, s, view.Findings, prod); !slices.Equal(o, []string{fmt.Sprintf("%d old unknown", old)}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("findings/%d", old+1)}) {
			t.Errorf("parked %v", p)
		}
	})
}
