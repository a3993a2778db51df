// Package label decides which labels of C9's failure taxonomy a trace earns: what is on
// record of one case in one run, beside what is true of it.
//
// A label says how an answer went wrong, and needs what shows just that: the value that
// one known mistake gives, a right answer to the twin in which the same mistake does no
// harm, or an operation in the trace. A wrong answer that shows none of them is
// Unexplained. What a trace does not say is unknown: neither held against the agent nor
// counted in its favour.
package label

import (
	"math"
	"slices"

	"assay/bench/causal/record"
)

// Trace is what is on record of one case in one run.
type Trace struct {
	Case   *record.PublicCase
	Oracle *record.PrivateOracle
	// Response is what the agent answered; nil if it gave none.
	Response *record.AgentResponse
	// Events are the calls of tools in their order; with Traced false it is not known which
	// there were.
	Events []record.ToolEvent
	Traced bool
	// Blobs are the evidence that the case shows, and what tools answered, by the hex
	// SHA-256 of the bytes. What is not there is unknown.
	Blobs map[string][]byte
	// Reasoning is what the agent wrote on the way, and Memory what it keeps beyond the
	// episode, as far as they are on record.
	Reasoning, Memory []string
	// Scored is what a scorer made of the answer: whether it is right; nil if none did.
	Scored *bool
	// Crashed says that the harness failed.
	Crashed bool
}

// Truth is whether something holds.
type Truth int

// The truths. Unknown is what the trace does not tell.
const (
	Unknown Truth = iota
	No
	Yes
)

func (t Truth) String() string { return [...]string{"unknown", "no", "yes"}[t] }

func truth(holds bool) Truth {
	if holds {
		return Yes
	}
	return No
}

// and is Yes if all are, and No if one is.
func and(all ...Truth) Truth {
	switch {
	case slices.Contains(all, No):
		return No
	case slices.Contains(all, Unknown):
		return Unknown
	}
	return Yes
}

// Label is one of the taxonomy's.
type Label struct {
	Name string
	// By says what decides: the answer to the twin too, the answer to the case alone, or
	// tools' calls and what else is on record.
	By string
	// Mistake is the member of the oracle's wrong that has what the mistake gives.
	Mistake string
	holds   func(t, twin *Trace) Truth
}

// What decides a label.
const (
	ByTwin   = "twin"
	ByAnswer = "answer"
	ByTrace  = "trace"
)

// Unexplained is a wrong answer that earns no label that says how.
const Unexplained = "unexplained"

// Labels lists the taxonomy.
var Labels = slices.Concat([]Label{
	twinned("correlation_as_causation", "rung1", says("yes")),
	twinned("reverse_causation", "", says("yes")),
	twinned("confounding_neglect", "rung1", never),
	twinned("collider_selection_bias", "selected", never),
	twinned("mediator_misuse", "adjusted_for_mediator", never),
	twinned("temporal_order_shortcut", "", wrong),
	answer("observation_intervention_confusion", "rung1", on("intervention")),
	answer("intervention_counterfactual_confusion", "rung2", on("counterfactual")),
	answer("incorrect_noise_reuse", "resampled", on("counterfactual")),
	answer("omitted_joint_cause", "joint_cause_omitted", always),
	answer("source_duplication", "copies_as_independent", always),
	answer("stale_mechanism", "stale", always),
	answer("absence_as_proof", "absence_is_proof", always),
}, []Label{
	{"non_identifiability_ignored", ByAnswer, "", alone(valueWithoutOne)},
	{"unsupported_certainty", ByAnswer, "", alone(certain)},
	{"symptom_root_cause_confusion", ByAnswer, "", alone(namesSymptom)},
	{"experiment_avoidance", ByTrace, "", alone(avoidsExperiment)},
	{"costly_irrelevant_experiment", ByTrace, "", alone(irrelevantExperiment)},
	{"mechanism_fabrication", ByTrace, "", alone(fabricates)},
	{"graph_retrieval_failure", ByTrace, "", alone(edgeNotRetrieved)},
	{"retrieved_and_misreasoned", ByTrace, "", alone(misreasons)},
	{"routing_bypass", ByTrace, "", alone(bypasses)},
	{"oracle_leakage", ByTrace, "", alone(leaked)},
	{"harness_failure", ByTrace, "", alone(harnessFailed)},
})

