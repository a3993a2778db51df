package criterion

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Fault says what is wrong with a criterion, and where.
type Fault struct {
	Pointer string // JSON Pointer into the criterion
	Message string
}

// Error is "<pointer>: <message>".
func (f Fault) Error() string { return f.Pointer + ": " + f.Message }

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
	All             []Clause // Kleene AND
	Any             []Clause // Kleene OR
	Coverage        Coverage
	AllowedLateness *time.Duration // nil: the registry's
	MaxSkew         *time.Duration // nil: the registry's
	ExpiresAfter    time.Duration  // from the window's end
	HasBaseline     bool
	HasControls     bool
}

// Action is the tool call that the prediction is about.
type Action struct {
	Tool      string
	Target    string        // "" matches every target
	ExecuteBy time.Duration // from the prediction's recorded_at; expires_after where not said
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
	Version         *float64       `json:"criterion_version"`
	Action          *actionWire    `json:"action"`
	Window          *windowWire    `json:"window"`
	All             []clauseWire   `json:"all"`
	Any             []clauseWire   `json:"any"`
	Baseline        jsontext.Value `json:"baseline"`
	Coverage        coverageWire   `json:"coverage"`
	AllowedLateness *duration      `json:"allowed_lateness"`
	MaxSkew         *duration      `json:"max_skew"`
	ExpiresAfter    *duration      `json:"expires_after"`
	Controls        jsontext.Value `json:"controls"`
}

type actionWire struct {
	Tool      string    `json:"tool"`
	Target    *string   `json:"target"`
	ExecuteBy *duration `json:"execute_by"`
}

type windowWire struct {
	Anchor string    `json:"anchor"`
	Offset *duration `json:"offset"`
	Length *duration `json:"length"`
}

type clauseWire struct {
	Signal     string            `json:"signal"`
	Labels     map[string]string `json:"labels"`
	Reduce     string            `json:"reduce"`
	Q          *float64          `json:"q"`
	Op         string            `json:"op"`
	Value      *float64          `json:"value"`
	HoldFor    *duration         `json:"hold_for"`
	MinSamples *float64          `json:"min_samples"`
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

// Parse reads a criterion. The error is a Fault; members that the contract
// does not have are faults too. What Parse returns still needs Lint.
func Parse(raw jsontext.Value) (Criterion, error) {
	var w criterionWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return Criterion{}, faultOf(err)
	}
	switch {
	case w.Version == nil || *w.Version != Version:
		return Criterion{}, Fault{"/criterion_version", fmt.Sprintf("want %d", Version)}
	case w.Window == nil:
		return Criterion{}, Fault{"/window", "missing"}
	case w.Window.Length == nil:
		return Criterion{}, Fault{"/window/length", "missing"}
	}
	c := Criterion{
		Window:          Window{Anchor: w.Window.Anchor, Offset: orZero(w.Window.Offset), Length: orZero(w.Window.Length)},
		Coverage:        Coverage{w.Coverage.Heartbeat, (*time.Duration)(w.Coverage.Interval), w.Coverage.Min, (*time.Duration)(w.Coverage.MaxGap)},
		AllowedLateness: (*time.Duration)(w.AllowedLateness),
		MaxSkew:         (*time.Duration)(w.MaxSkew),
		ExpiresAfter:    DefaultExpiry,
		HasBaseline:     len(w.Baseline) > 0 && w.Baseline.Kind() != 'n',
		HasControls:     len(w.Controls) > 0 && w.Controls.Kind() != 'n' && string(w.Controls) != "[]",
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
	var err error
	if c.All, err = clauses("/all", w.All); err != nil {
		return Criterion{}, err
	}
	c.Any, err = clauses("/any", w.Any)
	return c, err
}

func orZero(d *duration) time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(*d)
}

func clauses(at string, wire []clauseWire) ([]Clause, error) {
	var out []Clause
	for i, w := range wire {
		at := at + "/" + strconv.Itoa(i)
		if w.Value == nil {
			return nil, Fault{at + "/value", "missing"}
		}
		c := Clause{
			Signal: w.Signal, Labels: w.Labels, Reduce: Reducer(w.Reduce), Op: Op(w.Op), Value: *w.Value,
			HoldFor: orZero(w.HoldFor),
		}
		if (w.Q != nil) != (c.Reduce == ReduceQuantile) {
			return nil, Fault{at + "/q", "stands exactly where reduce is quantile"}
		}
		if w.Q != nil {
			c.Quantile = *w.Q
		}
		if w.HoldFor != nil && c.HoldFor == 0 {
			return nil, Fault{at + "/hold_for", "must be above zero"}
		}
		if w.MinSamples != nil {
			if n := *w.MinSamples; n != math.Trunc(n) || math.Abs(n) > 1<<53 {
				return nil, Fault{at + "/min_samples", "want an integer"}
			}
			c.MinSamples = int64(*w.MinSamples)
		}
		out = append(out, c)
	}
	return out, nil
}

// faultOf finds the place in the errors of the JSON library.
func faultOf(err error) Fault {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		message := "unexpected value"
		if e.Err != nil {
			message = e.Err.Error()
		}
		return Fault{string(e.JSONPointer), message}
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return Fault{string(e.JSONPointer), e.Err.Error()}
	}
	return Fault{"", err.Error()}
}
