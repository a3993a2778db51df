package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// TOST is two one-sided tests of equivalence (D. J. Schuirmann, J. Pharmacokinetics
// and Biopharmaceutics 15, 1987): the difference lies within the bounds if both
// reject, and P, the larger, is the p of that.
type TOST struct {
	Diff   float64
	SE     float64
	DF     float64
	T1, P1 float64 // against the lower bound, upper tail
	T2, P2 float64 // against the upper bound, lower tail
	P      float64
}

func newTOST(diff, se, df, low, high float64) (t TOST, ok bool) {
	if !(se > 0 && df > 0 && df <= 2*MaxCount && low < high) || !isFinite(diff) || !isFinite(se) {
		return TOST{}, false
	}
	t = TOST{Diff: diff, SE: se, DF: df, T1: (diff - low) / se, T2: (diff - high) / se}
	if !isFinite(t.T1) || !isFinite(t.T2) {
		return TOST{}, false
	}
	t.P1, t.P2 = studentTail(t.T1, df), studentTail(-t.T2, df)
	t.P = max(t.P1, t.P2)
	return t, true
}

// TOSTOneSample tests that the mean behind n values with mean m and standard
// deviation sd differs from mu by something in (low, high). It needs two values, at
// most MaxCount, that vary.
func TOSTOneSample(m, mu, sd float64, n int64, low, high float64) (t TOST, ok bool) {
	if n < 2 {
		return TOST{}, false
	}
	return newTOST(m-mu, sd/math.Sqrt(float64(n)), float64(n-1), low, high)
}

// Sample is a sample by its size, mean and standard deviation.
type Sample struct {
	N        int64
	Mean, SD float64
}

// TOSTWelch tests that the means behind two independent samples differ by something
// in (low, high), with variances that may differ (B. L. Welch, Biometrika 34, 1947).
func TOSTWelch(a, b Sample, low, high float64) (t TOST, ok bool) {
	if a.N < 2 || b.N < 2 {
		return TOST{}, false
	}
	va, vb := a.SD*a.SD/float64(a.N), b.SD*b.SD/float64(b.N)
	df := (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	return newTOST(a.Mean-b.Mean, math.Sqrt(va+vb), df, low, high)
}

// TOSTPaired tests that the mean of x − y lies in (−eps, eps); interval is that of
// the mean difference at 90 % confidence, inside ±eps where P is below 0.05.
func TOSTPaired(x, y []float64, eps float64) (t TOST, interval Interval, ok bool) {
	if len(x) != len(y) || len(x) < 2 {
		return TOST{}, Interval{}, false
	}
	differences := make([]float64, len(x))
	for i := range x {
		differences[i] = x[i] - y[i]
	}
	m, sd := stat.MeanStdDev(differences, nil)
	n := float64(len(x))
	t, ok = newTOST(m, sd/math.Sqrt(n), n-1, -eps, eps)
	if !ok {
		return TOST{}, Interval{}, false
	}
	spread := t.SE * distuv.StudentsT{Sigma: 1, Nu: t.DF}.Quantile(0.95)
	return t, Interval{m - spread, m + spread}, true
}

// ProportionTOST is two one-sided z tests that a share lies within bounds.
type ProportionTOST struct {
	Z1, Z2   float64 // against the lower and the upper bound
	P        float64
	Interval Interval // Wald's at 90 %
}

// TOSTProportion tests that the share behind k successes in n trials lies in (low,
// high), with the sample's variance; without variance there is no test.
func TOSTProportion(k, n int64, low, high float64) (t ProportionTOST, ok bool) {
	if n < 1 || k <= 0 || k >= n || !(low < high) {
		return ProportionTOST{}, false
	}
	p := float64(k) / float64(n)
	se := math.Sqrt(p * (1 - p) / float64(n))
	spread := Z(0.1) * se
	t = ProportionTOST{Z1: (p - low) / se, Z2: (p - high) / se, Interval: Interval{p - spread, p + spread}}
	t.P = max(distuv.UnitNormal.CDF(-t.Z1), distuv.UnitNormal.CDF(t.Z2))
	return t, isFinite(t.Z1) && isFinite(t.Z2)
}

// BinomialTOSTPower is the probability, with n trials at each share of ps, that both
// exact one-sided binomial tests reject at alpha: that the share is low or less, and
// that it is high or more. n from 1 to MaxCount.
func BinomialTOSTPower(n int64, low, high, alpha float64, ps []float64) (power []float64, ok bool) {
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	if n < 1 || n > MaxCount || !isShare(low) || !isShare(high) || !(low < high) || !(alpha > 0 && alpha < 1) {
		return nil, false
	}
	// Both reject from the first k that refutes low to the last that refutes high.
	from := int64(sort.Search(int(n+1), func(k int) bool { return atLeast(int64(k), n, low) <= alpha }))
	behind := int64(sort.Search(int(n+1), func(k int) bool { return atMost(int64(k), n, high) > alpha }))
	power = make([]float64, len(ps))
	for i, p := range ps {
		if !isShare(p) {
			return nil, false
		}
		if from < behind {
			power[i] = min(max(atLeast(from, n, p)-atLeast(behind, n, p), 0), 1)
		}
	}
	return power, true
}
