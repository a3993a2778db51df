package graph

import (
	"math"
	"math/bits"
	"slices"
)

// Family is the sets that a criterion takes for a treatment and an outcome. It is for
// one goroutine at a time.
type Family struct {
	g       *Graph
	allowed Set            // whatever else a set may hold makes it invalid
	valid   func(Set) bool // of sets of allowed nodes
}

// Valid says whether the criterion takes s.
func (f *Family) Valid(s Set) bool { return s.In(f.allowed) && f.valid(s) }

// Cost is what List costs, in steps: one walk over the graph a set.
func (f *Family) Cost() float64 {
	return math.Ldexp(float64(f.g.Size()), f.allowed.Len())
}

// List counts the valid sets and lists those without a valid proper subset: small
// ones first, else in node order.
func (f *Family) List() (minimal []Set, count int) {
	for s := range f.g.subsets(f.allowed) {
		if !f.valid(s) {
			continue
		}
		count++
		if !slices.ContainsFunc(minimal, func(m Set) bool { return m.In(s) }) {
			minimal = append(minimal, s.Clone())
		}
	}
	return minimal, count
}

// subsets yields every subset of s, small ones first, else in node order: {0,1},
// {0,2}, {1,2}. A yielded set is the next one's memory. s has at most 62 members.
func (g *Graph) subsets(s Set) func(yield func(Set) bool) {
	members := slices.Collect(s.All())
	slices.Reverse(members) // so that masks of a size in falling order are in node order
	return func(yield func(Set) bool) {
		out := g.NewSet()
		for size := range len(members) + 1 {
			first := uint64(1)<<size - 1
			last := first << (len(members) - size)
			for mask := last; ; mask = before(mask) {
				clear(out)
				for left := mask; left != 0; left &= left - 1 {
					out.Add(members[bits.TrailingZeros64(left)])
				}
				if !yield(out) {
					return
				}
				if mask == first {
					break
				}
			}
		}
	}
}

// before is the next smaller number with as many bits set (Gosper's step, on the
// complement).
func before(mask uint64) uint64 {
	x := ^mask
	low := x & -x
	ripple := x + low
	return ^(ripple | (x^ripple)>>2/low)
}

// properCausal are the nodes, outside x, of the directed paths from x to y that
// touch x only at their start.
func (g *Graph) properCausal(x, y Set) Set {
	from := closure(g.childrenOf(x).Minus(x), g.All().Minus(x), g.children)
	to := g.AncestorsIn(y.Minus(x), g.All().Minus(x))
	return from.And(to)
}

func (g *Graph) childrenOf(s Set) Set {
	out := g.NewSet()
	for v := range s.All() {
		for _, c := range g.children[v] {
			out.Add(c)
		}
	}
	return out
}

// BackDoor is Pearl's back-door criterion: no descendant of x, and every path from
// x to y that starts with an arrowhead at x is blocked. With several treatments
// these are the paths that touch x only at their start. No set holds a latent node.
func (g *Graph) BackDoor(x, y, latent Set) *Family {
	w := g.newWalk()
	return &Family{
		g:       g,
		allowed: g.All().Minus(latent).Minus(y).Minus(g.Descendants(x)),
		valid:   func(s Set) bool { return w.separated(x, y, s, x) },
	}
}

// Adjustment is the complete adjustment criterion (Shpitser, VanderWeele and Robins
// 2010; van der Zander and others 2014): a set is valid if and only if adjusting for
// it gives the effect of x on y in every model of the graph.
func (g *Graph) Adjustment(x, y, latent Set) *Family {
	causal := g.properCausal(x, y)
	proper, none := g.without(func(from, to int) bool { return x.Has(from) && causal.Has(to) }).newWalk(), g.NewSet()
	return &Family{
		g:       g,
		allowed: g.All().Minus(latent).Minus(x).Minus(y).Minus(g.Descendants(causal)),
		valid:   func(s Set) bool { return proper.separated(x, y, s, none) },
	}
}

// FrontDoor is Pearl's front-door criterion: the set cuts every directed path from x
// to y, no back-door path from x to it is open, and x blocks every back-door path
// from it to y.
func (g *Graph) FrontDoor(x, y, latent Set) *Family {
	w, none := g.newWalk(), g.NewSet()
	return &Family{
		g:       g,
		allowed: g.All().Minus(latent).Minus(x).Minus(y),
		valid: func(s Set) bool {
			reached := closure(x, g.All().Minus(s), g.children)
			return !reached.Meets(y) && w.separated(x, s, none, x) && w.separated(s, y, x, s)
		},
	}
}

// Instrument is a node that moves the treatment, and the outcome only through it,
// once Given is known.
type Instrument struct {
	Node  int
	Given Set
}

// InstrumentsCost is what Instruments costs, in steps.
func (g *Graph) InstrumentsCost(x, y int, latent Set) float64 {
	k := g.instrumentNodes(x, y, latent).Len()
	return float64(k) * math.Ldexp(float64(g.Size()), max(0, k-1))
}

func (g *Graph) instrumentNodes(x, y int, latent Set) Set {
	return g.All().Minus(latent).Minus(g.Descendants(g.NewSet(x, y)))
}

// Instruments are the nodes that are instruments for the effect of x on y given some
// set, each with the smallest such set, the first of these in node order. Given the
// set the node is separated from y in the graph without the first edges of the
// directed paths from x to y, and is not separated from x. Neither node nor set is
// latent or a descendant of x or y.
func (g *Graph) Instruments(x, y int, latent Set) []Instrument {
	nodes, treatment, outcome := g.instrumentNodes(x, y, latent), g.NewSet(x), g.NewSet(y)
	causes := g.Ancestors(outcome)
	cut := g.without(func(from, to int) bool { return from == x && causes.Has(to) }).newWalk()
	whole, none := g.newWalk(), g.NewSet()
	var out []Instrument
	for v := range nodes.All() {
		i := g.NewSet(v)
		for given := range g.subsets(nodes.Minus(i)) {
			if cut.separated(i, outcome, given, none) && !whole.separated(i, treatment, given, none) {
				out = append(out, Instrument{v, given.Clone()})
				break
			}
		}
	}
	return out
}
