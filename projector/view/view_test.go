package view_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

const (
	piper      = "agent/piper"
	worker     = "agent/worker"
	detector   = "detector/main"
	dispatcher = "dispatcher/main"
	resolver   = "resolver/main"
	operator   = "operator/op"
	prod       = "production"
	hash64     = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"
)

func ptr[T any](v T) *T { return &v }

// fold runs the ledger through all views, with tiny commits, and hands them over.
func fold(t *testing.T, l *ledgertest.Ledger, fn func(s *projector.State)) {
	t.Helper()
	db, err := kv.Open(t.TempDir(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	err = r.View(func(s *projector.State) error { fn(s); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func parked(t *testing.T, s *projector.State) (out []string) {
	t.Helper()
	if err := s.Parked(func(p projector.Parked) error {
		out = append(out, fmt.Sprintf("%s/%d", p.Projection, p.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func orphans(t *testing.T, s *projector.State, projection, ns string) (out []string) {
	t.Helper()
	if err := view.Orphans(s, projection, ns, func(o *view.Orphan) error {
		out = append(out, fmt.Sprintf("%d %s %s", o.Seq, o.ID, o.Reason))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func opportunity(id string) *events.OpportunityDetected {
	return &events.OpportunityDetected{OpportunityID: id, Kind: "why", Component: "worker", DetectorVersion: "1", TextSpanHash: hash64}
}

func call(id, tool string) *events.ToolCalled {
	return &events.ToolCalled{ToolCallID: id, Tool: tool, Status: "ok"}
}

func answers(opp string) events.Context { return events.Context{OpportunityID: ptr(opp)} }

func claim(id, status string) *events.ClaimRecorded {
	return &events.ClaimRecorded{ClaimID: id, Status: status, Edge: &events.Edge{Rung: "intervention", Cause: "a", Effect: "b"}}
}

func prediction(id, claimID string, p float64) *events.PredictionRecorded {
	d := &events.PredictionRecorded{PredID: id, PredictedEffect: "x", P: p, Criterion: jsontext.Value(`{}`)}
	if claimID != "" {
		d.ClaimID = &claimID
	}
	return d
}

func resolved(id, verdict string) *events.PredictionResolved {
	return &events.PredictionResolved{
		PredID: id, Verdict: verdict, Evidence: events.ResolutionEvidence{Refs: []string{}, Digest: hash64}, Engine: "e",
		Foreknowledge: "none", Scorable: true, Attribution: events.Attribution{Kind: "temporal_only"},
	}
}

func TestRouting(t *testing.T) {
	ep := ledgertest.Episode("ep")
	denied := call("t", "causal")
	denied.Status = "denied"
	edges := call("t", "lookup")
	edges.ReturnedEdges = []events.ReturnedEdge{{Cause: "a", Effect: "b"}}
	exact := func(c events.Context, tool string) *events.ToolCalled {
		d := call("t-"+tool, tool)
		d.Context = c
		return d
	}
	graph := &events.GraphWritten{Op: "add", Cause: "a", Effect: "b"}
	tests := []struct {
		name      string
		build     func(l *ledgertest.Ledger)
		to, join  string
		selfWords bool
	}{
		{"nothing follows", func(l *ledgertest.Ledger) { l.Put(detector, prod, opportunity("o"), ep) }, "none", "", false},
		{"causal tool, exact", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, exact(answers("o"), "causal"))
		}, "causal_tool", "exact", false},
		{"counterfactual in the episode", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "counterfactual"), ep)
		}, "causal_tool", "episode", false},
		{"edges came back", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, edges, ep)
		}, "causal_tool", "episode", false},
		{"graph tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "graph_query"), ep)
		}, "graph", "episode", false},
		{"agent's own graph write", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, graph, ep)
		}, "graph", "episode", true},
		{"graph write, later seen by the dispatcher", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, graph, ep)
			l.Put(dispatcher, prod, graph, ep)
		}, "graph", "episode", false},
		{"prose", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
		}, "prose", "episode", true},
		{"prose and then the tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, claim("c", "asserted"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
		}, "causal_tool", "episode", false},
		{"exact beats a stronger episode join", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
			c := claim("c", "asserted")
			c.Context = answers("o")
			l.Put(piper, prod, c, ep)
		}, "prose", "exact", true},
		{"self-reported call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(piper, prod, exact(answers("o"), "causal"), ep)
		}, "none", "", false},
		{"denied call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, denied, ep)
		}, "none", "", false},
		{"other tool", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "bash"), ep)
		}, "none", "", false},
		{"before the opportunity", func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, call("t", "causal"), ep)
			l.Put(detector, prod, opportunity("o"), ep)
		}, "none", "", false},
		{"exact, before the detector reported", func(l *ledgertest.Ledger) {
			l.Put(dispatcher, prod, exact(answers("o"), "causal"), ep)
			l.Put(detector, prod, opportunity("o"), ep)
		}, "causal_tool", "exact", false},
		{"the later opportunity takes the episode's call", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(detector, prod, opportunity("o2"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ep)
		}, "none", "", false},
		{"another episode", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, prod, call("t", "causal"), ledgertest.Episode("ep2"))
		}, "none", "", false},
		{"another namespace's agent", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			g := *graph
			g.Context = answers("o")
			l.Put(piper, "sandbox", &g, ep)
		}, "none", "", false},
		{"another namespace's dispatcher, exact", func(l *ledgertest.Ledger) {
			l.Put(detector, prod, opportunity("o"), ep)
			l.Put(dispatcher, "sandbox", exact(answers("o"), "causal"), ep)
		}, "causal_tool", "exact", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			tt.build(l)
			fold(t, l, func(s *projector.State) {
				o := must[*view.Opportunity](t)(view.GetOpportunity(s, prod, "o"))
				self := o.Route != nil && o.Route.SelfReported
				if o.RoutedTo != tt.to || o.Join != tt.join || self != tt.selfWords {
					t.Errorf("routed to %q, join %q, self-reported %v", o.RoutedTo, o.Join, self)
				}
			})
		})
	}
}

