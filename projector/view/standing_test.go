package view_test

import (
	"fmt"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

// amended is an amendment to what a resolution says.
func amended(r *events.PredictionResolved, supersedes, cause string) *events.PredictionResolutionAmended {
	return &events.PredictionResolutionAmended{
		PredID: r.PredID, Supersedes: supersedes, Cause: cause, Verdict: r.Verdict, Evidence: r.Evidence, Engine: "e", Foreknowledge: "none",
		Attribution: r.Attribution, Resolver: r.Resolver,
	}
}

func TestStanding(t *testing.T) {
	const hour = time.Hour
	recheck := func(result string) *events.FixRechecked {
		return &events.FixRechecked{ClaimID: "c", Result: result, Source: "instrument", Direct: true}
	}
	reportedly := func(result string) *events.FixRechecked {
		return &events.FixRechecked{ClaimID: "c", Result: result, Source: "operator_report"}
	}
	byReport := func(id, verdict, kind string) *events.PredictionResolved {
		d := resolved(id, verdict)
		d.Resolver.Kind = kind
		return d
	}
	predict := func(l *ledgertest.Ledger, ids ...string) {
		for _, id := range ids {
			l.Put(piper, prod, prediction(id, "c", 0.9))
		}
	}
	resolve := func(l *ledgertest.Ledger, d events.Payload) (eventID string) {
		eventID = l.NextID()
		l.Put(resolver, prod, d)
		return eventID
	}
	for _, tt := range []struct {
		name  string
		build func(l *ledgertest.Ledger) // record 1 is claim c
		want  string                     // status, record, by
	}{
		{"nothing", func(*ledgertest.Ledger) {}, "open 0 "},
		{"seven days later", func(l *ledgertest.Ledger) { l.Advance(7 * 24 * hour); l.Put(piper, prod, call("x", "bash")) }, "unresolved 0 age"},
		{"a moment before that", func(l *ledgertest.Ledger) {
			l.Advance(7*24*hour - 2*time.Second)
			l.Put(piper, prod, call("x", "bash"))
		}, "open 0 "},
		{"confirmed", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, resolved("p", "confirmed"))
		}, "apparent_success 3 prediction"},
		{"confirmed twice", func(l *ledgertest.Ledger) {
			predict(l, "p", "q")
			resolve(l, resolved("q", "confirmed"))
			resolve(l, resolved("p", "confirmed"))
		}, "apparent_success 4 prediction"},
		{"one confirmed, one refuted", func(l *ledgertest.Ledger) {
			predict(l, "p", "q")
			resolve(l, resolved("q", "refuted"))
			resolve(l, resolved("p", "confirmed"))
		}, "apparent_success 5 prediction contradicted"},
		{"refuted", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, resolved("p", "refuted"))
		}, "contradicted 3 prediction"},
		{"void", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, resolved("p", "void"))
		}, "open 0 "},
		{"unresolved", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, resolved("p", "unresolved"))
			l.Advance(10 * 24 * hour)
			l.Put(piper, prod, call("x", "bash"))
		}, "unresolved 3 prediction"},
		{"unresolved by age, before a prediction was", func(l *ledgertest.Ledger) {
			predict(l, "p")
			l.Advance(10 * 24 * hour)
			resolve(l, resolved("p", "unresolved"))
		}, "unresolved 0 age"},
		{"a recheck held", func(l *ledgertest.Ledger) { l.Put(operator, prod, recheck("confirmed")) }, "apparent_success 2 recheck"},
		{"and no longer does", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, recheck("not_confirmed"))
		}, "contradicted 3 recheck"},
		{"an inconclusive one", func(l *ledgertest.Ledger) { l.Put(operator, prod, recheck("inconclusive")) }, "open 0 "},
		{"the agent's own word", func(l *ledgertest.Ledger) { l.Put(piper, prod, recheck("confirmed")) }, "open 0 "},
		{"amended", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			resolve(l, amended(resolved("p", "refuted"), id, "late_telemetry"))
		}, "contradicted 4 prediction"},
		{"only reported to hold", func(l *ledgertest.Ledger) { l.Put(operator, prod, reportedly("confirmed")) }, "open 0 "},
		{"held, and was reported not to", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, reportedly("not_confirmed"))
		}, "apparent_success 2 recheck"},
		{"an operator's report of a prediction", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, byReport("p", "confirmed", "operator"))
		}, "unresolved 3 prediction"},
		{"a sandbox's", func(l *ledgertest.Ledger) {
			predict(l, "p")
			resolve(l, byReport("p", "refuted", "sandbox"))
		}, "unresolved 3 prediction"},
		{"a report, then telemetry", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, byReport("p", "refuted", "operator"))
			resolve(l, amended(resolved("p", "confirmed"), id, "late_telemetry"))
		}, "apparent_success 4 prediction"},
		{"telemetry without an answer, then a report", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "unresolved"))
			resolve(l, amended(byReport("p", "confirmed", "operator"), id, "operator_report"))
		}, "unresolved 3 prediction"},
		{"held again", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, recheck("inconclusive"))
			l.Put(operator, prod, recheck("confirmed"))
		}, "apparent_success 2 recheck"},
		{"held, did not, and held again", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, recheck("not_confirmed"))
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, recheck("confirmed"))
		}, "apparent_success 4 recheck"},
		{"confirmed again by an amendment", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			resolve(l, amended(resolved("p", "confirmed"), id, "corrected_telemetry"))
		}, "apparent_success 3 prediction"},
		{"amended by another engine", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			id2 := resolve(l, amended(resolved("p", "refuted"), id, "engine"))
			resolve(l, amended(resolved("p", "confirmed"), id2, "corrected_telemetry"))
		}, "apparent_success 3 prediction"},
		{"amended too late", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "unresolved"))
			id2 := resolve(l, amended(resolved("p", "refuted"), id, "late_telemetry"))
			l.Advance(events.AmendableFor + time.Hour)
			resolve(l, amended(resolved("p", "confirmed"), id2, "late_telemetry"))
		}, "contradicted 4 prediction"},
		{"another source upholds what the first no longer does", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			l.Put(operator, prod, recheck("confirmed"))
			resolve(l, amended(resolved("p", "refuted"), id, "late_telemetry"))
		}, "apparent_success 3 prediction contradicted"},
		{"another source takes it up after a break", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			resolve(l, amended(resolved("p", "unresolved"), id, "late_telemetry"))
			l.Put(operator, prod, recheck("confirmed"))
		}, "apparent_success 5 recheck"},
		{"the last word falls away when it is old", func(l *ledgertest.Ledger) {
			predict(l, "p")
			l.Advance(6 * 24 * hour)
			id := resolve(l, resolved("p", "confirmed"))
			l.Advance(2 * 24 * hour)
			resolve(l, amended(resolved("p", "void"), id, "late_telemetry"))
		}, "unresolved 4 prediction"},
		{"and when it is young", func(l *ledgertest.Ledger) {
			predict(l, "p")
			id := resolve(l, resolved("p", "confirmed"))
			resolve(l, amended(resolved("p", "void"), id, "late_telemetry"))
		}, "open 4 prediction"},
		{"another's prediction of the same id", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "", 0.9))
			predict(l, "p")
			resolve(l, resolved("p", "confirmed"))
		}, "open 0 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, claim("c", "asserted"))
			tt.build(l)
			fold(t, l, func(s *projector.State) {
				st := getCase(t, s, prod, "c").Standing
				got := fmt.Sprintf("%s %d %s", st.Status, st.Seq, st.By)
				if st.Contradicted {
					got += " contradicted"
				}
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if st.Seq > 0 && !st.Since.Equal(recordedAt(t, l, st.Seq)) {
					t.Errorf("since %v", st.Since)
				}
				if again := must[view.Standing](t)(view.StandingOf(s, must[*view.Claim](t)(view.GetClaim(s, prod, "c")))); again != st {
					t.Errorf("%+v by itself", again)
				}
			})
		})
	}
}

