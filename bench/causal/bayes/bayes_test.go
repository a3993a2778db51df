package bayes

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/causaltest"
)

// world is one joint state of a network, and its probability.
type world struct {
	state map[string]string
	p     float64
}

// enumerate lists all joint states by the definition: the product of one entry a
// table, without those of variables that are set.
func enumerate(nodes []Node, do map[string]string) []world {
	worlds := []world{{map[string]string{}, 1}}
	for _, v := range nodes {
		var next []world
		for _, w := range worlds {
			for _, s := range v.States {
				state := map[string]string{v.Name: s}
				for k, x := range w.state {
					state[k] = x
				}
				next = append(next, world{state, w.p})
			}
		}
		worlds = next
	}
	byName := map[string]Node{}
	for _, v := range nodes {
		byName[v.Name] = v
	}
	for i := range worlds {
		w := &worlds[i]
		for _, v := range nodes {
			if s, set := do[v.Name]; set {
				if w.state[v.Name] != s {
					w.p = 0
				}
				continue
			}
			row := 0
			for _, p := range v.Parents {
				row = row*len(byName[p].States) + slices.Index(byName[p].States, w.state[p])
			}
			w.p *= v.Rows[row][slices.Index(v.States, w.state[v.Name])]
		}
	}
	return worlds
}

// bruteforce answers a query by enumeration.
func bruteforce(nodes []Node, q Query) (p map[string]float64, condition float64) {
	p = map[string]float64{}
	for _, w := range enumerate(nodes, q.Do) {
		weight := w.p
		for v, s := range q.Evidence {
			if w.state[v] != s {
				weight = 0
			}
		}
		for _, v := range nodes {
			if l, ok := q.Virtual[v.Name]; ok {
				weight *= l[slices.Index(v.States, w.state[v.Name])]
			}
		}
		key := ""
		for _, v := range q.Target {
			key += w.state[v] + ","
		}
		p[key] += weight
		condition += weight
	}
	for k := range p {
		p[k] /= condition
	}
	return p, condition
}

// flat is a table as bruteforce has it.
func flat(t Table) map[string]float64 {
	out := map[string]float64{}
	for i, p := range t.P {
		key := ""
		for _, states := range slices.Backward(t.States) {
			key = states[i%len(states)] + "," + key
			i /= len(states)
		}
		out[key] = p
	}
	return out
}

// drawNetwork is a random network with up to six variables of one to three states,
// some of whose probabilities are 0.
func drawNetwork(t *rapid.T) []Node {
	n := rapid.IntRange(1, 6).Draw(t, "variables")
	nodes := make([]Node, n)
	for i := range nodes {
		v := &nodes[i]
		v.Name = fmt.Sprint("v", i)
		for s := range rapid.IntRange(1, 3).Draw(t, "states") {
			v.States = append(v.States, fmt.Sprint("s", s))
		}
		rows := 1
		for j := range i {
			if len(v.Parents) < 3 && rapid.Bool().Draw(t, "arrow") {
				v.Parents = append(v.Parents, nodes[j].Name)
				rows *= len(nodes[j].States)
			}
		}
		for range rows {
			v.Rows = append(v.Rows, causaltest.DrawDistribution(t, len(v.States), "weight"))
		}
	}
	return rapid.Permutation(nodes).Draw(t, "listing")
}

func drawState(t *rapid.T, v Node) string { return rapid.SampledFrom(v.States).Draw(t, "state") }

// Elimination, pruning and the order of the factors make no difference: every answer
// is what the product of all tables says.
func TestEliminationIsEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNetwork(t)
		net, err := New(nodes)
		if err != nil {
			t.Fatal(err)
		}
		q := Query{Do: map[string]string{}, Evidence: map[string]string{}, Virtual: map[string][]float64{}}
		for _, v := range nodes {
			switch rapid.IntRange(0, 5).Draw(t, "role") {
			case 0:
				q.Do[v.Name] = drawState(t, v)
			case 1:
				q.Evidence[v.Name] = drawState(t, v)
			case 2:
				for range v.States {
					// In whole sixteenths: enumeration underflows where many are tiny, elimination
					// does not (TestManyFindings).
					q.Virtual[v.Name] = append(q.Virtual[v.Name], float64(rapid.IntRange(0, 32).Draw(t, "likelihood"))/16)
				}
			}
			if rapid.Bool().Draw(t, "target") {
				q.Target = append(q.Target, v.Name)
			}
		}
		want, condition := bruteforce(nodes, q)
		inf, err := net.Prepare(q)
		if err != nil {
			t.Fatal(err)
		}
		got, p, err := inf.Run()
		if condition == 0 {
			if !errors.Is(err, causal.ErrZeroProbability) {
				t.Fatalf("the condition is impossible: %v, %v", got, err)
			}
			return
		}
		if err != nil || math.Abs(p-condition) > 1e-12 {
			t.Fatalf("P(condition) = %v, %v; want %v", p, err, condition)
		}
		for key, x := range flat(got) {
			if math.Abs(x-want[key]) > 1e-12 {
				t.Fatalf("P(%s) = %v, want %v", key, x, want[key])
			}
		}
	})
}
