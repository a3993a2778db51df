package identify

import (
	"fmt"
	"math"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/elim"
	"assay/bench/causal/graph"
	"assay/bench/causal/scm"
)

// Model is a structural causal model; Latent are its unobserved nodes, all of them
// roots.
type Model struct {
	Nodes  []scm.Node `json:"nodes"`
	Latent []string   `json:"latent"`
}

// Witness proves that a query is not identifiable: two models of the graph with the
// same positive P(V), and Values, the P(Outcome | do(Do), Given) of each, which
// differ by Gap.
type Witness struct {
	Models  [2]Model       `json:"models"`
	Do      map[string]int `json:"do"`
	Outcome map[string]int `json:"outcome"`
	Given   map[string]int `json:"given"`
	Values  [2]float64     `json:"values"`
	Gap     float64        `json:"gap"`
}

// A witness's noise is dyadic, so that equal probabilities come out equal to the bit.
const (
	hedgeNoise = 1.0 / 32 // of the one noisy node of the hedge
	wireNoise  = 1.0 / 32 // of each bit that is passed on
	idleNoise  = 1.0 / 32 // P(1) of a node with nothing to do
	fair       = 1.0 / 2
)

// wire is where a bit is read: of a node, or the one of a latent root.
type wire struct {
	node   int // if latent, the index of the root
	latent bool
	bit    int
}

// bit is one bit of a node's value: the parity of what it reads, turned round with
// probability noise.
type bit struct {
	reads []wire
	noise float64
}

// circuit is one of the two models under construction. A node's value is its bits,
// the first lowest. What a latent root feeds is what bidirected edges may join.
type circuit struct {
	g     *graph.Graph
	bits  [][]bit
	roots int
}

// add gives a node one more bit.
func (c *circuit) add(v int, noise float64, reads ...wire) wire {
	c.bits[v] = append(c.bits[v], bit{reads, noise})
	return wire{node: v, bit: len(c.bits[v]) - 1}
}

// feed makes a bit of w's read also other wires.
func (c *circuit) feed(w wire, reads ...wire) {
	b := &c.bits[w.node][w.bit]
	b.reads = append(slices.Clone(b.reads), reads...)
}

func (c *circuit) root() wire {
	c.roots++
	return wire{node: c.roots - 1, latent: true}
}

// Proof is a witness that is wired up, but not written out yet.
type Proof struct {
	g     *graph.Graph
	query Query
	pair  [2]*circuit
}

// Prove wires up two models for a query of which h is the hedge. In both the bits of
// the outer component are parities of their parents and of fair latent bits, one for
// each edge of a spanning tree; in the second model the inner component does not
// listen to the rest. P(V) does not show it: the parity of the inner component's
// sinks is fixed up to one noise in both. Under the intervention that stays so in
// the second model alone; in the first it becomes fair. From the sinks the bits flow
// to the outcome, or to a condition, where they meet a bit that the outcome shares
// over a path that the conditions open.
func (h *Hedge) Prove(g *graph.Graph, q Query) *Proof {
	h = h.smallest(g)
	p := &Proof{g: g, query: q}
	for i := range p.pair {
		p.pair[i] = &circuit{g: g, bits: make([][]bit, g.Len())}
	}
	h.route(g, p.pair, h.parities(g, p.pair))
	return p
}

// Cost is what Witness takes, in steps: the entries of the tables and those of P(V).
func (p *Proof) Cost() float64 {
	cost := 0.0
	for _, c := range p.pair {
		joint := 1.0
		for v, bits := range c.bits {
			if len(bits) == 0 {
				continue
			}
			joint *= float64(c.states(v))
			entries := math.Ldexp(1, len(bits))
			for _, parent := range c.parents(v) {
				entries *= float64(c.statesOf(parent))
			}
			cost += float64(entries * float64(len(bits)))
		}
		cost += float64(joint * math.Ldexp(1, c.roots))
	}
	return cost
}

// MinGap is how far apart the answers of a witness are at least.
const MinGap = 1e-3

// maxDifference is how far apart the two P(V) may come out. They are sums of dyadic
// numbers, and as a rule equal to the bit.
const maxDifference = 1e-12

