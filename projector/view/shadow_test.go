package view_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

func set(id string, ps ...float64) *events.HypothesesRecorded {
	d := &events.HypothesesRecorded{SetID: id}
	for i, p := range ps {
		a := events.Alternative{ID: fmt.Sprint("h", i), Edge: &events.AlternativeEdge{Cause: "a", Effect: "b"}}
		if p >= 0 {
			a.P = ptr(p)
		}
		d.Alternatives = append(d.Alternatives, a)
	}
	return d
}

func getCase(t *testing.T, s *projector.State, ns, id string) *view.ShadowCase {
	t.Helper()
	return must[*view.ShadowCase](t)(view.GetShadowCase(s, ns, id))
}

// TestHypothesesAreThoseBeforeTheClaim: an exact name beats the episode's order,
// and what comes later is hindsight.
func TestHypothesesAreThoseBeforeTheClaim(t *testing.T) {
	ep := ledgertest.Episode("ep")
	named := func(id, claim string) *events.HypothesesRecorded {
		d := set(id, 0.5, 0.5)
		d.ClaimID = ptr(claim)
		return d
	}
	asked := func(id, question string) *events.HypothesesRecorded {
		d := set(id, 0.5)
		d.QuestionID = ptr(question)
		return d
	}
	answering := claim("c", "asserted")
	answering.Context = answers("opp")
	for _, tt := range []struct {
		name  string
		build func(l *ledgertest.Ledger)
		set   string
		join  string
		later int64
	}{
		{"none", func(l *ledgertest.Ledger) { l.Put(piper, prod, claim("c", "asserted"), ep) }, "", "", 0},
		{"by the episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(worker, prod, set("2", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "2", "episode", 0},
		{"another episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ledgertest.Episode("other"))
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
		{"another namespace", func(l *ledgertest.Ledger) {
			l.Put(piper, "shadow", set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
		{"no episode", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5))
			l.Put(piper, prod, claim("c", "asserted"))
		}, "", "", 0},
		{"by the question", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, asked("1", "opp"))
			l.Put(piper, prod, set("2", 0.5), ep)
			l.Put(piper, prod, answering, ep)
		}, "1", "question", 0},
		{"by the claim", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, named("1", "c"))
			l.Put(piper, prod, asked("2", "opp"))
			l.Put(piper, prod, set("3", 0.5), ep)
			l.Put(piper, prod, answering, ep)
		}, "1", "claim", 0},
		{"the latest that names the claim", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, named("1", "c"))
			l.Put(piper, prod, named("2", "c"))
			l.Put(piper, prod, named("1", "c")) // a repeat is no other set
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "2", "claim", 0},
		{"later ones are counted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(piper, prod, named("2", "c"), ep)
			l.Put(piper, prod, named("3", "c"), ep)
		}, "1", "episode", 2},
		{"the first claim of an id counts", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(piper, prod, set("1", 0.5), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			tt.build(l)
			fold(t, l, func(s *projector.State) {
				c := getCase(t, s, prod, "c")
				got := ""
				if c.Hypotheses != nil {
					got = c.Hypotheses.SetID
				}
				if got != tt.set || c.Join != tt.join || c.LaterSets != tt.later {
					t.Errorf("set %q by %q, %d later", got, c.Join, c.LaterSets)
				}
			})
		})
	}
}

func TestMassOfHypotheses(t *testing.T) {
	other := func(d *events.HypothesesRecorded, p float64) *events.HypothesesRecorded { d.OtherP = &p; return d }
	for _, tt := range []struct {
		name    string
		d       *events.HypothesesRecorded
		mass    *float64
		unknown int
		over    bool
	}{
		{"none given", set("s", -1, -1), nil, 2, false},
		{"some given", set("s", 0.25, -1), ptr(0.25), 1, false},
		{"none listed", other(set("s", -1), 0), ptr(0.0), 1, false},
		{"one", other(set("s", 0.5, 0.25), 0.25), ptr(1.0), 0, false},
		{"one but for rounding", set("s", 0.1, 0.2, 0.3, 0.4), ptr(1.0), 0, false},
		{"over one", other(set("s", 0.5, 0.5), 0.001), ptr(1.001), 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Put(piper, prod, tt.d)
			fold(t, l, func(s *projector.State) {
				h := must[[]view.HypothesisSet](t)(view.FindHypotheses(s, "s"))[0]
				if (h.Mass == nil) != (tt.mass == nil) || h.Mass != nil && (*h.Mass-*tt.mass > 1e-12 || *tt.mass-*h.Mass > 1e-12) ||
					h.Unknown != tt.unknown || h.OverOne != tt.over {
					t.Errorf("%+v", h)
				}
			})
		})
	}
}

