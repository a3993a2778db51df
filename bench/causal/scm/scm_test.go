package scm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
	"assay/bench/causal/causaltest"
)

// state is a joint state of the noise: the table of each node.
type state struct {
	p     float64
	table map[string][]int
}

// states lists the noise.
func states(nodes []Node) []state {
	out := []state{{1, map[string][]int{}}}
	for _, v := range nodes {
		var next []state
		for _, s := range out {
			for _, t := range v.Tables {
				table := map[string][]int{v.Name: t.Values}
				for k, x := range s.table {
					table[k] = x
				}
				next = append(next, state{s.p * t.P, table})
			}
		}
		out = next
	}
	return out
}

func cardinality(v Node) int {
	card := 2
	for _, t := range v.Tables {
		card = max(card, slices.Max(t.Values)+1)
	}
	return card
}

// solve gives the value of every node under one state of the noise. in says what a
// node is set to.
func solve(nodes []Node, s state, in func(v string) (int, bool)) map[string]int {
	byName := map[string]Node{}
	for _, v := range nodes {
		byName[v.Name] = v
	}
	value := map[string]int{}
	var of func(name string) int
	of = func(name string) int {
		if x, ok := value[name]; ok {
			return x
		}
		x, ok := in(name)
		if !ok {
			row := 0
			for _, p := range byName[name].Parents {
				row = row*cardinality(byName[p]) + of(p)
			}
			x = s.table[name][row]
		}
		value[name] = x
		return x
	}
	for _, v := range nodes {
		of(v.Name)
	}
	return value
}

func set(do map[string]int) func(string) (int, bool) {
	return func(v string) (int, bool) { x, ok := do[v]; return x, ok }
}

func agrees(value, with map[string]int) bool {
	for v, x := range with {
		if value[v] != x {
			return false
		}
	}
	return true
}

// bruteforce answers by the definition: abduction, action, prediction over every
// state of the noise. possible is false where the condition has probability 0.
func bruteforce(nodes []Node, rung Rung, q Query) (p float64, possible bool) {
	if rung == Association {
		q.Do = nil
	}
	if rung != Counterfactual {
		q.Factual = nil
	}
	over, under := 0.0, 0.0
	for _, s := range states(nodes) {
		if s.p == 0 || !agrees(solve(nodes, s, set(nil)), q.Factual) {
			continue
		}
		value := solve(nodes, s, set(q.Do))
		if agrees(value, q.Given) {
			under += s.p
			if agrees(value, q.Target) {
				over += s.p
			}
		}
	}
	return over / under, under > 0
}

// drawNodes is a random model of up to five nodes with two or three values: v0, v1
// and so on, parents first, listed in any order.
func drawNodes(t *rapid.T) []Node { return drawModel(t, 1, 3) }

// drawModel is drawNodes with at least so many nodes, and at most so many values.
func drawModel(t *rapid.T, least, values int) []Node {
	n := rapid.IntRange(least, 5).Draw(t, "nodes")
	nodes := make([]Node, n)
	for i := range nodes {
		v := &nodes[i]
		v.Name = fmt.Sprint("v", i)
		rows := 1
		for j := range i {
			if len(v.Parents) < 3 && rapid.Bool().Draw(t, "arrow") {
				v.Parents = append(v.Parents, nodes[j].Name)
				rows *= cardinality(nodes[j])
			}
		}
		drawTables(t, v, rows, values)
	}
	return rapid.Permutation(nodes).Draw(t, "listing")
}

// drawTables gives a node up to four tables of so many rows, and at most so many values.
func drawTables(t *rapid.T, v *Node, rows, values int) {
	for _, p := range causaltest.DrawDistribution(t, rapid.IntRange(1, 4).Draw(t, "tables"), "weight") {
		v.Tables = append(v.Tables, Table{p, rapid.SliceOfN(rapid.IntRange(0, values-1), rows, rows).Draw(t, "table")})
	}
}

