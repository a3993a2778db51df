package canary

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"assay/events"
)

func rate(metric string, threshold float64, minN, window int64) events.CanaryCriterion {
	return events.CanaryCriterion{Metric: metric, Threshold: &threshold, MinN: &minN, WindowS: &window}
}

func TestFailureRate(t *testing.T) {
	b := newBook(t)
	b.start("a", criteria(rate(FailureRate, 0.5, 4, 3600)))
	b.predict("1", "confirmed")
	b.predict("2", "refuted")
	b.predict("3", "void")
	b.predict("4", "unresolved")
	b.predict("5", "")
	b.predict("6", "confirmed")
	b.put(agent, "production", &events.PredictionRecorded{PredID: "7", PredictedEffect: "x", P: 1, Criterion: criterion})
	if got := b.said(); got != "" {
		t.Fatalf("three of four: %s", got)
	}
	_, seq := b.predict("8", "refuted")
	d := b.rollbacks()
	if len(d) != 1 || d[0].Rule != FailureRate || *d[0].CutSeq != uint64(seq) || *d[0].Value != 0.5 || *d[0].N != 4 || *d[0].Threshold != 0.5 || d[0].Baseline != nil {
		t.Fatalf("%s", b.said())
	}
	if !slices.Equal(d[0].EvidenceSeqs, []uint64{3, 5, 12, uint64(seq)}) {
		t.Errorf("evidence %v", d[0].EvidenceSeqs)
	}
}

// What was resolved before the window counts no more, and what was recorded
// before the canary started never did.
func TestFailureRateWindow(t *testing.T) {
	b := newBook(t)
	early, _ := b.predict("0", "")
	b.start("a", criteria(rate(FailureRate, 0.5, 2, 3600)))
	b.putID(early, judge, "production", b.resolution("0", "refuted"))
	b.predict("1", "refuted")
	b.now = b.now.Add(time.Hour)
	b.predict("2", "refuted")
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.predict("3", "confirmed")
	if d := b.rollbacks(); len(d) != 1 || *d[0].N != 2 || *d[0].Value != 0.5 {
		t.Fatal(b.said())
	}
}

func TestSuccessDrop(t *testing.T) {
	c := rate(SuccessDrop, 5, 20, 7*24*3600)
	c.Baseline = ptr(0.7)
	b := newBook(t)
	b.start("a", criteria(c))
	for i := range 22 {
		b.call(fmt.Sprint(i), "restart", "svc/x")
	}
	b.recheck("other", "not_confirmed") // not a call of the canary
	for i := range 19 {
		result := "confirmed"
		if i < 7 {
			result = "not_confirmed"
		}
		b.recheck(fmt.Sprint(i), result)
	}
	b.recheck("19", "inconclusive")
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.recheck("20", "confirmed") // 13 of 20: exactly five points
	d := b.rollbacks()
	if len(d) != 1 || d[0].Rule != SuccessDrop || *d[0].N != 20 || *d[0].Baseline != 0.7 || *d[0].Threshold != 5 || len(d[0].EvidenceSeqs) != 20 {
		t.Fatalf("%s", b.said())
	}
	if v := *d[0].Value; v < 4.999999 || v > 5.000001 {
		t.Errorf("%v points", v)
	}
	if d[0].Reason != "13 of 20 repairs held, 5 points under the baseline of 0.7" {
		t.Error(d[0].Reason)
	}
}

// The latest conclusive recheck of a call counts.
func TestRecheckAgain(t *testing.T) {
	c := rate(SuccessDrop, 50, 2, 3600)
	c.Baseline = ptr(1.0)
	b := newBook(t)
	b.start("a", criteria(c))
	b.call("1", "restart", "svc/x")
	b.call("2", "restart", "svc/x")
	b.recheck("1", "not_confirmed")
	b.recheck("1", "confirmed")
	b.recheck("2", "confirmed")
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.recheck("2", "not_confirmed")
	if d := b.rollbacks(); len(d) != 1 || d[0].Rule != SuccessDrop || *d[0].Value != 50 {
		t.Fatal(b.said())
	}
}

func TestLatencyRatio(t *testing.T) {
	c := rate(LatencyRatio, 2, 20, 3600)
	c.Baseline, c.Tool = ptr(100.0), ptr("set_flag")
	b := newBook(t)
	b.start("a", criteria(c))
	for i := range 10 {
		b.call(fmt.Sprint("unknown", i), "set_flag", "") // unknown, not 0
		b.call(fmt.Sprint("other", i), "restart", "svc/x", took(1e6))
	}
	for i := range 19 {
		b.call(fmt.Sprint(i), "set_flag", "", took(200))
	}
	b.call("19", "set_flag", "", func(d *events.ToolCalled) { d.Context.Cost = &events.Cost{LatencyMS: ptr(1e6)} })
	if got := b.said(); got != "" {
		t.Fatalf("the 19th of 20 is 200 ms, twice the baseline and not over: %s", got)
	}
	b.call("20", "set_flag", "", took(201))
	d := b.rollbacks()
	if len(d) != 1 || d[0].Rule != LatencyRatio || *d[0].Value != 2.01 || *d[0].N != 21 || *d[0].Baseline != 100 || len(d[0].EvidenceSeqs) != 21 {
		t.Fatalf("%s %+v", b.said(), d)
	}
	if d[0].Reason != "the 95th percentile of 21 latencies is 201 ms, the baseline 100 ms" {
		t.Error(d[0].Reason)
	}
}

