package criterion

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/ledger"
)

// ErrRegistry means that bytes are not a registry of signals.
var ErrRegistry = errors.New("invalid signal registry")

// Kind says how a signal's values behave.
type Kind string

// The kinds.
const (
	Gauge   Kind = "gauge"   // a level, sampled every interval
	Counter Kind = "counter" // a running total, sampled every interval
	Event   Kind = "event"   // one sample an occurrence; silence is told by the heartbeat alone
)

// Signal is what the operator says of a signal. Criteria can only tighten it.
type Signal struct {
	Name            string
	Source          string // telemetry source that measures it
	Unit            string
	Kind            Kind
	Heartbeat       string        // signal of the same source that shows it alive; may be the signal itself
	Writer          string        // principal whose connection the samples come by
	Interval        time.Duration // between two samples
	MaxStaleness    time.Duration // how old a counter's start sample may be
	CoverageFloor   float64       // (0, 1]
	MaxGap          time.Duration // longest silence that does not hide anything
	AllowedLateness time.Duration
	MaxSkew         time.Duration // between the source's clock and the ledger's
	Lo, Hi          float64       // what a missing sample could have been; infinite when not stated

	// Where an adapter finds the signal; the kind of its source decides which
	// of these it has.
	Query    string // PromQL, evaluated at every step
	Selector string // PromQL selector, whose stored samples are taken as they are
	Start    string // PromQL selector of the Unix time since when the counter counts
	// Match are the labels of an alert, the fields of a journal entry or the
	// paths of OTLP that must be there, with these values.
	Match      map[string]string
	LabelsFrom map[string]string // labels, and the fields or paths that they come from
	ValueField string            // field of a journal entry that holds the value
	Metric     string            // name of an OTLP metric; "" is log records
	MetricUnit string            // its unit; "" is any
	Field      string            // FieldCount or FieldSum of a distribution
}

// Registry is a parsed registry. Its bytes are what a resolution pins by hash.
type Registry struct {
	signals map[string]Signal
	beats   map[string]bool // the signals that are some signal's heartbeat
	order   []string
	sources []Source
	raw     []byte
	hash    ledger.Hash
}

type registryWire struct {
	V       int64        `json:"v"`
	Sources []sourceWire `json:"sources,omitzero"`
	Signals []signalWire `json:"signals"`
}

type signalWire struct {
	Name            string    `json:"name"`
	Source          string    `json:"source"`
	Unit            string    `json:"unit"`
	Kind            Kind      `json:"kind"`
	Heartbeat       string    `json:"heartbeat"`
	Writer          string    `json:"writer"`
	Interval        *duration `json:"interval"`
	MaxStaleness    *duration `json:"max_staleness"`
	CoverageFloor   float64   `json:"coverage_floor"`
	MaxGap          *duration `json:"max_gap"`
	AllowedLateness *duration `json:"allowed_lateness"`
	MaxSkew         *duration `json:"max_skew"`
	Lo              *float64  `json:"lo"`
	Hi              *float64  `json:"hi"`

	Query    string            `json:"query,omitzero"`
	Selector string            `json:"selector,omitzero"`
	Start    string            `json:"start,omitzero"`
	Match    map[string]string `json:"match,omitzero"`

	LabelsFrom map[string]string `json:"labels_from,omitzero"`
	ValueField string            `json:"value_field,omitzero"`
	Metric     string            `json:"metric,omitzero"`
	MetricUnit string            `json:"metric_unit,omitzero"`
	Field      string            `json:"field,omitzero"`
}

// MarshalText implements encoding.TextMarshaler.
func (d duration) MarshalText() ([]byte, error) {
	return []byte(formatDuration(time.Duration(d))), nil
}

