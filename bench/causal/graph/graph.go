// Package graph is the graphs of causal models: acyclic, with directed edges, and
// bidirected ones for causes that nobody observes. It answers what the graph alone
// can: separation, and the sets that identify an effect by adjustment, by the front
// door or by an instrument.
//
// Nodes are numbers from 0, in the order in which they were listed.
package graph

import (
	"slices"

	"assay/bench/causal"
)

// Graph is an acyclic directed mixed graph (ADMG). It does not change once built.
type Graph struct {
	names    []string
	index    map[string]int
	parents  [][]int
	children [][]int
	siblings [][]int // over bidirected edges
	order    []int   // topological
}

// New builds a graph. Edges that are listed twice count once. Its errors are a
// *causal.Fault, with places in {"nodes": [], "directed": [], "bidirected": []}.
func New(names []string, directed, bidirected [][2]string) (*Graph, error) {
	index := make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := index[name]; twice {
			return nil, causal.Badf(causal.At("nodes", i), "there are two nodes of this name")
		}
		index[name] = i
	}
	ends := func(field string, edges [][2]string) ([][2]int, error) {
		out := make([][2]int, len(edges))
		for i, e := range edges {
			for end, name := range e {
				v, ok := index[name]
				if !ok {
					return nil, causal.Badf(causal.At(field, i, end), "there is no node %q", name)
				}
				out[i][end] = v
			}
		}
		return out, nil
	}
	arrows, err := ends("directed", directed)
	if err != nil {
		return nil, err
	}
	arcs, err := ends("bidirected", bidirected)
	if err != nil {
		return nil, err
	}
	for i, e := range arcs {
		if e[0] == e[1] {
			return nil, causal.Badf(causal.At("bidirected", i), "a node has no bidirected edge to itself")
		}
	}
	return build(names, arrows, arcs)
}

func build(names []string, directed, bidirected [][2]int) (*Graph, error) {
	n := len(names)
	g := &Graph{names: names, index: make(map[string]int, n), parents: make([][]int, n), children: make([][]int, n), siblings: make([][]int, n)}
	for i, name := range names {
		g.index[name] = i
	}
	for _, e := range directed {
		g.children[e[0]] = append(g.children[e[0]], e[1])
		g.parents[e[1]] = append(g.parents[e[1]], e[0])
	}
	for _, e := range bidirected {
		g.siblings[e[0]] = append(g.siblings[e[0]], e[1])
		g.siblings[e[1]] = append(g.siblings[e[1]], e[0])
	}
	for _, lists := range [][][]int{g.parents, g.children, g.siblings} {
		for i := range lists {
			slices.Sort(lists[i])
			lists[i] = slices.Compact(lists[i])
		}
	}
	order, on, ok := causal.TopologicalOrder(n, g.Parents)
	if !ok {
		below := g.Descendants(g.NewSet(on))
		i := slices.IndexFunc(directed, func(e [2]int) bool { return e[1] == on && below.Has(e[0]) })
		return nil, &causal.Fault{Kind: causal.Cyclic, At: causal.At("directed", i), Message: "the edge closes a cycle"}
	}
	g.order = order
	return g, nil
}

// Len counts the nodes.
func (g *Graph) Len() int { return len(g.names) }

// Size counts nodes and edges: what one walk over the graph costs.
func (g *Graph) Size() int {
	n := g.Len()
	for v := range g.names {
		n += len(g.children[v]) + len(g.siblings[v])
	}
	return n
}

// Name is the name of a node.
func (g *Graph) Name(v int) string { return g.names[v] }

// Node finds a node by its name.
func (g *Graph) Node(name string) (v int, ok bool) {
	v, ok = g.index[name]
	return v, ok
}

// Names are the names of a set's members, in node order.
func (g *Graph) Names(s Set) []string {
	out := []string{}
	for v := range s.All() {
		out = append(out, g.names[v])
	}
	return out
}

// Order lists the nodes, each after its parents. Do not change it.
func (g *Graph) Order() []int { return g.order }

// Parents of v, in node order; Children and Siblings (over bidirected edges)
// likewise. Do not change them.
func (g *Graph) Parents(v int) []int { return g.parents[v] }

// Children of v.
func (g *Graph) Children(v int) []int { return g.children[v] }

// Siblings of v.
func (g *Graph) Siblings(v int) []int { return g.siblings[v] }

// NewSet is a set of the graph's nodes.
func (g *Graph) NewSet(members ...int) Set {
	s := newSet(g.Len())
	for _, v := range members {
		s.Add(v)
	}
	return s
}

// All is the set of all nodes.
func (g *Graph) All() Set {
	s := newSet(g.Len())
	for v := range g.names {
		s.Add(v)
	}
	return s
}

