package scm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
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

// drawNodes is a random model of up to five nodes with two or three values.
func drawNodes(t *rapid.T) []Node {
	n := rapid.IntRange(1, 5).Draw(t, "nodes")
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
		tables := rapid.IntRange(1, 4).Draw(t, "tables")
		weights := make([]float64, tables)
		total := 0.0
		for k := range weights {
			weights[k] = float64(rapid.IntRange(0, 5).Draw(t, "weight"))
			total += weights[k]
		}
		if total == 0 {
			weights[0], total = 1, 1
		}
		for k := range weights {
			v.Tables = append(v.Tables, Table{weights[k] / total, rapid.SliceOfN(rapid.IntRange(0, 2), rows, rows).Draw(t, "table")})
		}
	}
	return rapid.Permutation(nodes).Draw(t, "listing")
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
