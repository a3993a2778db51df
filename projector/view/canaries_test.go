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

func TestCanaries(t *testing.T) {
	l := ledgertest.New()
	start := func(who, id string) {
		l.Put(who, prod, &events.CanaryStarted{CanaryID: id, Policy: "p", Actions: []events.CanaryAction{{Tool: "x", Reversible: true}}, CapPerWeek: 5, Criteria: []events.CanaryCriterion{{Metric: "correctness_violation"}}})
	}
	callIt := func(ns, id, status string) {
		d := call(id, "x")
		d.Status = status
		l.Put(dispatcher, ns, d)
	}
	callIt("canary", "before", "ok")
	start(operator, "a")
	start(operator, "b") // while a runs
	start(piper, "c")
	callIt("canary", "1", "ok")
	callIt("canary", "1", "ok") // the same call
	callIt("canary", "2", "denied")
	callIt(prod, "3", "ok")
	l.Put("logger/main", prod, &events.WeekClosed{Week: "2026-W40", Zone: "UTC", Start: "2026-09-28T00:00:00Z", End: "2026-10-05T00:00:00Z"})
	callIt("canary", "4", "failed")
	roll := func(who, id, rule string) ledger.Seq {
		return l.Put(who, prod, &events.RollbackTriggered{CanaryID: id, Rule: rule, Reason: "because", Value: ptr(3.0), CutSeq: ptr(uint64(7)), EvidenceSeqs: []uint64{6, 7}})
	}
	roll(resolver, "a", "action_not_listed")
	roll(operator, "a", "operator")
	roll(piper, "a", "operator")
	ghost := roll(resolver, "ghost", "operator")
	start(operator, "a") // used
	start(operator, "d")
	callIt("canary", "5", "ok")
	l.Put(operator, prod, &events.CanaryEnded{CanaryID: "d", Reason: "accepted"})
	l.Put(operator, prod, &events.CanaryEnded{CanaryID: "a", Reason: "accepted"}) // it was over
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		err := view.ListCanaries(s, func(c *view.Canary) error {
			got[c.CanaryID] = fmt.Sprintf("%s %d/%d, %d, repeats %d", c.State, c.ThisWeek, c.Executed, c.Rollbacks, c.Repeats)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a": "rolled_back 1/2, 2, repeats 1", "b": "refused 0/0, 0, repeats 0", "d": "ended 1/1, 0, repeats 0"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		c := must[view.Found](t)(view.Find(s, "a")).Canaries[0]
		if len(c.Triggered) != 2 || c.Triggered[0].Rule != "action_not_listed" || *c.Triggered[0].Value != 3 || *c.Triggered[0].CutSeq != 7 || c.Ended != nil {
			t.Errorf("%+v", c)
		}
		if got := must[view.Found](t)(view.Find(s, "ghost")).Canaries; got != nil {
			t.Errorf("%+v", got)
		}
		if o := orphans(t, s, view.Canaries, prod); !slices.Equal(o, []string{fmt.Sprintf("%d ghost unknown", ghost)}) {
			t.Errorf("orphans %v", o)
		}
		if len(parked(t, s)) != 2 {
			t.Errorf("parked %v", parked(t, s))
		}
		for kind, want := range map[string]int{"canaries": 3, "weeks": 1, "orphans": 1, "audits": 0, "shadow": 0, "queries": 0, "hypotheses": 0, "scans": 0} {
			n := 0
			if err := view.List(s, kind, prod, func(any) error { n++; return nil }); err != nil || n != want {
				t.Errorf("%d %s, %v", n, kind, err)
			}
		}
		if f := must[view.Found](t)(view.Find(s, "d")); f.Empty() || len(f.Canaries) != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// TestCanaryCallsByBestWitness: a call was let run if its best witness says so, and it
// was made when the first was heard.
func TestCanaryCallsByBestWitness(t *testing.T) {
	l := ledgertest.New()
	tell := func(id, capture, status string) {
		d := toldBy(capture, "x", status)
		d.ToolCallID = id
		l.Put(dispatcher, "canary", d, ledgertest.Episode("e"))
	}
	start := func(id string) {
		l.Put(operator, prod, &events.CanaryStarted{CanaryID: id, Policy: "p", CapPerWeek: 5, Criteria: []events.CanaryCriterion{{Metric: "correctness_violation"}}})
	}
	tell("before", "hook", "ok")
	tell("denied before", "hook", "ok")
	start("a")
	tell("before", "", "ok") // is no call of a's
	tell("denied before", "", "denied")
	tell("denied", "", "denied")
	tell("denied", "hook", "ok")
	tell("ran", "hook", "denied")
	tell("ran", "", "ok")
	tell("late", "otlp", "ok")
	l.Put(operator, prod, &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
	start("b")
	tell("late", "hook", "denied")
	tell("b's", "", "ok")
	fold(t, l, func(s *projector.State) {
		var got []string
		err := view.ListCanaries(s, func(c *view.Canary) error {
			got = append(got, fmt.Sprint(c.CanaryID, " ", c.CallsBefore, " ", c.Executed))
			return nil
		})
		if want := []string{"a 1 1", "b 2 1"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	})
}

// TestCanariesGoByTheCut: the resolver was down while the operator went on, and
// says afterwards what had happened before.
func TestCanariesGoByTheCut(t *testing.T) {
	l := ledgertest.New()
	start := func(id string) {
		l.Put(operator, prod, &events.CanaryStarted{CanaryID: id, Policy: "p", Actions: []events.CanaryAction{{Tool: "x", Reversible: true}}, CapPerWeek: 5, Criteria: []events.CanaryCriterion{{Metric: "correctness_violation"}}})
	}
	callIt := func(id string) { l.Put(dispatcher, "canary", call(id, "x")) }
	end := func(id string) { l.Put(operator, prod, &events.CanaryEnded{CanaryID: id, Reason: "accepted"}) }
	roll := func(who, id, rule string, cut uint64) {
		l.Put(who, prod, &events.RollbackTriggered{CanaryID: id, Rule: rule, Reason: "because", CutSeq: &cut})
	}
	start("z") // 1
	callIt("1")
	callIt("2") // 3: breaks z's bounds
	end("z")    // 4: it is over already
	start("y")  // 5
	callIt("3") // 6
	callIt("2") // 7: nothing new, whichever canary runs
	start("x")  // 8: while y runs, as it seems
	callIt("4") // 9
	end("x")    // 10
	start("w")  // 11: x, which ran behind y, is over
	callIt("5") // 12
	roll(resolver, "z", "action_after_rollback", 9)
	roll(resolver, "z", "action_not_listed", 3)
	roll(resolver, "y", "action_not_listed", 6)
	roll(operator, "w", "operator", 2) // a person decides now, whatever record is named
	fold(t, l, func(s *projector.State) {
		var got []string
		err := view.ListCanaries(s, func(c *view.Canary) error {
			got = append(got, fmt.Sprintf("%s %s@%d %v %d", c.CanaryID, c.State, c.RolledBack, c.Ended != nil, c.Executed))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"z rolled_back@3 false 2", "y rolled_back@6 false 1", "x ended@0 true 1", "w rolled_back@16 false 1"}; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		z := must[view.Found](t)(view.Find(s, "z")).Canaries[0]
		if len(z.Triggered) != 2 || *z.Triggered[0].CutSeq != 3 || *z.Triggered[1].CutSeq != 9 {
			t.Errorf("%+v", z.Triggered)
		}
	})
}

// TestImportedCanary: a canary and the import of one of its id have each their own
// rollbacks.
func TestImportedCanary(t *testing.T) {
	l := ledgertest.New()
	imported := events.Context{Capture: ptr("imported")}
	for _, c := range []events.Context{{}, imported} {
		l.Put("operator/main", prod, &events.CanaryStarted{Context: c, CanaryID: "a", Policy: "p", CapPerWeek: 1})
	}
	l.Put("operator/main", prod, &events.RollbackTriggered{Context: imported, CanaryID: "a", Rule: "before"})
	l.Put("operator/main", prod, &events.RollbackTriggered{CanaryID: "a", Rule: "operator"})
	fold(t, l, func(s *projector.State) {
		var got []string
		for _, c := range must[view.Found](t)(view.Find(s, "a")).Canaries {
			for _, v := range c.Triggered {
				got = append(got, fmt.Sprintf("%s imported %v", v.Rule, c.Imported))
			}
		}
		if want := []string{"operator imported false", "before imported true"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
