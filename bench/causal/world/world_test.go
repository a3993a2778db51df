package world

import (
	"encoding/hex"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal/scm"
)

// The draws of a seed are frozen: all sets follow from them.
func TestDrawsAreFrozen(t *testing.T) {
	r := SeedOf("golden").Derive("part").Rand()
	var b [16]byte
	r.Bytes(b[:])
	if got := hex.EncodeToString(b[:]); got != goldenBytes {
		t.Errorf("bytes %s, want %s", got, goldenBytes)
	}
	var got []int
	for range 6 {
		got = append(got, r.Below(1000))
	}
	got = append(got, r.Between(350, 650))
	list := []int{0, 1, 2, 3, 4, 5}
	Shuffle(r, list)
	if got = append(got, list...); !slices.Equal(got, goldenNumbers) {
		t.Errorf("numbers %v, want %v", got, goldenNumbers)
	}
}

func TestBelowIsEven(t *testing.T) {
	r := SeedOf("even").Rand()
	const n, draws = 7, 70_000
	var count [n]int
	for range draws {
		count[r.Below(n)]++
	}
	for i, c := range count { // binomial: standard deviation 93
		if c < draws/n-500 || c > draws/n+500 {
			t.Errorf("%d was drawn %d times of %d", i, c, draws)
		}
	}
	if r.Below(1) != 0 {
		t.Error("0 is all that is below 1")
	}
}

func shapes(seed Seed) []Shape {
	all := []Shape{Direct, Reversed, Fork, Chain, LongChain, Collider, ColliderEdge, Confounded, LatentFork, Bow, BowWithCause,
		BowWithMediator, Mediation, FrontDoor, MBias, Interaction, Independent}
	return append(all, Random(seed, 6))
}

// A world and its twin agree in what they share: a variable that listens to the same
// causes has the same mechanism.
func TestTwinsShareMechanisms(t *testing.T) {
	for _, text := range []string{"a", "b", "c"} {
		seed := SeedOf(text)
		tables := func(w *World, name string) any {
			i := slices.IndexFunc(w.Nodes, func(v scm.Node) bool { return v.Name == name })
			return w.Nodes[i].Tables
		}
		fork, confounded, bow, fork2 := Draw(seed, Fork), Draw(seed, Confounded), Draw(seed, Bow), Draw(seed, LatentFork)
		for _, v := range []string{"Z", "X"} {
			if !reflect.DeepEqual(tables(fork, v), tables(confounded, v)) {
				t.Errorf("%s: %s differs between fork and confounded", text, v)
			}
		}
		if !reflect.DeepEqual(tables(bow, "X"), tables(fork2, "X")) {
			t.Errorf("%s: X differs between a bow and a latent fork", text)
		}
		if reflect.DeepEqual(tables(fork, "Z"), tables(Draw(SeedOf(text+"'"), Fork), "Z")) {
			t.Errorf("%s: another seed draws the same", text)
		}
	}
}

func TestShapes(t *testing.T) {
	seed := SeedOf("shapes")
	for _, s := range shapes(seed) {
		w := Draw(seed, s)
		if got := w.Observed(); len(got)+len(w.Latent) != len(s.Slots) || !slices.Contains(got, w.X) || !slices.Contains(got, w.Y) {
			t.Errorf("%s: observed %v, latent %v", s.Motif, got, w.Latent)
		}
		for _, v := range w.Nodes {
			if slices.Contains(w.Latent, v.Name) && len(v.Parents) > 0 {
				t.Errorf("%s: latent %s has causes", s.Motif, v.Name)
			}
			for _, table := range v.Tables {
				for _, x := range table.Values {
					if x != 0 && x != 1 {
						t.Errorf("%s: %s has value %d", s.Motif, v.Name, x)
					}
				}
			}
		}
	}
	for _, s := range Motifs {
		for _, held := range HeldOut {
			if s.Motif == held.Motif {
				t.Errorf("%s is held out", s.Motif)
			}
		}
	}
}

