package criterion

import (
	"math"
	"time"
)

// Screen tells cheaply when a sample cannot have brought an early decision, so
// that a fold evaluates a window only when it may leave its state. It errs on
// the side of evaluating.
type Screen struct {
	clause Clause
	lim    Limits
	wide   Span // the window, widened by the skew

	n        float64
	base     *Sample               // latest before wide.Start
	lo, hi   float64               // of a counter in wide
	runs     map[time.Time]float64 // highest value by start time
	counted  float64               // sum of runs
	prev     time.Time             // of the last sample
	unsorted bool
}

// NewScreen is a screen for one clause of a criterion that passed Lint.
func NewScreen(clause Clause, lim Limits, w Span) *Screen {
	return &Screen{
		clause: clause, lim: lim, wide: Span{w.Start.Add(-lim.Skew), w.End.Add(lim.Skew + 1)},
		lo: math.Inf(1), hi: math.Inf(-1), runs: make(map[time.Time]float64),
	}
}

// Add takes one more sample of the clause's series and says whether an
// evaluation with it might decide, the window still being open.
func (s *Screen) Add(p *Sample) bool {
	if !p.IsValid() {
		return false
	}
	if !s.wide.Contains(p.Time) {
		if p.Time.Before(s.wide.Start) && (s.base == nil || !p.Time.Before(s.base.Time)) {
			if s.base == nil || p.Time.After(s.base.Time) || p.Value < s.base.Value {
				base := *p
				s.base = &base
			}
			return s.clause.Reduce == ReduceIncrease && s.n > 0
		}
		return false
	}
	s.n++
	if s.clause.HoldFor > 0 {
		return s.addRun(p)
	}
	decides := func(r Range) bool { return r.Decide(s.clause.Op, s.clause.Value) != Unknown }
	switch s.clause.Reduce {
	case ReduceCount:
		return decides(Range{s.n, math.Inf(1)})
	case ReduceMax:
		return decides(Range{p.Value, max(p.Value, s.lim.Signal.Hi)})
	case ReduceMin:
		return decides(Range{min(p.Value, s.lim.Signal.Lo), p.Value})
	case ReduceIncrease:
		return decides(Range{s.gain(p), math.Inf(1)})
	}
	return false
}

// rounding is more than a sum of MaxSamples differences can be off, relative to
// the sum: steps from 1.2 to 3.4 to 4.7 add up to more than 4.7 − 1.2.
const rounding = 1e-9

// gain is at least what any window within the skew can have gained: the whole
// spread of the values, and all that each run counted.
func (s *Screen) gain(p *Sample) float64 {
	s.lo, s.hi = min(s.lo, p.Value), max(s.hi, p.Value)
	if had := s.runs[p.Start]; p.Value > had {
		s.counted += p.Value - had
		s.runs[p.Start] = p.Value
	} else {
		s.runs[p.Start] = had
	}
	lo := s.lo
	if s.base != nil {
		lo = min(lo, s.base.Value)
	}
	gained := max(0, s.hi-lo)
	if len(s.runs) > 1 || !p.Start.Before(s.wide.Start) {
		gained += s.counted
	}
	return gained * (1 + rounding)
}

// addRun looks for what leaves no room for a run; one that is long enough is
// shown by a closed window only.
func (s *Screen) addRun(p *Sample) bool {
	if s.unsorted || p.Time.Before(s.prev) {
		s.unsorted = true
		return true
	}
	s.prev = p.Time
	return !s.clause.Op.Passes(p.Value, s.clause.Value) && s.wide.End.Sub(p.Time) <= s.clause.HoldFor+2*s.lim.Skew+1
}
