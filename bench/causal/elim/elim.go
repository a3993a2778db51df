// Package elim sums products of tables over discrete variables, by variable
// elimination.
//
// A Problem is a list of factors and the variables to keep. Plan chooses an order,
// by min-fill or min-weight, whichever costs less, and tells what the sum will cost
// and hold; Run works it out. So whoever asks can refuse before any work.
//
// Tables are dense, the last variable fastest. Products are made in the order of the
// plan and never fused, so the same problem gives the same bits on every machine.
package elim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"assay/bench/causal"
)

// What a plan is held to, whatever its cost.
const (
	// MaxVariables is the most variables that a problem may be about: those that some
	// factor leaves free.
	MaxVariables = 2048
	// MaxCells is the most numbers that may be held at a time, 256 MiB.
	MaxCells = 1 << 25
)

// Factor is a table over variables.
type Factor struct {
	Vars []int // distinct
	// At holds a variable to a state, or leaves it free where it is Free. nil leaves
	// all of them free. At goes with Vars, so that one factor can see a variable in
	// another state than the next.
	At    []int
	Table []float64 // of all states of Vars, also those that At excludes
}

// Free in Factor.At is no state in particular.
const Free = -1

// Problem asks for the sum, over the states of all variables but Keep, of the
// product of the factors.
type Problem struct {
	Cards   []int // states of each variable
	Factors []Factor
	Keep    []int // distinct; each free in some factor, if it has more than one state
}

// Plan is an order of work.
type Plan struct {
	// Cost is the number of multiplications and additions.
	Cost float64
	// Cells is the most numbers that are held at a time.
	Cells float64

	problem *Problem
	scopes  [][]int // of the factors, then of what each step makes; ascending
	steps   []step
}

// Width is how many variables the largest table has that the order makes: the treewidth
// of what is summed, or more where the order is not the best.
func (plan *Plan) Width() int {
	width := 0
	for _, scope := range plan.scopes[len(plan.problem.Factors):] {
		width = max(width, len(scope))
	}
	return width
}

// step multiplies the tables of parts, from left to right, and sums v out of the
// product, or nothing where v is Free.
type step struct {
	parts []int
	v     int
}

// Result is a table over Problem.Keep, the last fastest, times 2^Exp. The largest
// number of the table is no closer to 0 than 2^-64, unless all are 0.
type Result struct {
	Table []float64
	Exp   int
}

// Value is the i-th number.
func (r Result) Value(i int) float64 { return math.Ldexp(r.Table[i], r.Exp) }

// planner holds the interaction graph of what is still to be summed.
type planner struct {
	p      *Problem
	vars   []int // variable of each node, ascending
	words  int
	adj    []uint64 // rows of words, one a node
	alive  []bool
	keep   []bool
	fill   []int // edges that the elimination of a node would add
	weight []float64
	stale  []bool
}

// Plan finds an order. The error is causal.ErrTooLarge.
func (p *Problem) Plan() (*Plan, error) {
	scopes := make([][]int, len(p.Factors))
	node := make([]int, len(p.Cards))
	for i, f := range p.Factors {
		scopes[i] = p.free(f)
		for _, v := range scopes[i] {
			node[v] = 1
		}
	}
	for _, v := range p.Keep {
		node[v] = 1
	}
	var vars []int
	for v, used := range node {
		if used == 1 && p.Cards[v] > 1 {
			node[v] = len(vars)
			vars = append(vars, v)
		}
	}
	if len(vars) > MaxVariables {
		return nil, &causal.Fault{Kind: causal.TooLarge, Message: fmt.Sprintf("the answer needs %d variables, the limit is %d", len(vars), MaxVariables)}
	}
	best := p.simulate(newPlanner(p, vars, node, scopes).order(byFill), scopes)
	if best.Cost > cheap {
		if other := p.simulate(newPlanner(p, vars, node, scopes).order(byWeight), scopes); other.Cost < best.Cost {
			best = other
		}
	}
	if best.Cells > MaxCells {
		return nil, &causal.Fault{Kind: causal.TooLarge, Message: fmt.Sprintf("the answer costs %.3g steps and holds %.3g numbers at a time, the limit is %d", best.Cost, best.Cells, MaxCells)}
	}
	return best, nil
}

