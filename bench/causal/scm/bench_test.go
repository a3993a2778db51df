package scm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
)

// drawWorld is a sparse binary model: so many observed nodes in a causal order, each
// with up to so many of the ones shortly before it as parents, and so many latent
// roots that each join two of them. Mechanisms are noisy or, and, and mixtures.
func drawWorld(seed uint64, observed, latent, parents, reach int) (nodes []Node, hidden []string) {
	r := rand.New(rand.NewPCG(seed, 9))
	extra := make([][]string, observed)
	for u := range latent {
		name := fmt.Sprint("U", u)
		a := r.IntN(observed - 1)
		b := a + 1 + r.IntN(min(reach, observed-1-a))
		if extra[a] != nil || extra[b] != nil { // one latent a node
			continue
		}
		extra[a], extra[b] = append(extra[a], name), append(extra[b], name)
		nodes, hidden = append(nodes, Node{name, nil, Root(thousandths(r))}), append(hidden, name)
	}
	for i := range observed {
		v := Node{Name: fmt.Sprint("V", i), Parents: extra[i]}
		for range parents {
			if p := fmt.Sprint("V", i-1-r.IntN(reach)); i > 0 && !slices.Contains(v.Parents, p) && p[1] != '-' {
				v.Parents = append(v.Parents, p)
			}
		}
		switch k := len(v.Parents); {
		case k == 0:
			v.Tables = Root(thousandths(r))
		case r.IntN(3) == 0:
			v.Tables = And(k, thousandths(r))
		case r.IntN(2) == 0:
			var strengths []Thousandths
			for range k {
				strengths = append(strengths, thousandths(r))
			}
			v.Tables = NoisyOr(strengths, thousandths(r)/5)
		default:
			w := thousandths(r) / 2
			tables := make([][]int, 3)
			for t := range tables {
				for range 1 << k {
					tables[t] = append(tables[t], r.IntN(2))
				}
			}
			v.Tables = Mixture([]Thousandths{w, w, 1000 - 2*w}, tables)
		}
		nodes = append(nodes, v)
	}
	return nodes, hidden
}

func thousandths(r *rand.Rand) Thousandths { return Thousandths(50 + r.IntN(900)) }

// question is one on all three rungs: an early node is set, the last one is asked for,
// and the facts are both and one between.
func question(observed int) Query {
	first, middle, last := "V1", fmt.Sprint("V", observed/2), fmt.Sprint("V", observed-1)
	return Query{
		Target: map[string]int{last: 1}, Given: map[string]int{}, Do: map[string]int{first: 0},
		Factual: map[string]int{first: 1, middle: 1, last: 1},
	}
}