// twinned is the label of a mistake, by the number that it gives or otherwise, in a trap
// whose twin was answered rightly.
func twinned(name, mistake string, otherwise rule) Label {
	made := isTrap(name, either(gives(mistake), otherwise))
	return Label{name, ByTwin, mistake, func(t, twin *Trace) Truth {
		right := Unknown
		if twin != nil && t.Oracle.Pair != nil && twin.Oracle.Pair != nil && twin.Oracle.Pair.Twin && twin.Oracle.Pair.ID == t.Oracle.Pair.ID {
			right = Right(twin)
		}
		return and(made(t), right)
	}}
}

// answer is the label of a number that a mistake gives, or in a trap of its own of a yes
// that is wrong.
func answer(name, mistake string, where rule) Label {
	return Label{name, ByAnswer, mistake, func(t, _ *Trace) Truth {
		return and(where(t), either(gives(mistake), isTrap(name, says("yes")))(t))
	}}
}

// Decide says whether a trace earns a label. twin is the trace of the case's twin in the
// same run, nil where there is none.
func Decide(name string, t, twin *Trace) Truth {
	for _, l := range Labels {
		if l.Name == name {
			return l.holds(t, twin)
		}
	}
	return Unknown
}

// Of lists the labels that a trace earns, in the order of Labels; Unexplained where the
// answer is wrong and earns none that says how.
func Of(t, twin *Trace) []string {
	var out []string
	explained := false
	for _, l := range Labels {
		if l.holds(t, twin) == Yes {
			out = append(out, l.Name)
			explained = explained || l.Name != "unsupported_certainty" // says how sure, not how
		}
	}
	if wrong(t) == Yes && !explained {
		out = append(out, Unexplained)
	}
	return out
}

// MachineryBypassed says whether no tool was called in all of a run's cases whose evidence
// was to be had from tools alone.
func MachineryBypassed(run []*Trace) Truth {
	all := []Truth{}
	for _, t := range run {
		if len(t.Oracle.Deliveries) > 0 {
			all = append(all, bypasses(t))
		}
	}
	if len(all) == 0 {
		return Unknown
	}
	return and(all...)
}

type rule func(t *Trace) Truth

func alone(r rule) func(t, twin *Trace) Truth {
	return func(t, _ *Trace) Truth { return r(t) }
}

func always(*Trace) Truth { return Yes }
func never(*Trace) Truth  { return No }

func on(rung string) rule {
	return func(t *Trace) Truth { return truth(t.Case.Rung == rung) }
}

// isTrap restricts a rule to the traps of a label.
func isTrap(label string, r rule) rule {
	return func(t *Trace) Truth {
		p := t.Oracle.Pair
		return and(truth(p != nil && p.Label == label && !p.Twin), r(t))
	}
}

// either is Yes if one is.
func either(rules ...rule) rule {
	return func(t *Trace) Truth {
		out := No
		for _, r := range rules {
			switch r(t) {
			case Yes:
				return Yes
			case Unknown:
				out = Unknown
			}
		}
		return out
	}
}

// says is an answer that is a word, and the wrong one.
func says(word string) rule {
	return func(t *Trace) Truth {
		if t.Case.Query.Kind != record.Causes {
			return No
		}
		return t.answers(func(r *record.AgentResponse) bool {
			return r.Label != nil && *r.Label == word && word != t.Oracle.Label
		})
	}
}

// gives is the number that a known mistake gives, and not the right one: a mistake may
// be so little farther off than the tolerance that one answer is near to both.
func gives(mistake string) rule {
	return func(t *Trace) Truth {
		x, known := t.Oracle.Wrong[mistake]
		if !known {
			return No // here it gives what is true, or nothing
		}
		near := t.answers(func(r *record.AgentResponse) bool { return r.Value != nil && math.Abs(*r.Value-x) <= t.Oracle.Tol })
		return and(near, wrong(t))
	}
}