// ParseRegistry reads the operator's registry; unknown members are errors. The
// error is ErrRegistry with the place.
func ParseRegistry(raw []byte) (*Registry, error) {
	var w registryWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegistry, err)
	}
	if w.V != 1 {
		return nil, fmt.Errorf("%w: /v is %d, want 1", ErrRegistry, w.V)
	}
	r := &Registry{signals: make(map[string]Signal), beats: make(map[string]bool), raw: slices.Clone(raw), hash: ledger.Hash(sha256.Sum256(raw))}
	for i, sw := range w.Sources {
		s, err := sw.source()
		if err == nil && slices.ContainsFunc(r.sources, func(o Source) bool { return o.Name == s.Name }) {
			err = errors.New("/name: registered twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: /sources/%d%w", ErrRegistry, i, err)
		}
		r.sources = append(r.sources, s)
	}
	for i, sw := range w.Signals {
		s, err := sw.signal()
		if _, twice := r.signals[s.Name]; err == nil && twice {
			err = errors.New("/name: registered twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: /signals/%d%w", ErrRegistry, i, err)
		}
		r.signals[s.Name] = s
		r.order = append(r.order, s.Name)
	}
	for i, name := range r.order {
		s := r.signals[name]
		if h, ok := r.signals[s.Heartbeat]; !ok || h.Source != s.Source {
			return nil, fmt.Errorf("%w: /signals/%d/heartbeat: %q is no signal of source %q", ErrRegistry, i, s.Heartbeat, s.Source)
		}
		r.beats[s.Heartbeat] = true
	}
	if err := r.checkSources(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegistry, err)
	}
	return r, nil
}

func (w *signalWire) signal() (Signal, error) {
	for _, d := range []struct {
		name     string
		value    *duration
		positive bool
	}{
		{"interval", w.Interval, true},
		{"max_staleness", w.MaxStaleness, true},
		{"max_gap", w.MaxGap, true},
		{"allowed_lateness", w.AllowedLateness, false},
		{"max_skew", w.MaxSkew, false},
	} {
		if d.value == nil || d.positive && *d.value == 0 || time.Duration(*d.value) > maxDuration {
			return Signal{}, fmt.Errorf("/%s: missing or out of range", d.name)
		}
	}
	s := Signal{
		Name: w.Name, Source: w.Source, Unit: w.Unit, Kind: w.Kind, Heartbeat: w.Heartbeat, Writer: w.Writer,
		Interval: orZero(w.Interval), MaxStaleness: orZero(w.MaxStaleness), CoverageFloor: w.CoverageFloor,
		MaxGap: orZero(w.MaxGap), AllowedLateness: orZero(w.AllowedLateness), MaxSkew: orZero(w.MaxSkew),
		Lo: math.Inf(-1), Hi: math.Inf(1),
		Query: w.Query, Selector: w.Selector, Start: w.Start, Match: w.Match,
		LabelsFrom: w.LabelsFrom, ValueField: w.ValueField, Metric: w.Metric, MetricUnit: w.MetricUnit, Field: w.Field,
	}
	if w.Lo != nil {
		s.Lo = *w.Lo
	}
	if w.Hi != nil {
		s.Hi = *w.Hi
	}
	switch {
	case !IsSignal(s.Name):
		return s, fmt.Errorf("/name: %q", s.Name)
	case !IsSource(s.Source):
		return s, fmt.Errorf("/source: %q", s.Source)
	case s.Kind != Gauge && s.Kind != Counter && s.Kind != Event:
		return s, fmt.Errorf("/kind: %q, want gauge, counter or event", s.Kind)
	case !ledger.IsPrincipal(s.Writer):
		return s, fmt.Errorf("/writer: %q, want role/name", s.Writer)
	case !(s.CoverageFloor > 0 && s.CoverageFloor <= 1):
		return s, fmt.Errorf("/coverage_floor: %v, want above 0 and at most 1", s.CoverageFloor)
	case s.Lo > s.Hi:
		return s, fmt.Errorf("/lo: %v is above hi %v", s.Lo, s.Hi)
	}
	return s, nil
}

// Hash is the SHA-256 of the registry's bytes.
func (r *Registry) Hash() ledger.Hash { return r.hash }

// HashString is Hash in hexadecimal.
func (r *Registry) HashString() string { return hex.EncodeToString(r.hash[:]) }

