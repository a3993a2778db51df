package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

type criterionEvalCmd struct {
	File        string        `arg:"" help:"File with the criterion; - is stdin."`
	Telemetry   string        `help:"Samples: a table (.csv), or JSON lines (.jsonl) of segments' samples, each with its source." required:"" type:"existingfile" placeholder:"FILE"`
	Registry    string        `help:"Signal registry. Default: for JSON lines DIR/registry.json, for a table one made of what the criterion asks for." type:"existingfile" placeholder:"FILE"`
	At          string        `help:"What the window is anchored at: when the action ended, or when the prediction was recorded." required:"" placeholder:"TIME"`
	ActionStart string        `help:"When the action started; the baseline ends there. Default: --at." placeholder:"TIME"`
	ClosedAt    string        `help:"Judge as if every source had reported up to this time and no further: later samples are passed over. Default: nothing is waited for." placeholder:"TIME"`
	Signal      string        `help:"Signal of a table with one column of values. Default: the columns' names." placeholder:"NAME"`
	Interval    time.Duration `help:"Without a registry: time between two samples. Default: the criterion's coverage.interval."`
	Kind        string        `help:"Without a registry: gauge or counter. Default: counter for an increase, gauge for anything else." enum:",gauge,counter" default:"" placeholder:"KIND"`
}

// The made registry of a table.
const (
	csvSource = "csv"
	// csvFloor and csvGaps are its demands where the criterion makes none.
	csvFloor = 0.95
	csvGaps  = 6 // intervals
)

// evaluated is a verdict with its explanation.
type evaluated struct {
	Verdict     string                `json:"verdict"` // confirmed, refuted, unknown
	Reason      *string               `json:"reason"`
	Explanation criterion.Explanation `json:"explanation"`
}

func (c *criterionEvalCmd) Run(a *app) error {
	raw, err := readCriterion(a, c.File)
	if err != nil {
		return err
	}
	parsed, faults := parseCriterion(raw)
	if len(faults) > 0 {
		return faultError(faults)
	}
	in, err := c.input(a, parsed)
	if err != nil {
		return err
	}
	res := criterion.Evaluate(in)
	out := evaluated{Explanation: criterion.Explain(in, res)}
	out.Verdict, out.Reason = "unknown", out.Explanation.Reason
	code := exitNotCompare
	switch res.Outcome {
	case criterion.True:
		out.Verdict, code = "confirmed", exitHolds
	case criterion.False:
		out.Verdict, code = "refuted", exitDoesNot
	}
	err = a.print(out, out.print)
	if err == nil && code != exitHolds {
		err = &exitError{code: code}
	}
	return err
}

func (o evaluated) print(w io.Writer) {
	var b strings.Builder
	b.WriteString(o.Verdict)
	if o.Reason != nil {
		fmt.Fprintf(&b, " (%s)", *o.Reason)
	}
	b.WriteByte('\n')
	o.Explanation.WriteText(&b)
	_, _ = io.WriteString(w, visible(b.String()))
}

// input gathers what the evaluation depends on.
func (c *criterionEvalCmd) input(a *app, parsed criterion.Criterion) (criterion.Input, error) {
	in := criterion.Input{Criterion: parsed}
	samples, err := c.samples()
	if err != nil {
		return in, err
	}
	in.Samples = samples
	if c.Registry == "" && c.isTable() {
		in.Registry, err = c.makeRegistry(parsed)
	} else {
		in.Registry, err = loadRegistry(a, c.Registry)
	}
	if err != nil {
		return in, err
	}
	if faults := criterion.Lint(parsed, in.Registry); len(faults) > 0 {
		return in, faultError(faults)
	}
	if c.isTable() {
		// A table does not know the sources of its signals.
		for i := range samples {
			if s, ok := in.Registry.Signal(samples[i].Signal); ok {
				samples[i].Source = s.Source
			}
		}
	}
	return in, c.place(&in)
}

func (c *criterionEvalCmd) isTable() bool { return filepath.Ext(c.Telemetry) == ".csv" }

func (c *criterionEvalCmd) samples() ([]criterion.Sample, error) {
	f, err := os.Open(c.Telemetry)
	if err != nil {
		return nil, usageError("%w", err)
	}
	defer f.Close()
	var samples []criterion.Sample
	switch {
	case c.isTable():
		samples, err = telemetry.ReadCSV(f, telemetry.CSVConfig{Source: csvSource, Signal: c.Signal})
	case filepath.Ext(c.Telemetry) != ".jsonl":
		return nil, usageError("%s: want a name that ends with .csv or .jsonl", c.Telemetry)
	case c.Signal != "" || c.Interval != 0 || c.Kind != "":
		return nil, usageError("--signal, --interval and --kind go with a table")
	default:
		samples, err = criterion.ReadSamples(f)
	}
	if err != nil {
		return nil, usageError("%s: %w", c.Telemetry, err)
	}
	return samples, nil
}

