package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestKappaPublished(t *testing.T) {
	// statsmodels test_inter_rater.py (SAS printout)
	a := must(Kappa([][]int64{{0, 4, 1}, {0, 8, 0}, {0, 1, 5}}, Z95))(t)
	const half = 5.1e-5
	near(t, "kappa", a.Kappa, 0.4842, half)
	near(t, "ase", a.ASE, 0.1380, half)
	near(t, "low", a.Interval.Low, 0.2137, half)
	near(t, "high", a.Interval.High, 0.7547, half)
	near(t, "ase0", a.Null.ASE0, 0.1484, half)
	near(t, "z", a.Null.Z, 3.2626, half)
	near(t, "p", a.Null.P, 0.0011, half)
	// torchmetrics cohen_kappa.py: a 2 1 0 0, b 2 1 0 1
	a = must(Kappa([][]int64{{1, 1, 0}, {0, 1, 0}, {0, 0, 1}}, Z95))(t)
	near(t, "kappa", a.Kappa, 0.6364, half)
}

func TestKappaOfTooLittle(t *testing.T) {
	for name, table := range map[string][][]int64{
		"no category":    {},
		"no case":        {{0, 0}, {0, 0}},
		"one category":   {{7}},
		"one in two":     {{7, 0}, {0, 0}},
		"not square":     {{1, 2}},
		"negative count": {{1, -1}, {1, 1}},
	} {
		if a, ok := Kappa(table, Z95); ok {
			t.Errorf("%s: %+v, want none", name, a)
		}
	}
	// Perfect agreement is an estimate, without a spread of its own.
	a := must(Kappa([][]int64{{3, 0}, {0, 4}}, Z95))(t)
	if a.Kappa != 1 || a.Interval != nil || a.Null == nil {
		t.Errorf("perfect agreement: %+v", a)
	}
	// A rater who always says the same agrees by chance alone, and shows nothing.
	a = must(Kappa([][]int64{{3, 4}, {0, 0}}, Z95))(t)
	if a.Kappa != 0 || a.Interval != nil || a.Null != nil {
		t.Errorf("constant rater: %+v", a)
	}
}

func TestKappaProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(t, "categories")
		table, transposed, doubled := make([][]int64, k), make([][]int64, k), make([][]int64, k)
		for i := range k {
			table[i], transposed[i], doubled[i] = make([]int64, k), make([]int64, k), make([]int64, k)
		}
		for i := range k {
			for j := range k {
				table[i][j] = rapid.Int64Range(0, 50).Draw(t, "count")
				transposed[j][i], doubled[i][j] = table[i][j], 2*table[i][j]
			}
		}
		a, ok := Kappa(table, Z95)
		b, okT := Kappa(transposed, Z95)
		d, okD := Kappa(doubled, Z95)
		if ok != okT || ok != okD || a.Kappa != b.Kappa || a.Kappa != d.Kappa {
			t.Fatalf("%v, raters swapped %v, doubled %v", a, b, d)
		}
		if !ok {
			return
		}
		near(t, "ase with twice the cases", d.ASE*math.Sqrt2, a.ASE, 1e-9)
		if !(a.Kappa <= 1) || math.IsNaN(a.ASE) || a.Interval != nil && !(a.Interval.Low < a.Kappa && a.Kappa < a.Interval.High) {
			t.Fatalf("%+v", a)
		}
	})
}
