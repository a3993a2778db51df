package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// near fails the test unless got is within tol of want.
func near(tb rapid.TB, what string, got, want, tol float64) {
	tb.Helper()
	if !(math.Abs(got-want) <= tol) {
		tb.Errorf("%s: got %v, want %v within %g", what, got, want, tol)
	}
}

// must is the result of a function that has one here.
func must[T any](v T, ok bool) func(tb rapid.TB) T {
	return func(tb rapid.TB) T {
		tb.Helper()
		if !ok {
			tb.Fatal("not available")
		}
		return v
	}
}

func TestZ(t *testing.T) {
	near(t, "Z(0.05)", Z(0.05), Z95, 1e-14)
	near(t, "Z(0.10)", Z(0.10), 1.6448536269514722, 1e-14) // scipy.stats.norm.ppf(0.95)
}

// The tails of Student's t against closed forms for one and two degrees of
// freedom, and for many against its expansion around the normal distribution
// (Abramowitz, Stegun 26.7.8), whose next term is below 1e-12 here.
func TestStudentTail(t *testing.T) {
	for _, x := range []float64{-40, -3, -1, -0.999, -0.2, -1e-3, -1e-9, 0, 1e-9, 1e-3, 0.5, 1, 1.7, 6} {
		near(t, "df 1", studentTail(x, 1), 0.5-math.Atan(x)/math.Pi, 1e-15)
		near(t, "df 2", studentTail(x, 2), 0.5-x/(2*math.Sqrt(2+x*x)), 1e-15)
		for _, df := range []float64{1e5, MaxCount, 2 * MaxCount} {
			density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
			q1 := (math.Pow(x, 3) + x) / 4
			q2 := (3*math.Pow(x, 7) - 5*math.Pow(x, 5) - 15*math.Pow(x, 3) - 3*x) / 96
			want := math.Erfc(x/math.Sqrt2)/2 + density*(q1/df+q2/(df*df))
			near(t, "large df", studentTail(x, df), want, 1e-9)
		}
	}
}