// makeRegistry registers the criterion's signals with the demands that it makes
// itself, since there is no operator whose demands it could loosen.
func (c *criterionEvalCmd) makeRegistry(parsed criterion.Criterion) (*criterion.Registry, error) {
	interval := c.Interval
	asked := parsed.Coverage
	switch {
	case interval < 0:
		return nil, usageError("--interval is negative")
	case interval == 0 && asked.Interval == nil:
		return nil, usageError("how far apart are the samples? say it with --interval or in the criterion's coverage.interval, or name a registry with --registry")
	case interval == 0:
		interval = *asked.Interval
	}
	s := criterion.Signal{
		Source: csvSource, Unit: "1", Writer: "sensor/csv", Interval: interval, MaxStaleness: csvGaps * interval,
		CoverageFloor: or(asked.Min, csvFloor), MaxGap: or(asked.MaxGap, csvGaps*interval),
		AllowedLateness: or(parsed.AllowedLateness, 0), MaxSkew: or(parsed.MaxSkew, 0), Lo: math.Inf(-1), Hi: math.Inf(1),
	}
	var signals []criterion.Signal
	seen := make(map[string]bool)
	add := func(name string, kind criterion.Kind) {
		if !seen[name] {
			seen[name] = true
			s.Name, s.Kind, s.Heartbeat = name, kind, or(asked.Heartbeat, name)
			signals = append(signals, s)
		}
	}
	for _, clause := range parsed.Clauses() {
		add(clause.Signal, c.kind(parsed, clause.Signal))
	}
	if asked.Heartbeat != nil {
		add(*asked.Heartbeat, criterion.Gauge)
	}
	raw, err := criterion.AddSignals([]byte(`{"v":1,"signals":[]}`), signals...)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return criterion.ParseRegistry(raw)
}

func (c *criterionEvalCmd) kind(parsed criterion.Criterion, signal string) criterion.Kind {
	if c.Kind != "" {
		return criterion.Kind(c.Kind)
	}
	increase := parsed.Baseline != nil && parsed.Baseline.Reduce == criterion.ReduceIncrease
	for _, clause := range parsed.Clauses() {
		increase = increase || clause.Signal == signal && clause.Reduce == criterion.ReduceIncrease
	}
	if increase {
		return criterion.Counter
	}
	return criterion.Gauge
}

func or[T any](p *T, v T) T {
	if p != nil {
		return *p
	}
	return v
}

// place sets the spans, whether they are closed, and what was seen by then.
func (c *criterionEvalCmd) place(in *criterion.Input) error {
	at, err := c.time("--at", c.At)
	if err != nil {
		return err
	}
	start := at
	if c.ActionStart != "" {
		if in.Criterion.Action == nil {
			return usageError("--action-start: the criterion waits for no action")
		}
		if start, err = c.time("--action-start", c.ActionStart); err != nil {
			return err
		}
		if start.After(at) {
			return usageError("--action-start lies after --at, when the action ended")
		}
	}
	open := at.Add(in.Criterion.Window.Offset)
	in.Window = criterion.Span{Start: open, End: open.Add(in.Criterion.Window.Length)}
	in.Baseline = in.Criterion.BaselineSpan(start)
	in.Closed, in.BaselineClosed = true, true
	if c.ClosedAt == "" {
		return nil
	}
	closed, err := c.time("--closed-at", c.ClosedAt)
	if err != nil {
		return err
	}
	in.Samples = slices.DeleteFunc(in.Samples, func(s criterion.Sample) bool { return s.Time.After(closed) })
	for _, clause := range in.Criterion.Clauses() {
		lim, _ := criterion.LimitsOf(in.Criterion, clause, in.Registry)
		in.Closed = in.Closed && !in.Window.End.Add(lim.Lateness).After(closed)
		in.BaselineClosed = in.BaselineClosed && !in.Baseline.End.Add(lim.Lateness).After(closed)
	}
	return nil
}

func (c *criterionEvalCmd) time(flag, value string) (time.Time, error) {
	t, err := telemetry.ParseTime(value)
	if err != nil {
		return t, usageError("%s: %w", flag, err)
	}
	return t, nil
}
