package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson is the score interval of k successes in n trials at z, with n above 0
// and k in [0, n] (E. B. Wilson, Probable Inference, the Law of Succession, and
// Statistical Inference, JASA 22, 1927). Numbers of trials that are not whole are
// taken as they are: shares in [0, 1] vary no more than zeros and ones of the same
// mean, so that the interval is then no narrower than it should be.
func Wilson(k, n, z float64) (iv Interval, ok bool) {
	zz := float64(z * z)
	if !(n > 0 && k >= 0 && k <= n && z > 0 && isFinite(zz)) {
		return Interval{}, false
	}
	p := k / n
	centre := p + zz/float64(2*n)
	spread := float64(z * math.Sqrt(float64(p*(1-p))/n+zz/float64(4*float64(n*n))))
	scale := 1 + zz/n
	iv = Interval{max(0, (centre-spread)/scale), min(1, (centre+spread)/scale)}
	if k == 0 {
		iv.Low = 0 // and not the last bit of a rounding
	}
	if k == n {
		iv.High = 1
	}
	return iv, true
}

// AgrestiCoull is the adjusted Wald interval of k successes in n trials at z, n
// above 0 (A. Agresti, B. A. Coull, Approximate Is Better than "Exact", The
// American Statistician 52, 1998, with z² in place of their 4). It is not clipped
// to [0, 1].
func AgrestiCoull(k, n, z float64) (iv Interval, ok bool) {
	zz := float64(z * z)
	if !(n > 0 && k >= 0 && k <= n && z > 0 && isFinite(zz)) {
		return Interval{}, false
	}
	adjusted := n + zz
	p := (k + float64(zz/2)) / adjusted
	spread := float64(z * math.Sqrt(float64(p*(1-p))/adjusted))
	return Interval{p - spread, p + spread}, true
}

// ClopperPearson is the exact interval of k successes in n trials at confidence
// 1 − alpha, with n from 1 to MaxCount (C. J. Clopper, E. S. Pearson, The Use of
// Confidence or Fiducial Limits, Biometrika 26, 1934): the shares whose one-sided
// tests reject at no less than alpha/2.
func ClopperPearson(k, n int64, alpha float64) (iv Interval, ok bool) {
	if n < 1 || n > MaxCount || k < 0 || k > n || !(alpha > 0 && alpha < 1) {
		return Interval{}, false
	}
	iv = Interval{0, 1}
	if k > 0 {
		iv.Low = solve(func(p float64) bool { return atLeast(k, n, p) >= alpha/2 })
	}
	if k < n {
		iv.High = solve(func(p float64) bool { return atMost(k, n, p) <= alpha/2 })
	}
	return iv, true
}

// solve is where reached turns true in [0, 1], to the last bit. (gonum's inverse
// of the incomplete beta function is off in the second decimal for k = n = 1e5.)
func solve(reached func(p float64) bool) float64 {
	low, high := 0.0, 1.0
	for {
		mid := low + (high-low)/2
		if mid == low || mid == high {
			return high
		}
		if reached(mid) {
			high = mid
		} else {
			low = mid
		}
	}
}

// atMost is P(X ≤ k) and atLeast P(X ≥ k) for X binomial with n trials at p.
func atMost(k, n int64, p float64) float64 {
	return distuv.Binomial{N: float64(n), P: p}.CDF(float64(k))
}

func atLeast(k, n int64, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n:
		return 0
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p) // and not 1 − CDF, which loses the tail
}

// slack is how much likelier than k an outcome may be and still count as no
// likelier, so that rounding does not break ties (R's binom.test).
const slack = 1e-7

// BinomialTest is the two-sided exact p of k successes in n trials under p: the
// probability of the outcomes that are no likelier than k, within a relative
// slack of 1e-7. n from 1 to MaxCount.
func BinomialTest(k, n int64, p float64) (pValue float64, ok bool) {
	if n < 1 || n > MaxCount || k < 0 || k > n || !(p >= 0 && p <= 1) {
		return 0, false
	}
	if p == 0 || p == 1 {
		if float64(k) == p*float64(n) {
			return 1, true
		}
		return 0, true
	}
	dist := distuv.Binomial{N: float64(n), P: p}
	atK := dist.LogProb(float64(k)) + math.Log1p(slack)
	unlikely := func(i int64) bool { return dist.LogProb(float64(i)) <= atK }
	// The probabilities rise up to the mean and fall behind it.
	mean := float64(n) * p
	switch {
	case float64(k) < mean:
		from := int64(math.Ceil(mean))
		i := from + int64(sort.Search(int(n-from+1), func(i int) bool { return unlikely(from + int64(i)) }))
		return min(1, atMost(k, n, p)+atLeast(i, n, p)), true
	case float64(k) > mean:
		from := int64(math.Floor(mean))
		i := from - int64(sort.Search(int(from+1), func(i int) bool { return unlikely(from - int64(i)) }))
		return min(1, atLeast(k, n, p)+atMost(i, n, p)), true
	}
	return 1, true
}

// McNemarTest is what b and c discordant pairs say against the two arms being
// alike (Q. McNemar, Psychometrika 12, 1947).
type McNemarTest struct {
	ExactP         float64 // two-sided binomial of min(b, c) in b + c at one half
	Chi2           float64 // (b − c)²/(b + c)
	Chi2P          float64 // with one degree of freedom
	Chi2Continuity float64 // (|b − c| − 1)²/(b + c) (A. L. Edwards, Psychometrika 13, 1948)
	ContinuityP    float64
}

// McNemar compares paired yes/no outcomes: b pairs where only the first arm
// succeeded, c where only the second did; together from 1 to MaxCount. Without a
// discordant pair there is no test.
func McNemar(b, c int64) (t McNemarTest, ok bool) {
	if b < 0 || c < 0 || b > MaxCount || c > MaxCount || b+c < 1 || b+c > MaxCount {
		return McNemarTest{}, false
	}
	d, n := max(b, c)-min(b, c), float64(b+c)
	one := distuv.ChiSquared{K: 1}
	t = McNemarTest{
		ExactP:         min(1, 2*atMost(min(b, c), b+c, 0.5)),
		Chi2:           float64(d*d) / n,
		Chi2Continuity: float64((d-1)*(d-1)) / n,
	}
	t.Chi2P, t.ContinuityP = one.Survival(t.Chi2), one.Survival(t.Chi2Continuity)
	return t, true
}
