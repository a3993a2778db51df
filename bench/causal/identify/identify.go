// Package identify says what a graph lets one know: whether an interventional or
// counterfactual distribution follows from those that were observed, by which
// formula, and where it does not, it shows two models that prove so.
package identify

import (
	"fmt"
	"math"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/graph"
)

// Query asks for P(Outcome | do(Do), Given). The sets are disjoint, Outcome is not
// empty.
type Query struct{ Do, Outcome, Given graph.Set }

// Estimand is the answer to a query as a formula in P(V), right in every model of
// the graph in which P(V) makes it defined.
type Estimand struct {
	g     *graph.Graph
	query Query
	term  Term
}

// Hedge proves that a query is not identifiable (Shpitser and Pearl 2006): Inner and
// Outer are c-components, Inner without treatments, Outer with some, and all of
// Outer are ancestors of Inner in it.
type Hedge struct {
	Inner, Outer graph.Set
	// reduced is the query after the moves of do-calculus's second rule.
	reduced Query
}

// Identify finds the estimand, or else the hedge: it is complete (ID and IDC of
// Shpitser and Pearl, in the form of Tian's c-factors). The error is
// causal.ErrTooLarge: the query is identifiable, but by a formula that is too long.
func Identify(g *graph.Graph, q Query) (*Estimand, *Hedge, error) {
	reduced := reduce(g, q)
	joint := Query{Do: reduced.Do, Outcome: reduced.Outcome.Or(reduced.Given)}
	term, hedge, err := effect(g, joint)
	if hedge != nil {
		hedge.reduced = reduced
	}
	if hedge != nil || err != nil {
		return nil, hedge, err
	}
	if !reduced.Given.Empty() {
		term = quotient(g, term, sum(g, reduced.Outcome, term))
	}
	return &Estimand{g, q, term}, nil, nil
}

// reduce moves conditions to interventions as long as the second rule of do-calculus
// lets it.
func reduce(g *graph.Graph, q Query) Query {
	do, given := q.Do.Clone(), q.Given.Clone()
	for again := true; again; {
		again = false
		for z := range given.All() {
			one := g.NewSet(z)
			cut := g.WithoutIn(do).WithoutOut(one)
			if cut.Separated(one, q.Outcome, do.Or(given.Minus(one))) {
				do.Add(z)
				given.Remove(z)
				again = true
			}
		}
	}
	return Query{do, q.Outcome, given}
}

// effect is P(Outcome | do(Do)).
func effect(g *graph.Graph, q Query) (Term, *Hedge, error) {
	all := g.Ancestors(q.Outcome) // the rest plays no part
	needed := g.AncestorsIn(q.Outcome, all.Minus(q.Do))
	inner := g.Districts(needed)
	steps := make([][]step, len(inner))
	for i, d := range inner {
		var hedge *Hedge
		if steps[i], hedge = narrow(g, d, all); hedge != nil {
			return nil, hedge, nil
		}
	}
	var parts []Term
	for i, d := range inner {
		f, err := within(g, d, all, steps[i])
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, f)
	}
	return sum(g, needed.Minus(q.Outcome), product(parts...)), nil, nil
}

// step goes to the c-component, in the set where one is, that holds the one looked
// for, and on to the latter's ancestors in it.
type step struct{ district, ancestors graph.Set }

// narrow finds the way from the ancestral set all to inner, a c-component of a part
// of it: by c-components and ancestors in turn.
func narrow(g *graph.Graph, inner, all graph.Set) ([]step, *Hedge) {
	var steps []step
	for at := all; ; {
		s := step{district: districtOf(g, inner, at)}
		s.ancestors = g.AncestorsIn(inner, s.district)
		steps = append(steps, s)
		if s.ancestors.Equal(inner) {
			return steps, nil
		}
		if s.ancestors.Equal(s.district) {
			return nil, &Hedge{Inner: inner, Outer: s.district}
		}
		at = s.ancestors
	}
}

// districtOf is the c-component of the subgraph over in that holds inner.
func districtOf(g *graph.Graph, inner, in graph.Set) graph.Set {
	for v := range inner.All() {
		return g.District(v, in)
	}
	panic("identify: an empty c-component")
}

// maxParts is the most parts that a formula may have while it is made.
const maxParts = 100_000

// within makes Q[inner] by the steps from the ancestral set all.
func within(g *graph.Graph, inner, all graph.Set, steps []step) (Term, error) {
	q := observed(g, steps[0].district, all)
	for i, s := range steps {
		if i > 0 {
			from := steps[i-1].ancestors
			if 2*size(q)*s.district.Len() > maxParts {
				return nil, &causal.Fault{Kind: causal.TooLarge, Message: "the formula is too long"}
			}
			q = component(g, s.district, from, q)
		}
		q = sum(g, s.district.Minus(s.ancestors), q)
	}
	return q, nil
}

