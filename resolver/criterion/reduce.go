package criterion

import (
	"math"
	"slices"
	"sort"
	"time"
)

// reduced is what a reducer makes of the samples of one window.
type reduced struct {
	open  Range  // with every missing tick free
	full  Range  // with gaps counted as empty
	n     int    // samples in the window
	base  int    // index of a counter's start sample, or −1
	shut  bool   // open decides nothing: the reducer needs coverage both ways
	fault Reason // why no range holds
	wide  Reason // why full is wider than a point
}

// reduce computes the ranges over the samples of own that lie in w. Indices in
// own are sorted by Compare.
func (j *judge) reduce(w Span, own []int) reduced {
	lo, hi := j.lim.Signal.Lo, j.lim.Signal.Hi
	lower, upper := j.search(own, w.Start), j.search(own, w.End)
	pts := own[lower:max(lower, upper)]
	r := reduced{open: Range{lo, hi}, full: Range{lo, hi}, n: len(pts), base: -1, wide: CoverageShort}
	if j.clause.HoldFor > 0 {
		j.reduceRuns(&r, w, pts)
		return r
	}
	switch j.clause.Reduce {
	case ReduceCount:
		n := float64(len(pts))
		r.open, r.full = Range{n, math.Inf(1)}, Range{n, n}
	case ReduceIncrease:
		j.reduceIncrease(&r, w, own[:max(lower, upper)], lower)
	case ReduceMax, ReduceMin:
		j.reduceExtreme(&r, pts)
	case ReduceLast:
		r.shut = true
		j.reduceLast(&r, w, pts)
	case ReduceAvg:
		r.shut = true
		j.reduceAvg(&r, pts)
	case ReduceQuantile:
		r.shut = true
		if len(pts) > 0 {
			q := j.quantile(pts)
			r.full = Range{q, q}
		}
	default:
		r.fault = CriterionError
	}
	return r
}

func (j *judge) reduceExtreme(r *reduced, pts []int) {
	if len(pts) == 0 {
		return
	}
	v := j.at(pts[0]).Value
	for _, i := range pts[1:] {
		if j.clause.Reduce == ReduceMax {
			v = max(v, j.at(i).Value)
		} else {
			v = min(v, j.at(i).Value)
		}
	}
	r.full = Range{v, v}
	if j.clause.Reduce == ReduceMax {
		r.open = Range{v, max(v, r.open.Hi)}
	} else {
		r.open = Range{min(v, r.open.Lo), v}
	}
}

// reduceLast knows the last value without any coverage once the window is
// closed and its last cell is occupied: no missing tick comes after it.
func (j *judge) reduceLast(r *reduced, w Span, pts []int) {
	if len(pts) == 0 {
		return
	}
	last := j.at(pts[len(pts)-1])
	r.full = Range{last.Value, last.Value}
	cell := last.Time.Sub(w.Start) / j.lim.Interval
	lastCell := time.Duration(cells(w.End.Sub(w.Start), j.lim.Interval) - 1)
	if j.closed && j.lim.Signal.Kind != Event && cell == lastCell && w.End.Sub(last.Time) <= j.lim.MaxGap {
		r.open, r.shut = r.full, false
	}
}

func (j *judge) reduceAvg(r *reduced, pts []int) {
	mean := 0.0
	for k, i := range pts {
		mean += (j.at(i).Value - mean) / float64(k+1)
	}
	if !isFinite(mean) {
		r.fault = CriterionError
		return
	}
	r.full = Range{mean, mean}
}

// quantile is the nearest-rank quantile: the least value that at least a part
// q of the values does not exceed. The rank is where k ÷ n reaches q; q × n may
// be rounded to just above a whole number, as 0.07 × 100 is.
func (j *judge) quantile(pts []int) float64 {
	values := make([]float64, len(pts))
	for k, i := range pts {
		values[k] = j.at(i).Value
	}
	slices.Sort(values)
	n := float64(len(values))
	rank := sort.Search(len(values)-1, func(k int) bool { return float64(k+1)/n >= j.clause.Quantile })
	return values[rank]
}

// reduceIncrease sums what a counter gained. own ends at the window's end;
// first is the place of the first sample at or after the window's start.
//
// A counter restarted where its start time moved on by more than the skew:
// some clocks give one boot two start times a moment apart. What a run gained
// unseen before a restart, or before a missing start sample, leaves the upper
// bound open. What it gained between a start sample and the first one in the
// window may have come before the window: it counts under coverage, not for a
// witness. A value that fell without a restart, or a start time that went back,
// is not a counter's.
func (j *judge) reduceIncrease(r *reduced, w Span, own []int, first int) {
	gained, exact := 0.0, true
	sure := 0.0 // gained within the window for certain
	var cur *Sample
	k := first
	switch {
	case k < len(own) && j.at(own[k]).Time.Equal(w.Start):
		for k < len(own) && j.at(own[k]).Time.Equal(w.Start) {
			k++
		}
		r.base = own[k-1]
	case first > 0 && w.Start.Sub(j.at(own[first-1]).Time) <= j.lim.Staleness:
		r.base = own[first-1]
	}
	if r.base >= 0 {
		cur = j.at(r.base)
	} else {
		exact = false
	}
	for ; k < len(own); k++ {
		p := j.at(own[k])
		switch {
		case cur == nil || !cur.Start.IsZero() && !p.Start.IsZero() && p.Start.Sub(cur.Start) > j.lim.Skew:
			if !p.Start.IsZero() && !p.Start.Before(w.Start) {
				gained += p.Value
				sure += p.Value
			}
			if cur != nil {
				exact = false
				r.wide = SensorUnproven
			}
		case !cur.Start.IsZero() && !p.Start.IsZero() && cur.Start.Sub(p.Start) > j.lim.Skew:
			r.fault = SourcesConflict
			return
		case p.Value < cur.Value:
			r.fault = SensorUnproven
			return
		default:
			gained += p.Value - cur.Value
			if !cur.Time.Before(w.Start) {
				sure += p.Value - cur.Value
			}
		}
		cur = p
	}
	if !isFinite(gained) {
		r.fault = CriterionError
		return
	}
	r.open = Range{sure, math.Inf(1)}
	r.full = Range{gained, math.Inf(1)}
	if exact {
		r.full.Hi = gained
	}
}

// reduceRuns measures, in seconds, the longest run whose every sample passes
// without a gap over the limit, and the longest stretch that no failing sample
// interrupts, which is the longest run that missing samples could make. While
// samples are still waited for, one that fails may come to lie inside a run, so
// an open window shows none.
func (j *judge) reduceRuns(r *reduced, w Span, pts []int) {
	var longest, free time.Duration
	lastFail := w.Start
	var runStart, prev time.Time
	inRun := false
	for _, i := range pts {
		s := j.at(i)
		if !j.clause.Op.Passes(s.Value, j.clause.Value) {
			free = max(free, s.Time.Sub(lastFail))
			lastFail, inRun = s.Time, false
			continue
		}
		if !inRun || s.Time.Sub(prev) > j.lim.MaxGap {
			runStart, inRun = s.Time, true
		}
		prev = s.Time
		longest = max(longest, s.Time.Sub(runStart))
	}
	free = max(free, w.End.Sub(lastFail))
	r.full = Range{longest.Seconds(), longest.Seconds()}
	r.open = Range{longest.Seconds(), max(free, longest).Seconds()}
	if !j.closed {
		r.open.Lo = 0
	}
}
