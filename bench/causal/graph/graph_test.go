package graph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/graph"
	"assay/bench/causal/graph/graphtest"
)

func show(g *graph.Graph, sets []graph.Set) string {
	var out []string
	for _, s := range sets {
		out = append(out, strings.Join(g.Names(s), " "))
	}
	return strings.Join(out, "|")
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
		"loop":           {[]string{"a"}, [][2]string{{"a", "a"}}, nil, causal.Cyclic, "directed/0"},
		"two-way loop":   {[]string{"a"}, nil, [][2]string{{"a", "a"}}, causal.Invalid, "bidirected/0"},
		"cycle of three": {[]string{"a", "b", "c"}, [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}, nil, causal.Cyclic, "directed/2"},
	} {
		_, err := graph.New(tc.names, tc.directed, tc.bidirected)
		var fault *causal.Fault
		if !errors.As(err, &fault) || fault.Kind != tc.kind || strings.Join(fault.At, "/") != tc.at {
			t.Errorf("%s: %v, want %s at %s", name, err, tc.kind, tc.at)
		}
	}
}

// openPaths says by listing every path whether one from x to y is open given z: no
// non-collider in z, every collider with a descendant in z.
func openPaths(g *graph.Graph, x, y int, given graph.Set) bool {
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
	var walk func(v int, head bool, seen graph.Set) bool
	walk = func(v int, head bool, seen graph.Set) bool {
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
		g := graphtest.Draw(t, 6)
		x := graphtest.DrawNode(t, g.All(), "x")
		y := graphtest.DrawNode(t, g.All().Minus(g.NewSet(x)), "y")
		given := graphtest.DrawSet(t, g, g.All().Minus(g.NewSet(x, y)), "given")
		if got, want := g.Separated(g.NewSet(x), g.NewSet(y), given), !openPaths(g, x, y, given); got != want {
			t.Fatalf("separated %v, by paths %v", got, want)
		}
	})
}

// A projection answers as the graph does, about the nodes that it keeps.
func TestProjectionKeepsSeparations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graphtest.Draw(t, 7)
		x := graphtest.DrawNode(t, g.All(), "x")
		y := graphtest.DrawNode(t, g.All().Minus(g.NewSet(x)), "y")
		keep := graphtest.DrawSet(t, g, g.All(), "keep").Or(g.NewSet(x, y))
		p := g.Project(keep)
		given := graphtest.DrawSet(t, g, keep.Minus(g.NewSet(x, y)), "given")
		there := func(s graph.Set) graph.Set {
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
	g := graphtest.Parse(t, "a <-> b; c -> a; b <-> d; e <-> c")
	if got := show(g, g.Districts(g.All())); got != "a b d|c e" {
		t.Errorf("districts %s", got)
	}
	if got := show(g, g.Districts(graphtest.Set(t, g, "a d c"))); got != "a|c|d" {
		t.Errorf("without b: %s", got)
	}
}

// The sets, by hand; each case says why.
func TestFamilies(t *testing.T) {
	for name, tc := range map[string]struct {
		graph, x, y, latent string
		family              func(g *graph.Graph, x, y, latent graph.Set) *graph.Family
		minimal             string
		count               int
	}{
		"confounder":          {"Z -> X; Z -> Y; X -> Y", "X", "Y", "", (*graph.Graph).BackDoor, "Z", 1},
		"latent confounder":   {"Z -> X; Z -> Y; X -> Y", "X", "Y", "Z", (*graph.Graph).BackDoor, "", 0},
		"bow":                 {"X <-> Y; X -> Y", "X", "Y", "", (*graph.Graph).Adjustment, "", 0},
		"M-bias":              {"a -> x; a -> m; b -> m; b -> y; x -> y", "x", "y", "", (*graph.Graph).Adjustment, "[]", 7}, // all but {m} of a, b, m
		"two treatments":      {"A -> B; A -> Y; B -> Y", "A B", "Y", "", (*graph.Graph).BackDoor, "[]", 1},                 // A's arrow into B ends at a treatment
		"mediator":            {"X -> M; M -> Y", "X", "Y", "", (*graph.Graph).Adjustment, "[]", 1},                         // M is forbidden
		"off the causal path": {"X -> Y; X -> W", "X", "Y", "", (*graph.Graph).Adjustment, "[]", 2},                         // W is a descendant of X, yet allowed
		"but not by Pearl":    {"X -> Y; X -> W", "X", "Y", "", (*graph.Graph).BackDoor, "[]", 1},
		"no effect at all":    {"Y -> X; Z", "X", "Y", "", (*graph.Graph).Adjustment, "", 0}, // Y -> X cannot be blocked
		"front door":          {"X -> M; M -> Y; X <-> Y", "X", "Y", "", (*graph.Graph).FrontDoor, "M", 1},
		"two doors":           {"X -> M; M -> N; N -> Y; X <-> Y", "X", "Y", "", (*graph.Graph).FrontDoor, "M|N", 3},
		"a door left open":    {"X -> M; M -> Y; X <-> Y; X <-> M", "X", "Y", "", (*graph.Graph).FrontDoor, "", 0},
		"no directed path":    {"X <-> Y; M", "X", "Y", "", (*graph.Graph).FrontDoor, "[]", 2},
	} {
		g := graphtest.Parse(t, tc.graph)
		f := tc.family(g, graphtest.Set(t, g, tc.x), graphtest.Set(t, g, tc.y), graphtest.Set(t, g, tc.latent))
		minimal, count := f.List()
		got := show(g, minimal)
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
		g := graphtest.Draw(t, 6)
		x := graphtest.DrawNode(t, g.All(), "x")
		y := graphtest.DrawNode(t, g.All().Minus(g.NewSet(x)), "y")
		latent := graphtest.DrawSet(t, g, g.All().Minus(g.NewSet(x, y)), "latent")
		for _, family := range []func(x, y, latent graph.Set) *graph.Family{g.BackDoor, g.Adjustment, g.FrontDoor} {
			f := family(g.NewSet(x), g.NewSet(y), latent)
			minimal, count := f.List()
			var valid []graph.Set
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
			isMinimal := func(s graph.Set) bool {
				return !slices.ContainsFunc(valid, func(v graph.Set) bool { return v.In(s) && !v.Equal(s) })
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
		g := graphtest.Parse(t, graph)
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
