package canary

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
	"assay/schema"
)

var epoch = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	agent      = "agent/canary"
	dispatcher = "dispatcher/main"
	judge      = "resolver/main"
	operator   = "operator/main"
	logger     = "logger/main"
)

func ptr[T any](v T) *T { return &v }

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// book is a ledger in the making, folded as it grows.
type book struct {
	t    fataler
	f    *Fold
	recs []ledger.Record
	now  time.Time
	cut  time.Time // of the next event, if it is another time than its record's
	out  []resolver.Emission
}

func newBook(t fataler) *book { return &book{t: t, f: testFold(), now: epoch} }

func testFold() *Fold {
	return New(Config{Resolver: events.ResolverIdentity{ID: judge, Kind: "telemetry", Key: "UABC"}})
}

// put records an event a second later, and returns its id and seq.
func (b *book) put(principal, namespace string, d events.Payload) (id string, seq ledger.Seq) {
	return b.putID(events.DerivedID("test", fmt.Sprint(len(b.recs))).String(), principal, namespace, d)
}

func (b *book) putID(id, principal, namespace string, d events.Payload) (string, ledger.Seq) {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	typ, cut := d.Type(), b.now
	if !b.cut.IsZero() {
		cut, b.cut = b.cut, time.Time{}
	}
	raw, err := events.Encode(&events.Event{ID: id, Source: "test", Type: typ, Time: events.FormatTime(cut), DataSchema: events.DataSchema(typ, 1), Data: d})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, fault := schema.Check(raw); fault != nil {
		b.t.Fatalf("%s does not pass its schema: %v\n%s", typ, fault, raw)
	}
	seq := ledger.Seq(len(b.recs) + 1)
	h := ledger.Header{Seq: seq, RecordedAt: b.now, Principal: principal, Namespace: namespace}
	rec, err := ledger.ParseRecord(ledger.AppendRecord(nil, h, raw))
	if err != nil {
		b.t.Fatal(err)
	}
	b.recs = append(b.recs, rec)
	out, err := b.f.Apply(rec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.out = append(b.out, out...)
	return id, seq
}

func (b *book) start(id string, change ...func(*events.CanaryStarted)) ledger.Seq {
	d := &events.CanaryStarted{
		CanaryID: id, Policy: "protocol@2", CapPerWeek: 1000,
		Actions:  []events.CanaryAction{{Tool: "restart", Target: ptr("svc/x"), Reversible: true}, {Tool: "set_flag", Reversible: true}, {Tool: "drop", Reversible: false}},
		Criteria: []events.CanaryCriterion{{Metric: Violation}},
	}
	for _, c := range change {
		c(d)
	}
	_, seq := b.put(operator, "production", d)
	return seq
}

func capped(n int64) func(*events.CanaryStarted) {
	return func(d *events.CanaryStarted) { d.CapPerWeek = n }
}

func criteria(cs ...events.CanaryCriterion) func(*events.CanaryStarted) {
	return func(d *events.CanaryStarted) { d.Criteria = cs }
}

// call is the dispatcher's record of a call in the canary.
func (b *book) call(id, tool, target string, change ...func(*events.ToolCalled)) ledger.Seq {
	d := &events.ToolCalled{ToolCallID: id, Tool: tool, Status: "ok"}
	if target != "" {
		d.Target = &target
	}
	for _, c := range change {
		c(d)
	}
	_, seq := b.put(dispatcher, Namespace, d)
	return seq
}

func took(ms float64) func(*events.ToolCalled) {
	return func(d *events.ToolCalled) { d.LatencyMS = &ms }
}

func (b *book) recheck(call, result string) ledger.Seq {
	_, seq := b.put(judge, "production", &events.FixRechecked{ClaimID: "c", Result: result, Source: "instrument", Direct: true, ToolCallID: &call})
	return seq
}

// reportedRecheck is an operator's report, which nobody saw directly.
func (b *book) reportedRecheck(call, result string) {
	b.put(operator, "production", &events.FixRechecked{ClaimID: "c", Result: result, Source: "operator_report", ToolCallID: &call})
}

// predict records a prediction of the canary and resolves it, unless verdict is
// "". It returns the id of the resolution.
func (b *book) predict(id, verdict string) (resolution string, seq ledger.Seq) {
	ev, _ := b.put(agent, Namespace, &events.PredictionRecorded{
		PredID: id, PredictedEffect: "x", P: 0.9, Criterion: criterion,
	})
	resolution = events.DerivedID(events.TypePredictionResolved, agent, ev).String()
	if verdict == "" {
		return resolution, 0
	}
	return b.putID(resolution, judge, "production", b.resolution(id, verdict))
}

func (b *book) resolution(id, verdict string) *events.PredictionResolved {
	return &events.PredictionResolved{
		PredID: id, Verdict: verdict, Evidence: events.ResolutionEvidence{Refs: []string{}, Digest: hash}, CutSeq: uint64(len(b.recs)), Engine: "e",
		CriterionSHA256: hash, RegistrySHA256: hash, Foreknowledge: "none", Scorable: true,
		Attribution: events.Attribution{Kind: "temporal_only"}, Resolver: events.ResolverIdentity{ID: judge, Kind: "telemetry", Key: "UABC"},
	}
}

// reported is a verdict that rests on a report.
func (b *book) reported(id, verdict, kind string) *events.PredictionResolved {
	d := b.resolution(id, verdict)
	d.Resolver.Kind = kind
	return d
}

func (b *book) amend(id, supersedes, cause, verdict string) (string, ledger.Seq) {
	r := b.resolution(id, verdict)
	if cause == "operator_report" {
		r = b.reported(id, verdict, "operator")
	}
	return b.put(judge, "production", &events.PredictionResolutionAmended{
		PredID: id, Supersedes: supersedes, Cause: cause, Verdict: verdict, Evidence: r.Evidence, CutSeq: r.CutSeq, Engine: r.Engine,
		CriterionSHA256: hash, RegistrySHA256: hash, Foreknowledge: "none", Scorable: true, Attribution: r.Attribution, Resolver: r.Resolver,
	})
}

var criterion = []byte(`{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"all":[{"signal":"s","reduce":"max","op":"<=","value":1}]}`)

const hash = "3f0c1d5e9a7b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9010203040506"

func (b *book) week(id string) {
	b.put(logger, "production", &events.WeekClosed{Week: id, Zone: "UTC", Start: "2026-11-23T00:00:00Z", End: "2026-11-30T00:00:00Z"})
}

// rollbacks decodes what was emitted; each must pass its schema.
func (b *book) rollbacks() (out []*events.RollbackTriggered) {
	b.t.Helper()
	for _, e := range b.out {
		if _, fault := schema.Check(e.Event); fault != nil {
			b.t.Fatalf("%v in %s", fault, e.Event)
		}
		ev, err := events.Decode(e.Event)
		if err != nil {
			b.t.Fatal(err)
		}
		d := ev.Data.(*events.RollbackTriggered)
		if *d.CutSeq != uint64(e.Cut) || ev.ID != e.ID {
			b.t.Fatalf("%s beside %+v", e.Event, e)
		}
		out = append(out, d)
	}
	return out
}

// said is what was emitted in short: canary, rule, cut, evidence.
func (b *book) said() string {
	var out []string
	for _, d := range b.rollbacks() {
		out = append(out, fmt.Sprintf("%s %s@%d %v", d.CanaryID, d.Rule, *d.CutSeq, d.EvidenceSeqs))
	}
	return strings.Join(out, "; ")
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *book) // record 1 starts canary a
		want string
	}{
		{"what is listed", func(b *book) {
			b.call("1", "restart", "svc/x")
			b.call("2", "set_flag", "any")
			b.call("3", "set_flag", "")
		}, ""},
		{"another tool", func(b *book) { b.call("1", "reboot", "") }, "a action_not_listed@2 [2]"},
		{"another target", func(b *book) { b.call("1", "restart", "svc/y") }, "a action_not_listed@2 [2]"},
		{"no target where one is listed", func(b *book) { b.call("1", "restart", "") }, "a action_not_listed@2 [2]"},
		{"not reversible", func(b *book) { b.call("1", "drop", "table") }, "a action_irreversible@2 [2]"},
		{"a failed call acts too", func(b *book) { b.call("1", "reboot", "", func(d *events.ToolCalled) { d.Status = "failed" }) }, "a action_not_listed@2 [2]"},
		{"a denied call does not", func(b *book) { b.call("1", "reboot", "", func(d *events.ToolCalled) { d.Status = "denied" }) }, ""},
		{"nor the agent's own word", func(b *book) {
			b.put(agent, Namespace, &events.ToolCalled{ToolCallID: "1", Tool: "reboot", Status: "ok"})
		}, ""},
		{"nor a call in another namespace", func(b *book) {
			b.put(dispatcher, "production", &events.ToolCalled{ToolCallID: "1", Tool: "reboot", Status: "ok"})
		}, ""},
		{"a further record of the call that ended it", func(b *book) { b.call("1", "reboot", ""); b.call("1", "reboot", "") }, "a action_not_listed@2 [2]"},
		{"a further record of a call behind the end", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("1", "set_flag", "")
		}, ""},
		{"another tool under the id of such a call", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("1", "restart", "svc/x")
		}, "a action_after_end@4 [4]"},
		{"a further record of it while the next one runs", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", capped(1))
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
		}, ""},
		{"and 30 days later it is another call", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.now = b.now.Add(remember)
			b.start("b", capped(1))
			b.call("1", "set_flag", "")
			b.call("2", "set_flag", "")
		}, "b action_beyond_cap@6 [6]"},
		{"told once", func(b *book) { b.call("1", "reboot", ""); b.call("2", "reboot", ""); b.call("3", "reboot", "") },
			"a action_not_listed@2 [2]; a action_after_rollback@3 [3]"},
		{"ended", func(b *book) {
			b.call("1", "set_flag", "")
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.call("2", "set_flag", "")
			b.call("3", "set_flag", "")
		}, "a action_after_end@4 [4]"},
		{"ended by nobody who may", func(b *book) {
			b.put(agent, Namespace, &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "b", Reason: "accepted"})
			b.call("2", "set_flag", "")
		}, ""},
		{"rolled back by a person", func(b *book) {
			b.put(operator, "production", &events.RollbackTriggered{CanaryID: "a", Rule: "operator", Reason: "enough"})
			b.call("2", "set_flag", "")
		}, "a action_after_rollback@3 [3]"},
		{"another while one runs has no effect", func(b *book) {
			b.start("b", func(d *events.CanaryStarted) { d.Actions[1].Tool = "reboot" })
			b.call("1", "reboot", "")
		}, "a action_not_listed@3 [3]"},
		{"the next one, and the first again", func(b *book) {
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("a")
			b.start("b")
			b.call("1", "set_flag", "")
			b.call("2", "reboot", "")
		}, "b action_not_listed@6 [6]"},
		{"a criterion that makes no sense", func(b *book) {
			b.put(operator, "production", &events.CanaryEnded{CanaryID: "a", Reason: "accepted"})
			b.start("b", criteria(events.CanaryCriterion{Metric: LatencyRatio, Threshold: ptr(2.0), MinN: ptr(int64(1)), WindowS: ptr(int64(60))}))
			b.call("1", "set_flag", "")
		}, "b invalid_canary@3 [3]; b action_after_rollback@4 [4]"},
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

