package resolver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
	"assay/schema"
)

var epoch = time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// signalOf is a sensor of source "s" that ticks every 10 s and may be 5 s late.
func signalOf(name string, kind criterion.Kind, heartbeat string) criterion.Signal {
	return criterion.Signal{
		Name: name, Source: "s", Unit: "1", Kind: kind, Heartbeat: heartbeat, Writer: "sensor/s",
		Interval: 10 * time.Second, MaxStaleness: time.Minute, CoverageFloor: 0.5, MaxGap: 30 * time.Second,
		AllowedLateness: 5 * time.Second, Lo: 0, Hi: 1e9,
	}
}

func mustRegistry(t testing.TB, signals ...criterion.Signal) *criterion.Registry {
	t.Helper()
	raw, err := criterion.AddSignals([]byte(`{"v":1,"signals":[]}`), signals...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := criterion.ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testRegistry(t testing.TB) *criterion.Registry {
	t.Helper()
	silent := signalOf("gpu_temperature_celsius", criterion.Gauge, "gpu_temperature_celsius")
	silent.Source, silent.Writer = "gpu", "sensor/gpu"
	own := signalOf("own", criterion.Gauge, "own")
	own.Source, own.Writer = "piper", "agent/piper"
	heat := signalOf("heat", criterion.Gauge, "heat")
	heat.Source, heat.Writer, heat.MaxSkew = "hot", "sensor/hot", time.Second
	return mustRegistry(t, heat, signalOf("beat", criterion.Gauge, "beat"), signalOf("level", criterion.Gauge, "beat"),
		signalOf("total", criterion.Counter, "beat"), signalOf("happening", criterion.Event, "beat"), silent, own)
}

// fataler is what *testing.T, *testing.F and *rapid.T share.
type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// book is a ledger in the making, with the blobs that it names.
type book struct {
	t       fataler
	bodies  [][]byte
	head    ledger.Hash
	blobs   map[string][]byte
	ids     int
	seq     uint64
	loads   int
	dated   bool // segments name their earliest sample, as all do that are sealed today
	lastEnd time.Time
}

func newBook(t fataler) *book { return &book{t: t, blobs: make(map[string][]byte), dated: true} }

// Load implements Segments.
func (b *book) Load(sha string) ([]criterion.Sample, error) {
	b.loads++
	raw, ok := b.blobs[sha]
	if !ok {
		return nil, fmt.Errorf("no blob %s", sha)
	}
	_, samples, err := DecodeSegment(raw)
	return samples, err
}

func (b *book) put(raw []byte) string {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:])
	b.blobs[name] = raw
	return name
}

// event appends ready event bytes as the next record.
func (b *book) event(when time.Time, principal string, raw []byte) ledger.Seq {
	h := ledger.Header{Seq: ledger.Seq(len(b.bodies) + 1), Prev: b.head, RecordedAt: when, Principal: principal, Namespace: "production"}
	body := ledger.AppendRecord(nil, h, raw)
	b.bodies = append(b.bodies, body)
	b.head = ledger.Leaf(body)
	return h.Seq
}

// add appends an event with the payload, which must pass its schema.
func (b *book) add(when float64, principal string, data events.Payload) ledger.Seq {
	b.ids++
	return b.addID(when, principal, events.DerivedID("test", fmt.Sprint(b.ids)).String(), data)
}

func (b *book) addID(when float64, principal, id string, data events.Payload) ledger.Seq {
	typ := data.Type()
	raw, err := events.Encode(&events.Event{ID: id, Source: "test", Type: typ, Time: events.FormatTime(at(when)), DataSchema: events.DataSchema(typ, 1), Data: data})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, fault := schema.Check(raw); fault != nil {
		b.t.Fatalf("%s does not pass its schema: %+v\n%s", typ, fault, raw)
	}
	return b.event(at(when), principal, raw)
}

func (b *book) tick(when float64) ledger.Seq {
	return b.add(when, "logger/main", &events.ClockTicked{BootID: "b"})
}

func (b *book) predict(when float64, id, criterion string) ledger.Seq {
	return b.add(when, "agent/piper", &events.PredictionRecorded{PredID: id, PredictedEffect: "x", P: 0.7, Criterion: jsontext.Value(criterion)})
}

// tool is a record of a call that no other tells of.
func (b *book) tool(when float64, principal, tool, target, status string, ended float64) ledger.Seq {
	return b.call(fmt.Sprint("t", b.ids), when, principal, "live", tool, target, status, ended)
}

// call is one witness's record of a call: it took the two seconds before ended.
func (b *book) call(id string, when float64, principal, capture, tool, target, status string, ended float64) ledger.Seq {
	begin, end := events.FormatTime(at(ended-2)), events.FormatTime(at(ended))
	d := &events.ToolCalled{
		Context: events.Context{Capture: &capture}, ToolCallID: id, Tool: tool, Target: &target, Status: status, StartedAt: &begin, EndedAt: &end,
	}
	if target == "" {
		d.Target = nil
	}
	return b.add(when, principal, d)
}