func TestForbiddenRolesAreParked(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, prod, prediction("p", "", 0.5))
	l.Put(piper, prod, resolved("p", "confirmed"))                                      // 2
	l.Put(operator, prod, &events.PredictionArmed{PredID: "p", RegistrySHA256: hash64}) // 3
	l.Put(dispatcher, prod, &events.FixRechecked{ClaimID: "c", Result: "confirmed"})    // 4
	l.Put(piper, prod, opportunity("o"))                                                // 5
	l.Put(piper, prod, &events.ExperimentExecuted{ExpID: "e", ToolCallID: "t"})
	l.Put("harness/h", prod, opportunity("o2"))                                                        // 7
	l.Put("harness/h", "bench/r1", opportunity("o3"))                                                  // allowed
	l.Put(piper, prod, &events.IntakeRejected{Principal: piper, Code: "malformed", Size: 1, Count: 1}) // 9
	fold(t, l, func(s *projector.State) {
		want := []string{"claims/4", "experiments/6", "opportunities/5", "opportunities/7", "predictions/2", "predictions/3", "rejections/9"}
		if got := parked(t, s); !reflect.DeepEqual(got, want) {
			t.Errorf("parked %v, want %v", got, want)
		}
		if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, "p")); p.Final() != nil || p.State != "recorded" {
			t.Errorf("%+v", p)
		}
	})
}

