package label

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/bench/causal/item"
	"assay/bench/causal/record"
)

// namesSymptom is a diagnosis that names a descendant of the true cause where keeping
// that healthy would not have prevented the incident: the last symptom itself, or one
// that the episode did not need.
func namesSymptom(t *Trace) Truth {
	r, live := t.Response, t.Oracle.Live
	switch {
	case t.Case.Query.Kind != record.Diagnosis || live == nil:
		return No
	case r == nil:
		return Unknown
	case r.Label == nil || !slices.Contains(live.Descendants, *r.Label):
		return No
	}
	last := sink(t.Oracle.Model, live.Descendants)
	if *r.Label == last {
		return Yes
	}
	if t.Oracle.Factual == nil {
		return Unknown
	}
	healthy := record.Experiment{Do: record.Values{*r.Label: 0}, Observe: last}
	y, err := item.Perform(t.Oracle.Model, *t.Oracle.Factual, healthy)
	if err != nil {
		return Unknown
	}
	return truth(y == t.Oracle.Factual.Values[last])
}

// sink is the last variable, causes first, of some.
func sink(m record.Mechanism, of []string) string {
	for _, v := range slices.Backward(m.Nodes) {
		if slices.Contains(of, v.Name) {
			return v.Name
		}
	}
	return ""
}

// experiment is the permitted intervention that a call of a tool made: one that was not
// refused and whose arguments have its id in the member experiment.
func experiment(t *Trace, e record.ToolEvent) (x record.Experiment, made bool) {
	var args struct {
		Experiment string `json:"experiment"`
	}
	if e.Failed || json.Unmarshal(e.Args, &args) != nil {
		return x, false
	}
	i := slices.IndexFunc(t.Case.Experiments, func(x record.Experiment) bool { return x.ID == args.Experiment })
	if i < 0 {
		return x, false
	}
	return t.Case.Experiments[i], true
}

// avoidsExperiment is an action, taken without any experiment, where several hypotheses
// were live and an experiment paid.
func avoidsExperiment(t *Trace) Truth {
	live := t.Oracle.Live
	if live == nil || len(live.IdentifiedSet) < 2 {
		return No
	}
	pays := false
	for _, x := range live.NetValue {
		pays = pays || x > 0
	}
	made := slices.ContainsFunc(t.Events, func(e record.ToolEvent) bool {
		_, made := experiment(t, e)
		return made
	})
	none := truth(!made)
	if !made && !t.Traced {
		none = Unknown
	}
	return and(truth(pays), t.answers(func(r *record.AgentResponse) bool { return r.Action != nil }), none)
}

// nothing is how many bits an experiment tells that tells nothing.
const nothing = 1e-6

// irrelevantExperiment is an experiment that could tell nothing about the hypotheses that
// were live when it was made, given what the experiments before it had shown.
func irrelevantExperiment(t *Trace) Truth {
	live, o := t.Oracle.Live, t.Oracle
	if live == nil || len(t.Case.Experiments) == 0 {
		return No
	}
	if o.Factual == nil {
		return Unknown
	}
	looks := []item.Look{{Seen: live.Delivered}}
	for _, e := range t.Events {
		x, made := experiment(t, e)
		if !made {
			continue
		}
		now, err := item.Judge(o.Model, live.Cause, t.Case.Hypotheses, looks, []record.Experiment{x}, nil)
		if err != nil {
			return Unknown
		}
		if now.EIGBits[x.ID] <= nothing {
			return Yes
		}
		shown, err := item.Perform(o.Model, *o.Factual, x)
		if err != nil {
			return Unknown
		}
		looks = append(looks, item.Look{Do: x.Do, Seen: record.Values{x.Observe: shown}})
	}
	if !t.Traced {
		return Unknown
	}
	return No
}

// arrows are what graphs say: who acts on whom at first hand.
type arrows map[[2]string]bool

// shown adds the arrows of a piece of evidence; ok is false where it shows no graph.
func (a arrows) shown(kind string, blob []byte) (ok bool) {
	switch kind {
	case record.KindMechanism:
		var m record.Mechanism
		if json.Unmarshal(blob, &m) != nil {
			return false
		}
		for _, v := range m.Nodes {
			for _, p := range v.Parents {
				a[[2]string{p, v.Name}] = true
			}
		}
		return true
	case record.KindJoint:
		var j record.Joint
		if json.Unmarshal(blob, &j) != nil || !j.Graph {
			return false
		}
		for _, e := range j.Directed {
			a[e] = true
		}
		return true
	}
	return false
}

// leads says whether there is a directed path.
func (a arrows) leads(from, to string) bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for e := range a {
			if e[0] != queue[0] || seen[e[1]] {
				continue
			}
			if e[1] == to {
				return true
			}
			seen[e[1]] = true
			queue = append(queue, e[1])
		}
	}
	return false
}

