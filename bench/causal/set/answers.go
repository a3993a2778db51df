package set

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/bench/causal/bayes"
	"assay/bench/causal/graph"
	"assay/bench/causal/identify"
	"assay/bench/causal/item"
	"assay/bench/causal/label"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
)

// models yields each model of the oracles whose variables all have two values, once.
func (s *Set) models(each func(k *Case, m *scm.Model)) {
	seen := map[string]bool{}
	for i := range s.Cases {
		k := &s.Cases[i]
		if seen[k.Oracle.SCMHash] {
			continue
		}
		seen[k.Oracle.SCMHash] = true
		m, err := scm.New(k.Oracle.Model.Nodes, k.Oracle.Model.Latent)
		if err == nil && !slices.ContainsFunc(k.Oracle.Model.Nodes, func(v scm.Node) bool { return m.Values(v.Name) > 2 }) {
			each(k, m)
		}
	}
}

// maxListing is what listing the back-door sets of a pair may cost: those of worlds
// cost thousands.
const maxListing = 1e7

// backDoor adjusts in the observed joint distribution of each model, for each pair
// with a back-door set, and compares with the intervention.
func (s *Set) backDoor() Check {
	c := Check{Name: "Back-door adjustment", Method: "from the observed joint alone, against the intervention in the model"}
	worst := 0.0
	s.models(func(k *Case, m *scm.Model) {
		j, g, err := observed(k.Oracle.Model, m)
		if err != nil {
			c.fault("model of %s: %v", k.Public.CaseID, err)
			return
		}
		none := g.NewSet()
		for x := range g.Len() {
			for y := range g.Len() {
				if x == y || !g.Descendants(g.NewSet(x)).Has(y) {
					continue
				}
				family := g.BackDoor(g.NewSet(x), g.NewSet(y), none)
				if family.Cost() > maxListing {
					c.fault("model of %s: it has too many variables to list what adjusts", k.Public.CaseID)
					return
				}
				sets, _ := family.List()
				if len(sets) == 0 {
					continue
				}
				want, err := m.Ask(scm.Intervention, scm.Query{Target: record.Values{g.Name(y): 1}, Do: record.Values{g.Name(x): 1}})
				got, ok := adjust(j, x, y, sets[0])
				if !ok {
					continue
				}
				c.N++
				worst = max(worst, math.Abs(got-want))
				if err != nil || !(math.Abs(got-want) <= Exact) {
					c.fault("model of %s: do(%s) on %s is %v, by adjustment %v: %v", k.Public.CaseID, g.Name(x), g.Name(y), want, got, err)
				}
			}
		}
	})
	return c.end(1, "largest difference %.2g", worst)
}

// estimands works identification out again from what is public, and holds it against
// the oracle and the intervention in the model.
func (s *Set) estimands() Check {
	c := Check{Name: "Estimands", Method: "from the public graph and joint alone, against the intervention in the model"}
	worst := 0.0
	for i := range s.Cases {
		k := &s.Cases[i]
		j, ok := s.joint(k)
		if !ok || !j.Graph || k.Oracle.Value == nil || k.Public.Query.Kind != record.Probability {
			continue
		}
		c.N++
		value, estimand, ok := item.Identify(j, k.Public.Query)
		if !ok || estimand != k.Oracle.Formula {
			c.fault("case %s: the estimand is %q", k.Public.CaseID, estimand)
			continue
		}
		m, err := scm.New(k.Oracle.Model.Nodes, k.Oracle.Model.Latent)
		if err != nil {
			c.fault("case %s: %v", k.Public.CaseID, err)
			continue
		}
		truth, err := m.Ask(scm.Intervention, k.Public.Query.SCM())
		off := max(math.Abs(value-truth), math.Abs(*k.Oracle.Value-truth))
		if worst = max(worst, off); err != nil || !(off <= Exact) {
			c.fault("case %s: the estimand has %v, the oracle %v, the model %v: %v", k.Public.CaseID, value, *k.Oracle.Value, truth, err)
		}
	}
	return c.end(1, "largest difference %.2g", worst)
}

