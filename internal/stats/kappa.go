package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Agreement is Cohen's kappa of two raters.
type Agreement struct {
	Kappa float64
	// ASE is the asymptotic standard error of the estimate, and Interval Kappa ±
	// z·ASE. Interval is nil where ASE is 0: agreement without exception says
	// nothing of its own spread.
	ASE      float64
	Interval *Interval
	// Null is the test of kappa = 0; nil where its standard error is 0.
	Null *KappaTest
}

// KappaTest is the test that two raters agree no more than chance would have it.
type KappaTest struct {
	ASE0 float64 // asymptotic standard error under kappa = 0
	Z    float64
	P    float64 // two-sided
}

// Kappa is chance-corrected agreement over a square table of counts, row by the
// first rater's category and column by the second's (J. Cohen, Educational and
// Psychological Measurement 20, 1960; the standard errors: J. L. Fleiss, J. Cohen,
// B. S. Everitt, Psychological Bulletin 72, 1969, eqs. 13 and 9). It does not exist
// where chance alone would agree always: no case, or one category only. At most
// 2^31 cases.
func Kappa(table [][]int64, z float64) (a Agreement, ok bool) {
	k := len(table)
	rows, cols := make([]int64, k), make([]int64, k)
	var n, agreed int64
	for i, row := range table {
		if len(row) != k {
			return Agreement{}, false
		}
		for j, count := range row {
			if count < 0 || count > math.MaxInt32 || n > math.MaxInt32 {
				return Agreement{}, false
			}
			n += count
			rows[i] += count
			cols[j] += count
		}
		agreed += row[i]
	}
	var chance int64 // × n², as agreed is × n
	for i := range k {
		chance += rows[i] * cols[i]
	}
	if n == 0 || n > math.MaxInt32 || chance == n*n || !(z > 0) {
		return Agreement{}, false
	}
	a.Kappa = float64(n*agreed-chance) / float64(n*n-chance)
	a.errors(table, rows, cols, float64(n), z)
	return a, true
}

func (a *Agreement) errors(table [][]int64, rows, cols []int64, n, z float64) {
	var expected, diagonal, off, cubes float64
	rest := 1 - a.Kappa
	for i, row := range table {
		ri, ci := float64(rows[i])/n, float64(cols[i])/n
		expected += ri * ci
		cubes += ri * ci * (ri + ci)
		for j, count := range row {
			p := float64(count) / n
			if i == j {
				u := 1 - (ri+ci)*rest
				diagonal += p * u * u
			} else {
				u := ci + float64(rows[j])/n
				off += p * u * u
			}
		}
	}
	shift := a.Kappa - expected*rest
	scale := (1 - expected) * math.Sqrt(n)
	// What should cancel to 0 leaves some 1e-17.
	root := func(variance float64) float64 {
		if variance < 1e-15 {
			return 0
		}
		return math.Sqrt(variance) / scale
	}
	a.ASE = root(diagonal + rest*rest*off - shift*shift)
	if a.ASE > 0 {
		a.Interval = &Interval{a.Kappa - z*a.ASE, a.Kappa + z*a.ASE}
	}
	if ase0 := root(expected + expected*expected - cubes); ase0 > 0 {
		t := KappaTest{ASE0: ase0, Z: a.Kappa / ase0}
		t.P = 2 * distuv.UnitNormal.CDF(-math.Abs(t.Z))
		a.Null = &t
	}
}
