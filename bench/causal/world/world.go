// Package world draws structural causal models from seeds: small, binary, exact.
//
// A world is a shape (which variable listens to which) with mechanisms. What is
// drawn for a mechanism depends on the seed, on the names of the variable and of its
// cause, and on whether a cause is hidden, alone, so that two shapes drawn from one
// seed agree in what they share: a world and its twin with one edge more, or less, are
// a matched pair.
//
// Probabilities are thousandths, or products of them.
package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/bench/causal"
	"assay/bench/causal/graph"
	"assay/bench/causal/scm"
)

// World is a model whose nodes are in a causal order.
type World struct {
	Motif  string
	Nodes  []scm.Node
	Latent []string
	// X, Y and Z are the treatment, the outcome and a third variable of the shape; Z may
	// be "".
	X, Y, Z string
	Model   *scm.Model
}

// Kind is how a variable listens to its causes.
type Kind int

// The kinds of mechanisms.
const (
	NoisyOr   Kind = iota // each cause gets through by itself; perhaps turned round
	And                   // all causes are needed, and may fail; perhaps turned round
	MixtureOf             // the noise picks among functions of the causes
	ByRow                 // a threshold for each combination of the causes' values, all against one noise
)

// Slot is a variable of a shape.
type Slot struct {
	Name    string
	Parents []string
	Kind    Kind
	Latent  bool
}

// Shape is a structure that worlds are drawn of.
type Shape struct {
	Motif   string
	Slots   []Slot // parents first
	X, Y, Z string
}

// shape reads "Z; X < Z; Y < X Z": a variable behind "?" is latent, one behind "&"
// needs all its causes, one behind "~" is a mixture.
func shape(motif, text string) Shape {
	s := Shape{Motif: motif}
	for part := range strings.SplitSeq(text, ";") {
		name, causes, _ := strings.Cut(part, "<")
		name = strings.TrimSpace(name)
		slot := Slot{Parents: strings.Fields(causes)}
		switch name[0] {
		case '?':
			slot.Latent = true
		case '&':
			slot.Kind = And
		case '~':
			slot.Kind = MixtureOf
		}
		slot.Name = strings.TrimLeft(name, "?&~")
		s.Slots = append(s.Slots, slot)
	}
	s.X, s.Y = "X", "Y"
	for _, slot := range s.Slots {
		if !slot.Latent && slot.Name != "X" && slot.Name != "Y" {
			s.Z = slot.Name
			break
		}
	}
	return s
}

// The shapes by motif. Z is what is between, before or behind X and Y.
var (
	Direct          = shape("direct", "X; Y < X")
	Reversed        = shape("reversed", "Y; X < Y")
	Fork            = shape("fork", "Z; X < Z; Y < Z")
	Chain           = shape("chain", "X; Z < X; Y < Z")
	LongChain       = shape("long_chain", "X; A < X; B < A; C < B; Y < C")
	Collider        = shape("collider", "X; Y; Z < X Y")
	ColliderEdge    = shape("collider_with_edge", "X; Y < X; Z < X Y")
	Confounded      = shape("confounded", "Z; X < Z; Y < X Z")
	LatentFork      = shape("latent_fork", "?U; X < U; Y < U")
	Bow             = shape("latent_confounded", "?U; X < U; Y < X U")
	BowWithCause    = shape("latent_confounded_with_cause", "?U; Z; X < Z U; Y < X Z U")
	BowWithMediator = shape("latent_confounded_mediation", "?U; X < U; Z < X; Y < X Z U")
	Mediation       = shape("mediation", "X; Z < X; Y < X Z")
	FrontDoor       = shape("front_door", "?U; X < U; Z < X; Y < Z U")
	MBias           = shape("m_bias", "?U; ?W; Z < U W; X < U; Y < X W")
	Interaction     = shape("interaction", "X; Z; &Y < X Z")
	Independent     = shape("independent_causes", "X; Z; Y < X Z")
)

