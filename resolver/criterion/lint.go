package criterion

import (
	"fmt"
	"strconv"
	"time"
)

// Caps of a criterion.
const (
	MaxWindow  = 7 * 24 * time.Hour
	MaxClauses = 8
	MaxSamples = 100_000 // cells of a window
	// EvaluatedClauses is how many clauses this version evaluates.
	EvaluatedClauses = 1

	// maxDuration caps every other duration, so that no sum overflows.
	maxDuration = 366 * 24 * time.Hour
)

type linter struct{ faults []Fault }

func (l *linter) fault(at, format string, args ...any) {
	l.faults = append(l.faults, Fault{at, fmt.Sprintf(format, args...)})
}

// Lint says what keeps the criterion from being evaluated against the
// registry, in the order of the criterion's members; none means that it can be.
func Lint(c Criterion, r *Registry) []Fault {
	var l linter
	l.action(c)
	l.window(c)
	at, list := "/all", c.All
	if len(c.Any) > 0 {
		at, list = "/any", c.Any
	}
	switch {
	case len(c.All) > 0 && len(c.Any) > 0:
		l.fault("/any", "all and any exclude each other")
	case len(list) == 0:
		l.fault("/all", "no clause")
	case len(list) > MaxClauses:
		l.fault(at, "%d clauses, the limit is %d", len(list), MaxClauses)
	case len(list) > EvaluatedClauses:
		l.fault(at+"/"+strconv.Itoa(EvaluatedClauses), "this version evaluates criteria of one clause only")
	default:
		l.clause(at+"/0", c, list[0], r)
	}
	if c.HasBaseline {
		l.fault("/baseline", "this version does not evaluate a baseline")
	}
	l.duration("/expires_after", c.ExpiresAfter)
	if c.HasControls {
		l.fault("/controls", "this version does not evaluate controls")
	}
	return l.faults
}

func (l *linter) duration(at string, d time.Duration) {
	if d < 0 || d > maxDuration {
		l.fault(at, "longer than %d days", maxDuration/(24*time.Hour))
	}
}

func (l *linter) action(c Criterion) {
	if c.Action == nil {
		return
	}
	if c.Action.Tool == "" {
		l.fault("/action/tool", "missing")
	}
	l.duration("/action/execute_by", c.Action.ExecuteBy)
}

func (l *linter) window(c Criterion) {
	switch c.Window.Anchor {
	case AnchorActionEnd:
		if c.Action == nil {
			l.fault("/window/anchor", "%s needs an action", c.Window.Anchor)
		}
	case AnchorRecorded:
		if c.Action != nil {
			l.fault("/window/anchor", "with an action the window is anchored at the action")
		}
	default:
		l.fault("/window/anchor", "%.40q, want %s or %s", c.Window.Anchor, AnchorActionEnd, AnchorRecorded)
	}
	l.duration("/window/offset", c.Window.Offset)
	if c.Window.Length <= 0 || c.Window.Length > MaxWindow {
		l.fault("/window/length", "want above zero and at most 7 days")
	}
}

func (l *linter) clause(at string, c Criterion, clause Clause, r *Registry) {
	switch clause.Op {
	case OpEQ, OpNE, OpLT, OpLE, OpGT, OpGE:
	default:
		l.fault(at+"/op", "%q is no comparison", clause.Op)
	}
	if clause.MinSamples < 0 || clause.MinSamples > MaxSamples {
		l.fault(at+"/min_samples", "want 0 to %d", MaxSamples)
	}
	if err := CheckLabels(clause.Labels); err != nil {
		l.fault(at+"/labels", "%v", err)
	}
	s, ok := r.Signal(clause.Signal)
	if !ok {
		l.fault(at+"/signal", "%.60q is not in the registry", clause.Signal)
		return
	}
	l.reducer(at, c, clause, s)
	l.coverage(c, s)
}

