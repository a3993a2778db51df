package label_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"assay/bench/causal/label"
	"assay/bench/causal/record"
	"assay/bench/causal/set"
)

// worlds are real cases of each family.
var worlds = sync.OnceValue(func() *set.Set {
	s, err := set.Generate(context.Background(), set.Recipe{V: record.Version, BenchVersion: set.BenchVersion, Seed: "labels", Split: set.Dev, Worlds: 60}, nil)
	if err != nil {
		panic(err)
	}
	return s
})

// planted is a trace that earns a label, and that of the case's twin, answered rightly.
func planted(t *testing.T, name string, of func(k *set.Case) bool) (trace, twin *label.Trace) {
	t.Helper()
	s := worlds()
	for i := range s.Cases {
		k := &s.Cases[i]
		trace, ok := label.Plant(name, &k.Public, &k.Oracle, s.Blobs)
		if !ok || of != nil && !of(k) {
			continue
		}
		for j := range s.Cases {
			if p := s.Cases[j].Oracle.Pair; p != nil && k.Oracle.Pair != nil && p.ID == k.Oracle.Pair.ID && p.Twin {
				twin = label.Perfect(&s.Cases[j].Public, &s.Cases[j].Oracle, s.Blobs)
			}
		}
		return trace, twin
	}
	t.Fatalf("no case carries %s", name)
	return nil, nil
}

func clone[T any](v T) *T { return &v }