// Witness writes the models out, and works out that they prove what they should. The
// error is causal.ErrTooLarge: P(V) has too many entries, or so many parts of the
// outcome take part that the answers differ by less than MinGap.
func (p *Proof) Witness() (*Witness, error) {
	w := &Witness{Do: zeros(p.g, p.query.Do), Outcome: zeros(p.g, p.query.Outcome), Given: zeros(p.g, p.query.Given)}
	var active []string // the others are by themselves, and the same in both models
	cells := 1
	for v, bits := range p.pair[0].bits {
		if len(bits) > 0 {
			active = append(active, p.g.Name(v))
			if cells *= p.pair[0].states(v); cells > elim.MaxCells {
				return nil, &causal.Fault{Kind: causal.TooLarge, Message: "the proof would be about too many variables"}
			}
		}
	}
	var joint [2][]float64
	for i, c := range p.pair {
		w.Models[i] = c.model()
		model, err := scm.New(w.Models[i].Nodes, w.Models[i].Latent)
		if err != nil {
			return nil, err
		}
		ask, err := model.Prepare(scm.Intervention, scm.Query{Target: w.Outcome, Given: w.Given, Do: w.Do})
		if err != nil {
			return nil, err
		}
		if w.Values[i], err = ask.Run(); err != nil {
			return nil, err
		}
		table, err := model.Network().Joint(active...)
		if err != nil {
			return nil, err
		}
		joint[i] = table.P
	}
	for k, x := range joint[0] {
		if !(x > 0) || math.Abs(x-joint[1][k]) > maxDifference {
			panic(fmt.Sprintf("identify: the two models of a witness have P(V) of %v and %v", x, joint[1][k]))
		}
	}
	if w.Gap = math.Abs(w.Values[0] - w.Values[1]); w.Gap < MinGap {
		return nil, &causal.Fault{Kind: causal.TooLarge, Message: "the outcome has too many parts: the models of the proof would differ by less than 0.001"}
	}
	return w, nil
}

func zeros(g *graph.Graph, s graph.Set) map[string]int {
	out := map[string]int{}
	for v := range s.All() {
		out[g.Name(v)] = 0
	}
	return out
}

// smallest looks for a hedge inside of h by taking nodes away from the inner
// component: fewer bits make a larger gap.
func (h *Hedge) smallest(g *graph.Graph) *Hedge {
	for v := range h.Inner.All() {
		left := h.Inner.Clone()
		left.Remove(v)
		for _, inner := range g.Districts(left) {
			if _, smaller := narrow(g, inner, h.Outer); smaller != nil && smaller.Outer.Meets(h.reduced.Do) {
				smaller.reduced = h.reduced
				return smaller.smallest(g)
			}
		}
	}
	return h
}

// parities sets up the hedge, in the first bit of each of its nodes, and gives the
// sinks of the inner component, each with its bit.
func (h *Hedge) parities(g *graph.Graph, pair [2]*circuit) map[int]wire {
	sinks := map[int]wire{}
	for v := range h.Inner.All() {
		if h.child(g, v) < 0 {
			sinks[v] = wire{node: v}
		}
	}
	for i, c := range pair {
		hears := func(v, from int) bool { return i == 0 || !h.Inner.Has(v) || h.Inner.Has(from) }
		for v := range h.Outer.All() {
			c.add(v, 0)
		}
		for v := range h.Outer.All() {
			if to := h.child(g, v); to >= 0 && hears(to, v) {
				c.feed(wire{node: to}, wire{node: v})
			}
		}
		for _, e := range h.tree(g) {
			r := c.root()
			for end, v := range e {
				if hears(v, e[1-end]) {
					c.feed(wire{node: v}, r)
				}
			}
		}
		for v := range h.Inner.All() {
			if h.child(g, v) < 0 {
				c.bits[v][0].noise = hedgeNoise
				break
			}
		}
	}
	return sinks
}

// child is the one child in the hedge that hears of v: for a node of the inner
// component one in there, -1 if it is a sink. All ways lead to sinks.
func (h *Hedge) child(g *graph.Graph, v int) int {
	within := h.Outer
	if h.Inner.Has(v) {
		within = h.Inner
	}
	i := slices.IndexFunc(g.Children(v), within.Has)
	if i < 0 {
		return -1
	}
	return g.Children(v)[i]
}

// tree is the bidirected edges of a spanning tree of the outer component that also
// spans the inner one.
func (h *Hedge) tree(g *graph.Graph) (edges [][2]int) {
	joined := g.NewSet()
	for v := range h.Inner.All() {
		joined.Add(v)
		break
	}
	for _, within := range []graph.Set{h.Inner, h.Outer} {
		for queue := slices.Collect(joined.All()); len(queue) > 0; queue = queue[1:] {
			for _, u := range g.Siblings(queue[0]) {
				if within.Has(u) && !joined.Has(u) {
					joined.Add(u)
					queue = append(queue, u)
					edges = append(edges, [2]int{queue[0], u})
				}
			}
		}
	}
	return edges
}