func TestPredictionLifecycle(t *testing.T) {
	l := ledgertest.New()
	armed := func(id string, open time.Time) *events.PredictionArmed {
		return &events.PredictionArmed{PredID: id, RegistrySHA256: hash64, WindowOpen: events.FormatTime(open), WindowEnd: events.FormatTime(open.Add(time.Hour))}
	}
	for _, id := range []string{"early", "late", "back", "toolate", "twice", "amended", "engine", "note", "open", "twice"} {
		l.Put(piper, prod, prediction(id, "", 0.7))
	}
	l.Put(resolver, prod, armed("early", l.Now().Add(time.Hour)))
	l.Put(resolver, prod, armed("late", ledgertest.Start))
	l.Put(piper, prod, &events.PredictionWithdrawn{PredID: "back"})
	l.Put(resolver, prod, armed("toolate", l.Now().Add(time.Second)))
	l.Advance(time.Minute)
	l.Put(piper, prod, &events.PredictionWithdrawn{PredID: "toolate"})
	l.Put(worker, prod, &events.PredictionWithdrawn{PredID: "open"}) // not its own
	l.Put(resolver, prod, resolved("twice", "refuted"))
	l.Put(resolver, prod, resolved("twice", "confirmed"))
	amend := func(id, supersedes, cause, verdict string) {
		l.Put(resolver, prod, &events.PredictionResolutionAmended{PredID: id, Supersedes: supersedes, Cause: cause, Verdict: verdict, Scorable: true})
	}
	first := l.NextID()
	l.Put(resolver, prod, resolved("amended", "unresolved"))
	second := l.NextID()
	amend("amended", first, "late_telemetry", "confirmed")
	amend("amended", first, "late_telemetry", "refuted") // supersedes what is not the last
	amend("amended", second, "corrected_telemetry", "void")
	first = l.NextID()
	l.Put(resolver, prod, resolved("engine", "confirmed"))
	amend("engine", first, "engine", "refuted")
	first = l.NextID()
	l.Put(resolver, prod, resolved("note", "confirmed"))
	l.Advance(events.AmendableFor + time.Minute)
	amend("note", first, "late_telemetry", "refuted")
	amend("open", first, "late_telemetry", "refuted") // of nothing
	l.Put(resolver, prod, resolved("nobody", "confirmed"))

	fold(t, l, func(s *projector.State) {
		for _, tt := range []struct {
			id, state, verdict string
			promise            *bool
			duplicates         int64
		}{
			{"early", "armed", "", ptr(true), 0},
			{"late", "armed", "", ptr(false), 0},
			{"back", "withdrawn", "", nil, 0},
			{"toolate", "armed", "", ptr(true), 0},
			{"twice", "resolved", "refuted", nil, 1},
			{"amended", "amended", "void", nil, 0},
			{"engine", "resolved", "confirmed", nil, 0},
			{"note", "resolved", "confirmed", nil, 0},
			{"open", "recorded", "", nil, 0},
		} {
			p := must[*view.Prediction](t)(view.GetPrediction(s, prod, tt.id))
			verdict := ""
			if f := p.Final(); f != nil {
				verdict = f.Verdict
			}
			if p.State != tt.state || verdict != tt.verdict || !reflect.DeepEqual(p.Promise, tt.promise) || p.Duplicates != tt.duplicates {
				t.Errorf("%s: %+v", tt.id, p)
			}
		}
		if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, "twice")); p.Repeats != 1 {
			t.Errorf("repeats %d", p.Repeats)
		}
		if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, "note")); p.Notes != 1 {
			t.Errorf("notes %d", p.Notes)
		}
		if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, "toolate")); p.Withdrawn == nil || p.Withdrawn.Effective {
			t.Errorf("withdrawal after the window opened: %+v", p.Withdrawn)
		}
		var reasons []string
		for _, o := range orphans(t, s, view.Predictions, prod) {
			reasons = append(reasons, o[strings.Index(o, " ")+1:])
		}
		if want := []string{"open principal", "amended supersedes", "open unresolved", "nobody unknown"}; !reflect.DeepEqual(reasons, want) {
			t.Errorf("orphans %q, want %q", reasons, want)
		}
		var all []string
		if err := view.ListAmendments(s, prod, "amended", func(r *view.Resolution) error { all = append(all, r.Verdict); return nil }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(all) != "[confirmed void]" {
			t.Errorf("amendments %v", all)
		}
	})
}