// Motifs lists the shapes that any family may use; HeldOut those that only the final
// split has.
var (
	Motifs  = []Shape{Fork, Chain, Collider, ColliderEdge, Confounded, Bow, Mediation, Interaction, LongChain}
	HeldOut = []Shape{FrontDoor, MBias}
)

// Random draws a shape of n observed variables and perhaps a latent cause of two of
// them, where X has a directed path to Y. Half of its mechanisms are mixtures.
func Random(seed Seed, n int) Shape {
	r := seed.Derive("shape").Rand()
	for {
		s := Shape{Motif: "random"}
		confounded := map[int]bool{}
		if r.Chance(500) {
			s.Slots = append(s.Slots, Slot{Name: "U", Latent: true})
			for len(confounded) < 2 {
				confounded[r.Below(n)] = true
			}
		}
		reaches := make([][]bool, n) // reaches[b][a]: a is an ancestor of b, or b
		for b := range n {
			slot := Slot{Name: fmt.Sprintf("V%d", b)}
			if r.Chance(500) {
				slot.Kind = MixtureOf
			}
			reaches[b] = make([]bool, n)
			reaches[b][b] = true
			for a := range b {
				if len(slot.Parents) < 2 && r.Chance(450) {
					slot.Parents = append(slot.Parents, fmt.Sprintf("V%d", a))
					for c := range n {
						reaches[b][c] = reaches[b][c] || reaches[a][c]
					}
				}
			}
			if confounded[b] {
				slot.Parents = append(slot.Parents, "U")
			}
			s.Slots = append(s.Slots, slot)
		}
		var pairs [][2]int
		for b := range n {
			for a := range b {
				if reaches[b][a] {
					pairs = append(pairs, [2]int{a, b})
				}
			}
		}
		if len(pairs) == 0 {
			continue
		}
		p := Pick(r, pairs)
		s.X, s.Y = fmt.Sprintf("V%d", p[0]), fmt.Sprintf("V%d", p[1])
		return s
	}
}

// Draw gives a shape its mechanisms.
func Draw(seed Seed, s Shape) *World {
	var nodes []scm.Node
	var latent []string
	strength := s.strengths()
	for _, slot := range s.Slots {
		nodes = append(nodes, scm.Node{Name: slot.Name, Parents: slot.Parents, Tables: mechanism(seed, slot, strength)})
		if slot.Latent {
			latent = append(latent, slot.Name)
		}
	}
	return New(s.Motif, nodes, latent...).about(s.X, s.Y, s.Z)
}

// strengths are how often, in thousandths, each variable gets through to an effect, at
// least and at most. Confounders are strong, and a hidden one is the strongest of all,
// so that taking what is seen for what is done is costly.
func (s Shape) strengths() map[string][2]int {
	hidden := slices.ContainsFunc(s.Slots, func(v Slot) bool { return v.Latent })
	out := map[string][2]int{}
	for _, v := range s.Slots {
		switch {
		case v.Latent:
			out[v.Name] = [2]int{850, 980}
		case len(v.Parents) == 0 && v.Name != s.X && v.Name != s.Y && !hidden:
			out[v.Name] = [2]int{700, 950}
		default:
			out[v.Name] = [2]int{350, 750}
		}
	}
	return out
}

