package set

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"assay/bench/causal"
	"assay/bench/causal/graph"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
)

// maxVariables is how many binary variables a joint or samples list at most: 2^16
// cells.
const maxVariables = 16

// checkEvidence reads a blob of evidence strictly, and says what variables it shows,
// with how many values each has; telemetry shows none. Its errors are those of JSON, and
// a *causal.Fault with places in the blob.
func checkEvidence(kind string, blob []byte) (cards map[string]int, err error) {
	switch kind {
	case record.KindMechanism:
		m, err := Mechanism(blob)
		if err != nil {
			return nil, err
		}
		return checkMechanism(m)
	case record.KindJoint:
		var j record.Joint
		if err := strictly(blob, &j); err != nil {
			return nil, err
		}
		return checkJoint(j)
	case record.KindSamples:
		var s record.Samples
		if err := strictly(blob, &s); err != nil {
			return nil, err
		}
		for i, n := range s.Counts {
			if n < 0 {
				return nil, causal.Badf(causal.At("counts", i), "want a count, not %d", n)
			}
		}
		return binaries(s.Variables, len(s.Counts), "counts")
	case record.KindTelemetry:
		var t record.Telemetry
		return nil, strictly(blob, &t)
	}
	return nil, fmt.Errorf("no evidence is of kind %q", kind)
}

func strictly(blob []byte, into any) error {
	return json.Unmarshal(blob, into, json.RejectUnknownMembers(true))
}

// Mechanism is a blob that holds a model, read strictly.
func Mechanism(blob []byte) (m record.Mechanism, err error) { return m, strictly(blob, &m) }

// checkMechanism holds what a mechanism says against what a model is.
func checkMechanism(m record.Mechanism) (cards map[string]int, err error) {
	model, err := scm.New(m.Nodes, m.Latent)
	if err != nil {
		return nil, err
	}
	cards = make(map[string]int, len(m.Nodes))
	for _, v := range m.Nodes {
		cards[v.Name] = model.Values(v.Name)
	}
	return cards, nil
}

func checkJoint(j record.Joint) (cards map[string]int, err error) {
	if cards, err = binaries(j.Variables, len(j.P), "p"); err != nil {
		return nil, err
	}
	if fault := causal.CheckDistribution(j.P, func(path ...any) []string { return causal.At(append([]any{"p"}, path...)...) }); fault != nil {
		return nil, fault
	}
	if _, err := graph.New(j.Variables, j.Directed, j.Bidirected); err != nil {
		return nil, err
	}
	for i, set := range j.Targets {
		for k, name := range set {
			if cards[name] == 0 {
				return nil, causal.Badf(causal.At("targets", i, k), "there is no variable %q", name)
			}
		}
	}
	return cards, nil
}

// binaries are the variables of a table with a cell for each combination of their
// values.
func binaries(variables []string, cells int, field string) (map[string]int, error) {
	if n := len(variables); n < 1 || n > maxVariables {
		return nil, causal.Badf(causal.At("variables"), "want 1 to %d, not %d", maxVariables, n)
	}
	if i, twice := causal.Repeated(variables); twice {
		return nil, causal.Badf(causal.At("variables", i), "there are two variables of this name")
	}
	if want := 1 << len(variables); cells != want {
		return nil, causal.Badf(causal.At(field), "want a number for each of the %d combinations of values, not %d", want, cells)
	}
	cards := make(map[string]int, len(variables))
	for _, name := range variables {
		cards[name] = 2
	}
	return cards, nil
}

// checkQuery says whether a question is about what the evidence shows.
func checkQuery(q record.Query, cards map[string]int) error {
	for _, part := range []struct {
		field  string
		values record.Values
	}{{"target", q.Target}, {"given", q.Given}, {"do", q.Do}, {"factual", q.Factual}} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			if x := part.values[name]; x < 0 || x >= cards[name] {
				return causal.Badf(causal.At("query", part.field, name), "there is no such variable or value")
			}
		}
	}
	for _, part := range [][2]string{{"treatment", q.Treatment}, {"outcome", q.Outcome}} {
		if name := part[1]; name != "" && cards[name] == 0 {
			return causal.Badf(causal.At("query", part[0]), "there is no variable %q", name)
		}
	}
	if q.Kind == record.Probability && len(q.Target) == 0 {
		return causal.Badf(causal.At("query", "target"), "a probability is of something")
	}
	return nil
}

// checkOracle holds the models of an oracle, what its tools deliver, and what is said of
// hypotheses against the case.
func (c *Case) checkOracle() error {
	o := &c.Oracle
	cards, err := checkMechanism(o.Model)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := checkQuery(c.Public.Query, cards); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if live := o.Live; live != nil && cards[live.Cause] != len(c.Public.Hypotheses) {
		return causal.Badf(causal.At("live", "cause"), "want a variable with a value for each of %d hypotheses", len(c.Public.Hypotheses))
	}
	if w := o.Witness; w != nil {
		for i, m := range w.Models {
			if _, err := checkMechanism(m); err != nil {
				return fmt.Errorf("witness %d: %w", i, err)
			}
		}
	}
	for i, d := range o.Deliveries {
		cards, err := checkEvidence(d.Kind, d.Content)
		if err == nil && cards != nil {
			err = checkQuery(c.Public.Query, cards)
		}
		if err != nil {
			return fmt.Errorf("delivery %d: %w", i, err)
		}
		if d.Ref != "sha256:"+hash(d.Content) {
			return causal.Badf(causal.At("deliveries", i, "ref"), "it is not the hash of the content")
		}
	}
	return nil
}