// Bytes are the registry's bytes as parsed; the caller must not change them.
func (r *Registry) Bytes() []byte { return r.raw }

// Signal finds a signal by name.
func (r *Registry) Signal(name string) (Signal, bool) {
	s, ok := r.signals[name]
	return s, ok
}

// Sources are the telemetry sources that the registry names, sorted.
func (r *Registry) Sources() []string {
	seen := make(map[string]bool)
	var out []string
	for _, name := range r.order {
		if s := r.signals[name].Source; !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// IsHeartbeat says whether some signal of the source has name as heartbeat.
func (r *Registry) IsHeartbeat(source, name string) bool {
	return r.beats[name] && r.signals[name].Source == source
}

// AddSignals appends signals to a registry and returns the new bytes, checked.
// Whole milliseconds are kept of durations; infinite bounds are left out.
func AddSignals(registry []byte, signals ...Signal) ([]byte, error) {
	var w registryWire
	if err := json.Unmarshal(registry, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegistry, err)
	}
	for _, s := range signals {
		w.Signals = append(w.Signals, wireOf(s))
	}
	out, err := json.Marshal(w, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegistry, err)
	}
	out = append(out, '\n')
	if _, err := ParseRegistry(out); err != nil {
		return nil, err
	}
	return out, nil
}

func wireOf(s Signal) signalWire {
	dur := func(d time.Duration) *duration { v := duration(d); return &v }
	bound := func(f float64) *float64 {
		if math.IsInf(f, 0) {
			return nil
		}
		return &f
	}
	return signalWire{
		Name: s.Name, Source: s.Source, Unit: s.Unit, Kind: s.Kind, Heartbeat: s.Heartbeat, Writer: s.Writer,
		Interval: dur(s.Interval), MaxStaleness: dur(s.MaxStaleness), CoverageFloor: s.CoverageFloor,
		MaxGap: dur(s.MaxGap), AllowedLateness: dur(s.AllowedLateness), MaxSkew: dur(s.MaxSkew),
		Lo: bound(s.Lo), Hi: bound(s.Hi),
		Query: s.Query, Selector: s.Selector, Start: s.Start, Match: s.Match,
		LabelsFrom: s.LabelsFrom, ValueField: s.ValueField, Metric: s.Metric, MetricUnit: s.MetricUnit, Field: s.Field,
	}
}

// Signals of the host sensor.
const (
	HostSource        = "host"
	SignalHeartbeat   = "host_heartbeat"        // 1 every tick
	SignalProcessRSS  = "process_rss_bytes"     // labels pid, start
	SignalProcessUp   = "process_up"            // labels pid, start; 0 once that process is gone
	SignalOOMKill     = "oom_kill"              // of the whole host, since boot
	SignalMemoryStall = "psi_memory_some_avg10" // percent
)

// DefaultRegistry is the registry of a host sensor that ticks every interval.
// The host's clock is the ledger's on one machine, so the skew is small.
func DefaultRegistry(interval time.Duration) ([]byte, error) {
	host := func(name, unit string, kind Kind, lo, hi float64) Signal {
		return Signal{
			Name: name, Source: HostSource, Unit: unit, Kind: kind, Heartbeat: SignalHeartbeat, Writer: "sensor/host",
			Interval: interval, MaxStaleness: 10 * interval, CoverageFloor: 0.8, MaxGap: 4 * interval,
			AllowedLateness: 2 * interval, MaxSkew: interval / 10, Lo: lo, Hi: hi,
		}
	}
	inf := math.Inf(1)
	return AddSignals([]byte(`{"v":1,"signals":[]}`),
		host(SignalHeartbeat, "1", Gauge, 1, 1),
		host(SignalProcessRSS, "bytes", Gauge, 0, inf),
		host(SignalProcessUp, "1", Gauge, 0, 1),
		host(SignalOOMKill, "1", Counter, 0, inf),
		host(SignalMemoryStall, "percent", Gauge, 0, 100),
	)
}
