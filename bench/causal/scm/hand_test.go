package scm

import (
	"errors"
	"math"
	"testing"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
)

// Models of the hand cases. A table of one parent is [value at 0, value at 1].
var (
	copies  = []int{0, 1}
	negates = []int{1, 0}
	zero    = []int{0, 0}
	one     = []int{1, 1}

	// Z is a fair coin; X is Z, wrong in 1 of 10; Y is Z, wrong in 2 of 10.
	fork = []Node{
		{"Z", nil, Root(500)},
		{"X", []string{"Z"}, Mixture([]Thousandths{900, 100}, [][]int{copies, negates})},
		{"Y", []string{"Z"}, Mixture([]Thousandths{800, 200}, [][]int{copies, negates})},
	}
	// X is 1 in 6 of 10; Y copies it in 7 of 10, else is 1 in 1 and 0 in 2 of 10.
	direct = []Node{
		{"X", nil, Root(600)},
		{"Y", []string{"X"}, Mixture([]Thousandths{700, 100, 200}, [][]int{copies, one, zero})},
	}
	// The same observed distribution as direct, of other responses.
	directToo = []Node{
		{"X", nil, Root(600)},
		{"Y", []string{"X"}, Mixture([]Thousandths{750, 50, 50, 150}, [][]int{copies, negates, one, zero})},
	}
	// X and Y are fair coins, and C says whether one is 1.
	collider = []Node{
		{"C", []string{"X", "Y"}, Mixture([]Thousandths{1000}, [][]int{{0, 1, 1, 1}})},
		{"X", nil, Root(500)},
		{"Y", nil, Root(500)},
	}
	// Two causes, fair coins, get through in 8 and 5 of 10; the leak in 1 of 10.
	noisyOr = []Node{
		{"A", nil, Root(500)},
		{"B", nil, Root(500)},
		{"Y", []string{"A", "B"}, NoisyOr([]Thousandths{800, 500}, 100)},
	}
	// Both causes are needed, and it fails in 1 of 10.
	and = []Node{
		{"A", nil, Root(500)},
		{"B", nil, Root(500)},
		{"Y", []string{"A", "B"}, And(2, 900)},
	}
	// M copies X in 8 of 10 and is 0 else; Y is X and M in 5, M in 3, X in 2 of 10.
	mediation = []Node{
		{"X", nil, Root(500)},
		{"M", []string{"X"}, Mixture([]Thousandths{800, 200}, [][]int{copies, zero})},
		{"Y", []string{"X", "M"}, Mixture([]Thousandths{500, 300, 200}, [][]int{{0, 0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}})},
	}
	// U is a fair coin that nobody sees; X is U, wrong in 1 of 10; Y is X or U, and 0
	// in 2 of 10 whatever they are.
	confounded = []Node{
		{"U", nil, Root(500)},
		{"X", []string{"U"}, Mixture([]Thousandths{900, 100}, [][]int{copies, negates})},
		{"Y", []string{"X", "U"}, Mixture([]Thousandths{800, 200}, [][]int{{0, 1, 1, 1}, {0, 0, 0, 0}})},
	}
)

type at = map[string]int