// observed is what can be seen of a model: the joint distribution, and the graph.
func observed(of record.Mechanism, m *scm.Model) (record.Joint, *graph.Graph, error) {
	names := m.Observed()
	t, err := m.Network().Joint(names...)
	if err != nil {
		return record.Joint{}, nil, err
	}
	var arrows [][2]string
	for _, v := range of.Nodes {
		for _, p := range v.Parents {
			arrows = append(arrows, [2]string{p, v.Name})
		}
	}
	all, err := graph.New(slices.Concat(names, of.Latent), arrows, nil)
	if err != nil {
		return record.Joint{}, nil, err
	}
	keep := all.NewSet()
	for i := range names {
		keep.Add(i)
	}
	return record.Joint{Variables: names, P: t.P}, all.Project(keep), nil
}

// adjust is the sum over z of P(y=1|x=1,z) P(z); ok is false where x is never 1 with
// some z that can be.
func adjust(j record.Joint, x, y int, z graph.Set) (p float64, ok bool) {
	n := len(j.Variables)
	type sums struct{ z, xz, xyz float64 }
	at := map[int]*sums{}
	var keys []int
	for cell, p := range j.P {
		bit := func(v int) bool { return cell>>(n-1-v)&1 == 1 }
		key := 0
		for v := range z.All() {
			key <<= 1
			if bit(v) {
				key |= 1
			}
		}
		if at[key] == nil {
			at[key] = &sums{}
			keys = append(keys, key)
		}
		at[key].z += p
		if bit(x) {
			at[key].xz += p
			if bit(y) {
				at[key].xyz += p
			}
		}
	}
	for _, key := range keys {
		switch v := at[key]; {
		case v.z == 0:
		case v.xz == 0:
			return 0, false
		default:
			p += float64(v.xyz / v.xz * v.z)
		}
	}
	return p, true
}

// witnesses works both models of each witness out.
func (s *Set) witnesses() Check {
	c := Check{Name: "Non-identifiability witnesses", Method: "two models of the public graph with the public joint, and other answers"}
	worst := 0.0
	var gaps []float64
	for i := range s.Cases {
		k := &s.Cases[i]
		if k.Oracle.Status != record.NotIdentifiable {
			continue
		}
		c.N++
		if k.Oracle.Witness == nil {
			c.fault("case %s has no witness", k.Public.CaseID)
			continue
		}
		off, gap, err := s.witness(k)
		if err != nil {
			c.fault("case %s: %v", k.Public.CaseID, err)
			continue
		}
		worst, gaps = max(worst, off), append(gaps, gap)
	}
	if len(gaps) == 0 {
		return c.end(1, "none")
	}
	return c.end(1, "P(V) within %.2g, median gap %.3f", worst, median(gaps))
}

func (s *Set) witness(k *Case) (off, gap float64, err error) {
	w := k.Oracle.Witness
	j, ok := s.joint(k)
	if !ok { // behind a tool
		if j, err = deliveredJoint(k); err != nil {
			return 0, 0, err
		}
	}
	public := item.Graph(j)
	var values [2]float64
	for i, of := range w.Models {
		m, err := scm.New(of.Nodes, of.Latent)
		if err != nil {
			return 0, 0, err
		}
		t, err := m.Network().Joint(j.Variables...)
		if err != nil {
			return 0, 0, err
		}
		if len(t.P) != len(j.P) {
			return 0, 0, fmt.Errorf("model %d has variables of more than two values", i)
		}
		for cell, p := range t.P {
			off = max(off, math.Abs(p-j.P[cell]))
		}
		_, g, err := observed(of, m)
		if err != nil {
			return 0, 0, err
		}
		if !slices.Equal(slices.Sorted(slices.Values(m.Observed())), slices.Sorted(slices.Values(j.Variables))) {
			return 0, 0, fmt.Errorf("model %d has other variables than the public joint", i)
		}
		if edge, ok := within(g, public); !ok {
			return 0, 0, fmt.Errorf("model %d has an edge %v that the public graph lacks", i, edge)
		}
		rung := scm.Intervention
		if k.Public.Rung == "counterfactual" {
			rung = scm.Counterfactual
		}
		if values[i], err = m.Ask(rung, k.Public.Query.SCM()); err != nil {
			return 0, 0, err
		}
		if math.Abs(values[i]-w.Values[i]) > Exact {
			return 0, 0, fmt.Errorf("model %d answers %v, not %v", i, values[i], w.Values[i])
		}
	}
	gap = math.Abs(values[0] - values[1])
	switch {
	case off > Exact:
		return off, gap, fmt.Errorf("P(V) differs by %v", off)
	case gap <= k.Oracle.Tol:
		return off, gap, fmt.Errorf("the answers differ by %v alone", gap)
	case k.Public.Rung == "counterfactual":
		return off, gap, nil
	}
	if _, hedge, err := identify.Identify(public, item.About(public, k.Public.Query)); hedge == nil || err != nil {
		return off, gap, fmt.Errorf("the graph has no hedge: %v", err)
	}
	return off, gap, nil
}

