// Package classes is the equivalence classes of causal graphs: what data, and
// interventions of known target, tell of an acyclic directed graph (DAG) whose
// variables are all observed.
//
// Nodes are numbers from 0.
package classes

import (
	"slices"

	"assay/bench/causal"
)

// Edge goes from its first node to its second; where it has no direction the smaller
// node comes first.
type Edge [2]int

// mark is what a PDAG has between two nodes, as seen from the first.
type mark uint8

const (
	none mark = iota
	undirected
	out
	in
)

// PDAG is a graph with directed and undirected edges. It stands for the DAGs that are
// its extensions: those with the same skeleton that keep its arrows and add no
// v-structure.
type PDAG struct {
	n     int
	marks []mark
}

// NewPDAG makes a PDAG of n nodes. Its errors are a *causal.Fault with places in
// {"directed": [], "undirected": []}: two nodes may have one edge between them.
func NewPDAG(n int, directed, undirectedEdges []Edge) (*PDAG, error) {
	p := &PDAG{n, make([]mark, n*n)}
	for _, list := range []struct {
		field string
		edges []Edge
		there mark
		back  mark
	}{{"directed", directed, out, in}, {"undirected", undirectedEdges, undirected, undirected}} {
		for i, e := range list.edges {
			for end, v := range e {
				if v < 0 || v >= n {
					return nil, causal.Badf(causal.At(list.field, i, end), "there is no such node")
				}
			}
			a, b := e[0], e[1]
			if a == b {
				return nil, causal.Badf(causal.At(list.field, i), "an edge joins two nodes")
			}
			if m := p.at(a, b); m != none && m != list.there {
				return nil, causal.Badf(causal.At(list.field, i), "the two nodes have another edge between them")
			}
			p.marks[a*n+b], p.marks[b*n+a] = list.there, list.back
		}
	}
	return p, nil
}

func (p *PDAG) at(a, b int) mark       { return p.marks[a*p.n+b] }
func (p *PDAG) adjacent(a, b int) bool { return p.at(a, b) != none }

func (p *PDAG) clone() *PDAG { return &PDAG{p.n, slices.Clone(p.marks)} }

func (p *PDAG) orient(a, b int) {
	p.marks[a*p.n+b], p.marks[b*p.n+a] = out, in
}

// edges lists those with a mark.
func (p *PDAG) edges(m mark) []Edge {
	list := []Edge{}
	for a := range p.n {
		for b := range p.n {
			if p.at(a, b) == m && (m != undirected || a < b) {
				list = append(list, Edge{a, b})
			}
		}
	}
	return list
}

// Directed lists the arrows, Undirected the other edges.
func (p *PDAG) Directed() []Edge { return p.edges(out) }

// Undirected lists the edges without a direction.
func (p *PDAG) Undirected() []Edge { return p.edges(undirected) }

// close applies Meek's four rules until none applies: what they orient, every
// extension has so.
func (p *PDAG) close() {
	for again := true; again; {
		again = false
		for a := range p.n {
			for b := range p.n {
				if p.at(a, b) == undirected && p.forced(a, b) {
					p.orient(a, b)
					again = true
				}
			}
		}
	}
}

// forced says whether one of Meek's rules orients a - b towards b.
func (p *PDAG) forced(a, b int) bool {
	for c := range p.n {
		if c == a || c == b || !p.adjacent(a, c) {
			continue
		}
		switch {
		case p.at(c, a) == out && !p.adjacent(c, b): // 1: else there is a new v-structure at a
			return true
		case p.at(c, b) != out:
			continue
		case p.at(a, c) == out: // 2: else a cycle
			return true
		}
		for d := range p.n { // a - d, and c -> b
			if d == b || d == c || p.at(a, d) != undirected {
				continue
			}
			// 3: a - c -> b <- d with c and d not adjacent: else a new v-structure at a.
			if p.at(a, c) == undirected && p.at(d, b) == out && !p.adjacent(c, d) {
				return true
			}
			// 4: d -> c -> b with d and b not adjacent: else a cycle or a v-structure.
			if p.at(d, c) == out && !p.adjacent(d, b) {
				return true
			}
		}
	}
	return false
}

// vStructures are the a -> c <- b of nodes a < b that are not adjacent, as a, c, b.
func (p *PDAG) vStructures() [][3]int {
	list := [][3]int{}
	for a := range p.n {
		for b := a + 1; b < p.n; b++ {
			for c := range p.n {
				if p.at(a, c) == out && p.at(b, c) == out && !p.adjacent(a, b) {
					list = append(list, [3]int{a, c, b})
				}
			}
		}
	}
	return list
}

// acyclic says whether the arrows go round nowhere.
func (p *PDAG) acyclic() bool {
	_, _, ok := p.order()
	return ok
}

// order lists the nodes, each after those with an arrow to it.
func (p *PDAG) order() (order []int, on int, ok bool) {
	return causal.TopologicalOrder(p.n, func(v int) (parents []int) {
		for u := range p.n {
			if p.at(u, v) == out {
				parents = append(parents, u)
			}
		}
		return parents
	})
}

// leads says whether arrows lead from a to b.
func (p *PDAG) leads(a, b int) bool {
	seen, stack := make([]bool, p.n), []int{a}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if v == b {
			return true
		}
		for u := range p.n {
			if p.at(v, u) == out && !seen[u] {
				seen[u] = true
				stack = append(stack, u)
			}
		}
	}
	return false
}

// NewDAG makes a DAG. Its errors are a *causal.Fault with places in {field: []}.
func NewDAG(n int, field string, arrows []Edge) (*PDAG, error) {
	p, err := NewPDAG(n, arrows, nil)
	if err != nil {
		fault := err.(*causal.Fault)
		fault.At[0] = field
		return nil, fault
	}
	if _, on, ok := p.order(); !ok {
		closes := func(e Edge) bool { return e[1] == on && p.leads(on, e[0]) }
		return nil, &causal.Fault{Kind: causal.Cyclic, At: causal.At(field, slices.IndexFunc(arrows, closes)), Message: "the arrow closes a cycle"}
	}
	return p, nil
}

// Essential is the graph of the DAGs that cannot be told from dag by observation and
// by interventions on the targets: the completed PDAG where there are none. A target
// orients the edges between it and the rest.
func Essential(dag *PDAG, targets [][]int) *PDAG {
	p := dag.clone()
	fixed := make([]bool, len(p.marks))
	for _, v := range dag.vStructures() {
		fixed[v[0]*p.n+v[1]], fixed[v[2]*p.n+v[1]] = true, true
	}
	for _, target := range targets {
		for _, v := range target {
			for u := range p.n {
				if !slices.Contains(target, u) {
					fixed[v*p.n+u], fixed[u*p.n+v] = true, true
				}
			}
		}
	}
	for _, e := range dag.Directed() {
		if !fixed[e[0]*p.n+e[1]] {
			p.marks[e[0]*p.n+e[1]], p.marks[e[1]*p.n+e[0]] = undirected, undirected
		}
	}
	p.close()
	return p
}