// answers says whether the agent committed to an answer that has something.
func (t *Trace) answers(has func(r *record.AgentResponse) bool) Truth {
	if t.Response == nil {
		return Unknown
	}
	return truth(t.Response.Status == record.Answer && has(t.Response))
}

// wrong is an answer, and not the right one: to abstain is no wrong answer.
func wrong(t *Trace) Truth {
	if t.Response == nil {
		return Unknown
	}
	if s := t.Response.Status; s != record.Answer && s != record.NotIdentifiable {
		return No
	}
	switch Right(t) {
	case Yes:
		return No
	case No:
		return Yes
	}
	return Unknown
}

func valueWithoutOne(t *Trace) Truth {
	return and(truth(t.Oracle.Witness != nil), t.answers(func(r *record.AgentResponse) bool { return r.Value != nil }))
}

// sure is the confidence from which on an answer is called certain.
const sure = 0.9

func certain(t *Trace) Truth {
	r := t.Response
	if r == nil || r.Confidence == nil {
		return Unknown
	}
	return and(truth(*r.Confidence >= sure), either(valueWithoutOne, wrong)(t))
}

// Right says whether an answer is what is true: within the tolerance, the same word, the
// same class of graphs, an experiment or action that nothing beats. Of a diagnosis it is
// that all hypotheses are named that cannot be told apart; to name one of them that
// happens to be the true one is neither right nor wrong. Of links it is not decided here.
func Right(t *Trace) Truth {
	r, o := t.Response, t.Oracle
	if r == nil {
		return Unknown
	}
	if o.Status == record.NotIdentifiable || r.Status == record.NotIdentifiable {
		return truth(r.Status == o.Status)
	}
	if t.Case.Query.Kind == record.Diagnosis {
		return diagnosed(r, o)
	}
	if r.Status != record.Answer {
		return No
	}
	near := func(x, want *float64) bool { return x != nil && want != nil && math.Abs(*x-*want) <= o.Tol }
	free := func(id *string, regret map[string]float64) bool {
		if id == nil {
			return false
		}
		x, known := regret[*id]
		return known && x <= rounding
	}
	switch t.Case.Query.Kind {
	case record.Probability, record.Effect:
		return truth(near(r.Value, o.Value))
	case record.Bounds:
		return truth(near(r.Low, o.Low) && near(r.High, o.High))
	case record.Causes:
		return truth(r.Label != nil && *r.Label == o.Label)
	case record.Structure:
		return truth(o.Edges != nil && sameClass(r.Edges, o.Edges))
	case record.Choice:
		return truth(o.Live != nil && free(r.Experiment, o.Live.InformationRegret))
	case record.Repair:
		return truth(o.Live != nil && free(r.Action, o.Live.Regret))
	}
	return Unknown
}

// rounding is how far apart regrets are that are the same.
const rounding = 1e-9

func diagnosed(r *record.AgentResponse, o *record.PrivateOracle) Truth {
	if o.Live == nil {
		return Unknown
	}
	want := slices.Sorted(slices.Values(o.Live.IdentifiedSet))
	set := slices.Clone(r.Set)
	if len(set) == 0 && r.Label != nil {
		set = []string{*r.Label}
	}
	slices.Sort(set)
	switch {
	case r.Status == record.NeedInfo:
		return truth(len(want) > 1)
	case r.Status != record.Answer:
		return No
	case slices.Equal(set, want):
		return Yes
	case len(want) > 1 && len(set) == 1 && set[0] == o.Live.True:
		return Unknown
	}
	return No
}

func sameClass(got []record.Edge, want *record.Edges) bool {
	key := func(a, b string, directed bool) [3]string {
		if directed {
			return [3]string{a, b, "directed"}
		}
		return [3]string{min(a, b), max(a, b), ""}
	}
	edges := map[[3]string]bool{}
	for _, e := range got {
		edges[key(e.Cause, e.Effect, e.Directed)] = true
	}
	for _, e := range want.Directed {
		if !edges[key(e[0], e[1], true)] {
			return false
		}
	}
	for _, e := range want.Undirected {
		if !edges[key(e[0], e[1], false)] {
			return false
		}
	}
	return len(edges) == len(want.Directed)+len(want.Undirected)
}
