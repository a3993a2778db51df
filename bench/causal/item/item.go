// Package item asks questions about worlds and answers them exactly.
//
// A family makes the items of one world, all of the same draws: the world, its twins
// and its episode follow from the world's seed, what they are called and in which
// order they are told from another one. So a world under other names, in another
// order or in other words has the same answers.
package item

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/bench/causal/bayes"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// Tolerance is how far from the truth an answer may be; C9's τ.
const Tolerance = 0.02

// Rare is the probability that what an item conditions on has at least.
const Rare = 0.02

// Item is a case without its names and hashes. Oracle lacks ids, salt and pair.
type Item struct {
	Key    string // among the items of the world
	Case   record.PublicCase
	Oracle record.PrivateOracle
	Blobs  []Blob // the evidence
	// Pair is the trap's key for the trap and its twin; "" where there is none.
	Pair, Label string
	Twin        bool
	Episode     string // items of one episode have the same
	CFLink      string // a key
	// Condition is the probability of what the question conditions on.
	Condition float64
	// Unsound says why the item can be no case; "" is a case.
	Unsound string
}

// Blob is evidence in the form of its kind.
type Blob struct {
	Kind    string
	Content any
}

// Frame is a world's draws and what they are called.
type Frame struct {
	seed   world.Seed // of the world
	dress  world.Seed // of names, order and words
	skin   world.Skin
	free   []string
	names  map[string]string
	final  bool // held-out structures only
	others bool // the other wording
}

// NewFrame frames a world. final is the final split's.
func NewFrame(seed, dress world.Seed, skin world.Skin, final, paraphrased bool) *Frame {
	f := &Frame{seed: seed, dress: dress, skin: skin, names: map[string]string{}, final: final, others: paraphrased}
	f.free = slices.Clone(skin.Names)
	world.Shuffle(dress.Derive("names").Rand(), f.free)
	return f
}

// name is what a variable of a shape is called.
func (f *Frame) name(variable string) string {
	if variable == "" {
		return ""
	}
	if name, ok := f.names[variable]; ok {
		return name
	}
	name := f.free[0]
	f.free, f.names[variable] = f.free[1:], name
	return name
}

// draw is the shape's world, under the frame's names.
func (f *Frame) draw(s world.Shape) *world.World {
	return f.named(world.Draw(f.seed.Derive("world"), s))
}

func (f *Frame) named(w *world.World) *world.World {
	for _, v := range w.Names() {
		f.name(v)
	}
	return w.Named(f.names)
}

// rand draws what belongs to the world.
func (f *Frame) rand(part string) *world.Rand { return f.seed.Derive(part).Rand() }

// order brings a list in an order that tells nothing.
func (f *Frame) order(part string, list []string) []string {
	out := slices.Clone(list)
	world.Shuffle(f.dress.Derive("order "+part).Rand(), out)
	return out
}

// mechanism shows a whole model.
func (f *Frame) mechanism(w *world.World) Blob {
	m := record.Mechanism{Latent: []string{}}
	for _, name := range f.order("mechanism", w.Names()) {
		i := slices.IndexFunc(w.Nodes, func(v scm.Node) bool { return v.Name == name })
		n := w.Nodes[i]
		if n.Parents == nil {
			n.Parents = []string{}
		}
		m.Nodes = append(m.Nodes, n)
	}
	m.Latent = append(m.Latent, w.Latent...)
	return Blob{record.KindMechanism, m}
}

// Model is a world as oracles have it: causes first.
func Model(w *world.World) record.Mechanism {
	m := record.Mechanism{Nodes: slices.Clone(w.Nodes), Latent: append([]string{}, w.Latent...)}
	for i := range m.Nodes {
		if m.Nodes[i].Parents == nil {
			m.Nodes[i].Parents = []string{}
		}
	}
	return m
}

// joint shows the distribution of variables with the graph over them.
func (f *Frame) joint(w *world.World, variables []string) Blob {
	listing := f.order("joint", variables)
	j := record.Joint{Variables: listing, P: w.Joint(listing), Graph: true, Directed: [][2]string{}, Bidirected: [][2]string{}}
	hidden := *w
	hidden.Latent = slices.DeleteFunc(w.Names(), func(v string) bool { return slices.Contains(listing, v) })
	g := hidden.Graph(listing)
	for v := range g.Len() {
		for _, c := range g.Children(v) {
			j.Directed = append(j.Directed, [2]string{g.Name(v), g.Name(c)})
		}
		for _, s := range g.Siblings(v) {
			if v < s {
				j.Bidirected = append(j.Bidirected, [2]string{g.Name(v), g.Name(s)})
			}
		}
	}
	return Blob{record.KindJoint, j}
}

const (
	observation    = "observation"
	intervention   = "intervention"
	counterfactual = "counterfactual"
	structure      = "structure"
	decision       = "decision"
)

// start is an item with what all have.
func (f *Frame) start(key, topic, family, rung string, w *world.World, q record.Query) *Item {
	it := &Item{Key: key, Condition: 1}
	it.Case = record.PublicCase{Family: family, Rung: rung, Query: q, Stage: 1,
		Assumptions: []string{}, AllowedTools: []string{"calc"}, AnswerFormat: []string{"status", "value", "confidence"}}
	it.Oracle = record.PrivateOracle{Topic: topic, Motif: w.Motif, Model: Model(w), Status: record.Answer, Tol: Tolerance}
	return it
}

const exact = "The mechanism is complete: noise is independent between variables, and each draw of it picks one table of a variable."