// The answers were worked out on paper before the engine was there.
func TestHandCases(t *testing.T) {
	for _, tc := range []struct {
		name  string
		model []Node
		rung  Rung
		q     Query
		want  float64
	}{
		// P(Z=1 | X=1) = .9, so .9·.8 + .1·.2.
		{"a fork associates", fork, Association, Query{Target: at{"Y": 1}, Given: at{"X": 1}}, 0.74},
		// X does nothing to Y, which is 1 in half of the cases.
		{"a fork has no effect", fork, Intervention, Query{Target: at{"Y": 1}, Do: at{"X": 1}}, 0.5},
		// Nor would Y have been another: it is the same case.
		{"a fork's outcome stays", fork, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"X": 0}, Factual: at{"X": 1, "Y": 1}}, 1},
		// Z=1 in P(Z=1 | X=1, Y=1) = .9·.8/(.9·.8 + .1·.2) = .72/.74 of the cases.
		{"a fork's common cause", fork, Association, Query{Target: at{"Z": 1}, Given: at{"X": 1, "Y": 1}}, 0.72 / 0.74},

		// Y is 1 with X=1 if it copies or is always 1: .7 + .1.
		{"a cause observed", direct, Association, Query{Target: at{"Y": 1}, Given: at{"X": 1}}, 0.8},
		// X has no cause itself: seeing is doing.
		{"a root set", direct, Intervention, Query{Target: at{"Y": 1}, Do: at{"X": 1}}, 0.8},
		// Necessity: of the .8 where Y=1 with X=1, the .7 that copy would be 0.
		{"necessity", direct, Counterfactual, Query{Target: at{"Y": 0}, Do: at{"X": 0}, Factual: at{"X": 1, "Y": 1}}, 0.875},
		// The same distribution, but now .75 of the .8 copy.
		{"necessity is no matter of the joint", directToo, Counterfactual, Query{Target: at{"Y": 0}, Do: at{"X": 0}, Factual: at{"X": 1, "Y": 1}}, 0.9375},
		{"as the joint is equal", directToo, Association, Query{Target: at{"Y": 1}, Given: at{"X": 1}}, 0.8},
		// Sufficiency: of the .9 where Y=0 with X=0, .7 copy.
		{"sufficiency", direct, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"X": 1}, Factual: at{"X": 0, "Y": 0}}, 0.7 / 0.9},
		// What was done anyway changes nothing (consistency).
		{"consistency", direct, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"X": 1}, Factual: at{"X": 1, "Y": 1}}, 1},

		// Three of four cases have C=1, two of them X=1.
		{"a collider", collider, Association, Query{Target: at{"X": 1}, Given: at{"C": 1}}, 2.0 / 3},
		// Y=1 makes C=1 certain, which then says nothing of X.
		{"a collider explained away", collider, Association, Query{Target: at{"X": 1}, Given: at{"C": 1, "Y": 1}}, 0.5},
		// An effect that is set says nothing of its causes.
		{"a collider set", collider, Intervention, Query{Target: at{"X": 1}, Do: at{"C": 1}}, 0.5},
		// Without X, C is 1 where Y is: in 2 of the 3 cases with C=1.
		{"a collider without a cause", collider, Counterfactual, Query{Target: at{"C": 1}, Do: at{"X": 0}, Factual: at{"C": 1}}, 2.0 / 3},

		// Everything must fail to get through: 1 - .9·.2·.5.
		{"noisy or", noisyOr, Intervention, Query{Target: at{"Y": 1}, Do: at{"A": 1, "B": 1}}, 0.91},
		// Y=1 with A alone: leak or A's link, .1 + .9·.8 = .82. With B alone it would be 1
		// by the leak or both links: .1 + .9·.8·.5 = .46. (One threshold would say .55/.82.)
		{"inhibitors are independent", noisyOr, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"A": 0, "B": 1}, Factual: at{"A": 1, "B": 0, "Y": 1}}, 0.46 / 0.82},
		{"and", and, Intervention, Query{Target: at{"Y": 1}, Do: at{"A": 1, "B": 1}}, 0.9},
		// Failure is to constant 0: without a cause Y is 0 in any case.
		{"and without a cause", and, Counterfactual, Query{Target: at{"Y": 0}, Do: at{"A": 0}, Factual: at{"A": 1, "B": 1, "Y": 1}}, 1},
		// Y=0 though both were there: it failed, and fails again.
		{"a failure stays", and, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"A": 1}, Factual: at{"A": 1, "B": 1, "Y": 0}}, 0},

		// U is 1 in .1 of the cases with X=0, and Y with it in .8: .08.
		{"confounded, seen", confounded, Association, Query{Target: at{"Y": 1}, Given: at{"X": 0}}, 0.08},
		// U keeps its .5: .5·.8.
		{"confounded, set", confounded, Intervention, Query{Target: at{"Y": 1}, Do: at{"X": 0}}, 0.4},
		// X=1, set, says nothing of U, and Y=1 is as likely with U=0.
		{"observed after setting", confounded, Intervention, Query{Target: at{"U": 1}, Do: at{"X": 1}, Given: at{"Y": 1}}, 0.5},
		// Y=1 shows that it did not fail: without X it is U, 1 in .9 of those with X=1.
		{"confounded, undone", confounded, Counterfactual, Query{Target: at{"Y": 1}, Do: at{"X": 0}, Factual: at{"X": 1, "Y": 1}}, 0.9},
	} {
		m, err := New(tc.model, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Ask(tc.rung, tc.q); err != nil || math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestHandEffects(t *testing.T) {
	for _, tc := range []struct {
		name   string
		model  []Node
		effect bayes.Effect
		want   float64
	}{
		// M is 0 without X, and then Y. With X, M is 1 in .8, Y with it always; else Y is X
		// in .2: .8 + .2·.2.
		{"total", mediation, bayes.ATE, 0.84},
		{"total on the treated", mediation, bayes.ETT, 0.84}, // X is a root
		// With X, but M as without it, 0: Y is 1 where it is X.
		{"direct", mediation, bayes.NDE, 0.2},
		// Without X, but M as with it: .8, and Y is 1 where it is M.
		{"indirect", mediation, bayes.NIE, 0.24},
		// With X set, Y is 1 unless it fails: .8, without .4.
		{"confounded", confounded, bayes.ATE, 0.4},
		// Those with X=1 have U=1 in .9: .8 - .9·.8.
		{"confounded, on the treated", confounded, bayes.ETT, 0.08},
		{"without mediators", confounded, bayes.NDE, 0.4},
		{"without mediators, indirectly", confounded, bayes.NIE, 0},
	} {
		m, err := New(tc.model, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Effect(bayes.Contrast{Effect: tc.effect, Treatment: "X", Outcome: "Y"}); err != nil || math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

// Each reader of a question gets what it would take for the answer.
func TestHandRungs(t *testing.T) {
	m, err := New(confounded, []string{"U"})
	if err != nil {
		t.Fatal(err)
	}
	show := func(p *float64) any {
		if p == nil {
			return nil
		}
		return math.Round(*p*1e12) / 1e12
	}
	for _, tc := range []struct {
		name string
		q    Query
		want [4]any
	}{
		// The readings: X cannot be 0 and 1; .4 as above; X and Y are reached, so nothing
		// is kept; .9 as above.
		{"effect undone", Query{Target: at{"Y": 1}, Do: at{"X": 0}, Factual: at{"X": 1, "Y": 1}}, [4]any{nil, 0.4, 0.4, 0.9}},
		// U=1 is kept: without X, Y is 1 unless it fails, .8. That it did not fail is known
		// only to who keeps the noise.
		{"cause kept", Query{Target: at{"Y": 1}, Do: at{"X": 0}, Factual: at{"U": 1, "Y": 1}}, [4]any{1.0, 0.4, 0.8, 1.0}},
		// Y=1 without X, but X=0, U=0 and Y=1 cannot be observed together.
		{"impossible fact", Query{Target: at{"X": 0}, Do: at{"X": 0}, Factual: at{"U": 0, "X": 0, "Y": 1}}, [4]any{nil, 1.0, 1.0, nil}},
	} {
		got, err := m.Rungs(tc.q)
		if err != nil {
			t.Fatal(err)
		}
		if shown := [4]any{show(got.Association), show(got.Intervention), show(got.Resampled), show(got.Abduced)}; shown != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, shown, tc.want)
		}
	}
}

// A noisy or has a table for each set of links and one for the leak; weights are
// exact thousandths.
func TestNoisyOrTables(t *testing.T) {
	tables := NoisyOr([]Thousandths{800, 500}, 100)
	if len(tables) != 5 {
		t.Fatalf("%d tables, want 2²+1", len(tables))
	}
	total := 0.0
	for _, table := range tables {
		total += table.P
	}
	if math.Abs(total-1) > 1e-15 || tables[0].P != 0.09 || tables[4].P != 0.1 {
		t.Errorf("weights %v", tables)
	}
	if got := NoisyOr([]Thousandths{1000}, 0); len(got) != 1 {
		t.Errorf("a link that never fails has the tables %v", got)
	}
}

// Every broken model or question is refused, with the place of the fault.
func TestFaults(t *testing.T) {
	root := func(name string) Node { return Node{name, nil, Root(500)} }
	for name, tc := range map[string]struct {
		nodes  []Node
		latent []string
		kind   *causal.Fault
		at     []string
	}{
		"a name twice":      {[]Node{root("X"), root("X")}, nil, causal.ErrInvalid, causal.At("nodes", 1, "name")},
		"no table":          {[]Node{{"X", nil, nil}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "tables")},
		"off by 1e-3":       {[]Node{{"X", nil, []Table{{0.5, []int{0}}, {0.501, []int{1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "tables")},
		"below 0":           {[]Node{{"X", nil, []Table{{-0.5, []int{0}}, {1.5, []int{1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "tables", 0, "p")},
		"no probability":    {[]Node{{"X", nil, []Table{{math.NaN(), []int{0}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "tables", 0, "p")},
		"a value below 0":   {[]Node{{"X", nil, []Table{{1, []int{-1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "tables", 0, "table", 0)},
		"values past count": {[]Node{{"X", nil, []Table{{1, []int{MaxValues}}}}}, nil, causal.ErrTooLarge, causal.At("nodes", 0, "tables", 0, "table", 0)},
		"unknown parent":    {[]Node{{"X", []string{"Z"}, []Table{{1, []int{0, 1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 0, "parents", 0)},
		"a parent twice":    {[]Node{root("X"), {"Y", []string{"X", "X"}, []Table{{1, []int{0, 1, 0, 1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 1, "parents", 1)},
		"a short table":     {[]Node{root("X"), {"Y", []string{"X"}, []Table{{1, []int{0}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 1, "tables", 0, "table")},
		"a long table":      {[]Node{root("X"), {"Y", []string{"X"}, []Table{{0.5, []int{0, 1}}, {0.5, []int{0, 1, 1}}}}}, nil, causal.ErrInvalid, causal.At("nodes", 1, "tables", 1, "table")},
		"a cycle": {[]Node{{"X", []string{"Y"}, []Table{{1, []int{0, 1}}}}, {"Y", []string{"X"}, []Table{{1, []int{0, 1}}}}},
			nil, causal.ErrCyclic, causal.At("nodes", 0, "parents")},
		"unknown latent": {[]Node{root("X")}, []string{"U"}, causal.ErrInvalid, causal.At("latent", 0)},
		"a latent twice": {[]Node{root("X")}, []string{"X", "X"}, causal.ErrInvalid, causal.At("latent", 1)},
	} {
		_, err := New(tc.nodes, tc.latent)
		checkFault(t, name, err, tc.kind, tc.at)
	}
	m, err := New(direct, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		q    Query
		kind *causal.Fault
		at   []string
	}{
		"unknown target":     {Query{Target: at{"Q": 1}}, causal.ErrInvalid, causal.At("target", "Q")},
		"no such value":      {Query{Target: at{"Y": 1}, Do: at{"X": 2}}, causal.ErrInvalid, causal.At("do", "X")},
		"the first by name":  {Query{Target: at{"Y": 1}, Factual: at{"X": -1, "A": 0, "Y": 7}}, causal.ErrInvalid, causal.At("factual", "A")},
		"impossible":         {Query{Target: at{"Y": 1}, Given: at{"X": 1}, Do: at{"X": 0}}, causal.ErrZeroProbability, nil},
		"impossible factual": {Query{Target: at{"Y": 1}, Given: at{"Y": 1}, Do: at{"X": 1}, Factual: at{"X": 1, "Y": 0}}, causal.ErrZeroProbability, nil},
	} {
		_, err := m.Ask(Counterfactual, tc.q)
		checkFault(t, name, err, tc.kind, tc.at)
	}
	for name, tc := range map[string]struct {
		c  bayes.Contrast
		at []string
	}{
		"unknown treatment":     {bayes.Contrast{Effect: bayes.ATE, Treatment: "Q", Outcome: "Y"}, causal.At("treatment")},
		"on itself":             {bayes.Contrast{Effect: bayes.ATE, Treatment: "X", Outcome: "X"}, causal.At("outcome")},
		"unknown effect":        {bayes.Contrast{Effect: "cde", Treatment: "X", Outcome: "Y"}, causal.At("kind")},
		"treatment as mediator": {bayes.Contrast{Effect: bayes.NDE, Treatment: "X", Outcome: "Y", Mediators: []string{"X"}}, causal.At("mediators", 0)},
	} {
		_, err := m.Effect(tc.c)
		checkFault(t, name, err, causal.ErrInvalid, tc.at)
	}
}

func checkFault(t *testing.T, name string, err error, kind *causal.Fault, at []string) {
	t.Helper()
	var f *causal.Fault
	if !errors.As(err, &f) || !errors.Is(err, kind) || len(f.At) != len(at) {
		t.Errorf("%s: %v, want %v at %v", name, err, kind, at)
		return
	}
	for i := range at {
		if f.At[i] != at[i] {
			t.Errorf("%s: at %v, want %v", name, f.At, at)
		}
	}
}