// fabricates is a claimed effect of one variable on another to which no directed path
// leads in any graph that was delivered. Where some of what was delivered is not on
// record, or none of it has a graph, an edge may come from there.
func fabricates(t *Trace) Truth {
	if t.Response == nil {
		return Unknown
	}
	if len(t.Response.Edges) == 0 {
		return No
	}
	graphs, known := arrows{}, t.Traced
	some := false
	deliver := func(kind, name string) {
		blob, ok := t.Blobs[name]
		known = known && ok
		some = graphs.shown(kind, blob) || some
	}
	for _, e := range t.Case.Evidence {
		deliver(e.Kind, strings.TrimPrefix(e.Ref, "sha256:"))
	}
	for _, e := range t.Events {
		if d := delivered(t, e); d != nil && e.ResultHash != nil {
			deliver(d.Kind, *e.ResultHash)
		}
	}
	all := truth(true)
	for _, e := range t.Response.Edges {
		there := graphs.leads(e.Cause, e.Effect) || !e.Directed && graphs.leads(e.Effect, e.Cause)
		all = and(all, truth(there))
	}
	switch {
	case all == Yes:
		return No
	case !some || !known:
		return Unknown
	}
	return Yes
}

// delivered is what the tool of a call has to give in the case; nil where it has nothing,
// or gave nothing.
func delivered(t *Trace, e record.ToolEvent) *record.Delivery {
	if e.Failed {
		return nil
	}
	for i, d := range t.Oracle.Deliveries {
		if d.Tool == e.Tool {
			return &t.Oracle.Deliveries[i]
		}
	}
	return nil
}

// edgeNotRetrieved is an arrow of the graph that a tool has which what it answered lacks.
func edgeNotRetrieved(t *Trace) Truth {
	out := No
	if !t.Traced {
		out = Unknown
	}
	for _, e := range t.Events {
		d := delivered(t, e)
		if d == nil {
			continue
		}
		held := arrows{}
		if !held.shown(d.Kind, d.Content) || len(held) == 0 {
			continue
		}
		if e.ResultHash == nil {
			out = Unknown
			continue
		}
		blob, ok := t.Blobs[*e.ResultHash]
		got := arrows{}
		if !ok {
			if "sha256:"+*e.ResultHash != d.Ref {
				out = Unknown
			}
			continue
		}
		got.shown(d.Kind, blob) // what is no graph has no arrow
		for a := range held {
			if !got[a] {
				return Yes
			}
		}
	}
	return out
}

// misreasons is a wrong answer although each tool that has evidence of the case gave it
// whole.
func misreasons(t *Trace) Truth {
	if len(t.Oracle.Deliveries) == 0 {
		return No
	}
	whole := Yes
	for _, d := range t.Oracle.Deliveries {
		given := slices.ContainsFunc(t.Events, func(e record.ToolEvent) bool {
			return e.Tool == d.Tool && !e.Failed && e.ResultHash != nil && "sha256:"+*e.ResultHash == d.Ref
		})
		switch {
		case given:
		case t.Traced:
			whole = and(whole, No)
		default:
			whole = and(whole, Unknown)
		}
	}
	return and(whole, wrong(t))
}

// bypasses is an answer without a call of any tool that has evidence, in a case that
// shows none itself: the evidence was there to be asked for.
func bypasses(t *Trace) Truth {
	if len(t.Oracle.Deliveries) == 0 || len(t.Case.Evidence) > 0 {
		return No
	}
	asked := slices.ContainsFunc(t.Events, func(e record.ToolEvent) bool {
		return slices.ContainsFunc(t.Oracle.Deliveries, func(d record.Delivery) bool { return d.Tool == e.Tool })
	})
	switch {
	case asked:
		return No
	case !t.Traced || t.Response == nil:
		return Unknown
	}
	return Yes
}

// leaked is an identifier that no agent is shown in anything that the agent wrote, or the
// case's or world's own in what it keeps beyond the episode.
func leaked(t *Trace) Truth {
	o := t.Oracle
	secrets := []string{o.Seed, o.SCMHash, o.Hash}
	if o.Pair != nil {
		secrets = append(secrets, o.Pair.ID)
	}
	texts := slices.Concat(t.Reasoning, t.Memory)
	if t.Response != nil && t.Response.ClaimText != nil {
		texts = append(texts, *t.Response.ClaimText)
	}
	for _, e := range t.Events {
		texts = append(texts, string(e.Args))
	}
	switch {
	case mentions(texts, secrets) || mentions(t.Memory, []string{o.CaseID, o.WorldID}):
		return Yes
	case t.Reasoning == nil || t.Memory == nil || !t.Traced:
		return Unknown
	}
	return No
}

func mentions(texts, ids []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return id != "" && strings.Contains(text, id) })
	})
}

// harnessFailed is a failure of the harness, or a score that the answer does not have.
func harnessFailed(t *Trace) Truth {
	if t.Crashed {
		return Yes
	}
	right := Right(t)
	if t.Scored == nil || right == Unknown {
		return Unknown
	}
	return truth(*t.Scored != (right == Yes))
}
