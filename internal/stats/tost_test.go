package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestTOSTPublished(t *testing.T) {
	// TOSTER, tests/testthat/test-known_results.R
	one := must(TOSTOneSample(0.54, 0.5, 1.2, 100, -0.36, 0.36))(t)
	near(t, "diff", one.Diff, 0.04, 1e-12)
	near(t, "t1", one.T1, 3.333333, 1e-6)
	near(t, "p1", one.P1, 0.0006040021, 1e-9)
	near(t, "t2", one.T2, -2.666667, 1e-6)
	near(t, "p2", one.P2, 0.004474619, 1e-9)
	near(t, "p", one.P, 0.004474619, 1e-9)
	welch := must(TOSTWelch(Sample{95, 5.25, 0.95}, Sample{89, 5.22, 0.83}, -0.384, 0.384))(t)
	near(t, "t1", welch.T1, 3.153015, 2e-4)
	near(t, "p1", welch.P1, 0.0009458745, 2e-6)
	near(t, "t2", welch.T2, -2.696056, 2e-4)
	near(t, "p2", welch.P2, 0.003838994, 8e-6)
	near(t, "df", welch.DF, 181.1344, 2e-4)
	// statsmodels test_tost.py (R equivalence::tost)
	x := []float64{4.0, 3.26, 4.14, 3.42, 3.25, 4.34, 4.97, 4.31, 3.11, 3.41, 5.02, 4.21, 4.59, 5.3, 4.32}
	y := []float64{3.76, 3.66, 3.65, 3.6, 3.48, 2.87, 3.24, 3.92, 3.99, 4.21, 4.21, 3.31, 3.61, 2.97, 2.73}
	paired, interval, ok := TOSTPaired(x, y, 0.6)
	if !ok {
		t.Fatal("not available")
	}
	near(t, "mean", paired.Diff, 0.5626666666666665, 1e-12)
	near(t, "se", paired.SE, 0.2478276410785118, 1e-12)
	near(t, "p", paired.P, 0.4412034046017588, 1e-12)
	near(t, "low", interval.Low, 0.1261653305099018, 1e-10)
	near(t, "high", interval.High, 0.999168002823431, 1e-10)
	// statsmodels test_proportion.py test_ztost (SAS PROC FREQ manual)
	share := must(TOSTProportion(228, 762, 0.18, 0.38))(t)
	near(t, "z1", share.Z1, 7.1865, 5.1e-5)
	near(t, "z2", share.Z2, -4.8701, 5.1e-5)
	near(t, "low", share.Interval.Low, 0.2719, 5.1e-5)
	near(t, "high", share.Interval.High, 0.3265, 5.1e-5)
	if share.P >= 0.0001 {
		t.Errorf("p %v", share.P)
	}
}

func TestTOSTOfTooLittle(t *testing.T) {
	for name, ok := range map[string]bool{
		"one value":        second(TOSTOneSample(0, 0, 1, 1, -1, 1)),
		"no variation":     second(TOSTOneSample(0, 0, 0, 10, -1, 1)),
		"bounds reversed":  second(TOSTOneSample(0, 0, 1, 10, 1, -1)),
		"Welch, one value": second(TOSTWelch(Sample{1, 0, 1}, Sample{9, 0, 1}, -1, 1)),
		"Welch, constant":  second(TOSTWelch(Sample{9, 0, 0}, Sample{9, 0, 0}, -1, 1)),
		"no success":       second(TOSTProportion(0, 10, 0.1, 0.9)),
		"no failure":       second(TOSTProportion(10, 10, 0.1, 0.9)),
		"no trial":         second(TOSTProportion(0, 0, 0.1, 0.9)),
		"power of nothing": second(BinomialTOSTPower(0, 0.1, 0.9, 0.05, []float64{0.5})),
	} {
		if ok {
			t.Errorf("%s: want none", name)
		}
	}
	if _, _, ok := TOSTPaired([]float64{1, 2}, []float64{0, 1}, 1); ok {
		t.Error("differences that do not vary: want none")
	}
}

func second[T any](_ T, ok bool) bool { return ok }

func TestTOSTProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-10, 10), 2, 30).Draw(t, "x")
		y := make([]float64, len(x))
		for i := range y {
			y[i] = rapid.Float64Range(-10, 10).Draw(t, "y")
		}
		eps := rapid.Float64Range(0.1, 10).Draw(t, "eps")
		test, interval, ok := TOSTPaired(x, y, eps)
		swapped, mirrored, okSwapped := TOSTPaired(y, x, eps)
		if ok != okSwapped {
			t.Fatal(ok, okSwapped)
		}
		if !ok {
			return
		}
		near(t, "p of the arms swapped", swapped.P, test.P, 1e-9)
		near(t, "interval of the arms swapped", -mirrored.High, interval.Low, 1e-9)
		// The two forms of the test decide alike.
		inside := -eps < interval.Low && interval.High < eps
		if math.Abs(test.P-0.05) > 1e-9 && inside != (test.P < 0.05) {
			t.Fatalf("p %v, 90%% interval %v, eps %v", test.P, interval, eps)
		}
		if wider, _, ok := TOSTPaired(x, y, 2*eps); !ok || wider.P > test.P {
			t.Fatalf("p %v, within twice the bounds %v", test.P, wider.P)
		}
	})
}

// The power is the probability of the outcomes that both tests reject, counted one
// by one.
func TestBinomialTOSTPower(t *testing.T) {
	for _, n := range []int64{1, 10, 50, 203} {
		ps := []float64{0, 0.3, 0.5, 0.61, 1}
		got := must(BinomialTOSTPower(n, 0.4, 0.65, 0.05, ps))(t)
		for i, p := range ps {
			var want float64
			for k := int64(0); k <= n; k++ {
				if atLeast(k, n, 0.4) <= 0.05 && atMost(k, n, 0.65) <= 0.05 {
					want += atMost(k, n, p)
					if k > 0 {
						want -= atMost(k-1, n, p)
					}
				}
			}
			near(t, "power", got[i], want, 1e-12)
		}
	}
}

func TestPairedDesignPublished(t *testing.T) {
	d := PairedDesign{Discordance: 0.25, Effect: 0.10, Alpha: 0.05}
	// About 200 independent worlds for 10 points at 25 % discordance, two-sided 0.05,
	// power 0.8.
	near(t, "n", must(d.N(0.8))(t), 194, 0)
	near(t, "power at 194", must(d.Power(194))(t), 0.8, 0.001)
	// Around 427 independent cases for a half-width of 3 points at 10 % discordance.
	near(t, "n", must(PrecisionN(0.10, 0.03, 0.05))(t), 427, 0)
}

// The approximation against the exact power of McNemar's test without continuity
// correction, summed over the trinomial distribution.
func TestPairedPowerAgainstExact(t *testing.T) {
	d := PairedDesign{Discordance: 0.25, Effect: 0.10, Alpha: 0.05}
	const n = 194
	for _, effect := range []float64{0.05, 0.10, 0.15} {
		d.Effect = effect
		up, total := (d.Discordance+effect)/2, 0.0
		for m := int64(1); m <= n; m++ { // discordant pairs, of them b in favour
			pm := atMost(m, n, d.Discordance) - atMost(m-1, n, d.Discordance)
			for b := int64(0); b <= m; b++ {
				if test := must(McNemar(b, m-b))(t); 2*b <= m || test.Chi2P > d.Alpha {
					continue
				}
				total += pm * (atLeast(b, m, up/d.Discordance) - atLeast(b+1, m, up/d.Discordance))
			}
		}
		near(t, "power", must(d.Power(n))(t), total, 0.015)
	}
}

func TestPairedDesignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		discordance := rapid.Float64Range(0.02, 1).Draw(t, "discordance")
		d := PairedDesign{
			Discordance: discordance,
			Effect:      discordance * rapid.Float64Range(0.05, 1).Draw(t, "share of it"),
			Alpha:       rapid.Float64Range(0.001, 0.2).Draw(t, "alpha"),
		}
		power := rapid.Float64Range(0.3, 0.99).Draw(t, "power")
		n := must(d.N(power))(t)
		if has := must(d.Power(n))(t); has < power-1e-9 {
			t.Fatalf("%v cases have power %v, want %v", n, has, power)
		}
		if n > 1 {
			if has := must(d.Power(n - 1))(t); has > power+1e-9 {
				t.Fatalf("%v cases would do for %v: they have %v", n-1, power, has)
			}
		}
		reversed := d
		reversed.Effect = -d.Effect
		if m := must(reversed.N(power))(t); m != n {
			t.Fatalf("%v cases, %v for the other direction", n, m)
		}
		if more := must(d.N(power + 0.005))(t); more < n {
			t.Fatalf("more power needs fewer cases: %v, %v", more, n)
		}
	})
	for name, d := range map[string]PairedDesign{
		"no effect":              {0.2, 0, 0.05},
		"more effect than cases": {0.2, 0.3, 0.05},
		"no discordance":         {0, 0, 0.05},
	} {
		if n, ok := d.N(0.8); ok {
			t.Errorf("%s: %v", name, n)
		}
	}
}
