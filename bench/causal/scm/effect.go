package scm

import (
	"math"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
)

// Effect is the effect ATE, ETT, NDE or NIE of setting a treatment to 1 instead of 0,
// on the probability that an outcome is 1. Its errors are a *causal.Fault with places in
// {"kind", "treatment", "outcome", "mediators": [name]}, causal.ErrTooLarge, and, for
// ETT, causal.ErrZeroProbability.
func (m *Model) Effect(c bayes.Contrast) (float64, error) {
	x, ok := m.index[c.Treatment]
	if !ok {
		return 0, causal.Badf(causal.At("treatment"), "there is no node %q", c.Treatment)
	}
	y, ok := m.index[c.Outcome]
	if !ok || y == x {
		return 0, causal.Badf(causal.At("outcome"), "want a node other than the treatment")
	}
	set := [2]values{m.with(x, 0), m.with(x, 1)}
	none, seen := m.none(), m.with(y, 1)
	switch c.Effect {
	case bayes.ATE:
		return m.difference(event{baseDo: none, baseSeen: none, do: set[1], seen: seen}, event{baseDo: none, baseSeen: none, do: set[0], seen: seen}, 1)
	case bayes.ETT:
		treated := m.with(x, 1)
		p, err := m.probability(event{baseDo: none, baseSeen: treated, do: none, seen: none})
		if err == nil && p == 0 {
			err = causal.Impossible()
		}
		if err != nil {
			return 0, err
		}
		return m.difference(event{baseDo: none, baseSeen: treated, do: set[1], seen: seen}, event{baseDo: none, baseSeen: treated, do: set[0], seen: seen}, p)
	case bayes.NDE, bayes.NIE:
		carry, err := m.mediators(c.Mediators, x, y)
		if err != nil {
			return 0, err
		}
		base, other := set[0], set[1]
		if c.Effect == bayes.NIE {
			base, other = other, base
		}
		return m.difference(
			event{baseDo: base, baseSeen: none, do: other, seen: seen, carry: carry},
			event{baseDo: none, baseSeen: none, do: set[0], seen: seen}, 1)
	}
	return 0, causal.Badf(causal.At("kind"), "want one of %s, %s, %s, %s", bayes.ATE, bayes.ETT, bayes.NDE, bayes.NIE)
}

// with holds one node to a value.
func (m *Model) with(v, x int) values {
	out := m.none()
	out[v] = x
	return out
}

func (m *Model) probability(e event) (float64, error) {
	s, err := m.sum(e)
	if err != nil {
		return 0, err
	}
	p, exp := s.run()
	return math.Ldexp(p, exp), nil
}

// difference is (P(a) - P(b)) / p.
func (m *Model) difference(a, b event, p float64) (float64, error) {
	pa, err := m.probability(a)
	if err != nil {
		return 0, err
	}
	pb, err := m.probability(b)
	return (pa - pb) / p, err
}

// mediators marks the nodes of a list, or those between x and y.
func (m *Model) mediators(names []string, x, y int) ([]bool, error) {
	marked := make([]bool, len(m.nodes))
	if names != nil {
		for i, name := range names {
			v, ok := m.index[name]
			if !ok || v == x || v == y || marked[v] {
				return nil, causal.Badf(causal.At("mediators", i), "want a node other than treatment and outcome, once")
			}
			marked[v] = true
		}
		return marked, nil
	}
	after, before := make([]bool, len(m.nodes)), make([]bool, len(m.nodes))
	for v := range m.nodes {
		after[v] = v == x || slices.ContainsFunc(m.nodes[v].parents, func(p int) bool { return after[p] })
	}
	before[y] = true
	for v := len(m.nodes) - 1; v >= 0; v-- {
		for _, p := range m.nodes[v].parents {
			before[p] = before[p] || before[v]
		}
		marked[v] = after[v] && before[v] && v != x && v != y
	}
	return marked, nil
}
