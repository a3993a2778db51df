package world

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"assay/bench/causal/identify"
	"assay/bench/causal/scm"
)

var styles = []Style{BowArc, Hedge, Napkin}

// identified says what the graph of a world says of P(Y|do(X)).
func identified(t *testing.T, w *World) bool {
	t.Helper()
	g := w.Graph(w.Observed())
	x, _ := g.Node(w.X)
	y, _ := g.Node(w.Y)
	_, hedge, err := identify.Identify(g, identify.Query{Do: g.NewSet(x), Outcome: g.NewSet(y), Given: g.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	return hedge == nil
}

// A rival is of the same graph and the same joint and answers otherwise; apart, enough
// hidden causes make the same graph identify it.
func TestDisputed(t *testing.T) {
	for _, style := range styles {
		graphs := map[string]bool{}
		for i := range 25 {
			seed := SeedOf(fmt.Sprint("disputed ", i))
			w, rival, settled := Disputed(seed, style)
			graphs[fmt.Sprint(w.Edges())] = true
			names := w.Observed()
			if identified(t, w) || !identified(t, settled) {
				t.Fatalf("%s %d: the graph identifies %v, apart %v", style, i, identified(t, w), identified(t, settled))
			}
			if !slices.Equal(w.Edges(), rival.Edges()) || !slices.Equal(w.Latent, rival.Latent) {
				t.Errorf("%s %d: the rival has another structure", style, i)
			}
			a, b := w.Joint(names), rival.Joint(names)
			for cell := range a {
				if !(math.Abs(a[cell]-b[cell]) <= 1e-13) {
					t.Fatalf("%s %d: cell %d is %v, the rival's %v", style, i, cell, a[cell], b[cell])
				}
			}
			if gap := math.Abs(w.effect() - rival.effect()); gap < MinGap {
				t.Errorf("%s %d: the answers differ by %v", style, i, gap)
			}
			// The mechanisms of the settled world are those of the disputed one.
			if !slices.Equal(names, settled.Observed()) || len(settled.Latent) >= 2*len(w.Latent) || len(settled.Latent) == len(w.Latent) {
				t.Errorf("%s %d: %v and %v are hidden, of %v", style, i, w.Latent, settled.Latent, names)
			}
			for _, v := range w.Nodes {
				k := slices.IndexFunc(settled.Nodes, func(s scm.Node) bool { return s.Name == v.Name })
				if !slices.EqualFunc(v.Tables, settled.Nodes[k].Tables, func(a, b scm.Table) bool { return a.P == b.P && slices.Equal(a.Values, b.Values) }) {
					t.Errorf("%s %d: %s has another mechanism", style, i, v.Name)
				}
			}
			g := w.Graph(names)
			x, _ := g.Node(w.X)
			bow := slices.ContainsFunc(g.Siblings(x), func(s int) bool { return slices.Contains(g.Children(x), s) })
			if style != Napkin && bow != (style == BowArc) {
				t.Errorf("%s %d: a bow arc: %v", style, i, bow)
			}
		}
		if len(graphs) < 15 {
			t.Errorf("%s: only %d graphs of 25", style, len(graphs))
		}
	}
}

// Where the graph identifies the effect no rival answers otherwise.
func TestNoRival(t *testing.T) {
	for _, style := range styles {
		for i := range 10 {
			_, _, settled := Disputed(SeedOf(fmt.Sprint("none ", i)), style)
			if gap := math.Abs(settled.effect() - settled.Rival().effect()); gap > 1e-10 {
				t.Errorf("%s %d: the effect is identifiable, and a rival is %v off", style, i, gap)
			}
		}
	}
	for _, s := range []Shape{FrontDoor, Confounded, Direct} {
		w := Draw(SeedOf("none"), s)
		if gap := math.Abs(w.effect() - w.Rival().effect()); gap > 1e-10 {
			t.Errorf("%s: a rival is %v off", s.Motif, gap)
		}
	}
}

func BenchmarkDisputed(b *testing.B) {
	for _, style := range styles {
		b.Run(string(style), func(b *testing.B) {
			for i := range b.N {
				Disputed(SeedOf(fmt.Sprint("bench ", i)), style)
			}
		})
	}
}
