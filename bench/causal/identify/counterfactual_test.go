package identify

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal/graph"
	"assay/bench/causal/graph/graphtest"
)

// atoms reads "Y=1 in X=0; X=1".
func atoms(t testing.TB, g *graph.Graph, text string) (out []Atom) {
	t.Helper()
	read := func(s string) (int, int) {
		name, x, _ := strings.Cut(strings.TrimSpace(s), "=")
		v, ok := g.Node(name)
		if !ok {
			t.Fatalf("there is no node %q", name)
		}
		return v, int(x[0] - '0')
	}
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		event, world, _ := strings.Cut(part, " in ")
		a := Atom{Do: map[int]int{}}
		a.Var, a.Value = read(event)
		for _, s := range strings.Fields(world) {
			v, x := read(s)
			a.Do[v] = x
		}
		out = append(out, a)
	}
	return out
}

func TestCounterfactual(t *testing.T) {
	const cg = "X -> W; W -> Y; D -> Z; Z -> Y; X <-> Y" // of Shpitser and Pearl
	for name, tc := range map[string]struct {
		graph, gamma, delta string
		available           Available
		want                Verdict
		constant            any
	}{
		"effect of treatment on the treated": {"X -> Y; X <-> Y", "Y=1 in X=0", "X=1", Interventions, NotIdentifiable, nil},
		"its back-door case":                 {"Z -> X; Z -> Y; X -> Y", "Y=1 in X=0", "X=1", Observations, Identifiable, nil},
		"necessity":                          {"X -> Y", "Y=0 in X=0", "X=1; Y=1", Interventions, NotIdentifiable, nil},
		"consistency":                        {"X -> Y", "Y=1 in X=1", "X=1; Y=1", Observations, Identifiable, 1.0},
		"against consistency":                {"X -> Y", "Y=0 in X=1", "X=1; Y=1", Observations, Identifiable, 0.0},
		"condition against itself":           {"X -> Y", "X=1", "Y=0 in X=1; Y=1 in X=1", Observations, Undefined, nil},
		"done is so":                         {"X -> Y", "X=1 in X=1", "", Observations, Identifiable, 1.0},
		"no effect backwards":                {"X -> Y", "X=1 in Y=0", "X=1", Observations, Identifiable, 1.0},
		"a third value":                      {"X -> Y; Y -> W", "W=1", "Y=0 in X=0; Y=1 in X=1", Interventions, NotIdentifiable, nil}, // of X, of which nobody asked
		"an experiment shows it":             {"X -> Y; X <-> Y", "Y=1 in X=0", "", Interventions, Identifiable, nil},
		"observation does not":               {"X -> Y; X <-> Y", "Y=1 in X=0", "", Observations, NotIdentifiable, nil},
		"what cancels is not needed":         {"X -> Z; Z -> Y; X <-> Z", "Y=0 in X=0", "Z=0 in X=0", Observations, Identifiable, nil},
		"two values of a common parent":      {"A -> B; A -> C; B <-> C", "B=1", "C=1 in A=0", Interventions, NotIdentifiable, nil},
		"indirect":                           {cg, "Y=0 in X=0", "X=1; Z=0 in D=0; D=0", Interventions, Identifiable, nil},
		"a tautology is dropped":             {cg, "Y=0 in X=0; X=1; Z=0 in D=0; Y=0 in Y=0", "", Interventions, NotIdentifiable, nil}, // D=0 was not seen
	} {
		g := graphtest.Parse(t, tc.graph)
		got, constant := Counterfactual(g, atoms(t, g, tc.gamma), atoms(t, g, tc.delta), tc.available)
		if got != tc.want || (constant == nil) != (tc.constant == nil) || constant != nil && *constant != tc.constant {
			t.Errorf("%s: %s, want %s %v", name, got, tc.want, tc.constant)
		}
	}
}

// family is all models of a graph with latent roots of few values: a point is a
// distribution of each root, and one of each node's response functions for each
// value of its roots.
type family struct {
	g                  *graph.Graph
	values, rootValues int
	roots              [][2]int // the bidirected edges
	// Places of a point's numbers: of roots, then of nodes by value of their roots.
	rootAt, nodeAt []int
	functions      []int // of each node
	size           int
}