// Each label is earned by its mistake, and by nothing that lacks one part of what
// licenses it; what is not on record is unknown.
func TestDecide(t *testing.T) {
	abstains := func(t, _ *label.Trace) { t.Response = &record.AgentResponse{Status: record.Abstain} }
	silent := func(t, _ *label.Trace) { t.Response = nil }
	elsewhere := func(t, _ *label.Trace) { t.Response.Value = clone(*t.Response.Value + 3*t.Oracle.Tol) }
	twinWrong := func(_, twin *label.Trace) {
		twin.Response = clone(*twin.Response)
		if twin.Response.Label != nil {
			twin.Response.Label = clone("neither")
		} else {
			twin.Response.Value = clone(*twin.Response.Value + .1)
		}
	}
	twinSilent := func(_, twin *label.Trace) { twin.Response = nil }
	untraced := func(t, _ *label.Trace) { t.Traced, t.Events = false, nil }
	type change struct {
		how  func(t, twin *label.Trace)
		want label.Truth
	}
	byTwin := map[string]change{
		"the twin is wrong too": {twinWrong, label.No}, "no twin on record": {twinSilent, label.Unknown},
		"it abstains": {abstains, label.No}, "no answer": {silent, label.Unknown},
	}
	byValue := map[string]change{"another value": {elsewhere, label.No}, "it abstains": {abstains, label.No}, "no answer": {silent, label.Unknown}}
	for name, changes := range map[string]map[string]change{
		"correlation_as_causation":              byTwin,
		"reverse_causation":                     byTwin,
		"confounding_neglect":                   byTwin,
		"collider_selection_bias":               byTwin,
		"mediator_misuse":                       byTwin,
		"temporal_order_shortcut":               {"the twin is wrong too": {twinWrong, label.No}, "no twin on record": {twinSilent, label.Unknown}, "it abstains": {abstains, label.No}},
		"observation_intervention_confusion":    byValue,
		"intervention_counterfactual_confusion": byValue,
		"incorrect_noise_reuse":                 byValue,
		"source_duplication":                    byValue,
		"stale_mechanism":                       byValue,
		"absence_as_proof":                      byValue,
		"omitted_joint_cause":                   {"it abstains": {abstains, label.No}, "no answer": {silent, label.Unknown}},
		"non_identifiability_ignored": {
			"it abstains": {abstains, label.No}, "no answer": {silent, label.Unknown},
			"it says so": {func(t, _ *label.Trace) { t.Response.Status, t.Response.Value = record.NotIdentifiable, nil }, label.No},
		},
		"unsupported_certainty": {
			"less sure":     {func(t, _ *label.Trace) { t.Response.Confidence = clone(.89) }, label.No},
			"no confidence": {func(t, _ *label.Trace) { t.Response.Confidence = nil }, label.Unknown},
			"it is right":   {func(t, _ *label.Trace) { t.Response.Status, t.Response.Value = record.NotIdentifiable, nil }, label.No},
		},
		"symptom_root_cause_confusion": {
			"no answer":          {silent, label.Unknown},
			"the cause":          {func(t, _ *label.Trace) { t.Response.Label = &t.Oracle.Live.True }, label.No},
			"another hypothesis": {func(t, _ *label.Trace) { t.Response.Label = &t.Case.Hypotheses[0] }, label.No},
		},
		"experiment_avoidance": {
			"not on record": {untraced, label.Unknown},
			"it tested":     {func(t, _ *label.Trace) { t.Events = experiment(t, "e1", false) }, label.No},
			"a test failed": {func(t, _ *label.Trace) { t.Events = experiment(t, "e1", true) }, label.Yes},
			"no such test":  {func(t, _ *label.Trace) { t.Events = experiment(t, "e99", false) }, label.Yes},
			"it waits":      {abstains, label.No},
			"nothing pays":  {func(t, _ *label.Trace) { t.Oracle.Live.NetValue = map[string]float64{"e1": -1} }, label.No},
		},
		"costly_irrelevant_experiment": {
			"not on record":   {untraced, label.Unknown},
			"no test":         {func(t, _ *label.Trace) { t.Events = nil }, label.No},
			"one that tells":  {func(t, _ *label.Trace) { t.Events = experiment(t, t.Oracle.Label, false) }, label.No},
			"the same again":  {func(t, _ *label.Trace) { t.Events = slices.Repeat(experiment(t, t.Oracle.Label, false), 2) }, label.Yes},
			"it was refused":  {func(t, _ *label.Trace) { t.Events[0].Failed = true }, label.No},
			"no such episode": {func(t, _ *label.Trace) { t.Oracle.Factual = nil }, label.Unknown},
		},
		"mechanism_fabrication": {
			"no claim":               {func(t, _ *label.Trace) { t.Response.Edges = nil }, label.No},
			"the other way":          {func(t, _ *label.Trace) { e := &t.Response.Edges[0]; e.Cause, e.Effect = e.Effect, e.Cause }, label.No},
			"evidence not on record": {func(t, _ *label.Trace) { t.Blobs = nil }, label.Unknown},
			"nobody":                 {func(t, _ *label.Trace) { t.Response.Edges[0].Effect = "nobody" }, label.Yes},
		},
		"graph_retrieval_failure": {
			"not on record":     {untraced, label.Unknown},
			"the whole graph":   {func(t, _ *label.Trace) { t.Events, t.Blobs = perfect(t) }, label.No},
			"the graph by hash": {func(t, _ *label.Trace) { t.Events, _ = perfect(t); t.Blobs = nil }, label.No},
			"an unknown answer": {func(t, _ *label.Trace) { t.Blobs = nil }, label.Unknown},
			"no call":           {func(t, _ *label.Trace) { t.Events = nil }, label.No},
		},
		"retrieved_and_misreasoned": {
			"not on record": {untraced, label.Unknown},
			"no call":       {func(t, _ *label.Trace) { t.Events = nil }, label.No},
			"it is right":   {func(t, _ *label.Trace) { t.Response.Value = t.Oracle.Value }, label.No},
			"it abstains":   {abstains, label.No},
		},
		"routing_bypass": {
			"not on record": {untraced, label.Unknown},
			"it asked":      {func(t, _ *label.Trace) { t.Events, _ = perfect(t) }, label.No},
			"no answer":     {silent, label.Unknown},
		},
		"oracle_leakage": {
			"no secret": {func(t, _ *label.Trace) { t.Response.ClaimText = clone("The seed is secret.") }, label.No},
			"in arguments": {func(t, _ *label.Trace) {
				t.Response.ClaimText = nil
				t.Events = []record.ToolEvent{{Args: []byte(`{"scm":"` + t.Oracle.SCMHash + `"}`)}}
			}, label.Yes},
			"the case's id":  {func(t, _ *label.Trace) { t.Response.ClaimText = &t.Oracle.CaseID }, label.No},
			"kept":           {func(t, _ *label.Trace) { t.Response.ClaimText = nil; t.Memory = []string{"world " + t.Oracle.WorldID} }, label.Yes},
			"memory unknown": {func(t, _ *label.Trace) { t.Response.ClaimText, t.Memory = nil, nil }, label.Unknown},
		},
		"harness_failure": {
			"scored rightly": {func(t, _ *label.Trace) { t.Scored = clone(true) }, label.No},
			"not scored":     {func(t, _ *label.Trace) { t.Scored = nil }, label.Unknown},
			"it crashed":     {func(t, _ *label.Trace) { t.Scored, t.Response, t.Crashed = nil, nil, true }, label.Yes},
		},
	} {
		if trace, twin := planted(t, name, nil); label.Decide(name, trace, twin) != label.Yes {
			t.Errorf("%s is not earned", name)
		}
		for what, c := range changes {
			trace, twin := planted(t, name, nil)
			trace.Oracle = clone(*trace.Oracle)
			if trace.Oracle.Live != nil {
				trace.Oracle.Live = clone(*trace.Oracle.Live)
			}
			c.how(trace, twin)
			if got := label.Decide(name, trace, twin); got != c.want {
				t.Errorf("%s, %s: %v, want %v", name, what, got, c.want)
			}
		}
	}
	if label.Decide("no_such_label", &label.Trace{}, nil) != label.Unknown {
		t.Error("a label that is none is decided")
	}
}