// TestReports: what operators reported stands beside what telemetry said, and a
// later word of telemetry takes its place.
func TestReports(t *testing.T) {
	l := ledgertest.New()
	byOperator := events.ResolverIdentity{ID: resolver, Kind: "operator", Key: "U"}
	byTelemetry := events.ResolverIdentity{ID: resolver, Kind: "telemetry", Key: "U"}
	amend := func(id, supersedes, cause, verdict string, who events.ResolverIdentity) string {
		next := l.NextID()
		l.Put(resolver, prod, &events.PredictionResolutionAmended{PredID: id, Supersedes: supersedes, Cause: cause, Verdict: verdict, Resolver: who})
		return next
	}
	resolve := func(id, verdict string, who events.ResolverIdentity) string {
		next := l.NextID()
		r := resolved(id, verdict)
		r.Resolver = who
		r.Attribution = events.Attribution{Kind: "above_base_rate", Others: []uint64{}, Placebo: &events.Placebo{Windows: 7, Episodes: 2}}
		l.Put(resolver, prod, r)
		return next
	}
	for _, id := range []string{"atonce", "later", "overridden"} {
		l.Put(piper, prod, prediction(id, "", 0.5))
	}
	resolve("atonce", "confirmed", byOperator)
	amend("later", resolve("later", "unresolved", byTelemetry), "operator_report", "refuted", byOperator)
	second := amend("overridden", resolve("overridden", "unresolved", byTelemetry), "operator_report", "confirmed", byOperator)
	amend("overridden", second, "late_telemetry", "refuted", byTelemetry)
	fold(t, l, func(s *projector.State) {
		for _, tt := range []struct{ id, state, final, report string }{
			{"atonce", "resolved", "confirmed", "confirmed"},
			{"later", "amended", "unresolved", "refuted"},
			{"overridden", "amended", "refuted", ""},
		} {
			p := must[*view.Prediction](t)(view.GetPrediction(s, prod, tt.id))
			report := ""
			if p.Report != nil {
				report = p.Report.Verdict
			}
			if p.State != tt.state || p.Final().Verdict != tt.final || report != tt.report {
				t.Errorf("%s: %s, by telemetry %s, reported %q", tt.id, p.State, p.Final().Verdict, report)
			}
			if p.Final().IsReport() != (tt.id == "atonce") {
				t.Errorf("%s: a report %v", tt.id, p.Final().IsReport())
			}
			if r := p.Resolution; r.Attribution != "above_base_rate" || r.BaseRate == nil || r.BaseRate.Windows != 7 || r.Controls != nil {
				t.Errorf("%s: attribution %s %+v", tt.id, r.Attribution, r.BaseRate)
			}
		}
	})
}

// TestAmendedInTime: what counts is the cut, not when a resolver that was down
// came to write it.
func TestAmendedInTime(t *testing.T) {
	l := ledgertest.New()
	start := l.Now()
	for _, id := range []string{"in-time", "late"} {
		l.Put(piper, prod, prediction(id, "", 0.5))
		first := l.NextID()
		l.Put(resolver, prod, resolved(id, "confirmed"), ledgertest.At(start))
		l.Advance(30 * 24 * time.Hour)
		cut := start.Add(events.AmendableFor)
		if id == "late" {
			cut = cut.Add(1)
		}
		l.Put(resolver, prod, &events.PredictionResolutionAmended{PredID: id, Supersedes: first, Cause: "late_telemetry", Verdict: "refuted"}, ledgertest.At(cut))
	}
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]string{"in-time": "refuted", "late": "confirmed"} {
			if p := must[*view.Prediction](t)(view.GetPrediction(s, prod, id)); p.Final().Verdict != want {
				t.Errorf("%s: %s, want %s", id, p.Final().Verdict, want)
			}
		}
	})
}