func drawQuery(t *rapid.T, nodes []Node) Query {
	q := Query{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	for _, v := range nodes {
		x := func() int { return rapid.IntRange(0, cardinality(v)-1).Draw(t, "value") }
		switch rapid.IntRange(0, 6).Draw(t, "role") {
		case 0, 1:
			q.Target[v.Name] = x()
		case 2:
			q.Given[v.Name] = x()
		case 3:
			q.Do[v.Name] = x()
		}
		if rapid.IntRange(0, 2).Draw(t, "observed") == 0 {
			q.Factual[v.Name] = x()
		}
	}
	return q
}

// All three rungs, by search and by elimination, are what the definition says.
func TestRungsAreEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		m, err := New(nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := drawQuery(t, nodes)
		for rung := Association; rung <= Counterfactual; rung++ {
			want, possible := bruteforce(nodes, rung, q)
			got, err := m.Ask(rung, q)
			if !possible {
				if !errors.Is(err, causal.ErrZeroProbability) {
					t.Fatalf("rung %d: the condition is impossible: %v, %v", rung, got, err)
				}
				continue
			}
			if err != nil || math.Abs(got-want) > 1e-12 {
				t.Fatalf("rung %d: %v, %v; want %v", rung, got, err, want)
			}
		}
		p, err := m.parts(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []event{
			{m.none(), p.factual, p.do, p.target, nil},
			{p.given, p.factual, p.do, p.target, nil},
			{p.given, m.none(), p.do, p.target, slices.Repeat([]bool{true}, len(nodes))},
		} {
			twin, ok := m.two(e)
			if !ok {
				continue
			}
			searched := twin.search()
			s, err := twin.eliminate()
			if err != nil {
				t.Fatal(err)
			}
			if p, exp := s.run(); math.Abs(math.Ldexp(p, exp)-searched) > 1e-12 {
				t.Fatalf("eliminated %v, searched %v", p, searched)
			}
		}
	})
}

// nested is E[Y] in the world where the treatment is set to there and the mediators
// to what they are with the treatment set to elsewhere, by definition.
func nested(nodes []Node, x, y string, there, elsewhere int, mediators []string, factual map[string]int) float64 {
	over, under := 0.0, 0.0
	for _, s := range states(nodes) {
		if !agrees(solve(nodes, s, set(nil)), factual) {
			continue
		}
		under += s.p
		other := solve(nodes, s, set(map[string]int{x: elsewhere}))
		value := solve(nodes, s, func(v string) (int, bool) {
			if v == x {
				return there, true
			}
			return other[v], slices.Contains(mediators, v)
		})
		if value[y] == 1 {
			over += s.p
		}
	}
	return over / under
}

// Effects are what the definition says, of the model and of its network, which does
// not know how one noise acts in two worlds: where the network gives a number, it is
// right for every way.
func TestEffectsAreNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawModel(t, 3, 2)
		x, y := "v0", fmt.Sprint("v", len(nodes)-1)
		var listed []string
		if rapid.Bool().Draw(t, "listed") {
			listed = []string{}
			for _, v := range nodes {
				if v.Name != x && v.Name != y && rapid.Bool().Draw(t, "mediator") {
					listed = append(listed, v.Name)
				}
			}
		}
		checkEffects(t, nodes, x, y, listed)
	})
}

// The network refuses what it cannot know, whatever its numbers, and no more.
func TestNetworkRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, tc := range []struct {
			name    string
			parents map[string]string
			listed  []string
			refused []bayes.Effect
		}{
			{"a cause of the mediator acts past it", map[string]string{"w": "x", "m": "w", "y": "wm"}, []string{"m"}, []bayes.Effect{bayes.NDE, bayes.NIE}},
			{"the same, all of them named", map[string]string{"w": "x", "m": "w", "y": "wm"}, []string{"w", "m"}, nil},
			{"the same, none of them named", map[string]string{"w": "x", "m": "w", "y": "wm"}, nil, nil},
			{"a path enters the mediators again", map[string]string{"m": "x", "w": "m", "n": "w", "y": "mn"}, []string{"m", "n"}, []bayes.Effect{bayes.NDE, bayes.NIE}},
			{"beside the mediator", map[string]string{"w": "x", "m": "x", "y": "wmx"}, []string{"m"}, nil},
		} {
			var nodes []Node
			for _, v := range []string{"x", "w", "m", "n", "y"} {
				node := Node{Name: v, Parents: strings.Split(tc.parents[v], "")}
				drawTables(t, &node, 1<<len(node.Parents), 2)
				nodes = append(nodes, node)
			}
			if refused := checkEffects(t, nodes, "x", "y", tc.listed); !slices.Equal(refused, tc.refused) {
				t.Fatalf("%s: refused %v, want %v", tc.name, refused, tc.refused)
			}
		}
	})
}

