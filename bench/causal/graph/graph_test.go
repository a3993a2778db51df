package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
)

// parse reads "a -> b; b <-> c; d".
func parse(t testing.TB, text string) *Graph {
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
	g, err := New(names, directed, bidirected)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *Graph) set(t testing.TB, names string) Set {
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

func (g *Graph) show(sets []Set) string {
	var out []string
	for _, s := range sets {
		out = append(out, strings.Join(g.Names(s), " "))
	}
	return strings.Join(out, "|")
}

func draw(t *rapid.T, most int) *Graph {
	n := rapid.IntRange(2, most).Draw(t, "n")
	var names []string
	for v := range n {
		names = append(names, fmt.Sprint("v", v))
	}
	order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
		for v := range n {
			if !yield(v) {
				return
			}
		}
	})).Draw(t, "order")
	var directed, bidirected [][2]int
	for i := range n {
		for j := range i {
			switch rapid.IntRange(0, 9).Draw(t, "edge") {
			case 0, 1, 2:
				directed = append(directed, [2]int{order[j], order[i]})
			case 3, 4:
				bidirected = append(bidirected, [2]int{order[j], order[i]})
			case 5:
				directed = append(directed, [2]int{order[j], order[i]})
				bidirected = append(bidirected, [2]int{order[j], order[i]})
			}
		}
	}
	return must(build(names, directed, bidirected))
}

func drawSet(t *rapid.T, g *Graph, from Set, name string) Set {
	s := g.NewSet()
	for v := range from.All() {
		if rapid.Bool().Draw(t, name) {
			s.Add(v)
		}
	}
	return s
}

func drawNode(t *rapid.T, g *Graph, from Set, name string) int {
	return rapid.SampledFrom(slices.Collect(from.All())).Draw(t, name)
}

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		names                []string
		directed, bidirected [][2]string
		kind                 causal.Kind
		at                   string
	}{
		"a name twice":   {[]string{"a", "b", "a"}, nil, nil, causal.Invalid, "nodes/2"},
		"unknown from":   {[]string{"a"}, [][2]string{{"b", "a"}}, nil, causal.Invalid, "directed/0/0"},
		"unknown to":     {[]string{"a", "b"}, [][2]string{{"a", "b"}, {"a", "c"}}, nil, causal.Invalid, "directed/1/1"},
		"unknown end":    {[]string{"a"}, nil, [][2]string{{"a", "c"}}, causal.Invalid, "bidirected/0/1"},
		"loop":           {[]string{"a"}, [][2]string{{"a", "a"}}, nil, causal.Cyclic, "directed"},
		"two-way loop":   {[]string{"a"}, nil, [][2]string{{"a", "a"}}, causal.Invalid, "bidirected/0"},
		"cycle of three": {[]string{"a", "b", "c"}, [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}, nil, causal.Cyclic, "directed"},
	} {
		_, err := New(tc.names, tc.directed, tc.bidirected)
		var fault *causal.Fault
		if !errors.As(err, &fault) || fault.Kind != tc.kind || strings.Join(fault.At, "/") != tc.at {
			t.Errorf("%s: %v, want %s at %s", name, err, tc.kind, tc.at)
		}
	}
}

// openPaths says by listing every path whether one from x to y is open given z: no
// non-collider in z, every collider with a descendant in z.
func openPaths(g *Graph, x, y int, given Set) bool {
	opens := func(v int) bool { return g.Descendants(g.NewSet(v)).Meets(given) }
	type edge struct {
		to                  int
		headHere, headThere bool
	}
	edges := func(v int) (out []edge) {
		for _, c := range g.Children(v) {
			out = append(out, edge{c, false, true})
		}
		for _, p := range g.Parents(v) {
			out = append(out, edge{p, true, false})
		}
		for _, s := range g.Siblings(v) {
			out = append(out, edge{s, true, true})
		}
		return out
	}
	var walk func(v int, head bool, seen Set) bool
	walk = func(v int, head bool, seen Set) bool {
		for _, e := range edges(v) {
			if seen.Has(e.to) {
				continue
			}
			if v != x {
				collider := head && e.headHere
				if collider && !opens(v) || !collider && given.Has(v) {
					continue
				}
			}
			if e.to == y {
				return true
			}
			next := seen.Clone()
			next.Add(e.to)
			if walk(e.to, e.headThere, next) {
				return true
			}
		}
		return false
	}
	return walk(x, false, g.NewSet(x))
}

func TestSeparatedIsNoOpenPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, 6)
		x := drawNode(t, g, g.All(), "x")
		y := drawNode(t, g, g.All().Minus(g.NewSet(x)), "y")
		given := drawSet(t, g, g.All().Minus(g.NewSet(x, y)), "given")
		if got, want := g.Separated(g.NewSet(x), g.NewSet(y), given), !openPaths(g, x, y, given); got != want {
			t.Fatalf("separated %v, by paths %v", got, want)
		}
	})
}

// A projection answers as the graph does, about the nodes that it keeps.
func TestProjectionKeepsSeparations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, 7)
		keep := drawSet(t, g, g.All(), "keep")
		if keep.Len() < 2 {
			t.Skip("nothing to ask about")
		}
		p := g.Project(keep)
		x := drawNode(t, g, keep, "x")
		y := drawNode(t, g, keep.Minus(g.NewSet(x)), "y")
		given := drawSet(t, g, keep.Minus(g.NewSet(x, y)), "given")
		there := func(s Set) Set {
			out := p.NewSet()
			for v := range s.All() {
				w, _ := p.Node(g.Name(v))
				out.Add(w)
			}
			return out
		}
		if got, want := p.Separated(there(g.NewSet(x)), there(g.NewSet(y)), there(given)), g.Separated(g.NewSet(x), g.NewSet(y), given); got != want {
			t.Fatalf("projection %v, graph %v", got, want)
		}
		if got, want := p.Names(p.Ancestors(there(g.NewSet(x)))), g.Names(g.Ancestors(g.NewSet(x)).And(keep)); !slices.Equal(got, want) {
			t.Fatalf("ancestors %v, in the graph %v", got, want)
		}
	})
}

