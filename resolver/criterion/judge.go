package criterion

import (
	"slices"
	"sort"
	"time"
)

// judge weighs one clause, or its baseline, over one span.
type judge struct {
	*series
	clause Clause
	op     Op // and value: what the reducer's range is compared with
	value  float64
	span   Span
	closed bool

	near    []int // of own, those that the reducer may look at
	covered bool
	enough  bool // min_samples is reached
}

// evaluate judges the clause over a span that is within the caps.
func (s *series) evaluate(clause Clause, span Span, closed bool) ClauseResult {
	res, j, nominal := s.decide(clause, span, closed)
	if res.Outcome == Unknown {
		res.Used = j.used(nominal)
		return res
	}
	j.findWitness(&res)
	if res.Used == nil {
		res.Used = j.used(nominal)
	}
	return res
}

// decide is evaluate without the evidence.
func (s *series) decide(clause Clause, span Span, closed bool) (ClauseResult, *judge, reduced) {
	near := s.lim.near(clause, span)
	j := &judge{series: s, clause: clause, op: clause.Op, value: clause.Value, span: span, closed: closed, near: s.within(s.own, near)}
	if clause.HoldFor > 0 {
		j.op, j.value = OpGE, clause.HoldFor.Seconds()
	}
	res := ClauseResult{Witness: -1, Conflicts: s.clashesIn(s.lim.Reach(span), near)}
	var silent bool
	res.Seen, silent = j.coverage()
	j.covered = res.Seen.Ratio >= s.lim.Min && res.Seen.MaxGap <= s.lim.MaxGap
	nominal := j.reduce(span, j.near)
	res.Count = nominal.n
	j.enough = int64(nominal.n) >= clause.MinSamples

	res.Outcome, res.Range = j.verdict(nominal)
	reason := NoReason
	for _, v := range j.variants() {
		if o, _ := j.verdict(j.reduce(v, j.near)); o != res.Outcome {
			res.Disagreed = append(res.Disagreed, Variant{v, o})
			reason = ClockAmbiguous
		}
	}
	if len(res.Conflicts) > 0 {
		reason = firstReason(reason, SourcesConflict)
	}
	if reason != NoReason {
		res.Outcome = Unknown
	}
	if res.Outcome == Unknown {
		res.Reason = firstReason(reason, j.whyUnknown(res, nominal, silent))
	}
	return res, j, nominal
}

// coverage counts cells in which the heartbeat was seen and, for what is
// sampled every tick, the series too. Silent means that the source sent
// nothing at all in the span.
func (j *judge) coverage() (seen Seen, silent bool) {
	own, beats := j.within(j.own, j.span), j.within(j.beats, j.span)
	silent = len(own) == 0 && len(beats) == 0
	sig := j.lim.Signal
	if sig.Kind == Counter {
		// A zero-length point covers nothing.
		own = slices.DeleteFunc(slices.Clone(own), func(i int) bool { return j.at(i).Start.Equal(j.at(i).Time) })
	}
	switch {
	case j.lim.beat() == "":
		beats = own
	case sig.Kind == Event:
		own = beats
	}
	seen.Cells = cells(j.span.length(), j.lim.Interval)
	seen.Occupied = j.shared(own, beats)
	seen.Ratio = float64(seen.Occupied) / float64(seen.Cells)
	for _, list := range [][]int{own, beats} {
		last := j.span.Start
		gap := func(t time.Time) {
			if d := t.Sub(last); d > seen.MaxGap {
				seen.MaxGap, seen.Gap = d, Span{last, t}
			}
			last = t
		}
		for _, i := range list {
			gap(j.at(i).Time)
		}
		gap(j.span.End)
	}
	return seen, silent
}

// shared counts the cells of the span in which both lists have a sample.
func (j *judge) shared(a, b []int) (n int64) {
	cell := func(i int) time.Duration { return j.at(i).Time.Sub(j.span.Start) / j.lim.Interval }
	last, other := time.Duration(-1), time.Duration(-1) // cells of the samples read so far
	for _, i := range a {
		c := cell(i)
		if c == last {
			continue
		}
		last = c
		for ; other < c && len(b) > 0; b = b[1:] {
			other = cell(b[0])
		}
		if other == c {
			n++
		}
	}
	return n
}

