package stats

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestProportionIntervalsPublished(t *testing.T) {
	const (
		binom = "statsmodels test_proportion.py and results_proportion.py (R binom.confint)"
		scipy = "scipy test_morestats.py (R binom.test, prop.test)"
	)
	for _, row := range []struct {
		method    string
		k, n      int64
		low, high float64
		tol       float64
		source    string
	}{
		{"clopper_pearson", 18, 20, 0.6830172859809176, 0.9876514728297052, 1e-9, binom},
		{"agresti_coull", 18, 20, 0.6867561125596077, 0.984343760998137, 1e-9, binom},
		{"wilson", 4, 20, 0.0806576625797981, 0.4160174322518935, 1e-9, binom},
		{"clopper_pearson", 4, 200, 0.005475565879556443, 0.05041360908989634, 1e-9, binom},
		{"agresti_coull", 1, 30, -0.008305484, 0.18091798, 1e-8, binom},
		{"wilson", 190, 200, 0.910421851861224, 0.972617354399236, 1e-9, binom},
		{"wilson", 3, 10, 0.1077913, 0.6032219, 1e-7, scipy},
		{"wilson", 0, 10, 0, 0.2775328, 1e-7, scipy},
		{"wilson", 29, 30, 0.8332961, 0.9940914, 1e-7, "R prop.test"},
		{"wilson", 0, 1, 0, 0.7934507, 1e-7, "z²/(1 + z²), by hand"},
		{"wilson", 1, 1, 0.2065493, 1, 1e-7, "1/(1 + z²), by hand"},
		{"clopper_pearson", 0, 10, 0, 0.3084971, 1e-7, scipy},
		{"clopper_pearson", 20, 100, 0.1266555521019559, 0.2918426890886281, 1e-9, scipy},
		{"clopper_pearson", 0, 40, 0, 0.0880973, 1e-6, "1 − 0.025^(1/40), by hand"},
		// gonum's inverse of the incomplete beta function is off in the second decimal here.
		{"clopper_pearson", 100_000, 100_000, 0.999963111886, 1, 1e-9, "0.025^(1/100000), by hand"},
	} {
		iv, ok := proportion(row.method, row.k, row.n)
		if !ok {
			t.Errorf("%+v: not available", row)
			continue
		}
		near(t, row.source+" low", iv.Low, row.low, row.tol)
		near(t, row.source+" high", iv.High, row.high, row.tol)
	}
}

func proportion(method string, k, n int64) (Interval, bool) {
	switch method {
	case "wilson":
		return Wilson(float64(k), float64(n), Z95)
	case "agresti_coull":
		return AgrestiCoull(float64(k), float64(n), Z95)
	}
	return ClopperPearson(k, n, 0.05)
}

func TestProportionIntervalsOfNothing(t *testing.T) {
	for _, method := range []string{"wilson", "agresti_coull", "clopper_pearson"} {
		for _, kn := range [][2]int64{{0, 0}, {2, 1}, {-1, 1}} {
			if iv, ok := proportion(method, kn[0], kn[1]); ok {
				t.Errorf("%s of %v: %v, want none", method, kn, iv)
			}
		}
	}
}

func TestProportionIntervalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"wilson", "clopper_pearson"}).Draw(t, "method")
		n := rapid.Int64Range(1, 5000).Draw(t, "n")
		k := rapid.Int64Range(0, n).Draw(t, "k")
		iv := must(proportion(method, k, n))(t)
		p := float64(k) / float64(n)
		if !(0 <= iv.Low && iv.Low <= p && p <= iv.High && iv.High <= 1 && iv.Low < iv.High) {
			t.Fatalf("%s of %d/%d: %v", method, k, n, iv)
		}
		mirror := must(proportion(method, n-k, n))(t)
		near(t, "mirrored", 1-mirror.High, iv.Low, 1e-12)
		if k < n {
			next := must(proportion(method, k+1, n))(t)
			if next.Low < iv.Low || next.High < iv.High {
				t.Fatalf("%s: %d/%d gives %v, one more %v", method, k, n, iv, next)
			}
		}
	})
}

// Wilson's limits are the shares whose score test rejects at alpha exactly.
func TestWilsonInvertsTheScoreTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := float64(rapid.IntRange(1, 100_000).Draw(t, "n"))
		k := rapid.Float64Range(0, n).Draw(t, "k") // also numbers that are not whole
		iv := must(Wilson(k, n, Z95))(t)
		for _, p := range []float64{iv.Low, iv.High} {
			if p > 0 && p < 1 {
				near(t, "score", math.Pow(k/n-p, 2), Z95*Z95*p*(1-p)/n, 1e-12)
			}
		}
	})
}

// exactly is the distribution of X binomial, in 300 bits.
func exactly(n int64, p float64) []*big.Float {
	float := func() *big.Float { return new(big.Float).SetPrec(300) }
	up, down := float().SetFloat64(p), float().Sub(float().SetInt64(1), float().SetFloat64(p))
	probs := make([]*big.Float, n+1)
	probs[0] = float().SetInt64(1)
	for range n {
		probs[0].Mul(probs[0], down)
	}
	odds := float().Quo(up, down)
	for k := int64(1); k <= n; k++ {
		x := float().Mul(probs[k-1], odds)
		x.Mul(x, float().SetInt64(n-k+1))
		probs[k] = x.Quo(x, float().SetInt64(k))
	}
	return probs
}

