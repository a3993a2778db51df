package bayes

import (
	"errors"
	"math"
	"slices"
	"testing"

	"assay/bench/causal"
)

var yesNo = []string{"yes", "no"}

// Pearl's alarm, with the numbers of Russell and Norvig.
var burglary = []Node{
	{"Burglary", yesNo, nil, [][]float64{{0.001, 0.999}}},
	{"Earthquake", yesNo, nil, [][]float64{{0.002, 0.998}}},
	{"Alarm", yesNo, []string{"Burglary", "Earthquake"}, [][]float64{{0.95, 0.05}, {0.94, 0.06}, {0.29, 0.71}, {0.001, 0.999}}},
	{"John", yesNo, []string{"Alarm"}, [][]float64{{0.9, 0.1}, {0.05, 0.95}}},
	{"Mary", yesNo, []string{"Alarm"}, [][]float64{{0.7, 0.3}, {0.01, 0.99}}},
}

// Simpson: the severe (Z, half of all) are mostly treated (X, .8 against .2); Y is
// recovery.
var simpson = []Node{
	{"Y", []string{"0", "1"}, []string{"X", "Z"}, [][]float64{{0.2, 0.8}, {0.7, 0.3}, {0.1, 0.9}, {0.6, 0.4}}},
	{"X", []string{"0", "1"}, []string{"Z"}, [][]float64{{0.8, 0.2}, {0.2, 0.8}}},
	{"Z", []string{"0", "1"}, nil, [][]float64{{0.5, 0.5}}},
}

type ev = map[string]string

// The answers were worked out on paper before the engine was there.
func TestHandCases(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []Node
		q     Query
		want  []float64
	}{
		// AIMA prints 0.284. With both calling the alarm weighs .63, its absence .0005:
		// burglary .001·(.94002·.63 + .05998·.0005) against .999·(.001578·.63 + .998422·.0005).
		{"both call", burglary, Query{Target: []string{"Burglary"}, Evidence: ev{"John": "yes", "Mary": "yes"}},
			[]float64{0.00059224259 / (0.00059224259 + 0.0014918576), 0.0014918576 / (0.00059224259 + 0.0014918576)}},
		// The alarm is no cause of burglary.
		{"alarm set", burglary, Query{Target: []string{"Burglary"}, Do: ev{"Alarm": "yes"}}, []float64{0.001, 0.999}},
		// Set, the alarm makes the calls; they say nothing of each other any more.
		{"calls after setting", burglary, Query{Target: []string{"John", "Mary"}, Do: ev{"Alarm": "yes"}, Evidence: ev{"Mary": "no"}}, []float64{0, 0.9, 0, 0.1}},
		// Of those treated .8 are severe: .2·.9 + .8·.4.
		{"treated, seen", simpson, Query{Target: []string{"Y"}, Evidence: ev{"X": "1"}}, []float64{0.5, 0.5}},
		// All treated, half are severe: (.9 + .4)/2.
		{"treated, set", simpson, Query{Target: []string{"Y"}, Do: ev{"X": "1"}}, []float64{0.35, 0.65}},
		// Likelihoods 3:1 of Z are as the prior .75.
		{"a finding", simpson, Query{Target: []string{"Z"}, Virtual: map[string][]float64{"Z": {0.3, 0.1}}}, []float64{0.75, 0.25}},
		// P(X, Z): .5·.8, .5·.2, .5·.2, .5·.8, and Z first in the list.
		{"a joint", simpson, Query{Target: []string{"Z", "X"}}, []float64{0.4, 0.1, 0.1, 0.4}},
		{"what is observed", simpson, Query{Target: []string{"X", "Z"}, Evidence: ev{"X": "1"}}, []float64{0, 0, 0.2, 0.8}},
		{"nothing", simpson, Query{}, []float64{1}},
	} {
		got, err := mustNew(t, tc.nodes).Posterior(tc.q)
		if err != nil || len(got.P) != len(tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got.P, err, tc.want)
			continue
		}
		for i, p := range got.P {
			if math.Abs(p-tc.want[i]) > 1e-8 {
				t.Errorf("%s: %v, want %v", tc.name, got.P, tc.want)
			}
		}
	}
}

