package world

import (
	"fmt"
	"math"
	"slices"

	"assay/bench/causal/graph"
	"assay/bench/causal/identify"
	"assay/bench/causal/scm"
)

// Style says where hidden causes stand in a graph that does not identify the effect of X
// on Y.
type Style string

// The styles.
const (
	// BowArc: X and a variable that listens to it share a hidden cause.
	BowArc Style = "bow_arc"
	// Hedge: no such arc, and the effect is not identifiable all the same.
	Hedge Style = "hedge"
	// Napkin: W → Z → X → Y, where W shares hidden causes with X and with Y, and edges
	// more. Without them the effect is identifiable.
	Napkin Style = "napkin"
)

// MinGap is how far apart the answers of a disputed world and its rival are at least.
const MinGap = 0.05

// Disputed draws a world of four or five observed variables, with hidden causes of two of
// them each, whose graph does not identify the effect of X on Y, and its Rival: graph and
// mechanisms are drawn until there is one, MinGap off. In settled just enough of the
// hidden causes, in a drawn order, are two apart, equally distributed, for the graph to
// identify the effect; at least one is still shared, and all else is the same.
func Disputed(seed Seed, style Style) (w, rival, settled *World) {
	for try := 0; ; try++ {
		draw := seed.Derive(fmt.Sprintf("disputed %d", try))
		s, split := mixedShape(draw, style)
		w = Draw(draw, s)
		rival = w.Rival()
		if math.Abs(rival.effect()-w.effect()) >= MinGap {
			return w, rival, w.apart(split)
		}
	}
}

func (w *World) effect() float64 {
	return w.Ask(scm.Intervention, scm.Query{Target: map[string]int{w.Y: 1}, Do: map[string]int{w.X: 1}})
}

// apart gives each of two variables a cause of its own in the place of a hidden one that
// they share.
func (w *World) apart(shared []string) *World {
	var nodes []scm.Node
	latent := slices.Clone(w.Latent)
	for _, v := range w.Nodes {
		if slices.Contains(shared, v.Name) {
			nodes = append(nodes, scm.Node{Name: v.Name + other, Tables: v.Tables})
			latent = append(latent, v.Name+other)
		}
		nodes = append(nodes, v)
	}
	for _, u := range shared {
		i := len(nodes) - 1 // the later of the two gets the other one
		for !slices.Contains(nodes[i].Parents, u) {
			i--
		}
		nodes[i].Parents = slices.Clone(nodes[i].Parents)
		nodes[i].Parents[slices.Index(nodes[i].Parents, u)] = u + other
	}
	return New(w.Motif+"_settled", nodes, latent...).about(w.X, w.Y, w.Z)
}

// other marks a hidden cause that another variable had a share in.
const other = "b"

// mixedShape draws a shape of a style, and which hidden causes, were they not shared,
// would let the effect be known.
func mixedShape(seed Seed, style Style) (s Shape, split []string) {
	r := seed.Derive("shape").Rand()
	for {
		var m mixed
		if style == Napkin {
			m = napkin(r)
		} else if m = anyMixed(r); m.y == 0 || m.bow() != (style == BowArc) {
			continue
		}
		if m.identifiable() {
			continue
		}
		s = m.shape(string(style))
		split = nil
		for ; !m.identifiable(); m.arcs = m.arcs[1:] {
			split = append(split, hiddenName(m.arcs[0]))
		}
		if len(m.arcs) > 0 {
			return s, split
		}
	}
}

// mixed is a graph under way: a node listens to nodes before it.
type mixed struct {
	n       int
	parents [][]int
	arcs    [][2]int
	x, y    int // both 0 where nothing listens to anything
}

// maxListens is how many observed variables one listens to at most.
const maxListens = 2

