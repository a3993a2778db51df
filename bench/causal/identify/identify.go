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
// Shpitser and Pearl, in the form of Tian's c-factors).
func Identify(g *graph.Graph, q Query) (*Estimand, *Hedge) {
	reduced := reduce(g, q)
	joint := Query{Do: reduced.Do, Outcome: reduced.Outcome.Or(reduced.Given)}
	term, hedge := effect(g, joint)
	if hedge != nil {
		hedge.reduced = reduced
		return nil, hedge
	}
	if !reduced.Given.Empty() {
		term = quotient(g, term, sum(g, reduced.Outcome, term))
	}
	return &Estimand{g, q, term}, nil
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
func effect(g *graph.Graph, q Query) (Term, *Hedge) {
	all := g.Ancestors(q.Outcome) // the rest plays no part
	needed := g.AncestorsIn(q.Outcome, all.Minus(q.Do))
	var parts []Term
	for _, inner := range g.Districts(needed) {
		for v := range inner.All() {
			outer := g.District(v, all)
			f, hedge := within(g, inner, outer, observed(g, outer, all))
			if hedge != nil {
				return nil, hedge
			}
			parts = append(parts, f)
			break
		}
	}
	return sum(g, needed.Minus(q.Outcome), product(parts...)), nil
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

// within makes Q[inner] of q = Q[outer], where inner is a c-component of a part of
// outer.
func within(g *graph.Graph, inner, outer graph.Set, q Term) (Term, *Hedge) {
	for {
		up := g.AncestorsIn(inner, outer)
		if up.Equal(inner) {
			return sum(g, outer.Minus(inner), q), nil
		}
		if up.Equal(outer) {
			return nil, &Hedge{Inner: inner, Outer: outer}
		}
		q = sum(g, outer.Minus(up), q)
		for v := range inner.All() {
			outer = g.District(v, up)
			break
		}
		q = component(g, outer, up, q)
	}
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
