package montecarlo

import (
	"math"
	"testing"
)

const confounded = `{"latent":[],"nodes":[
 {"name":"Y","parents":["X","Z"],"tables":[{"p":0.5,"table":[0,1,0,1]},{"p":0.5,"table":[0,0,1,1]}]},
 {"name":"X","parents":["Z"],"tables":[{"p":0.6,"table":[0,1]},{"p":0.2,"table":[0,0]},{"p":0.2,"table":[1,1]}]},
 {"name":"Z","parents":[],"tables":[{"p":0.5,"table":[0]},{"p":0.5,"table":[1]}]}]}`

const mediated = `{"latent":[],"nodes":[
 {"name":"X","parents":[],"tables":[{"p":0.5,"table":[0]},{"p":0.5,"table":[1]}]},
 {"name":"M","parents":["X"],"tables":[{"p":0.5,"table":[0,2]},{"p":0.5,"table":[0,0]}]},
 {"name":"Y","parents":["X","M"],"tables":[{"p":0.5,"table":[0,0,1,0,0,1]},{"p":0.25,"table":[0,0,0,1,1,1]},{"p":0.25,"table":[0,0,0,0,0,0]}]}]}`

// The answers are worked out in the hand cases of package set; those of the mediator,
// which has three values here, are the same.
func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name, model, rung, query string
		want                     float64
	}{
		{"seeing", confounded, "observation", `{"kind":"probability","target":{"Y":1},"given":{"X":1}}`, .9},
		{"doing", confounded, "intervention", `{"kind":"probability","target":{"Y":1},"do":{"X":1}}`, .75},
		{"doing, given", confounded, "intervention", `{"kind":"probability","target":{"Y":1},"do":{"X":1},"given":{"Z":0}}`, .5},
		{"a counterfactual", confounded, "counterfactual", `{"kind":"probability","target":{"Y":1},"do":{"X":0},"factual":{"X":1,"Y":1}}`, 4. / 9},
		{"consistency", confounded, "counterfactual", `{"kind":"probability","target":{"Y":1},"do":{"X":1},"factual":{"X":1,"Y":1}}`, 1},
		{"ate", confounded, "intervention", `{"kind":"effect","effect":"ate","treatment":"X","outcome":"Y"}`, .5},
		{"ett", confounded, "counterfactual", `{"kind":"effect","effect":"ett","treatment":"X","outcome":"Y"}`, .5},
		{"total", mediated, "intervention", `{"kind":"effect","effect":"ate","treatment":"X","outcome":"Y"}`, .5},
		{"nde", mediated, "counterfactual", `{"kind":"effect","effect":"nde","treatment":"X","outcome":"Y"}`, .25},
		{"nie", mediated, "counterfactual", `{"kind":"effect","effect":"nie","treatment":"X","outcome":"Y"}`, .25},
		{"a value of three", mediated, "intervention", `{"kind":"probability","target":{"M":2},"do":{"X":1}}`, .5},
	} {
		const draws = 100_001 // the last word is not full
		got, err := Run([]byte(tc.model), [][]byte{[]byte(`{"case_id":"c","rung":"` + tc.rung + `","query":` + tc.query + `}`)}, draws)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", tc.name, got, err)
			continue
		}
		e := got[0]
		if tc.rung == "intervention" && e.N != draws && tc.name != "doing, given" {
			t.Errorf("%s: %d draws", tc.name, e.N)
		}
		if off := math.Abs(e.Value() - tc.want); off > 5/math.Sqrt(float64(e.N)) {
			t.Errorf("%s: %v, want %v", tc.name, e.Value(), tc.want)
		}
	}
}

// Each bit is picked with its probability, also with small and large ones.
func TestAmong(t *testing.T) {
	noise := source(1)
	for _, p := range []float64{0, 0.001, 0.3, 0.5, 0.999} {
		const n = 20_000
		hits := 0
		for range n {
			w := words{noise.among(^uint64(0), uint64(math.Ldexp(p, 64)))}
			hits += int(ones(&w))
		}
		mean, deviation := 64*n*p, math.Sqrt(64*n*p*(1-p))
		if math.Abs(float64(hits)-mean) > 5*deviation {
			t.Errorf("p = %v: %d of %d", p, hits, 64*n)
		}
	}
	if got := noise.among(0xff, math.MaxUint64); got != 0xff {
		t.Errorf("certainly %x", got)
	}
}

func TestFaults(t *testing.T) {
	ask := `{"case_id":"c","rung":"observation","query":{"kind":"probability","target":{"Q":1}}}`
	for name, model := range map[string]string{
		"no such variable":      confounded,
		"round":                 `{"nodes":[{"name":"A","parents":["B"],"tables":[{"p":1,"table":[0,1]}]},{"name":"B","parents":["A"],"tables":[{"p":1,"table":[0,1]}]}]}`,
		"a table of other size": `{"nodes":[{"name":"Q","parents":[],"tables":[{"p":1,"table":[0,1]}]}]}`,
		"no JSON":               `{`,
	} {
		if _, err := Run([]byte(model), [][]byte{[]byte(ask)}, 64); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	got, err := Run([]byte(confounded), [][]byte{[]byte(`{"case_id":"c","query":{"kind":"structure"}}`)}, 64)
	if err != nil || len(got) != 0 {
		t.Errorf("a case that asks for no number: %v, %v", got, err)
	}
}
