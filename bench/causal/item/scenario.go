package item

import (
	"fmt"
	"maps"
	"slices"

	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// threshold is a mechanism of one parent: 1 with so many thousandths for each of its
// values, by one draw for all.
func threshold(ones ...int) []scm.Table {
	levels := append(slices.Clone(ones), 1000)
	slices.Sort(levels)
	levels = slices.Compact(levels)
	var weights []scm.Thousandths
	var tables [][]int
	low := 0
	for _, level := range levels {
		values := make([]int, len(ones))
		for row, p := range ones {
			if p >= level {
				values[row] = 1
			}
		}
		weights, tables = append(weights, scm.Thousandths(level-low)), append(tables, values)
		low = level
	}
	return scm.Mixture(weights, tables)
}

// incident is an episode of the incident simulator: one component of four failed, what
// it failed at went on to two shared parts and to the symptom.
type incident struct {
	w          *world.World
	cause      string
	components []string // hypotheses: value i of cause is components[i]
	shared     [2]string
	symptom    string
	bystander  string // a reading that has nothing to do with it
	episode    world.Episode
}

func (f *Frame) incident() incident {
	r := f.rand("incident")
	in := incident{cause: "root_cause", symptom: f.name("S"), bystander: f.name("N"), shared: [2]string{f.name("D1"), f.name("D2")}}
	for _, v := range []string{"K0", "K1", "K2", "K3"} {
		in.components = append(in.components, f.name(v))
	}
	weights, left := make([]scm.Thousandths, 4), 1000
	values := [][]int{{0}, {1}, {2}, {3}}
	for i := range 3 {
		weights[i] = scm.Thousandths(r.Between(180, 280))
		left -= int(weights[i])
	}
	weights[3] = scm.Thousandths(left)
	nodes := []scm.Node{{Name: in.cause, Tables: scm.Mixture(weights, values)}}
	for i, k := range in.components {
		ones := []int{0, 0, 0, 0}
		for h := range ones {
			ones[h] = r.Between(20, 90)
		}
		ones[i] = r.Between(900, 980)
		nodes = append(nodes, scm.Node{Name: k, Parents: []string{in.cause}, Tables: threshold(ones...)})
	}
	or := func(name string, parents ...string) {
		strengths := []scm.Thousandths{scm.Thousandths(r.Between(750, 950)), scm.Thousandths(r.Between(750, 950))}
		nodes = append(nodes, scm.Node{Name: name, Parents: parents, Tables: scm.NoisyOr(strengths, scm.Thousandths(r.Between(20, 60)))})
	}
	or(in.shared[0], in.components[0], in.components[1])
	or(in.shared[1], in.components[2], in.components[3])
	or(in.symptom, in.shared[0], in.shared[1])
	nodes = append(nodes, scm.Node{Name: in.bystander, Tables: scm.Root(scm.Thousandths(r.Between(300, 700)))})
	in.w = world.New("incident", nodes)
	in.w.X, in.w.Y = in.shared[0], in.symptom
	for episodes := f.rand("episode"); in.episode.Values[in.symptom] != 1; {
		in.episode = in.w.Sample(episodes)
	}
	return in
}

func (in incident) seen(variables ...string) record.Values {
	out := record.Values{}
	for _, v := range variables {
		out[v] = in.episode.Values[v]
	}
	return out
}

// menu is what may be looked at: a component, a shared part, the symptom once a part
// is held healthy, and perhaps the bystander.
func (in incident) menu(f *Frame, bystander bool) []record.Experiment {
	r := f.rand("costs")
	cost := func() float64 { return float64(r.Between(1, 4)) / 2 }
	out := []record.Experiment{
		{Cost: cost(), Observe: in.components[0]},
		{Cost: cost(), Observe: in.components[3]},
		{Cost: cost(), Observe: in.shared[1]},
		{Cost: cost(), Do: record.Values{in.shared[0]: 0}, Observe: in.symptom},
	}
	if bystander {
		out = append(out, record.Experiment{Cost: 4, Observe: in.bystander})
	}
	world.Shuffle(f.dress.Derive("menu").Rand(), out)
	for i := range out {
		out[i].ID = fmt.Sprintf("e%d", i+1)
	}
	return out
}

func (in incident) actions(f *Frame) []record.Action {
	r := f.rand("losses")
	down := r.Between(20, 40)
	var out []record.Action
	for _, k := range append(slices.Clone(in.components), "") {
		a := record.Action{Loss: map[string]float64{}}
		price := float64(r.Between(1, 6))
		for _, h := range in.components {
			a.Loss[h] = price + float64(down)
			if h == k {
				a.Loss[h] = price
			}
		}
		a.ID = "repair_" + k
		if k == "" { // replace everything
			a.ID = "replace_all"
			for _, h := range in.components {
				a.Loss[h] = float64(down * 2 / 3)
			}
		}
		out = append(out, a)
	}
	return out
}

// incidentItem asks something about the incident with what has been seen of it.
func (f *Frame) incidentItem(key, topic, kind string, in incident, delivered record.Values, experiments []record.Experiment, actions []record.Action) *Item {
	it := f.start(key, topic, topic, decision, in.w, record.Query{Kind: kind})
	telemetry := record.Telemetry{Seen: []record.Reading{}}
	at := f.rand("arrivals")
	clock := 0
	for _, v := range f.order("telemetry "+key, slices.Sorted(maps.Keys(delivered))) {
		clock += at.Between(1, 30)
		telemetry.Seen = append(telemetry.Seen, record.Reading{At: clock, Variable: v, Value: delivered[v]})
	}
	it.Blobs = []Blob{f.mechanism(in.w), {record.KindTelemetry, telemetry}}
	it.Case.AllowedTools = []string{"calc", "graph", "logs", "sandbox"}
	it.Case.Assumptions = append(it.Case.Assumptions, exact, "Value i of "+in.cause+" is the i-th hypothesis, counted from 0. Just one component failed.")
	it.Case.Hypotheses, it.Case.Experiments, it.Case.Actions = in.components, experiments, actions
	live, err := Judge(it.Oracle.Model, in.cause, in.components, []Look{{Seen: delivered}}, experiments, actions)
	if err != nil {
		it.Unsound = "impossible_condition"
		return it
	}
	live.Delivered = delivered
	live.True = in.components[in.episode.Values[in.cause]]
	live.Descendants = []string{in.shared[0], in.shared[1], in.symptom}
	it.Condition = in.w.Probability(delivered)
	it.Oracle.Live, it.Oracle.Factual = live, &in.episode
	switch kind {
	case record.Diagnosis:
		it.Case.AnswerFormat = []string{"status", "label", "set", "hypotheses", "confidence", "experiment"}
		it.Case.Question = f.say(key, "Which component is the root cause of the incident? Name one, or the set that cannot be told apart, or the check that you need.",
			"What failed first, as far as these readings can tell? Name it, or all that it may be, or what to look at next.")
		it.Oracle.Label = live.True
		it.Oracle.Formula = "the smallest set of posterior mass >= 0.95"
	case record.Choice:
		it.Case.AnswerFormat = []string{"status", "experiment", "confidence"}
		it.Case.Question = f.say(key, "Which of the permitted checks is expected to tell most about the root cause, in bits?",
			"Before anything is repaired: which check leaves the least doubt about what failed, on average?")
		it.Oracle.Label = best(live.InformationRegret)
		it.Oracle.Formula = "argmax of the expected information gain"
	case record.Repair:
		it.Case.AnswerFormat = []string{"status", "action", "confidence"}
		it.Case.Question = f.say(key, "Which action has the smallest expected loss now?", "What would you do now, so as to lose least on average?")
		it.Oracle.Label = best(live.Regret)
		it.Oracle.Formula = "argmin of the expected loss"
	}
	return it
}

// best is the first, by name, that has no regret.
func best(regret map[string]float64) string {
	for _, id := range slices.Sorted(maps.Keys(regret)) {
		if regret[id] == 0 {
			return id
		}
	}
	return ""
}

func rootCause(f *Frame) []*Item {
	const topic = "root_cause"
	in := f.incident()
	menu, actions := in.menu(f, false), in.actions(f)
	first := in.seen(in.symptom, in.shared[0])
	all := in.seen(append([]string{in.symptom, in.shared[0], in.shared[1]}, in.components...)...)
	open := f.incidentItem("which", topic, record.Diagnosis, in, first, menu, actions)
	told := f.incidentItem("which_told", topic, record.Diagnosis, in, all, nil, actions)
	told.Case.Stage, told.Episode, open.Episode = 2, "incident", "incident"
	repair := f.incidentItem("repair", topic, record.Repair, in, first, menu, actions)
	informed := f.incidentItem("repair_told", topic, record.Repair, in, all, nil, actions)
	informed.Case.Stage, informed.Episode, repair.Episode = 2, "repair", "repair"
	if open.Oracle.Live != nil && len(open.Oracle.Live.IdentifiedSet) < 2 {
		open.Unsound = "nothing_to_tell_apart"
	}
	return []*Item{open.trap("symptom_root_cause_confusion", told), told, repair, informed}
}

func activeExperiments(f *Frame) []*Item {
	const topic = "active_experiments"
	in := f.incident()
	first := in.seen(in.symptom)
	actions := in.actions(f)
	wide, narrow := in.menu(f, true), in.menu(f, false)
	choice := f.incidentItem("choice", topic, record.Choice, in, first, wide, nil)
	plain := f.incidentItem("choice_plain", topic, record.Choice, in, first, narrow, nil)
	hasty := f.incidentItem("repair_or_test", topic, record.Repair, in, first, narrow, actions)
	told := f.incidentItem("repair_told", topic, record.Repair, in, in.seen(append([]string{in.symptom}, in.components...)...), narrow, actions)
	told.Case.Stage, told.Episode, hasty.Episode = 2, "repair", "repair"
	if told.Oracle.Live != nil && len(told.Oracle.Live.IdentifiedSet) > 1 {
		told.Unsound = "nothing_is_told"
	}
	if live := hasty.Oracle.Live; live != nil && slices.Max(slices.Collect(maps.Values(live.NetValue))) <= 0 {
		hasty.Unsound = "no_check_pays"
	}
	return []*Item{choice.trap("costly_irrelevant_experiment", plain), plain, hasty.trap("experiment_avoidance", told), told}
}

// negativeEvidence: an event is reported if its sensor covers it and the report is not
// late; silence is weak evidence, and how weak depends on what is known of the sensor.
func negativeEvidence(f *Frame) []*Item {
	const topic = "negative_evidence"
	r := f.rand("sensor")
	e, covers, late, seen := f.name("E"), f.name("A"), f.name("L"), f.name("R")
	w := world.New("sensor", []scm.Node{
		{Name: e, Tables: scm.Root(scm.Thousandths(r.Between(350, 650)))},
		{Name: covers, Tables: scm.Root(scm.Thousandths(r.Between(450, 800)))},
		{Name: late, Tables: scm.Root(scm.Thousandths(r.Between(100, 400)))},
		// 1 where there is an event, coverage and no delay
		{Name: seen, Parents: []string{e, covers, late}, Tables: scm.Mixture([]scm.Thousandths{1000}, [][]int{{0, 0, 0, 0, 0, 0, 1, 0}})},
	})
	w.X, w.Y = e, seen
	prior, none := w.Probability(one(e)), 0.0
	ask := func(key string, given record.Values) *Item {
		it := f.numeric(key, topic, observation, w, record.Query{Target: one(e), Given: given})
		return it
	}
	silent := ask("silent", record.Values{seen: 0}).wrong("absence_ignored", &prior).wrong("absence_is_proof", &none)
	covered := ask("silent_covered", record.Values{seen: 0, covers: 1}).wrong("absence_ignored", &prior).wrong("coverage_unknown", silent.Oracle.Value)
	full := ask("silent_in_time", record.Values{seen: 0, covers: 1, late: 0}).wrong("absence_ignored", &prior)
	blind := ask("silent_uncovered", record.Values{seen: 0, covers: 0}).wrong("absence_is_proof", &none)
	return []*Item{silent.trap("absence_as_proof", full), full, covered, blind}
}

// revision has three stages: a reading, one that speaks against it, and then either the
// news that the first sensor reads the wrong way round, or that it was checked.
func revision(f *Frame) []*Item {
	const topic = "sequential_revision"
	r := f.rand("revision")
	h, a, b, g, c := f.name("H"), f.name("R1"), f.name("R2"), f.name("G"), f.name("Q")
	prior, other := scm.Root(scm.Thousandths(r.Between(350, 650))), scm.Root(scm.Thousandths(r.Between(350, 650)))
	good, bad := r.Between(750, 900), r.Between(80, 250)
	second := threshold(r.Between(200, 350), r.Between(600, 750))
	third := threshold(r.Between(100, 300), r.Between(700, 900))
	draw := func(motif string, first []scm.Table) *world.World {
		w := world.New(motif, []scm.Node{
			{Name: h, Tables: prior}, {Name: g, Tables: other},
			{Name: a, Parents: []string{h}, Tables: first}, {Name: b, Parents: []string{h}, Tables: second}, {Name: c, Parents: []string{g}, Tables: third},
		})
		w.X, w.Y = h, a
		return w
	}
	before, turned := draw("sensors", threshold(bad, good)), draw("sensors_revised", threshold(good, bad))
	stage := func(key string, n int, w *world.World, episode string, target string, given record.Values) *Item {
		it := f.numeric(key, topic, observation, w, record.Query{Target: one(target), Given: given})
		it.Case.Stage, it.Episode = n, episode
		var t record.Telemetry
		for i, v := range []string{a, c, b} { // as they came
			if x, ok := given[v]; ok {
				t.Seen = append(t.Seen, record.Reading{At: 10 * (i + 1), Variable: v, Value: x})
			}
		}
		it.Blobs = append(it.Blobs, Blob{record.KindTelemetry, t})
		return it
	}
	read := record.Values{a: 1, c: 1}
	more := record.Values{a: 1, b: 0, c: 1}
	var items []*Item
	for _, episode := range []string{"revised", "confirmed"} {
		items = append(items, stage(episode+"_1", 1, before, episode, h, read), stage(episode+"_2", 2, before, episode, h, more))
	}
	stale := items[1].Oracle.Value
	changed := stage("revised_3", 3, turned, "revised", h, more).wrong("stale", stale)
	changed.Oracle.Stale = stale
	changed.Case.Assumptions = append(changed.Case.Assumptions, "News: "+a+" reads the wrong way round; the mechanism shown now replaces the earlier one.")
	kept := stage("confirmed_3", 3, before, "confirmed", h, more)
	kept.Case.Assumptions = append(kept.Case.Assumptions, "News: "+a+" was checked and reads as the mechanism says.")
	independent := stage("independent_3", 3, turned, "revised", g, more)
	independent.Case.Assumptions = append(independent.Case.Assumptions, changed.Case.Assumptions[len(changed.Case.Assumptions)-1])
	return append(items, changed.trap("stale_mechanism", kept), kept, independent)
}

// provenance: three reports that copy one source, or that have sources of their own.
func provenance(f *Frame) []*Item {
	const topic = "provenance"
	r := f.rand("reports")
	h := f.name("H")
	reports := []string{f.name("P1"), f.name("P2"), f.name("P3")}
	sources := []string{f.name("S1"), f.name("S2"), f.name("S3")}
	prior := scm.Root(scm.Thousandths(r.Between(300, 600)))
	accuracy := threshold(r.Between(150, 300), r.Between(650, 850))
	faithful := threshold(r.Between(10, 30), r.Between(960, 990))
	draw := func(motif string, source func(i int) string, n int) *world.World {
		nodes := []scm.Node{{Name: h, Tables: prior}}
		for i := range n {
			nodes = append(nodes, scm.Node{Name: sources[i], Parents: []string{h}, Tables: accuracy})
		}
		for i, p := range reports {
			nodes = append(nodes, scm.Node{Name: p, Parents: []string{source(i)}, Tables: faithful})
		}
		w := world.New(motif, nodes)
		w.X, w.Y = h, reports[0]
		return w
	}
	copies := draw("one_source", func(int) string { return sources[0] }, 1)
	apart := draw("three_sources", func(i int) string { return sources[i] }, 3)
	given := record.Values{reports[0]: 1, reports[1]: 1, reports[2]: 1}
	ask := func(key string, w *world.World, given record.Values, source func(i int) string) *Item {
		it := f.numeric(key, topic, observation, w, record.Query{Target: one(h), Given: given})
		var t record.Telemetry
		for i, p := range reports {
			if x, ok := given[p]; ok {
				t.Seen = append(t.Seen, record.Reading{At: 10*i + 5, Variable: p, Value: x, Source: source(i)})
			}
		}
		it.Blobs = append(it.Blobs, Blob{record.KindTelemetry, t})
		return it
	}
	same, own := func(int) string { return sources[0] }, func(i int) string { return sources[i] }
	independent := ask("independent", apart, given, own)
	duplicated := ask("copies", copies, given, same).wrong("copies_as_independent", independent.Oracle.Value)
	first := ask("first", copies, record.Values{reports[0]: 1}, same)
	mixed := ask("mixed", apart, record.Values{reports[0]: 1, reports[1]: 0, reports[2]: 1}, own)
	return []*Item{duplicated.trap("source_duplication", independent), independent, first, mixed}
}
