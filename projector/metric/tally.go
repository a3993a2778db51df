package metric

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"assay/internal/stats"
	"assay/ledger"
)

// wide is a sum that cannot overflow.
type wide struct {
	Hi int64  `json:"h,omitzero"`
	Lo uint64 `json:"l,omitzero"`
}

func (w *wide) add(v wide) {
	lo, carry := bits.Add64(w.Lo, v.Lo, 0)
	w.Hi, w.Lo = w.Hi+v.Hi+int64(carry), lo
}

func (w wide) negative() wide {
	n := wide{^w.Hi, ^w.Lo}
	n.add(wide{Lo: 1})
	return n
}

func wideOf(n int64) wide { return wide{n >> 63, uint64(n)} }

// int64 is the nearest whole number of 64 bits, and whether it is the sum.
func (w wide) int64() (n int64, ok bool) {
	switch n = int64(w.Lo); {
	case w == wideOf(n):
		return n, true
	case w.Hi < 0:
		return math.MinInt64, false
	}
	return math.MaxInt64, false
}

// tally adds records up.
type tally struct {
	Num      wide             `json:"num,omitzero"`
	Den      wide             `json:"den,omitzero"`
	N        int64            `json:"n,omitzero"`      // records in the numerator
	Values   []int64          `json:"values,omitzero"` // their counts, for a quantile
	Since    []int64          `json:"since,omitzero"`  // or since when they wait, in nanoseconds of Unix time
	Excluded map[string]int64 `json:"excluded,omitzero"`
	Unknown  int64            `json:"unknown,omitzero"`
}

func (t *tally) record(r *Record, since *time.Time, keep bool) {
	switch r.Role {
	case Numerator:
		t.N++
		switch {
		case since != nil:
			t.Since = append(t.Since, since.UnixNano())
			return
		case keep:
			t.Values = append(t.Values, r.Count)
		}
		t.Num.add(wideOf(r.Count))
	case Denominator:
		t.Den.add(wideOf(r.Count))
	case Excluded:
		if t.Excluded == nil {
			t.Excluded = map[string]int64{}
		}
		t.Excluded[r.Reason]++
		if strings.HasPrefix(r.Reason, unknown) {
			t.Unknown++
		}
	}
}

// add adds another tally.
func (t *tally) add(o *tally) {
	t.Num.add(o.Num)
	t.Den.add(o.Den)
	t.N += o.N
	t.Values, t.Since = append(t.Values, o.Values...), append(t.Since, o.Since...)
	t.exclude(o.Excluded, 1)
	t.Unknown += o.Unknown
}

// take takes another tally, without values, away again.
func (t *tally) take(o *tally) {
	t.Num.add(o.Num.negative())
	t.Den.add(o.Den.negative())
	t.N -= o.N
	t.exclude(o.Excluded, -1)
	t.Unknown -= o.Unknown
}

func (t *tally) exclude(reasons map[string]int64, sign int64) {
	for reason, n := range reasons {
		if t.Excluded == nil {
			t.Excluded = map[string]int64{}
		}
		if t.Excluded[reason] += sign * n; t.Excluded[reason] == 0 {
			delete(t.Excluded, reason)
		}
	}
	if len(t.Excluded) == 0 {
		t.Excluded = nil
	}
}

func (t *tally) empty() bool {
	return t.Num == wide{} && t.Den == wide{} && t.N == 0 && len(t.Excluded) == 0 && t.Unknown == 0
}

// weekSums is what the items of a week add up to.
type weekSums struct {
	Score  []int64           `json:"score,omitzero"` // part.numbers
	All    tally             `json:"all,omitzero"`
	Groups map[string]*tally `json:"groups,omitzero"`
	// Firsts are the first records of things; they can be merged, not taken away.
	Firsts map[string]ledger.Seq `json:"firsts,omitzero"`
	keep   bool
}

// first notes a record of a thing if it is the first one.
func (w *weekSums) first(of string, seq ledger.Seq) {
	if have, ok := w.Firsts[of]; ok && have <= seq {
		return
	}
	if w.Firsts == nil {
		w.Firsts = map[string]ledger.Seq{}
	}
	w.Firsts[of] = seq
}

func (w *weekSums) group(name string) *tally {
	g := w.Groups[name]
	if g == nil {
		if w.Groups == nil {
			w.Groups = map[string]*tally{}
		}
		g = &tally{}
		w.Groups[name] = g
	}
	return g
}

func (w *weekSums) add(r *Record, since *time.Time) {
	w.All.record(r, since, w.keep)
	if r.Group != "" {
		w.group(r.Group).record(r, since, w.keep)
	}
}

func (w *weekSums) merge(o *weekSums) {
	w.Score = addNumbers(w.Score, o.Score, 1)
	w.All.add(&o.All)
	for name, t := range o.Groups {
		g := w.group(name)
		if g.add(t); g.empty() {
			delete(w.Groups, name)
		}
	}
	for of, seq := range o.Firsts {
		w.first(of, seq)
	}
}

func (w *weekSums) take(o *weekSums) {
	w.Score = addNumbers(w.Score, o.Score, -1)
	w.All.take(&o.All)
	for name, t := range o.Groups {
		g := w.group(name)
		if g.take(t); g.empty() {
			delete(w.Groups, name)
		}
	}
}

// addNumbers adds b to a, or takes it away.
func addNumbers(a, b []int64, sign int64) []int64 {
	if a == nil && b != nil {
		a = make([]int64, len(b))
	}
	for i, n := range b {
		a[i] += sign * n
	}
	return a
}

// sums are those of the weeks, by their first records.
type sums struct {
	weeks map[ledger.Seq]*weekSums
	keep  bool // the values, for a quantile
}

func (s *sums) week(first ledger.Seq) *weekSums {
	w := s.weeks[first]
	if w == nil {
		if s.weeks == nil {
			s.weeks = map[ledger.Seq]*weekSums{}
		}
		w = &weekSums{keep: s.keep}
		s.weeks[first] = w
	}
	return w
}

func (s *sums) merge(o *sums) {
	for first, w := range o.weeks {
		s.week(first).merge(w)
	}
}

// take takes sums without values away again.
func (s *sums) take(o *sums) {
	for first, w := range o.weeks {
		s.week(first).take(w)
	}
}

// all is the sum of all weeks.
func (s *sums) all() *weekSums {
	out := &weekSums{}
	for _, w := range s.weeks {
		out.merge(w)
	}
	return out
}

// number is what a tally comes to under the metric's form. Each step is a single
// operation on whole numbers or floats, so that it is the same on every machine.
func (m *Metric) number(t *tally, now time.Time) Number {
	quantities, sum := t.Values, t.Num
	for _, since := range t.Since {
		n := max(0, now.UnixNano()-since) / int64(time.Second)
		quantities = append(quantities, n)
		sum.add(wideOf(n))
	}
	num, fits := sum.int64()
	den, also := t.Den.int64()
	n := Number{Numerator: num, Excluded: t.Excluded}
	values := t.N
	switch m.Form {
	case FormCount:
		n.Value = m.scaled(num, 1)
	case FormSum:
		if values > 0 {
			n.Value = m.scaled(num, 1)
		}
	case FormRatio:
		n.Denominator, n.Value = &den, m.scaled(num, den)
		if m.Interval == Wilson {
			n.wilson()
		}
	case FormMean:
		n.Denominator, n.Value = &values, m.scaled(num, values)
	case FormMedian, FormP95:
		n.Denominator = &values
		if values > 0 {
			n.Value = m.scaled(quantile(quantities, m.Form), 1)
		}
	}
	if !fits || !also || m.Whole && t.Unknown > 0 {
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
