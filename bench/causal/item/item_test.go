package item

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"assay/bench/causal"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

func frame(seed, dress string, skin int, paraphrased bool) *Frame {
	return NewFrame(world.SeedOf(seed), world.SeedOf(dress), world.Skins[skin], false, paraphrased)
}

// numbers is what of an oracle has no names.
func numbers(it *Item) any {
	o := it.Oracle
	type answers struct {
		Key, Status, Motif    string
		Value, Low, High      *float64
		Rungs                 *scm.Rungs
		Wrong                 map[string]float64
		Directed, Undirected  int
		Gap                   float64
		Identified            int
		Posterior, Loss, Bits []float64
		Pair                  string
		Twin                  bool
		Unsound               string
	}
	a := answers{Key: it.Key, Status: o.Status, Motif: o.Motif, Value: o.Value, Low: o.Low, High: o.High, Rungs: o.Rungs, Wrong: o.Wrong, Pair: it.Pair, Twin: it.Twin, Unsound: it.Unsound}
	if o.Edges != nil {
		a.Directed, a.Undirected = len(o.Edges.Directed), len(o.Edges.Undirected)
	}
	if o.Witness != nil {
		a.Gap = o.Witness.Gap
	}
	if o.Live != nil {
		a.Identified = len(o.Live.IdentifiedSet)
		sorted := func(m map[string]float64) []float64 { return slices.Sorted(maps.Values(m)) }
		a.Posterior, a.Loss, a.Bits = sorted(o.Live.Posterior), sorted(o.Live.ExpectedLoss), sorted(o.Live.EIGBits)
	}
	return a
}

