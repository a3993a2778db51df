package criterion

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/schema"
)

// Fault says what is wrong with a criterion, and where.
type Fault struct {
	Pointer string `json:"pointer"` // JSON Pointer into the criterion
	Message string `json:"message"`
}

// Error is "<pointer>: <message>", without the pointer to the whole criterion.
func (f Fault) Error() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}

// Version is the only criterion_version.
const Version = 1

// Anchors of a window.
const (
	AnchorActionEnd = "action_end"  // when the matching tool call ended
	AnchorRecorded  = "recorded_at" // when the ledger recorded the prediction
)

// DefaultExpiry is expires_after where a criterion does not say.
const DefaultExpiry = 24 * time.Hour

// Criterion is a parsed criterion. Only what Lint passes may be evaluated.
type Criterion struct {
	Action          *Action // nil: the prediction waits for no action
	Window          Window
	All             []Clause  // Kleene AND
	Any             []Clause  // Kleene OR
	Baseline        *Baseline // nil: none is asked for
	Coverage        Coverage
	AllowedLateness *time.Duration      // nil: the registry's
	MaxSkew         *time.Duration      // nil: the registry's
	ExpiresAfter    time.Duration       // from the window's end
	Controls        []map[string]string // the labels of untouched peers
}

// Clauses are the clauses of All or of Any, whichever the criterion has.
func (c Criterion) Clauses() []Clause {
	if len(c.Any) > 0 {
		return c.Any
	}
	return c.All
}

// BaselineSpan is the baseline that ends at end: where the action started or,
// without an action, where the prediction was recorded. It is the zero Span for
// a criterion without a baseline.
func (c Criterion) BaselineSpan(end time.Time) Span {
	if c.Baseline == nil {
		return Span{}
	}
	return Span{end.Add(-c.Baseline.Length), end}
}

// PreWindow is as long as the window and ends where the action started. It is
// what Attribute compares the window with.
func (c Criterion) PreWindow(actionStart time.Time) Span {
	return Span{actionStart.Add(-c.Window.Length), actionStart}
}

// Action is the tool call that the prediction is about.
type Action struct {
	Tool      string
	Target    string        // "" matches every target
	ExecuteBy time.Duration // from the prediction's recorded_at; expires_after where not said
}

// Matches says whether a call of the tool on the target, "" for none, is the action.
func (a *Action) Matches(tool, target string) bool {
	return a.Tool == tool && (a.Target == "" || a.Target == target)
}

// Window is half-open: [anchor + Offset, anchor + Offset + Length).
type Window struct {
	Anchor string
	Offset time.Duration
	Length time.Duration
}

// Clause compares what a reducer makes of one series in the window with a value.
type Clause struct {
	Signal     string
	Labels     map[string]string
	Reduce     Reducer
	Quantile   float64 // of ReduceQuantile, [0, 1]
	Op         Op
	Value      float64
	HoldFor    time.Duration // 0: none
	MinSamples int64         // needed to show an absence; a witness needs one
}

// Baseline asks that each clause's series showed the symptom before the action,
// which proves that the sensor can see it.
type Baseline struct {
	Length   time.Duration
	Reduce   Reducer
	Quantile float64 // of ReduceQuantile, [0, 1]
	Op       Op
	Value    float64
}

// on is the baseline as a clause over another clause's series.
func (b Baseline) on(clause Clause) Clause {
	return Clause{Signal: clause.Signal, Labels: clause.Labels, Reduce: b.Reduce, Quantile: b.Quantile, Op: b.Op, Value: b.Value}
}

// Coverage tightens the registry's demands; nil members leave them as they are.
type Coverage struct {
	Heartbeat *string
	Interval  *time.Duration
	Min       *float64
	MaxGap    *time.Duration
}

// Reducer names what becomes of the samples of a window.
type Reducer string

// The reducers.
const (
	ReduceCount    Reducer = "count"
	ReduceIncrease Reducer = "increase"
	ReduceMax      Reducer = "max"
	ReduceMin      Reducer = "min"
	ReduceAvg      Reducer = "avg"
	ReduceLast     Reducer = "last"
	ReduceQuantile Reducer = "quantile"
)

// Op is a comparison.
type Op string

// The comparisons.
const (
	OpEQ Op = "=="
	OpNE Op = "!="
	OpLT Op = "<"
	OpLE Op = "<="
	OpGT Op = ">"
	OpGE Op = ">="
)

// Passes says whether x op v holds.
func (o Op) Passes(x, v float64) bool {
	switch o {
	case OpEQ:
		return x == v
	case OpNE:
		return x != v
	case OpLT:
		return x < v
	case OpLE:
		return x <= v
	case OpGT:
		return x > v
	case OpGE:
		return x >= v
	}
	return false
}

type criterionWire struct {
	Version         float64       `json:"criterion_version"`
	Action          *actionWire   `json:"action"`
	Window          windowWire    `json:"window"`
	All             []clauseWire  `json:"all"`
	Any             []clauseWire  `json:"any"`
	Baseline        *baselineWire `json:"baseline"`
	Coverage        coverageWire  `json:"coverage"`
	AllowedLateness *duration     `json:"allowed_lateness"`
	MaxSkew         *duration     `json:"max_skew"`
	ExpiresAfter    *duration     `json:"expires_after"`
	Controls        []controlWire `json:"controls"`
}

