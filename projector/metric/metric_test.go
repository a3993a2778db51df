package metric_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

const (
	piper      = "agent/piper"
	detector   = "detector/main"
	dispatcher = "dispatcher/main"
	resolver   = "resolver/main"
	operator   = "operator/op"
	prod       = "production"
	day        = 24 * time.Hour
)

func ptr[T any](v T) *T { return &v }

// fold runs the ledger through all views, with tiny commits, and hands them over.
func fold(t testing.TB, l *ledgertest.Ledger, fn func(*projector.State)) {
	t.Helper()
	db, err := kv.Open(t.TempDir(), kv.Options{NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), CommitEvery: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CatchUp(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if err := r.View(func(st *projector.State) error { fn(st); return nil }); err != nil {
		t.Fatal(err)
	}
}

func score(t testing.TB, l *ledgertest.Ledger, namespace string) (s *metric.Score) {
	t.Helper()
	fold(t, l, func(st *projector.State) {
		var err error
		if s, err = metric.Compute(st, namespace); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

// near compares a nullable number with the text of what was worked out by hand.
func near(t *testing.T, what string, got *float64, want string) {
	t.Helper()
	text := "null"
	if got != nil {
		text = fmt.Sprintf("%.6g", *got)
	}
	if text != want {
		t.Errorf("%s: %s, want %s", what, text, want)
	}
}

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

func resolved(id, verdict string, cut ledger.Seq) *events.PredictionResolved {
	return &events.PredictionResolved{PredID: id, Verdict: verdict, CutSeq: uint64(cut), Foreknowledge: "none", Scorable: true}
}

func opportunities(l *ledgertest.Ledger, n int) {
	for i := range n {
		l.Put(detector, prod, &events.OpportunityDetected{OpportunityID: fmt.Sprint("o", i), Kind: "why"})
	}
}

func TestNothingIsNullNotZero(t *testing.T) {
	l := ledgertest.New()
	l.Put("logger/main", "logger", &events.LedgerOpened{Origin: "test"})
	s := score(t, l, "")
	if s.Namespace != prod || s.Inputs.Seq != 1 || s.Inputs.LedgerTime == nil {
		t.Errorf("%+v", s.Inputs)
	}
	for what, v := range map[string]*float64{
		"routing": s.Routing.Rate.Value, "per 100": s.Useful.Per100.Value, "claims": s.Coverage.Claims.Rate.Value,
		"predictions": s.Coverage.Predictions.Rate.Value, "brier": s.Calibration.Brier.Value, "best": s.Calibration.Brier.Best,
		"log loss": s.Calibration.LogLoss.Value, "experiments": s.Experiments.Rate.Value, "usd": s.Cost.USD.Sum,
		"mean": s.Cost.USD.Mean, "per useful": s.Cost.USDPerUseful.Value,
	} {
		near(t, what, v, "null")
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rate":{"numerator":0,"denominator":0,"value":null}`, `"usd":{"sum":null,"mean_of_known":null,"known":0,"total":0}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
	if text := s.Text(); !strings.Contains(text, "undefined (0/0)") || !strings.Contains(text, "unknown (known for 0 of 0)") {
		t.Error(text)
	}
}

func TestRoutingRate(t *testing.T) {
	l := ledgertest.New()
	opportunities(l, 5)
	to := func(i int) events.Context { return events.Context{OpportunityID: ptr(fmt.Sprint("o", i))} }
	l.Put(dispatcher, prod, &events.ToolCalled{Context: to(0), ToolCallID: "t", Tool: "causal", Status: "ok"})
	l.Put(piper, prod, &events.GraphWritten{Context: to(1), Op: "add", Cause: "a", Effect: "b"})
	c := claim("c", "asserted")
	c.Context = to(2)
	l.Put(piper, prod, c)
	l.Put(detector, "sandbox", &events.OpportunityDetected{OpportunityID: "elsewhere", Kind: "why"})
	r := score(t, l, prod).Routing
	near(t, "rate", r.Rate.Value, "0.4")
	r.Rate.Value = nil
	if want := (metric.Routing{Rate: metric.Ratio{Numerator: 2, Denominator: 5}, CausalTool: 1, Graph: 1, Prose: 1, None: 2, SelfReported: 1, Exact: 3}); r != want {
		t.Errorf("%+v", r)
	}
}

func TestUsefulConclusions(t *testing.T) {
	unscorable := func(id string) *events.PredictionResolved {
		d := resolved(id, "confirmed", 0)
		d.Scorable, d.Foreknowledge = false, "known"
		return d
	}
	recheck := func(result string) *events.FixRechecked {
		return &events.FixRechecked{ClaimID: "c", Result: result, Source: "operator_report", Direct: true}
	}
	assert := &events.ClaimRevised{ClaimID: "c", OldStatus: "hypothesis", NewStatus: "asserted"}
	retract := &events.ClaimRevised{ClaimID: "c", OldStatus: "asserted", NewStatus: "retracted"}
	tests := []struct {
		name              string
		build             func(l *ledgertest.Ledger)
		count, byP, byR   int64
		asserted, tooLate int64
	}{
		{"asserted alone", func(l *ledgertest.Ledger) { l.Put(piper, prod, claim("c", "asserted")) }, 0, 0, 0, 1, 0},
		{"confirmed", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 1, 1, 0, 1, 0},
		{"confirmed twice is one conclusion", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(piper, prod, prediction("q", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(resolver, prod, resolved("q", "confirmed", 0))
			l.Put(operator, prod, recheck("confirmed"))
		}, 1, 1, 0, 1, 0},
		{"confirmed by both, by the recheck first", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 1, 0, 1, 1, 0},
		{"confirmed and refuted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(piper, prod, prediction("q", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(resolver, prod, resolved("q", "refuted", 0))
		}, 0, 0, 0, 1, 0},
		{"asserted at the second confirmation only", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "hypothesis"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(piper, prod, assert)
			l.Put(operator, prod, recheck("confirmed"))
		}, 0, 0, 0, 1, 1},
		{"refuted", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "refuted", 0))
		}, 0, 0, 0, 1, 0},
		{"known beforehand", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, unscorable("p"))
		}, 0, 0, 0, 1, 0},
		{"recorded after the window opened", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, &events.PredictionArmed{PredID: "p", WindowOpen: events.FormatTime(ledgertest.Start)})
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 0, 0, 0, 1, 0},
		{"hypothesis", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "hypothesis"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 0, 0, 0, 0, 0},
		{"asserted after the verdict", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "hypothesis"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(piper, prod, assert)
		}, 0, 0, 0, 1, 1},
		{"asserted between the cut and the verdict", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "hypothesis"))
			cut := l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(piper, prod, assert)
			l.Put(resolver, prod, resolved("p", "confirmed", cut))
		}, 0, 0, 0, 1, 1},
		{"asserted before the cut", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "hypothesis"))
			l.Put(piper, prod, assert)
			cut := l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", cut))
		}, 1, 1, 0, 1, 0},
		{"retracted afterwards", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(piper, prod, retract)
		}, 1, 1, 0, 0, 0},
		{"retracted before", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			l.Put(piper, prod, retract)
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 0, 0, 0, 0, 0},
		{"fix held", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(operator, prod, recheck("confirmed"))
		}, 1, 0, 1, 1, 0},
		{"fix held, then did not", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(operator, prod, recheck("confirmed"))
			l.Put(resolver, prod, recheck("not_confirmed"))
		}, 0, 0, 0, 1, 0},
		{"fix only reported", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: "confirmed", Source: "operator_report"})
		}, 0, 0, 0, 1, 0},
		{"fix held, then was reported not to", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(resolver, prod, recheck("confirmed"))
			l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: "not_confirmed", Source: "operator_report"})
		}, 1, 0, 1, 1, 0},
		{"agent's own recheck", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, recheck("confirmed"))
		}, 0, 0, 0, 1, 0},
		{"prediction of another claim", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "", 0.8))
			l.Put(piper, prod, prediction("p", "c", 0.8)) // takes an identifier that is in use
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
		}, 0, 0, 0, 1, 0},
		{"amended away", func(l *ledgertest.Ledger) {
			l.Put(piper, prod, claim("c", "asserted"))
			l.Put(piper, prod, prediction("p", "c", 0.8))
			first := l.NextID()
			l.Put(resolver, prod, resolved("p", "confirmed", 0))
			l.Put(resolver, prod, &events.PredictionResolutionAmended{PredID: "p", Supersedes: first, Cause: "late_telemetry", Verdict: "refuted", Scorable: true})
		}, 0, 0, 0, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			opportunities(l, 8)
			tt.build(l)
			u := score(t, l, prod).Useful
			if u.Count != tt.count || u.ByPrediction != tt.byP || u.ByRecheck != tt.byR || u.Asserted != tt.asserted || u.AssertedAfter != tt.tooLate || u.Claims != 1 {
				t.Errorf("%+v", u)
			}
			near(t, "per 100", u.Per100.Value, fmt.Sprint(12.5*float64(tt.count)))
		})
	}
}

