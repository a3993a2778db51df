package label

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/bench/causal/record"
)

// Perfect is the trace of an agent that makes no mistake: it asks each tool that has
// evidence, makes the experiment that pays most before it acts, and answers what is true.
// It does not answer questions about links. blobs are the evidence that the case shows.
func Perfect(c *record.PublicCase, o *record.PrivateOracle, blobs map[string][]byte) *Trace {
	t := &Trace{Case: c, Oracle: o, Blobs: map[string][]byte{}, Traced: true, Reasoning: []string{}, Memory: []string{}}
	for _, e := range c.Evidence {
		name := strings.TrimPrefix(e.Ref, "sha256:")
		if b, ok := blobs[name]; ok {
			t.Blobs[name] = b
		}
	}
	for _, d := range o.Deliveries {
		t.call(d.Tool, `{}`, d.Content)
	}
	confidence := 0.8
	r := &record.AgentResponse{V: record.Version, CaseID: c.CaseID, Arm: "perfect", Stage: c.Stage, Status: o.Status, Confidence: &confidence,
		Value: o.Value, Low: o.Low, High: o.High, T: "2026-01-01T00:00:00Z"}
	switch c.Query.Kind {
	case record.Causes:
		r.Label = &o.Label
	case record.Structure:
		for _, e := range o.Edges.Directed {
			r.Edges = append(r.Edges, record.Edge{Cause: e[0], Effect: e[1], Directed: true})
		}
		for _, e := range o.Edges.Undirected {
			r.Edges = append(r.Edges, record.Edge{Cause: e[0], Effect: e[1]})
		}
	case record.Diagnosis:
		r.Set = o.Live.IdentifiedSet
	case record.Choice:
		r.Experiment = &o.Label
	case record.Repair:
		r.Action = &o.Label
		if id, x := most(o.Live.NetValue); x > 0 {
			t.experiment(id)
		}
	}
	t.Response = r
	return t
}

// call notes a call of a tool with what it answered.
func (t *Trace) call(tool, args string, answer []byte) {
	e := record.ToolEvent{V: record.Version, CaseID: t.Case.CaseID, Arm: "perfect", Seq: len(t.Events) + 1, Tool: tool, Args: []byte(args)}
	if answer != nil {
		sum := sha256.Sum256(answer)
		name := hex.EncodeToString(sum[:])
		e.ResultHash, t.Blobs[name] = &name, answer
	}
	t.Events = append(t.Events, e)
}

func (t *Trace) experiment(id string) { t.call("sandbox", `{"experiment":"`+id+`"}`, nil) }

// most is the first, by name, of the largest.
func most(of map[string]float64) (id string, x float64) {
	x = math.Inf(-1)
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if of[k] > x {
			id, x = k, of[k]
		}
	}
	return id, x
}

// Plant is a trace that earns a label, otherwise that of Perfect; ok is false where the
// case cannot carry it. Of a label by twin it earns it where the twin's trace is right.
func Plant(name string, c *record.PublicCase, o *record.PrivateOracle, blobs map[string][]byte) (t *Trace, ok bool) {
	t = Perfect(c, o, blobs)
	r := t.Response
	i := slices.IndexFunc(Labels, func(l Label) bool { return l.Name == name })
	if i < 0 {
		return nil, false
	}
	trap := o.Pair != nil && o.Pair.Label == name && !o.Pair.Twin
	switch l := Labels[i]; {
	case l.Mistake != "" || l.By == ByTwin:
		x, known := o.Wrong[l.Mistake]
		switch {
		case l.By == ByTwin && !trap:
			return nil, false
		case known:
			r.Value = &x
		case trap && c.Query.Kind == record.Causes:
			other := "yes"
			if o.Label == other {
				other = "no"
			}
			r.Label = &other
		default:
			return nil, false
		}
		return t, l.holds(t, nil) != No
	}
	half := 0.5
	switch name {
	case "non_identifiability_ignored", "unsupported_certainty":
		if o.Witness == nil {
			return nil, false
		}
		r.Status, r.Value = record.Answer, &half
		if name == "unsupported_certainty" {
			confidence := sure
			r.Confidence = &confidence
		}
	case "symptom_root_cause_confusion":
		if c.Query.Kind != record.Diagnosis {
			return nil, false
		}
		last := sink(o.Model, o.Live.Descendants)
		r.Label, r.Set = &last, nil
	case "experiment_avoidance":
		if !trap {
			return nil, false
		}
		t.Events = nil
	case "costly_irrelevant_experiment":
		if !trap {
			return nil, false
		}
		for _, x := range c.Experiments {
			if o.Live.EIGBits[x.ID] <= nothing {
				t.experiment(x.ID)
			}
		}
	case "mechanism_fabrication":
		if c.Query.Kind != record.Links && c.Query.Kind != record.Causes || len(c.Evidence) == 0 {
			return nil, false
		}
		nodes := o.Model.Nodes // causes first: the last acts on nothing before it
		r.Edges = []record.Edge{{Cause: nodes[len(nodes)-1].Name, Effect: nodes[0].Name, Directed: true}}
	case "graph_retrieval_failure":
		return t, t.empty()
	case "retrieved_and_misreasoned":
		if len(o.Deliveries) == 0 || o.Value == nil {
			return nil, false
		}
		off := *o.Value + 10*o.Tol
		r.Value = &off
	case "routing_bypass":
		if len(o.Deliveries) == 0 {
			return nil, false
		}
		t.Events = nil
	case "oracle_leakage":
		claim := "The seed is " + o.Seed + "."
		r.ClaimText = &claim
	case "harness_failure":
		if Right(t) != Yes {
			return nil, false
		}
		scored := false
		t.Scored = &scored
	}
	return t, true
}

// empty takes the arrows out of what tools answered; ok is false where there are none.
func (t *Trace) empty() (ok bool) {
	t.Events = nil
	for _, d := range t.Oracle.Deliveries {
		answer := []byte(d.Content)
		a := arrows{}
		if a.shown(d.Kind, d.Content) && len(a) > 0 {
			ok = true
			answer = mustEncode(record.Joint{Graph: true})
			if d.Kind == record.KindMechanism {
				answer = mustEncode(record.Mechanism{})
			}
		}
		t.call(d.Tool, `{}`, answer)
	}
	return ok
}

func mustEncode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // records are numbers and text
	}
	return b
}