// report is an operator's word on piper's prediction.
func (b *book) report(when float64, principal, predID, verdict string) ledger.Seq {
	whose := "agent/piper"
	return b.add(when, principal, &events.OutcomeRecorded{
		What: "seen", Source: "operator_report", PredID: &predID, PredPrincipal: &whose, Verdict: &verdict,
	})
}

// seal appends a segment of source s, or of the samples' source.
func (b *book) seal(when, watermark float64, samples ...criterion.Sample) ledger.Seq {
	source := "s"
	if len(samples) > 0 {
		source = samples[0].Source
	}
	return b.sealOf(source, when, watermark, samples...)
}

func (b *book) sealOf(source string, when, watermark float64, samples ...criterion.Sample) ledger.Seq {
	return b.sealCounted(source, when, watermark, int64(len(samples)), samples...)
}

// sealCounted is sealOf whose record says that the samples are n.
func (b *book) sealCounted(source string, when, watermark float64, n int64, samples ...criterion.Sample) ledger.Seq {
	start := b.lastEnd
	end := at(watermark)
	var first time.Time
	for i, s := range samples {
		if i == 0 || s.Time.Before(first) {
			first = s.Time
		}
		if !s.Time.Before(end) {
			end = s.Time.Add(1)
		}
	}
	if start.IsZero() {
		start = at(-1e6)
	}
	if !end.After(start) {
		end = start.Add(1)
	}
	b.lastEnd = end
	var earliest *string
	if b.dated && len(samples) > 0 {
		text := events.FormatTime(first)
		earliest = &text
	}
	raw := EncodeSegment(source, samples)
	b.seq++
	return b.add(when, "resolver/main", &events.TelemetrySealed{
		Source: source, Start: events.FormatTime(start), End: events.FormatTime(end), First: b.seq, Last: b.seq,
		Watermark: events.FormatTime(at(watermark)), SHA256: b.put(raw), Samples: n, Earliest: earliest,
	})
}

var nextSeq uint64

// sample is one value of a signal of source s; a test's samples never share an id.
func sample(signal string, seconds, value float64) criterion.Sample {
	nextSeq++
	return criterion.Sample{Source: "s", Stream: "b", Seq: nextSeq, Signal: signal, Time: at(seconds), Value: value}
}

// ticks are level and heartbeat every 10 s in [from, to).
func ticks(from, to, value float64) []criterion.Sample {
	var out []criterion.Sample
	for s := from; s < to; s += 10 {
		out = append(out, sample("level", s, value), sample("beat", s, 1))
	}
	return out
}

func machineOf(b *book, r *criterion.Registry) *Machine {
	return NewMachine(MachineConfig{
		Registry: r, Segments: b, Source: "assay/resolver",
		Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: "UKEY"},
	})
}

// fold applies the book's records to m from the one after m's last.
func (b *book) fold(m *Machine) []Emission {
	var out []Emission
	for _, body := range b.bodies[m.Seq():] {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			b.t.Fatal(err)
		}
		emissions, err := m.Apply(rec)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range emissions {
			if _, fault := schema.Check(e.Event); fault != nil {
				b.t.Fatalf("%s does not pass its schema: %+v\n%s", e.Type, fault, e.Event)
			}
			if e.Cut != rec.Seq {
				b.t.Fatalf("cut %d emitted at record %d", e.Cut, rec.Seq)
			}
		}
		out = append(out, emissions...)
	}
	return out
}

func resolutions(t fataler, emissions []Emission) map[string]*events.PredictionResolved {
	out := make(map[string]*events.PredictionResolved)
	for _, e := range emissions {
		ev, err := events.Decode(e.Event)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Data.(*events.PredictionResolved); ok {
			if out[d.PredID] != nil {
				t.Fatalf("%s is resolved twice", d.PredID)
			}
			out[d.PredID] = d
		}
	}
	return out
}

// amendments are the amendments of each prediction, which must follow each other.
func amendments(t fataler, emissions []Emission) map[string][]*events.PredictionResolutionAmended {
	out := make(map[string][]*events.PredictionResolutionAmended)
	last := make(map[string]string)
	for _, e := range emissions {
		ev, err := events.Decode(e.Event)
		if err != nil {
			t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *events.PredictionResolved:
			last[d.PredID] = ev.ID
		case *events.PredictionResolutionAmended:
			if d.Supersedes != last[d.PredID] {
				t.Fatalf("%s: an amendment of %s, want of %s", d.PredID, d.Supersedes, last[d.PredID])
			}
			last[d.PredID] = ev.ID
			out[d.PredID] = append(out[d.PredID], d)
		}
	}
	return out
}

// settledOf is piper's prediction if it is settled and may be amended, else nil.
func settledOf(m *Machine, id string) *prediction {
	if n, ok := m.past.find(predKey{"agent/piper", id}); ok {
		return m.past.get(n)
	}
	return nil
}
