// Package graphtest makes causal graphs, and models of them, for tests.
package graphtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal/bayes"
	"assay/bench/causal/graph"
)

// Parse reads "a -> b; b <-> c; d". Nodes stand in the order in which they are named.
func Parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	var names []string
	var directed, bidirected [][2]string
	for part := range strings.SplitSeq(text, ";") {
		f := strings.Fields(part)
		for i := 0; i < len(f); i += 2 {
			if !slices.Contains(names, f[i]) {
				names = append(names, f[i])
			}
		}
		if len(f) == 3 && f[1] == "->" {
			directed = append(directed, [2]string{f[0], f[2]})
		} else if len(f) == 3 {
			bidirected = append(bidirected, [2]string{f[0], f[2]})
		}
	}
	g, err := graph.New(names, directed, bidirected)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Set finds the nodes of "a b".
func Set(t testing.TB, g *graph.Graph, names string) graph.Set {
	t.Helper()
	s := g.NewSet()
	for _, name := range strings.Fields(names) {
		v, ok := g.Node(name)
		if !ok {
			t.Fatalf("there is no node %q", name)
		}
		s.Add(v)
	}
	return s
}

// Draw draws a graph of 2 nodes or more, whose listing says nothing of its order.
func Draw(t *rapid.T, most int) *graph.Graph {
	n := rapid.IntRange(2, most).Draw(t, "n")
	var names []string
	for v := range n {
		names = append(names, fmt.Sprint("v", v))
	}
	order := rapid.Permutation(names).Draw(t, "order")
	var directed, bidirected [][2]string
	for i := range n {
		for j := range i {
			kind := rapid.IntRange(0, 9).Draw(t, "edge")
			e := [2]string{order[j], order[i]}
			if kind < 5 {
				directed = append(directed, e)
			}
			if kind >= 3 && kind < 7 {
				bidirected = append(bidirected, e)
			}
		}
	}
	g, err := graph.New(names, directed, bidirected)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// DrawSet draws a subset of from.
func DrawSet(t *rapid.T, g *graph.Graph, from graph.Set, name string) graph.Set {
	s := g.NewSet()
	for v := range from.All() {
		if rapid.Bool().Draw(t, name) {
			s.Add(v)
		}
	}
	return s
}

// DrawNode draws a member of from.
func DrawNode(t *rapid.T, from graph.Set, name string) int {
	return rapid.SampledFrom(slices.Collect(from.All())).Draw(t, name)
}

// rootStates is how many states a latent root has.
const rootStates = 3

// DrawModel draws a positive model of a graph: a network in which each bidirected
// edge is a latent root, and how many states each node has, "0" on.
func DrawModel(t *rapid.T, g *graph.Graph) (net *bayes.Network, states []int) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) // drawn numbers would often be equal
	row := func(n int) []float64 {
		p, total := make([]float64, n), 0.0
		for i := range p {
			p[i] = 0.1 + r.Float64()
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		return p
	}
	named := func(n int) (list []string) {
		for x := range n {
			list = append(list, strconv.Itoa(x))
		}
		return list
	}
	var nodes []bayes.Node
	roots := make([][]string, g.Len())
	states = make([]int, g.Len())
	for v := range g.Len() {
		states[v] = rapid.IntRange(2, 3).Draw(t, "states")
		for _, s := range g.Siblings(v) {
			if v < s {
				name := fmt.Sprintf("U_%d_%d", v, s)
				nodes = append(nodes, bayes.Node{Name: name, States: named(rootStates), Rows: [][]float64{row(rootStates)}})
				roots[v], roots[s] = append(roots[v], name), append(roots[s], name)
			}
		}
	}
	for v := range g.Len() {
		n := bayes.Node{Name: g.Name(v), States: named(states[v])}
		rows := 1
		for _, p := range g.Parents(v) {
			n.Parents = append(n.Parents, g.Name(p))
			rows *= states[p]
		}
		for _, r := range roots[v] {
			n.Parents = append(n.Parents, r)
			rows *= rootStates
		}
		for range rows {
			n.Rows = append(n.Rows, row(states[v]))
		}
		nodes = append(nodes, n)
	}
	net, err := bayes.New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return net, states
}