func mustNew(t testing.TB, nodes []Node) *Network {
	t.Helper()
	n, err := New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHandEffects(t *testing.T) {
	// X is a fair coin; W copies it in .8 (.1 without it), M copies W in .9 (.2 without
	// it); Y is 1 in .1, .4, .5, .9 for W, M = 00, 01, 10, 11.
	kite := []Node{
		{"X", yesNo[:], nil, [][]float64{{0.5, 0.5}}},
		{"W", yesNo, []string{"X"}, [][]float64{{0.9, 0.1}, {0.2, 0.8}}},
		{"M", yesNo, []string{"W"}, [][]float64{{0.8, 0.2}, {0.1, 0.9}}},
		{"Y", yesNo, []string{"W", "M"}, [][]float64{{0.9, 0.1}, {0.6, 0.4}, {0.5, 0.5}, {0.1, 0.9}}},
	}
	// E[Y | W=0] = .8·.1 + .2·.4 = .16, E[Y | W=1] = .1·.5 + .9·.9 = .86, so E[Y] = .1·.86 +
	// .9·.16 = .23 without X, .8·.86 + .2·.16 = .72 with it.
	const total = 0.72 - 0.23
	for _, tc := range []struct {
		name  string
		nodes []Node
		c     Contrast
		want  float64
	}{
		// .65 as above, and (.8 + .3)/2 without.
		{"confounded", simpson, Contrast{ATE, "X", "Y", nil}, 0.65 - 0.55},
		// The treated are severe in .8: .2·.9 + .8·.4 - .2·.8 - .8·.3.
		{"on the treated", simpson, Contrast{ETT, "X", "Y", nil}, 0.5 - 0.4},
		// Untreated, .2 are severe: .8·.8 + .2·.3.
		{"correlation", simpson, Contrast{Correlation, "X", "Y", nil}, 0.5 - 0.7},
		// .5·(.5 + .7).
		{"marginal", simpson, Contrast{Marginal, "", "Y", nil}, 0.6},
		{"against the arrow", simpson, Contrast{ATE, "Y", "X", nil}, 0},
		{"on a cause of the treatment", simpson, Contrast{ETT, "X", "Z", nil}, 0},
		{"all mediators", kite, Contrast{NIE, "X", "Y", nil}, total},
		{"all mediators, directly", kite, Contrast{NDE, "X", "Y", nil}, 0},
		// W alone carries everything: M follows.
		{"the first mediator", kite, Contrast{NIE, "X", "Y", []string{"W"}}, total},
		{"no mediator", kite, Contrast{NDE, "X", "Y", []string{}}, total},
	} {
		if got, err := mustNew(t, tc.nodes).Effect(tc.c); err != nil || math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
	// Y and the mediator M would see W in two worlds at once.
	if got, err := mustNew(t, kite).Effect(Contrast{NDE, "X", "Y", []string{"M"}}); !errors.Is(err, causal.ErrNotIdentifiable) {
		t.Errorf("a mediator's cause beside it: %v, %v", got, err)
	}
	chain := []Node{
		{"X", yesNo, nil, [][]float64{{0.5, 0.5}}},
		{"A", yesNo, []string{"X"}, [][]float64{{0.9, 0.1}, {0.2, 0.8}}},
		{"B", yesNo, []string{"A"}, [][]float64{{0.9, 0.1}, {0.2, 0.8}}},
		{"C", yesNo, []string{"B"}, [][]float64{{0.9, 0.1}, {0.2, 0.8}}},
		{"Y", yesNo, []string{"C"}, [][]float64{{0.9, 0.1}, {0.2, 0.8}}},
	}
	if got, err := mustNew(t, chain).Effect(Contrast{NDE, "X", "Y", []string{"A", "C"}}); !errors.Is(err, causal.ErrNotIdentifiable) {
		t.Errorf("a path that leaves the mediators and enters them again: %v, %v", got, err)
	}
}

// Every broken network or question is refused, with the place of the fault.
func TestFaults(t *testing.T) {
	half := [][]float64{{0.5, 0.5}}
	a := Node{"A", yesNo, nil, half}
	for name, tc := range map[string]struct {
		nodes []Node
		kind  *causal.Fault
		at    []string
	}{
		"a name twice":   {[]Node{a, a}, causal.ErrInvalid, causal.At("variables", "A")},
		"no states":      {[]Node{{"A", nil, nil, half}}, causal.ErrInvalid, causal.At("variables", "A")},
		"a state twice":  {[]Node{{"A", []string{"x", "x"}, nil, half}}, causal.ErrInvalid, causal.At("variables", "A", 1)},
		"unknown parent": {[]Node{{"A", yesNo, []string{"Q"}, half}}, causal.ErrInvalid, causal.At("cpts", "A", "parents", 0)},
		"a parent twice": {[]Node{a, {"B", yesNo, []string{"A", "A"}, half}}, causal.ErrInvalid, causal.At("cpts", "B", "parents", 1)},
		"too few rows":   {[]Node{a, {"B", yesNo, []string{"A"}, half}}, causal.ErrInvalid, causal.At("cpts", "B", "rows")},
		"too many rows":  {[]Node{{"A", yesNo, nil, [][]float64{{0.5, 0.5}, {0.5, 0.5}}}}, causal.ErrInvalid, causal.At("cpts", "A", "rows")},
		"a short row":    {[]Node{{"A", yesNo, nil, [][]float64{{1}}}}, causal.ErrInvalid, causal.At("cpts", "A", "rows", 0)},
		"off by 1e-3":    {[]Node{{"A", yesNo, nil, [][]float64{{0.5, 0.499}}}}, causal.ErrInvalid, causal.At("cpts", "A", "rows", 0)},
		"below 0":        {[]Node{{"A", yesNo, nil, [][]float64{{1.5, -0.5}}}}, causal.ErrInvalid, causal.At("cpts", "A", "rows", 0, 0)},
		"no number":      {[]Node{{"A", yesNo, nil, [][]float64{{0.5, math.NaN()}}}}, causal.ErrInvalid, causal.At("cpts", "A", "rows", 0, 1)},
		"its own parent": {[]Node{{"A", yesNo, []string{"A"}, [][]float64{{0.5, 0.5}, {0.5, 0.5}}}}, causal.ErrCyclic, causal.At("cpts", "A", "parents")},
		"a cycle of two": {[]Node{{"A", yesNo, []string{"B"}, [][]float64{{0.5, 0.5}, {0.5, 0.5}}}, {"B", yesNo, []string{"A"}, [][]float64{{0.5, 0.5}, {0.5, 0.5}}}},
			causal.ErrCyclic, causal.At("cpts", "A", "parents")},
	} {
		_, err := New(tc.nodes)
		checkFault(t, name, err, tc.kind, tc.at)
	}
	n := mustNew(t, []Node{a, {"B", yesNo, []string{"A"}, [][]float64{{1, 0}, {0, 1}}}, {"C", []string{"x", "y", "z"}, nil, [][]float64{{1, 0, 0}}}})
	for name, tc := range map[string]struct {
		q    Query
		kind *causal.Fault
		at   []string
	}{
		"unknown target":        {Query{Target: []string{"A", "Q"}}, causal.ErrInvalid, causal.At("target", 1)},
		"a target twice":        {Query{Target: []string{"A", "A"}}, causal.ErrInvalid, causal.At("target", 1)},
		"unknown evidence":      {Query{Evidence: ev{"Q": "yes"}}, causal.ErrInvalid, causal.At("evidence", "Q")},
		"no such state":         {Query{Do: ev{"A": "maybe"}}, causal.ErrInvalid, causal.At("do", "A")},
		"likelihoods too few":   {Query{Virtual: map[string][]float64{"C": {1, 1}}}, causal.ErrInvalid, causal.At("virtual_evidence", "C")},
		"a likelihood below 0":  {Query{Virtual: map[string][]float64{"A": {1, -1}}}, causal.ErrInvalid, causal.At("virtual_evidence", "A", 1)},
		"impossible":            {Query{Target: []string{"A"}, Evidence: ev{"A": "yes", "B": "no"}}, causal.ErrZeroProbability, nil},
		"against what is set":   {Query{Target: []string{"B"}, Do: ev{"A": "yes"}, Evidence: ev{"A": "no"}}, causal.ErrZeroProbability, nil},
		"an impossible finding": {Query{Target: []string{"B"}, Virtual: map[string][]float64{"A": {0, 0}}}, causal.ErrZeroProbability, nil},
	} {
		_, err := n.Posterior(tc.q)
		checkFault(t, name, err, tc.kind, tc.at)
	}
	for name, tc := range map[string]struct {
		c  Contrast
		at []string
	}{
		"unknown treatment":   {Contrast{ATE, "Q", "B", nil}, causal.At("treatment")},
		"three states":        {Contrast{ATE, "A", "C", nil}, causal.At("outcome")},
		"on itself":           {Contrast{ATE, "A", "A", nil}, causal.At("outcome")},
		"unknown effect":      {Contrast{"cde", "A", "B", nil}, causal.At("kind")},
		"unknown mediator":    {Contrast{NDE, "A", "B", []string{"Q"}}, causal.At("mediators", 0)},
		"a mediator twice":    {Contrast{NDE, "A", "B", []string{"C", "C"}}, causal.At("mediators", 1)},
		"outcome as mediator": {Contrast{NDE, "A", "B", []string{"B"}}, causal.At("mediators", 0)},
	} {
		_, err := n.Effect(tc.c)
		checkFault(t, name, err, causal.ErrInvalid, tc.at)
	}
}

func checkFault(t *testing.T, name string, err error, kind *causal.Fault, at []string) {
	t.Helper()
	var f *causal.Fault
	if !errors.As(err, &f) || !errors.Is(err, kind) || !slices.Equal(f.At, at) {
		t.Errorf("%s: %v, want %v at %v", name, err, kind, at)
	}
}

// What many findings make improbable is not made impossible by it.
func TestManyFindings(t *testing.T) {
	nodes := []Node{{"Z", yesNo, nil, [][]float64{{0.5, 0.5}}}}
	evidence := ev{}
	for i := range 3000 {
		name := "F" + string(rune('0'+i/1000)) + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
		nodes = append(nodes, Node{name, yesNo, []string{"Z"}, [][]float64{{0.2, 0.8}, {0.2, 0.8}}})
		evidence[name] = "yes"
	}
	nodes[1].Rows = [][]float64{{0.3, 0.7}, {0.1, 0.9}}
	got, err := mustNew(t, nodes).Posterior(Query{Target: []string{"Z"}, Evidence: evidence})
	if err != nil || math.Abs(got.P[0]-0.75) > 1e-12 { // .3 against .1
		t.Errorf("%v, %v; want 0.75", got.P, err)
	}
	// Nor do likelihoods that are tiny each: 3:1, 3:1 and 1:3.
	coins := []Node{{"A", yesNo, nil, [][]float64{{0.5, 0.5}}}, {"B", yesNo, []string{"A"}, [][]float64{{1, 0}, {0, 1}}}, {"C", yesNo, []string{"B"}, [][]float64{{1, 0}, {0, 1}}}}
	got, err = mustNew(t, coins).Posterior(Query{Target: []string{"B"}, Virtual: map[string][]float64{"A": {3e-200, 1e-200}, "B": {3e-200, 1e-200}, "C": {1e-200, 3e-200}}})
	if err != nil || math.Abs(got.P[0]-0.75) > 1e-12 {
		t.Errorf("%v, %v; want 0.75", got.P, err)
	}
}

// What costs too much is refused before any work; a network beyond enumeration is not.
func TestCost(t *testing.T) {
	grid := func(n int) (nodes []Node) { // treewidth n
		name := func(i, j int) string { return string(rune('a'+i)) + string(rune('a'+j)) }
		for i := range n {
			for j := range n {
				v := Node{Name: name(i, j), States: yesNo}
				if i > 0 {
					v.Parents = append(v.Parents, name(i-1, j))
				}
				if j > 0 {
					v.Parents = append(v.Parents, name(i, j-1))
				}
				for r := range 1 << len(v.Parents) {
					p := (float64(r) + 1) / 8
					v.Rows = append(v.Rows, []float64{p, 1 - p})
				}
				nodes = append(nodes, v)
			}
		}
		return nodes
	}
	small, err := mustNew(t, grid(8)).Prepare(Query{Target: []string{"aa"}, Evidence: ev{"hh": "yes"}})
	if err != nil || small.Cost() > 1e6 {
		t.Fatalf("64 variables cost %v, %v", small.Cost(), err)
	}
	if _, _, err := small.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := mustNew(t, grid(26)).Prepare(Query{Target: []string{"aa"}, Evidence: ev{"zz": "yes"}}); !errors.Is(err, causal.ErrTooLarge) {
		t.Errorf("a grid of treewidth 26: %v", err)
	}
	if _, err := mustNew(t, grid(6)).Prepare(Query{Target: mustNew(t, grid(6)).Variables()}); !errors.Is(err, causal.ErrTooLarge) {
		t.Errorf("a joint of 2^36 states: %v", err)
	}
}