// In a random shape there is a directed path from X to Y.
func TestRandomShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := SeedOf(rapid.String().Draw(t, "seed"))
		w := Draw(seed, Random(seed, rapid.IntRange(3, 7).Draw(t, "n")))
		reached := map[string]bool{w.X: true}
		for _, v := range w.Nodes {
			for _, p := range v.Parents {
				reached[v.Name] = reached[v.Name] || reached[p]
			}
		}
		if !reached[w.Y] || w.X == w.Y {
			t.Fatalf("no path from %s to %s", w.X, w.Y)
		}
	})
}

// Names change nothing but names.
func TestNamed(t *testing.T) {
	seed := SeedOf("names")
	skin, ok := SkinNamed(Nonsense)
	if !ok {
		t.Fatal("no nonsense")
	}
	for _, s := range shapes(seed) {
		w := Draw(seed, s)
		names := skin.Deal(seed.Rand(), w.Names())
		other := w.Named(names)
		q := scm.Query{Target: map[string]int{w.Y: 1}, Do: map[string]int{w.X: 0}, Factual: map[string]int{w.X: 1}}
		named := scm.Query{Target: map[string]int{other.Y: 1}, Do: map[string]int{other.X: 0}, Factual: map[string]int{other.X: 1}}
		a, errA := w.Model.Rungs(q)
		b, errB := other.Model.Rungs(named)
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v and %+v, %v, %v", s.Motif, a, b, errA, errB)
		}
		if other.X != names[w.X] || other.Y != names[w.Y] {
			t.Errorf("%s: X is %s", s.Motif, other.X)
		}
	}
}

func TestSkins(t *testing.T) {
	if len(Skins) != 8 || Skins[len(Skins)-1].Name != Nonsense {
		t.Error("the last skin is the nonsense one")
	}
	for _, s := range Skins {
		if len(s.Names) < 12 || s.Setting == "" {
			t.Errorf("%s: %d names", s.Name, len(s.Names))
		}
		for i, a := range s.Names {
			for j, b := range s.Names {
				if i != j && strings.Contains(a, b) { // a question could not tell them apart
					t.Errorf("%s: %s is part of %s", s.Name, b, a)
				}
			}
			if strings.Contains(s.Setting, a) {
				t.Errorf("%s: the setting names %s", s.Name, a)
			}
		}
	}
	if _, ok := SkinNamed("none"); ok {
		t.Error("there is no such skin")
	}
}

// A joint distribution is that of the world fitted to it, where all arrows are there.
func TestFit(t *testing.T) {
	seed := SeedOf("fit")
	for _, s := range []Shape{Bow, BowWithCause, BowWithMediator, Confounded} {
		w := Draw(seed, s)
		variables := w.Observed()
		parents := map[string][]string{}
		for i, v := range variables {
			parents[v] = variables[:i]
		}
		joint := w.Joint(variables)
		fitted, err := Fit(variables, joint, parents)
		if err != nil {
			t.Fatal(err)
		}
		for cell, p := range fitted.Joint(variables) {
			if math.Abs(p-joint[cell]) > 1e-15 {
				t.Errorf("%s: cell %d is %v, not %v", s.Motif, cell, p, joint[cell])
			}
		}
	}
	if _, err := Fit([]string{"A", "B"}, []float64{1, 0, 0, 0}, map[string][]string{"B": {"A"}}); err == nil {
		t.Error("nothing is known of B where A = 1")
	}
}

// Draws of episodes have the frequencies of the model.
func TestSample(t *testing.T) {
	seed := SeedOf("sample")
	w := Draw(seed, Confounded)
	r := seed.Rand()
	const n = 20_000
	hits := 0
	for range n {
		e := w.Sample(r)
		hits += e.Values[w.Y]
		for _, v := range w.Nodes {
			row := 0
			for _, p := range v.Parents {
				row = row*2 + e.Values[p]
			}
			if v.Tables[e.Noise[v.Name]].Values[row] != e.Values[v.Name] {
				t.Fatalf("the noise of %s does not give its value", v.Name)
			}
		}
	}
	p := w.Probability(map[string]int{w.Y: 1})
	if z := (float64(hits) - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(z) > 5 {
		t.Errorf("%d of %d, P = %v: z = %.2f", hits, n, p, z)
	}
}

const goldenBytes = "f6cdbb7035655735f28f3d3f07d2ae8f"

var goldenNumbers = []int{679, 200, 792, 256, 591, 567, 453, 0, 4, 5, 1, 2, 3}