// TestNamespaceOfReferred: the resolver has one namespace, predictions several.
func TestNamespaceOfReferred(t *testing.T) {
	l := ledgertest.New()
	l.Put(piper, "sandbox", prediction("only", "", 0.5))
	l.Put(piper, "sandbox", prediction("both", "", 0.5))
	inProd := l.NextID()
	l.Put(piper, prod, prediction("both", "", 0.5))
	l.Put(piper, "sandbox", prediction("two", "", 0.5))
	inCanary := l.NextID()
	l.Put(piper, "canary", prediction("two", "", 0.5))
	l.Put(resolver, prod, resolved("only", "confirmed"))
	l.Put(resolver, prod, resolved("both", "confirmed"))
	l.Put(resolver, prod, resolved("two", "refuted"))                                    // which?
	l.Put(resolver, prod, resolved("two", "confirmed"), ledgertest.CausedBy(inCanary))   // that one
	l.Put(resolver, "sandbox", resolved("both", "refuted"), ledgertest.CausedBy(inProd)) // a duplicate of production's
	l.Put(piper, prod, &events.PredictionWithdrawn{PredID: "only"})                      // an agent acts in its own
	fold(t, l, func(s *projector.State) {
		for _, tt := range []struct{ ns, id, state string }{
			{"sandbox", "only", "resolved"},
			{"sandbox", "both", "recorded"},
			{prod, "both", "resolved"},
			{"sandbox", "two", "recorded"},
			{"canary", "two", "resolved"},
		} {
			if p := must[*view.Prediction](t)(view.GetPrediction(s, tt.ns, tt.id)); p.State != tt.state || p.Namespace != tt.ns {
				t.Errorf("%s in %s: %+v", tt.id, tt.ns, p)
			}
		}
		if got := orphans(t, s, view.Predictions, prod); len(got) != 2 || !strings.HasSuffix(got[0], "two ambiguous") || !strings.HasSuffix(got[1], "only unknown") {
			t.Errorf("orphans %q", got)
		}
		if found := must[[]view.Prediction](t)(view.FindPrediction(s, "two")); len(found) != 2 || found[0].Namespace != "sandbox" {
			t.Errorf("%+v", found)
		}
	})
}

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

func TestExperiments(t *testing.T) {
	l := ledgertest.New()
	propose := func(id string) {
		l.Put(piper, prod, &events.ExperimentProposed{ExpID: id, Discriminates: []string{"c"}})
	}
	execute := func(id, callID string) {
		l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: id, ToolCallID: callID})
	}
	denied := call("denied", "bash")
	denied.Status = "denied"
	for _, id := range []string{"done", "idle", "nocall", "self", "denied", "later"} {
		propose(id)
	}
	l.Put(dispatcher, prod, call("t", "bash"))
	l.Put(piper, prod, call("mine", "bash"))
	l.Put(dispatcher, prod, denied)
	execute("done", "t")
	execute("done", "none") // the first counts
	execute("nocall", "none")
	execute("self", "mine")
	execute("denied", "denied")
	execute("later", "t2")
	l.Put(dispatcher, prod, call("t2", "bash"))
	execute("unproposed", "t")
	l.Put(resolver, prod, &events.ExperimentObserved{ExpID: "done", Observed: "fell"})
	fold(t, l, func(s *projector.State) {
		for id, want := range map[string]string{
			"done": view.Executed, "idle": view.NotExecuted, "nocall": view.ExecutedNoCall, "self": view.ExecutedNoCall,
			"denied": view.ExecutedDenied, "later": view.Executed, "unproposed": view.Executed,
		} {
			e := must[*view.Experiment](t)(view.GetExperiment(s, prod, id))
			if got := must[string](t)(view.CheckExecution(s, e)); got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
		}
		e := must[*view.Experiment](t)(view.GetExperiment(s, prod, "done"))
		if e.Observed == nil || e.Observed.Outcome != "fell" || e.Repeats != 1 {
			t.Errorf("%+v", e)
		}
		if got := orphans(t, s, view.Experiments, prod); len(got) != 1 || !strings.HasSuffix(got[0], "unproposed unknown") {
			t.Errorf("orphans %q", got)
		}
	})
}

