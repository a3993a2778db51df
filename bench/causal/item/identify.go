package item

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"assay/bench/causal/classes"
	"assay/bench/causal/decide"
	"assay/bench/causal/graph"
	"assay/bench/causal/identify"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

const (
	acyclic    = "The graph is complete: what has no arrow has no direct effect, and what has no double-headed edge shares no hidden cause."
	sufficient = "No hidden common causes; the variables are independent just where the graph separates them."
)

// identify asks for P(y=1|do(x=1)) of those who know the graph over variables and
// their joint distribution.
func (f *Frame) identify(key, topic string, w *world.World, variables []string) *Item {
	q := record.Query{Kind: record.Probability, Target: one(w.Y), Do: one(w.X)}
	it := f.start(key, topic, "identification", intervention, w, q)
	b := f.joint(w, variables)
	it.Blobs = []Blob{b}
	it.Case.AllowedTools = []string{"calc", "graph"}
	it.Case.Assumptions = append(it.Case.Assumptions, acyclic)
	it.Case.Question = f.ask(key, intervention, q)
	r, err := w.Model.Rungs(q.SCM())
	if err != nil {
		panic(err)
	}
	it.Oracle.Rungs = &r
	value, estimand, ok := Identify(b.Content.(record.Joint), q)
	if !ok {
		it.Oracle.Status = record.NotIdentifiable
		it.Oracle.Formula = "not identifiable: " + formula(intervention, q)
		return it
	}
	it.Oracle.Value, it.Oracle.Formula = &value, estimand
	return it
}

// Identify is the interventional answer from what is public: the estimand on the
// joint. ok is false where the graph does not identify it.
func Identify(j record.Joint, q record.Query) (value float64, estimand string, ok bool) {
	g := Graph(j)
	e, _, err := identify.Identify(g, About(g, q))
	if e == nil || err != nil {
		return 0, "", false
	}
	values := map[int]int{}
	for _, m := range []record.Values{q.Do, q.Given} {
		for name, x := range m {
			i, _ := g.Node(name)
			values[i] = x
		}
	}
	p, err := e.Evaluate(&identify.Joint{States: slices.Repeat([]int{2}, g.Len()), Marginal: j.Marginal}, values)
	if err != nil {
		return 0, "", false
	}
	cell := 0
	for v := range g.Len() { // the targets in node order, the last fastest
		if x, is := q.Target[g.Name(v)]; is {
			cell = cell*2 + x
		}
	}
	return p[cell], e.String(), true
}

// About is what a query asks of a graph.
func About(g *graph.Graph, q record.Query) identify.Query {
	set := func(v record.Values) graph.Set {
		s := g.NewSet()
		for name := range v {
			if i, ok := g.Node(name); ok {
				s.Add(i)
			}
		}
		return s
	}
	return identify.Query{Do: set(q.Do), Outcome: set(q.Target), Given: set(q.Given)}
}

// Graph is the graph that comes with a joint.
func Graph(j record.Joint) *graph.Graph {
	g, err := graph.New(j.Variables, j.Directed, j.Bidirected)
	if err != nil {
		panic(err)
	}
	return g
}

func insufficient(f *Frame) []*Item {
	const topic = "insufficient_evidence"
	shape := world.Pick(f.rand("shape"), []world.Shape{world.Bow, world.BowWithCause, world.BowWithMediator})
	w := f.draw(shape)
	observed := w.Observed()
	parents := map[string][]string{}
	for _, v := range w.Nodes {
		for _, p := range v.Parents {
			if !slices.Contains(w.Latent, p) {
				parents[v.Name] = append(parents[v.Name], p)
			}
		}
	}
	// Without its hidden cause the graph still joins every two variables, so that some
	// model of it has the same joint.
	fitted, err := world.Fit(observed, w.Joint(observed), parents)
	if err != nil {
		panic(err) // all combinations can be seen
	}
	fitted.Motif, fitted.X, fitted.Y, fitted.Z = w.Motif+"_fitted", w.X, w.Y, w.Z
	hidden, open := f.identify("bow", topic, w, observed), f.identify("open", topic, fitted, observed)
	q := scm.Query{Target: one(w.Y), Do: one(w.X)}
	hidden.witness(w, fitted, w.Ask(scm.Intervention, q), fitted.Ask(scm.Intervention, q))
	items := []*Item{hidden.trap("non_identifiability_ignored", open), open}
	items = append(items, f.disputed()...)
	return append(items, f.causation(f.draw(world.Direct))...)
}