func TestCoverage(t *testing.T) {
	l := ledgertest.New()
	for i, verdict := range []string{"confirmed", "refuted", "void", "unresolved", ""} {
		id := fmt.Sprint(i)
		l.Put(piper, prod, claim(id, "asserted"))
		l.Put(piper, prod, prediction(id, id, 0.5))
		if verdict != "" {
			l.Put(resolver, prod, resolved(id, verdict, 0))
		}
	}
	l.Put(piper, prod, claim("bare", "asserted"))
	l.Put(piper, prod, claim("fixed", "asserted"))
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "fixed", Result: "not_confirmed", Source: "instrument", Direct: true})
	old := l.Now()
	l.Advance(day)
	l.Put(piper, prod, claim("young", "asserted"))
	l.Put(piper, prod, prediction("young", "young", 0.5))
	l.Put(resolver, prod, resolved("young", "confirmed", 0))
	l.Advance(old.Add(7 * day).Sub(l.Now())) // the newest of the old is just over seven days old
	l.Put("logger/main", "logger", &events.ClockTicked{BootID: "b"})
	c := score(t, l, prod).Coverage
	near(t, "claims", c.Claims.Rate.Value, "0.285714") // 2 of 7: a recheck is no prediction
	if r := c.Claims; r.Rate.Numerator != 2 || r.Rate.Denominator != 7 || r.WithoutPrediction != 2 || r.Young != 1 {
		t.Errorf("%+v", r)
	}
	near(t, "predictions", c.Predictions.Rate.Value, "0.4")
	p := c.Predictions
	p.Rate.Value = nil
	if want := (metric.PredictionCoverage{
		Rate: metric.Ratio{Numerator: 2, Denominator: 5}, Confirmed: 1, Refuted: 1, Void: 1, Unresolved: 1, NotDue: 1, Young: 1,
		Total: metric.Tally{Recorded: 6, Confirmed: 2, Refuted: 1, Void: 1, Unresolved: 1, Open: 1},
	}); p != want {
		t.Errorf("%+v", p)
	}
}

