package graph_test

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal/bayes"
	"assay/bench/causal/graph"
	"assay/bench/causal/graph/graphtest"
)

// model is a drawn model of a graph, asked for probabilities of values by node.
type model struct {
	t      *rapid.T
	g      *graph.Graph
	net    *bayes.Network
	states []int
}

type values map[int]int

// p is P(target | do, given).
func (m model) p(target, do, given values) float64 {
	named := func(v values) map[string]string {
		out := map[string]string{}
		for node, x := range v {
			out[m.g.Name(node)] = strconv.Itoa(x)
		}
		return out
	}
	q := bayes.Query{Do: named(do), Evidence: named(given)}
	p := 1.0
	for node, x := range target { // the chain rule
		q.Target = []string{m.g.Name(node)}
		table, err := m.net.Posterior(q)
		if err != nil {
			m.t.Fatal(err)
		}
		p *= table.P[x]
		q.Evidence[m.g.Name(node)] = strconv.Itoa(x)
	}
	return p
}

// each calls visit with every combination of values of a set.
func (m model) each(s graph.Set, visit func(values)) {
	at := values{}
	members := []int{}
	for v := range s.All() {
		members = append(members, v)
	}
	var pick func(i int)
	pick = func(i int) {
		if i == len(members) {
			visit(at)
			return
		}
		for x := range m.states[members[i]] {
			at[members[i]] = x
			pick(i + 1)
		}
	}
	pick(0)
}

func both(a, b values) values {
	out := values{}
	for _, from := range []values{a, b} {
		for v, x := range from {
			out[v] = x
		}
	}
	return out
}

// In a drawn model the adjustment formula is right just where the complete criterion
// takes the set; what Pearl's criteria take makes theirs right.
func TestFormulasOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graphtest.Draw(t, 5)
		treatment := graphtest.DrawNode(t, g.All(), "x")
		x := g.NewSet(treatment)
		y := g.NewSet(graphtest.DrawNode(t, g.All().Minus(x), "y"))
		if rapid.Bool().Draw(t, "two treatments") {
			if rest := g.All().Minus(x).Minus(y); !rest.Empty() {
				x.Add(graphtest.DrawNode(t, rest, "second"))
			}
		}
		set := graphtest.DrawSet(t, g, g.All().Minus(x).Minus(y), "set")
		net, states := graphtest.DrawModel(t, g)
		m := model{t, g, net, states}
		worst, worstDoor := 0.0, 0.0
		m.each(x, func(xs values) {
			m.each(y, func(ys values) {
				truth, adjusted, door := m.p(ys, xs, nil), 0.0, 0.0
				m.each(set, func(zs values) {
					adjusted += m.p(ys, nil, both(xs, zs)) * m.p(zs, nil, nil)
					inner := 0.0
					m.each(x, func(others values) {
						inner += m.p(ys, nil, both(others, zs)) * m.p(others, nil, nil)
					})
					door += m.p(zs, nil, xs) * inner
				})
				worst = max(worst, math.Abs(truth-adjusted))
				worstDoor = max(worstDoor, math.Abs(truth-door))
			})
		})
		none := g.NewSet()
		if valid := g.Adjustment(x, y, none).Valid(set); valid != (worst < 1e-9) {
			t.Fatalf("adjustment for %v is valid: %v, but off by %g", g.Names(set), valid, worst)
		}
		if g.BackDoor(x, y, none).Valid(set) && worst > 1e-9 {
			t.Fatalf("%v closes the back doors, but adjustment is off by %g", g.Names(set), worst)
		}
		if g.FrontDoor(x, y, none).Valid(set) && worstDoor > 1e-9 {
			t.Fatalf("%v is a front door, but its formula is off by %g", g.Names(set), worstDoor)
		}
	})
}
