package canary

import (
	"fmt"
	"strings"
	"time"

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

	episode string // of the events
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
	raw, err := events.Encode(&events.Event{ID: id, Source: "test", Type: typ, Time: events.FormatTime(cut), DataSchema: events.DataSchema(typ, 1), EpisodeID: b.episode, Data: d})
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

// by is how another witness than the dispatcher tells of a call.
func by(capture string) func(*events.ToolCalled) {
	return func(d *events.ToolCalled) { d.Context.Capture = &capture }
}

func denied(d *events.ToolCalled) { d.Status = "denied" }

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

// ruled predicts "1" with this verdict and amends it, each time what stood before:
// "<cause> <verdict>".
func (b *book) ruled(verdict string, amendments ...string) {
	b.t.Helper()
	id, _ := b.predict("1", verdict)
	for _, a := range amendments {
		cause, verdict, _ := strings.Cut(a, " ")
		id, _ = b.amend("1", id, cause, verdict)
	}
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