func TestNoCanaryNoRule(t *testing.T) {
	b := newBook(t)
	b.call("1", "reboot", "")
	b.put(agent, Namespace, &events.CanaryStarted{CanaryID: "a", Policy: "p", Actions: []events.CanaryAction{{Tool: "x", Reversible: true}}, CapPerWeek: 1, Criteria: []events.CanaryCriterion{{Metric: Violation}}})
	b.call("2", "reboot", "")
	if got := b.said(); got != "" {
		t.Error(got)
	}
}

func TestCapIsPerWeek(t *testing.T) {
	b := newBook(t)
	b.start("a", capped(2))
	b.call("1", "set_flag", "")
	b.call("2", "set_flag", "")
	b.call("2", "set_flag", "") // a repeat is no other call
	b.week("2026-W48")
	b.call("3", "set_flag", "")
	b.call("4", "set_flag", "", func(d *events.ToolCalled) { d.Status = "denied" })
	b.call("5", "set_flag", "")
	b.put(operator, "production", &events.WeekClosed{Week: "2026-W49", Zone: "UTC", Start: "2026-11-30T00:00:00Z", End: "2026-12-07T00:00:00Z"})
	if got := b.said(); got != "" {
		t.Fatal(got)
	}
	b.call("6", "set_flag", "x")
	d := b.rollbacks()
	if got := b.said(); got != "a action_beyond_cap@10 [10]" || *d[0].Value != 3 || *d[0].Threshold != 2 || *d[0].N != 3 {
		t.Errorf("%s, %+v", got, d[0])
	}
	if d[0].Reason != "set_flag on x: call 3 of this week, of 2" {
		t.Error(d[0].Reason)
	}
}

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
		{"confirmed, then refuted", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.amend("1", id, "late_telemetry", "refuted")
		}, "a correctness_violation@4 [3 4]"},
		{"over another amendment", func(b *book) {
			id, _ := b.predict("1", "unresolved")
			id, _ = b.amend("1", id, "late_telemetry", "confirmed")
			b.amend("1", id, "corrected_telemetry", "refuted")
		}, "a correctness_violation@5 [4 5]"},
		{"over another engine's opinion", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			id, _ = b.amend("1", id, "engine", "refuted")
			b.amend("1", id, "late_telemetry", "refuted")
		}, "a correctness_violation@5 [3 5]"},
		{"another engine's opinion alone", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.amend("1", id, "engine", "refuted")
		}, ""},
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
		{"of what an operator had reported", func(b *book) {
			id, _ := b.predict("1", "unresolved")
			id, _ = b.amend("1", id, "operator_report", "confirmed")
			b.amend("1", id, "late_telemetry", "refuted")
		}, ""},
		{"of what a sandbox had reported", func(b *book) {
			id, _ := b.predict("1", "")
			b.putID(id, judge, "production", b.reported("1", "confirmed", "sandbox"))
			b.amend("1", id, "late_telemetry", "refuted")
		}, ""},
		{"reported to be refuted", func(b *book) {
			id, _ := b.predict("1", "confirmed")
			b.amend("1", id, "operator_report", "refuted")
		}, ""},
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
		{"refuted, then confirmed", func(b *book) {
			id, _ := b.predict("1", "refuted")
			b.amend("1", id, "late_telemetry", "confirmed")
		}, ""},
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

