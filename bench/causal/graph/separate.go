package graph

// Separated says whether given m-separates x from y: d-separation where there are
// no bidirected edges. A node of x or y in given is separated from everything. The
// time is linear in the size of the graph.
func (g *Graph) Separated(x, y, given Set) bool {
	return !g.connected(x, given).Meets(y.Minus(given))
}

// step is a visit of a walk: at a node, over an edge with an arrowhead there or not.
type step struct {
	node int
	into bool
}

// connected are the nodes outside given to which a path from x is open.
func (g *Graph) connected(x, given Set) Set {
	opens := g.Ancestors(given) // colliders that are open
	seen := [2]Set{newSet(g.Len()), newSet(g.Len())}
	var stack []step
	visit := func(v int, into bool) {
		which := 0
		if into {
			which = 1
		}
		if !seen[which].Has(v) {
			seen[which].Add(v)
			stack = append(stack, step{v, into})
		}
	}
	for v := range x.Minus(given).All() {
		visit(v, false)
	}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !given.Has(s.node) {
			for _, c := range g.children[s.node] {
				visit(c, true)
			}
		}
		// Towards an arrowhead at this node: it is a collider if one led here.
		if s.into && !opens.Has(s.node) || !s.into && given.Has(s.node) {
			continue
		}
		for _, p := range g.parents[s.node] {
			visit(p, false)
		}
		for _, o := range g.siblings[s.node] {
			visit(o, true)
		}
	}
	return seen[0].Or(seen[1]).Minus(given)
}
