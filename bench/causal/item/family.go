package item

import (
	"maps"
	"math"
	"slices"

	"assay/bench/causal/bayes"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// Family makes the items of one world.
type Family struct {
	Topic string // the row of C9's table
	Make  func(f *Frame) []*Item
}

// Families are the rows of C9's table, and discovery. Tool-mediated reasoning is a
// variant of the others' items.
var Families = []Family{
	{"association", association},
	{"confounding", confounding},
	{"collider", collider},
	{"mediation", mediation},
	{"chains", chains},
	{"interventions", interventions},
	{"counterfactuals", counterfactuals},
	{"interaction", interaction},
	{"insufficient_evidence", insufficient},
	{"discovery", discovery},
	{"root_cause", rootCause},
	{"negative_evidence", negativeEvidence},
	{"active_experiments", activeExperiments},
	{"sequential_revision", revision},
	{"provenance", provenance},
}

func one(name string) record.Values { return record.Values{name: 1} }

// doX asks for P(y=1|do(x=value)), seeX for P(y=1|x=value).
func (f *Frame) doX(key, topic string, w *world.World, value int) *Item {
	return f.numeric(key, topic, intervention, w, record.Query{Target: one(w.Y), Do: record.Values{w.X: value}})
}

func (f *Frame) seeX(key, topic string, w *world.World, value int) *Item {
	return f.numeric(key, topic, observation, w, record.Query{Target: one(w.Y), Given: record.Values{w.X: value}})
}

func association(f *Frame) []*Item {
	const topic = "association"
	s := world.Pick(f.rand("shape"), []world.Shape{world.Fork, world.LatentFork})
	apart, joined := f.draw(s), f.draw(world.Confounded)
	if s.Motif == world.LatentFork.Motif {
		joined = f.draw(world.Bow)
	}
	direct := f.draw(world.Direct)
	trap, twin := f.doX("do", topic, apart, 1).wrongRung("rung1"), f.doX("do_direct", topic, direct, 1)
	causes, edge := f.causes("causes", topic, apart, apart.X, apart.Y, nil), f.causes("causes_edge", topic, joined, joined.X, joined.Y, nil)
	return []*Item{
		trap.trap("correlation_as_causation", twin), twin,
		causes.trap("correlation_as_causation", edge), edge,
		f.seeX("see", topic, apart, 1).wrong("rung2", trap.Oracle.Value),
	}
}

func confounding(f *Frame) []*Item {
	const topic = "confounding"
	w := f.draw(world.Pick(f.rand("shape"), []world.Shape{world.Confounded, world.Bow}))
	direct, reversed := f.draw(world.Direct), f.draw(world.Reversed)
	do, removed := f.doX("do", topic, w, 1).wrongRung("rung1"), f.doX("do_removed", topic, direct, 1)
	do0, see0 := f.doX("do0", topic, w, 0).wrongRung("rung1"), f.seeX("see0", topic, w, 0)
	back, forth := f.causes("causes_reversed", topic, reversed, reversed.X, reversed.Y, nil), f.causes("causes", topic, direct, direct.X, direct.Y, nil)
	return []*Item{
		do.trap("confounding_neglect", removed), removed,
		do0.trap("observation_intervention_confusion", see0), see0,
		back.trap("reverse_causation", forth), forth,
		f.numeric("do_effect", topic, intervention, direct, record.Query{Target: one(direct.X), Do: one(direct.Y)}).wrongRung("rung1"),
	}
}

func collider(f *Frame) []*Item {
	const topic = "collider"
	w := f.draw(world.Pick(f.rand("shape"), []world.Shape{world.Collider, world.ColliderEdge}))
	all := f.doX("do", topic, w, 1)
	selected := f.doX("do_selected", topic, w, 1)
	selected.Case.Assumptions = append(selected.Case.Assumptions, "Cases are on record only where "+w.Z+" = 1; the question is about all cases, on record or not.")
	both := record.Values{w.X: 1, w.Z: 1}
	seen := f.numeric("see_both", topic, observation, w, record.Query{Target: one(w.Y), Given: both})
	alone := f.seeX("see", topic, w, 1)
	selected.wrong("selected", seen.Oracle.Value)
	return []*Item{
		selected.trap("collider_selection_bias", all), all,
		seen.wrong("unconditioned", alone.Oracle.Value), alone,
	}
}

func mediation(f *Frame) []*Item {
	const topic = "mediation"
	w := f.draw(world.Mediation)
	ate, nde, nie := f.contrast("ate", topic, w, bayes.ATE), f.contrast("nde", topic, w, bayes.NDE), f.contrast("nie", topic, w, bayes.NIE)
	ate.wrong("direct", nde.Oracle.Value)
	nde.wrong("total", ate.Oracle.Value)
	nie.wrong("total", ate.Oracle.Value)
	seen, hidden := f.identify("total", topic, w, w.Observed()), f.identify("total_hidden", topic, w, []string{w.X, w.Y})
	adjusted := 0.0
	for m := range 2 {
		p := w.Ask(scm.Association, scm.Query{Target: one(w.Y), Given: record.Values{w.X: 1, w.Z: m}})
		adjusted += float64(p * w.Probability(record.Values{w.Z: m}))
	}
	seen.wrong("adjusted_for_mediator", &adjusted)
	return []*Item{ate, nde, nie, seen.trap("mediator_misuse", hidden), hidden, f.links("links", topic, w)}
}

func chains(f *Frame) []*Item {
	const topic = "chains"
	w := f.draw(world.Pick(f.rand("shape"), []world.Shape{world.Chain, world.LongChain}))
	random := f.draw(world.Random(f.seed.Derive("random"), 6))
	late, early := f.causes("arrives_late", topic, w, w.X, w.Y, nil), f.causes("arrives_early", topic, w, w.X, w.Y, nil)
	f.arrivals(late, w, true)
	f.arrivals(early, w, false)
	return []*Item{
		f.doX("do", topic, w, 1),
		f.numeric("do_effect", topic, intervention, w, record.Query{Target: one(w.X), Do: one(w.Y)}).wrongRung("rung1"),
		f.doX("do_random", topic, random, 1),
		f.seeX("see_random", topic, random, 0),
		late.trap("temporal_order_shortcut", early), early,
		f.links("links", topic, w),
	}
}

// arrivals adds the order in which reports of an episode came in.
func (f *Frame) arrivals(it *Item, w *world.World, against bool) {
	e := w.Sample(f.rand("arrivals"))
	r := f.rand("delays")
	var t record.Telemetry
	at := 0
	names := w.Observed()
	if against {
		slices.Reverse(names)
	}
	for _, v := range names {
		at += r.Between(1, 40)
		t.Seen = append(t.Seen, record.Reading{At: at, Variable: v, Value: e.Values[v]})
	}
	it.Blobs = append(it.Blobs, Blob{record.KindTelemetry, t})
	it.Case.Assumptions = append(it.Case.Assumptions, "Times are those at which reports arrived; reports of different variables take different times.")
}

func (f *Frame) motif() *world.World {
	r := f.rand("motif")
	switch {
	case f.final:
		return f.draw(world.Pick(r, world.HeldOut))
	case r.Chance(400):
		return f.draw(world.Random(f.seed.Derive("random"), 6))
	}
	return f.draw(world.Pick(r, world.Motifs))
}

func interventions(f *Frame) []*Item {
	const topic = "interventions"
	w := f.motif()
	items := []*Item{f.doX("do1", topic, w, 1), f.doX("do0", topic, w, 0), f.contrast("ate", topic, w, bayes.ATE)}
	if w.Z != "" && w.Z != w.X && w.Z != w.Y && math.Abs(effect(w, w.X, w.Z, nil)) < least {
		items = append(items, f.numeric("do_given", topic, intervention, w, record.Query{Target: one(w.Y), Do: one(w.X), Given: one(w.Z)}))
	}
	if f.final {
		items = append(items, f.identify("identify", topic, w, w.Observed()))
	}
	return items
}

func counterfactuals(f *Frame) []*Item {
	const topic = "counterfactuals"
	w := f.motif()
	e := w.Sample(f.rand("episode"))
	seen := record.Values{w.X: e.Values[w.X], w.Y: e.Values[w.Y]}
	other, same := record.Values{w.X: 1 - seen[w.X]}, record.Values{w.X: seen[w.X]}
	target := record.Values{w.Y: seen[w.Y]}
	would := f.numeric("would", topic, counterfactual, w, record.Query{Target: target, Do: other, Factual: seen}).wrongRung("rung2")
	population := f.numeric("population", topic, intervention, w, record.Query{Target: target, Do: other})
	items := []*Item{would.trap("intervention_counterfactual_confusion", population), population}
	would.CFLink = population.Key
	consistent := f.numeric("consistent", topic, counterfactual, w, record.Query{Target: target, Do: same, Factual: seen}).wrongRung("rung2")
	items = append(items, consistent)
	if third := f.unaffected(w); third != "" {
		more := maps.Clone(seen)
		more[third] = e.Values[third]
		reused := f.numeric("all_facts", topic, counterfactual, w, record.Query{Target: target, Do: other, Factual: more}).wrongRung("resampled")
		before := f.numeric("facts_before", topic, counterfactual, w, record.Query{Target: target, Do: other, Factual: record.Values{third: e.Values[third]}})
		items = append(items, reused.trap("incorrect_noise_reuse", before), before)
	}
	for _, it := range items {
		if it.Case.Rung == counterfactual {
			it.Oracle.Factual = &e
		}
	}
	return append(items, f.contrast("ett", topic, w, bayes.ETT))
}

// unaffected is an observed variable that X has no effect on.
func (f *Frame) unaffected(w *world.World) string {
	for _, v := range w.Observed() {
		if v != w.X && v != w.Y && math.Abs(effect(w, w.X, v, nil)) < least {
			return v
		}
	}
	return ""
}

func interaction(f *Frame) []*Item {
	const topic = "interaction"
	both, either := f.draw(world.Interaction), f.draw(world.Independent)
	alone := record.Values{both.Z: 0}
	needs, enough := f.causes("alone", topic, both, both.X, both.Y, alone), f.causes("alone_enough", topic, either, either.X, either.Y, alone)
	together := f.numeric("do_both", topic, intervention, both, record.Query{Target: one(both.Y), Do: record.Values{both.X: 1, both.Z: 1}})
	single := f.numeric("do_alone", topic, intervention, both, record.Query{Target: one(both.Y), Do: record.Values{both.X: 1, both.Z: 0}})
	single.wrong("joint_cause_omitted", together.Oracle.Value)
	y := int(math.Round(*together.Oracle.Value)) // what mostly follows from both
	without := f.numeric("without", topic, counterfactual, both, record.Query{
		Target: record.Values{both.Y: y}, Do: record.Values{both.Z: 0}, Factual: record.Values{both.X: 1, both.Z: 1, both.Y: y}})
	still := 1.0
	without.wrong("joint_cause_omitted", &still)
	return []*Item{needs.trap("omitted_joint_cause", enough), enough, together, single, without, f.links("links", topic, both), f.links("links_either", topic, either)}
}
