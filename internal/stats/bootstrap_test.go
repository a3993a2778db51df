package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// scipy test_resampling.py, test_bootstrap_against_R: R's boot with 10^6 resamples.
func TestBootstrapPublished(t *testing.T) {
	data := []float64{10, 12, 12.5, 12.5, 13.9, 15, 21, 22, 23, 34, 50, 81, 89, 121, 134, 213}
	bs := must(NewBootstrap(data, 200_000, 1))(t)
	for method, want := range map[Method]Interval{
		Percentile: {28.86, 84.21}, Basic: {23.77, 79.12}, BCa: {32.31, 91.43},
	} {
		iv := must(bs.Interval(method, 0.95))(t)
		near(t, string(method)+" low", iv.Low, want.Low, 0.01*want.Low)
		near(t, string(method)+" high", iv.High, want.High, 0.01*want.High)
	}
}

// The seed's draws are part of every result that names it: these bits, computed
// once apart from this code, may never change.
func TestBootstrapGolden(t *testing.T) {
	rng := rand.NewPCG(1, 0)
	var draws []uint64
	for range 12 {
		draws = append(draws, below(rng, 10))
	}
	if want := []uint64{5, 0, 7, 0, 7, 5, 8, 5, 3, 1, 4, 0}; !slices.Equal(draws, want) {
		t.Errorf("draws %v, want %v", draws, want)
	}
	if got, want := Seed([]string{"world-2", "world-1"}), uint64(999716047044001); got != want {
		t.Errorf("seed %d, want %d", got, want)
	}
}

func TestBelowIsUniform(t *testing.T) {
	rng := rand.NewPCG(7, 0)
	const n, draws = 5, 500_000
	var counts [n]float64
	for range draws {
		counts[below(rng, n)]++
	}
	var chi2 float64
	for _, c := range counts {
		chi2 += (c - draws/n) * (c - draws/n) / (draws / n)
	}
	if chi2 > 23.5 { // the 0.9999 quantile at four degrees of freedom
		t.Errorf("counts %v: chi2 %v", counts, chi2)
	}
}

func TestBootstrapWithoutAnInterval(t *testing.T) {
	if _, ok := NewBootstrap(nil, 10, 1); ok {
		t.Error("a bootstrap of nothing")
	}
	if _, ok := NewBootstrap([]float64{math.MaxFloat64, math.MaxFloat64}, 10, 1); ok {
		t.Error("a bootstrap of sums that overflow")
	}
	for name, tc := range map[string]struct {
		values []float64
		b      int
	}{
		"one value":         {[]float64{3}, 999},
		"values all alike":  {[]float64{3, 3, 3}, 999},
		"too few resamples": {[]float64{1, 2, 3}, 38}, // 39 · 0.025 < 1
	} {
		bs := must(NewBootstrap(tc.values, tc.b, 1))(t)
		for _, m := range []Method{Percentile, Basic, BCa} {
			if iv, ok := bs.Interval(m, 0.95); ok {
				t.Errorf("%s: %s %v, want none", name, m, iv)
			}
		}
	}
	bs := must(NewBootstrap([]float64{1, 2, 3}, 39, 1))(t)
	if iv, ok := bs.Interval(Percentile, 0.95); !ok || iv != (Interval{bs.means[0], bs.means[38]}) {
		t.Errorf("39 resamples carry the extremes: %v %v", iv, ok)
	}
}

// binaryClusters draws a true share for each arm and, in every cluster, runs of it.
func binaryClusters(n, runs int, seed uint64) Clusters {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := Clusters{}
	for i := range n {
		arms := map[string][]*float64{}
		ease := rng.Float64()
		for arm, share := range map[string]float64{"a": 0.8, "b": 0.6} {
			rng := rand.New(rand.NewPCG(seed, uint64(i)<<8|uint64(arm[0])))
			for range runs {
				v := 0.0
				if rng.Float64() < share*ease {
					v = 1
				}
				arms[arm] = append(arms[arm], &v)
			}
		}
		c[fmt.Sprintf("world-%03d", i)] = arms
	}
	return c
}

