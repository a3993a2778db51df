package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
	"assay/resolver/criterion"
)

const (
	// foldSignals are measured, of foldUnits series each; as many again that
	// nobody measures are for the bystanders.
	foldSignals = 100
	foldUnits   = 10
	foldTicks   = 10 // in a segment
	bystanding  = 1000
)

// Cost is what the fold alone takes of one processor.
type Cost struct {
	// Bystanders watch signals that have no samples, but have the heartbeat of
	// those that do. Watchers are predictions on each measured series; 0 is one
	// prediction in all, without which segments are not even loaded.
	Bystanders int `json:"bystanders"`
	Watchers   int `json:"watchers"`
	Samples    int `json:"samples"`
	// Nanoseconds of processor time a sample, and of decoding it beside that: of
	// the median segment, so that what else the machine does counts for little.
	Sample float64 `json:"sample_ns"`
	Decode float64 `json:"decode_ns"`
	// Microseconds of processor time to take a prediction in and arm it.
	Prediction float64 `json:"prediction_us"`
}

// measureFold folds segments of 10,000 samples by how many predictions there are.
func measureFold(o options, report *Report) error {
	var quiet, crowded float64
	for _, c := range []Cost{
		{Bystanders: 0}, {Bystanders: o.predictions / 10}, {Bystanders: o.predictions},
		{Watchers: 1}, {Watchers: max(1, o.predictions/10_000)}, {Watchers: max(1, o.predictions/1000)},
	} {
		if err := c.measure(o.segments); err != nil {
			return err
		}
		report.Fold = append(report.Fold, c)
		switch {
		case c.Watchers > 0:
		case c.Bystanders == 0:
			quiet = c.Sample
		default:
			crowded = c.Sample
		}
	}
	report.check(fmt.Sprintf("cost of a sample with %d bystanders against none", o.predictions), crowded/quiet, maxBystanderRatio, "×")
	return nil
}

// maxBystanderRatio allows for caches that bystanders fill.
const maxBystanderRatio = 1.5

func (c *Cost) measure(segments int) error {
	f, err := newFold()
	if err != nil {
		return err
	}
	n, began := 0, cpuTime()
	predict := func(signal, unit int) error {
		n++
		return f.predict(n, signal, unit)
	}
	if c.Watchers == 0 {
		err = predict(0, 0)
	}
	for i := 0; i < c.Watchers*foldSignals*foldUnits && err == nil; i++ {
		err = predict(i%foldSignals, i/foldSignals%foldUnits)
	}
	for i := 0; i < c.Bystanders && err == nil; i++ {
		err = predict(foldSignals+i%bystanding, i/bystanding%foldUnits)
	}
	if err != nil {
		return err
	}
	c.Prediction = float64((cpuTime() - began).Microseconds()) / float64(n)
	runtime.GC() // of what was needed to take them in
	var folding, decoding []time.Duration
	for range segments {
		fold, decode, err := f.seal()
		if err != nil {
			return err
		}
		folding, decoding = append(folding, fold), append(decoding, decode)
	}
	c.Samples = f.samples
	perSample := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Nanoseconds()) * float64(segments) / float64(f.samples)
	}
	c.Sample, c.Decode = perSample(folding), perSample(decoding)
	return nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fold is a machine and the ledger that it folds.
type fold struct {
	machine *resolver.Machine
	head    ledger.Header
	last    ledger.Hash
	at      time.Time // end of the last segment
	samples int
	loaded  []criterion.Sample // the segment that is folded
}

func newFold() (*fold, error) {
	w := &world{signals: foldSignals + bystanding, units: foldUnits, sensors: 1}
	raw, err := w.registry()
	if err != nil {
		return nil, err
	}
	registry, err := criterion.ParseRegistry(raw)
	if err != nil {
		return nil, err
	}
	f := &fold{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.machine = resolver.NewMachine(resolver.MachineConfig{
		Registry: registry, Segments: f, Source: resolver.DefaultSource,
		Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: "UBENCH"},
	})
	return f, nil
}

// Load implements resolver.Segments: the fold is measured without the decoding.
func (f *fold) Load(string) ([]criterion.Sample, error) { return f.loaded, nil }

func (f *fold) apply(principal string, data events.Payload) error {
	f.head.Seq++
	e, err := events.Maker{Source: "urn:bench", Now: func() time.Time { return f.at }}.New(data)
	if err != nil {
		return err
	}
	raw, err := events.Encode(e)
	if err != nil {
		return err
	}
	f.head.Prev, f.head.RecordedAt, f.head.Principal, f.head.Namespace = f.last, f.at, principal, "production"
	rec, err := ledger.ParseRecord(ledger.AppendRecord(nil, f.head, raw))
	if err != nil {
		return err
	}
	f.last = rec.Leaf()
	_, err = f.machine.Apply(rec)
	return err
}

// predict promises what no sample refutes for a day.
func (f *fold) predict(n, signal, unit int) error {
	return f.apply(predictor, &events.PredictionRecorded{
		PredID: predID(n), PredictedEffect: "x", P: 0.7,
		Criterion: jsontext.Value(fmt.Sprintf(
			`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"1d"},"all":[{"signal":%q,"labels":{"unit":"%d"},"reduce":"max","op":"<=","value":9}]}`,
			signalName(signal), unit)),
	})
}

// seal folds the next segment and returns the processor time of folding it and,
// apart from that, of decoding its bytes.
func (f *fold) seal() (folding, decoding time.Duration, err error) {
	source, start := sourceName(0), f.at
	var samples []criterion.Sample
	for range foldTicks {
		add := func(signal string, labels map[string]string, value float64) {
			f.samples++
			samples = append(samples, criterion.Sample{
				Source: source, Stream: "bench", Seq: uint64(f.samples), Signal: signal, Labels: labels, Time: f.at, Value: value,
			})
		}
		for i := range foldSignals {
			for u := range foldUnits {
				add(signalName(i), map[string]string{"unit": strconv.Itoa(u)}, float64(f.at.Unix()%10))
			}
		}
		add(beatName(0), nil, 1)
		f.at = f.at.Add(interval)
	}
	raw := resolver.EncodeSegment(source, samples)
	sum := sha256.Sum256(raw)
	began := cpuTime()
	if _, f.loaded, err = resolver.DecodeSegment(raw); err != nil {
		return 0, 0, err
	}
	decoding = cpuTime() - began
	began = cpuTime()
	err = f.apply("resolver/main", &events.TelemetrySealed{
		Source: source, Start: events.FormatTime(start), End: events.FormatTime(f.at), First: uint64(f.head.Seq), Last: uint64(f.head.Seq),
		Watermark: events.FormatTime(f.at.Add(-interval)), SHA256: hex.EncodeToString(sum[:]), Samples: int64(len(samples)),
	})
	return cpuTime() - began, decoding, err
}
