package view_test

import (
	"testing"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func TestImports(t *testing.T) {
	l := ledgertest.New()
	of := func(capture *string) *events.ToolCalled {
		return &events.ToolCalled{Context: events.Context{Capture: capture}, ToolCallID: l.NextID(), Tool: "bash", Status: "ok"}
	}
	l.Put(dispatcher, prod, of(ptr("live")))
	l.Put(piper, prod, of(ptr("hook")))
	l.Put(dispatcher, prod, of(nil))
	fold(t, l, func(s *projector.State) {
		if must[bool](t)(view.HasImports(s)) {
			t.Error("nothing was imported")
		}
	})
	l.Put(dispatcher, "bench/run", of(ptr("imported")))
	l.PutEvent(dispatcher, prod, []byte(`{"specversion":"1.0","id":"01920f5e-7b29-7d2a-8e3f-0a1b2c3d4e5f","source":"urn:x","type":"never.heard_of","data":{"context":{"capture":"imported"}}}`))
	fold(t, l, func(s *projector.State) {
		if !must[bool](t)(view.HasImports(s)) {
			t.Error("something was imported")
		}
		for seq, want := range []bool{false, false, false, false, true, false, false} {
			if got := must[bool](t)(view.IsImported(s, ledger.Seq(seq))); got != want {
				t.Errorf("record %d: %v", seq, got)
			}
		}
	})
}

func TestStatusBefore(t *testing.T) {
	l := ledgertest.New()
	revise := func(from, to string) {
		l.Put(piper, prod, &events.ClaimRevised{ClaimID: "c", OldStatus: from, NewStatus: to})
	}
	l.Put(piper, prod, call("t", "bash"))
	l.Put(piper, prod, claim("c", "hypothesis")) // 2
	revise("hypothesis", "asserted")             // 3
	revise("hypothesis", "retracted")            // 4: it is no longer one
	revise("asserted", "retracted")              // 5
	fold(t, l, func(s *projector.State) {
		c := must[*view.Claim](t)(view.GetClaim(s, prod, "c"))
		revisions := must[[]view.Revision](t)(view.RevisionsOf(s, c))
		for seq, want := range []string{"", "", "", "hypothesis", "asserted", "asserted", "retracted"} {
			if got := c.StatusBefore(ledger.Seq(seq), revisions); got != want {
				t.Errorf("before record %d: %q, want %q", seq, got, want)
			}
		}
	})
}

func TestRechecksThatDecide(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, claim("c", "asserted"))
	recheck := func(result string, direct bool) ledger.Seq {
		return l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: result, Source: "instrument", Direct: direct})
	}
	recheck("confirmed", false) // somebody said so
	recheck("inconclusive", true)
	want := []ledger.Seq{recheck("not_confirmed", true), recheck("confirmed", true)}
	fold(t, l, func(s *projector.State) {
		c := must[*view.Claim](t)(view.GetClaim(s, prod, "c"))
		got := must[[]view.Recheck](t)(view.RechecksOf(s, c))
		if len(got) != 2 || got[0].Seq != want[0] || got[1].Seq != want[1] {
			t.Errorf("%+v", got)
		}
	})
}