// within says whether each edge of g is one of public's, which has the same nodes by
// name.
func within(g, public *graph.Graph) (edge [2]string, ok bool) {
	for v := range g.Len() {
		at, _ := public.Node(g.Name(v))
		for _, c := range g.Children(v) {
			if to, _ := public.Node(g.Name(c)); !slices.Contains(public.Children(at), to) {
				return [2]string{g.Name(v), g.Name(c)}, false
			}
		}
		for _, sib := range g.Siblings(v) {
			if to, _ := public.Node(g.Name(sib)); !slices.Contains(public.Siblings(at), to) {
				return [2]string{g.Name(v), g.Name(sib)}, false
			}
		}
	}
	return edge, true
}

// evidence is the first blob of a kind that a case shows.
func (s *Set) evidence(k *Case, kind string) []byte {
	for _, e := range k.Public.Evidence {
		if e.Kind == kind {
			return s.Blobs[strings.TrimPrefix(e.Ref, "sha256:")]
		}
	}
	return nil
}

func (s *Set) joint(k *Case) (j record.Joint, ok bool) {
	b := s.evidence(k, record.KindJoint)
	return j, b != nil && json.Unmarshal(b, &j) == nil
}

func deliveredJoint(k *Case) (j record.Joint, err error) {
	for _, d := range k.Oracle.Deliveries {
		if d.Kind == record.KindJoint {
			return j, json.Unmarshal(d.Content, &j)
		}
	}
	return j, errors.New("no joint is shown")
}

// decisions works posteriors out again by elimination in the public mechanism, and
// losses and regrets from them, given what telemetry has delivered by the stage.
func (s *Set) decisions() Check {
	c := Check{Name: "Decisions", Method: "posterior, loss and regret again from the public mechanism and what was delivered"}
	worst := 0.0
	for i := range s.Cases {
		k := &s.Cases[i]
		live := k.Oracle.Live
		b := s.evidence(k, record.KindMechanism)
		if live == nil || b == nil {
			continue
		}
		c.N++
		off, err := s.decision(k, b)
		if worst = max(worst, off); err != nil || off > Exact*100 {
			c.fault("case %s: off by %v: %v", k.Public.CaseID, off, err)
		}
	}
	return c.end(1, "largest difference %.2g", worst)
}

