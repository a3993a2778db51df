package set

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/bench/causal/record"
	"assay/bench/causal/scm"
)

// change rewrites the first case that has something, and what it commits to.
func change(t *testing.T, s *Set, of func(c *Case) bool, how func(c *Case)) {
	t.Helper()
	c := first(t, s, of)
	how(c)
	c.PublicLine, c.OracleLine = encode(c.Public), encode(c.Oracle)
}

// show puts other evidence of a kind in the place of what a case shows.
func show[T any](s *Set, c *Case, kind string, how func(v *T)) {
	c.Public.Evidence = slices.Clone(c.Public.Evidence)
	for i, e := range c.Public.Evidence {
		if e.Kind != kind {
			continue
		}
		var v T
		if err := json.Unmarshal(s.Blobs[strings.TrimPrefix(e.Ref, "sha256:")], &v); err != nil {
			panic(err)
		}
		how(&v)
		raw := encode(v)
		s.Blobs[hash(raw)] = raw
		c.Public.Evidence[i].Ref = "sha256:" + hash(raw)
	}
}

func shows(kind string) func(c *Case) bool {
	return func(c *Case) bool {
		return slices.ContainsFunc(c.Public.Evidence, func(e record.Evidence) bool { return e.Kind == kind })
	}
}

// A set whose hashes are right, but whose evidence or oracles are not what their kind
// says, is refused with the place, whoever made it.
func TestHostileSets(t *testing.T) {
	clean := mustGenerate(t, recipe("hostile", Dev, 15))
	joint := func(how func(j *record.Joint)) func(s *Set, c *Case) {
		return func(s *Set, c *Case) { show(s, c, record.KindJoint, how) }
	}
	mechanism := func(how func(m *record.Mechanism)) func(s *Set, c *Case) {
		return func(s *Set, c *Case) { show(s, c, record.KindMechanism, how) }
	}
	asks := func(c *Case) bool { return c.Public.Query.Kind == record.Probability && shows(record.KindMechanism)(c) }
	for name, tc := range map[string]struct {
		of   func(c *Case) bool
		how  func(s *Set, c *Case)
		want string
	}{
		"a joint that is too short":   {shows(record.KindJoint), joint(func(j *record.Joint) { j.P = j.P[1:] }), "at p: want a number for each of the"},
		"a joint that is too long":    {shows(record.KindJoint), joint(func(j *record.Joint) { j.P = append(j.P, 0) }), "at p: want a number for each of the"},
		"a joint of nothing":          {shows(record.KindJoint), joint(func(j *record.Joint) { j.Variables, j.P = []string{}, []float64{1} }), "at variables: want 1 to 16"},
		"a joint of two of a name":    {shows(record.KindJoint), joint(func(j *record.Joint) { j.Variables[1] = j.Variables[0] }), "at variables.1: there are two"},
		"a joint off by a thousandth": {shows(record.KindJoint), joint(func(j *record.Joint) { j.P[0] += 1e-3 }), "at p: the probabilities add to 1.001"},
		"a joint below 0":             {shows(record.KindJoint), joint(func(j *record.Joint) { j.P[0] = -1 }), "at p.0: want a probability"},
		"a joint whose arrows go round": {shows(record.KindJoint), joint(func(j *record.Joint) {
			j.Directed = [][2]string{{j.Variables[0], j.Variables[1]}, {j.Variables[1], j.Variables[0]}}
		}), "cyclic at directed."},
		"a joint with an edge to nobody": {shows(record.KindJoint), joint(func(j *record.Joint) { j.Directed = [][2]string{{j.Variables[0], "nobody"}} }), "at directed.0.1: there is no node"},
		"a joint with a target nobody":   {shows(record.KindJoint), joint(func(j *record.Joint) { j.Targets = [][]string{{"nobody"}} }), "at targets.0.0: there is no variable"},
		"samples that are too few": {shows(record.KindSamples), func(s *Set, c *Case) {
			show(s, c, record.KindSamples, func(v *record.Samples) { v.Counts = v.Counts[1:] })
		}, "at counts: want a number for each"},
		"samples below 0": {shows(record.KindSamples), func(s *Set, c *Case) { show(s, c, record.KindSamples, func(v *record.Samples) { v.Counts[0] = -1 }) }, "at counts.0: want a count"},
		"a mechanism that goes round": {asks, mechanism(func(m *record.Mechanism) {
			for i, v := range m.Nodes {
				if len(v.Parents) == 0 {
					m.Nodes[i].Parents = []string{v.Name}
					m.Nodes[i].Tables = []scm.Table{{P: 1, Values: []int{0, 1}}}
					return
				}
			}
		}), "cyclic at nodes."},
		"a mechanism of no table": {asks, mechanism(func(m *record.Mechanism) { m.Nodes[0].Tables = []scm.Table{} }), "at nodes.0.tables"},
		"a mechanism off by a thousandth": {asks, mechanism(func(m *record.Mechanism) {
			m.Nodes[0].Tables = slices.Clone(m.Nodes[0].Tables)
			m.Nodes[0].Tables[0].P += 1e-3
		}), "at nodes.0.tables: the probabilities add to 1.001"},
		"a mechanism with a short table": {asks, mechanism(func(m *record.Mechanism) {
			m.Nodes[0].Tables[0].Values = append(slices.Clone(m.Nodes[0].Tables[0].Values), 1)
		}), "at nodes.0.tables.0.table: want a value for each"},
		"a question about nobody": {asks, func(_ *Set, c *Case) { c.Public.Query.Target = record.Values{"nobody": 1} }, "at query.target.nobody: there is no such"},
		"a question about a third value": {asks, func(_ *Set, c *Case) {
			for name := range c.Public.Query.Target {
				c.Public.Query.Target = record.Values{name: 2}
			}
		}, "at query.target."},
		"a question about nothing": {asks, func(_ *Set, c *Case) { c.Public.Query.Target = nil }, "at query.target: a probability is of something"},
		"a model of no table": {asks, func(_ *Set, c *Case) {
			c.Oracle.Model.Nodes = slices.Clone(c.Oracle.Model.Nodes)
			c.Oracle.Model.Nodes[0].Parents = []string{"nobody"}
		}, "model: invalid at nodes.0.parents.0"},
		"a witness that is no model": {func(c *Case) bool { return c.Oracle.Witness != nil }, func(_ *Set, c *Case) {
			w := *c.Oracle.Witness
			w.Models[1].Latent = []string{"nobody"}
			c.Oracle.Witness = &w
		}, "witness 1: invalid at latent.0"},
		"one hypothesis more": {func(c *Case) bool { return c.Oracle.Live != nil }, func(_ *Set, c *Case) {
			c.Public.Hypotheses = append(slices.Clone(c.Public.Hypotheses), "another")
		}, "at live.cause: want a variable with a value for each of 5"},
		"a delivery that is another": {func(c *Case) bool { return len(c.Oracle.Deliveries) > 0 }, func(_ *Set, c *Case) {
			c.Oracle.Deliveries = slices.Clone(c.Oracle.Deliveries)
			c.Oracle.Deliveries[0].Ref = "sha256:" + hash(nil)
		}, "at deliveries.0.ref"},
		"a delivery that is nothing": {func(c *Case) bool { return len(c.Oracle.Deliveries) > 0 }, func(_ *Set, c *Case) {
			c.Oracle.Deliveries = slices.Clone(c.Oracle.Deliveries)
			c.Oracle.Deliveries[0].Content = []byte(`{"variables":["x"]}`)
		}, "delivery 0: "},
	} {
		s := &Set{Cases: slices.Clone(clean.Cases), Blobs: maps.Clone(clean.Blobs), Dropped: clean.Dropped, Recipe: clean.Recipe}
		change(t, s, tc.of, func(c *Case) { tc.how(s, c) })
		for ref := range s.Blobs { // what no case shows any more
			if !slices.ContainsFunc(s.Cases, func(c Case) bool {
				return slices.ContainsFunc(c.Public.Evidence, func(e record.Evidence) bool { return e.Ref == "sha256:"+ref })
			}) {
				delete(s.Blobs, ref)
			}
		}
		dir := filepath.Join(t.TempDir(), "set")
		if err := s.Write(context.Background(), Place{Dir: dir}, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(dir, ""); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A witness of other variables, or of more values, than the public joint is a fault, and
// no crash.
func TestHostileWitnesses(t *testing.T) {
	for name, how := range map[string]func(m *record.Mechanism){
		"a third value": func(m *record.Mechanism) {
			last := &m.Nodes[len(m.Nodes)-1]
			last.Tables = slices.Clone(last.Tables)
			values := slices.Clone(last.Tables[0].Values)
			values[0] = 2
			last.Tables[0].Values = values
		},
		"a variable more": func(m *record.Mechanism) {
			m.Nodes = append(m.Nodes, scm.Node{Name: "more", Parents: []string{}, Tables: scm.Root(500)})
		},
		"a variable less": func(m *record.Mechanism) { m.Latent = append(slices.Clone(m.Latent), m.Nodes[len(m.Nodes)-1].Name) },
	} {
		s := small(t)
		c := first(t, s, func(c *Case) bool { return c.Oracle.Witness != nil })
		w := *c.Oracle.Witness
		w.Models[1].Nodes = slices.Clone(w.Models[1].Nodes)
		how(&w.Models[1])
		c.Oracle.Witness = &w
		if got := s.witnesses(); got.Pass == nil || *got.Pass {
			t.Errorf("%s passes: %+v", name, got)
		}
	}
}
