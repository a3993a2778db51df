package view_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func conflict(id, left, right string) *events.ContradictionDetected {
	return &events.ContradictionDetected{
		ContradictionID: id, Left: events.ContradictionSide{Kind: "belief", ID: left}, Right: events.ContradictionSide{Kind: "evidence", ID: right},
	}
}

func resolves(id, how string, evidence ...string) *events.ContradictionResolved {
	return &events.ContradictionResolved{ContradictionID: id, Resolution: how, EvidenceIDs: evidence}
}

// TestContradictions: where a contradiction stands, and what its closings are
// worth. Each starts as (1); the evidence e1 is delivered at (2).
func TestContradictions(t *testing.T) {
	owned := func(revisit *string) events.Payload {
		return &events.ContradictionOwned{ContradictionID: "c", Owner: "piper", RevisitBy: revisit}
	}
	looked := &events.ContradictionInvestigated{ContradictionID: "c", EvidenceIDs: []string{"e1"}}
	open := func(cause string, revisit *string, evidence ...string) events.Payload {
		return &events.ContradictionUnresolved{ContradictionID: "c", Cause: cause, RevisitBy: revisit, EvidenceIDs: evidence}
	}
	scoped := &events.ContradictionScoped{ContradictionID: "c", LeftScope: "host a", RightScope: "host b", EvidenceIDs: []string{"e1"}}
	past, future := ptr("2026-10-01T00:00:03Z"), ptr("2027-01-01T00:00:00Z")
	type step struct {
		who string
		d   events.Payload
	}
	for _, tt := range []struct {
		name string
		then []step
		want string // state, what verifies it, false closings, reopened
	}{
		{"detected", nil, "detected open - 0 0"},
		{"owned", []step{{piper, owned(future)}}, "owned open - 0 0"},
		{"owned, with no date", []step{{piper, owned(nil)}}, "owned open - 0 0"},
		{"investigated", []step{{piper, owned(future)}, {piper, looked}}, "investigated open - 0 0"},
		{"resolved by delivered evidence", []step{{piper, resolves("c", "left_holds", "e1")}}, "resolved - evidence 0 0"},
		{"resolved by an operator's evidence", []step{{operator, resolves("c", "left_holds", "e9")}}, "resolved - operator 0 0"},
		{"resolved by an operator without any", []step{{operator, resolves("c", "left_holds")}}, "resolved - - 1 0"},
		{"resolved without evidence", []step{{piper, resolves("c", "left_holds")}}, "resolved - - 1 0"},
		{"by what nobody delivered", []step{{piper, resolves("c", "left_holds", "e9")}}, "resolved - - 1 0"},
		{"by what was delivered later", []step{{piper, resolves("c", "left_holds", "e2")}, {dispatcher, &events.EvidenceDelivered{EvidenceID: "e2", SHA256: hash64}}}, "resolved - - 1 0"},
		{"by a side of the conflict", []step{
			{dispatcher, &events.EvidenceDelivered{EvidenceID: "r", SHA256: hash64}}, {piper, resolves("c", "right_holds", "r")},
		}, "resolved - - 1 0"},
		{"by a call that only the agent tells of", []step{{piper, call("mine", "bash")}, {piper, resolves("c", "left_holds", "mine")}}, "resolved - - 1 0"},
		{"by a call that the dispatcher saw", []step{{dispatcher, call("t", "bash")}, {piper, resolves("c", "left_holds", "t")}}, "resolved - evidence 0 0"},
		{"by an observed outcome", []step{
			{resolver, &events.OutcomeRecorded{What: "x", Source: "instrument", EvidenceIDs: []string{"o"}}}, {piper, resolves("c", "left_holds", "o")},
		}, "resolved - evidence 0 0"},
		{"the same again, with evidence", []step{{piper, resolves("c", "left_holds")}, {piper, resolves("c", "left_holds", "e1")}}, "resolved - evidence 1 0"},
		{"the same again, without", []step{{piper, resolves("c", "left_holds", "e1")}, {piper, resolves("c", "left_holds")}}, "resolved - evidence 1 0"},
		{"otherwise", []step{{piper, resolves("c", "left_holds", "e1")}, {piper, resolves("c", "right_holds", "e1")}}, "resolved - evidence 1 1"},
		{"detected again", []step{{piper, resolves("c", "left_holds", "e1")}, {piper, conflict("c", "l", "r")}}, "detected open - 1 1"},
		{"taken on again", []step{{piper, resolves("c", "left_holds", "e1")}, {operator, owned(nil)}}, "owned open - 1 1"},
		{"looked into again", []step{{piper, resolves("c", "left_holds", "e1")}, {operator, looked}}, "resolved - evidence 0 0"},
		{"reopened and closed for good", []step{
			{piper, resolves("c", "left_holds", "e1")}, {piper, conflict("c", "l", "r")}, {piper, resolves("c", "left_holds", "e1")},
		}, "resolved - evidence 1 1"},
		{"the pair detected under another id", []step{{piper, resolves("c", "left_holds", "e1")}, {piper, &events.ContradictionDetected{
			ContradictionID: "d", Left: events.ContradictionSide{Kind: "evidence", ID: "r"}, Right: events.ContradictionSide{Kind: "belief", ID: "l"},
		}}}, "resolved - evidence 1 1"},
		{"another pair", []step{{piper, resolves("c", "left_holds", "e1")}, {piper, conflict("d", "l", "other")}}, "resolved - evidence 0 0"},
		{"scoped", []step{{piper, scoped}}, "scoped - evidence 0 0"},
		{"left open", []step{{piper, open("evidence_unavailable", nil)}}, "unresolved open - 0 0"},
		{"left open, with reason", []step{{piper, open("evidence_insufficient", future, "e1")}}, "unresolved open evidence 0 0"},
		{"expired, by its record", []step{{piper, open("expired", nil, "e1")}}, "unresolved open - 0 0"},
		{"expired, in ledger time", []step{{piper, owned(past)}, {piper, call("later", "bash")}}, "unresolved expired - 0 0"},
		{"expired while it was looked into", []step{{piper, owned(past)}, {piper, looked}, {piper, call("later", "bash")}}, "unresolved expired - 0 0"},
		{"the bound was moved", []step{{piper, owned(past)}, {piper, owned(future)}}, "owned open - 0 0"},
		{"the bound was lifted", []step{{piper, owned(past)}, {piper, open("deferred", nil)}}, "unresolved open - 0 0"},
		{"resolved after it had expired", []step{{piper, owned(past)}, {piper, call("x", "bash")}, {piper, resolves("c", "left_holds", "e1")}}, "resolved - evidence 0 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, conflict("c", "l", "r"))
			l.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: "e1", SHA256: hash64})
			for _, st := range tt.then {
				l.Put(st.who, prod, st.d)
			}
			fold(t, l, func(s *projector.State) {
				c := must[[]view.FoundContradiction](t)(view.FindContradiction(s, "c"))[0]
				state, by := "-", "-"
				switch {
				case c.Expired:
					state = "expired"
				case c.Open:
					state = "open"
				}
				if c.Verified {
					by = c.VerifiedBy
				}
				if got := fmt.Sprintf("%s %s %s %d %d", c.State, state, by, c.FalseClosings, c.Reopened); got != tt.want {
					t.Errorf("%s, want %s\n%+v", got, tt.want, c)
				}
				n := 0
				if err := view.ListContradictions(s, prod, func(v *view.Contradiction) error {
					if v.ContradictionID == "c" {
						n++
						if v.State != c.State || v.Verified != c.Verified || v.FalseClosings != c.FalseClosings {
							t.Errorf("listed as %+v", v)
						}
					}
					return nil
				}); err != nil || n != 1 {
					t.Errorf("listed %d times, %v", n, err)
				}
			})
		})
	}
}