func TestCalibration(t *testing.T) {
	type pred struct {
		p        float64
		verdict  string
		scorable bool
	}
	tests := []struct {
		name                    string
		preds                   []pred
		n                       int64
		brier, best, worst      string
		logLoss, lbest, lworst  string
		clamped, filled, unsure int64
	}{
		{"one pair has no interval", []pred{{0.8, "confirmed", true}}, 1, "0.04", "null", "null", "0.223144", "null", "null", 0, 0, 0},
		// (0.04 + 0.36) / 2; −(ln 0.8 + ln 0.4) / 2
		{"two", []pred{{0.8, "confirmed", true}, {0.6, "refuted", true}}, 2, "0.2", "null", "null", "0.569717", "null", "null", 0, 0, 0},
		// filled with p 0.9: best 0.01, worst 0.81
		{"unresolved fills the bounds", []pred{{0.8, "confirmed", true}, {0.9, "unresolved", false}}, 1, "0.04", "0.025", "0.425", "0.223144", "0.164252", "1.26286", 0, 1, 0},
		{"only unresolved", []pred{{0.9, "unresolved", false}}, 0, "null", "0.01", "0.81", "null", "0.105361", "2.30259", 0, 1, 0},
		{"void fills nothing", []pred{{0.8, "confirmed", true}, {0.9, "void", false}}, 1, "0.04", "null", "null", "0.223144", "null", "null", 0, 0, 0},
		{"unscorable", []pred{{0.8, "confirmed", false}}, 0, "null", "null", "null", "null", "null", "null", 0, 0, 1},
		{"certain and wrong", []pred{{1, "refuted", true}}, 1, "1", "null", "null", "13.8155", "null", "null", 1, 0, 0},
		{"certain and right", []pred{{1, "confirmed", true}, {0, "refuted", true}}, 2, "0", "null", "null", "1e-06", "null", "null", 2, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgertest.New()
			for i, p := range tt.preds {
				id := fmt.Sprint(i)
				l.Put(piper, prod, prediction(id, "", p.p))
				d := resolved(id, p.verdict, 0)
				d.Scorable = p.scorable
				l.Put(resolver, prod, d)
			}
			c := score(t, l, prod).Calibration
			near(t, "brier", c.Brier.Value, tt.brier)
			near(t, "best", c.Brier.Best, tt.best)
			near(t, "worst", c.Brier.Worst, tt.worst)
			near(t, "log loss", c.LogLoss.Value, tt.logLoss)
			near(t, "log best", c.LogLoss.Best, tt.lbest)
			near(t, "log worst", c.LogLoss.Worst, tt.lworst)
			if c.N != tt.n || c.Clamped != tt.clamped || c.Filled != tt.filled || c.Unscorable != tt.unsure {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Reports give no verdict to score: the prediction stays unresolved in the
// coverage and in the bounds, and is counted as reported.
func TestReportsAreNotScored(t *testing.T) {
	l := ledgertest.New()
	byOperator := events.ResolverIdentity{ID: resolver, Kind: "operator", Key: "U"}
	l.Put(piper, prod, claim("c", "asserted"))
	for id, p := range map[string]float64{"a": 0.8, "b": 0.9} {
		l.Put(piper, prod, prediction(id, "c", p))
	}
	l.Put(piper, prod, prediction("scored", "", 0.8))
	l.Put(resolver, prod, resolved("scored", "confirmed", 0))
	at := resolved("a", "confirmed", 0)
	at.Resolver, at.Scorable = byOperator, false
	l.Put(resolver, prod, at)
	first := l.NextID()
	l.Put(resolver, prod, resolved("b", "unresolved", 0))
	l.Put(resolver, prod, &events.PredictionResolutionAmended{
		PredID: "b", Supersedes: first, Cause: "operator_report", Verdict: "confirmed", Foreknowledge: "none", Resolver: byOperator,
	})
	l.Advance(8 * day)
	l.Put(piper, prod, claim("young", "asserted"))
	s := score(t, l, prod)
	p := s.Coverage.Predictions
	if p.Confirmed != 1 || p.Unresolved != 2 || p.Reported != 2 || p.Rate.Numerator != 1 || p.Rate.Denominator != 3 || p.Total.Reported != 2 {
		t.Errorf("%+v", p)
	}
	if c := s.Coverage.Claims; c.Rate.Numerator != 0 || c.Rate.Denominator != 1 || s.Useful.Count != 0 {
		t.Errorf("claims %+v, useful %+v", c, s.Useful)
	}
	k := s.Calibration
	if k.N != 1 || k.Filled != 2 || k.Unscorable != 0 {
		t.Errorf("%+v", k)
	}
	near(t, "Brier", k.Brier.Value, "0.04")
	near(t, "best", k.Brier.Best, "0.03")       // (0.04 + 0.04 + 0.01) / 3
	near(t, "worst", k.Brier.Worst, "0.496667") // (0.04 + 0.64 + 0.81) / 3
}

func TestExperiments(t *testing.T) {
	l := ledgertest.New()
	for _, id := range []string{"a", "b", "c", "d"} {
		l.Put(piper, prod, &events.ExperimentProposed{ExpID: id, Discriminates: []string{}})
	}
	l.Put(dispatcher, prod, &events.ToolCalled{ToolCallID: "t", Tool: "bash", Status: "failed"})
	l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: "a", ToolCallID: "t"})
	l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: "b", ToolCallID: "missing"})
	l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: "e", ToolCallID: "t"})
	l.Put(piper, prod, &events.ExperimentProposed{ExpID: "e", Discriminates: []string{}}) // after the fact
	l.Put(dispatcher, prod, &events.ExperimentExecuted{ExpID: "f", ToolCallID: "t"})
	x := score(t, l, prod).Experiments
	near(t, "rate", x.Rate.Value, "0.2")
	x.Rate.Value = nil
	if want := (metric.Experiments{Rate: metric.Ratio{Numerator: 1, Denominator: 5}, WithoutCall: 1, BeforeProposal: 1, Unproposed: 1}); x != want {
		t.Errorf("%+v", x)
	}
}