func (l *linter) reducer(at string, c Criterion, clause Clause, s Signal) {
	perSample := false
	switch clause.Reduce {
	case ReduceMax, ReduceMin, ReduceLast:
		perSample = true
	case ReduceCount, ReduceAvg:
	case ReduceIncrease:
		if s.Kind != Counter {
			l.fault(at+"/reduce", "increase needs a counter, %s is a %s", s.Name, s.Kind)
		}
	case ReduceQuantile:
		if !(clause.Quantile >= 0 && clause.Quantile <= 1) {
			l.fault(at+"/q", "want 0 to 1")
		}
	default:
		l.fault(at+"/reduce", "%.40q is no reducer", clause.Reduce)
	}
	if clause.HoldFor == 0 {
		return
	}
	switch {
	case s.Kind != Gauge:
		l.fault(at+"/hold_for", "needs a gauge, %s is a %s", s.Name, s.Kind)
	case !perSample:
		l.fault(at+"/hold_for", "judges samples one by one: reduce is max, min or last")
	case clause.HoldFor >= c.Window.Length:
		l.fault(at+"/hold_for", "does not fit into the window")
	}
}

// coverage refuses what would loosen the registry. A larger lateness and a
// larger skew are the stricter ones: they wait longer and doubt more.
func (l *linter) coverage(c Criterion, s Signal) {
	if h := c.Coverage.Heartbeat; h != nil && *h != s.Heartbeat {
		l.fault("/coverage/heartbeat", "the registry's heartbeat of %s is %s", s.Name, s.Heartbeat)
	}
	interval := s.Interval
	if i := c.Coverage.Interval; i != nil {
		interval = *i
		if *i <= 0 || *i > s.Interval {
			l.fault("/coverage/interval", "want above zero and at most the registry's %s", formatDuration(s.Interval))
		}
	}
	if interval > 0 && c.Window.Length > 0 && cells(c.Window.Length, interval) > MaxSamples {
		l.fault("/window/length", "%d intervals of %s, the limit is %d", cells(c.Window.Length, interval), formatDuration(interval), MaxSamples)
	}
	if m := c.Coverage.Min; m != nil && !(*m >= s.CoverageFloor && *m <= 1) {
		l.fault("/coverage/min", "want at least the registry's floor %v and at most 1", s.CoverageFloor)
	}
	if g := c.Coverage.MaxGap; g != nil && (*g <= 0 || *g > s.MaxGap) {
		l.fault("/coverage/max_gap", "want above zero and at most the registry's %s", formatDuration(s.MaxGap))
	}
	if a := c.AllowedLateness; a != nil && (*a < s.AllowedLateness || *a > maxDuration) {
		l.fault("/allowed_lateness", "want at least the registry's %s", formatDuration(s.AllowedLateness))
	}
	if m := c.MaxSkew; m != nil && (*m < s.MaxSkew || *m > maxDuration) {
		l.fault("/max_skew", "want at least the registry's %s", formatDuration(s.MaxSkew))
	}
}

func cells(length, interval time.Duration) int64 {
	n := int64(length / interval)
	if length%interval != 0 {
		n++
	}
	return n
}

// Limits are the demands on a clause's evidence: the registry's, tightened by
// the criterion.
type Limits struct {
	Signal    Signal
	Interval  time.Duration
	Min       float64
	MaxGap    time.Duration
	Lateness  time.Duration
	Skew      time.Duration
	Staleness time.Duration
}

// LimitsOf are the limits of one clause; false when the registry does not have
// its signal.
func LimitsOf(c Criterion, clause Clause, r *Registry) (Limits, bool) {
	s, ok := r.Signal(clause.Signal)
	if !ok {
		return Limits{}, false
	}
	l := Limits{
		Signal: s, Interval: s.Interval, Min: s.CoverageFloor, MaxGap: s.MaxGap,
		Lateness: s.AllowedLateness, Skew: s.MaxSkew, Staleness: s.MaxStaleness,
	}
	set := func(to *time.Duration, from *time.Duration) {
		if from != nil {
			*to = *from
		}
	}
	set(&l.Interval, c.Coverage.Interval)
	set(&l.MaxGap, c.Coverage.MaxGap)
	set(&l.Lateness, c.AllowedLateness)
	set(&l.Skew, c.MaxSkew)
	if c.Coverage.Min != nil {
		l.Min = *c.Coverage.Min
	}
	return l, true
}