// TestEvidenceOfAClaim: only what was delivered before the claim counts, and
// only with the content that the claim pins.
func TestEvidenceOfAClaim(t *testing.T) {
	l := ledgertest.New()
	sha := func(c string) string { return strings.Repeat(c, 64) }
	deliver := func(id, content string) ledger.Seq {
		return l.Put(dispatcher, prod, &events.EvidenceDelivered{EvidenceID: id, SourceID: "src", SHA256: sha(content)})
	}
	first := deliver("twice", "a")
	second := deliver("twice", "b")
	deliver("twice", "a")
	l.Put(dispatcher, "shadow", &events.EvidenceDelivered{EvidenceID: "elsewhere", SourceID: "src", SHA256: sha("a")})
	called := l.Put(dispatcher, prod, call("call", "bash"))
	c := claim("c", "asserted")
	c.EvidenceIDs = []string{"twice", "later", "elsewhere", "call", "never", "twice"}
	c.EvidenceSnapshots = []events.EvidenceSnapshot{{EvidenceID: "twice", SHA256: sha("b")}, {EvidenceID: "later", SHA256: sha("a")}, {EvidenceID: "pinned", SHA256: sha("c")}}
	l.Put(piper, prod, c)
	deliver("later", "a")
	deliver("pinned", "c")
	l.Put(piper, prod, &events.EvidenceDelivered{EvidenceID: "own", SourceID: "src", SHA256: sha("a")})
	fold(t, l, func(s *projector.State) {
		var got []string
		for _, u := range getCase(t, s, prod, "c").Evidence {
			got = append(got, fmt.Sprintf("%s %d %v %d", u.EvidenceID, u.DeliveredSeq, u.SHA256 != nil, u.ContentSeq))
		}
		want := []string{
			fmt.Sprintf("twice %d true %d", first, second), "later 0 true 0", "elsewhere 0 false 0", fmt.Sprintf("call %d false 0", called), "never 0 false 0", "pinned 0 true 0",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		h := must[view.ClaimHistory](t)(view.GetClaimHistory(s, must[*view.Claim](t)(view.GetClaim(s, prod, "c"))))
		if !slices.Equal(h.Undelivered, []string{"later", "elsewhere", "never", "pinned"}) {
			t.Errorf("undelivered %v", h.Undelivered)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("claims/%d", l.Now().Sub(ledgertest.Start)/time.Second)}) {
			t.Errorf("parked %v", p)
		}
	})
}

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
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, resolved("p", "confirmed"))
		}, "apparent_success 3 prediction"},
		{"confirmed twice", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(piper, prod, prediction("q", "c", 0.9))
			l.Put(resolver, prod, resolved("q", "confirmed"))
			l.Put(resolver, prod, resolved("p", "confirmed"))
		}, "apparent_success 4 prediction"},
		{"one confirmed, one refuted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(piper, prod, prediction("q", "c", 0.9))
			l.Put(resolver, prod, resolved("q", "refuted"))
			l.Put(resolver, prod, resolved("p", "confirmed"))
		}, "apparent_success 5 prediction contradicted"},
		{"refuted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, resolved("p", "refuted"))
		}, "contradicted 3 prediction"},
		{"void", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, resolved("p", "void"))
		}, "open 0 "},
		{"unresolved", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, resolved("p", "unresolved"))
			l.Advance(10 * 24 * hour)
			l.Put(piper, prod, call("x", "bash"))
		}, "unresolved 3 prediction"},
		{"unresolved by age, before a prediction was", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Advance(10 * 24 * hour)
			l.Put(resolver, prod, resolved("p", "unresolved"))
		}, "unresolved 0 age"},
		{"a recheck held", func(l *ledgertest.Ledger) { l.Put(operator, prod, recheck("confirmed")) }, "apparent_success 2 recheck"},
		{"and no longer does", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, recheck("not_confirmed"))
		}, "contradicted 3 recheck"},
		{"an inconclusive one", func(l *ledgertest.Ledger) { l.Put(operator, prod, recheck("inconclusive")) }, "open 0 "},
		{"the agent's own word", func(l *ledgertest.Ledger) { l.Put(piper, prod, recheck("confirmed")) }, "open 0 "},
		{"amended", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Put(resolver, prod, amended(resolved("p", "refuted"), id, "late_telemetry"))
		}, "contradicted 4 prediction"},
		{"only reported to hold", func(l *ledgertest.Ledger) { l.Put(operator, prod, reportedly("confirmed")) }, "open 0 "},
		{"held, and was reported not to", func(l *ledgertest.Ledger) {
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(operator, prod, reportedly("not_confirmed"))
		}, "apparent_success 2 recheck"},
		{"an operator's report of a prediction", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, byReport("p", "confirmed", "operator"))
		}, "unresolved 3 prediction"},
		{"a sandbox's", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, byReport("p", "refuted", "sandbox"))
		}, "unresolved 3 prediction"},
		{"a report, then telemetry", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, byReport("p", "refuted", "operator"))
			l.Put(resolver, prod, amended(resolved("p", "confirmed"), id, "late_telemetry"))
		}, "apparent_success 4 prediction"},
		{"telemetry without an answer, then a report", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "unresolved"))
			l.Put(resolver, prod, amended(byReport("p", "confirmed", "operator"), id, "operator_report"))
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
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Put(resolver, prod, amended(resolved("p", "confirmed"), id, "corrected_telemetry"))
		}, "apparent_success 3 prediction"},
		{"amended by another engine", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			id2 := l.NextID()
			l.Put(resolver, prod, amended(resolved("p", "refuted"), id, "engine"))
			l.Put(resolver, prod, amended(resolved("p", "confirmed"), id2, "corrected_telemetry"))
		}, "apparent_success 3 prediction"},
		{"amended too late", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "unresolved"))
			id2 := l.NextID()
			l.Put(resolver, prod, amended(resolved("p", "refuted"), id, "late_telemetry"))
			l.Advance(events.AmendableFor + time.Hour)
			l.Put(resolver, prod, amended(resolved("p", "confirmed"), id2, "late_telemetry"))
		}, "contradicted 4 prediction"},
		{"another source upholds what the first no longer does", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(resolver, prod, amended(resolved("p", "refuted"), id, "late_telemetry"))
		}, "apparent_success 3 prediction contradicted"},
		{"another source takes it up after a break", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Put(resolver, prod, amended(resolved("p", "unresolved"), id, "late_telemetry"))
			l.Put(operator, prod, recheck("confirmed"))
		}, "apparent_success 5 recheck"},
		{"the last word falls away when it is old", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Advance(6 * 24 * hour)
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Advance(2 * 24 * hour)
			l.Put(resolver, prod, amended(resolved("p", "void"), id, "late_telemetry"))
		}, "unresolved 4 prediction"},
		{"and when it is young", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "c", 0.9))
			id := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed"))
			l.Put(resolver, prod, amended(resolved("p", "void"), id, "late_telemetry"))
		}, "open 4 prediction"},
		{"another's prediction of the same id", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, prediction("p", "", 0.9))
			l.Put(piper, prod, prediction("p", "c", 0.9))
			l.Put(resolver, prod, resolved("p", "confirmed"))
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