type actionWire struct {
	Tool      string    `json:"tool"`
	Target    *string   `json:"target"`
	ExecuteBy *duration `json:"execute_by"`
}

type windowWire struct {
	Anchor string    `json:"anchor"`
	Offset *duration `json:"offset"`
	Length duration  `json:"length"`
}

type clauseWire struct {
	Signal     string            `json:"signal"`
	Labels     map[string]string `json:"labels"`
	Reduce     Reducer           `json:"reduce"`
	Q          *float64          `json:"q"`
	Op         Op                `json:"op"`
	Value      float64           `json:"value"`
	HoldFor    *duration         `json:"hold_for"`
	MinSamples *float64          `json:"min_samples"`
}

type baselineWire struct {
	Length duration `json:"length"`
	Reduce Reducer  `json:"reduce"`
	Q      *float64 `json:"q"`
	Op     Op       `json:"op"`
	Value  float64  `json:"value"`
}

type controlWire struct {
	Labels map[string]string `json:"labels"`
}

type coverageWire struct {
	Heartbeat *string   `json:"heartbeat"`
	Interval  *duration `json:"interval"`
	Min       *float64  `json:"min"`
	MaxGap    *duration `json:"max_gap"`
}

// duration reads ^[0-9]{1,9}(ms|s|m|h|d)$. What is longer than the calendar of
// this package becomes the longest duration, which every cap refuses.
type duration time.Duration

var errDuration = errors.New(`want one to nine digits and a unit (ms, s, m, h or d), such as "30m"`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := parseDuration(string(text))
	*d = duration(v)
	return err
}

func parseDuration(s string) (time.Duration, error) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	unit, ok := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[s[digits:]]
	if !ok || digits < 1 || digits > 9 {
		return 0, errDuration
	}
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		return 0, errDuration
	}
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}

// formatDuration writes what parseDuration reads, in whole milliseconds or a
// larger unit.
func formatDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// Parse reads a criterion, of any white space. It accepts what the schema of
// criteria accepts; the error is a Fault. What it returns still needs Lint.
func Parse(raw jsontext.Value) (Criterion, error) {
	if f := schema.CheckCriterion(raw); f != nil {
		return Criterion{}, Fault{f.Pointer, f.Message}
	}
	var w criterionWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return Criterion{}, Fault{"", err.Error()}
	}
	return w.criterion(), nil
}

func (w *criterionWire) criterion() Criterion {
	c := Criterion{
		Window:          Window{Anchor: w.Window.Anchor, Offset: orZero(w.Window.Offset), Length: time.Duration(w.Window.Length)},
		All:             clauses(w.All),
		Any:             clauses(w.Any),
		Coverage:        Coverage{w.Coverage.Heartbeat, (*time.Duration)(w.Coverage.Interval), w.Coverage.Min, (*time.Duration)(w.Coverage.MaxGap)},
		AllowedLateness: (*time.Duration)(w.AllowedLateness),
		MaxSkew:         (*time.Duration)(w.MaxSkew),
		ExpiresAfter:    DefaultExpiry,
	}
	if w.ExpiresAfter != nil {
		c.ExpiresAfter = time.Duration(*w.ExpiresAfter)
	}
	if w.Action != nil {
		c.Action = &Action{Tool: w.Action.Tool, ExecuteBy: c.ExpiresAfter}
		if w.Action.ExecuteBy != nil {
			c.Action.ExecuteBy = time.Duration(*w.Action.ExecuteBy)
		}
		if w.Action.Target != nil {
			c.Action.Target = *w.Action.Target
		}
	}
	if b := w.Baseline; b != nil {
		c.Baseline = &Baseline{
			Length: time.Duration(b.Length), Reduce: b.Reduce, Quantile: quantileOf(b.Q, b.Reduce), Op: b.Op, Value: b.Value,
		}
	}
	for _, control := range w.Controls {
		c.Controls = append(c.Controls, control.Labels)
	}
	return c
}

func orZero(d *duration) time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(*d)
}

func clauses(wire []clauseWire) []Clause {
	var out []Clause
	for _, w := range wire {
		c := Clause{
			Signal: w.Signal, Labels: w.Labels, Reduce: w.Reduce, Quantile: quantileOf(w.Q, w.Reduce), Op: w.Op, Value: w.Value,
			HoldFor: orZero(w.HoldFor),
		}
		if w.HoldFor != nil && c.HoldFor == 0 {
			c.HoldFor = -1 // which Lint refuses
		}
		if w.MinSamples != nil {
			c.MinSamples = int64(*w.MinSamples)
		}
		out = append(out, c)
	}
	return out
}

// quantileOf is q where it belongs and 0 where there is none. A missing q, and
// a 0 where no quantile is asked for, become NaN, which Lint refuses.
func quantileOf(q *float64, r Reducer) float64 {
	switch {
	case q == nil && r != ReduceQuantile:
		return 0
	case q == nil, r != ReduceQuantile && *q == 0:
		return math.NaN()
	}
	return *q
}
