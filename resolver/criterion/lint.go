package criterion

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// Caps of a criterion.
const (
	MaxWindow   = 7 * 24 * time.Hour // of the window, and of the baseline
	MaxClauses  = 8
	MaxControls = 16
	// MaxSamples caps the cells of a window, and of a baseline, for each clause
	// and for all together: one sample a cell is what a sensor sends.
	MaxSamples = 100_000

	// maxDuration caps every other duration, so that no sum overflows.
	maxDuration = 366 * 24 * time.Hour
)

// Lint says what keeps the criterion from being evaluated against the
// registry: every fault, in an order that depends on the two alone. None means
// that it can be evaluated.
func Lint(c Criterion, r *Registry) []Fault {
	l := linter{c: c}
	l.action()
	l.window()
	l.clauses(r)
	l.cells("/window/length", c.Window.Length)
	l.baseline()
	l.coverage()
	l.duration("/expires_after", c.ExpiresAfter)
	l.controls()
	return l.faults
}

type linter struct {
	c      Criterion
	known  []place // the clauses whose signal the registry has
	faults []Fault
}

// place is a clause and where it stands.
type place struct {
	at     string
	clause Clause
	signal Signal
}

// name is how a fault elsewhere in the criterion names the clause.
func (p place) name() string { return p.at + ", " + p.signal.Name }

func (l *linter) fault(at, format string, args ...any) {
	l.faults = append(l.faults, Fault{at, fmt.Sprintf(format, args...)})
}

func (l *linter) duration(at string, d time.Duration) {
	if d < 0 || d > maxDuration {
		l.fault(at, "want 0 to %d days", maxDuration/(24*time.Hour))
	}
}

func (l *linter) action() {
	a := l.c.Action
	if a == nil {
		return
	}
	if a.Tool == "" {
		l.fault("/action/tool", "missing")
	}
	l.duration("/action/execute_by", a.ExecuteBy)
}

func (l *linter) window() {
	w, action := l.c.Window, l.c.Action
	switch w.Anchor {
	case AnchorActionEnd:
		if action == nil {
			l.fault("/window/anchor", "%s needs an action", w.Anchor)
		}
	case AnchorRecorded:
		if action != nil {
			l.fault("/window/anchor", "with an action the window is anchored at the action")
		}
	default:
		l.fault("/window/anchor", "%.40q, want %s or %s", w.Anchor, AnchorActionEnd, AnchorRecorded)
	}
	l.duration("/window/offset", w.Offset)
	l.length("/window/length", w.Length)
}

func (l *linter) length(at string, d time.Duration) {
	if !isLength(d) {
		l.fault(at, "want above zero and at most %d days", MaxWindow/(24*time.Hour))
	}
}

func isLength(d time.Duration) bool { return d > 0 && d <= MaxWindow }

func (l *linter) clauses(r *Registry) {
	at, list := "/all", l.c.All
	if len(l.c.Any) > 0 {
		at, list = "/any", l.c.Any
	}
	switch {
	case len(l.c.All) > 0 && len(l.c.Any) > 0:
		l.fault("/any", "all and any exclude each other")
	case len(list) == 0:
		l.fault("/all", "no clause")
	case len(list) > MaxClauses:
		l.fault(at, "%d clauses, the limit is %d", len(list), MaxClauses)
	}
	for i, clause := range list[:min(len(list), MaxClauses)] {
		l.clause(at+"/"+strconv.Itoa(i), clause, r)
	}
}

func (l *linter) clause(at string, clause Clause, r *Registry) {
	s, ok := r.Signal(clause.Signal)
	if !ok {
		l.fault(at+"/signal", "%.60q is not in the registry", clause.Signal)
	}
	if err := CheckLabels(clause.Labels); err != nil {
		l.fault(at+"/labels", "%v", err)
	}
	l.comparison(at, clause)
	if clause.MinSamples < 0 || clause.MinSamples > MaxSamples {
		l.fault(at+"/min_samples", "want 0 to %d", MaxSamples)
	}
	if !ok {
		return
	}
	p := place{at, clause, s}
	l.known = append(l.known, p)
	if clause.Reduce == ReduceIncrease && s.Kind != Counter {
		l.fault(at+"/reduce", "increase needs a counter, %s is a %s", s.Name, s.Kind)
	}
	l.hold(p)
}

// comparison checks what a clause and a baseline have in common.
func (l *linter) comparison(at string, c Clause) {
	switch c.Reduce {
	case ReduceQuantile:
		if !(c.Quantile >= 0 && c.Quantile <= 1) {
			l.fault(at+"/q", "want 0 to 1")
		}
	case ReduceMax, ReduceMin, ReduceLast, ReduceCount, ReduceAvg, ReduceIncrease:
		if c.Quantile != 0 {
			l.fault(at+"/q", "stands exactly where reduce is quantile")
		}
	default:
		l.fault(at+"/reduce", "%.40q is no reducer", c.Reduce)
	}
	switch c.Op {
	case OpEQ, OpNE, OpLT, OpLE, OpGT, OpGE:
	default:
		l.fault(at+"/op", "%.40q is no comparison", c.Op)
	}
	if !isFinite(c.Value) {
		l.fault(at+"/value", "want a finite number")
	}
}