// checkEffects holds the effects of a model and of its network against the
// definition, and lists those that the network refuses. nil are the mediators that
// lie between x and y; of these none may be refused.
func checkEffects(t *rapid.T, nodes []Node, x, y string, listed []string) (refused []bayes.Effect) {
	m, err := New(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	mediators := listed
	if listed == nil {
		marked, err := m.mediators(nil, m.index[x], m.index[y])
		if err != nil {
			t.Fatal(err)
		}
		for v, is := range marked {
			if is {
				mediators = append(mediators, m.nodes[v].name)
			}
		}
	}
	plain := nested(nodes, x, y, 0, 0, nil, nil)
	for _, effect := range []struct {
		kind bayes.Effect
		want float64
	}{
		{bayes.ATE, nested(nodes, x, y, 1, 1, nil, nil) - plain},
		{bayes.NDE, nested(nodes, x, y, 1, 0, mediators, nil) - plain},
		{bayes.NIE, nested(nodes, x, y, 0, 1, mediators, nil) - plain},
		{bayes.ETT, nested(nodes, x, y, 1, 1, nil, map[string]int{x: 1}) - nested(nodes, x, y, 0, 0, nil, map[string]int{x: 1})},
	} {
		kind, want := effect.kind, effect.want
		contrast := bayes.Contrast{Effect: kind, Treatment: x, Outcome: y, Mediators: listed}
		got, err := m.Effect(contrast)
		if math.IsNaN(want) {
			if !errors.Is(err, causal.ErrZeroProbability) {
				t.Fatalf("%s: the condition is impossible: %v, %v", kind, got, err)
			}
			continue
		}
		if err != nil || math.Abs(got-want) > 1e-12 {
			t.Fatalf("%s: %v, %v; want %v", kind, got, err, want)
		}
		got, err = m.Network().Effect(contrast)
		switch {
		case errors.Is(err, causal.ErrNotIdentifiable) && listed != nil:
			refused = append(refused, kind)
		case err != nil || math.Abs(got-want) > 1e-12:
			t.Fatalf("%s of the network: %v, %v; want %v", kind, got, err, want)
		}
	}
	return refused
}

// The first two rungs are those of the model's network: conditioning, and the
// truncated factorisation.
func TestNetworkIsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		m, err := New(nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := drawQuery(t, nodes)
		text := func(values map[string]int) map[string]string {
			out := map[string]string{}
			for v, x := range values {
				out[v] = fmt.Sprint(x)
			}
			return out
		}
		for v, x := range q.Target {
			want, wantErr := m.Network().Posterior(bayes.Query{Target: []string{v}, Do: text(q.Do), Evidence: text(q.Given)})
			got, err := m.Ask(Intervention, Query{Target: map[string]int{v: x}, Do: q.Do, Given: q.Given})
			if (err == nil) != (wantErr == nil) || err == nil && math.Abs(got-want.P[x]) > 1e-12 {
				t.Fatalf("%v, %v; the network has %v, %v", got, err, want, wantErr)
			}
		}
	})
}

// Neither names nor the order of the listing make a difference, and the same question
// has the same bits.
func TestNamesAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t)
		q := drawQuery(t, nodes)
		name := func(v string) string { return "renamed " + v }
		renamed := func(values map[string]int) map[string]int {
			out := map[string]int{}
			for v, x := range values {
				out[name(v)] = x
			}
			return out
		}
		other := slices.Clone(rapid.Permutation(nodes).Draw(t, "other listing"))
		for i, v := range other {
			other[i].Name = name(v.Name)
			other[i].Parents = nil
			for _, p := range v.Parents {
				other[i].Parents = append(other[i].Parents, name(p))
			}
		}
		a, err := New(nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(other, nil)
		if err != nil {
			t.Fatal(err)
		}
		for rung := Association; rung <= Counterfactual; rung++ {
			x, errX := a.Ask(rung, q)
			again, _ := a.Ask(rung, q)
			if math.Float64bits(x) != math.Float64bits(again) {
				t.Fatalf("rung %d: %v, then %v", rung, x, again)
			}
			y, errY := b.Ask(rung, Query{renamed(q.Target), renamed(q.Given), renamed(q.Do), renamed(q.Factual)})
			if (errX == nil) != (errY == nil) || math.Abs(x-y) > 1e-12 {
				t.Fatalf("rung %d: %v, %v; renamed %v, %v", rung, x, errX, y, errY)
			}
		}
	})
}