// variants are the spans with the samples near each edge taken in and left
// out; none where no sample lies within the skew of an edge. A run may reach
// that far over an edge whether a sample is there yet or not.
func (j *judge) variants() []Span {
	skew := j.lim.Skew
	if skew == 0 {
		return nil
	}
	around := func(edge time.Time) []time.Time {
		if j.clause.HoldFor == 0 && len(j.within(j.near, Span{edge.Add(-skew), edge.Add(skew + 1)})) == 0 {
			return []time.Time{edge}
		}
		return []time.Time{edge, edge.Add(-skew), edge.Add(skew + 1)}
	}
	var out []Span
	for _, start := range around(j.span.Start) {
		for _, end := range around(j.span.End) {
			if v := (Span{start, end}); v != j.span && start.Before(end) {
				out = append(out, v)
			}
		}
	}
	return out
}

// verdict decides by witness or, once closed, under coverage.
func (j *judge) verdict(r reduced) (Outcome, Range) {
	if r.fault != NoReason {
		return Unknown, r.open
	}
	if r.n > 0 && !r.shut {
		if o := r.open.Decide(j.op, j.value); o != Unknown {
			return o, r.open
		}
	}
	if !j.closed || !j.covered {
		return Unknown, r.open
	}
	if !j.enough || r.n == 0 && j.clause.Reduce != ReduceCount {
		return Unknown, r.full
	}
	return r.full.Decide(j.op, j.value), r.full
}

func (j *judge) whyUnknown(res ClauseResult, r reduced, silent bool) Reason {
	reason := r.fault
	switch {
	case silent:
		reason = firstReason(reason, SourceSilent)
	case res.Seen.Occupied == 0 && r.n == 0:
		reason = firstReason(reason, SensorUnproven) // alive, and blind for this series
	case !j.covered || !j.enough:
		reason = firstReason(reason, CoverageShort)
	case !j.closed:
		reason = firstReason(reason, SourceSilent) // it fell silent before the lateness had passed
	case r.n == 0 && j.clause.Reduce != ReduceCount:
		reason = firstReason(reason, SensorUnproven)
	case reason == NoReason && len(res.Disagreed) == 0 && len(res.Conflicts) == 0:
		reason = r.wide
	}
	return reason
}

// used is everything that a decision under coverage rests on.
func (j *judge) used(r reduced) []int {
	used := slices.Clone(j.within(j.own, j.span))
	if r.base >= 0 {
		used = append(used, r.base)
	}
	return j.sorted(append(used, j.within(j.beats, j.span)...))
}

// findWitness finds the first sample, in order, with which the outcome stands
// whatever else is still to come, if there is one. A longer prefix never widens
// the range of the reducers that have witnesses, so halving finds it.
func (j *judge) findWitness(res *ClauseResult) {
	if j.clause.HoldFor == 0 {
		switch j.clause.Reduce {
		case ReduceLast, ReduceAvg, ReduceQuantile:
			return
		}
	}
	decided := func(k int) bool {
		r := j.reduce(j.span, j.near[:k+1])
		return r.n > 0 && r.fault == NoReason && r.open.Decide(j.op, j.value) == res.Outcome
	}
	if len(j.near) == 0 || !decided(len(j.near)-1) {
		return // it took coverage
	}
	k := sort.Search(len(j.near), decided)
	res.Witness = j.near[k]
	res.Used = []int{res.Witness}
	if j.clause.HoldFor == 0 && (j.clause.Reduce == ReduceMax || j.clause.Reduce == ReduceMin) {
		return
	}
	res.Used = slices.Clone(j.within(j.near[:k+1], j.span))
}

func (j *judge) at(i int) *Sample { return &j.samples[i] }