func newFamily(g *graph.Graph, values, rootValues int) *family {
	f := &family{g: g, values: values, rootValues: rootValues}
	for v := range g.Len() {
		for _, s := range g.Siblings(v) {
			if v < s {
				f.roots = append(f.roots, [2]int{v, s})
			}
		}
	}
	for range f.roots {
		f.rootAt = append(f.rootAt, f.size)
		f.size += f.rootValues
	}
	for v := range g.Len() {
		rows := math.Pow(float64(values), float64(len(g.Parents(v))))
		f.functions = append(f.functions, int(math.Pow(float64(values), rows)))
		f.nodeAt = append(f.nodeAt, f.size)
		f.size += f.functions[v] * int(math.Pow(float64(f.rootValues), float64(len(g.Siblings(v)))))
	}
	return f
}

// distributions yields the places of numbers that add to 1.
func (f *family) distributions(yield func(from, to int)) {
	for _, at := range f.rootAt {
		yield(at, at+f.rootValues)
	}
	for v, at := range f.nodeAt {
		end := f.size
		if v+1 < len(f.nodeAt) {
			end = f.nodeAt[v+1]
		}
		for ; at < end; at += f.functions[v] {
			yield(at, at+f.functions[v])
		}
	}
}

func (f *family) draw(r *rand.Rand) []float64 {
	point := make([]float64, f.size)
	f.distributions(func(from, to int) {
		total := 0.0
		for i := from; i < to; i++ {
			point[i] = 0.2 + r.Float64()
			total += point[i]
		}
		for i := from; i < to; i++ {
			point[i] /= total
		}
	})
	return point
}

// Each way in which the noise can fall out: the places of its numbers, and each
// node's function.
func (f *family) outcomes(yield func(places, functions []int)) {
	places := make([]int, 0, len(f.roots)+f.g.Len())
	functions := make([]int, f.g.Len())
	root := make([]int, len(f.roots))
	var nodes func(v int)
	nodes = func(v int) {
		if v == f.g.Len() {
			yield(places, functions)
			return
		}
		row := 0
		for i, e := range f.roots {
			if e[0] == v || e[1] == v {
				row = row*f.rootValues + root[i]
			}
		}
		for fn := range f.functions[v] {
			functions[v] = fn
			places = append(places, f.nodeAt[v]+row*f.functions[v]+fn)
			nodes(v + 1)
			places = places[:len(places)-1]
		}
	}
	var pick func(i int)
	pick = func(i int) {
		if i == len(f.roots) {
			nodes(0)
			return
		}
		for x := range f.rootValues {
			root[i] = x
			places = append(places, f.rootAt[i]+x)
			pick(i + 1)
			places = places[:len(places)-1]
		}
	}
	pick(0)
}

// world is what happens to each node under do.
func (f *family) world(functions []int, do map[int]int, into []int) {
	for _, v := range f.g.Order() {
		if x, ok := do[v]; ok {
			into[v] = x
			continue
		}
		fn := functions[v]
		row := 0
		for _, p := range f.g.Parents(v) {
			row = row*f.values + into[p]
		}
		for range row {
			fn /= f.values
		}
		into[v] = fn % f.values
	}
}

// gradients gives the probability of each event and its gradient at a point.
func (f *family) gradients(point []float64, events int, happens func(functions []int, each func(event int))) (p []float64, gradient [][]float64) {
	p = make([]float64, events)
	gradient = make([][]float64, events)
	for i := range gradient {
		gradient[i] = make([]float64, f.size)
	}
	f.outcomes(func(places, functions []int) {
		weight := 1.0
		for _, at := range places {
			weight *= point[at]
		}
		happens(functions, func(event int) {
			p[event] += weight
			for _, at := range places {
				gradient[event][at] += weight / point[at]
			}
		})
	})
	return p, gradient
}

// span is an orthonormal basis.
type span [][]float64

func (s *span) residual(x []float64) []float64 {
	x = slices.Clone(x)
	for range 2 { // once more for the rounding
		for _, b := range *s {
			dot := 0.0
			for i := range x {
				dot += b[i] * x[i]
			}
			for i := range x {
				x[i] -= dot * b[i]
			}
		}
	}
	return x
}

func norm(x []float64) float64 {
	n := 0.0
	for _, a := range x {
		n += a * a
	}
	return math.Sqrt(n)
}

func (s *span) add(x []float64) {
	left := s.residual(x)
	n := norm(left)
	if n <= 1e-9*(1+norm(x)) {
		return
	}
	for i := range left {
		left[i] /= n
	}
	*s = append(*s, left)
}

func (f *family) holds(functions []int, atoms []Atom, into []int) bool {
	for _, a := range atoms {
		f.world(functions, a.Do, into)
		if into[a.Var] != a.Value {
			return false
		}
	}
	return true
}

