package view_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

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