func mustModel(tb testing.TB, nodes []Node, latent []string) *Model {
	tb.Helper()
	m, err := New(nodes, latent)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Worlds that nobody can enumerate have answers, within few steps, and keep to what
// holds of any world.
func TestWorldsOfThirtyNodes(t *testing.T) {
	consistent := 0
	for seed := range uint64(20) {
		nodes, latent := drawWorld(seed, 30, 5, 2, 4)
		m := mustModel(t, nodes, latent)
		inf, err := m.PrepareAll(question(30))
		if err != nil {
			t.Fatal(err)
		}
		if inf.Cost() > 1e7 {
			t.Errorf("world %d costs %v", seed, inf.Cost())
		}
		all := inf.Run()
		for name, p := range map[string]*float64{"rung2": all.Intervention, "resampled": all.Resampled, "abduced": all.Abduced} {
			if p != nil && !(*p >= 0 && *p <= 1+1e-9) {
				t.Errorf("world %d: %s %v", seed, name, *p)
			}
		}
		// An intervention that changes nothing leaves the facts as they are.
		q := question(30)
		q.Do = map[string]int{"V1": 1}
		p, err := m.Ask(Counterfactual, q)
		switch {
		case errors.Is(err, causal.ErrZeroProbability): // no such facts in this world
		case err != nil || math.Abs(p-1) > 1e-9:
			t.Errorf("world %d: consistency gives %v, %v", seed, p, err)
		default:
			consistent++
		}
	}
	if consistent < 10 {
		t.Errorf("only %d worlds have the facts", consistent)
	}
}

// twinNetwork writes two worlds out as a Bayesian network: each node's noise is a
// variable, with the tables as states, and the node has a copy in each world.
func twinNetwork(tb testing.TB, nodes []Node) *bayes.Network {
	tb.Helper()
	yesNo := []string{"0", "1"}
	var out []bayes.Node
	for _, v := range nodes {
		noise := bayes.Node{Name: "noise " + v.Name, Rows: [][]float64{nil}}
		for k, t := range v.Tables {
			noise.States = append(noise.States, fmt.Sprint(k))
			noise.Rows[0] = append(noise.Rows[0], t.P)
		}
		out = append(out, noise)
		for _, world := range []string{"base ", "other "} {
			copied := bayes.Node{Name: world + v.Name, States: yesNo}
			for _, p := range v.Parents {
				copied.Parents = append(copied.Parents, world+p)
			}
			copied.Parents = append(copied.Parents, noise.Name)
			for row := range v.Tables[0].Values {
				for _, t := range v.Tables {
					certain := []float64{1, 0}
					if t.Values[row] == 1 {
						certain = []float64{0, 1}
					}
					copied.Rows = append(copied.Rows, certain)
				}
			}
			out = append(out, copied)
		}
	}
	n, err := bayes.New(out)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Counterfactuals in large worlds are what a network of both worlds and their noise
// says.
func TestTwinNetwork(t *testing.T) {
	compared := 0
	for seed := range uint64(40) {
		nodes, latent := drawWorld(seed, 16, 3, 2, 4)
		got, err := mustModel(t, nodes, latent).Ask(Counterfactual, question(16))
		want, wantErr := twinNetwork(t, nodes).Posterior(bayes.Query{
			Target:   []string{"other V15"},
			Do:       map[string]string{"other V1": "0"},
			Evidence: map[string]string{"base V1": "1", "base V8": "1", "base V15": "1"},
		})
		switch {
		case errors.Is(err, causal.ErrZeroProbability) && errors.Is(wantErr, causal.ErrZeroProbability):
		case err != nil || wantErr != nil || math.Abs(got-want.P[1]) > 1e-12:
			t.Errorf("world %d: %v, %v; the network has %v, %v", seed, got, err, want.P, wantErr)
		default:
			if got > 0.001 && got < 0.999 {
				compared++
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d answers are neither 0 nor 1", compared)
	}
}

// The size of C9's reference generator, whose enumeration takes 6.0 ms a query: six
// observed binary nodes and a latent one. A query is planned and answered.
func BenchmarkC9(b *testing.B) {
	for rung := Association; rung <= Counterfactual; rung++ {
		b.Run(fmt.Sprint("rung=", rung), func(b *testing.B) {
			var worlds []*Model
			for seed := range uint64(50) {
				nodes, latent := drawWorld(seed, 6, 1, 3, 5)
				worlds = append(worlds, mustModel(b, nodes, latent))
			}
			q := question(6)
			q.Given = map[string]int{}
			if rung == Association {
				q.Given = map[string]int{"V1": 1}
			}
			i := 0
			for b.Loop() {
				if _, err := worlds[i%len(worlds)].Ask(rung, q); err != nil && !errors.Is(err, causal.ErrZeroProbability) {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// All three rungs of sparse worlds that nobody can enumerate.
func BenchmarkSparse(b *testing.B) {
	for _, nodes := range []int{10, 20, 30, 60, 120} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) { benchRungs(b, nodes, nodes/6, 2, 4) })
	}
}

// The same at 30 nodes as their parents come from further back, which widens the
// cliques.
func BenchmarkReach(b *testing.B) {
	for _, reach := range []int{2, 4, 6, 8} {
		b.Run(fmt.Sprint("reach=", reach), func(b *testing.B) { benchRungs(b, 30, 5, 2, reach) })
	}
}

func benchRungs(b *testing.B, observed, latent, parents, reach int) {
	var worlds []*Model
	for seed := range uint64(10) {
		nodes, hidden := drawWorld(seed, observed, latent, parents, reach)
		worlds = append(worlds, mustModel(b, nodes, hidden))
	}
	q, steps, i := question(observed), 0.0, 0
	for b.Loop() {
		inf, err := worlds[i%len(worlds)].PrepareAll(q)
		if err != nil {
			b.Fatal(err)
		}
		inf.Run()
		steps += inf.Cost()
		i++
	}
	b.ReportMetric(steps/float64(i), "steps/op")
}