// route leads the sinks' bits to the outcome, or to conditions and thence to it.
func (h *Hedge) route(g *graph.Graph, pair [2]*circuit, sinks map[int]wire) {
	q := h.reduced
	ends := q.Outcome.Or(q.Given)
	free := g.All().Minus(q.Do)
	// next is where a bit goes from each node: to the outcome if it can go there
	// past no condition, else to a condition.
	next := slices.Repeat([]int{-1}, g.Len())
	towards(g, q.Outcome, free.Minus(q.Given), next)
	towards(g, ends, free, next)
	carried := map[int]wire{} // the bit of each node that carries one
	shown := false            // at the outcome itself
	var atCondition []wire
	follow := func(v int, from wire) {
		for !ends.Has(v) {
			v = next[v]
			if at, ok := carried[v]; ok {
				for _, c := range pair {
					c.feed(at, from)
				}
				return
			}
			for _, c := range pair {
				carried[v] = c.add(v, wireNoise, from)
			}
			from = carried[v]
		}
		if shown = shown || q.Outcome.Has(v); q.Given.Has(v) {
			atCondition = append(atCondition, from)
		}
	}
	for v := range g.All().All() {
		if from, ok := sinks[v]; ok {
			follow(v, from)
		}
	}
	if !shown {
		for _, c := range pair {
			c.feed(atCondition[0], c.share(q, atCondition[0].node)...)
		}
	}
}

// towards sets next, where it is not set yet, to lead each node of within by a
// shortest directed path to one of the ends.
func towards(g *graph.Graph, ends, within graph.Set, next []int) {
	seen := ends.And(within)
	for queue := slices.Collect(seen.All()); len(queue) > 0; queue = queue[1:] {
		for _, p := range g.Parents(queue[0]) {
			if !within.Has(p) || seen.Has(p) {
				continue
			}
			seen.Add(p)
			queue = append(queue, p)
			if next[p] < 0 {
				next[p] = queue[0]
			}
		}
	}
}

// share gives the wires over which the condition w gets to know a bit that the
// outcome has too: over a path that starts with an arrowhead at w and that the other
// conditions leave open. Between two colliders, or a collider and an end, the bit has
// one source; a collider tells the parity of its two sides to a condition.
func (c *circuit) share(q Query, w int) []wire {
	one := c.g.NewSet(w)
	others := q.Given.Minus(one)
	path := openPath(c.g.WithoutIn(q.Do).WithoutOut(one), w, q.Outcome, q.Do, others)
	reads := make([][]wire, len(path)) // of the bit at each place
	for i, p := range path {
		if p.back == both {
			r := c.root()
			reads[i-1], reads[i] = append(reads[i-1], r), append(reads[i], r)
		}
	}
	made := make([]*wire, len(path))
	var bitAt func(i int) wire // the bit at a place, after those that it reads
	bitAt = func(i int) wire {
		if made[i] != nil {
			return *made[i]
		}
		if i > 0 && path[i].back == into {
			reads[i] = append(reads[i], bitAt(i-1))
		}
		if i+1 < len(path) && path[i+1].back == out {
			reads[i] = append(reads[i], bitAt(i+1))
		}
		noise := wireNoise
		if len(reads[i]) == 0 {
			noise = fair
		}
		bit := c.add(path[i].node, noise, reads[i]...)
		made[i] = &bit
		return bit
	}
	next := slices.Repeat([]int{-1}, c.g.Len())
	towards(c.g, others, c.g.All().Minus(q.Do).Minus(one), next)
	for i := 1; i < len(path); i++ {
		from := bitAt(i)
		if i+1 == len(path) || path[i].back == out || path[i+1].back == into {
			continue // no collider
		}
		for v := path[i].node; !others.Has(v); {
			v = next[v]
			from = c.add(v, wireNoise, from)
		}
	}
	if path[1].back == out {
		reads[0] = append(reads[0], bitAt(1))
	}
	return reads[0] // w has its bit already
}

// How the edge to a place of a path from the place before it looks.
const (
	into = iota // -> towards this place
	out         // <- from this place
	both        // <->
)

type place struct {
	node, back int
}