// cheap is what a second look for an order costs about.
const cheap = 10_000

// free lists the variables that a factor is a table of, once At is applied.
func (p *Problem) free(f Factor) []int {
	out := make([]int, 0, len(f.Vars))
	for i, v := range f.Vars {
		if (f.At == nil || f.At[i] == Free) && p.Cards[v] > 1 {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func newPlanner(p *Problem, vars, node []int, scopes [][]int) *planner {
	n := len(vars)
	g := &planner{
		p: p, vars: vars, words: (n + 63) / 64, alive: make([]bool, n), keep: make([]bool, n),
		fill: make([]int, n), weight: make([]float64, n), stale: make([]bool, n),
	}
	g.adj = make([]uint64, n*g.words)
	for i := range n {
		g.alive[i], g.stale[i] = true, true
	}
	for _, v := range p.Keep {
		if p.Cards[v] > 1 {
			g.keep[node[v]] = true
		}
	}
	for _, scope := range scopes {
		for i, v := range scope {
			for _, w := range scope[:i] {
				g.join(node[v], node[w])
			}
		}
	}
	return g
}

func (g *planner) row(i int) []uint64 { return g.adj[i*g.words : (i+1)*g.words] }

func (g *planner) join(a, b int) {
	g.row(a)[b/64] |= 1 << (b % 64)
	g.row(b)[a/64] |= 1 << (a % 64)
}

// hopeless is a weight, and a cost, that nobody waits for: what is beyond it is not
// worked out.
const hopeless = 1 << 40

func (g *planner) score(i int) {
	row := g.row(i)
	weight := float64(g.p.Cards[g.vars[i]])
	n := 0
	for j := range ones(row) {
		weight *= float64(g.p.Cards[g.vars[j]])
		n++
	}
	g.weight[i], g.fill[i] = weight, math.MaxInt
	if weight < hopeless {
		present := 0
		for j := range ones(row) {
			for k, w := range g.row(j) {
				present += bits.OnesCount64(w & row[k])
			}
		}
		g.fill[i] = (n*(n-1) - present) / 2
	}
	g.stale[i] = false
}

func byFill(g *planner, a, b int) bool {
	return g.fill[a] < g.fill[b] || g.fill[a] == g.fill[b] && g.weight[a] < g.weight[b]
}

func byWeight(g *planner, a, b int) bool {
	return g.weight[a] < g.weight[b] || g.weight[a] == g.weight[b] && g.fill[a] < g.fill[b]
}

// order lists the variables to sum out, the least first at each point; among
// equals, that with the lower number.
func (g *planner) order(less func(g *planner, a, b int) bool) []int {
	var out []int
	for {
		best := -1
		for i := range g.vars {
			if !g.alive[i] || g.keep[i] {
				continue
			}
			if g.stale[i] {
				g.score(i)
			}
			if best < 0 || less(g, i, best) {
				best = i
			}
		}
		if best < 0 {
			return out
		}
		out = append(out, g.vars[best])
		if g.weight[best] >= hopeless { // whatever the rest is
			for i := range g.vars {
				if g.alive[i] && !g.keep[i] && i != best {
					out = append(out, g.vars[i])
				}
			}
			return out
		}
		g.eliminate(best)
	}
}

// eliminate joins the neighbours of a node and takes it away.
func (g *planner) eliminate(i int) {
	row := g.row(i)
	for j := range ones(row) {
		other := g.row(j)
		for k, w := range row {
			other[k] |= w
		}
		other[j/64] &^= 1 << (j % 64)
		other[i/64] &^= 1 << (i % 64)
		g.stale[j] = true
		if g.fill[i] > 0 { // a new edge changes what its common neighbours would add
			for k := range ones(other) {
				g.stale[k] = true
			}
		}
	}
	g.alive[i] = false
}

// ones lists the set bits.
func ones(row []uint64) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for k, w := range row {
			for ; w != 0; w &= w - 1 {
				if !yield(k*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// simulate writes down the steps of an order, and counts what they cost. A plan
// whose cost is past all limits is not finished.
func (p *Problem) simulate(order []int, scopes [][]int) *Plan {
	plan := &Plan{problem: p, scopes: slices.Clone(scopes)}
	at := make([][]int, len(p.Cards)) // tables that a variable is in, also used ones
	used := make([]bool, len(scopes), len(scopes)+len(order))
	held := 0.0
	enter := func(i int) {
		for _, v := range plan.scopes[i] {
			at[v] = append(at[v], i)
		}
		held += p.size(plan.scopes[i])
	}
	for i := range scopes {
		enter(i)
	}
	plan.Cells = held
	for _, v := range order {
		parts := at[v]
		at[v] = nil
		parts = slices.DeleteFunc(parts, func(i int) bool { return used[i] })
		if scope := plan.cost(parts, held); plan.Cost < hopeless {
			for _, i := range parts {
				used[i] = true
				held -= p.size(plan.scopes[i])
			}
			plan.steps = append(plan.steps, step{parts, v})
			plan.scopes = append(plan.scopes, without(scope, v))
			used = append(used, false)
			enter(len(used) - 1)
		} else {
			return plan
		}
	}
	var rest []int
	for i := range used {
		if !used[i] {
			rest = append(rest, i)
		}
	}
	plan.steps = append(plan.steps, step{rest, Free})
	plan.cost(rest, held)
	return plan
}

// cost puts parts in the order in which they are multiplied, the smallest first,
// and counts that. It gives the scope of the product.
func (plan *Plan) cost(parts []int, held float64) (scope []int) {
	p := plan.problem
	slices.SortStableFunc(parts, func(a, b int) int {
		switch x, y := p.size(plan.scopes[a]), p.size(plan.scopes[b]); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for k, i := range parts {
		if k == 0 {
			scope = plan.scopes[i]
		} else {
			scope = union(scope, plan.scopes[i])
		}
		size := p.size(scope)
		plan.Cost += size
		if k > 0 {
			plan.Cells = max(plan.Cells, held+2*size)
		}
		if plan.Cost >= hopeless {
			plan.Cells = math.Inf(1)
			return scope
		}
	}
	return scope
}

func (p *Problem) size(scope []int) float64 {
	size := 1.0
	for _, v := range scope {
		size *= float64(p.Cards[v])
	}
	return size
}

func union(a, b []int) []int {
	out := make([]int, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func without(scope []int, v int) []int {
	return slices.DeleteFunc(slices.Clone(scope), func(w int) bool { return w == v })
}

// Run works the sum out.
func (plan *Plan) Run() Result {
	p := plan.problem
	tables := make([]table, len(plan.scopes))
	exp := 0
	for i, f := range p.Factors {
		tables[i] = p.slice(f, plan.scopes[i])
		exp += rescale(tables[i].data)
	}
	for k, s := range plan.steps {
		acc := table{nil, one}
		for j, i := range s.parts {
			scope := union(acc.scope, tables[i].scope)
			sum := Free
			if j == len(s.parts)-1 {
				if sum = s.v; sum == Free {
					scope = p.kept()
				} else {
					scope = without(scope, sum)
				}
			}
			acc = p.multiply(acc, tables[i], scope, sum)
			exp += rescale(acc.data)
			tables[i].data = nil
		}
		if s.v == Free {
			if len(s.parts) == 0 {
				return Result{[]float64{1}, exp}
			}
			return Result{acc.data, exp}
		}
		tables[len(p.Factors)+k] = acc
	}
	panic("elim: a plan without its last step")
}

// one is the empty product.
var one = []float64{1}

// table is a factor in work: scope in the order of its data, last fastest.
type table struct {
	scope []int
	data  []float64
}

// kept lists the variables of the result that have more than one state.
func (p *Problem) kept() []int {
	return slices.DeleteFunc(slices.Clone(p.Keep), func(v int) bool { return p.Cards[v] == 1 })
}

// axis is one variable of a loop: its states, and how far a step of it moves in
// each of two tables.
type axis struct{ n, a, b int }

// stride is how far apart neighbouring states of v stand in a table over scope, 0
// if v is not in it.
func (p *Problem) stride(scope []int, v int) int {
	s := 1
	for i := len(scope) - 1; i >= 0; i-- {
		if scope[i] == v {
			return s
		}
		s *= p.Cards[scope[i]]
	}
	return 0
}

// slice is the factor as a table over scope, its free variables.
func (p *Problem) slice(f Factor, scope []int) table {
	base := 0
	for i, v := range f.Vars {
		if f.At != nil && f.At[i] != Free {
			base += f.At[i] * p.stride(f.Vars, v)
		}
	}
	out := make([]float64, int(p.size(scope)))
	axes := make([]axis, len(scope))
	for i, v := range scope {
		axes[i] = axis{n: p.Cards[v], a: p.stride(f.Vars, v)}
	}
	if len(axes) == 0 {
		out[0] = f.Table[base]
		return table{scope, out}
	}
	inner := axes[len(axes)-1]
	walk(axes[:len(axes)-1], func(k, a, _ int) {
		a += base
		for j := range inner.n {
			out[k*inner.n+j] = f.Table[a]
			a += inner.a
		}
	})
	return table{scope, out}
}

// multiply is the product of two tables over scope, with v summed out unless it is
// Free.
func (p *Problem) multiply(a, b table, scope []int, v int) table {
	var inner axis
	outer := scope
	switch {
	case v != Free:
		inner = axis{p.Cards[v], p.stride(a.scope, v), p.stride(b.scope, v)}
	case len(scope) == 0:
		inner = axis{n: 1}
	default:
		v := scope[len(scope)-1]
		inner = axis{p.Cards[v], p.stride(a.scope, v), p.stride(b.scope, v)}
		outer = scope[:len(scope)-1]
	}
	axes := make([]axis, len(outer))
	for i, w := range outer {
		axes[i] = axis{p.Cards[w], p.stride(a.scope, w), p.stride(b.scope, w)}
	}
	out := make([]float64, int(p.size(scope)))
	if v != Free {
		walk(axes, func(k, i, j int) {
			sum := 0.0
			for range inner.n {
				sum += float64(a.data[i] * b.data[j])
				i, j = i+inner.a, j+inner.b
			}
			out[k] = sum
		})
	} else {
		walk(axes, func(k, i, j int) {
			k *= inner.n
			for s := range inner.n {
				out[k+s] = a.data[i] * b.data[j]
				i, j = i+inner.a, j+inner.b
			}
		})
	}
	return table{scope, out}
}

// walk visits every combination of the axes' states, the last fastest: the k-th is
// at a and b in the two tables.
func walk(axes []axis, visit func(k, a, b int)) {
	at := make([]int, len(axes))
	for k, a, b := 0, 0, 0; ; k++ {
		visit(k, a, b)
		i := len(axes) - 1
		for ; i >= 0; i-- {
			x := axes[i]
			at[i]++
			a, b = a+x.a, b+x.b
			if at[i] < x.n {
				break
			}
			at[i] = 0
			a, b = a-x.n*x.a, b-x.n*x.b
		}
		if i < 0 {
			return
		}
	}
}

// rescale moves numbers that have become small away from 0, by a power of two, and
// says by which: many small factors multiply to what a float64 cannot hold.
func rescale(data []float64) (exp int) {
	most := 0.0
	for _, x := range data {
		most = max(most, x)
	}
	if most == 0 || most >= 0x1p-64 {
		return 0
	}
	_, exp = math.Frexp(most)
	for i, x := range data {
		data[i] = math.Ldexp(x, -exp)
	}
	return exp
}