func TestBinomialAgainstExactSums(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 17, 400, 10_000} {
		for _, p := range []float64{0.001, 0.3, 0.48, 0.5, 0.97} {
			probs := exactly(n, p)
			for _, at := range []float64{0, 0.01, 0.31, 0.5, 0.96, 1} {
				k := int64(math.Round(at * float64(n)))
				var below, above, two big.Float
				limit := new(big.Float).Mul(probs[k], big.NewFloat(1+slack))
				for i, q := range probs {
					if int64(i) <= k {
						below.Add(&below, q)
					}
					if int64(i) >= k {
						above.Add(&above, q)
					}
					if q.Cmp(limit) <= 0 {
						two.Add(&two, q)
					}
				}
				check := func(what string, got float64, want *big.Float) {
					w, _ := want.Float64()
					near(t, what, got, w, 1e-11)
					if w > 1e-200 && math.Abs(got/w-1) > 1e-9 {
						t.Errorf("%s, n %d p %v k %d: got %v, want %v", what, n, p, k, got, w)
					}
				}
				check("at most", atMost(k, n, p), &below)
				check("at least", atLeast(k, n, p), &above)
				check("two-sided", must(BinomialTest(k, n, p))(t), &two)
			}
		}
	}
}

// The largest counts are still right to 1e-9, against sums in 120 bits.
func TestBinomialAtMaxCount(t *testing.T) {
	const n = MaxCount
	float := func() *big.Float { return new(big.Float).SetPrec(120) }
	for _, p := range []float64{1e-5, 0.2, 0.5, 0.8} {
		up, down := float().SetFloat64(p), float().Sub(float().SetInt64(1), float().SetFloat64(p))
		term, power := float().SetInt64(1), float().Set(down)
		for e := n; e > 0; e >>= 1 { // (1 − p)^n
			if e&1 == 1 {
				term.Mul(term, power)
			}
			power.Mul(power, power)
		}
		odds, sum := float().Quo(up, down), float().Set(term)
		mean, sd := n*p, math.Sqrt(n*p*(1-p))
		steps := -5.0
		for k := int64(0); steps < 5; k++ {
			if float64(k) >= mean+steps*sd {
				want, _ := sum.Float64()
				near(t, fmt.Sprintf("p %v, k %d", p, k), atMost(k, n, p)/want, 1, 1e-9)
				steps += 0.37
			}
			term.Mul(term, odds)
			term.Mul(term, float().SetInt64(n-k))
			term.Quo(term, float().SetInt64(k+1))
			sum.Add(sum, term)
		}
	}
}

func TestBinomialTestPublished(t *testing.T) {
	for _, row := range []struct {
		k, n int64
		p    float64
		want float64
		tol  float64
	}{ // scipy test_morestats.py TestBinomTest (R binom.test)
		{9, 21, 0.48, 0.6689672431939, 1e-9},
		{11, 21, 0.48, 0.8278629664608, 1e-9},
		{3, 10, 0.5, 0.34375, 1e-12},
		{2, 4, 0.3, 0.5884, 1e-12},
		{3, 50, 0.2, 0.01191714, 1e-8},
		// no chance at all, and certainty
		{0, 5, 0, 1, 0},
		{1, 5, 0, 0, 0},
		{5, 5, 1, 1, 0},
		{4, 5, 1, 0, 0},
	} {
		near(t, "two-sided p", must(BinomialTest(row.k, row.n, row.p))(t), row.want, row.tol)
	}
	if p, ok := BinomialTest(0, 0, 0.5); ok {
		t.Errorf("no trial: %v, want none", p)
	}
}

func TestMcNemar(t *testing.T) {
	// statsmodels contingency_table_r_results.csv, row 0 (R mcnemar.test, binom.test)
	got := must(McNemar(15, 19))(t)
	near(t, "exact", got.ExactP, 0.60759136127308, 1e-12)
	near(t, "chi2", got.Chi2, 0.470588235294118, 1e-12)
	near(t, "chi2 p", got.Chi2P, 0.492716677227088, 1e-12)
	near(t, "continuity p", got.ContinuityP, 0.606905427227918, 1e-10)
	near(t, "continuity p", got.ContinuityP, math.Erfc(math.Sqrt(9.0/34/2)), 1e-14)
	if got, ok := McNemar(0, 0); ok {
		t.Errorf("no discordant pair: %v, want none", got)
	}
}

func TestMcNemarProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, c := rapid.Int64Range(0, 3000).Draw(t, "b"), rapid.Int64Range(0, 3000).Draw(t, "c")
		one, ok := McNemar(b, c)
		other, _ := McNemar(c, b)
		if ok != (b+c > 0) || one != other {
			t.Fatalf("%v and %v of the other order", one, other)
		}
		if !ok {
			return
		}
		for _, p := range []float64{one.ExactP, one.Chi2P, one.ContinuityP} {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("p outside [0, 1]: %+v", one)
			}
		}
		// The exact test is that of a fair coin.
		near(t, "exact", one.ExactP, must(BinomialTest(b, b+c, 0.5))(t), 1e-9)
	})
}