func TestDistricts(t *testing.T) {
	g := parse(t, "a <-> b; c -> a; b <-> d; e <-> c")
	if got := g.show(g.Districts(g.All())); got != "a b d|c e" {
		t.Errorf("districts %s", got)
	}
	if got := g.show(g.Districts(g.set(t, "a d c"))); got != "a|c|d" {
		t.Errorf("without b: %s", got)
	}
}

// The sets, by hand; each case says why.
func TestFamilies(t *testing.T) {
	for name, tc := range map[string]struct {
		graph, x, y, latent string
		family              func(g *Graph, x, y, latent Set) *Family
		minimal             string
		count               int
	}{
		"confounder":          {"Z -> X; Z -> Y; X -> Y", "X", "Y", "", (*Graph).BackDoor, "Z", 1},
		"latent confounder":   {"Z -> X; Z -> Y; X -> Y", "X", "Y", "Z", (*Graph).BackDoor, "", 0},
		"bow":                 {"X <-> Y; X -> Y", "X", "Y", "", (*Graph).Adjustment, "", 0},
		"M-bias":              {"a -> x; a -> m; b -> m; b -> y; x -> y", "x", "y", "", (*Graph).Adjustment, "[]", 7}, // all but {m} of a, b, m
		"two treatments":      {"A -> B; A -> Y; B -> Y", "A B", "Y", "", (*Graph).BackDoor, "[]", 1},                 // A's arrow into B ends at a treatment
		"mediator":            {"X -> M; M -> Y", "X", "Y", "", (*Graph).Adjustment, "[]", 1},                         // M is forbidden
		"off the causal path": {"X -> Y; X -> W", "X", "Y", "", (*Graph).Adjustment, "[]", 2},                         // W is a descendant of X, yet allowed
		"but not by Pearl":    {"X -> Y; X -> W", "X", "Y", "", (*Graph).BackDoor, "[]", 1},
		"no effect at all":    {"Y -> X; Z", "X", "Y", "", (*Graph).Adjustment, "", 0}, // Y -> X cannot be blocked
		"front door":          {"X -> M; M -> Y; X <-> Y", "X", "Y", "", (*Graph).FrontDoor, "M", 1},
		"two doors":           {"X -> M; M -> N; N -> Y; X <-> Y", "X", "Y", "", (*Graph).FrontDoor, "M|N", 3},
		"a door left open":    {"X -> M; M -> Y; X <-> Y; X <-> M", "X", "Y", "", (*Graph).FrontDoor, "", 0},
		"no directed path":    {"X <-> Y; M", "X", "Y", "", (*Graph).FrontDoor, "[]", 2},
	} {
		g := parse(t, tc.graph)
		f := tc.family(g, g.set(t, tc.x), g.set(t, tc.y), g.set(t, tc.latent))
		minimal, count := f.List()
		got := g.show(minimal)
		if len(minimal) == 1 && minimal[0].Empty() {
			got = "[]"
		}
		if got != tc.minimal || count != tc.count {
			t.Errorf("%s: %s, %d valid; want %s, %d", name, got, count, tc.minimal, tc.count)
		}
	}
}

// List is Valid asked of every set.
func TestListIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, 6)
		x := drawNode(t, g, g.All(), "x")
		y := drawNode(t, g, g.All().Minus(g.NewSet(x)), "y")
		latent := drawSet(t, g, g.All().Minus(g.NewSet(x, y)), "latent")
		for _, family := range []func(x, y, latent Set) *Family{g.BackDoor, g.Adjustment, g.FrontDoor} {
			f := family(g.NewSet(x), g.NewSet(y), latent)
			minimal, count := f.List()
			var valid []Set
			for mask := range 1 << g.Len() {
				s := g.NewSet()
				s[0] = uint64(mask)
				if f.Valid(s) {
					valid = append(valid, s)
				}
			}
			if len(valid) != count {
				t.Fatalf("count %d, valid %d", count, len(valid))
			}
			isMinimal := func(s Set) bool {
				return !slices.ContainsFunc(valid, func(v Set) bool { return v.In(s) && !v.Equal(s) })
			}
			for _, s := range valid {
				if listed := slices.ContainsFunc(minimal, s.Equal); listed != isMinimal(s) {
					t.Fatalf("%v: listed as minimal %v", g.Names(s), listed)
				}
			}
		}
	})
}

func TestInstruments(t *testing.T) {
	for graph, want := range map[string]string{
		"i -> x; x -> y; y <-> x":                 "i given ",
		"w -> y; w -> i; i -> x; x -> y; x <-> y": "i given w",
		"x <-> y; i -> x; x -> m; m -> y":         "i given ", // through m only
		"i -> x; x -> y; i -> y; x <-> y":         "",
		"i -> c; u -> c; u -> x; x -> y; x <-> y": "i given c; c given ; u given ", // conditioning on c lets i know of u
		"x -> i; x -> y; x <-> y":                 "",
	} {
		g := parse(t, graph)
		x, _ := g.Node("x")
		y, _ := g.Node("y")
		var got []string
		for _, i := range g.Instruments(x, y, g.NewSet()) {
			got = append(got, g.Name(i.Node)+" given "+strings.Join(g.Names(i.Given), " "))
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: %s; want %s", graph, s, want)
		}
	}
}