func TestEpisodes(t *testing.T) {
	l := ledgertest.New()
	gate := &events.GateChosen{Action: "KNOW"}
	put := func(who, n string) ledger.Seq {
		return l.Put(who, prod, gate, ledgertest.Episode("ep"), ledgertest.Sequence(n))
	}
	for _, n := range []string{"3", "4", "8", "6", "6", "4", "1", "x", "9"} {
		put(piper, n)
	}
	put(worker, "1") // another source's numbers are its own
	l.Put(piper, prod, gate, ledgertest.Episode("ep"), ledgertest.At(l.Now().Add(view.MaxSkew+time.Second)))
	last := l.Put(piper, prod, gate, ledgertest.Episode("ep"), ledgertest.At(l.Now().Add(view.MaxSkew)))
	l.Put(piper, prod, gate, ledgertest.At(l.Now().Add(time.Hour)))
	l.Put(piper, "sandbox", gate, ledgertest.Episode("ep"))
	fold(t, l, func(s *projector.State) {
		e := must[*view.Episode](t)(view.GetEpisode(s, prod, "ep"))
		if e.FirstSeq != 1 || e.LastSeq != last || e.Records != 12 || e.Counts["gate.chosen"] != 12 || e.Skewed != 1 {
			t.Errorf("%+v", e)
		}
		var got []view.SourceSequence
		if err := view.ListSequences(s, prod, "ep", func(q *view.SourceSequence) error { got = append(got, *q); return nil }); err != nil {
			t.Fatal(err)
		}
		want := view.SourceSequence{
			Namespace: prod, EpisodeID: "ep", Principal: piper, Source: "urn:test:" + piper, First: 1, Last: 9, Records: 8,
			Missing: []view.Range{{2, 2}, {5, 5}, {7, 7}}, Late: 2, Repeats: 2, Malformed: 1,
		}
		if len(got) != 2 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		skews := 0
		if err := view.ListSkews(s, prod, func(*view.Skew) error { skews++; return nil }); err != nil || skews != 2 {
			t.Errorf("%d skewed records, %v", skews, err)
		}
	})
}