// openPath is a path from w to one of the ends that is open given the treatments do
// and the conditions; there is one.
func openPath(g *graph.Graph, w int, ends, do, given graph.Set) []place {
	opens := g.Ancestors(given)
	type visit struct {
		place
		from int // index in visits
	}
	visits := []visit{{place{w, out}, -1}}
	seen := map[place]bool{}
	for at := 0; at < len(visits); at++ {
		v := visits[at]
		if at > 0 && ends.Has(v.node) {
			var path []place
			for ; at >= 0; at = visits[at].from {
				path = append(path, visits[at].place)
			}
			slices.Reverse(path)
			return path
		}
		step := func(to, back int) {
			head := v.back != out // an arrowhead led here
			collider := head && back != into
			if at > 0 && (collider && !opens.Has(v.node) || !collider && (given.Has(v.node) || do.Has(v.node))) {
				return
			}
			// Which way the edge points here matters no more, only whether it points.
			key := place{to, back}
			if back == both {
				key.back = into
			}
			if to != w && !seen[key] {
				seen[key] = true
				visits = append(visits, visit{place{to, back}, at})
			}
		}
		for _, u := range g.Children(v.node) {
			step(u, into)
		}
		for _, u := range g.Parents(v.node) {
			step(u, out)
		}
		for _, u := range g.Siblings(v.node) {
			step(u, both)
		}
	}
	panic("identify: the second rule applies to a condition")
}

// states is how many values a node has.
func (c *circuit) states(v int) int { return 1 << max(1, len(c.bits[v])) }

func (c *circuit) statesOf(w wire) int {
	if w.latent {
		return 2
	}
	return c.states(w.node)
}

// parents are the nodes and roots that a node's bits read, each once.
func (c *circuit) parents(v int) []wire {
	var out []wire
	for _, b := range c.bits[v] {
		for _, w := range b.reads {
			w.bit = 0
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// model writes the circuit as tables.
func (c *circuit) model() Model {
	m := Model{Latent: []string{}}
	rootName := func(i int) string {
		name := fmt.Sprint("U", i+1)
		for _, taken := c.g.Node(name); taken; _, taken = c.g.Node(name) {
			name = "_" + name
		}
		return name
	}
	for i := range c.roots {
		m.Latent = append(m.Latent, rootName(i))
		m.Nodes = append(m.Nodes, scm.Node{Name: rootName(i), Parents: []string{}, Tables: []scm.Table{{P: fair, Values: []int{0}}, {P: fair, Values: []int{1}}}})
	}
	for _, v := range c.g.Order() {
		n := scm.Node{Name: c.g.Name(v), Parents: []string{}}
		parents := c.parents(v)
		for _, p := range parents {
			if p.latent {
				n.Parents = append(n.Parents, rootName(p.node))
			} else {
				n.Parents = append(n.Parents, c.g.Name(p.node))
			}
		}
		for flips, p := range c.noises(v) {
			n.Tables = append(n.Tables, scm.Table{P: p, Values: c.responses(v, parents, flips)})
		}
		m.Nodes = append(m.Nodes, n)
	}
	return m
}

// noises yields what the noise of a node's bits can turn round, as a mask, and how
// likely that is.
func (c *circuit) noises(v int) func(yield func(int, float64) bool) {
	bits := c.bits[v]
	if len(bits) == 0 {
		bits = []bit{{nil, idleNoise}}
	}
	return func(yield func(int, float64) bool) {
		for flips := range 1 << len(bits) {
			p := 1.0
			for i, b := range bits {
				if flips>>i&1 == 1 {
					p *= b.noise
				} else {
					p *= 1 - b.noise
				}
			}
			if p > 0 && !yield(flips, p) {
				return
			}
		}
	}
}

// responses is the table of a node for one state of its noise.
func (c *circuit) responses(v int, parents []wire, flips int) []int {
	rows := 1
	for _, p := range parents {
		rows *= c.statesOf(p)
	}
	out := make([]int, rows)
	values := make(map[wire]int, len(parents))
	for row := range out {
		left := row
		for _, p := range slices.Backward(parents) {
			values[p] = left % c.statesOf(p)
			left /= c.statesOf(p)
		}
		out[row] = c.value(v, flips, func(w wire) int { w.bit = 0; return values[w] })
	}
	return out
}

// value is a node's value where of gives those of what it reads.
func (c *circuit) value(v, flips int, of func(w wire) int) int {
	x := flips
	for i, b := range c.bits[v] {
		for _, w := range b.reads {
			x ^= (of(w) >> w.bit & 1) << i
		}
	}
	return x
}
