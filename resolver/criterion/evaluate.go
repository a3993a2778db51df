package criterion

import (
	"math"
	"slices"
	"time"
)

// Outcome is a three-valued truth.
type Outcome int8

// The outcomes; the zero value is Unknown.
const (
	Unknown Outcome = iota
	True
	False
)

// String is unknown, true or false.
func (o Outcome) String() string { return [...]string{"unknown", "true", "false"}[o] }

// And is Kleene's AND.
func And(a, b Outcome) Outcome {
	switch {
	case a == False || b == False:
		return False
	case a == True && b == True:
		return True
	}
	return Unknown
}

// Or is Kleene's OR.
func Or(a, b Outcome) Outcome {
	switch {
	case a == True || b == True:
		return True
	case a == False && b == False:
		return False
	}
	return Unknown
}

// Reason says why an outcome is unknown. Of several the least is given.
type Reason int8

// The reasons, in the order in which they are preferred.
const (
	NoReason Reason = iota
	CoverageShort
	SensorUnproven
	ClockAmbiguous
	SourcesConflict
	SourceSilent
	CriterionError
)

// String is the reason's wire name, "" for none.
func (r Reason) String() string {
	return [...]string{
		"", "coverage_short", "sensor_unproven", "clock_ambiguous", "sources_conflict", "source_silent", "criterion_error",
	}[r]
}

// Range is the closed interval of values that a reducer could take.
type Range struct{ Lo, Hi float64 }

// Decide compares every value of the range with v: all pass, none pass, or not
// known.
func (r Range) Decide(op Op, v float64) Outcome {
	var all, none bool
	switch op {
	case OpLT:
		all, none = r.Hi < v, r.Lo >= v
	case OpLE:
		all, none = r.Hi <= v, r.Lo > v
	case OpGT:
		all, none = r.Lo > v, r.Hi <= v
	case OpGE:
		all, none = r.Lo >= v, r.Hi < v
	case OpEQ:
		all, none = r.Lo == v && r.Hi == v, v < r.Lo || v > r.Hi
	case OpNE:
		all, none = v < r.Lo || v > r.Hi, r.Lo == v && r.Hi == v
	}
	switch {
	case all:
		return True
	case none:
		return False
	}
	return Unknown
}

// Span is a half-open interval of time, [Start, End).
type Span struct{ Start, End time.Time }

// Contains says whether t lies in the span.
func (s Span) Contains(t time.Time) bool { return !t.Before(s.Start) && t.Before(s.End) }

// IsZero says whether the span is none.
func (s Span) IsZero() bool { return s == Span{} }

func (s Span) length() time.Duration { return s.End.Sub(s.Start) }

// join is the shortest span that has both.
func (s Span) join(o Span) Span {
	if o.Start.Before(s.Start) {
		s.Start = o.Start
	}
	if o.End.After(s.End) {
		s.End = o.End
	}
	return s
}

// Seen is how much of a span the sensor covered.
type Seen struct {
	Cells    int64         // intervals from the span's start
	Occupied int64         // of them with evidence, however many rows
	Ratio    float64       // Occupied ÷ Cells
	MaxGap   time.Duration // longest silence, both edges included
	Gap      Span          // where it lies; of several the first
}

// Input is everything that an evaluation depends on.
type Input struct {
	Criterion Criterion // must pass Lint
	Registry  *Registry
	Window    Span
	// Baseline is where the criterion's baseline lies: Criterion.BaselineSpan.
	// Zero when the criterion has none, or when it cannot be placed; in the
	// second case nothing is confirmed.
	Baseline Span
	// Samples may have any order and may hold repeats and samples of other
	// series, which are passed over.
	Samples []Sample
	// Closed says that no source is waited for any longer: each watermark has
	// reached the window's end plus the lateness. Until then only a witness
	// decides.
	Closed bool
	// BaselineClosed says the same of the baseline's end.
	BaselineClosed bool
	// Principal is who predicted; what it writes itself is no evidence.
	Principal string
}

