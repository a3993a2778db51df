package identify

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
	"assay/bench/causal/graph"
	"assay/bench/causal/graph/graphtest"
)

func TestFormulas(t *testing.T) {
	for name, tc := range map[string]struct{ graph, do, outcome, given, want string }{
		"no confounder":       {"X -> Y", "X", "Y", "", "P(Y|X)"},
		"back door":           {"Z -> X; Z -> Y; X -> Y", "X", "Y", "", "sum_{Z} P(Z) P(Y|Z,X)"},
		"front door":          {"X -> Z; Z -> Y; X <-> Y", "X", "Y", "", "sum_{Z} P(Z|X) sum_{X'} P(X') P(Y|X',Z)"},
		"no effect":           {"Y -> X", "X", "Y", "", "P(Y)"},
		"nothing done":        {"X -> Y; X <-> Y", "", "Y", "", "sum_{X} P(X) P(Y|X)"},
		"a condition between": {"X -> Z; Z -> Y; X <-> Z", "X", "Y", "Z", "P(Y|Z)"},
		// The napkin: W may have any value.
		"napkin": {"W -> Z; Z -> X; X -> Y; W <-> X; W <-> Y", "X", "Y", "", "(sum_{W} P(W) P(X|W,Z) P(Y|W,Z,X)) / (sum_{W} P(W) P(X|W,Z))"},
	} {
		g := graphtest.Parse(t, tc.graph)
		e, hedge, err := Identify(g, Query{graphtest.Set(t, g, tc.do), graphtest.Set(t, g, tc.outcome), graphtest.Set(t, g, tc.given)})
		if hedge != nil || err != nil {
			t.Errorf("%s: not identifiable, or %v", name, err)
		} else if e.String() != tc.want {
			t.Errorf("%s: %s\nwant %s", name, e, tc.want)
		}
	}
}

func TestHedges(t *testing.T) {
	for name, tc := range map[string]struct{ graph, do, outcome, given string }{
		"bow":                      {"X -> Y; X <-> Y", "X", "Y", ""},
		"no instrument":            {"Z -> X; X -> Y; X <-> Y", "X", "Y", ""},
		"confounded mediator":      {"X -> Z; X -> Y; Z -> Y; X <-> Z", "X", "Y", ""},
		"confounded over another":  {"X -> Y; Z -> X; X <-> Z; Y <-> Z", "X", "Y", ""},
		"opened by its condition":  {"X -> Z; Z -> Y; X <-> Z; Y <-> Z", "X", "Y", "Z"},
		"shown by conditions only": {"X -> W; X <-> W; Y -> W", "X", "Y", "W"},
		"two colliders":            {"X -> W; X <-> W; W <-> C; C -> D; C <-> Y", "X", "Y", "W D"},
		"a longer way":             {"X -> A; X <-> A; A -> B; B -> Y", "X", "Y", ""},
		"through the hedge":        {"A -> X; X -> B; B -> Y; A <-> B; A <-> X; B -> A2; A2 -> Y; X <-> A2", "X", "Y", ""},
	} {
		g := graphtest.Parse(t, tc.graph)
		q := Query{graphtest.Set(t, g, tc.do), graphtest.Set(t, g, tc.outcome), graphtest.Set(t, g, tc.given)}
		e, hedge, err := Identify(g, q)
		if hedge == nil {
			t.Errorf("%s: %s, %v", name, e, err)
			continue
		}
		checkWitness(t, name, g, q, hedge)
	}
}

