package classes

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/graph"
)

func mustPDAG(t testing.TB, n int, directed, undirected []Edge) *PDAG {
	t.Helper()
	p, err := NewPDAG(n, directed, undirected)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		directed, undirected []Edge
		at                   string
	}{
		"unknown node": {[]Edge{{0, 1}, {0, 3}}, nil, "directed/1/1"},
		"loop":         {nil, []Edge{{1, 1}}, "undirected/0"},
		"two edges":    {[]Edge{{0, 1}}, []Edge{{1, 0}}, "undirected/0"},
		"both ways":    {[]Edge{{0, 1}, {1, 0}}, nil, "directed/1"},
	} {
		_, err := NewPDAG(3, tc.directed, tc.undirected)
		var fault *causal.Fault
		if !errors.As(err, &fault) || fault.Kind != causal.Invalid || strings.Join(fault.At, "/") != tc.at {
			t.Errorf("%s: %v, want one at %s", name, err, tc.at)
		}
	}
	_, err := NewDAG(3, "dag", []Edge{{0, 1}, {1, 2}, {2, 0}})
	var fault *causal.Fault
	if !errors.As(err, &fault) || fault.Kind != causal.Cyclic || strings.Join(fault.At, "/") != "dag/2" {
		t.Errorf("a cycle: %v", err)
	}
}

func drawDAG(t *rapid.T, most int) *PDAG {
	n := rapid.IntRange(1, most).Draw(t, "n")
	nodes := make([]int, n)
	for v := range nodes {
		nodes[v] = v
	}
	order := rapid.Permutation(nodes).Draw(t, "order")
	dense := rapid.IntRange(1, 9).Draw(t, "of ten")
	p := &PDAG{n, make([]mark, n*n)}
	for i := range n {
		for j := range i {
			if rapid.IntRange(1, 10).Draw(t, "edge") <= dense {
				p.orient(order[j], order[i])
			}
		}
	}
	return p
}

// members are the DAGs over the edges of p that keep its arrows and have the
// v-structures, by trying every orientation.
func members(p *PDAG, vStructures [][3]int) (list []*PDAG) {
	open := p.Undirected()
	for mask := range 1 << len(open) {
		q := p.clone()
		for i, e := range open {
			if mask>>i&1 == 1 {
				q.orient(e[0], e[1])
			} else {
				q.orient(e[1], e[0])
			}
		}
		if q.acyclic() && slices.Equal(q.vStructures(), vStructures) {
			list = append(list, q)
		}
	}
	return list
}

func skeleton(p *PDAG) *PDAG {
	q := p.clone()
	for i, m := range q.marks {
		if m != none {
			q.marks[i] = undirected
		}
	}
	return q
}

// An essential graph has the arrows that all members of the class agree on, and Size
// counts these.
func TestEssentialIsWhatMembersAgreeOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dag := drawDAG(t, 5)
		var targets [][]int
		for range rapid.IntRange(0, 2).Draw(t, "targets") {
			var target []int
			for v := range dag.n {
				if rapid.IntRange(0, 2).Draw(t, "in target") == 0 {
					target = append(target, v)
				}
			}
			targets = append(targets, target)
		}
		known := skeleton(dag)
		for _, e := range dag.Directed() {
			for _, target := range targets {
				if slices.Contains(target, e[0]) != slices.Contains(target, e[1]) {
					known.orient(e[0], e[1])
				}
			}
		}
		class := members(known, dag.vStructures())
		agreed := skeleton(dag)
		for _, e := range dag.Directed() {
			if !slices.ContainsFunc(class, func(m *PDAG) bool { return m.at(e[0], e[1]) != out }) {
				agreed.orient(e[0], e[1])
			}
		}
		got := Essential(dag, targets)
		if !slices.Equal(got.marks, agreed.marks) {
			t.Fatalf("%v %v, members agree on %v", got.Directed(), got.Undirected(), agreed.Directed())
		}
		if size := got.Size(); size.Cmp(big.NewInt(int64(len(class)))) != 0 {
			t.Fatalf("size %v of %d members", size, len(class))
		}
	})
}

func TestExtensionsAreAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		p := &PDAG{n, make([]mark, n*n)}
		for a := range n {
			for b := range a {
				switch rapid.IntRange(0, 4).Draw(t, "edge") {
				case 0, 1:
					p.marks[a*n+b], p.marks[b*n+a] = undirected, undirected
				case 2:
					p.orient(a, b)
				case 3:
					p.orient(b, a)
				}
			}
		}
		var want []string
		for _, m := range members(p, p.vStructures()) {
			want = append(want, fmt.Sprint(m.Directed()))
		}
		var got []string
		for arrows := range p.Extensions() {
			got = append(got, fmt.Sprint(arrows))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

// Classes too large to list, by formulas.
func TestSizes(t *testing.T) {
	complete := func(n int) (edges []Edge) {
		for a := range n {
			for b := range a {
				edges = append(edges, Edge{b, a})
			}
		}
		return edges
	}
	path := func(n int) (edges []Edge) {
		for v := range n - 1 {
			edges = append(edges, Edge{v, v + 1})
		}
		return edges
	}
	// Two cliques of 20 that share one of 10: orders of one, then of the rest of the
	// other: 20! 10! for either to be first, less 10! 10! 10! that both count.
	shared := complete(20)
	for a := 20; a < 30; a++ {
		for b := 10; b < a; b++ {
			shared = append(shared, Edge{b, a})
		}
	}
	f := func(n int64) *big.Int { return new(big.Int).MulRange(1, n) }
	either := new(big.Int).Mul(f(20), f(10))
	either.Lsh(either, 1)
	both := new(big.Int).Exp(f(10), big.NewInt(3), nil)
	for name, tc := range map[string]struct {
		n     int
		edges []Edge
		want  *big.Int
	}{
		"clique of 30":       {30, complete(30), f(30)},
		"path of 100":        {100, path(100), big.NewInt(100)}, // a root
		"overlapping":        {30, shared, either.Sub(either, both)},
		"cycle, not chordal": {5, append(path(5), Edge{0, 4}), new(big.Int)},
		"no edge":            {3, nil, big.NewInt(1)},
	} {
		if got := mustPDAG(t, tc.n, nil, tc.edges).Size(); got.Cmp(tc.want) != 0 {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// left counts what an intervention leaves unoriented at worst, by grouping the
// members of a class by what it shows.
func left(class []*PDAG, target []int) int {
	groups := map[string][]*PDAG{}
	for _, m := range class {
		var shown []Edge
		for _, e := range m.Directed() {
			if slices.Contains(target, e[0]) != slices.Contains(target, e[1]) {
				shown = append(shown, e)
			}
		}
		groups[fmt.Sprint(shown)] = append(groups[fmt.Sprint(shown)], m)
	}
	worst := 0
	for _, group := range groups {
		open := 0
		for _, e := range group[0].Directed() {
			if slices.ContainsFunc(group, func(m *PDAG) bool { return m.at(e[0], e[1]) != out }) {
				open++
			}
		}
		worst = max(worst, open)
	}
	return worst
}

func TestBestExperimentIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Essential(drawDAG(t, 5), nil)
		class := members(p, p.vStructures())
		got := p.BestExperiment()
		single, set := left(class, []int{got.Single}), left(class, got.Set)
		for mask := range 1 << p.n {
			var target []int
			for v := range p.n {
				if mask>>v&1 == 1 {
					target = append(target, v)
				}
			}
			n := left(class, target)
			if n < set || len(target) == 1 && n < single {
				t.Fatalf("%v leaves %d; chosen were %d with %d, %v with %d", target, n, got.Single, single, got.Set, set)
			}
		}
	})
}

// From all independencies of a DAG comes its class, and the relations that hold in
// every member.
func TestFromIndependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dag := drawDAG(t, 5)
		n := dag.n
		var list []Independence
		g := asGraph(t, dag)
		for b := range n {
			for a := range b {
				for mask := range 1 << n {
					if mask>>a&1 == 1 || mask>>b&1 == 1 {
						continue
					}
					var given []int
					for v := range n {
						if mask>>v&1 == 1 {
							given = append(given, v)
						}
					}
					if g.Separated(g.NewSet(a), g.NewSet(b), g.NewSet(given...)) {
						list = append(list, Independence{a, b, given})
					}
				}
			}
		}
		got, vStructures, size := FromIndependencies(n, list)
		want := Essential(dag, nil)
		wantV := dag.vStructures()
		if !slices.Equal(got.marks, want.marks) || !slices.Equal(vStructures, wantV) || size.Cmp(want.Size()) != 0 {
			t.Fatalf("%v %v %v %v, want %v %v %v %v", got.Directed(), got.Undirected(), vStructures, size, want.Directed(), want.Undirected(), wantV, want.Size())
		}
		if n < 2 {
			return
		}
		x := rapid.IntRange(0, n-1).Draw(t, "x")
		y := (x + rapid.IntRange(1, n-1).Draw(t, "y")) % n
		for _, r := range []Relation{DirectlyCauses, CausesViaAnother, IndirectCause, HasCommonCause, HasCommonEffect} {
			all := true
			for _, m := range members(want, dag.vStructures()) {
				all = all && byPaths(m, r, x, y)
			}
			if all != got.Always(r, x, y) {
				t.Fatalf("%s %d %d: %v by paths", r, x, y, all)
			}
		}
	})
}