func TestCost(t *testing.T) {
	l := ledgertest.New()
	put := func(id string, usd *float64, in *int64) {
		d := &events.ToolCalled{ToolCallID: id, Tool: "bash", Status: "ok", CostUSD: usd}
		if in != nil {
			d.Tokens = &events.Tokens{Input: in, Cached: ptr(int64(0))}
		}
		l.Put(dispatcher, prod, d)
	}
	put("a", nil, nil)
	put("b", ptr(100.0), ptr(int64(10)))
	l.Put(piper, prod, claim("c", "asserted"))
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: "confirmed", Source: "instrument", Direct: true})
	c := score(t, l, prod).Cost
	near(t, "sum", c.USD.Sum, "100")
	near(t, "mean of [null, 100]", c.USD.Mean, "100")
	near(t, "per useful with an unknown part", c.USDPerUseful.Value, "null")
	if c.Counted != 2 || c.USD.Known != 1 || c.USD.Total != 2 || *c.InputTokens.Sum != 10 || c.InputTokens.Known != 1 || c.OutputTokens.Sum != nil {
		t.Errorf("%+v", c)
	}
	l = ledgertest.New()
	put("a", ptr(0.0), nil)
	put("b", ptr(3.0), nil)
	l.Put(dispatcher, prod, &events.UsageRecorded{Context: events.Context{ToolCallID: ptr("b")}, CostUSD: ptr(3.0)}) // tells of b again
	l.Put(piper, prod, claim("c", "asserted"))
	l.Put(piper, prod, claim("d", "asserted"))
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "c", Result: "confirmed", Source: "instrument", Direct: true})
	l.Put(operator, prod, &events.FixRechecked{ClaimID: "d", Result: "confirmed", Source: "instrument", Direct: true})
	c = score(t, l, prod).Cost
	near(t, "a known zero counts", c.USD.Mean, "1.5")
	near(t, "per useful", c.USDPerUseful.Value, "1.5")
}

// TestSameLedgerSameBytes: the score is a function of the ledger.
func TestSameLedgerSameBytes(t *testing.T) {
	build := func(n int) *ledgertest.Ledger {
		l := ledgertest.New()
		l.Mix(rand.New(rand.NewPCG(4, 2)), n)
		return l
	}
	encode := func(s *metric.Score) string {
		t.Helper()
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	a, b := score(t, build(600), prod), score(t, build(600), prod)
	if encode(a) != encode(b) {
		t.Errorf("%s\n%s", encode(a), encode(b))
	}
	if c := score(t, build(601), prod); c.Inputs.SHA256 == a.Inputs.SHA256 {
		t.Error("another ledger has the same inputs")
	}
	if canary := score(t, build(600), "canary"); canary.Inputs.SHA256 == a.Inputs.SHA256 || encode(canary) == encode(a) {
		t.Error("another namespace has the same score")
	}
	if a.Calibration.Brier.Value == nil || math.IsNaN(*a.Calibration.Brier.Value) || a.Routing.Rate.Numerator == 0 || a.Useful.Count == 0 {
		t.Errorf("the mix does not exercise the score: %s", encode(a))
	}
}