// disputed asks about graphs of several hidden causes. In the twin some of them are not
// shared, and what is left lets the effect be known.
func (f *Frame) disputed() []*Item {
	const topic = "insufficient_evidence"
	style := world.Pick(f.rand("style"), []world.Style{world.BowArc, world.Hedge})
	if f.final {
		style = world.Napkin
	}
	w, rival, settled := world.Disputed(f.seed, style)
	names := map[string]string{} // hidden causes keep theirs: nobody is shown them
	for _, v := range w.Observed() {
		names[v] = f.name(v)
	}
	w, rival, settled = w.Named(names), rival.Named(names), settled.Named(names)
	hidden, open := f.identify("mixed", topic, w, w.Observed()), f.identify("mixed_settled", topic, settled, settled.Observed())
	q := scm.Query{Target: one(w.Y), Do: one(w.X)}
	hidden.witness(w, rival, w.Ask(scm.Intervention, q), rival.Ask(scm.Intervention, q))
	return []*Item{hidden.trap("non_identifiability_ignored", open), open}
}

// witness notes two models of the same observed distribution.
func (it *Item) witness(a, b *world.World, va, vb float64) {
	it.Oracle.Witness = &record.Witness{Models: [2]record.Mechanism{Model(a), Model(b)}, Values: [2]float64{va, vb}, Gap: math.Abs(va - vb)}
}

// causation asks about single cases of those who know graph and joint alone: the
// probability that X was necessary has no value, those of causation have bounds.
func (f *Frame) causation(w *world.World) []*Item {
	const topic = "insufficient_evidence"
	b := f.joint(w, w.Observed())
	q := record.Query{Kind: record.Probability, Target: record.Values{w.Y: 0}, Do: record.Values{w.X: 0}, Factual: record.Values{w.X: 1, w.Y: 1}}
	it := f.start("necessity", topic, "identification", counterfactual, w, q)
	it.Blobs = []Blob{b}
	it.Case.AllowedTools = []string{"calc", "graph"}
	it.Case.Assumptions = append(it.Case.Assumptions, acyclic, "Nothing is known of how the noise works.")
	it.Case.Question = f.ask("necessity", counterfactual, q)
	it.Oracle.Status = record.NotIdentifiable
	it.Oracle.Formula = "not identifiable: " + formula(counterfactual, q)
	seen := map[int]float64{} // P(y=1|x)
	for x := range 2 {
		seen[x] = w.Ask(scm.Association, scm.Query{Target: one(w.Y), Given: record.Values{w.X: x}})
	}
	low, high := coupled(w, seen, true), coupled(w, seen, false)
	it.witness(low, high, low.Ask(scm.Counterfactual, q.SCM()), high.Ask(scm.Counterfactual, q.SCM()))
	it.Condition = w.Probability(q.Factual)
	items := []*Item{it}
	px := w.Probability(one(w.X))
	k := decide.Knowledge{Joint: &decide.Joint{
		{float64((1 - px) * (1 - seen[0])), float64((1 - px) * seen[0])}, {float64(px * (1 - seen[1])), float64(px * seen[1])}},
		Experiment: &decide.Experiment{Do1: seen[1], Do0: seen[0]}}
	for _, quantity := range []decide.Quantity{decide.PN, decide.PNS} {
		q := record.Query{Kind: record.Bounds, Quantity: string(quantity), Treatment: w.X, Outcome: w.Y}
		it := f.start("bounds_"+string(quantity), topic, "identification", counterfactual, w, q)
		it.Blobs = []Blob{b}
		it.Case.Assumptions = append(it.Case.Assumptions, acyclic, "Nothing is known of how the noise works.")
		it.Case.AnswerFormat = []string{"status", "low", "high", "confidence"}
		it.Case.Question = f.askBounds(it.Key, q)
		iv, err := decide.Bounds(quantity, k)
		if err != nil {
			it.Unsound = "impossible_condition"
		}
		it.Oracle.Low, it.Oracle.High = &iv.Low, &iv.High
		it.Oracle.Formula = fmt.Sprintf("bounds of %s of %s for %s", quantity, q.Treatment, q.Outcome)
		items = append(items, it)
	}
	return items
}

