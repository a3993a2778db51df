// Package decide says what to do under a distribution over states, what knowing more
// is worth, and what is known at all.
//
// Utilities and costs share a unit; information is in bits. What ties with the best,
// within Tie, is as good as the best.
package decide

import (
	"math"
	"slices"

	"assay/bench/causal"
)

// Tie is how much less than the best, relative to the largest number in play, still
// counts as the best.
const Tie = 1e-12

// Problem is a choice among actions, before which one of some queries may be made.
type Problem struct {
	Prior   []float64   // of each state
	Utility [][]float64 // of each action in each state
	Queries []Query
}

// Query is a look at the state, at a cost.
type Query struct {
	Cost float64
	// Likelihood is P(outcome | state), a row for each state.
	Likelihood [][]float64
}

// Choice is the best that can be done under a distribution.
type Choice struct {
	Expected []float64 // utility of each action
	Optimal  []int     // the actions that tie for the best, in their order
	Utility  float64   // of the best
}

// Report is a problem solved.
type Report struct {
	Choice
	// EVPI is what it would be worth to know the state.
	EVPI    float64
	Queries []Value
}

// Value is what a query is worth.
type Value struct {
	Outcomes []Outcome
	EVSI     float64 // before its cost
	Net      float64 // after its cost
	EIG      float64 // expected information gain about the state, in bits
}

// Outcome is what a query may say.
type Outcome struct {
	P         float64
	Posterior []float64 // nil where P is 0
	Choice
}

// Choose finds the best actions under a distribution.
func Choose(p []float64, utility [][]float64) Choice {
	var c Choice
	scale := 0.0
	for a, u := range utility {
		e := 0.0
		for s, x := range u {
			e += float64(p[s] * x)
			scale = max(scale, math.Abs(x))
		}
		c.Expected = append(c.Expected, e)
		if a == 0 || e > c.Utility {
			c.Utility = e
		}
	}
	for a, e := range c.Expected {
		if c.Utility-e <= Tie*scale {
			c.Optimal = append(c.Optimal, a)
		}
	}
	return c
}

// Solve solves a problem: at least one action; every list of a length of its own
// kind, every distribution adding to 1.
func Solve(p Problem) Report {
	r := Report{Choice: Choose(p.Prior, p.Utility)}
	informed := 0.0
	for s, prior := range p.Prior {
		best := math.Inf(-1)
		for _, u := range p.Utility {
			best = max(best, u[s])
		}
		if prior > 0 {
			informed += float64(prior * best)
		}
	}
	r.EVPI = max(0, informed-r.Utility)
	for _, q := range p.Queries {
		r.Queries = append(r.Queries, value(p, q, r.Utility))
	}
	return r
}

func value(p Problem, q Query, before float64) Value {
	var v Value
	after := 0.0
	for _, o := range outcomes(p.Prior, q.Likelihood) {
		if o.P > 0 {
			o.Choice = Choose(o.Posterior, p.Utility)
			after += float64(o.P * o.Utility)
		}
		v.Outcomes = append(v.Outcomes, o)
	}
	v.EVSI = max(0, after-before)
	v.Net = v.EVSI - q.Cost
	v.EIG = gain(p.Prior, v.Outcomes)
	return v
}

// outcomes lists what a query may say, with the posterior of the state.
func outcomes(prior []float64, likelihood [][]float64) []Outcome {
	if len(likelihood) == 0 {
		return nil
	}
	out := make([]Outcome, len(likelihood[0]))
	for k := range out {
		l := make([]float64, len(prior))
		for s := range prior {
			l[s] = likelihood[s][k]
		}
		out[k].Posterior, out[k].P = update(prior, l)
	}
	return out
}

// update is the posterior after a finding with a likelihood in each state, and how
// probable the finding is; nil where that is 0.
func update(prior, likelihood []float64) (posterior []float64, p float64) {
	posterior = make([]float64, len(prior))
	for s := range prior {
		posterior[s] = float64(prior[s] * likelihood[s])
		p += posterior[s]
	}
	if p == 0 {
		return nil, 0
	}
	for s := range posterior {
		posterior[s] /= p
	}
	return posterior, p
}

// Update is the posterior after findings, each with its likelihood in each state.
// The error is causal.ErrZeroProbability.
func Update(prior []float64, findings ...[]float64) ([]float64, error) {
	posterior := slices.Clone(prior)
	for _, likelihood := range findings {
		var p float64
		if posterior, p = update(posterior, likelihood); p == 0 {
			return nil, causal.Impossible()
		}
	}
	return posterior, nil
}

// Entropy is that of a distribution, in bits.
func Entropy(p []float64) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= float64(x * math.Log2(x))
		}
	}
	return h
}

func gain(prior []float64, outcomes []Outcome) float64 {
	left := 0.0
	for _, o := range outcomes {
		if o.P > 0 {
			left += float64(o.P * Entropy(o.Posterior))
		}
	}
	return max(0, Entropy(prior)-left)
}

// EIG is the expected information gain of an experiment about hypotheses, in bits:
// the entropy of prior, less its expectation once the outcome is known.
func EIG(prior []float64, likelihood [][]float64) float64 {
	return gain(prior, outcomes(prior, likelihood))
}

// InformationRegret is how much less each experiment of a menu tells about hypotheses
// than the best one, in bits; experiments that tie with the best have 0. The error is
// that of an empty menu.
func InformationRegret(prior []float64, menu [][][]float64) ([]float64, error) {
	if len(menu) == 0 {
		return nil, causal.Badf(nil, "there is no experiment on the menu")
	}
	gains := make([]float64, len(menu))
	for i, likelihood := range menu {
		gains[i] = EIG(prior, likelihood)
	}
	return shortfall(gains, math.Log2(float64(max(len(prior), 2)))), nil
}

// Regret is how much more each action loses than the best one in expectation, under
// the posterior of what has been delivered; actions that tie with the best have 0.
// The error is that of an empty menu.
func Regret(posterior []float64, loss [][]float64) ([]float64, error) {
	if len(loss) == 0 {
		return nil, causal.Badf(nil, "there is no action on the menu")
	}
	gains := make([]float64, len(loss))
	scale := 0.0
	for a, l := range loss {
		for s, x := range l {
			gains[a] -= float64(posterior[s] * x)
			scale = max(scale, math.Abs(x))
		}
	}
	return shortfall(gains, scale), nil
}

// shortfall is how much each number is below the largest; 0 for ties.
func shortfall(gains []float64, scale float64) []float64 {
	best := slices.Max(gains)
	out := make([]float64, len(gains))
	for i, g := range gains {
		if best-g > Tie*scale {
			out[i] = best - g
		}
	}
	return out
}

// IdentifiedMass is the posterior mass that an identified set holds at least.
const IdentifiedMass = 0.95

// IdentifiedSet lists the hypotheses, in their order, of the smallest set with
// IdentifiedMass, and those that tie with its least probable member. Hypotheses of
// probability 0 are not in it.
func IdentifiedSet(posterior []float64) []int {
	order := make([]int, len(posterior))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case posterior[a] > posterior[b]:
			return -1
		case posterior[a] < posterior[b]:
			return 1
		}
		return 0
	})
	mass, least := 0.0, 0.0
	var set []int
	for _, i := range order {
		p := posterior[i]
		if p == 0 || mass >= IdentifiedMass-Tie && p < least-Tie {
			break
		}
		set = append(set, i)
		mass, least = mass+p, p
	}
	slices.Sort(set)
	return set
}
