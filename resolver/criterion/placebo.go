package criterion

import (
	"time"

	"assay/internal/stats"
)

const (
	// maxStarts is how many starting points a placebo takes at most; of more it
	// takes some, evenly.
	maxStarts = 4096
	// maxPlaceboWork bounds starting points times the samples that each looks at.
	maxPlaceboWork = 1 << 22
)

// BaseRate is how often the criterion comes true without any action.
//
// A starting point is a time at which the symptom showed. Points of one stretch
// of trouble are not independent, and nor are those whose windows overlap: they
// are one episode, which counts once, by the share of its points from which the
// criterion came true. That share is the chance that an action somewhere in the
// episode would have looked like a success.
type BaseRate struct {
	Windows      int     // starting points whose outcome is known
	Confirmed    int     // of them, those from which the criterion came true
	Episodes     int     // n: episodes with such a point
	K            float64 // sum of the episodes' shares
	Lower, Upper float64 // Wilson's 95 % interval of K ÷ n
}

// placebo evaluates the criterion from starting points in a stretch without
// actions.
type placebo struct {
	criterion Criterion
	clauses   []Clause
	series    []*series
	stretch   Span
	combine   func(a, b Outcome) Outcome
}

// baseRate is nil where no outcome is known.
func baseRate(in AttributionInput) *BaseRate {
	p := placebo{criterion: in.Criterion, clauses: in.Criterion.Clauses(), stretch: *in.Placebo, combine: And}
	if len(in.Criterion.Any) > 0 {
		p.combine = Or
	}
	if len(p.clauses) == 0 {
		return nil
	}
	for _, clause := range p.clauses {
		lim, ok := LimitsOf(in.Criterion, clause, in.Registry)
		if !ok || !lim.fit(in.Window) {
			return nil
		}
		p.series = append(p.series, gather(in.Samples, clause, lim, p.stretch))
	}
	rate := p.episodes()
	iv, ok := stats.Wilson(rate.K, float64(rate.Episodes), stats.Z95)
	if !ok {
		return nil
	}
	rate.Lower, rate.Upper = iv.Low, iv.High
	return &rate
}

// episodes walks the starting points in order of time. A new episode begins
// where the symptom was seen to be gone in between, and where no window of the
// one before reaches: their outcomes then share no sample.
func (p *placebo) episodes() BaseRate {
	var rate BaseRate
	var last time.Time // starting point of the current episode
	var calm bool      // the symptom was gone since
	var known, confirmed int
	end := func() {
		if known > 0 {
			rate.Episodes++
			rate.K += float64(confirmed) / float64(known)
		}
		known, confirmed = 0, 0
	}
	for _, t := range p.starts() {
		switch p.symptom(t) {
		case Unknown:
			continue
		case False:
			calm = true
			continue
		}
		if calm && !t.Before(last.Add(p.criterion.Window.Length)) {
			end()
		}
		last, calm = t, false
		outcome := p.outcome(t)
		if outcome == Unknown {
			continue
		}
		known++
		rate.Windows++
		if outcome == True {
			confirmed++
			rate.Confirmed++
		}
	}
	end()
	return rate
}

// starts are the times of the first clause's samples from which everything lies
// in the stretch.
func (p *placebo) starts() []time.Time {
	var out []time.Time
	first := p.series[0]
	for _, i := range first.own {
		t := first.samples[i].Time
		if n := len(out); n > 0 && out[n-1].Equal(t) {
			continue
		}
		if !p.window(t).End.After(p.stretch.End) && !p.before(t).Start.Before(p.stretch.Start) {
			out = append(out, t)
		}
	}
	limit := max(1, min(maxStarts, maxPlaceboWork/p.work()))
	if len(out) <= limit {
		return out
	}
	for i := range limit {
		out[i] = out[i*len(out)/limit]
	}
	return out[:limit]
}

// work is about how many samples one starting point looks at.
func (p *placebo) work() int {
	each := p.criterion.Window.Length
	if p.criterion.Baseline != nil {
		each += p.criterion.Baseline.Length
	}
	work := 1
	for _, s := range p.series {
		n := int64(len(s.own) + len(s.beats))
		work += int(n * each.Milliseconds() / max(1, p.stretch.length().Milliseconds()))
	}
	return work
}

// window is where the criterion is evaluated for an action at t, of no length.
func (p *placebo) window(t time.Time) Span {
	start := t.Add(p.criterion.Window.Offset)
	return Span{start, start.Add(p.criterion.Window.Length)}
}

// before is where the symptom shows: the baseline.
func (p *placebo) before(t time.Time) Span {
	if p.criterion.Baseline == nil {
		return Span{t, t}
	}
	return p.criterion.BaselineSpan(t)
}

// symptom says whether there was trouble at t: the baseline holds or, without a
// baseline, the criterion fails at t itself.
func (p *placebo) symptom(t time.Time) Outcome {
	if p.criterion.Baseline != nil {
		return p.over(func(i int) Outcome { return p.baseline(i, t) })
	}
	return not(p.over(func(i int) Outcome { return p.series[i].now(p.clauses[i], t) }))
}

func (p *placebo) baseline(i int, t time.Time) Outcome {
	res, _, _ := p.series[i].decide(p.criterion.Baseline.on(p.clauses[i]), p.before(t), true)
	return res.Outcome
}

// outcome is that of Evaluate.
func (p *placebo) outcome(t time.Time) Outcome {
	return p.over(func(i int) Outcome {
		res, _, _ := p.series[i].decide(p.clauses[i], p.window(t), true)
		if res.Outcome == True && p.criterion.Baseline != nil && p.baseline(i, t) != True {
			return Unknown
		}
		return res.Outcome
	})
}

// over combines the clauses' outcomes.
func (p *placebo) over(of func(clause int) Outcome) Outcome {
	o := of(0)
	for i := 1; i < len(p.clauses); i++ {
		o = p.combine(o, of(i))
	}
	return o
}

// now judges a clause by what there is at t: the last sample's value or, where
// the reducer counts, the interval that ends with t.
func (s *series) now(clause Clause, t time.Time) Outcome {
	clause.HoldFor = 0
	span := Span{t.Add(1 - s.lim.Interval), t.Add(1)}
	counts := clause.Reduce == ReduceCount || clause.Reduce == ReduceIncrease
	if !counts {
		clause.Reduce = ReduceLast
		span.Start = t.Add(-s.lim.MaxGap)
	}
	j := &judge{series: s, clause: clause, span: span, closed: true}
	r := j.reduce(span, s.within(s.own, s.lim.Reach(span)))
	if r.fault != NoReason || r.n == 0 && !counts {
		return Unknown
	}
	return r.full.Decide(clause.Op, clause.Value)
}