func (f *Frame) askBounds(key string, q record.Query) string {
	what := map[string]string{
		"pn":  "among the cases with %s = 1 and %s = 1, would be spared the second by forcing the first to 0",
		"pns": "have an outcome that follows the treatment whichever way it is forced (treatment %s, outcome %s)",
	}[q.Quantity]
	what = fmt.Sprintf(what, q.Treatment, q.Outcome)
	return f.say(key, "What are the sharpest bounds on the share of cases that, "+what+"?", "At least and at most which share of cases, as far as can be known, "+what+"?")
}

// coupled is the world X -> Y with P(y|x) as given, in which Y takes both values of X
// alike as often as can be, or as seldom.
func coupled(w *world.World, ones map[int]float64, alike bool) *world.World {
	p0, p1 := ones[0], ones[1]
	low := max(0, p0+p1-1) // P(Y(0)=1, Y(1)=1)
	if alike {
		low = min(p0, p1)
	}
	var tables []scm.Table
	for _, t := range []scm.Table{
		{P: low, Values: []int{1, 1}}, {P: p0 - low, Values: []int{1, 0}},
		{P: p1 - low, Values: []int{0, 1}}, {P: 1 - p0 - p1 + low, Values: []int{0, 0}},
	} {
		if t.P > 1e-15 {
			tables = append(tables, t)
		}
	}
	return w.With(scm.Node{Name: w.Y, Parents: []string{w.X}, Tables: tables})
}

// Faithful is how dependent two variables that the graph does not separate are at
// least, as a difference of probabilities, in a joint that shows its structure.
const Faithful = 0.01

// Samples is how many draws a case shows.
const Samples = 20_000

// FaithfulSamples is the same where samples show it: four standard errors of a
// frequency.
const FaithfulSamples = 0.015

func discovery(f *Frame) []*Item {
	const topic = "discovery"
	shapes := []world.Shape{world.Chain, world.Fork, world.Collider, world.Confounded, world.Interaction, world.Mediation, world.LongChain}
	shape := world.Pick(f.rand("shape"), shapes)
	if f.rand("random").Chance(500) {
		shape = world.Random(f.seed.Derive("random"), 5)
		shape.Slots = slices.DeleteFunc(shape.Slots, func(s world.Slot) bool { return s.Latent })
		for i := range shape.Slots {
			shape.Slots[i].Parents = slices.DeleteFunc(slices.Clone(shape.Slots[i].Parents), func(p string) bool { return p == "U" })
		}
	}
	w := f.draw(shape)
	shown := dependences(w)
	listing := f.order("joint", w.Observed())
	joint := record.Joint{Variables: listing, P: w.Joint(listing), Directed: [][2]string{}, Bidirected: [][2]string{}}
	base := f.structure("class", topic, w, nil, Blob{record.KindJoint, joint})
	samples := f.structure("samples", topic, w, nil, Blob{record.KindSamples, f.samples(w, listing, Samples)})
	// An experiment that sets one variable by a fair coin.
	target := world.Pick(f.rand("target"), w.Observed())
	held := joint
	held.Targets = [][]string{{target}}
	held.P = w.With(scm.Node{Name: target, Tables: scm.Root(500)}).Joint(listing)
	tested := f.structure("experiment", topic, w, [][]string{{target}}, Blob{record.KindJoint, joint}, Blob{record.KindJoint, held})
	tested.Case.Assumptions = append(tested.Case.Assumptions, "In the second distribution "+target+" was set by a fair coin.")
	exactly := "The distribution is exact."
	base.Case.Assumptions, tested.Case.Assumptions = append(base.Case.Assumptions, exactly), append(tested.Case.Assumptions, exactly)
	for _, it := range []*Item{base, samples, tested} {
		if shown < Faithful || it == samples && shown < FaithfulSamples {
			it.Unsound = "unfaithful"
		}
	}
	return []*Item{base, samples, tested}
}

