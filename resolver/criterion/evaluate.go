package criterion

import (
	"maps"
	"math"
	"slices"
	"sort"
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

// Seen is how much of a window the sensor covered.
type Seen struct {
	Cells    int64         // intervals from the window's start
	Occupied int64         // of them with evidence, however many rows
	Ratio    float64       // Occupied ÷ Cells
	MaxGap   time.Duration // longest silence, both edges included
}

// Input is everything that an evaluation depends on.
type Input struct {
	Criterion Criterion // must pass Lint
	Registry  *Registry
	Window    Span
	// Samples may have any order and may hold repeats and samples of other
	// series, which are passed over.
	Samples []Sample
	// Closed says that no source is waited for any longer: each watermark has
	// reached the window's end plus the lateness. Until then only a witness
	// decides.
	Closed bool
	// Principal is who predicted; what it writes itself is no evidence.
	Principal string
}

// Result is the outcome of a criterion over the evidence.
type Result struct {
	Outcome Outcome
	Reason  Reason // NoReason unless Outcome is Unknown
	Clauses []ClauseResult
}

// ClauseResult is the outcome of one clause.
type ClauseResult struct {
	Outcome Outcome
	Reason  Reason
	Range   Range // of the reducer, or of the longest run in seconds under hold_for
	Seen    Seen
	Count   int // valid samples of the series in the window
	// Witness is the index in Input.Samples of the sample that decided alone,
	// or −1 where it took coverage or nothing was decided.
	Witness int
	// Used are the indices in Input.Samples of the evidence, in the order of
	// Compare.
	Used []int
}

// Evaluate judges a criterion. Its time and memory are bounded by the number
// of samples and by MaxSamples cells.
func Evaluate(in Input) Result {
	list, combine := in.Criterion.All, And
	if len(in.Criterion.Any) > 0 {
		list, combine = in.Criterion.Any, Or
	}
	var res Result
	reason := NoReason
	for i, clause := range list {
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

// clauseEval is one clause with the evidence that concerns it.
type clauseEval struct {
	in     Input
	clause Clause
	lim    Limits
	op     Op
	value  float64

	own, beats []int // indices of valid samples near the window, sorted, without repeats
	conflict   bool
	covered    bool
	enough     bool // min_samples is reached
}

func evaluateClause(in Input, clause Clause) ClauseResult {
	lim, ok := LimitsOf(in.Criterion, clause, in.Registry)
	if !ok || lim.Interval <= 0 || cells(in.Window.End.Sub(in.Window.Start), lim.Interval) > MaxSamples {
		return ClauseResult{Reason: CriterionError, Witness: -1}
	}
	e := &clauseEval{in: in, clause: clause, lim: lim, op: clause.Op, value: clause.Value}
	if clause.HoldFor > 0 {
		e.op, e.value = OpGE, clause.HoldFor.Seconds()
	}
	if in.Principal != "" && e.writtenBy(in.Principal) {
		return ClauseResult{Reason: SensorUnproven, Witness: -1}
	}
	e.selectSamples()
	var silent bool
	res := ClauseResult{Witness: -1}
	res.Seen, silent = e.coverage()
	e.covered = res.Seen.Ratio >= lim.Min && res.Seen.MaxGap <= lim.MaxGap
	nominal := e.reduce(in.Window, e.own)
	res.Count = nominal.n
	e.enough = int64(nominal.n) >= clause.MinSamples

	var witnessed bool
	res.Outcome, res.Range, witnessed = e.judge(nominal)
	agree := res.Outcome
	for _, v := range e.variants() {
		if o, _, _ := e.judge(e.reduce(v, e.own)); o != res.Outcome {
			agree = Unknown
			res.Reason = ClockAmbiguous
		}
	}
	res.Outcome = agree
	if e.conflict {
		res.Outcome = Unknown
		res.Reason = firstReason(res.Reason, SourcesConflict)
	}
	if res.Outcome == Unknown {
		res.Reason = firstReason(res.Reason, e.whyUnknown(res, nominal, silent))
		res.Used = e.allUsed(nominal)
		return res
	}
	res.Reason = NoReason
	if witnessed {
		e.findWitness(&res)
	}
	if res.Used == nil {
		res.Used = e.allUsed(nominal)
	}
	return res
}

func (e *clauseEval) writtenBy(principal string) bool {
	if e.lim.Signal.Writer == principal {
		return true
	}
	h, ok := e.in.Registry.Signal(e.lim.Signal.Heartbeat)
	return ok && h.Writer == principal
}

// selectSamples sorts out the clause's series and its heartbeat. A repeat of a
// sample is dropped; one identity with two contents is a conflict.
func (e *clauseEval) selectSamples() {
	sig := e.lim.Signal
	from := e.in.Window.Start.Add(-max(e.lim.Staleness, e.lim.Skew) - e.lim.Skew)
	to := e.in.Window.End.Add(e.lim.Skew)
	var all []int
	for i := range e.in.Samples {
		s := &e.in.Samples[i]
		if s.Source != sig.Source || s.Time.Before(from) || s.Time.After(to) {
			continue
		}
		if e.isOwn(s) || s.Signal == sig.Heartbeat {
			all = append(all, i)
		}
	}
	order := func(a, b int) int { return Compare(&e.in.Samples[a], &e.in.Samples[b]) }
	if !slices.IsSortedFunc(all, order) {
		slices.SortFunc(all, order)
	}
	all = e.dropRepeats(all)
	for _, i := range all {
		s := &e.in.Samples[i]
		if !s.IsValid() {
			continue
		}
		if e.isOwn(s) {
			e.own = append(e.own, i)
		}
		if s.Signal == sig.Heartbeat {
			e.beats = append(e.beats, i)
		}
	}
}

// dropRepeats takes sorted indices and notes conflicts. Where each stream's
// numbers rise with time, as a sensor's do, there is nothing to look for.
func (e *clauseEval) dropRepeats(all []int) []int {
	if e.rising(all) {
		return all
	}
	type identity struct {
		stream string
		seq    uint64
	}
	seen := make(map[identity]int, len(all))
	kept := all[:0]
	for _, i := range all {
		s := &e.in.Samples[i]
		id := identity{s.Stream, s.Seq}
		first, twice := seen[id]
		switch {
		case !twice:
			seen[id] = i
		case Compare(&e.in.Samples[first], s) == 0:
			continue
		default:
			e.conflict = true
		}
		kept = append(kept, i)
	}
	return kept
}

func (e *clauseEval) rising(all []int) bool {
	last := make(map[string]uint64)
	for _, i := range all {
		s := &e.in.Samples[i]
		if seq, ok := last[s.Stream]; ok && s.Seq <= seq {
			return false
		}
		last[s.Stream] = s.Seq
	}
	return true
}

func (e *clauseEval) isOwn(s *Sample) bool {
	return s.Signal == e.clause.Signal && (len(s.Labels) == 0 && len(e.clause.Labels) == 0 || maps.Equal(s.Labels, e.clause.Labels))
}

// coverage counts cells in which the heartbeat was seen and, for what is
// sampled every tick, the series too. Silent means that the source sent
// nothing at all in the window.
func (e *clauseEval) coverage() (seen Seen, silent bool) {
	w := e.in.Window
	seen.Cells = cells(w.End.Sub(w.Start), e.lim.Interval)
	need := uint8(0)
	marks := make([]uint8, seen.Cells)
	silent = true
	mark := func(list []int, bit uint8) {
		need |= bit
		last := w.Start
		for _, i := range list {
			s := &e.in.Samples[i]
			if !w.Contains(s.Time) {
				continue
			}
			silent = false
			if e.lim.Signal.Kind == Counter && bit == 1 && s.Start.Equal(s.Time) {
				continue // a zero-length point covers nothing
			}
			marks[s.Time.Sub(w.Start)/e.lim.Interval] |= bit
			seen.MaxGap = max(seen.MaxGap, s.Time.Sub(last))
			last = s.Time
		}
		seen.MaxGap = max(seen.MaxGap, w.End.Sub(last))
	}
	self := e.lim.Signal.Heartbeat == e.clause.Signal
	if e.lim.Signal.Kind != Event || self {
		mark(e.own, 1)
	}
	if !self {
		mark(e.beats, 2)
	}
	for _, m := range marks {
		if m == need {
			seen.Occupied++
		}
	}
	seen.Ratio = float64(seen.Occupied) / float64(seen.Cells)
	return seen, silent && len(e.inWindow(e.own)) == 0
}

func (e *clauseEval) inWindow(list []int) []int {
	var out []int
	for _, i := range list {
		if e.in.Window.Contains(e.in.Samples[i].Time) {
			out = append(out, i)
		}
	}
	return out
}

// variants are the windows with the samples near each edge taken in and left
// out; none where no sample lies within the skew of an edge.
func (e *clauseEval) variants() []Span {
	w, skew := e.in.Window, e.lim.Skew
	if skew == 0 {
		return nil
	}
	around := func(edge time.Time) []time.Time {
		for _, i := range e.own {
			if d := e.in.Samples[i].Time.Sub(edge); d >= -skew && d <= skew {
				return []time.Time{edge, edge.Add(-skew), edge.Add(skew + 1)}
			}
		}
		return []time.Time{edge}
	}
	var out []Span
	for _, start := range around(w.Start) {
		for _, end := range around(w.End) {
			if v := (Span{start, end}); v != w && start.Before(end) {
				out = append(out, v)
			}
		}
	}
	return out
}

// judge decides by witness or, once closed, under coverage.
func (e *clauseEval) judge(r reduced) (o Outcome, used Range, witnessed bool) {
	if r.fault != NoReason {
		return Unknown, r.open, false
	}
	if r.n > 0 && !r.shut {
		if o := r.open.Decide(e.op, e.value); o != Unknown {
			return o, r.open, true
		}
	}
	if !e.in.Closed || !e.covered {
		return Unknown, r.open, false
	}
	if !e.enough || r.n == 0 && e.clause.Reduce != ReduceCount {
		return Unknown, r.full, false
	}
	return r.full.Decide(e.op, e.value), r.full, false
}

func (e *clauseEval) whyUnknown(res ClauseResult, r reduced, silent bool) Reason {
	reason := r.fault
	switch {
	case silent:
		reason = firstReason(reason, SourceSilent)
	case res.Seen.Occupied == 0 && len(e.inWindow(e.own)) == 0:
		reason = firstReason(reason, SensorUnproven) // alive, and blind for this series
	case !e.covered || !e.enough:
		reason = firstReason(reason, CoverageShort)
	case !e.in.Closed:
		reason = firstReason(reason, SourceSilent) // it fell silent before the lateness had passed
	case r.n == 0 && e.clause.Reduce != ReduceCount:
		reason = firstReason(reason, SensorUnproven)
	case reason == NoReason && res.Reason == NoReason:
		reason = r.wide
	}
	return reason
}

// allUsed is everything that a decision under coverage rests on.
func (e *clauseEval) allUsed(r reduced) []int {
	used := e.inWindow(e.own)
	if r.base >= 0 && !slices.Contains(used, r.base) {
		used = append(used, r.base)
	}
	if e.lim.Signal.Heartbeat != e.clause.Signal {
		used = append(used, e.inWindow(e.beats)...)
	}
	slices.SortFunc(used, func(a, b int) int { return Compare(&e.in.Samples[a], &e.in.Samples[b]) })
	return used
}

// findWitness finds the first sample, in order, with which the outcome stands
// whatever else is still to come. A longer prefix never widens the range of
// these reducers, so halving finds it.
func (e *clauseEval) findWitness(res *ClauseResult) {
	if e.clause.HoldFor == 0 {
		switch e.clause.Reduce {
		case ReduceLast, ReduceAvg, ReduceQuantile:
			return
		}
	}
	decided := func(k int) bool {
		r := e.reduce(e.in.Window, e.own[:k+1])
		return r.n > 0 && r.fault == NoReason && r.open.Decide(e.op, e.value) == res.Outcome
	}
	k := sort.Search(len(e.own), decided)
	if k == len(e.own) {
		return
	}
	res.Witness = e.own[k]
	res.Used = []int{res.Witness}
	if e.clause.HoldFor == 0 && (e.clause.Reduce == ReduceMax || e.clause.Reduce == ReduceMin) {
		return
	}
	r := e.reduce(e.in.Window, e.own[:k+1])
	res.Used = nil
	for _, i := range e.own[:k+1] {
		if i == r.base || e.in.Window.Contains(e.in.Samples[i].Time) {
			res.Used = append(res.Used, i)
		}
	}
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