// mechanism draws the tables of a variable.
func mechanism(seed Seed, slot Slot, strength map[string][2]int) []scm.Table {
	own := seed.Derive("mechanism " + slot.Name)
	r := own.Rand()
	switch {
	case slot.Latent:
		return scm.Root(scm.Thousandths(r.Between(250, 750)))
	case len(slot.Parents) == 0:
		return scm.Root(scm.Thousandths(r.Between(100, 900)))
	}
	switch slot.Kind {
	case MixtureOf:
		return mixture(r, len(slot.Parents))
	case ByRow:
		ones := make([]float64, 1<<len(slot.Parents))
		for row := range ones {
			ones[row] = float64(r.Between(50, 950)) / 1000
		}
		return comonotone(ones)
	}
	leak, turned, works := r.Between(20, 150), r.Chance(300), r.Between(800, 980)
	var tables []scm.Table
	if slot.Kind == And {
		tables = scm.And(len(slot.Parents), scm.Thousandths(works))
	} else {
		strengths := make([]scm.Thousandths, len(slot.Parents))
		for i, p := range slot.Parents {
			strengths[i] = scm.Thousandths(own.Derive(p).Rand().Between(strength[p][0], strength[p][1]))
		}
		tables = scm.NoisyOr(strengths, scm.Thousandths(leak))
	}
	if turned {
		for _, t := range tables {
			for row := range t.Values {
				t.Values[row] = 1 - t.Values[row]
			}
		}
	}
	return tables
}

// mixture draws three functions of k causes, the first of which depends on all of
// them.
func mixture(r *Rand, k int) []scm.Table {
	rows := 1 << k
	tables := make([][]int, 3)
	for i := range tables {
		tables[i] = make([]int, rows)
		for {
			for row := range rows {
				tables[i][row] = r.Below(2)
			}
			if i > 0 || dependsOnAll(tables[i], k) {
				break
			}
		}
	}
	first := r.Between(550, 800)
	second := r.Between(50, 950-first)
	return scm.Mixture([]scm.Thousandths{scm.Thousandths(first), scm.Thousandths(second), scm.Thousandths(1000 - first - second)}, tables)
}

func dependsOnAll(table []int, k int) bool {
	for bit := range k {
		same := true
		for row := range table {
			same = same && table[row] == table[row^1<<bit]
		}
		if same {
			return false
		}
	}
	return true
}

// New makes a world of nodes in a causal order, which are written by the program and
// so are a model.
func New(motif string, nodes []scm.Node, latent ...string) *World {
	m, err := scm.New(nodes, latent)
	if err != nil {
		panic(err)
	}
	return &World{Motif: motif, Nodes: nodes, Latent: latent, Model: m}
}

// about says what questions about the world are about.
func (w *World) about(x, y, z string) *World {
	w.X, w.Y, w.Z = x, y, z
	return w
}

// With is the world with another mechanism of one variable.
func (w *World) With(n scm.Node) *World {
	nodes := slices.Clone(w.Nodes)
	nodes[slices.IndexFunc(nodes, func(v scm.Node) bool { return v.Name == n.Name })] = n
	return New(w.Motif, nodes, w.Latent...).about(w.X, w.Y, w.Z)
}

// Named is the world under other names; what names does not list keeps its own.
func (w *World) Named(names map[string]string) *World {
	var nodes []scm.Node
	for _, v := range w.Nodes {
		n := scm.Node{Name: to(names, v.Name), Parents: make([]string, len(v.Parents)), Tables: v.Tables}
		for i, p := range v.Parents {
			n.Parents[i] = to(names, p)
		}
		nodes = append(nodes, n)
	}
	var latent []string
	for _, name := range w.Latent {
		latent = append(latent, to(names, name))
	}
	return New(w.Motif, nodes, latent...).about(to(names, w.X), to(names, w.Y), to(names, w.Z))
}

func to(names map[string]string, name string) string {
	if other, ok := names[name]; ok {
		return other
	}
	return name
}

// Names lists all variables, causes first.
func (w *World) Names() []string {
	out := make([]string, len(w.Nodes))
	for i, v := range w.Nodes {
		out[i] = v.Name
	}
	return out
}

// Observed lists the variables that are not latent, causes first.
func (w *World) Observed() []string {
	return slices.DeleteFunc(w.Names(), func(name string) bool { return slices.Contains(w.Latent, name) })
}

// Edges lists the arrows between variables, latent ones included.
func (w *World) Edges() [][2]string {
	var out [][2]string
	for _, v := range w.Nodes {
		for _, p := range v.Parents {
			out = append(out, [2]string{p, v.Name})
		}
	}
	return out
}