// near compares numbers that were added up in another order.
func near(a, b any) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	if va.Kind() != vb.Kind() {
		return false
	}
	switch va.Kind() {
	case reflect.Float64:
		return math.Abs(va.Float()-vb.Float()) < 1e-12
	case reflect.Pointer:
		return va.IsNil() && vb.IsNil() || !va.IsNil() && !vb.IsNil() && near(va.Elem().Interface(), vb.Elem().Interface())
	case reflect.Slice:
		if va.Len() != vb.Len() {
			return false
		}
		for i := range va.Len() {
			if !near(va.Index(i).Interface(), vb.Index(i).Interface()) {
				return false
			}
		}
		return true
	case reflect.Map:
		if va.Len() != vb.Len() {
			return false
		}
		for _, k := range va.MapKeys() {
			if !vb.MapIndex(k).IsValid() || !near(va.MapIndex(k).Interface(), vb.MapIndex(k).Interface()) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range va.NumField() {
			if !near(va.Field(i).Interface(), vb.Field(i).Interface()) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// Names, order and words change no answer; they do change what is shown.
func TestDressingChangesNoAnswer(t *testing.T) {
	for _, family := range Families {
		for _, seed := range []string{"1", "2", "3", "4"} {
			plain := family.Make(frame(seed, "a", 0, false))
			for name, other := range map[string][]*Item{
				"other names": family.Make(frame(seed, "b", 0, false)),
				"nonsense":    family.Make(frame(seed, "c", len(world.Skins)-1, false)),
				"other words": family.Make(frame(seed, "a", 0, true)),
			} {
				if len(plain) != len(other) {
					t.Fatalf("%s %s, %s: %d items, not %d", family.Topic, seed, name, len(other), len(plain))
				}
				for i, it := range plain {
					if a, b := numbers(it), numbers(other[i]); !near(a, b) {
						t.Errorf("%s %s, %s: %s\n%+v\n%+v", family.Topic, seed, name, it.Key, a, b)
					}
					sameWords := it.Case.Question == other[i].Case.Question
					sameQuery := reflect.DeepEqual(it.Case.Query, other[i].Case.Query)
					if name == "other words" && (sameWords || !sameQuery || !reflect.DeepEqual(it.Blobs, other[i].Blobs)) {
						t.Errorf("%s: %q is not paraphrased, or more than that", it.Key, it.Case.Question)
					}
				}
			}
		}
	}
}

// Keys are unique, traps have twins, and every item has what its answer format asks.
func TestItems(t *testing.T) {
	labels := map[string]bool{}
	for _, family := range Families {
		for _, seed := range []string{"x", "y", "z", "v", "w"} {
			seen := map[string]bool{}
			pairs := map[string][2]int{}
			for _, it := range family.Make(frame(seed, "d", 1, false)) {
				if seen[it.Key] {
					t.Errorf("%s: two items are called %s", family.Topic, it.Key)
				}
				seen[it.Key] = true
				if it.Pair != "" {
					p := pairs[it.Pair]
					p[map[bool]int{false: 0, true: 1}[it.Twin]]++
					pairs[it.Pair], labels[it.Label] = p, true
				}
				if _, ok := it.Check(); !ok {
					continue
				}
				o := it.Oracle
				for _, asked := range it.Case.AnswerFormat {
					missing := false
					switch asked {
					case "value":
						missing = o.Value == nil && o.Status == record.Answer
					case "low", "high":
						missing = o.Low == nil || o.High == nil
					case "label", "experiment", "action":
						missing = o.Label == ""
					case "edges":
						missing = o.Edges == nil && len(o.Links) == 0
					case "set":
						missing = len(o.Live.IdentifiedSet) == 0
					}
					if missing {
						t.Errorf("%s/%s: no %s", family.Topic, it.Key, asked)
					}
				}
				if o.Status == record.NotIdentifiable && (o.Value != nil || o.Witness == nil) {
					t.Errorf("%s/%s: value %v, witness %v", family.Topic, it.Key, o.Value, o.Witness)
				}
			}
			for key, p := range pairs {
				if p != [2]int{1, 1} {
					t.Errorf("%s: pair %s has %d traps and %d twins", family.Topic, key, p[0], p[1])
				}
			}
		}
	}
	for _, want := range []string{"correlation_as_causation", "reverse_causation", "confounding_neglect", "collider_selection_bias", "mediator_misuse",
		"temporal_order_shortcut", "symptom_root_cause_confusion", "omitted_joint_cause", "observation_intervention_confusion",
		"intervention_counterfactual_confusion", "incorrect_noise_reuse", "non_identifiability_ignored", "source_duplication",
		"stale_mechanism", "experiment_avoidance", "costly_irrelevant_experiment"} {
		if !labels[want] {
			t.Errorf("no pair licenses %s", want)
		}
	}
}

func TestCheck(t *testing.T) {
	value := 0.5
	for name, tc := range map[string]struct {
		it   Item
		want string
	}{
		"a case":           {Item{Condition: 1, Oracle: record.PrivateOracle{Value: &value, Tol: 0.02, Wrong: map[string]float64{"rung1": 0.53}}}, ""},
		"a near mistake":   {Item{Condition: 1, Oracle: record.PrivateOracle{Value: &value, Tol: 0.02, Wrong: map[string]float64{"rung1": 0.51}}}, "mistake_under_tolerance"},
		"a rare condition": {Item{Condition: Rare / 2, Oracle: record.PrivateOracle{Value: &value}}, "rare_condition"},
		"a small gap":      {Item{Condition: 1, Oracle: record.PrivateOracle{Tol: 0.02, Witness: &record.Witness{Gap: 0.02}}}, "witness_under_tolerance"},
		"unsound":          {Item{Condition: 1, Unsound: "unfaithful"}, "unfaithful"},
	} {
		if got, ok := tc.it.Check(); got != tc.want || ok != (tc.want == "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// The incident of the hand cases: F has values 0, 1, 2 with .5, .3, .2; K is 1 with
// .1, .9, .9, and S follows K. N is a coin.
func model() record.Mechanism {
	return record.Mechanism{Latent: []string{}, Nodes: []scm.Node{
		{Name: "F", Tables: []scm.Table{{P: .5, Values: []int{0}}, {P: .3, Values: []int{1}}, {P: .2, Values: []int{2}}}},
		{Name: "K", Parents: []string{"F"}, Tables: []scm.Table{{P: .1, Values: []int{1, 1, 1}}, {P: .8, Values: []int{0, 1, 1}}, {P: .1, Values: []int{0, 0, 0}}}},
		{Name: "S", Parents: []string{"K"}, Tables: []scm.Table{{P: .75, Values: []int{0, 1}}, {P: .25, Values: []int{0, 0}}}},
		{Name: "N", Tables: []scm.Table{{P: .5, Values: []int{0}}, {P: .5, Values: []int{1}}}},
	}}
}

var (
	hypotheses = []string{"a", "b", "c"}
	actions    = []record.Action{{ID: "fix_a", Loss: map[string]float64{"a": 1, "b": 11, "c": 11}}, {ID: "all", Loss: map[string]float64{"a": 4, "b": 4, "c": 4}}}
)

// Every answer is worked out in its comment.
func TestJudge(t *testing.T) {
	look := func(seen record.Values) Look { return Look{Seen: seen} }
	for name, tc := range map[string]struct {
		looks      []Look
		posterior  [3]float64
		identified []string
		regret     [2]float64
	}{
		// Losses .5*1 + .5*11 = 6 and 4.
		"nothing seen": {nil, [3]float64{.5, .3, .2}, []string{"a", "b", "c"}, [2]float64{2, 0}},
		// P(K=1) = .05 + .27 + .18 = .5; fix_a loses 10 * .9 + 1 = 10.
		"a part that failed": {[]Look{look(record.Values{"K": 1})}, [3]float64{.1, .54, .36}, []string{"a", "b", "c"}, [2]float64{6, 0}},
		// P(K=0) = .45 + .03 + .02 = .5; fix_a loses 1 + 10 * .1 = 2.
		"a part that did not": {[]Look{look(record.Values{"K": 0})}, [3]float64{.9, .06, .04}, []string{"a", "b"}, [2]float64{0, 2}},
		// S = 0 in the episode and, with K forced to 1, S = 1: S listens, so K was 0.
		"an experiment": {[]Look{look(record.Values{"S": 0}), {Do: record.Values{"K": 1}, Seen: record.Values{"S": 1}}},
			[3]float64{.9, .06, .04}, []string{"a", "b"}, [2]float64{0, 2}},
		// S = 0 with K forced to 1 shows a deaf S, which tells nothing of F.
		"a deaf symptom": {[]Look{look(record.Values{"S": 0}), {Do: record.Values{"K": 1}, Seen: record.Values{"S": 0}}},
			[3]float64{.5, .3, .2}, []string{"a", "b", "c"}, [2]float64{2, 0}},
		"something else": {[]Look{look(record.Values{"N": 1})}, [3]float64{.5, .3, .2}, []string{"a", "b", "c"}, [2]float64{2, 0}},
	} {
		live, err := Judge(model(), "F", hypotheses, tc.looks, nil, actions)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for h, p := range tc.posterior {
			if math.Abs(live.Posterior[hypotheses[h]]-p) > 1e-12 {
				t.Errorf("%s: P(%s) = %v, want %v", name, hypotheses[h], live.Posterior[hypotheses[h]], p)
			}
		}
		if !slices.Equal(live.IdentifiedSet, tc.identified) {
			t.Errorf("%s: identified %v, want %v", name, live.IdentifiedSet, tc.identified)
		}
		for i, want := range tc.regret {
			if math.Abs(live.Regret[actions[i].ID]-want) > 1e-12 {
				t.Errorf("%s: regret of %s %v, want %v", name, actions[i].ID, live.Regret[actions[i].ID], want)
			}
		}
	}
}

// Two looks that tie share the identified set; what a look tells is in bits.
func TestJudgeExperiments(t *testing.T) {
	menu := []record.Experiment{
		{ID: "part", Observe: "K"}, {ID: "idle", Observe: "N"}, {ID: "forced", Do: record.Values{"K": 1}, Observe: "S"}}
	live, err := Judge(model(), "F", hypotheses, nil, menu, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := func(p ...float64) (bits float64) {
		for _, x := range p {
			bits -= x * math.Log2(x)
		}
		return bits
	}
	// K splits the hypotheses as the hand answers of TestJudge say.
	want := h(.5, .3, .2) - .5*h(.1, .54, .36) - .5*h(.9, .06, .04)
	if got := live.EIGBits["part"]; math.Abs(got-want) > 1e-9 {
		t.Errorf("part tells %v bits, want %v", got, want)
	}
	if live.EIGBits["idle"] != 0 || live.EIGBits["forced"] != 0 {
		t.Errorf("what F has no part in tells %v and %v bits", live.EIGBits["idle"], live.EIGBits["forced"])
	}
	if live.InformationRegret["part"] != 0 || math.Abs(live.InformationRegret["idle"]-want) > 1e-9 {
		t.Errorf("information regret %v", live.InformationRegret)
	}
	// Once S = 0 is seen, forcing K tells whether S listens, and with it of K.
	seen := []Look{{Seen: record.Values{"S": 0}}}
	live, err = Judge(model(), "F", hypotheses, seen, menu, nil)
	if err != nil || !(live.EIGBits["forced"] > 0.01) {
		t.Errorf("forced tells %v bits, %v", live.EIGBits["forced"], err)
	}
	// The counterfactual of the engine is the same experiment.
	m, err := scm.New(model().Nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := 0.0
	for y := range 2 {
		p, err := m.Ask(scm.Counterfactual, scm.Query{Target: record.Values{"S": y}, Do: record.Values{"K": 1}, Factual: record.Values{"S": 0}})
		if err != nil {
			t.Fatal(err)
		}
		var posterior []float64
		for f := range 3 {
			both, err := m.Ask(scm.Counterfactual, scm.Query{Target: record.Values{"S": y, "F": f}, Do: record.Values{"K": 1}, Factual: record.Values{"S": 0}})
			if err != nil {
				t.Fatal(err)
			}
			posterior = append(posterior, both/p)
		}
		left += p * h(posterior...)
	}
	before := h(live.Posterior["a"], live.Posterior["b"], live.Posterior["c"])
	if math.Abs(before-left-live.EIGBits["forced"]) > 1e-9 {
		t.Errorf("forced tells %v bits, by the engine %v", live.EIGBits["forced"], before-left)
	}
}

// Before anything is seen replace_all loses 4. K = 1 (.5) leaves 4; K = 0 (.5) leaves
// fix_a, which loses 2: the look saves 1, and costs .25.
func TestNetValue(t *testing.T) {
	menu := []record.Experiment{{ID: "part", Cost: .25, Observe: "K"}, {ID: "idle", Cost: 3, Observe: "N"}}
	live, err := Judge(model(), "F", hypotheses, nil, menu, actions)
	if err != nil || math.Abs(live.NetValue["part"]-.75) > 1e-12 || live.NetValue["idle"] != -3 {
		t.Errorf("net values %v, %v", live.NetValue, err)
	}
}

// Signs, conditions and mediators, worked out from the tables.
func TestLinks(t *testing.T) {
	w := world.New("links", []scm.Node{
		{Name: "A", Tables: scm.Root(500)},
		{Name: "B", Tables: scm.Root(500)},
		// A and B, unless it fails: each needs the other.
		{Name: "C", Parents: []string{"A", "B"}, Tables: scm.And(2, 900)},
		// C holds D down.
		{Name: "D", Parents: []string{"C"}, Tables: []scm.Table{{P: .8, Values: []int{1, 0}}, {P: .2, Values: []int{1, 1}}}},
		// D up without A, down with it.
		{Name: "E", Parents: []string{"A", "D"}, Tables: []scm.Table{{P: 1, Values: []int{0, 1, 1, 0}}}},
	})
	want := []record.Link{
		{Cause: "A", Effect: "C", Direct: true, Sign: positive, Condition: record.Values{"B": 1}},
		{Cause: "B", Effect: "C", Direct: true, Sign: positive, Condition: record.Values{"A": 1}},
		{Cause: "A", Effect: "D", Sign: negative, Mediators: []string{"C"}},
		{Cause: "B", Effect: "D", Sign: negative, Mediators: []string{"C"}},
		{Cause: "C", Effect: "D", Direct: true, Sign: negative},
		{Cause: "A", Effect: "E", Direct: true, Sign: mixed, Mediators: []string{"C", "D"}},
		{Cause: "B", Effect: "E", Sign: positive, Mediators: []string{"C", "D"}}, // with A = 1 it keeps D down, and E up; without A nothing
		{Cause: "D", Effect: "E", Direct: true, Sign: mixed},
	}
	got := Links(w)
	find := func(cause, effect string) record.Link {
		i := slices.IndexFunc(got, func(l record.Link) bool { return l.Cause == cause && l.Effect == effect })
		if i < 0 {
			return record.Link{}
		}
		return got[i]
	}
	for _, right := range want {
		if l := find(right.Cause, right.Effect); !reflect.DeepEqual(l, right) {
			t.Errorf("%+v, want %+v", l, right)
		}
	}
	// C holds D down, so that E falls without A and rises with it: on the whole nothing.
	if len(got) != len(want) {
		t.Errorf("%d links, not %d: %+v", len(got), len(want), got)
	}
}

func TestJudgeFaults(t *testing.T) {
	impossible := model()
	impossible.Nodes[2].Tables = []scm.Table{{P: 1, Values: []int{0, 1}}} // S is K
	for name, tc := range map[string]struct {
		m     record.Mechanism
		cause string
		looks []Look
		acts  []record.Action
		want  error
	}{
		"no such cause":        {model(), "Q", nil, nil, causal.ErrInvalid},
		"a cause of two":       {model(), "K", nil, nil, causal.ErrInvalid},
		"no such reading":      {model(), "F", []Look{{Seen: record.Values{"Q": 1}}}, nil, causal.ErrInvalid},
		"no such value":        {model(), "F", []Look{{Seen: record.Values{"K": 2}}}, nil, causal.ErrInvalid},
		"forced to no value":   {model(), "F", []Look{{Do: record.Values{"K": -1}}}, nil, causal.ErrInvalid},
		"a loss left out":      {model(), "F", nil, []record.Action{{ID: "x", Loss: map[string]float64{"a": 1}}}, causal.ErrInvalid},
		"impossible readings":  {impossible, "F", []Look{{Seen: record.Values{"K": 1, "S": 0}}}, nil, causal.ErrZeroProbability},
		"contradicting looks":  {model(), "F", []Look{{Seen: record.Values{"K": 1}}, {Seen: record.Values{"K": 0}}}, nil, causal.ErrZeroProbability},
		"the arrows go round":  {record.Mechanism{Nodes: []scm.Node{{Name: "F", Parents: []string{"F"}, Tables: []scm.Table{{P: 1, Values: []int{0, 1}}}}}}, "F", nil, nil, causal.ErrCyclic},
		"chances that are not": {record.Mechanism{Nodes: []scm.Node{{Name: "F", Tables: []scm.Table{{P: .999, Values: []int{0}}}}}}, "F", nil, nil, causal.ErrInvalid},
	} {
		if _, err := Judge(tc.m, tc.cause, hypotheses, tc.looks, nil, tc.acts); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// An experiment in an episode has the episode's noise.
func TestPerform(t *testing.T) {
	seed := world.SeedOf("perform")
	f := frame("perform", "d", 0, false)
	in := f.incident()
	m := Model(in.w)
	for name, x := range in.episode.Values {
		if got, err := Perform(m, in.episode, record.Experiment{Observe: name}); err != nil || got != x {
			t.Errorf("%s is %d, %v; it was %d", name, got, err, x)
		}
	}
	backwards := m // the order in which a model is listed makes no difference
	backwards.Nodes = slices.Clone(m.Nodes)
	slices.Reverse(backwards.Nodes)
	for name, x := range in.episode.Values {
		if got, err := Perform(backwards, in.episode, record.Experiment{Observe: name}); err != nil || got != x {
			t.Errorf("listed backwards, %s is %d, %v; it was %d", name, got, err, x)
		}
	}
	// What many episodes show is what the model says.
	r := seed.Rand()
	const n = 20_000
	x := record.Experiment{Do: record.Values{in.shared[0]: 0}, Observe: in.symptom}
	hits := 0
	for range n {
		y, err := Perform(m, in.w.Sample(r), x)
		if err != nil {
			t.Fatal(err)
		}
		hits += y
	}
	p := in.w.Ask(scm.Intervention, scm.Query{Target: record.Values{in.symptom: 1}, Do: x.Do})
	if z := (float64(hits) - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(z) > 5 {
		t.Errorf("%d of %d, P = %v: z = %.2f", hits, n, p, z)
	}
	for name, bad := range map[string]struct {
		e world.Episode
		x record.Experiment
	}{
		"no such variable": {in.episode, record.Experiment{Observe: "Q"}},
		"nothing to force": {in.episode, record.Experiment{Do: record.Values{"Q": 1}, Observe: in.symptom}},
		"no such value":    {in.episode, record.Experiment{Do: record.Values{in.shared[0]: 7}, Observe: in.symptom}},
		"no noise":         {world.Episode{}, record.Experiment{Observe: in.symptom}},
	} {
		if _, err := Perform(m, bad.e, bad.x); !errors.Is(err, causal.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Duplicated reports are worth one, and independent ones more.
func TestProvenance(t *testing.T) {
	items := map[string]*Item{}
	for _, it := range provenance(frame("p", "d", 0, false)) {
		items[it.Key] = it
	}
	copies, first, own := *items["copies"].Oracle.Value, *items["first"].Oracle.Value, *items["independent"].Oracle.Value
	if !(copies < own) || math.Abs(copies-first) > 0.05 {
		t.Errorf("one report %v, its copies %v, reports of their own %v", first, copies, own)
	}
}

// What is known of single cases without a mechanism is just what the witness reaches.
func TestBoundsAreSharp(t *testing.T) {
	for _, seed := range []string{"1", "2", "3", "4", "5", "6"} {
		items := map[string]*Item{}
		for _, it := range insufficient(frame(seed, "d", 0, false)) {
			items[it.Key] = it
		}
		values := items["necessity"].Oracle.Witness.Values
		pn := items["bounds_pn"].Oracle
		if math.Abs(min(values[0], values[1])-*pn.Low) > 1e-12 || math.Abs(max(values[0], values[1])-*pn.High) > 1e-12 {
			t.Errorf("%s: the witness has %v, the bounds are %v and %v", seed, values, *pn.Low, *pn.High)
		}
	}
}

// Samples have the frequencies of the world, and are the same under other names.
func TestSamples(t *testing.T) {
	sorted := map[string][]int{}
	for _, dress := range []string{"a", "b"} {
		f := frame("s", dress, 0, false)
		w := f.draw(world.Confounded)
		listing := f.order("joint", w.Observed())
		s := f.samples(w, listing, Samples)
		for cell, p := range w.Joint(listing) {
			off := float64(s.Counts[cell]) - Samples*p
			if math.Abs(off) > 5*math.Sqrt(Samples*p*(1-p)) {
				t.Errorf("cell %d of %v was drawn %d times, its chance is %v", cell, listing, s.Counts[cell], p)
			}
		}
		sorted[dress] = slices.Sorted(slices.Values(s.Counts))
	}
	if !slices.Equal(sorted["a"], sorted["b"]) {
		t.Errorf("other names, other samples: %v", sorted)
	}
}

// The held-out structures are asked about in the final split alone.
func TestHeldOut(t *testing.T) {
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		for _, family := range Families {
			for _, final := range []bool{false, true} {
				held := 0
				f := NewFrame(world.SeedOf(seed), world.SeedOf("d"), world.Skins[0], final, false)
				for _, it := range family.Make(f) {
					for _, s := range world.HeldOut {
						if it.Oracle.Motif == s.Motif {
							held++
						}
					}
				}
				if !final && held > 0 || final && held == 0 && (family.Topic == "interventions" || family.Topic == "counterfactuals") {
					t.Errorf("%s, final %v: %d items of held-out structures", family.Topic, final, held)
				}
			}
		}
	}
}

// Each item of each family is a case in some worlds, and in most of those that have it.
func TestItemsAreCases(t *testing.T) {
	const worlds = 60
	for _, family := range Families {
		kept, all := map[string]int{}, map[string]int{}
		reasons := map[string]map[string]int{}
		for i := range worlds {
			for _, it := range family.Make(frame(strconv.Itoa(i), "d", 0, false)) {
				all[it.Key]++
				if reason, ok := it.Check(); ok {
					kept[it.Key]++
				} else {
					if reasons[it.Key] == nil {
						reasons[it.Key] = map[string]int{}
					}
					reasons[it.Key][reason]++
				}
			}
		}
		for key, n := range all {
			if 3*kept[key] < n {
				t.Errorf("%s/%s: a case in %d of %d worlds: %v", family.Topic, key, kept[key], n, reasons[key])
			}
		}
	}
}