func TestLint(t *testing.T) {
	n, w := ptr(int64(1)), ptr(int64(60))
	half, two := ptr(0.5), ptr(2.0)
	for _, c := range []struct {
		name string
		c    events.CanaryCriterion
		ok   bool
	}{
		{"violation", events.CanaryCriterion{Metric: Violation}, true},
		{"violation with figures", events.CanaryCriterion{Metric: Violation, MinN: n}, false},
		{"rate", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: w}, true},
		{"rate over one", events.CanaryCriterion{Metric: FailureRate, Threshold: two, MinN: n, WindowS: w}, false},
		{"rate with a baseline", events.CanaryCriterion{Metric: FailureRate, Threshold: half, Baseline: half, MinN: n, WindowS: w}, false},
		{"rate of a tool", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: w, Tool: ptr("x")}, false},
		{"no threshold", events.CanaryCriterion{Metric: FailureRate, MinN: n, WindowS: w}, false},
		{"no min_n", events.CanaryCriterion{Metric: FailureRate, Threshold: half, WindowS: w}, false},
		{"min_n 0", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: ptr(int64(0)), WindowS: w}, false},
		{"no window", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n}, false},
		{"an endless window", events.CanaryCriterion{Metric: FailureRate, Threshold: half, MinN: n, WindowS: ptr(int64(1 << 53))}, false},
		{"drop", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, Baseline: half, MinN: n, WindowS: w}, true},
		{"drop without baseline", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, MinN: n, WindowS: w}, false},
		{"drop from over one", events.CanaryCriterion{Metric: SuccessDrop, Threshold: two, Baseline: two, MinN: n, WindowS: w}, false},
		{"latency", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, Baseline: two, MinN: n, WindowS: w, Tool: ptr("x")}, true},
		{"latency beside next to nothing", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, Baseline: ptr(1e-9), MinN: n, WindowS: w}, false},
		{"latency without baseline", events.CanaryCriterion{Metric: LatencyRatio, Threshold: two, MinN: n, WindowS: w}, false},
		{"another metric", events.CanaryCriterion{Metric: "mood", Threshold: two, MinN: n, WindowS: w}, false},
	} {
		err := Lint(&events.CanaryStarted{Criteria: []events.CanaryCriterion{c.c}})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "/criteria/0: "+c.c.Metric+": ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLintBoundsTheCap, and what is wrong with everything still fits the event.
func TestLintBoundsTheCap(t *testing.T) {
	for _, c := range []struct {
		n  int64
		ok bool
	}{{0, true}, {maxCap, true}, {maxCap + 1, false}} {
		err := Lint(&events.CanaryStarted{CapPerWeek: c.n})
		if (err == nil) != c.ok || err != nil && !strings.HasPrefix(err.Error(), "/cap_per_week: ") {
			t.Errorf("%d: %v", c.n, err)
		}
	}
	b := newBook(t)
	b.start("a", capped(maxCap+1), func(d *events.CanaryStarted) {
		d.Criteria = nil
		for range 16 {
			d.Criteria = append(d.Criteria, events.CanaryCriterion{Metric: SuccessDrop, Threshold: ptr(1.0), MinN: ptr(int64(1)), WindowS: ptr(int64(1))})
		}
	})
	if d := b.rollbacks(); len(d) != 1 || strings.Count(d[0].Reason, "\n") != 16 {
		t.Errorf("%+v", d)
	}
}

// TestOrder: records come in ledger order.
func TestOrder(t *testing.T) {
	b := newBook(t)
	b.start("a")
	if _, err := b.f.Apply(b.recs[0]); err == nil {
		t.Error("applied twice")
	}
}

func TestRestoreRefusesOthers(t *testing.T) {
	for _, raw := range []string{
		"", "null0", `{"seq":1,"mood":2}`, `[]`,
		`{"seq":1,"calls":[{"id":"1","tool":"x","seq":1}]}`, `{"seq":1,"last":{"start":{"criteria":[{"metric":"latency_ratio"}]}}}`,
	} {
		if err := testFold().Restore([]byte(raw)); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}

// genBook draws a ledger of a few canaries that do all kinds of things.
func genBook(t *rapid.T) *book {
	b := newBook(t)
	drop, lat := rate(SuccessDrop, 20, 3, 50), rate(LatencyRatio, 2, 3, 50)
	drop.Baseline, lat.Baseline = ptr(0.9), ptr(100.0)
	all := criteria(rate(FailureRate, 0.6, 3, 50), drop, lat, events.CanaryCriterion{Metric: Violation})
	ids := []string{"a", "b", "c", "d", "e"}
	last := map[string]string{} // prediction → event id of its last change
	for i := range rapid.IntRange(5, 60).Draw(t, "records") {
		n := rapid.IntRange(0, 9).Draw(t, "n")
		id := fmt.Sprint(n)
		switch rapid.SampledFrom([]string{"start", "end", "call", "call", "call", "recheck", "recheck", "predict", "predict", "amend", "week", "wait"}).Draw(t, "what") {
		case "start":
			b.start(ids[n%len(ids)], all, capped(int64(n)+3))
		case "end":
			if n < 2 {
				b.put(operator, "production", &events.CanaryEnded{CanaryID: ids[n%len(ids)], Reason: "x"})
			}
		case "call":
			tool := rapid.SampledFrom([]string{"set_flag", "set_flag", "set_flag", "set_flag", "restart", "drop"}).Draw(t, "tool")
			b.call(id, tool, "svc/x", took(float64(n*40)))
		case "recheck":
			if n == 9 {
				b.reportedRecheck("1", "not_confirmed")
			}
			b.recheck(id, rapid.SampledFrom([]string{"confirmed", "not_confirmed", "inconclusive"}).Draw(t, "result"))
		case "predict":
			p := fmt.Sprint("p", i)
			last[p], _ = b.predict(p, rapid.SampledFrom([]string{"confirmed", "refuted", "void"}).Draw(t, "verdict"))
		case "amend":
			if ps := slices.Sorted(maps.Keys(last)); len(ps) > 0 {
				p := ps[n%len(ps)]
				last[p], _ = b.amend(p, last[p], rapid.SampledFrom([]string{"late_telemetry", "late_telemetry", "operator_report", "engine"}).Draw(t, "cause"), rapid.SampledFrom([]string{"confirmed", "refuted"}).Draw(t, "verdict"))
			}
		case "week":
			b.week("2026-W48")
		case "wait":
			b.now = b.now.Add(time.Duration(n*5) * time.Second)
			if n == 9 {
				b.now = b.now.Add(remember / 2)
			}
		}
	}
	return b
}

// TestSplitAnywhere: a fold that is saved and taken up again, wherever and
// however often, emits the same bytes as one from record 1 and ends in the same
// state; and one that sees its own emissions in the ledger says no more.
func TestSplitAnywhere(t *testing.T) {
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		b := genBook(t)
		whole, err := b.f.Save()
		if err != nil {
			t.Fatal(err)
		}
		f := testFold()
		var out []resolver.Emission
		for i, rec := range b.recs {
			if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
				raw, err := f.Save()
				if err != nil {
					t.Fatal(err)
				}
				f = testFold()
				if err := f.Restore(raw); err != nil {
					t.Fatalf("at %d: %v", i, err)
				}
			}
			es, err := f.Apply(rec)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, es...)
		}
		same := slices.EqualFunc(out, b.out, func(x, y resolver.Emission) bool {
			return x.ID == y.ID && x.Cut == y.Cut && string(x.Event) == string(y.Event)
		})
		if !same {
			t.Fatalf("%d emissions, want %d or others", len(out), len(b.out))
		}
		if raw, err := f.Save(); err != nil || string(raw) != string(whole) {
			t.Fatalf("in the end\n%s\nwant\n%s", raw, whole)
		}
		b.rollbacks()
		told += len(out)
		ids := map[string]bool{}
		for _, e := range out {
			if ids[e.ID] {
				t.Fatalf("%s was emitted twice", e.ID)
			}
			ids[e.ID] = true
		}
	})
	if told == 0 {
		t.Error("no ledger called for a rollback")
	}
}