// observed is Q[district], the distribution of a c-component under an intervention
// on all else, of the ancestral set all: each member given those before it in its
// district and their parents.
func observed(g *graph.Graph, district, all graph.Set) Term {
	var parts []Term
	before := g.NewSet()
	for _, v := range g.Order() {
		if !all.Has(v) {
			continue
		}
		before.Add(v)
		if district.Has(v) {
			near := g.District(v, before)
			given := near.Or(g.ParentsOf(near))
			given.Remove(v)
			parts = append(parts, Prob{g.NewSet(v), given})
		}
	}
	return product(parts...)
}

// component makes Q[district] of q = Q[all], whose c-component it is: each member
// given all before it.
func component(g *graph.Graph, district, all graph.Set, q Term) Term {
	order := slices.DeleteFunc(slices.Clone(g.Order()), func(v int) bool { return !all.Has(v) })
	var parts []Term
	for i, v := range order {
		if district.Has(v) {
			through := sum(g, g.NewSet(order[i+1:]...), q)
			parts = append(parts, quotient(g, through, sum(g, g.NewSet(order[i:]...), q)))
		}
	}
	return product(parts...)
}

// String is the formula: "sum_{Z} P(Y|X,Z) P(Z)". What a sum binds anew has a
// prime. A variable that is neither bound nor of the query may have any value.
func (e *Estimand) String() string {
	p := &printer{g: e.g, names: map[int]string{}}
	for v := range e.term.free(e.g).Or(e.query.Do).Or(e.query.Outcome).Or(e.query.Given).All() {
		p.names[v] = e.g.Name(v)
	}
	e.term.write(p)
	return p.String()
}

// Joint is an observed distribution P(V).
type Joint struct {
	States []int // of each node: how many values it has
	// Marginal is the joint distribution of variables, given in rising order; the
	// last is fastest.
	Marginal func(vars []int) []float64
	cache    map[string]table
}

func (j *Joint) marginal(s graph.Set) table {
	vars := slices.Collect(s.All())
	key := fmt.Sprint(vars)
	if t, ok := j.cache[key]; ok {
		return t
	}
	t := table{vars, j.Marginal(vars)}
	if j.cache == nil {
		j.cache = map[string]table{}
	}
	j.cache[key] = t
	return t
}

// Marginals are the sets of variables whose joint distributions Evaluate needs.
func (e *Estimand) Marginals() []graph.Set {
	var out []graph.Set
	var visit func(t Term)
	visit = func(t Term) {
		switch t := t.(type) {
		case Prob:
			out = append(out, t.Of.Or(t.Given))
			if !t.Given.Empty() {
				out = append(out, t.Given)
			}
		case Sum:
			visit(t.Of)
		case Quotient:
			visit(t.Over)
			visit(t.Under)
		case Product:
			for _, f := range t {
				visit(f)
			}
		}
	}
	visit(e.term)
	slices.SortFunc(out, func(a, b graph.Set) int { return slices.Compare(a, b) })
	return slices.CompactFunc(out, graph.Set.Equal)
}

// Cost is what Evaluate computes besides the marginals, in table entries. states is
// how many values each node has.
func (e *Estimand) Cost(states []int) float64 { return e.term.cells(e.g, states) }

// addsUp is how far an answer may be from adding to 1.
const addsUp = 1e-6

// Evaluate is the distribution of the outcome, in node order, the last fastest, when
// do and given have the values (by node). The error is causal.ErrZeroProbability
// where P does not define it.
func (e *Estimand) Evaluate(j *Joint, values map[int]int) ([]float64, error) {
	t := e.term.table(j)
	outcome := slices.Collect(e.query.Outcome.All())
	fixed := e.query.Do.Or(e.query.Given)
	var loose []int // the value of these does not matter, but it may be undefined at some
	for _, v := range t.vars {
		if !fixed.Has(v) && !e.query.Outcome.Has(v) {
			loose = append(loose, v)
		}
	}
	base := 0
	stride := 1
	for _, v := range slices.Backward(t.vars) {
		if fixed.Has(v) {
			base += stride * values[v]
		}
		stride *= j.States[v]
	}
	var answer []float64
	j.walk(loose, [][]int{t.vars}, func(from []int) {
		if answer != nil {
			return
		}
		start := base + from[0]
		var p []float64
		total := 0.0
		j.walk(outcome, [][]int{t.vars}, func(at []int) {
			p = append(p, t.values[start+at[0]])
			total += p[len(p)-1]
		})
		if math.Abs(total-1) <= addsUp { // never of NaN
			answer = p
		}
	})
	if answer == nil {
		return nil, causal.Impossible()
	}
	return answer, nil
}
