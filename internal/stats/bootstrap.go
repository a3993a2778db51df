package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Method is how an interval is read off a bootstrap distribution.
type Method string

// The methods, each with its chapter in B. Efron, R. J. Tibshirani, An Introduction
// to the Bootstrap, 1993, or A. C. Davison, D. V. Hinkley, Bootstrap Methods and
// their Application, 1997.
const (
	Percentile Method = "percentile" // E&T 13.3
	Basic      Method = "basic"      // D&H 5.2: the percentiles mirrored at the estimate
	BCa        Method = "bca"        // E&T 14.3: corrected for bias and skewness
)

// Bootstrap is the bootstrap distribution of the mean of independent values.
type Bootstrap struct {
	Estimate float64 // mean of the values
	N        int     // values
	sorted   []float64
	means    []float64 // of the resamples, sorted
}

// NewBootstrap draws b resamples of the values, with PCG-DXSM seeded by (seed, 0).
// The values are sorted first: the order in which they come makes no difference.
// It holds b numbers. ok is false without values or resamples, or where sums
// leave the range of numbers.
func NewBootstrap(values []float64, b int, seed uint64) (bs *Bootstrap, ok bool) {
	sorted := slices.Sorted(slices.Values(values))
	return newBootstrap(sorted, sorted, b, seed)
}

// newBootstrap draws from values in the order given, which the draws depend on.
func newBootstrap(values, sorted []float64, b int, seed uint64) (*Bootstrap, bool) {
	if len(values) == 0 || b < 1 {
		return nil, false
	}
	bs := &Bootstrap{Estimate: mean(values), N: len(values), sorted: sorted, means: make([]float64, b)}
	// The largest sum that a resample can have, and room for the mirror of Basic.
	if worst := max(math.Abs(sorted[0]), math.Abs(sorted[len(sorted)-1])) * float64(len(sorted)); !isFinite(3 * worst) {
		return nil, false
	}
	rng := rand.NewPCG(seed, 0)
	n := uint64(len(values))
	for i := range bs.means {
		var sum float64
		for range n {
			sum += values[below(rng, n)]
		}
		bs.means[i] = sum / float64(n)
	}
	slices.Sort(bs.means)
	return bs, true
}

// below is a uniform number in [0, n) (D. Lemire, Fast Random Integer Generation in
// an Interval, ACM TOMACS 29, 2019), written out so that no release of a library
// can change what a seed draws.
func below(rng *rand.PCG, n uint64) uint64 {
	high, low := bits.Mul64(rng.Uint64(), n)
	if low < n {
		for least := -n % n; low < least; {
			high, low = bits.Mul64(rng.Uint64(), n)
		}
	}
	return high
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Interval reads an interval at a confidence in (0, 1). The limits are order
// statistics, floor((B+1)·α) from either end (E&T 12.5), without interpolation.
// There is none from one value, from values that are all the same, at a confidence
// that B is too small for, and with BCa where the correction leaves the
// distribution.
func (bs *Bootstrap) Interval(m Method, confidence float64) (iv Interval, ok bool) {
	if !bs.Varies() || !(confidence > 0 && confidence < 1) {
		return Interval{}, false
	}
	tail := (1 - confidence) / 2
	switch m {
	case Percentile:
		return bs.between(tail, tail)
	case Basic:
		iv, ok = bs.between(tail, tail)
		twice := 2 * bs.Estimate
		return Interval{twice - iv.High, twice - iv.Low}, ok
	case BCa:
		low, high, ok := bs.corrected(tail)
		if !ok {
			return Interval{}, false
		}
		return bs.between(low, high)
	}
	return Interval{}, false
}

// Varies says whether there are two values that differ; else no interval exists.
func (bs *Bootstrap) Varies() bool { return bs.sorted[0] < bs.sorted[len(bs.sorted)-1] }

// between cuts a tail off either end.
func (bs *Bootstrap) between(lower, upper float64) (Interval, bool) {
	b := len(bs.means)
	rank := func(tail float64) int { return int(float64(tail*float64(b+1)) + 1e-9) } // (1 − 0.9)/2 is a little less than 0.05
	l, h := rank(lower), rank(upper)
	if l < 1 || h < 1 || l > b+1-h {
		return Interval{}, false
	}
	return Interval{bs.means[l-1], bs.means[b-h]}, true
}

// corrected is how much BCa cuts off below and above (E&T eqs. 14.10, 14.14; 14.15
// gives the jackknife, which for a mean needs no resampling: leaving x out moves it
// by (mean − x)/(n − 1)).
func (bs *Bootstrap) corrected(tail float64) (low, high float64, ok bool) {
	b := len(bs.means)
	below, _ := slices.BinarySearch(bs.means, bs.Estimate)
	above, _ := slices.BinarySearch(bs.means, math.Nextafter(bs.Estimate, math.Inf(1)))
	share := float64(below+above) / float64(2*b) // ties count half
	if share == 0 || share == 1 {
		return 0, 0, false
	}
	z0 := distuv.UnitNormal.Quantile(share)
	var squares, cubes float64
	for _, x := range bs.sorted {
		d := x - bs.Estimate
		squares += d * d
		cubes += d * d * d
	}
	accel := cubes / (6 * math.Pow(squares, 1.5))
	z := Z(2 * tail)
	cut := func(z float64) (float64, bool) {
		if denom := 1 - accel*z; denom > 0 {
			return distuv.UnitNormal.CDF(z0 + z/denom), true
		}
		return 0, false
	}
	low, okLow := cut(z0 - z)
	high, okHigh := cut(z0 + z)
	return low, 1 - high, okLow && okHigh && isFinite(accel)
}