// numeric asks for a probability under a mechanism that is shown.
func (f *Frame) numeric(key, topic, rung string, w *world.World, q record.Query) *Item {
	q.Kind = record.Probability
	it := f.start(key, topic, topic, rung, w, q)
	it.Blobs = []Blob{f.mechanism(w)}
	it.Case.Assumptions = append(it.Case.Assumptions, exact)
	it.Case.Question = f.ask(key, rung, q)
	it.Condition = condition(w, rung, q)
	if it.Condition == 0 {
		it.Unsound = "impossible_condition"
		return it
	}
	r, err := w.Model.Rungs(q.SCM())
	if err != nil {
		panic(err) // the query is of the model
	}
	it.Oracle.Rungs = &r
	it.Oracle.Value = map[string]*float64{observation: r.Association, intervention: r.Intervention, counterfactual: r.Abduced}[rung]
	it.Oracle.Formula = formula(rung, q)
	if it.Oracle.Value == nil {
		it.Unsound = "impossible_condition"
	}
	return it
}

// condition is the probability of what a question is conditioned on, where that is
// seen.
func condition(w *world.World, rung string, q record.Query) float64 {
	switch rung {
	case observation:
		return w.Probability(q.Given)
	case intervention:
		if len(q.Given) == 0 {
			return 1
		}
		return w.Ask(scm.Intervention, scm.Query{Target: q.Given, Do: q.Do})
	}
	p := w.Probability(q.Factual)
	if p > 0 && len(q.Given) > 0 {
		p *= w.Ask(scm.Counterfactual, scm.Query{Target: q.Given, Do: q.Do, Factual: q.Factual})
	}
	return p
}

// wrong notes what a mistake answers; nil where it has no answer.
func (it *Item) wrong(mistake string, value *float64) *Item {
	if value == nil || it.Unsound != "" {
		return it
	}
	if it.Oracle.Wrong == nil {
		it.Oracle.Wrong = map[string]float64{}
	}
	it.Oracle.Wrong[mistake] = *value
	return it
}

// wrongRung notes the values of the rungs that are not asked for.
func (it *Item) wrongRung(names ...string) *Item {
	if r := it.Oracle.Rungs; r != nil {
		for _, name := range names {
			it.wrong(name, map[string]*float64{"rung1": r.Association, "rung2": r.Intervention, "resampled": r.Resampled}[name])
		}
	}
	return it
}

// trap joins the item to its twin.
func (it *Item) trap(label string, twin *Item) *Item {
	it.Pair, it.Label = it.Key, label
	twin.Pair, twin.Label, twin.Twin = it.Key, label, true
	return it
}

// Check says whether an item is a case, and why not: a mistake must be farther off
// than the tolerance, and the condition not too rare.
func (it *Item) Check() (reason string, ok bool) {
	if it.Unsound != "" {
		return it.Unsound, false
	}
	if it.Condition < Rare {
		return "rare_condition", false
	}
	if w := it.Oracle.Witness; w != nil && w.Gap <= it.Oracle.Tol {
		return "witness_under_tolerance", false
	}
	for _, x := range it.Oracle.Wrong {
		if math.Abs(x-*it.Oracle.Value) <= it.Oracle.Tol {
			return "mistake_under_tolerance", false
		}
	}
	return "", true
}

// causes asks whether a treatment has any effect, perhaps with other variables held.
func (f *Frame) causes(key, topic string, w *world.World, x, y string, held record.Values) *Item {
	q := record.Query{Kind: record.Causes, Treatment: x, Outcome: y, Do: held}
	it := f.start(key, topic, topic, intervention, w, q)
	it.Blobs = []Blob{f.mechanism(w)}
	it.Case.Assumptions = append(it.Case.Assumptions, exact)
	it.Case.AnswerFormat = []string{"status", "label", "confidence"}
	it.Case.Question = f.askCauses(key, q)
	moved := math.Abs(effect(w, x, y, held))
	switch {
	case moved > it.Oracle.Tol:
		it.Oracle.Label = "yes"
	case moved < least:
		it.Oracle.Label = "no"
	default:
		it.Unsound = "effect_under_tolerance"
	}
	it.Oracle.Formula = fmt.Sprintf("P(%s=1|do(%s=1%s)) - P(%[1]s=1|do(%[2]s=0%[3]s)) != 0", y, x, tail(held))
	return it
}

func tail(held record.Values) string {
	if len(held) == 0 {
		return ""
	}
	return "," + terms(held)
}

// effect is how much setting x to 1 instead of 0 moves the probability of y, with other
// variables held.
func effect(w *world.World, x, y string, held record.Values) float64 {
	do := func(v int) float64 {
		set := maps.Clone(held)
		if set == nil {
			set = record.Values{}
		}
		set[x] = v
		return w.Ask(scm.Intervention, scm.Query{Target: record.Values{y: 1}, Do: set})
	}
	return do(1) - do(0)
}

// contrast asks for an effect under a mechanism that is shown.
func (f *Frame) contrast(key, topic string, w *world.World, effect bayes.Effect) *Item {
	q := record.Query{Kind: record.Effect, Effect: string(effect), Treatment: w.X, Outcome: w.Y}
	rung := intervention
	if effect != bayes.ATE {
		rung = counterfactual
	}
	it := f.start(key, topic, topic, rung, w, q)
	it.Blobs = []Blob{f.mechanism(w)}
	it.Case.Assumptions = append(it.Case.Assumptions, exact)
	it.Case.Question = f.askEffect(key, q)
	value, err := w.Model.Effect(bayes.Contrast{Effect: effect, Treatment: w.X, Outcome: w.Y})
	if err != nil {
		it.Unsound = "impossible_condition"
		return it
	}
	it.Oracle.Value = &value
	it.Oracle.Formula = fmt.Sprintf("%s of %s on %s", effect, w.X, w.Y)
	return it
}