func (s *Set) decision(k *Case, mechanism []byte) (off float64, err error) {
	m, err := Mechanism(mechanism)
	if err != nil {
		return 0, err
	}
	model, err := scm.New(m.Nodes, m.Latent)
	if err != nil {
		return 0, err
	}
	var t record.Telemetry
	if err := json.Unmarshal(s.evidence(k, record.KindTelemetry), &t); err != nil {
		return 0, err
	}
	seen := map[string]string{}
	for _, r := range t.Seen {
		seen[r.Variable] = fmt.Sprint(r.Value)
	}
	live := k.Oracle.Live
	posterior, err := model.Network().Posterior(bayes.Query{Target: []string{live.Cause}, Evidence: seen})
	if err != nil {
		return 0, err
	}
	if len(posterior.P) != len(k.Public.Hypotheses) {
		return 0, fmt.Errorf("%s has %d values for %d hypotheses", live.Cause, len(posterior.P), len(k.Public.Hypotheses))
	}
	least := math.Inf(1)
	expected := map[string]float64{}
	for h, name := range k.Public.Hypotheses {
		off = max(off, math.Abs(posterior.P[h]-live.Posterior[name]))
		for _, a := range k.Public.Actions {
			expected[a.ID] += float64(posterior.P[h] * a.Loss[name])
		}
	}
	for _, e := range expected {
		least = min(least, e)
	}
	for id, e := range expected {
		off = max(off, math.Abs(e-live.ExpectedLoss[id]), math.Abs(e-least-live.Regret[id]))
	}
	mass := 0.0
	for _, name := range live.IdentifiedSet {
		mass += live.Posterior[name]
	}
	if mass < 0.95-Exact {
		return off, fmt.Errorf("the identified set has mass %v", mass)
	}
	return off, nil
}

// pairs looks for the twin of each trap.
func (s *Set) pairs() Check {
	c := Check{Name: "Matched twins", Method: "each trap has one twin, in the same world"}
	type pair struct {
		traps, twins []*Case
	}
	found := map[string]*pair{}
	labels := map[string]bool{}
	for i := range s.Cases {
		k := &s.Cases[i]
		p := k.Oracle.Pair
		if p == nil {
			continue
		}
		if found[p.ID] == nil {
			found[p.ID] = &pair{}
		}
		if labels[p.Label] = true; p.Twin {
			found[p.ID].twins = append(found[p.ID].twins, k)
		} else {
			found[p.ID].traps = append(found[p.ID].traps, k)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		c.N++
		p := found[id]
		if len(p.traps) != 1 || len(p.twins) != 1 || p.traps[0].Public.WorldID != p.twins[0].Public.WorldID || p.traps[0].Oracle.Pair.Label != p.twins[0].Oracle.Pair.Label {
			c.fault("pair %s has %d traps and %d twins", id, len(p.traps), len(p.twins))
		}
	}
	return c.end(1, "%d labels of the taxonomy", len(labels))
}

// labels plants in each case each mistake of the taxonomy that the case can carry, and
// looks whether it is told from an answer without one.
func (s *Set) labels() Check {
	c := Check{Name: "Labels", Method: "each mistake, planted in each case that can carry it, earns its label, and an answer without one earns none"}
	twins := map[string]*Case{}
	for i := range s.Cases {
		if p := s.Cases[i].Oracle.Pair; p != nil && p.Twin {
			twins[p.ID] = &s.Cases[i]
		}
	}
	planted := map[string]bool{}
	for i := range s.Cases {
		k := &s.Cases[i]
		var twin *label.Trace
		if p := k.Oracle.Pair; p != nil && !p.Twin && twins[p.ID] != nil {
			t := twins[p.ID]
			twin = label.Perfect(&t.Public, &t.Oracle, s.Blobs)
		}
		if got := label.Of(label.Perfect(&k.Public, &k.Oracle, s.Blobs), twin); len(got) > 0 {
			c.fault("case %s: the answer without a mistake earns %v", k.Public.CaseID, got)
		}
		for _, mistake := range slices.Sorted(maps.Keys(k.Oracle.Wrong)) {
			if v := k.Oracle.Value; v != nil && math.Abs(k.Oracle.Wrong[mistake]-*v) <= k.Oracle.Tol {
				c.fault("case %s: the mistake %s gives what is right", k.Public.CaseID, mistake)
			}
		}
		for _, l := range label.Labels {
			t, ok := label.Plant(l.Name, &k.Public, &k.Oracle, s.Blobs)
			if !ok {
				continue
			}
			c.N++
			planted[l.Name] = true
			if got := label.Decide(l.Name, t, twin); got != label.Yes {
				c.fault("case %s: %s is planted, and is held to be %v", k.Public.CaseID, l.Name, got)
			}
		}
	}
	return c.end(1, "%d of %d labels of the taxonomy", len(planted), len(label.Labels))
}