// closure is s and what next leads to from it, within the set in.
func closure(s, in Set, next [][]int) Set {
	out := s.And(in)
	stack := slices.Collect(out.All())
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range next[v] {
			if in.Has(u) && !out.Has(u) {
				out.Add(u)
				stack = append(stack, u)
			}
		}
	}
	return out
}

// Ancestors are s and its ancestors.
func (g *Graph) Ancestors(s Set) Set { return closure(s, g.All(), g.parents) }

// AncestorsIn are s and its ancestors in the subgraph over the nodes of in.
func (g *Graph) AncestorsIn(s, in Set) Set { return closure(s, in, g.parents) }

// Descendants are s and its descendants.
func (g *Graph) Descendants(s Set) Set { return closure(s, g.All(), g.children) }

// ParentsOf are the parents of the members of s, members or not.
func (g *Graph) ParentsOf(s Set) Set {
	out := newSet(g.Len())
	for v := range s.All() {
		for _, p := range g.parents[v] {
			out.Add(p)
		}
	}
	return out
}

// District is the c-component of v in the subgraph over in: what bidirected edges
// join it to.
func (g *Graph) District(v int, in Set) Set { return closure(g.NewSet(v), in, g.siblings) }

// Districts are the c-components of the subgraph over in, by their first node.
func (g *Graph) Districts(in Set) []Set {
	var out []Set
	for left := in.Clone(); !left.Empty(); {
		for v := range left.All() {
			d := g.District(v, in)
			out = append(out, d)
			left = left.Minus(d)
			break
		}
	}
	return out
}

// without is the graph less the directed edges that cut names.
func (g *Graph) without(cut func(from, to int) bool) *Graph {
	var directed, bidirected [][2]int
	for v := range g.names {
		for _, c := range g.children[v] {
			if !cut(v, c) {
				directed = append(directed, [2]int{v, c})
			}
		}
		for _, s := range g.siblings[v] {
			if v < s {
				bidirected = append(bidirected, [2]int{v, s})
			}
		}
	}
	return must(build(g.names, directed, bidirected))
}

// WithoutOut is the graph less the directed edges out of s.
func (g *Graph) WithoutOut(s Set) *Graph {
	return g.without(func(from, _ int) bool { return s.Has(from) })
}

// WithoutIn is the graph less all edges into s, bidirected ones too: that of an
// intervention on s.
func (g *Graph) WithoutIn(s Set) *Graph {
	var directed, bidirected [][2]int
	for v := range g.names {
		for _, c := range g.children[v] {
			if !s.Has(c) {
				directed = append(directed, [2]int{v, c})
			}
		}
		for _, o := range g.siblings[v] {
			if v < o && !s.Has(v) && !s.Has(o) {
				bidirected = append(bidirected, [2]int{v, o})
			}
		}
	}
	return must(build(g.names, directed, bidirected))
}

// Project is the latent projection on keep: a directed edge for each directed path
// whose inner nodes are not kept, a bidirected one for each such path between two
// nodes that has an arrowhead at both ends and no collider. Nodes stay in order.
func (g *Graph) Project(keep Set) *Graph {
	renamed := make([]int, g.Len())
	var names []string
	for v := range keep.All() {
		renamed[v] = len(names)
		names = append(names, g.names[v])
	}
	// reach is the kept nodes that v leads to through nodes that are not kept.
	reach := make([]Set, g.Len())
	for _, v := range slices.Backward(g.order) {
		reach[v] = newSet(g.Len())
		for _, c := range g.children[v] {
			if keep.Has(c) {
				reach[v].Add(c)
			} else {
				reach[v] = reach[v].Or(reach[c])
			}
		}
	}
	head := func(v int) Set { // where an arrowhead at v ends among the kept
		if keep.Has(v) {
			return g.NewSet(v)
		}
		return reach[v]
	}
	var directed, bidirected [][2]int
	join := func(a, b Set) {
		for x := range a.All() {
			for y := range b.All() {
				if x != y {
					bidirected = append(bidirected, [2]int{renamed[x], renamed[y]})
				}
			}
		}
	}
	for v := range g.names {
		if keep.Has(v) {
			for c := range reach[v].All() {
				directed = append(directed, [2]int{renamed[v], renamed[c]})
			}
		} else {
			join(reach[v], reach[v])
		}
		for _, s := range g.siblings[v] {
			if v < s {
				join(head(v), head(s))
			}
		}
	}
	return must(build(names, directed, bidirected))
}

// must is for graphs that follow from one: they have no cycle either.
func must(g *Graph, err error) *Graph {
	if err != nil {
		panic(err)
	}
	return g
}