// TestGolden holds the bytes of a rollback: the ledger knows them by their hash.
func TestGolden(t *testing.T) {
	b := newBook(t)
	b.start("a", capped(1))
	b.call("1", "set_flag", "")
	b.call("2", "set_flag", "mode")
	want := `{"specversion":"1.0","id":"ID","source":"assay/resolver","type":"rollback.triggered","time":"2026-11-23T12:00:03Z","datacontenttype":"application/json",` +
		`"dataschema":"urn:assay:rollback.triggered:1","causationid":"` + events.DerivedID("test", "2").String() + `","data":{"context":{"component":"resolver","capture":"live"},` +
		`"canary_id":"a","rule":"action_beyond_cap","reason":"set_flag on mode: call 2 of this week, of 1","value":2,"threshold":1,"n":2,"cut_seq":3,"evidence_seqs":[3],` +
		`"resolver":{"id":"resolver/main","kind":"telemetry","key":"UABC"}}}`
	id := events.DerivedID(events.TypeRollbackTriggered, operator, events.DerivedID("test", "0").String(), BeyondCap).String()
	if len(b.out) != 1 || string(b.out[0].Event) != strings.Replace(want, "ID", id, 1) {
		t.Errorf("%d emissions: %s", len(b.out), b.said())
	}
	var s state
	raw, err := b.f.Save()
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Last.Over != AfterRollback || len(s.Last.Windows)+len(s.Last.Promises) > 0 {
		t.Errorf("%s, %v", raw, err)
	}
}
