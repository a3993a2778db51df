package decide

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/causaltest"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12 }

// C8's worked example: three causes, an alarm that says something of them, and a
// perfect inspection.
func TestWorkedExample(t *testing.T) {
	// Masses .5·.8, .3·.2, .2·.5 = .40, .06, .10 of .56.
	p, err := Update([]float64{0.5, 0.3, 0.2}, []float64{0.8, 0.2, 0.5})
	if err != nil || !near(p[0], 0.40/0.56) || !near(p[1], 0.06/0.56) || !near(p[2], 0.10/0.56) {
		t.Fatalf("posterior %v, %v", p, err)
	}
	// Naming a cause wrongly loses 1, abstaining .25.
	named := func(h int) []float64 {
		u := []float64{-1, -1, -1}
		u[h] = 0
		return u
	}
	r := Solve(Problem{
		Prior:   p,
		Utility: [][]float64{named(0), named(1), named(2), {-0.25, -0.25, -0.25}},
		Queries: []Query{{0.05, [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
	})
	// The likeliest cause is wrong in 2 of 7: abstaining loses less. The inspection
	// leaves its cost alone.
	if !slices.Equal(r.Optimal, []int{3}) || !near(r.Utility, -0.25) || !near(r.Expected[0], -2.0/7) {
		t.Errorf("choice %+v", r.Choice)
	}
	if q := r.Queries[0]; !near(q.EVSI, 0.25) || !near(q.Net, 0.2) || !near(r.EVPI, 0.25) || !near(q.EIG, Entropy(p)) {
		t.Errorf("query %+v, EVPI %v", q, r.EVPI)
	}
}

func TestHandDecisions(t *testing.T) {
	// A well is wet in half of the cases: drilling gains 100 or loses 70. The test says
	// shut in .2 of the dry and .6 of the wet cases, .4 in all; then .75 are wet, and
	// drilling is worth .75·100 - .25·70 = 57.5. Open, .6: a third is wet, and drilling
	// loses. So .4·57.5 = 23, against 15 without the test; with the truth known, 50.
	r := Solve(Problem{
		Prior:   []float64{0.5, 0.5},
		Utility: [][]float64{{-70, 100}, {0, 0}},
		Queries: []Query{{10, [][]float64{{0.8, 0.2}, {0.4, 0.6}}}, {1, [][]float64{{0.3, 0.7}, {0.3, 0.7}}}},
	})
	if !near(r.Utility, 15) || !near(r.EVPI, 35) || !near(r.Queries[0].EVSI, 8) || !near(r.Queries[0].Net, -2) || !near(r.Queries[0].Outcomes[1].Utility, 57.5) {
		t.Errorf("%+v", r)
	}
	// What does not depend on the state tells nothing, and costs all the same.
	if q := r.Queries[1]; q.EVSI != 0 || q.Net != -1 || !near(q.EIG, 0) {
		t.Errorf("an idle query: %+v", q)
	}
	// Of equal actions all are best; .1 + .2 is no better than .3.
	c := Choose([]float64{0.5, 0.5}, [][]float64{{0.1, 0.5}, {0.3, 0.3}, {0.2, 0.2}, {0.1 + 0.2, 0.3}})
	if !slices.Equal(c.Optimal, []int{0, 1, 3}) {
		t.Errorf("ties %v", c.Optimal)
	}
	// An outcome that cannot happen is left out of the reckoning.
	r = Solve(Problem{Prior: []float64{1, 0}, Utility: [][]float64{{1, 0}}, Queries: []Query{{0, [][]float64{{1, 0}, {0, 1}}}}})
	if o := r.Queries[0].Outcomes[1]; o.P != 0 || o.Posterior != nil || r.Queries[0].EIG != 0 {
		t.Errorf("an impossible outcome: %+v", o)
	}
}

func TestRegrets(t *testing.T) {
	half := []float64{0.5, 0.5}
	// A perfect test tells 1 bit, a useless one 0; one that is right in 3 of 4 tells
	// 1 - H(3/4) = 1 - (2 - .75·log2 3).
	perfect, useless, fair := [][]float64{{1, 0}, {0, 1}}, [][]float64{{0.5, 0.5}, {0.5, 0.5}}, [][]float64{{0.75, 0.25}, {0.25, 0.75}}
	got, err := InformationRegret(half, [][][]float64{useless, perfect, fair, perfect})
	if err != nil || !near(got[0], 1) || got[1] != 0 || !near(got[2], 2-0.75*math.Log2(3)) || got[3] != 0 {
		t.Errorf("information regret %v, %v", got, err)
	}
	// Once a hypothesis is certain no test tells anything: all tie.
	if got, err := InformationRegret([]float64{1, 0}, [][][]float64{useless, perfect}); err != nil || got[0] != 0 || got[1] != 0 {
		t.Errorf("nothing to learn: %v, %v", got, err)
	}
	// Losses 4 and 1 in the first state, 0 and 3 in the second: even, both lose 2. With 3:1
	// for the first, 3 against 1.5.
	loss := [][]float64{{4, 0}, {1, 3}}
	if got, err := Regret(half, loss); err != nil || got[0] != 0 || got[1] != 0 {
		t.Errorf("regret %v, %v", got, err)
	}
	if got, err := Regret([]float64{0.75, 0.25}, loss); err != nil || !near(got[0], 1.5) || got[1] != 0 {
		t.Errorf("regret after evidence %v, %v", got, err)
	}
	if _, err := InformationRegret(half, nil); !errors.Is(err, causal.ErrInvalid) {
		t.Errorf("no experiment: %v", err)
	}
	if _, err := Regret(half, nil); !errors.Is(err, causal.ErrInvalid) {
		t.Errorf("no action: %v", err)
	}
	if _, err := Update(half, []float64{1, 0}, []float64{0, 1}); !errors.Is(err, causal.ErrZeroProbability) {
		t.Errorf("findings that exclude each other: %v", err)
	}
}

func TestIdentifiedSet(t *testing.T) {
	for _, tc := range []struct {
		posterior []float64
		want      []int
	}{
		{[]float64{0.02, 0.96, 0.02}, []int{1}},
		{[]float64{0.05, 0.95}, []int{1}},
		{[]float64{0.5, 0.44, 0.06}, []int{0, 1, 2}},
		{[]float64{0.5, 0.03, 0.47}, []int{0, 2}},
		{[]float64{0.91, 0.045, 0.045}, []int{0, 1, 2}},           // the last two tie
		{[]float64{0.91, 0.1 - 0.055, 0.045}, []int{0, 1, 2}},     // also with rounding
		{[]float64{0.25, 0.25, 0.25, 0.25, 0}, []int{0, 1, 2, 3}}, // but not what is refuted
		{[]float64{1}, []int{0}},
		{[]float64{0.1 + 0.2, 0.65, 0.05 - 1e-17}, []int{0, 1}}, // .95, whatever the rounding
	} {
		if got := IdentifiedSet(tc.posterior); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.posterior, got, tc.want)
		}
	}
}

// Knowing more never costs expected utility, and no look is worth more than the truth.
func TestValueOfInformation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.IntRange(1, 4).Draw(t, "states")
		p := Problem{Prior: causaltest.DrawDistribution(t, states, "prior")}
		for range rapid.IntRange(1, 4).Draw(t, "actions") {
			p.Utility = append(p.Utility, rapid.SliceOfN(rapid.Float64Range(-100, 100), states, states).Draw(t, "utility"))
		}
		outcomes := rapid.IntRange(1, 4).Draw(t, "outcomes")
		var q Query
		for range states {
			q.Likelihood = append(q.Likelihood, causaltest.DrawDistribution(t, outcomes, "likelihood"))
		}
		p.Queries = []Query{q}
		r := Solve(p)
		if v := r.Queries[0]; v.EVSI < 0 || v.EVSI > r.EVPI+1e-9 || v.EIG < 0 || v.EIG > Entropy(p.Prior)+1e-12 {
			t.Fatalf("%+v, EVPI %v", v, r.EVPI)
		}
		// The posteriors average to the prior, and the joint over states and outcomes gives
		// the gain as a mutual information.
		mutual := 0.0
		for s, prior := range p.Prior {
			mean := 0.0
			for k, o := range r.Queries[0].Outcomes {
				if o.P > 0 {
					mean += o.P * o.Posterior[s]
				}
				if joint := prior * q.Likelihood[s][k]; joint > 0 {
					mutual += joint * math.Log2(joint/(prior*o.P))
				}
			}
			if !near(mean, prior) {
				t.Fatalf("posteriors of state %d average to %v, the prior is %v", s, mean, prior)
			}
		}
		if math.Abs(mutual-r.Queries[0].EIG) > 1e-12 {
			t.Fatalf("EIG %v, mutual information %v", r.Queries[0].EIG, mutual)
		}
	})
}
