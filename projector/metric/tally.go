package metric

import (
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// tally adds records up.
type tally struct {
	num, den int64
	n        int64   // records in the numerator
	keep     bool    // their counts, for a quantile
	values   []int64 // kept
	excluded map[string]int64
	unknown  int64
	overflow bool
}

func (t *tally) add(r *Record) {
	switch r.Role {
	case Numerator:
		t.sum(&t.num, r.Count)
		t.n++
		if t.keep {
			t.values = append(t.values, r.Count)
		}
	case Denominator:
		t.sum(&t.den, r.Count)
	case Excluded:
		if t.excluded == nil {
			t.excluded = map[string]int64{}
		}
		t.excluded[r.Reason]++
		if strings.HasPrefix(r.Reason, unknown) {
			t.unknown++
		}
	}
}

// sum never wraps: a sum beyond 64 bits is no value.
func (t *tally) sum(into *int64, n int64) {
	if n > 0 && *into > math.MaxInt64-n || n < 0 && *into < math.MinInt64-n {
		t.overflow = true
		return
	}
	*into += n
}

// number is what a tally comes to under the metric's form. Each step is a single
// operation on whole numbers or floats, so that it is the same on every machine.
func (m *Metric) number(t *tally) Number {
	n := Number{Numerator: t.num, Excluded: t.excluded}
	den, values := t.den, t.n
	switch m.Form {
	case FormCount:
		n.Value = m.scaled(t.num, 1)
	case FormSum:
		if values > 0 {
			n.Value = m.scaled(t.num, 1)
		}
	case FormRatio:
		n.Denominator, n.Value = &den, m.scaled(t.num, den)
		if m.Interval == Wilson {
			n.wilson()
		}
	case FormMean:
		n.Denominator, n.Value = &values, m.scaled(t.num, values)
	case FormMedian, FormP95:
		n.Denominator = &values
		if values > 0 {
			n.Value = m.scaled(quantile(t.values, m.Form), 1)
		}
	}
	if t.overflow || m.Whole && t.unknown > 0 {
		n.Value = nil
	}
	return n
}

// scaled is num ÷ den in the metric's unit; nil for a denominator of 0.
func (m *Metric) scaled(num, den int64) *float64 {
	if den == 0 {
		return nil
	}
	v := float64(num) / float64(den)
	switch {
	case m.Times > 1:
		v *= float64(m.Times)
	case m.Per > 1:
		v /= float64(m.Per)
	}
	return &v
}

func (n *Number) wilson() {
	if iv, ok := stats.Wilson(float64(n.Numerator), float64(*n.Denominator), stats.Z95); ok {
		n.Low, n.High = &iv.Low, &iv.High
	}
}

// quantile is the nearest rank: the smallest value that at least that share of the
// values does not exceed.
func quantile(values []int64, form Form) int64 {
	sorted := slices.Sorted(slices.Values(values))
	share := 50
	if form == FormP95 {
		share = 95
	}
	return sorted[(len(sorted)*share+99)/100-1]
}