// moves says by linear algebra whether P(gamma | delta) can change in the family
// while what is available stays: whether its gradient at a drawn point leaves the span
// of theirs.
func (f *family) moves(r *rand.Rand, gamma, delta []Atom, available Available) bool {
	point := f.draw(r)
	n := f.g.Len()
	var worlds []map[int]int
	if available == Observations {
		worlds = []map[int]int{{}}
	} else {
		all := 1
		for range n {
			all *= f.values + 1
		}
		for code := range all {
			do := map[int]int{}
			for v := range n {
				if x := code % (f.values + 1); x < f.values {
					do[v] = x
				}
				code /= f.values + 1
			}
			worlds = append(worlds, do)
		}
	}
	cells := int(math.Pow(float64(f.values), float64(n)))
	into := make([]int, n)
	_, known := f.gradients(point, cells*len(worlds), func(functions []int, each func(int)) {
		for w, do := range worlds {
			f.world(functions, do, into)
			cell := 0
			for _, x := range into {
				cell = cell*f.values + x
			}
			each(w*cells + cell)
		}
	})
	var s span
	f.distributions(func(from, to int) {
		one := make([]float64, f.size)
		for i := from; i < to; i++ {
			one[i] = 1
		}
		s.add(one)
	})
	for _, x := range known {
		s.add(x)
	}
	p, gradient := f.gradients(point, 2, func(functions []int, each func(int)) {
		if f.holds(functions, delta, into) {
			each(1)
			if f.holds(functions, gamma, into) {
				each(0)
			}
		}
	})
	ratio := make([]float64, f.size)
	for i := range ratio {
		ratio[i] = gradient[0][i]/p[1] - gradient[1][i]*p[0]/(p[1]*p[1])
	}
	return norm(s.residual(ratio)) > 1e-6*(1+norm(ratio))
}

func (f *family) cost() float64 {
	c := math.Pow(float64(f.rootValues), float64(len(f.roots)))
	for _, n := range f.functions {
		c *= float64(n)
	}
	return c * math.Pow(float64(f.values+1), float64(f.g.Len()))
}

// Identifiable is what does not move in any model, not identifiable is what does:
// with two values a variable, or else, since what two values tie may be free, with
// three. The latent roots then have more values: with few, P(V) can give them away.
func TestCounterfactualIsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graphtest.Draw(t, 4)
		f := newFamily(g, 2, 3)
		if f.cost() > 3e5 || f.size > 300 {
			return
		}
		draw := func(name string, least, most int) (out []Atom) {
			for range rapid.IntRange(least, most).Draw(t, name) {
				a := Atom{rapid.IntRange(0, g.Len()-1).Draw(t, "variable"), rapid.IntRange(0, 1).Draw(t, "value"), map[int]int{}}
				if rapid.Bool().Draw(t, "other world") {
					a.Do[rapid.IntRange(0, g.Len()-1).Draw(t, "done")] = rapid.IntRange(0, 1).Draw(t, "to")
				}
				out = append(out, a)
			}
			return out
		}
		gamma, delta := draw("gamma", 1, 2), draw("delta", 0, 2)
		available := rapid.SampledFrom([]Available{Observations, Interventions}).Draw(t, "available")
		got, constant := Counterfactual(g, gamma, delta, available)
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		describe := fmt.Sprintf("%s %v: P(%v | %v) from %s", got, constant, gamma, delta, available)
		for _, a := range slices.Concat(gamma, delta) {
			describe += fmt.Sprint(" ", slices.Collect(maps.Keys(a.Do)))
		}
		into := make([]int, g.Len())
		p, _ := f.gradients(f.draw(r), 2, func(functions []int, each func(int)) {
			if f.holds(functions, delta, into) {
				each(1)
				if f.holds(functions, gamma, into) {
					each(0)
				}
			}
		})
		if (p[1] == 0) != (got == Undefined) {
			t.Fatalf("%s, but P(delta) is %v", describe, p[1])
		}
		if got == Undefined {
			return
		}
		x := p[0] / p[1]
		if isConstant := x < 1e-12 || x > 1-1e-12; constant != nil != isConstant && got != NotIdentifiable || constant != nil && math.Abs(*constant-x) > 1e-12 {
			t.Fatalf("%s, but it is %v", describe, x)
		}
		moves := f.moves(r, gamma, delta, available)
		if moves && got == Identifiable {
			t.Fatalf("%s, but it moves", describe)
		}
		if !moves && got == NotIdentifiable {
			if f = newFamily(g, 3, 6); f.cost() < 1e7 && f.size < 700 {
				if !f.moves(r, gamma, delta, available) {
					t.Fatalf("%s, but it does not move", describe)
				}
			}
		}
	})
}