func checkWitness(t interface {
	Fatalf(format string, args ...any)
}, name string, g *graph.Graph, q Query, h *Hedge) {
	p := h.Prove(g, q)
	if p.Cost() > 1e6 {
		return
	}
	w, err := p.Witness()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if w.Gap < MinGap {
		t.Fatalf("%s: gap %g", name, w.Gap)
	}
	for _, m := range w.Models {
		children := map[string][]string{}
		for _, v := range m.Nodes {
			for _, parent := range v.Parents {
				if slices.Contains(m.Latent, parent) {
					children[parent] = append(children[parent], v.Name)
					continue
				}
				a, okA := g.Node(parent)
				b, okB := g.Node(v.Name)
				if !okA || !okB || !slices.Contains(g.Children(a), b) {
					t.Fatalf("%s: the graph has no arrow %s -> %s", name, parent, v.Name)
				}
			}
		}
		for root, ends := range children {
			a, _ := g.Node(ends[0])
			b, _ := g.Node(ends[len(ends)-1])
			if len(ends) > 2 || len(ends) == 2 && !slices.Contains(g.Siblings(a), b) {
				t.Fatalf("%s: %s joins %v", name, root, ends)
			}
		}
	}
}

func drawQuery(t *rapid.T, g *graph.Graph) Query {
	q := Query{g.NewSet(), g.NewSet(), g.NewSet()}
	for v := range g.Len() {
		switch rapid.IntRange(0, 5).Draw(t, "role") {
		case 0, 1:
			q.Do.Add(v)
		case 2:
			q.Given.Add(v)
		case 3:
			q.Outcome.Add(v)
		}
	}
	if q.Outcome.Empty() {
		v := rapid.IntRange(0, g.Len()-1).Draw(t, "outcome")
		q.Do.Remove(v)
		q.Given.Remove(v)
		q.Outcome.Add(v)
	}
	return q
}

// What is identifiable is what the model itself answers, by intervention on the
// network with its latent roots; what is not has a witness.
func TestIdentifyIsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graphtest.Draw(t, 5)
		q := drawQuery(t, g)
		e, hedge, err := Identify(g, q)
		if err != nil {
			t.Fatal(err)
		}
		if hedge != nil {
			checkWitness(t, "drawn", g, q, hedge)
			return
		}
		net, states := graphtest.DrawModel(t, g)
		joint := &Joint{States: states, Marginal: func(vars []int) []float64 {
			table, err := net.Joint(g.Names(g.NewSet(vars...))...)
			if err != nil {
				t.Fatal(err)
			}
			return table.P
		}}
		values := map[int]int{}
		do, given := map[string]string{}, map[string]string{}
		for v := range q.Do.Or(q.Given).All() {
			values[v] = rapid.IntRange(0, states[v]-1).Draw(t, "value")
			to := given
			if q.Do.Has(v) {
				to = do
			}
			to[g.Name(v)] = strconv.Itoa(values[v])
		}
		want, err := net.Posterior(bayes.Query{Target: g.Names(q.Outcome), Do: do, Evidence: given})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Evaluate(joint, values)
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		for i, p := range want.P {
			if math.Abs(got[i]-p) > 1e-9 {
				t.Fatalf("%s is %v, the truth %v", e, got, want.P)
			}
		}
	})
}

// Each step of a long way to the outcome writes the formula before it several times;
// it is cut off before it takes the memory.
func TestLongFormulas(t *testing.T) {
	for steps, tooLong := range map[int]bool{1: false, 2: false, 30: true} {
		edges, do := []string{"X -> Y", "C0 -> X"}, "X"
		for i := range steps {
			n, c := fmt.Sprint("N", i), fmt.Sprint("C", i)
			edges = append(edges, n+" -> Y", n+" <-> "+c, c+" <-> Y", fmt.Sprintf("C%d -> %s", i+1, n))
			do += " " + n
		}
		g := graphtest.Parse(t, strings.Join(edges, ";"))
		_, hedge, err := Identify(g, Query{graphtest.Set(t, g, do), graphtest.Set(t, g, "Y"), g.NewSet()})
		if hedge != nil || errors.Is(err, causal.ErrTooLarge) != tooLong {
			t.Errorf("%d steps: hedge %v, %v", steps, hedge, err)
		}
	}
}