func (l *linter) hold(p place) {
	if p.clause.HoldFor == 0 {
		return
	}
	at := p.at + "/hold_for"
	switch p.clause.Reduce {
	case ReduceMax, ReduceMin, ReduceLast:
	default:
		l.fault(at, "judges samples one by one: reduce is max, min or last")
	}
	if p.signal.Kind != Gauge {
		l.fault(at, "needs a gauge, %s is a %s", p.signal.Name, p.signal.Kind)
	}
	switch {
	case p.clause.HoldFor < 0:
		l.fault(at, "want above zero")
	case p.clause.HoldFor >= l.c.Window.Length:
		l.fault(at, "does not fit into the window")
	}
}

// cells holds what the clauses look at, in a span of that length, to the cap.
func (l *linter) cells(at string, length time.Duration) {
	if !isLength(length) {
		return
	}
	var sum int64
	within := true
	for _, p := range l.known {
		interval := p.signal.Interval
		if i := l.c.Coverage.Interval; i != nil && *i > 0 {
			interval = *i
		}
		n := cells(length, interval)
		if n > MaxSamples {
			within = false
			l.fault(at, "%d intervals of %s for %s, the limit is %d", n, formatDuration(interval), p.name(), MaxSamples)
		}
		sum += n
	}
	if within && sum > MaxSamples {
		l.fault(at, "%d intervals for all clauses together, the limit is %d", sum, MaxSamples)
	}
}

func (l *linter) baseline() {
	b := l.c.Baseline
	if b == nil {
		return
	}
	l.length("/baseline/length", b.Length)
	l.cells("/baseline/length", b.Length)
	l.comparison("/baseline", b.on(Clause{}))
	if b.Reduce != ReduceIncrease {
		return
	}
	for _, p := range l.known {
		if p.signal.Kind != Counter {
			l.fault("/baseline/reduce", "increase needs a counter, and the signal of %s is a %s", p.name(), p.signal.Kind)
		}
	}
}

// coverage refuses what would loosen the registry for any clause. A larger
// lateness and a larger skew are the stricter ones: they wait longer and doubt
// more.
func (l *linter) coverage() {
	c := l.c.Coverage
	for _, p := range l.known {
		s := p.signal
		if c.Heartbeat != nil && *c.Heartbeat != s.Heartbeat {
			l.fault("/coverage/heartbeat", "the registry's heartbeat for %s is %s", p.name(), s.Heartbeat)
		}
		if i := c.Interval; i != nil && (*i <= 0 || *i > s.Interval) {
			l.fault("/coverage/interval", "want above zero and at most the registry's %s for %s", formatDuration(s.Interval), p.name())
		}
		if m := c.Min; m != nil && !(*m >= s.CoverageFloor && *m <= 1) {
			l.fault("/coverage/min", "want at least the registry's floor %v for %s and at most 1", s.CoverageFloor, p.name())
		}
		if g := c.MaxGap; g != nil && (*g <= 0 || *g > s.MaxGap) {
			l.fault("/coverage/max_gap", "want above zero and at most the registry's %s for %s", formatDuration(s.MaxGap), p.name())
		}
		if a := l.c.AllowedLateness; a != nil && (*a < s.AllowedLateness || *a > maxDuration) {
			l.fault("/allowed_lateness", "want at least the registry's %s for %s", formatDuration(s.AllowedLateness), p.name())
		}
		if m := l.c.MaxSkew; m != nil && (*m < s.MaxSkew || *m > maxDuration) {
			l.fault("/max_skew", "want at least the registry's %s for %s", formatDuration(s.MaxSkew), p.name())
		}
	}
}

// controls must be series of their own: a control that is a clause's series,
// or that is counted twice, shows nothing.
func (l *linter) controls() {
	list := l.c.Controls
	if len(list) > 0 && len(l.c.Any) > 0 {
		l.fault("/controls", "need all: with any nothing says which clause a peer should fail")
	}
	if len(list) > MaxControls {
		l.fault("/controls", "%d controls, the limit is %d", len(list), MaxControls)
		return
	}
	for i, labels := range list {
		at := "/controls/" + strconv.Itoa(i) + "/labels"
		if err := CheckLabels(labels); err != nil {
			l.fault(at, "%v", err)
			continue
		}
		for _, p := range l.known {
			if maps.Equal(labels, p.clause.Labels) {
				l.fault(at, "are those of %s: a control is another series", p.at)
			}
		}
		for j, other := range list[:i] {
			if maps.Equal(labels, other) {
				l.fault(at, "overlap: they are those of /controls/%d", j)
				break
			}
		}
	}
}

// cells is how many intervals it takes to cover a length.
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

// Reach is where the samples lie that an evaluation over the span looks at: a
// counter's start sample, and those that the skew may move over an edge.
func (l Limits) Reach(span Span) Span {
	return Span{span.Start.Add(-max(l.Staleness, l.Skew) - l.Skew), span.End.Add(l.Skew + 1)}
}

// near is where the clause's own samples lie that bear on the span: only an
// increase has a start sample.
func (l Limits) near(clause Clause, span Span) Span {
	if clause.Reduce == ReduceIncrease {
		return l.Reach(span)
	}
	return Span{span.Start.Add(-l.Skew), span.End.Add(l.Skew + 1)}
}

// beat is the signal that shows the source alive; "" where that is the series
// itself.
func (l Limits) beat() string {
	if l.Signal.Heartbeat == l.Signal.Name {
		return ""
	}
	return l.Signal.Heartbeat
}

// fit says whether the span is not empty and within the cap.
func (l Limits) fit(span Span) bool {
	return span.Start.Before(span.End) && l.Interval > 0 && cells(span.length(), l.Interval) <= MaxSamples
}