// Result is the outcome of a criterion over the evidence.
type Result struct {
	Outcome Outcome
	Reason  Reason         // NoReason unless Outcome is Unknown
	Clauses []ClauseResult // in the order of Criterion.Clauses
}

// ClauseResult is the outcome of one clause, or of its baseline.
type ClauseResult struct {
	Outcome Outcome
	Reason  Reason
	Range   Range // of the reducer, or of the longest run in seconds under hold_for
	Seen    Seen
	Count   int // valid samples of the series in the span
	// Witness is the index in Input.Samples of the sample that decided alone,
	// or −1 where it took coverage or nothing was decided.
	Witness int
	// Used are the indices in Input.Samples of the evidence, in the order of
	// Compare.
	Used []int
	// Disagreed are the spans within the skew that give another outcome.
	Disagreed []Variant
	// Conflicts are the indices of samples that share an identity and differ.
	Conflicts [][]int
	// Baseline is the baseline over this clause's series; nil without one.
	Baseline *ClauseResult
	// Unproven says that the window alone would have made the clause True.
	Unproven bool
}

// Variant is the outcome over a span whose edges were moved by the skew.
type Variant struct {
	Span    Span
	Outcome Outcome
}

// Evaluate judges a criterion. Its time and memory are bounded by the number
// of samples and clauses.
func Evaluate(in Input) Result {
	combine := And
	if len(in.Criterion.Any) > 0 {
		combine = Or
	}
	var res Result
	reason := NoReason
	for i, clause := range in.Criterion.Clauses() {
		cr := evaluateClause(in, clause)
		res.Clauses = append(res.Clauses, cr)
		if i == 0 {
			res.Outcome = cr.Outcome
		} else {
			res.Outcome = combine(res.Outcome, cr.Outcome)
		}
		reason = firstReason(reason, cr.Reason)
	}
	if res.Outcome == Unknown {
		res.Reason = firstReason(reason, NoReason)
		if res.Reason == NoReason {
			res.Reason = CriterionError
		}
	}
	return res
}

func firstReason(a, b Reason) Reason {
	if a == NoReason || b != NoReason && b < a {
		return b
	}
	return a
}

func evaluateClause(in Input, clause Clause) ClauseResult {
	lim, ok := LimitsOf(in.Criterion, clause, in.Registry)
	baseline := in.Criterion.Baseline
	switch {
	case !ok || !lim.fit(in.Window), baseline != nil && !in.Baseline.IsZero() && !lim.fit(in.Baseline):
		return ClauseResult{Reason: CriterionError, Witness: -1}
	case in.Principal != "" && isWrittenBy(in.Principal, lim.Signal, in.Registry):
		return ClauseResult{Reason: SensorUnproven, Witness: -1}
	}
	reach := lim.Reach(in.Window)
	if !in.Baseline.IsZero() {
		reach = reach.join(lim.Reach(in.Baseline))
	}
	s := gather(in.Samples, clause, lim, reach)
	res := s.evaluate(clause, in.Window, in.Closed)
	if baseline != nil {
		base := ClauseResult{Reason: SensorUnproven, Witness: -1}
		if !in.Baseline.IsZero() {
			base = s.evaluate(baseline.on(clause), in.Baseline, in.BaselineClosed)
		}
		s.prove(&res, &base)
	}
	return res
}

// prove holds a clause to its baseline, which blocks nothing but True.
func (s *series) prove(res, base *ClauseResult) {
	res.Baseline = base
	if res.Outcome == True && base.Outcome != True {
		res.Outcome, res.Unproven, res.Witness = Unknown, true, -1
		res.Reason = firstReason(SensorUnproven, base.Reason)
	}
	if res.Outcome != False {
		res.Used = s.sorted(append(slices.Clone(res.Used), base.Used...))
	}
}

// isWrittenBy says whether the principal writes the signal or its heartbeat.
func isWrittenBy(principal string, s Signal, r *Registry) bool {
	h, ok := r.Signal(s.Heartbeat)
	return s.Writer == principal || ok && h.Writer == principal
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