// TestSequenceGapsAreBounded: a source that leaves every other number out does
// not make its entry grow for ever.
func TestSequenceGapsAreBounded(t *testing.T) {
	l := ledgertest.New()
	for n := range 200 {
		l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ledgertest.Episode("ep"), ledgertest.Sequence(fmt.Sprint(2*n)))
	}
	fold(t, l, func(s *projector.State) {
		if err := view.ListSequences(s, prod, "ep", func(q *view.SourceSequence) error {
			if len(q.Missing) != 64 || q.Forgotten != 199-64 {
				t.Errorf("%d ranges, %d forgotten", len(q.Missing), q.Forgotten)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUsage(t *testing.T) {
	tokens := func(in, out, cached *int64) *events.Tokens {
		return &events.Tokens{Input: in, Output: out, Cached: cached}
	}
	n := func(v int64) *int64 { return &v }
	tests := []struct {
		name                    string
		call                    events.ToolCalled
		input, cached, uncached *int64
		inconsistent            bool
	}{
		{"nothing known", events.ToolCalled{}, nil, nil, nil, false},
		{"zero is known", events.ToolCalled{Tokens: tokens(n(0), n(0), n(0))}, n(0), n(0), n(0), false},
		{"includes", events.ToolCalled{Tokens: tokens(n(100), n(5), n(80)), UsageConvention: ptr("input_includes_cached")}, n(100), n(80), n(20), false},
		{"excludes", events.ToolCalled{Tokens: tokens(n(20), n(5), n(80)), UsageConvention: ptr("input_excludes_cached")}, n(100), n(80), n(20), false},
		{"includes, cached unknown", events.ToolCalled{Tokens: tokens(n(100), nil, nil), UsageConvention: ptr("input_includes_cached")}, n(100), nil, nil, false},
		{"excludes, cached unknown", events.ToolCalled{Tokens: tokens(n(20), nil, nil), UsageConvention: ptr("input_excludes_cached")}, nil, nil, n(20), false},
		{"no convention, cached", events.ToolCalled{Tokens: tokens(n(100), nil, n(80))}, nil, n(80), nil, false},
		{"no convention, nothing cached", events.ToolCalled{Tokens: tokens(n(100), nil, n(0))}, n(100), n(0), n(100), false},
		{"more cached than all", events.ToolCalled{Tokens: tokens(n(20), nil, n(80)), UsageConvention: ptr("input_includes_cached")}, nil, n(80), nil, true},
		{"context's cost block", events.ToolCalled{Context: events.Context{Cost: &events.Cost{InputTokens: n(7), CachedTokens: n(0)}}}, n(7), n(0), n(7), false},
	}
	l := ledgertest.New()
	for i, tt := range tests {
		d := tt.call
		d.ToolCallID, d.Tool, d.Status = fmt.Sprintf("t%02d", i), "bash", "ok"
		l.Put(dispatcher, prod, &d)
	}
	fold(t, l, func(s *projector.State) {
		for i, tt := range tests {
			c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, fmt.Sprintf("t%02d", i)))
			u := c.Observed.Usage
			if !reflect.DeepEqual(u.InputTokens, tt.input) || !reflect.DeepEqual(u.CachedTokens, tt.cached) ||
				!reflect.DeepEqual(u.UncachedTokens, tt.uncached) || u.Inconsistent != tt.inconsistent {
				t.Errorf("%s: %+v", tt.name, u)
			}
		}
	})
}

func TestUsageIsCountedOnce(t *testing.T) {
	l := ledgertest.New()
	put := func(who, id, message string, usd float64) {
		d := call(id, "bash")
		d.CostUSD = ptr(usd)
		if message != "" {
			d.MessageID = ptr(message)
		}
		l.Put(who, prod, d)
	}
	put(piper, "a", "m1", 1)        // self-report first,
	put(dispatcher, "a", "m1", 2)   // the dispatcher's word counts
	put(dispatcher, "b", "m1", 4)   // same message
	put(dispatcher, "c", "", 8)     // no message: by call
	put(dispatcher, "c", "", 16)    // a repeat of the call
	put(piper, "d", "m2", 32)       // only self-reported
	put(piper, "e", "m3", 64)       // self-report of m3
	put(dispatcher, "f", "m3", 128) // the dispatcher's
	put(dispatcher, "g", "m4", 256)
	put(piper, "g", "", 512) // the other side of a counted call
	fold(t, l, func(s *projector.State) {
		sum, self := 0.0, 0
		if err := view.ListUsage(s, prod, func(c *view.Call, selfReported bool) error {
			sum += *c.Usage.CostUSD
			if selfReported {
				self++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := float64(2 + 8 + 32 + 128 + 256); sum != want || self != 1 {
			t.Errorf("sum %v with %d self-reported, want %v with 1", sum, self, want)
		}
		if c := must[*view.ToolCall](t)(view.GetToolCall(s, prod, "c")); c.Repeats != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestRejections(t *testing.T) {
	l := ledgertest.New()
	put := func(who, code string, count, size int64) {
		l.Put("logger/main", prod, &events.IntakeRejected{Principal: who, Code: code, Count: count, Size: size})
	}
	put(piper, "malformed", 1, 100)
	put(piper, "rate", 500, 90_000)
	put(piper, "malformed", 2, 50)
	put(worker, "malformed", 1, 7)
	fold(t, l, func(s *projector.State) {
		var got []string
		if err := view.ListRejected(s, prod, func(r *view.Rejected) error {
			got = append(got, fmt.Sprintf("%s %s %d/%d %d..%d", r.Principal, r.Code, r.Count, r.Bytes, r.FirstSeq, r.LastSeq))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := "[agent/piper malformed 3/150 1..3 agent/piper rate 500/90000 2..2 agent/worker malformed 1/7 4..4]"; fmt.Sprint(got) != want {
			t.Errorf("%v", got)
		}
		n := 0
		if err := view.ListRejections(s, prod, func(*view.Rejection) error { n++; return nil }); err != nil || n != 4 {
			t.Errorf("%d single rejections, %v", n, err)
		}
	})
}

// TestIDsStayApart: the bytes of an event id are the agent's to choose.
func TestIDsStayApart(t *testing.T) {
	l := ledgertest.New()
	const parked = "21706172-6b65-642f-8000-000000000000" // "!parked/" in bytes
	l.Put(piper, prod, &events.GateChosen{Action: "KNOW"}, ledgertest.ID(parked))
	fold(t, l, func(s *projector.State) {
		if n := must[int](t)(s.CountParked()); n != 0 {
			t.Errorf("%d parked", n)
		}
		if f := must[[]ledger.Seq](t)(view.FindEvent(s, parked)); len(f) != 1 || f[0] != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// TestFindEventOverBlocks: positions hold across blocks and messages without an
// event.
func TestFindEventOverBlocks(t *testing.T) {
	l := ledgertest.New()
	at := map[string]ledger.Seq{}
	for i := range 300 {
		if i%50 == 13 {
			l.PutRaw([]byte("somebody else's"))
		}
		id := l.NextID()
		at[id] = l.Put(piper, prod, &events.GateChosen{Action: "KNOW"})
	}
	fold(t, l, func(s *projector.State) {
		for id, seq := range at {
			if f := must[[]ledger.Seq](t)(view.FindEvent(s, id)); len(f) != 1 || f[0] != seq {
				t.Fatalf("%s: %v, want %d", id, f, seq)
			}
		}
		if f := must[[]ledger.Seq](t)(view.FindEvent(s, "00000000-0000-0000-0000-000000000000")); len(f) != 0 {
			t.Errorf("the zero id: %v", f)
		}
	})
}

func TestFind(t *testing.T) {
	l := ledgertest.New()
	shared := l.NextID()
	l.Put(piper, prod, claim("same", "asserted"))
	l.Put(worker, "sandbox", prediction("same", "", 0.5), ledgertest.ID(shared)) // ids are unique per principal
	l.Put(dispatcher, "canary", call("same", "bash"))
	l.Put(detector, prod, opportunity("same"))
	l.Put(piper, prod, &events.ExperimentProposed{ExpID: "same"})
	fold(t, l, func(s *projector.State) {
		f := must[view.Found](t)(view.Find(s, "same"))
		if len(f.Claims) != 1 || len(f.Predictions) != 1 || len(f.ToolCalls) != 1 || len(f.Opportunities) != 1 || len(f.Experiments) != 1 || len(f.Events) != 0 {
			t.Errorf("%+v", f)
		}
		f = must[view.Found](t)(view.Find(s, shared))
		if want := []ledger.Seq{1, 2}; !reflect.DeepEqual(f.Events, want) {
			t.Errorf("%+v", f.Events)
		}
		f = must[view.Found](t)(view.Find(s, "nothing"))
		if !f.Empty() {
			t.Errorf("%+v", f)
		}
		if _, err := view.GetClaim(s, prod, "nothing"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("absent claim: %v", err)
		}
	})
}