var usual = Resampling{B: 999, Confidence: 0.95, Method: Percentile, MinClusters: 5}

func TestCompare(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	c := Clusters{
		"w1": {"a": {value(1), value(0)}, "b": {value(0)}},           // 0.5
		"w2": {"a": {value(1), value(1), value(1)}, "b": {value(1)}}, // 0
		"w3": {"a": {value(1)}, "b": {value(0), value(0)}},           // 1
		"w4": {"a": {value(1), nil}, "b": {value(0)}},                // not known
		"w5": {"a": {value(1)}},                                      // no b
		"w6": {"a": {value(1)}, "b": {}},                             // no run of b
	}
	r := usual
	r.MinClusters = 3
	got := c.Compare("a", "b", r)
	if got.Estimate == nil || *got.Estimate != 0.5 || got.Interval == nil || got.Clusters != 3 || got.Incomplete != 3 || got.Suppressed != "" {
		t.Errorf("got %+v", got)
	}
	if want := Seed([]string{"w1", "w2", "w3"}); got.Seed != want {
		t.Errorf("seed %d, want %d", got.Seed, want)
	}
	for name, tc := range map[string]struct {
		c    Clusters
		a, b string
		r    Resampling
		want Suppressed
		n    int
	}{
		"fewer than registered": {c, "a", "b", usual, FewClusters, 3},
		"one is never enough":   {Clusters{"w1": c["w1"]}, "a", "b", Resampling{B: 999, Confidence: 0.95, Method: Percentile}, FewClusters, 1},
		"no such arm":           {c, "a", "z", r, NoCluster, 0},
		"no cluster":            {nil, "a", "b", r, NoCluster, 0},
		"an arm against itself": {c, "a", "a", r, NoVariation, 5},
		"too few resamples":     {c, "a", "b", Resampling{B: 20, Confidence: 0.95, Method: Percentile}, FewResamples, 3},
		"sums that are too large": {Clusters{
			"w1": {"a": {value(math.MaxFloat64)}, "b": {value(0)}}, "w2": {"a": {value(1)}, "b": {value(0)}},
		}, "a", "b", Resampling{B: 99, Confidence: 0.9, Method: Percentile}, NotFinite, 2},
	} {
		got := tc.c.Compare(tc.a, tc.b, tc.r)
		if got.Suppressed != tc.want || got.Interval != nil || got.Clusters != tc.n {
			t.Errorf("%s: got %+v, want %s of %d clusters", name, got, tc.want, tc.n)
		}
		if (got.Estimate == nil) != (got.Suppressed == NoCluster) {
			t.Errorf("%s: estimate %v", name, got.Estimate)
		}
	}
}

func TestCompareProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := binaryClusters(rapid.IntRange(5, 30).Draw(t, "clusters"), rapid.IntRange(1, 4).Draw(t, "runs"), rapid.Uint64().Draw(t, "seed"))
		r := usual
		r.B = rapid.IntRange(200, 800).Draw(t, "B")
		r.Method = rapid.SampledFrom([]Method{Percentile, Basic, BCa}).Draw(t, "method")
		ab := c.Compare("a", "b", r)

		// Clusters in another order, with another arm: the same to the bit.
		other := Clusters{}
		ids := make([]string, 0, len(c))
		for id := range c {
			ids = append(ids, id)
		}
		for _, id := range rapid.Permutation(ids).Draw(t, "order") {
			other[id] = map[string][]*float64{"c": c[id]["b"], "b": c[id]["b"], "a": c[id]["a"]}
		}
		same := other.Compare("a", "b", r)
		// Two arms that did the same compare alike: the clusters are drawn once for all.
		twin := other.Compare("a", "c", r)
		for _, got := range []Comparison{same, twin} {
			if got.Seed != ab.Seed || *got.Estimate != *ab.Estimate || got.Suppressed != ab.Suppressed ||
				(got.Interval == nil) != (ab.Interval == nil) || got.Interval != nil && *got.Interval != *ab.Interval {
				t.Fatalf("%+v, and of the same clusters %+v", ab, got)
			}
		}
		ba := c.Compare("b", "a", r)
		if *ba.Estimate != -*ab.Estimate {
			t.Fatalf("estimate %v, of the arms swapped %v", *ab.Estimate, *ba.Estimate)
		}
		if ab.Interval == nil {
			return
		}
		if r.Method != BCa && *ba.Interval != (Interval{-ab.Interval.High, -ab.Interval.Low}) {
			t.Fatalf("%v, of the arms swapped %v", *ab.Interval, *ba.Interval)
		}
		wider := r
		wider.Confidence = 0.97
		if w := c.Compare("a", "b", wider); w.Interval != nil && (w.Interval.Low > ab.Interval.Low || w.Interval.High < ab.Interval.High) {
			t.Fatalf("95%% %v, 97%% %v", *ab.Interval, *w.Interval)
		}
		if !(ab.Interval.Low <= *ab.Estimate && *ab.Estimate <= ab.Interval.High) {
			t.Fatalf("%s %v does not hold %v", r.Method, *ab.Interval, *ab.Estimate)
		}
	})
}

// Over many experiments the interval holds the true difference about as often as
// it says, also where a cluster has many runs: runs are not cases.
func TestCompareCovers(t *testing.T) {
	const experiments, truth = 400, 0.1 // (0.8 − 0.6) · ½
	for _, method := range []Method{Percentile, Basic, BCa} {
		held := 0
		for i := range uint64(experiments) {
			r := usual
			r.Method, r.B = method, 499
			got := binaryClusters(60, 5, i+1).Compare("a", "b", r)
			if got.Interval != nil && got.Interval.Low <= truth && truth <= got.Interval.High {
				held++
			}
		}
		if share := float64(held) / experiments; share < 0.915 || share > 0.98 {
			t.Errorf("%s: %v of the 95%% intervals hold the truth", method, share)
		}
	}
}

func TestSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.StringN(0, 6, -1), rapid.ID[string]).Draw(t, "ids")
		seed := Seed(ids)
		if seed >= 1<<53 || seed != Seed(rapid.Permutation(ids).Draw(t, "order")) {
			t.Fatalf("seed %d of %q", seed, ids)
		}
	})
	if Seed([]string{"ab", "c"}) == Seed([]string{"a", "bc"}) {
		t.Error("ids run into each other")
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		iv         *Interval
		higher     bool
		want       Verdict
		equivalent bool
	}{
		{&Interval{-0.02, 0.02}, true, NonInferior, true},
		{&Interval{-0.02, 0.02}, false, NonInferior, true},
		{&Interval{0.01, 0.20}, true, NonInferior, false},
		{&Interval{0.01, 0.20}, false, Inconclusive, false},
		{&Interval{0.04, 0.20}, false, Inferior, false},
		{&Interval{-0.20, -0.04}, true, Inferior, false},
		{&Interval{-0.20, -0.04}, false, NonInferior, false},
		{&Interval{-0.03, 0.01}, true, Inconclusive, false}, // the margin itself is not within
		{&Interval{-0.20, -0.03}, true, Inconclusive, false},
		{&Interval{-0.20, 0.20}, true, Inconclusive, false},
		{nil, true, Inconclusive, false},
	} {
		got, equivalent := Judge(tc.iv, 0.03, tc.higher)
		if got != tc.want || equivalent != tc.equivalent {
			t.Errorf("%v, higher is better %v: got %s %v, want %s %v", tc.iv, tc.higher, got, equivalent, tc.want, tc.equivalent)
		}
	}
}