func anyMixed(r *Rand) mixed {
	m := mixed{n: r.Between(4, 5)}
	m.parents = make([][]int, m.n)
	for b := range m.n {
		for a := range b {
			if r.Chance(450) {
				m.listen(b, a)
			}
		}
	}
	m.confound(r, r.Between(2, 3))
	var pairs [][2]int
	g := m.graph()
	for y := range m.n {
		for x := range y {
			if g.Ancestors(g.NewSet(y)).Has(x) {
				pairs = append(pairs, [2]int{x, y})
			}
		}
	}
	if len(pairs) > 0 {
		pair := Pick(r, pairs)
		m.x, m.y = pair[0], pair[1]
	}
	return m
}

// napkin draws a napkin with up to two arrows and up to one arc more, and perhaps a
// variable.
func napkin(r *Rand) mixed {
	m := mixed{n: r.Between(4, 5), parents: [][]int{nil, {0}, {1}, {2}, nil}, arcs: [][2]int{{0, 2}, {0, 3}}, x: 2, y: 3}
	m.parents = m.parents[:m.n]
	if m.n == 5 { // listens to one of the four
		m.listen(4, r.Below(4))
	}
	for range r.Below(3) {
		b := r.Between(1, m.n-1)
		m.listen(b, r.Below(b))
	}
	m.confound(r, len(m.arcs)+r.Between(0, 1))
	return m
}

func (m *mixed) listen(to, from int) {
	if len(m.parents[to]) < maxListens && !slices.Contains(m.parents[to], from) {
		m.parents[to] = append(m.parents[to], from)
	}
}

// confound adds arcs until there are so many, and brings them in any order.
func (m *mixed) confound(r *Rand, total int) {
	for len(m.arcs) < total {
		b := r.Between(1, m.n-1)
		if arc := [2]int{r.Below(b), b}; !slices.Contains(m.arcs, arc) {
			m.arcs = append(m.arcs, arc)
		}
	}
	Shuffle(r, m.arcs)
}

func nodeName(v int) string        { return fmt.Sprintf("V%d", v) }
func hiddenName(arc [2]int) string { return fmt.Sprintf("U%d%d", arc[0], arc[1]) }

func (m *mixed) graph() *graph.Graph {
	var names []string
	var arrows, arcs [][2]string
	for v, parents := range m.parents {
		names = append(names, nodeName(v))
		for _, p := range parents {
			arrows = append(arrows, [2]string{nodeName(p), nodeName(v)})
		}
	}
	for _, a := range m.arcs {
		arcs = append(arcs, [2]string{nodeName(a[0]), nodeName(a[1])})
	}
	g, err := graph.New(names, arrows, arcs)
	if err != nil {
		panic(err) // arrows lead to later nodes
	}
	return g
}

func (m *mixed) identifiable() bool {
	g := m.graph()
	_, hedge, err := identify.Identify(g, identify.Query{Do: g.NewSet(m.x), Outcome: g.NewSet(m.y), Given: g.NewSet()})
	return hedge == nil && err == nil
}

// bow says whether x and a variable that listens to it share a hidden cause.
func (m *mixed) bow() bool {
	return slices.ContainsFunc(m.arcs, func(a [2]int) bool {
		return a[0] == m.x && slices.Contains(m.parents[a[1]], m.x)
	})
}

func (m *mixed) shape(motif string) Shape {
	s := Shape{Motif: motif, X: nodeName(m.x), Y: nodeName(m.y)}
	causes := make([][]string, m.n)
	for v, parents := range m.parents {
		for _, p := range parents {
			causes[v] = append(causes[v], nodeName(p))
		}
	}
	arcs := slices.Clone(m.arcs) // by their places, so that what is drawn first tells nothing
	slices.SortFunc(arcs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, a := range arcs {
		u := hiddenName(a)
		s.Slots = append(s.Slots, Slot{Name: u, Latent: true})
		for _, v := range a {
			causes[v] = append(causes[v], u)
		}
	}
	for v := range m.n {
		s.Slots = append(s.Slots, Slot{Name: nodeName(v), Parents: causes[v], Kind: ByRow})
	}
	return s
}
