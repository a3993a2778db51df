package scm

import (
	"errors"
	"maps"
	"math"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/elim"
)

// Query asks for the probability of Target.
type Query struct {
	Target  map[string]int
	Given   map[string]int // observed where Target is
	Do      map[string]int // set, on rungs 2 and 3
	Factual map[string]int // observed before the intervention, on rung 3
}

// Rung is a rung of the ladder of causation. What a Query says of higher ones is not
// read.
type Rung int

// The rungs.
const (
	Association    Rung = 1 // P(Target | Given)
	Intervention   Rung = 2 // P(Target | Given) after Do
	Counterfactual Rung = 3 // the same, with the noise conditioned on Factual
)

// values holds a node to a value, by node; free leaves it.
type values []int

const free = elim.Free

func (m *Model) none() values {
	out := make(values, len(m.nodes))
	for i := range out {
		out[i] = free
	}
	return out
}

// read checks a map of values.
func (m *Model) read(field string, given map[string]int) (values, error) {
	out := m.none()
	for name, x := range given {
		if v, ok := m.index[name]; ok && x >= 0 && x < m.nodes[v].card {
			out[v] = x
			continue
		}
		return nil, m.misread(field, given)
	}
	return out, nil
}

// misread is the first fault of a map of values, by name.
func (m *Model) misread(field string, given map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v, ok := m.index[name]
		if !ok {
			return causal.Badf(causal.At(field, name), "there is no such node")
		}
		if x := given[name]; x < 0 || x >= m.nodes[v].card {
			return causal.Badf(causal.At(field, name), "the values are 0 to %d, not %d", m.nodes[v].card-1, x)
		}
	}
	return nil
}

// merge is both conditions at once; ok is false where they contradict each other.
func merge(a, b values) (both values, ok bool) {
	both = slices.Clone(a)
	for v, x := range b {
		if x == free {
			continue
		}
		if both[v] != free && both[v] != x {
			return nil, false
		}
		both[v] = x
	}
	return both, true
}

// parts is a checked Query.
type parts struct{ target, given, do, factual values }

func (m *Model) parts(q Query) (p parts, err error) {
	for _, f := range [...]struct {
		name string
		from map[string]int
		into *values
	}{{"target", q.Target, &p.target}, {"given", q.Given, &p.given}, {"do", q.Do, &p.do}, {"factual", q.Factual, &p.factual}} {
		if *f.into, err = m.read(f.name, f.from); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Inference is a query that was checked and planned.
type Inference struct{ over, under *sum }

// Cost is what Run takes, in multiplications and additions.
func (inf *Inference) Cost() float64 { return inf.over.cost + inf.under.cost }

// Run gives the probability. The error is causal.ErrZeroProbability.
func (inf *Inference) Run() (float64, error) {
	under, exp := inf.under.run()
	if under == 0 {
		return 0, causal.Impossible()
	}
	over, overExp := inf.over.run()
	return min(math.Ldexp(over/under, overExp-exp), 1), nil // rounded, it may be a little more
}

// Prepare checks and plans a query. Its errors are a *causal.Fault, with places in
// {"rung", "target": {}, "given": {}, "do": {}, "factual": {}}, or causal.ErrTooLarge.
func (m *Model) Prepare(rung Rung, q Query) (*Inference, error) {
	p, err := m.parts(q)
	if err != nil {
		return nil, err
	}
	return m.prepare(rung, p)
}

func (m *Model) prepare(rung Rung, p parts) (*Inference, error) {
	none := m.none()
	switch rung {
	case Association:
		return m.ratio(p.target, p.given, event{baseDo: none, do: none, baseSeen: none})
	case Intervention:
		return m.ratio(p.target, p.given, event{baseDo: p.do, do: p.do, baseSeen: none})
	case Counterfactual:
		return m.ratio(p.target, p.given, event{baseDo: none, do: p.do, baseSeen: p.factual})
	}
	return nil, causal.Badf(causal.At("rung"), "want 1, 2 or 3")
}

// ratio is P(target | given) in the other world of e, given what e says of the base
// world.
func (m *Model) ratio(target, given values, e event) (*Inference, error) {
	e.seen = given
	under, err := m.sum(e)
	if err != nil {
		return nil, err
	}
	over := impossible
	if both, ok := merge(given, target); ok {
		e.seen = both
		if over, err = m.sum(e); err != nil {
			return nil, err
		}
	}
	return &Inference{over, under}, nil
}

// Ask is Prepare and Run at once.
func (m *Model) Ask(rung Rung, q Query) (float64, error) {
	inf, err := m.Prepare(rung, q)
	if err != nil {
		return 0, err
	}
	return inf.Run()
}

// Rungs are the answers to one question as different readers of it would give them.
// An answer is nil where its condition has probability 0.
type Rungs struct {
	// Association reads interventions and facts as observations.
	Association *float64 `json:"rung1"`
	// Intervention forgets the facts.
	Intervention *float64 `json:"rung2"`
	// Resampled keeps those facts that the intervention cannot reach, observed after it,
	// and draws the noise of the rest anew.
	Resampled *float64 `json:"resampled"`
	// Abduced is the counterfactual: the same noise, solved again.
	Abduced *float64 `json:"abduced"`
}

// RungsInference is a query that was checked and planned for all its readers.
type RungsInference struct {
	// association, intervention, resampled, abduced; nil where conditions contradict
	// each other.
	readings [4]*Inference
}

// PrepareAll checks and plans all four answers.
func (m *Model) PrepareAll(q Query) (*RungsInference, error) {
	p, err := m.parts(q)
	if err != nil {
		return nil, err
	}
	out := &RungsInference{}
	seen, ok := merge(p.given, p.do)
	if ok {
		seen, ok = merge(seen, p.factual)
	}
	if ok {
		if out.readings[0], err = m.prepare(Association, parts{target: p.target, given: seen}); err != nil {
			return nil, err
		}
	}
	if out.readings[1], err = m.prepare(Intervention, p); err != nil {
		return nil, err
	}
	if seen, ok = merge(p.given, m.beyond(p.do, p.factual)); ok {
		if out.readings[2], err = m.prepare(Intervention, parts{target: p.target, given: seen, do: p.do}); err != nil {
			return nil, err
		}
	}
	out.readings[3], err = m.prepare(Counterfactual, p)
	return out, err
}

// beyond keeps of the facts those that an intervention cannot reach.
func (m *Model) beyond(do, factual values) values {
	reached := make([]bool, len(m.nodes))
	out := slices.Clone(factual)
	for v := range m.nodes {
		reached[v] = do[v] != free || slices.ContainsFunc(m.nodes[v].parents, func(p int) bool { return reached[p] })
		if reached[v] {
			out[v] = free
		}
	}
	return out
}

// Cost is what Run takes, in multiplications and additions.
func (r *RungsInference) Cost() float64 {
	cost := 0.0
	for _, inf := range r.readings {
		if inf != nil {
			cost += inf.Cost()
		}
	}
	return cost
}

// Run gives the answers.
func (r *RungsInference) Run() Rungs {
	var value [4]*float64
	for i, inf := range r.readings {
		if inf == nil {
			continue
		}
		if v, err := inf.Run(); err == nil {
			value[i] = &v
		} else if !errors.Is(err, causal.ErrZeroProbability) {
			panic(err) // Run has no other
		}
	}
	return Rungs{value[0], value[1], value[2], value[3]}
}

// Rungs is PrepareAll and Run at once.
func (m *Model) Rungs(q Query) (Rungs, error) {
	r, err := m.PrepareAll(q)
	if err != nil {
		return Rungs{}, err
	}
	return r.Run(), nil
}