// A ratio that no number of an event can say is unknown, and the canary ends all the same.
func TestLatencyRatioBeyondNumbers(t *testing.T) {
	c := rate(LatencyRatio, 2, 1, 3600)
	c.Baseline = ptr(minBaseline)
	b := newBook(t)
	b.start("a", criteria(c))
	b.call("1", "set_flag", "", took(maxNumber))
	d := b.rollbacks()
	if len(d) != 1 || d[0].Rule != LatencyRatio || d[0].Value != nil || *d[0].Baseline != minBaseline || *d[0].N != 1 {
		t.Fatalf("%s %+v", b.said(), d)
	}
}

// TestReportsDecideNothing: a rate counts neither what was reported nor, once a
// report has taken its place, what was there before.
func TestReportsDecideNothing(t *testing.T) {
	drop := rate(SuccessDrop, 50, 1, 3600)
	drop.Baseline = ptr(1.0)
	b := newBook(t)
	b.start("a", criteria(rate(FailureRate, 0.5, 1, 3600), drop))
	b.call("r", "restart", "svc/x")
	b.reportedRecheck("r", "not_confirmed")
	for _, kind := range []string{"operator", "sandbox"} {
		id, _ := b.predict(kind, "")
		b.putID(id, judge, "production", b.reported(kind, "refuted", kind))
	}
	id, _ := b.predict("open", "unresolved")
	b.amend("open", id, "operator_report", "refuted")
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.recheck("r", "not_confirmed")
	if d := b.rollbacks(); len(d) != 1 || d[0].Rule != SuccessDrop || *d[0].N != 1 {
		t.Fatal(b.said())
	}
}

func TestCorrectnessViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *book)
		want string
	}{
		{"confirmed, then refuted", func(b *book) { b.ruled("confirmed", "late_telemetry refuted") }, "a correctness_violation@4 [3 4]"},
		{"over another amendment", func(b *book) { b.ruled("unresolved", "late_telemetry confirmed", "corrected_telemetry refuted") }, "a correctness_violation@5 [4 5]"},
		{"over another engine's opinion", func(b *book) { b.ruled("confirmed", "engine refuted", "late_telemetry refuted") }, "a correctness_violation@5 [3 5]"},
		{"another engine's opinion alone", func(b *book) { b.ruled("confirmed", "engine refuted") }, ""},
		{"of something else than the last change", func(b *book) {
			b.predict("1", "confirmed")
			b.amend("1", events.DerivedID("x").String(), "late_telemetry", "refuted")
		}, ""},
		{"too late", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.now = b.now.Add(8 * 24 * time.Hour)
			b.amend("1", id, "late_telemetry", "refuted")
		}, ""},
		{"found in time, recorded when the resolver was up again", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.cut = b.now.Add(events.AmendableFor)
			b.now = b.now.Add(30 * 24 * time.Hour)
			b.week("2026-W52")
			b.cut = epoch.Add(3*time.Second + events.AmendableFor)
			b.amend("1", id, "late_telemetry", "refuted")
		}, "a correctness_violation@5 [3 5]"},
		{"found too late behind a resolution that was itself recorded late", func(b *book) {
			id, _ := b.predict("1", "")
			b.cut = b.now
			b.now = b.now.Add(5 * 24 * time.Hour)
			b.putID(id, judge, "production", b.resolution("1", "confirmed"))
			b.now = b.now.Add(3 * 24 * time.Hour)
			b.amend("1", id, "late_telemetry", "refuted")
		}, ""},
		{"of what an operator had reported", func(b *book) { b.ruled("unresolved", "operator_report confirmed", "late_telemetry refuted") }, ""},
		{"of what a sandbox had reported", func(b *book) {
			id, _ := b.predict("1", "")
			b.putID(id, judge, "production", b.reported("1", "confirmed", "sandbox"))
			b.amend("1", id, "late_telemetry", "refuted")
		}, ""},
		{"reported to be refuted", func(b *book) { b.ruled("confirmed", "operator_report refuted") }, ""},
		{"a repair that was reported not to hold", func(b *book) {
			b.call("r", "restart", "svc/x")
			b.recheck("r", "confirmed")
			b.reportedRecheck("r", "not_confirmed")
		}, ""},
		{"a repair that had been reported to hold", func(b *book) {
			b.call("r", "restart", "svc/x")
			b.reportedRecheck("r", "confirmed")
			b.recheck("r", "not_confirmed")
		}, ""},
		{"refuted, then confirmed", func(b *book) { b.ruled("refuted", "late_telemetry confirmed") }, ""},
		{"resolved twice", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.putID(id, "resolver/other", "production", b.resolution("1", "refuted"))
		}, ""},
		{"the agent's word", func(b *book) {
			id, _ := b.predict("1", "")
			b.putID(id, agent, Namespace, b.resolution("1", "confirmed"))
		}, ""},
		{"a repair that no longer holds", func(b *book) {
			b.call("r", "restart", "svc/x")
			b.recheck("r", "confirmed")
			b.recheck("r", "inconclusive")
			b.recheck("r", "not_confirmed")
		}, "a correctness_violation@5 [3 5]"},
		{"a repair that never held", func(b *book) {
			b.call("r", "restart", "svc/x")
			b.recheck("r", "not_confirmed")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.start("a")
			c.do(b)
			if got := b.said(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
