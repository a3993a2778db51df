package classes

import (
	"iter"
	"math"
	"slices"
)

// Extensions yields the extensions of p, each as its arrows in order. It yields what
// it then changes no more.
func (p *PDAG) Extensions() iter.Seq[[]Edge] {
	return func(yield func([]Edge) bool) {
		colliders := p.vStructures()
		p = p.clone()
		p.close()
		p.extend(func(q *PDAG) bool {
			return !slices.Equal(q.vStructures(), colliders) || yield(q.Directed())
		})
	}
}

// extend calls yield with every acyclic orientation that Meek's rules leave, until it
// returns false.
func (p *PDAG) extend(yield func(*PDAG) bool) bool {
	if !p.acyclic() {
		return true
	}
	for a := range p.n {
		for b := a + 1; b < p.n; b++ {
			if p.at(a, b) != undirected {
				continue
			}
			for _, e := range []Edge{{a, b}, {b, a}} {
				q := p.clone()
				q.orient(e[0], e[1])
				q.close()
				if !q.extend(yield) {
					return false
				}
			}
			return true
		}
	}
	return yield(p)
}

// ExtendCost is what it costs at most to list the extensions, in steps.
func (p *PDAG) ExtendCost() float64 {
	n, edges := float64(p.n), float64(len(p.Undirected()))
	return (math.Min(math.Exp2(edges), math.Gamma(n+1)) + 1) * (edges + 1) * n * n
}