func recordedAt(t *testing.T, l *ledgertest.Ledger, seq ledger.Seq) time.Time {
	t.Helper()
	rec, err := ledger.ParseRecord(l.Body(seq))
	if err != nil {
		t.Fatal(err)
	}
	return rec.RecordedAt
}

// TestStandingOfPrediction: since when its present verdict has held.
func TestStandingOfPrediction(t *testing.T) {
	l := ledgertest.New()
	var ids []string
	put := func(id string, verdicts ...string) {
		l.Put(piper, prod, prediction(id, "", 0.9))
		for i, v := range verdicts {
			before := l.NextID()
			if i == 0 {
				l.Put(resolver, prod, resolved(id, v))
			} else {
				l.Put(resolver, prod, amended(resolved(id, v), ids[len(ids)-1], "late_telemetry"))
			}
			ids = append(ids, before)
		}
	}
	put("open")                                                // 1
	put("void", "void")                                        // 2
	put("kept", "confirmed", "confirmed")                      // 4
	put("turned", "confirmed", "refuted", "refuted")           // 7
	put("back", "confirmed", "unresolved", "confirmed")        // 11
	put("undecided", "unresolved", "unresolved", "unresolved") // 15
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]string{
			"open": "open 0", "void": "void 3", "kept": "apparent_success 5", "turned": "contradicted 9", "back": "apparent_success 14", "undecided": "unresolved 16",
		} {
			st := must[view.Standing](t)(view.StandingOfPrediction(s, must[*view.Prediction](t)(view.GetPrediction(s, prod, id))))
			if got := fmt.Sprint(st.Status, " ", st.Seq); got != want || st.Seq > 0 && !st.Since.Equal(recordedAt(t, l, st.Seq)) {
				t.Errorf("%s: %s since %v, want %s", id, got, st.Since, want)
			}
		}
	})
}

func TestPredictionOnNoClaim(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, prediction("early", "c", 0.9)) // before the claim that it names
	l.Put(piper, prod, claim("c", "asserted"))
	l.Put(piper, prod, prediction("on", "c", 0.9))
	l.Put(piper, prod, prediction("none", "", 0.9))
	l.Put(piper, prod, prediction("ghost", "nothing", 0.9))
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]bool{"early": false, "on": true, "none": false, "ghost": false} {
			p := must[*view.Prediction](t)(view.GetPrediction(s, prod, id))
			if got := must[bool](t)(view.OnClaim(s, p)); got != want {
				t.Errorf("%s: %v", id, got)
			}
		}
	})
}
