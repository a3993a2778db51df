package identify

import (
	"math"
	"slices"
	"strings"

	"assay/bench/causal/graph"
)

// Term is an expression in the observed distribution P(V). It prints as text and
// evaluates on a joint.
type Term interface {
	// free are the variables on which the value depends.
	free(g *graph.Graph) graph.Set
	write(p *printer)
	// cells are the table entries that table computes on the way.
	cells(g *graph.Graph, states []int) float64
	table(j *Joint) table
}

// Prob is P(Of | Given).
type Prob struct{ Of, Given graph.Set }

// Sum is the sum of a term over all values of variables.
type Sum struct {
	Over graph.Set
	Of   Term
}

// Product is 1 where it is empty.
type Product []Term

// Quotient is Over divided by Under.
type Quotient struct{ Over, Under Term }

func (t Prob) free(*graph.Graph) graph.Set       { return t.Of.Or(t.Given) }
func (t Sum) free(g *graph.Graph) graph.Set      { return t.Of.free(g).Minus(t.Over) }
func (t Quotient) free(g *graph.Graph) graph.Set { return t.Over.free(g).Or(t.Under.free(g)) }
func (t Product) free(g *graph.Graph) graph.Set {
	s := g.NewSet()
	for _, f := range t {
		s = s.Or(f.free(g))
	}
	return s
}

// factors are what is multiplied in a term.
func factors(t Term) Product {
	if p, ok := t.(Product); ok {
		return slices.Clone(p)
	}
	return Product{t}
}

// product multiplies, without products inside of products.
func product(terms ...Term) Term {
	var out Product
	for _, t := range terms {
		out = append(out, factors(t)...)
	}
	if len(out) == 1 {
		return out[0]
	}
	return out
}

// sum is the sum of t over variables, without those that add to 1: a probability
// that alone depends on its variable is left out.
func sum(g *graph.Graph, over graph.Set, t Term) Term {
	over = over.And(t.free(g))
	if inner, ok := t.(Sum); ok {
		over, t = over.Or(inner.Over), inner.Of
	}
	left := factors(t)
	for again := true; again; {
		again = false
		for v := range over.All() {
			at := -1
			for i, f := range left {
				if !f.free(g).Has(v) {
					continue
				}
				if p, ok := f.(Prob); !ok || !p.Of.Has(v) || at >= 0 {
					at = -2
					break
				}
				at = i
			}
			if at < 0 {
				continue
			}
			p := left[at].(Prob)
			p.Of = p.Of.Clone()
			p.Of.Remove(v)
			if left[at] = p; p.Of.Empty() {
				left = slices.Delete(left, at, at+1)
			}
			over.Remove(v)
			again = true
		}
		over = over.And(left.free(g))
	}
	if over.Empty() {
		return product(left...)
	}
	return Sum{over, product(left...)}
}

// quotient divides; what stands above and below as the same factor is cancelled.
func quotient(g *graph.Graph, over, under Term) Term {
	above := factors(over)
	var below Product
	for _, f := range factors(under) {
		if i := slices.IndexFunc(above, func(t Term) bool { return same(t, f) }); i >= 0 {
			above = slices.Delete(above, i, i+1)
		} else {
			below = append(below, f)
		}
	}
	if len(below) == 0 {
		return product(above...)
	}
	return Quotient{product(above...), product(below...)}
}

// size counts the parts of a term.
func size(t Term) int {
	n := 1
	switch t := t.(type) {
	case Sum:
		n += size(t.Of)
	case Quotient:
		n += size(t.Over) + size(t.Under)
	case Product:
		for _, f := range t {
			n += size(f)
		}
	}
	return n
}

func same(a, b Term) bool {
	switch a := a.(type) {
	case Prob:
		b, ok := b.(Prob)
		return ok && a.Of.Equal(b.Of) && a.Given.Equal(b.Given)
	case Sum:
		b, ok := b.(Sum)
		return ok && a.Over.Equal(b.Over) && same(a.Of, b.Of)
	case Quotient:
		b, ok := b.(Quotient)
		return ok && same(a.Over, b.Over) && same(a.Under, b.Under)
	case Product:
		b, ok := b.(Product)
		return ok && slices.EqualFunc(a, b, same)
	}
	return false
}

// printer writes terms. A variable that a sum binds while it already means something
// outside gets a prime.
type printer struct {
	strings.Builder
	g     *graph.Graph
	names map[int]string
}

func (p *printer) list(s graph.Set) {
	first := true
	for v := range s.All() {
		if !first {
			p.WriteByte(',')
		}
		first = false
		p.WriteString(p.names[v])
	}
}

func (t Prob) write(p *printer) {
	p.WriteString("P(")
	p.list(t.Of)
	if !t.Given.Empty() {
		p.WriteByte('|')
		p.list(t.Given)
	}
	p.WriteByte(')')
}