func TestNoDAGHasThem(t *testing.T) {
	// A cycle of four without chord has no orientation without collider; and two
	// colliders cannot turn one edge both ways.
	for name, list := range map[string][]Independence{
		"cycle":     {{0, 2, []int{1, 3}}, {1, 3, []int{0, 2}}},
		"both ways": {{0, 2, nil}, {1, 3, nil}, {0, 3, nil}},
	} {
		if p, v, size := FromIndependencies(4, list); size.Sign() != 0 {
			t.Errorf("%s: size %v of %v, colliders %v", name, size, p.Directed(), v)
		}
	}
}

func asGraph(t *rapid.T, dag *PDAG) *graph.Graph {
	var names []string
	for v := range dag.n {
		names = append(names, fmt.Sprint(v))
	}
	var arrows [][2]string
	for _, e := range dag.Directed() {
		arrows = append(arrows, [2]string{names[e[0]], names[e[1]]})
	}
	g, err := graph.New(names, arrows, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// byPaths decides a relation by listing every directed path.
func byPaths(dag *PDAG, r Relation, x, y int) bool {
	var paths func(from, to int) []map[int]bool
	paths = func(from, to int) (list []map[int]bool) {
		if from == to {
			return []map[int]bool{{to: true}}
		}
		for c := range dag.n {
			if dag.at(from, c) == out {
				for _, p := range paths(c, to) {
					p[from] = true
					list = append(list, p)
				}
			}
		}
		return list
	}
	switch r {
	case DirectlyCauses:
		return dag.at(x, y) == out
	case CausesViaAnother, IndirectCause:
		return slices.ContainsFunc(paths(x, y), func(p map[int]bool) bool { return len(p) > 2 })
	}
	for z := range dag.n {
		if z == x || z == y {
			continue
		}
		first, second := paths(z, x), paths(z, y)
		if r == HasCommonEffect {
			first, second = paths(x, z), paths(y, z)
		}
		for _, p := range first {
			for _, q := range second {
				shared := 0
				for v := range maps.Keys(p) {
					if q[v] {
						shared++
					}
				}
				if shared == 1 {
					return true
				}
			}
		}
	}
	return false
}