func TestContradictionFacts(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, "sandbox", conflict("c", "l", "r"))
	l.Put(piper, "sandbox", conflict("c", "l", "r"))   // told again
	l.Put(piper, "sandbox", conflict("dup", "l", "r")) // the same, under another id
	l.Advance(48 * time.Hour)
	l.Put(operator, prod, &events.ContradictionOwned{ContradictionID: "c", Owner: "op", Priority: ptr("high"), NextAction: ptr("look")})
	l.Put(piper, "sandbox", &events.ContradictionOwned{ContradictionID: "c", Owner: "piper", RevisitBy: ptr("2026-10-03T00:00:10Z")})
	l.Put(piper, "sandbox", resolves("c", "no_conflict"))
	l.Advance(time.Hour)
	l.Put(piper, "sandbox", resolves("nobody", "no_conflict"))        // 7: an orphan
	l.Put(piper, prod, resolves("c", "no_conflict"))                  // 8: an agent acts in its own
	l.Put(dispatcher, "sandbox", resolves("dup", "no_conflict"))      // 9: no logger takes that
	l.Put(piper, "sandbox", resolves("c", "no_conflict", "anything")) // 10: late
	fold(t, l, func(s *projector.State) {
		c := must[[]view.FoundContradiction](t)(view.FindContradiction(s, "c"))[0]
		if c.Namespace != "sandbox" || *c.Owner != "piper" || *c.Priority != "high" || *c.NextAction != "look" || c.Repeats != 1 {
			t.Errorf("%+v", c)
		}
		if c.AgeSeconds != 48*3600+5 { // until record 6, five records behind the first
			t.Errorf("age %d", c.AgeSeconds)
		}
		if len(c.Steps) != 4 || c.Steps[2].Late || !c.Steps[3].Late || c.Steps[3].Evidence[0].DeliveredSeq != 0 {
			t.Errorf("%+v", c.Steps)
		}
		d := must[[]view.FoundContradiction](t)(view.FindContradiction(s, "dup"))[0]
		if *d.DuplicateOf != "c" || d.Reopens != nil || d.AgeSeconds != 49*3600+7 {
			t.Errorf("%+v", d)
		}
		if o := append(orphans(t, s, view.Contradictions, prod), orphans(t, s, view.Contradictions, "sandbox")...); !slices.Equal(o, []string{"8 c unknown", "7 nobody unknown"}) {
			t.Errorf("orphans %q", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{"contradictions/9"}) {
			t.Errorf("parked %v", p)
		}
	})
}