func (t Sum) write(p *printer) {
	outer := map[int]string{}
	for v := range t.Over.All() {
		outer[v] = p.names[v]
		if p.names[v] == "" {
			p.names[v] = p.g.Name(v)
		} else {
			p.names[v] += "'"
		}
	}
	p.WriteString("sum_{")
	p.list(t.Over)
	p.WriteString("} ")
	t.Of.write(p)
	for v, name := range outer {
		p.names[v] = name
	}
}

func (t Product) write(p *printer) {
	if len(t) == 0 {
		p.WriteByte('1')
	}
	for i, f := range t {
		if i > 0 {
			p.WriteByte(' ')
		}
		p.inner(f, i < len(t)-1)
	}
}

// inner writes a factor; one that a later factor follows must not swallow it.
func (p *printer) inner(t Term, followed bool) {
	_, isSum := t.(Sum)
	_, isQuotient := t.(Quotient)
	if brackets := isSum && followed || isQuotient; brackets {
		p.WriteByte('(')
		defer p.WriteByte(')')
	}
	t.write(p)
}

func (t Quotient) write(p *printer) {
	for i, part := range []Term{t.Over, t.Under} {
		if i > 0 {
			p.WriteString(" / ")
		}
		if _, simple := part.(Prob); simple {
			part.write(p)
		} else {
			p.WriteByte('(')
			part.write(p)
			p.WriteByte(')')
		}
	}
}

// table is a function of variables: an entry for each combination of their values,
// the last fastest. An undefined entry is NaN.
type table struct {
	vars   []int
	values []float64
}

func volume(s graph.Set, states []int) float64 {
	n := 1.0
	for v := range s.All() {
		n *= float64(states[v])
	}
	return n
}

func (t Prob) cells(g *graph.Graph, states []int) float64 { return 3 * volume(t.free(g), states) }

func (t Sum) cells(g *graph.Graph, states []int) float64 {
	return t.Of.cells(g, states) + volume(t.Of.free(g), states)
}

func (t Quotient) cells(g *graph.Graph, states []int) float64 {
	return t.Over.cells(g, states) + t.Under.cells(g, states) + volume(t.free(g), states)
}

func (t Product) cells(g *graph.Graph, states []int) float64 {
	n, scope := 1.0, g.NewSet()
	for _, f := range t {
		scope = scope.Or(f.free(g))
		n += f.cells(g, states) + volume(scope, states)
	}
	return n
}

func (t Prob) table(j *Joint) table {
	if t.Given.Empty() {
		return j.marginal(t.Of)
	}
	return j.combine(j.marginal(t.Of.Or(t.Given)), j.marginal(t.Given), divide)
}

func (t Sum) table(j *Joint) table { return j.sumOut(t.Of.table(j), t.Over) }

func (t Quotient) table(j *Joint) table {
	return j.combine(t.Over.table(j), t.Under.table(j), divide)
}

func (t Product) table(j *Joint) table {
	out := table{nil, []float64{1}}
	for _, f := range t {
		out = j.combine(out, f.table(j), multiply)
	}
	return out
}

// multiply takes what cannot happen as 0, whatever it is multiplied with.
func multiply(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

func divide(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// walk visits every combination of values of the variables, with the place of each
// in the tables of the given scopes.
func (j *Joint) walk(vars []int, scopes [][]int, visit func(at []int)) {
	strides := make([][]int, len(scopes))
	for s, scope := range scopes {
		strides[s] = make([]int, len(vars))
		stride := 1
		for _, v := range slices.Backward(scope) {
			if i := slices.Index(vars, v); i >= 0 {
				strides[s][i] = stride
			}
			stride *= j.States[v]
		}
	}
	at, digit := make([]int, len(scopes)), make([]int, len(vars))
	for {
		visit(at)
		i := len(vars) - 1
		for ; i >= 0; i-- {
			v := vars[i]
			if digit[i]++; digit[i] < j.States[v] {
				for s := range at {
					at[s] += strides[s][i]
				}
				break
			}
			digit[i] = 0
			for s := range at {
				at[s] -= strides[s][i] * (j.States[v] - 1)
			}
		}
		if i < 0 {
			return
		}
	}
}

func (j *Joint) empty(vars []int) table {
	n := 1
	for _, v := range vars {
		n *= j.States[v]
	}
	return table{vars, make([]float64, n)}
}

func (j *Joint) combine(a, b table, op func(x, y float64) float64) table {
	vars := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.vars, b.vars))))
	out := j.empty(vars)
	k := 0
	j.walk(vars, [][]int{a.vars, b.vars}, func(at []int) {
		out.values[k] = op(a.values[at[0]], b.values[at[1]])
		k++
	})
	return out
}

func (j *Joint) sumOut(t table, over graph.Set) table {
	out := j.empty(slices.DeleteFunc(slices.Clone(t.vars), over.Has))
	k := 0
	j.walk(t.vars, [][]int{out.vars}, func(at []int) {
		out.values[at[0]] += t.values[k]
		k++
	})
	return out
}
