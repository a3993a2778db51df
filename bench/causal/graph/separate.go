package graph

// Separated says whether given m-separates x from y: d-separation where there are
// no bidirected edges. A node of x or y in given is separated from everything. The
// time is linear in the size of the graph.
func (g *Graph) Separated(x, y, given Set) bool {
	return g.newWalk().separated(x, y, given, g.NewSet())
}

// walk looks for open paths, again and again in the same memory.
type walk struct {
	g     *Graph
	opens Set    // colliders that are open: given and its ancestors
	seen  [2]Set // nodes that were reached, without and with an arrowhead there
	stack []int  // visits to make: 2·node, + 1 with an arrowhead
}

func (g *Graph) newWalk() *walk {
	return &walk{g, g.NewSet(), [2]Set{g.NewSet(), g.NewSet()}, nil}
}

func (w *walk) visit(v, head int) {
	if !w.seen[head].Has(v) {
		w.seen[head].Add(v)
		w.stack = append(w.stack, 2*v+head)
	}
}

func (w *walk) next() (v, head int) {
	top := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	return top / 2, top % 2
}

// separated is Separated in the graph without the directed edges out of mute.
func (w *walk) separated(x, y, given, mute Set) bool {
	copy(w.opens, given)
	for v := range given.All() {
		w.stack = append(w.stack, 2*v)
	}
	for len(w.stack) > 0 {
		v, _ := w.next()
		for _, p := range w.g.parents[v] {
			if !mute.Has(p) && !w.opens.Has(p) {
				w.opens.Add(p)
				w.stack = append(w.stack, 2*p)
			}
		}
	}
	clear(w.seen[0])
	clear(w.seen[1])
	for v := range x.All() {
		if !given.Has(v) {
			w.visit(v, 0)
		}
	}
	for len(w.stack) > 0 {
		v, head := w.next()
		if !given.Has(v) {
			if y.Has(v) {
				w.stack = w.stack[:0]
				return false
			}
			if !mute.Has(v) {
				for _, c := range w.g.children[v] {
					w.visit(c, 1)
				}
			}
		}
		// Towards an arrowhead at v: v is a collider if one led here.
		if head == 1 && !w.opens.Has(v) || head == 0 && given.Has(v) {
			continue
		}
		for _, p := range w.g.parents[v] {
			if !mute.Has(p) {
				w.visit(p, 0)
			}
		}
		for _, s := range w.g.siblings[v] {
			w.visit(s, 1)
		}
	}
	return true
}