// Graph is the latent projection on what is observed, with nodes in the order of
// listing.
func (w *World) Graph(listing []string) *graph.Graph {
	names := slices.Concat(listing, w.Latent)
	g, err := graph.New(names, w.Edges(), nil)
	if err != nil {
		panic(err)
	}
	keep := g.NewSet()
	for i := range listing {
		keep.Add(i)
	}
	return g.Project(keep)
}

// Episode is one draw of the noise: which table each node uses, and what follows.
type Episode struct {
	Noise  map[string]int `json:"noise"`
	Values map[string]int `json:"values"`
}

// Sample draws an episode. A node's noise depends on the seed and on its place among
// the nodes, not on its name.
func (w *World) Sample(r *Rand) Episode {
	e := Episode{map[string]int{}, map[string]int{}}
	for _, v := range w.Nodes {
		at, below := 0.0, r.Share()
		pick := len(v.Tables) - 1
		for k, t := range v.Tables {
			if at += t.P; below < at {
				pick = k
				break
			}
		}
		e.Noise[v.Name] = pick
		row := 0
		for _, p := range v.Parents {
			row = row*w.Model.Values(p) + e.Values[p]
		}
		e.Values[v.Name] = v.Tables[pick].Values[row]
	}
	return e
}

// Ask is the model's answer; a question that has none is a mistake of the caller.
func (w *World) Ask(rung scm.Rung, q scm.Query) float64 {
	p, err := w.Model.Ask(rung, q)
	if err != nil {
		panic(fmt.Sprintf("%v %+v: %v", rung, q, err))
	}
	return p
}

// Probability is P(given), 0 where the condition cannot happen.
func (w *World) Probability(given map[string]int) float64 {
	if len(given) == 0 {
		return 1
	}
	return w.Ask(scm.Association, scm.Query{Target: given})
}

// Joint is the distribution of variables, all binary, the last fastest.
func (w *World) Joint(variables []string) []float64 {
	t, err := w.Model.Network().Joint(variables...)
	if err != nil {
		panic(err)
	}
	return t.P
}

// Fit is the world whose variables have given parents, and otherwise what a
// joint distribution of variables says of them. Where the joint is that of some such
// world, it is this one's. The parents come before a node. The error is
// causal.ErrZeroProbability.
func Fit(variables []string, joint []float64, parents map[string][]string) (*World, error) {
	var nodes []scm.Node
	place := map[string]int{}
	for i, v := range variables {
		place[v] = len(variables) - 1 - i // its bit in a cell's number
	}
	for _, v := range variables {
		ps := parents[v]
		rows := 1 << len(ps)
		over, under := make([]float64, rows), make([]float64, rows)
		for cell, p := range joint {
			row := 0
			for _, q := range ps {
				row = row<<1 | cell>>place[q]&1
			}
			under[row] += p
			if cell>>place[v]&1 == 1 {
				over[row] += p
			}
		}
		ones := make([]float64, rows)
		for row := range ones {
			if under[row] == 0 {
				return nil, causal.Impossible()
			}
			ones[row] = over[row] / under[row]
		}
		nodes = append(nodes, scm.Node{Name: v, Parents: ps, Tables: comonotone(ones)})
	}
	return New("fitted", nodes), nil
}

// comonotone is a mechanism whose value is 1 with a probability for each row: one
// threshold decides in all rows.
func comonotone(ones []float64) []scm.Table {
	levels := map[float64]bool{1: true}
	for _, p := range ones {
		levels[min(p, 1)] = true
	}
	delete(levels, 0)
	var out []scm.Table
	low := 0.0
	for _, high := range slices.Sorted(maps.Keys(levels)) {
		values := make([]int, len(ones))
		for row, p := range ones {
			if p >= high {
				values[row] = 1
			}
		}
		out = append(out, scm.Table{P: high - low, Values: values})
		low = high
	}
	return out
}