func experiment(t *label.Trace, id string, failed bool) []record.ToolEvent {
	return []record.ToolEvent{{CaseID: t.Case.CaseID, Seq: 1, Tool: "sandbox", Args: []byte(`{"experiment":"` + id + `"}`), Failed: failed}}
}

func perfect(t *label.Trace) ([]record.ToolEvent, map[string][]byte) {
	p := label.Perfect(t.Case, t.Oracle, t.Blobs)
	return p.Events, p.Blobs
}

// A part that the incident did not need is a symptom, one that alone let it through is
// not: keeping that healthy would have prevented the incident.
func TestSymptoms(t *testing.T) {
	s := worlds()
	seen := map[label.Truth]int{}
	for i := range s.Cases {
		k := &s.Cases[i]
		if k.Public.Query.Kind != record.Diagnosis {
			continue
		}
		live, e := k.Oracle.Live, k.Oracle.Factual
		for _, part := range live.Descendants[:2] {
			trace := label.Perfect(&k.Public, &k.Oracle, s.Blobs)
			trace.Response.Set, trace.Response.Label = nil, &part
			got := label.Decide("symptom_root_cause_confusion", trace, nil)
			seen[got]++
			if e.Values[part] == 0 && got != label.Yes {
				t.Errorf("%s was healthy as it was, and is called a cause: %v", part, got)
			}
		}
	}
	if seen[label.Yes] == 0 || seen[label.No] == 0 || seen[label.Unknown] > 0 {
		t.Errorf("%v", seen)
	}
}

