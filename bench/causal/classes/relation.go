package classes

import (
	"math/big"
	"slices"
)

// Independence says that A and B are independent given a set.
type Independence struct {
	A, B  int
	Given []int
}

// FromIndependencies is the graph of the class whose independencies are those listed,
// all of them, under faithfulness: two nodes are joined unless some set separates
// them; an unshielded middle that no listed set holds is a collider; Meek's rules
// orient the rest. VStructures are the colliders as end, middle, end. size counts the
// DAGs of the class: 0 if no DAG has these independencies.
func FromIndependencies(n int, list []Independence) (p *PDAG, vStructures [][3]int, size *big.Int) {
	p = &PDAG{n, make([]mark, n*n)}
	separated := make([]bool, n*n)
	held := make([]bool, n*n*n) // c is in some set that separates a and b
	for _, i := range list {
		for _, ab := range [][2]int{{i.A, i.B}, {i.B, i.A}} {
			at := ab[0]*n + ab[1]
			separated[at] = true
			for _, c := range i.Given {
				held[at*n+c] = true
			}
		}
	}
	for a := range n {
		for b := range n {
			if a != b && !separated[a*n+b] {
				p.marks[a*n+b] = undirected
			}
		}
	}
	vStructures = [][3]int{}
	for a := range n {
		for b := a + 1; b < n; b++ {
			for c := range n {
				if separated[a*n+b] && c != a && c != b && !separated[a*n+c] && !separated[b*n+c] && !held[(a*n+b)*n+c] {
					vStructures = append(vStructures, [3]int{a, c, b})
				}
			}
		}
	}
	for _, v := range vStructures {
		p.orient(v[0], v[1])
		p.orient(v[2], v[1])
	}
	p.close()
	size = new(big.Int)
	if slices.Equal(p.vStructures(), vStructures) && p.Extendable() {
		size = p.Size()
	}
	return p, vStructures, size
}

// Extendable says whether there is an extension.
func (p *PDAG) Extendable() bool {
	for range p.Extensions() {
		return true
	}
	return false
}

// Relation is how two variables stand to each other in a DAG.
type Relation string

// The relations of x and y. Paths are directed.
const (
	DirectlyCauses   Relation = "directly_causes"     // x -> y
	CausesViaAnother Relation = "causes_via_another"  // a path from x to y through another node
	IndirectCause    Relation = "indirect_cause_only" // the same: a direct arrow beside it does not matter
	HasCommonCause   Relation = "has_common_cause"    // paths from a third node to x and to y that share only it
	HasCommonEffect  Relation = "has_common_effect"   // paths from x and from y to a third node that share only it
)

// Always says whether a relation holds in every extension of p.
func (p *PDAG) Always(r Relation, x, y int) bool {
	for arrows := range p.Extensions() {
		if !holds(p.n, arrows, r, x, y) {
			return false
		}
	}
	return true
}

func holds(n int, arrows []Edge, r Relation, x, y int) bool {
	next := make([][]int, n)
	for _, e := range arrows {
		from, to := e[0], e[1]
		if r == HasCommonEffect {
			from, to = to, from
		}
		next[from] = append(next[from], to)
	}
	switch r {
	case DirectlyCauses:
		return slices.Contains(next[x], y)
	case CausesViaAnother, IndirectCause:
		return slices.ContainsFunc(next[x], func(c int) bool { return c != y && reaches(next, c, y) })
	}
	for z := range n {
		if z != x && z != y && forks(next, z, x, y) {
			return true
		}
	}
	return false
}

func reaches(next [][]int, from, to int) bool {
	return from == to || slices.ContainsFunc(next[from], func(c int) bool { return reaches(next, c, to) })
}

// forks says whether there are paths from z to x and to y that share only z: two
// pebbles leave z, of which always the one moves on that the other cannot reach any
// more, so that neither steps where the other has been.
func forks(next [][]int, z, x, y int) bool {
	seen := map[[2]int]bool{}
	var move func(a, b int) bool
	move = func(a, b int) bool {
		if a == x && b == y {
			return true
		}
		if a == b || seen[[2]int{a, b}] {
			return false
		}
		seen[[2]int{a, b}] = true
		if a != x && (b == y || !reaches(next, b, a)) {
			return slices.ContainsFunc(next[a], func(c int) bool { return move(c, b) })
		}
		return slices.ContainsFunc(next[b], func(c int) bool { return move(a, c) })
	}
	return slices.ContainsFunc(next[z], func(a int) bool {
		return slices.ContainsFunc(next[z], func(b int) bool { return move(a, b) })
	})
}