// TestQueries: a choice is never an execution, whatever the agent says of it.
func TestQueries(t *testing.T) {
	l := ledgertest.New()
	selectIt := func(id, chosen string) *events.QuerySelected {
		return &events.QuerySelected{QueryID: id, Chosen: chosen, Menu: []events.QueryOption{{Option: "look", ExpectedCost: ptr(2.0)}, {Option: "ask"}}}
	}
	execute := func(id, callID string) {
		l.Put(dispatcher, prod, &events.QueryExecuted{QueryID: id, ToolCallID: callID})
	}
	for _, id := range []string{"made", "idle", "nocall", "self", "denied"} {
		l.Put(piper, prod, selectIt(id, "look"))
	}
	l.Put(piper, prod, selectIt("offmenu", "guess"))
	l.Put(piper, prod, selectIt("made", "ask")) // the first choice counts
	l.Put(dispatcher, prod, call("c1", "bash"))
	execute("made", "c1")
	execute("made", "c1")
	execute("nocall", "c2")
	l.Put(piper, prod, call("c3", "bash"))
	execute("self", "c3")
	denied := call("c4", "bash")
	denied.Status = "denied"
	l.Put(dispatcher, prod, denied)
	execute("denied", "c4")
	unselected := l.Put(dispatcher, prod, &events.QueryExecuted{QueryID: "unselected", ToolCallID: "c1"})
	own := l.Put(piper, prod, &events.QueryExecuted{QueryID: "idle", ToolCallID: "c1"}) // no logger takes that
	fold(t, l, func(s *projector.State) {
		got := map[string]string{}
		err := view.ListQueries(s, prod, func(q *view.Query) error {
			what, err := view.CheckQuery(s, q)
			got[q.QueryID] = what
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{
			"made": view.Executed, "idle": view.NotExecuted, "nocall": view.ExecutedNoCall, "self": view.ExecutedNoCall, "denied": view.ExecutedDenied,
			"unselected": view.Executed, "offmenu": view.NotExecuted,
		} {
			if got[id] != want {
				t.Errorf("%s: %q, want %q", id, got[id], want)
			}
		}
		made := must[[]view.Query](t)(view.FindQuery(s, "made"))[0]
		if made.Selected.Chosen != "look" || made.Selected.Unlisted || made.Repeats != 2 || *made.Selected.Menu[0].ExpectedCost != 2 {
			t.Errorf("%+v %+v", made, made.Selected)
		}
		if !must[[]view.Query](t)(view.FindQuery(s, "offmenu"))[0].Selected.Unlisted {
			t.Error("a choice off the menu is not flagged")
		}
		if o := orphans(t, s, view.Queries, prod); !slices.Equal(o, []string{fmt.Sprintf("%d unselected unknown", unselected)}) {
			t.Errorf("orphans %v", o)
		}
		if p := parked(t, s); !slices.Equal(p, []string{fmt.Sprintf("queries/%d", own)}) {
			t.Errorf("parked %v", p)
		}
	})
}

func TestWeeksAndAudits(t *testing.T) {
	l := ledgertest.New()
	week := func(who, id string) ledger.Seq {
		return l.Put(who, prod, &events.WeekClosed{Week: id, Zone: "Europe/Berlin", Start: "2026-09-20T22:00:00Z", End: "2026-09-27T22:00:00Z"})
	}
	forged := week(piper, "2026-W38")
	closed := week("logger/main", "2026-W39")
	leaf := l.Leaf()
	week("logger/main", "2026-W39")
	broken := l.Put("logger/main", prod, &events.WeekClosed{Week: "2026-W40", Zone: "UTC"})
	sampled := func(who, ns string) ledger.Seq {
		return l.Put(who, prod, &events.AuditSampled{Week: "2026-W39", Namespace: ns, Method: "audit/1", Seed: leaf.String(), ClosedSeq: uint64(closed)})
	}
	own := sampled(piper, prod)
	first := sampled(operator, prod)
	sampled("operator/other", prod)
	sampled(operator, "shadow")
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
		c := must[*view.FoundCanary](t)(view.GetCanary(s, "a"))
		if len(c.Triggered) != 2 || c.Triggered[0].Rule != "action_not_listed" || *c.Triggered[0].Value != 3 || *c.Triggered[0].CutSeq != 7 || c.Ended != nil {
			t.Errorf("%+v", c)
		}
		if _, err := view.GetCanary(s, "ghost"); !errors.Is(err, kv.ErrNotFound) {
			t.Error(err)
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
		z := must[*view.FoundCanary](t)(view.GetCanary(s, "z"))
		if len(z.Triggered) != 2 || *z.Triggered[0].CutSeq != 3 || *z.Triggered[1].CutSeq != 9 {
			t.Errorf("%+v", z.Triggered)
		}
	})
}