// A wrong answer that shows no mistake is unexplained; to be sure of it explains nothing.
// TestRightEarnsNothing: an answer that is right within the tolerance is no mistake, though
// one has nearly the same number.
func TestRightEarnsNothing(t *testing.T) {
	for _, l := range label.Labels {
		if l.Mistake == "" {
			continue
		}
		trace, twin := planted(t, l.Name, func(k *set.Case) bool { _, ok := k.Oracle.Wrong[l.Mistake]; return ok })
		mistake, tol := *trace.Response.Value, trace.Oracle.Tol
		trace.Oracle = clone(*trace.Oracle)
		trace.Oracle.Value = clone(mistake + 1.5*tol)
		for off, want := range map[float64]label.Truth{0: label.Yes, .4: label.Yes, .75: label.No, 1.5: label.No} {
			trace.Response.Value = clone(mistake + off*tol)
			if got := label.Decide(l.Name, trace, twin); got != want {
				t.Errorf("%s, %v tolerances from the mistake and %v from what is true: %v", l.Name, off, 1.5-off, got)
			}
		}
	}
}

func TestUnexplained(t *testing.T) {
	s := worlds()
	n := 0
	for i := range s.Cases {
		k := &s.Cases[i]
		if k.Public.Query.Kind != record.Probability || k.Oracle.Value == nil || len(k.Public.Evidence) == 0 {
			continue
		}
		trace := label.Perfect(&k.Public, &k.Oracle, s.Blobs)
		trace.Response.Value = clone(*k.Oracle.Value + 2)
		trace.Response.Confidence = clone(1.)
		if got := label.Of(trace, nil); !slices.Equal(got, []string{"unsupported_certainty", label.Unexplained}) {
			t.Fatalf("%v", got)
		}
		trace.Response.Status = record.Abstain
		if got := label.Of(trace, nil); len(got) > 0 {
			t.Fatalf("it abstains: %v", got)
		}
		n++
	}
	if n < 100 {
		t.Errorf("%d cases", n)
	}
}

func TestRight(t *testing.T) {
	s := worlds()
	kinds := map[string]int{}
	for i := range s.Cases {
		k := &s.Cases[i]
		kind := k.Public.Query.Kind
		trace := label.Perfect(&k.Public, &k.Oracle, s.Blobs)
		kinds[kind]++
		want := label.Yes
		if kind == record.Links {
			want = label.Unknown
		}
		if got := label.Right(trace); got != want {
			t.Fatalf("a %s case, answered with what is true: %v", kind, got)
		}
		r := trace.Response
		switch {
		case r.Status == record.NotIdentifiable:
			r.Status = record.Answer
		case kind == record.Links:
			continue
		case kind == record.Causes:
			r.Label = clone("perhaps")
		case kind == record.Structure:
			r.Edges = append(r.Edges, record.Edge{Cause: "a", Effect: "b"})
		case kind == record.Diagnosis:
			r.Set = append(slices.Clone(r.Set), "another")
		case kind == record.Choice:
			r.Experiment = nil
		case kind == record.Repair:
			r.Action = clone("nothing")
		case kind == record.Bounds:
			r.High = clone(*r.High + .1)
		default:
			r.Value = clone(math.NaN())
		}
		if got := label.Right(trace); got != label.No {
			t.Fatalf("a %s case, answered with something else: %v", kind, got)
		}
		trace.Response = nil
		if got := label.Right(trace); got != label.Unknown {
			t.Fatalf("no answer: %v", got)
		}
	}
	if len(kinds) != 9 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestMachineryBypassed(t *testing.T) {
	asked, _ := planted(t, "retrieved_and_misreasoned", nil)
	bypassed, _ := planted(t, "routing_bypass", nil)
	unknown, _ := planted(t, "routing_bypass", nil)
	unknown.Traced = false
	shown, _ := planted(t, "confounding_neglect", nil)
	for name, tc := range map[string]struct {
		run  []*label.Trace
		want label.Truth
	}{
		"no call at all":          {[]*label.Trace{bypassed, bypassed, shown}, label.Yes},
		"one call":                {[]*label.Trace{bypassed, asked}, label.No},
		"no opportunity":          {[]*label.Trace{shown}, label.Unknown},
		"one case not on record":  {[]*label.Trace{bypassed, unknown}, label.Unknown},
		"a call, and one unknown": {[]*label.Trace{unknown, asked}, label.No},
	} {
		if got := label.MachineryBypassed(tc.run); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
