package metric

import (
	"fmt"
	"reflect"
	"time"

	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// A score is a sum over values: each opportunity, claim, prediction and so on
// adds to it what it is worth by itself. All of the numbers that add up are whole, so
// that the sum is the same in every order, and what a value added can be taken away
// again when it changed (books.go).

// part is what values add to a score: counts and sums, and of ratios the numerators
// and denominators.
type part struct {
	Imported    int64
	Routing     Routing
	Useful      Useful
	Coverage    Coverage
	Calibration Calibration
	Experiments Experiments
	Shadow      Shadow
	Cost        Cost
	Charged     view.Sum // billionths of a dollar
	Brier       loss
	LogLoss     loss
}

// computer computes the part of what a reading shows.
type computer struct {
	part
	reading
}

// counts says whether what a record brought up counts: what was imported does not.
func (c *computer) counts(seq ledger.Seq) (bool, error) {
	imported, err := c.isImported(seq)
	count(&c.Imported, imported)
	return !imported && err == nil, err
}

// young says whether what was recorded then is too young to count for coverage.
func (c *computer) young(recorded time.Time) bool {
	return !c.ages(recorded.Add(Settled))
}

// sections are what a score is the sum of.
var sections = []struct {
	view.Listing
	add func(*computer) error
}{
	{view.AllOpportunities, func(c *computer) error {
		return view.ListOpportunities(c.state, c.namespace, c.routing)
	}},
	{view.AllClaims, func(c *computer) error {
		return view.ListClaims(c.state, c.namespace, func(cl *view.Claim) error {
			if ok, err := c.counts(cl.Seq); !ok {
				return err
			}
			sc := &view.ShadowCase{Claim: *cl}
			if err := sc.Follow(c.state); err != nil {
				return err
			}
			if err := c.claim(sc); err != nil {
				return err
			}
			c.ages(cl.RecordedAt.Add(view.UndecidedAfter))
			return c.shadow(sc)
		})
	}},
	{view.AllPredictions, func(c *computer) error {
		return view.ListPredictions(c.state, c.namespace, c.prediction)
	}},
	{view.AllExperiments, func(c *computer) error {
		return view.ListExperiments(c.state, c.namespace, c.experiment)
	}},
	{view.AllHypotheses, func(c *computer) error {
		return view.ListHypotheses(c.state, c.namespace, func(h *view.HypothesisSet) error {
			ok, err := c.counts(h.Seq)
			if ok {
				c.Shadow.Sets++
				count(&c.Shadow.OverOne, h.OverOne)
			}
			return err
		})
	}},
	{view.AllQueries, func(c *computer) error { return view.ListQueries(c.state, c.namespace, c.query) }},
	{view.AllTold, func(c *computer) error { return view.ListTold(c.state, c.namespace, c.cost) }},
	{view.AllToolCalls, func(c *computer) error { return view.ListUntold(c.state, c.namespace, c.cost) }},
}

// score sets what follows from the sums.
func (p *part) score(out *Score) {
	p.Routing.Rate.settle()
	detected := p.Routing.Rate.Denominator
	for _, s := range []*view.Sum{&p.Charged, &p.Cost.InputTokens, &p.Cost.CachedTokens, &p.Cost.UncachedTokens, &p.Cost.OutputTokens} {
		s.Settle()
	}
	p.Cost.USD = usd(p.Charged)
	u := &p.Useful
	u.Per100 = Ratio{u.Count, detected, divide(100*float64(u.Count), detected)}
	p.Coverage.Claims.Rate.settle()
	p.Coverage.Predictions.Rate.settle()
	cal := &p.Calibration
	cal.N, cal.Filled, cal.Coverage = p.Brier.N, p.Brier.Filled, p.Coverage.Predictions.Rate
	cal.Brier, cal.LogLoss = p.Brier.result(), p.LogLoss.result()
	p.Experiments.Rate.settle()
	p.Shadow.WithAlternatives.settle()
	p.Shadow.Queries.Rate.settle()
	p.Cost.settle(u.Count)
	out.Imported = p.Imported
	out.Routing, out.Useful, out.Coverage, out.Calibration = p.Routing, p.Useful, p.Coverage, p.Calibration
	out.Experiments, out.Shadow, out.Cost = p.Experiments, p.Shadow, p.Cost
}

// numbers are those that add up, in the order of the type's fields.
func (p *part) numbers() (out []int64) {
	walk(reflect.ValueOf(p).Elem(), func(n *int64) { out = append(out, *n) })
	return out
}

// set is the inverse of numbers.
func (p *part) set(numbers []int64) {
	walk(reflect.ValueOf(p).Elem(), func(n *int64) {
		if len(numbers) > 0 {
			*n, numbers = numbers[0], numbers[1:]
		}
	})
}

// walk calls fn for every whole number of a value. What is behind a pointer follows
// from others.
func walk(v reflect.Value, fn func(*int64)) {
	switch v.Kind() {
	case reflect.Int64:
		fn(v.Addr().Interface().(*int64))
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), fn)
		}
	}
}

// addScore adds up what a reading shows.
func addScore(r reading, into *sums) error {
	c := computer{reading: r}
	for _, section := range sections {
		if err := section.add(&c); err != nil {
			return err
		}
	}
	w := into.week(0)
	w.Score = addNumbers(w.Score, c.numbers(), 1)
	return nil
}

// Compute scores a namespace; "" is DefaultNamespace. The views must stand at
// one record, else projector.ErrUneven. What is kept beside the views spares it to go
// through them, and changes nothing in the result.
func Compute(s *projector.State, namespace string) (*Score, error) {
	out, err := compute(s, namespace)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	return out, nil
}

func compute(s *projector.State, namespace string) (*Score, error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, err
	}
	total, ok, err := keptSums(r, theScore())
	if err == nil && !ok {
		err = addScore(r, &total)
	}
	if err != nil {
		return nil, err
	}
	return r.score(&total)
}

// score is what the sums of the score come to.
func (r reading) score(total *sums) (out *Score, err error) {
	out = &Score{V: Version, Namespace: r.namespace, Parameters: parameters}
	if out.Inputs, err = inputsOf(r.state, r.now, r.namespace); err != nil {
		return nil, err
	}
	var p part
	p.set(total.all().Score)
	p.score(out)
	return out, nil
}