// structure asks for the class of graphs that evidence tells from others.
func (f *Frame) structure(key, topic string, w *world.World, targets [][]string, blobs ...Blob) *Item {
	q := record.Query{Kind: record.Structure}
	it := f.start(key, topic, topic, structure, w, q)
	it.Blobs = blobs
	it.Case.AllowedTools = []string{"calc", "graph"}
	it.Case.AnswerFormat = []string{"status", "edges", "confidence"}
	it.Case.Assumptions = append(it.Case.Assumptions, sufficient)
	it.Case.Question = f.say(key,
		"Which edges, with a direction where it can be known, does the evidence show? Leave an edge undirected where graphs of both directions agree with all that is shown.",
		"Draw what can be known of the graph: arrows where only one direction agrees with what is shown, plain lines where both do.")
	names := w.Observed()
	place := func(name string) int { return slices.Index(names, name) }
	var arrows []classes.Edge
	for _, e := range w.Edges() {
		arrows = append(arrows, classes.Edge{place(e[0]), place(e[1])})
	}
	dag, err := classes.NewDAG(len(names), "directed", arrows)
	if err != nil {
		panic(err)
	}
	var sets [][]int
	for _, t := range targets {
		var set []int
		for _, name := range t {
			set = append(set, place(name))
		}
		sets = append(sets, set)
	}
	class := classes.Essential(dag, sets)
	it.Oracle.Edges = &record.Edges{Directed: [][2]string{}, Undirected: [][2]string{}}
	for _, e := range class.Directed() {
		it.Oracle.Edges.Directed = append(it.Oracle.Edges.Directed, [2]string{names[e[0]], names[e[1]]})
	}
	for _, e := range class.Undirected() {
		it.Oracle.Edges.Undirected = append(it.Oracle.Edges.Undirected, [2]string{names[e[0]], names[e[1]]})
	}
	it.Oracle.Formula = fmt.Sprintf("the essential graph of %s DAGs", class.Size())
	return it
}

// samples counts draws of the observed variables: the same whatever these are called
// and in which order they are shown.
func (f *Frame) samples(w *world.World, listing []string, n int) record.Samples {
	r := f.rand("samples")
	names := w.Observed()
	below := w.Joint(names)
	shown := make([]int, len(below)) // the cell of the listing
	for cell := range below {
		if cell > 0 {
			below[cell] += below[cell-1] // the chance of this cell or one before
		}
		for _, v := range listing {
			shown[cell] = shown[cell]<<1 | cell>>(len(names)-1-slices.Index(names, v))&1
		}
	}
	s := record.Samples{Variables: listing, Counts: make([]int, len(below))}
	for range n {
		x := r.Share()
		s.Counts[shown[sort.Search(len(below)-1, func(i int) bool { return x < below[i] })]]++
	}
	return s
}

// dependences is how dependent two variables are at least given a set that does not
// separate them.
func dependences(w *world.World) float64 {
	names := w.Observed()
	g, p := w.Graph(names), w.Joint(names)
	n := len(names)
	faintest := 1.0
	for a := range n {
		for b := range a {
			for given := range 1 << n {
				if given>>a&1 == 1 || given>>b&1 == 1 {
					continue
				}
				s := g.NewSet()
				for v := range n {
					if given>>v&1 == 1 {
						s.Add(v)
					}
				}
				if !g.Separated(g.NewSet(a), g.NewSet(b), s) {
					faintest = min(faintest, dependence(p, n, a, b, given))
				}
			}
		}
	}
	return faintest
}

// dependence is the largest |P(a,b|s) - P(a|s)P(b|s)|, weighted by P(s), over the
// values of s.
func dependence(p []float64, n, a, b, given int) float64 {
	type sums struct{ both, a, b, all float64 }
	at := map[int]*sums{}
	var keys []int
	for cell, x := range p {
		bit := func(v int) bool { return cell>>(n-1-v)&1 == 1 }
		key := 0
		for v := range n {
			if given>>v&1 == 1 && bit(v) {
				key |= 1 << v
			}
		}
		if at[key] == nil {
			at[key] = &sums{}
			keys = append(keys, key)
		}
		s := at[key]
		s.all += x
		if bit(a) {
			s.a += x
		}
		if bit(b) {
			s.b += x
		}
		if bit(a) && bit(b) {
			s.both += x
		}
	}
	most := 0.0
	for _, key := range keys {
		if s := at[key]; s.all > 0 {
			most = max(most, math.Abs(s.both-float64(float64(s.a/s.all)*s.b)))
		}
	}
	return most
}
