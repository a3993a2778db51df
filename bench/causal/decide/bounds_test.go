package decide

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
	"assay/bench/causal/causaltest"
)

func TestHandBounds(t *testing.T) {
	// A medicine: of all, .3 take it and recover, .2 take it and do not, .1 recover and .4
	// do not without it. In a trial .6 recover with it and .3 without: P(y) = .4.
	joint := &Joint{{0.4, 0.1}, {0.2, 0.3}}
	trial := &Experiment{0.6, 0.3}
	for name, tc := range map[string]struct {
		q    Quantity
		k    Knowledge
		want Interval
	}{
		// (.4 - .3)/.3, and (.7 - .4)/.3.
		"necessity":            {PN, Knowledge{Joint: joint, Experiment: trial}, Interval{1.0 / 3, 1}},
		"necessity, monotonic": {PN, Knowledge{Joint: joint, Experiment: trial, Monotonic: true}, Interval{1.0 / 3, 1.0 / 3}},
		// (.6 - .4)/.4, and (.6 - .3)/.4.
		"sufficiency":            {PS, Knowledge{Joint: joint, Experiment: trial}, Interval{0.5, 0.75}},
		"sufficiency, monotonic": {PS, Knowledge{Joint: joint, Experiment: trial, Monotonic: true}, Interval{0.5, 0.5}},
		// At least .6 - .3; at most .6, .7, .3 + .4, and .3 + .2 + .1.
		"both":              {PNS, Knowledge{Joint: joint, Experiment: trial}, Interval{0.3, 0.6}},
		"both, monotonic":   {PNS, Knowledge{Joint: joint, Experiment: trial, Monotonic: true}, Interval{0.3, 0.3}},
		"by the trial":      {PNS, Knowledge{Experiment: trial}, Interval{0.3, 0.6}},
		"by the joint":      {PNS, Knowledge{Joint: joint}, Interval{0, 0.7}},
		"necessity, joint":  {PN, Knowledge{Joint: joint}, Interval{0, 1}},
		"necessity, trial":  {PN, Knowledge{Experiment: trial}, Interval{0, 1}},
		"none without":      {PN, Knowledge{Experiment: &Experiment{0.6, 0}}, Interval{1, 1}},
		"all without":       {PN, Knowledge{Experiment: &Experiment{0.6, 1}}, Interval{0, 0}},
		"no effect":         {PN, Knowledge{Experiment: &Experiment{0.6, 0.6}, Monotonic: true}, Interval{0, 0}},
		"sufficient always": {PS, Knowledge{Experiment: &Experiment{1, 0.3}}, Interval{1, 1}},
	} {
		got, err := Bounds(tc.q, tc.k)
		if err != nil || !near(got.Low, tc.want.Low) || !near(got.High, tc.want.High) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		q    Quantity
		k    Knowledge
		kind *causal.Fault
		at   []string
	}{
		"nothing":             {PN, Knowledge{}, causal.ErrInvalid, nil},
		"another quantity":    {"pd", Knowledge{Joint: joint}, causal.ErrInvalid, causal.At("quantity")},
		"do 1 below joint":    {PN, Knowledge{Joint: joint, Experiment: &Experiment{0.2, 0.3}}, causal.ErrInvalid, causal.At("experimental", "y_do1")},
		"do 0 above joint":    {PN, Knowledge{Joint: joint, Experiment: &Experiment{0.6, 0.7}}, causal.ErrInvalid, causal.At("experimental", "y_do0")},
		"not monotonic":       {PN, Knowledge{Joint: joint, Experiment: &Experiment{0.6, 0.5}, Monotonic: true}, causal.ErrInvalid, causal.At("monotonic")},
		"trial not monotonic": {PN, Knowledge{Experiment: &Experiment{0.2, 0.5}, Monotonic: true}, causal.ErrInvalid, causal.At("monotonic")},
		"nobody to ask":       {PN, Knowledge{Joint: &Joint{{0.5, 0}, {0.5, 0}}}, causal.ErrZeroProbability, nil},
		"nobody by the trial": {PN, Knowledge{Experiment: &Experiment{0, 0.5}}, causal.ErrZeroProbability, nil},
	} {
		_, err := Bounds(tc.q, tc.k)
		var f *causal.Fault
		if !errors.As(err, &f) || !errors.Is(err, tc.kind) || !slices.Equal(f.At, tc.at) {
			t.Errorf("%s: %v, want %v at %v", name, err, tc.kind, tc.at)
		}
	}
}

// cells is a model: the mass of the cases by X and what Y is with X set to 0 and to 1,
// at x·4 + y0·2 + y1.
type cells [8]float64

// vertices lists the corners of the models that have the data: distributions over
// cells with as few cells as there are equations, by solving each such choice.
func vertices(k Knowledge) []cells {
	type equation struct {
		in   func(x, y0, y1 int) bool
		mass float64
	}
	all := []equation{{func(x, y0, y1 int) bool { return true }, 1}}
	if k.Joint != nil {
		for x := range 2 {
			for y := range 2 {
				all = append(all, equation{func(x2, y0, y1 int) bool { return x2 == x && []int{y0, y1}[x2] == y }, k.Joint[x][y]})
			}
		}
	}
	if k.Experiment != nil {
		all = append(all,
			equation{func(x, y0, y1 int) bool { return y1 == 1 }, k.Experiment.Do1},
			equation{func(x, y0, y1 int) bool { return y0 == 1 }, k.Experiment.Do0})
	}
	if k.Monotonic {
		all = append(all, equation{func(x, y0, y1 int) bool { return y0 == 1 && y1 == 0 }, 0})
	}
	var out []cells
	for chosen := range 1 << 8 {
		var columns []int
		for c := range 8 {
			if chosen>>c&1 == 1 {
				columns = append(columns, c)
			}
		}
		rows := make([][]float64, len(all))
		for i, e := range all {
			for _, c := range columns {
				v := 0.0
				if e.in(c>>2, c>>1&1, c&1) {
					v = 1
				}
				rows[i] = append(rows[i], v)
			}
			rows[i] = append(rows[i], e.mass)
		}
		if x, ok := solve(rows, len(columns)); ok {
			var corner cells
			for i, c := range columns {
				corner[c] = x[i]
			}
			out = append(out, corner)
		}
	}
	return out
}

// solve is the one non-negative solution of equations; ok is false where there is
// none, or more than one.
func solve(rows [][]float64, n int) (x []float64, ok bool) {
	for c := range n {
		pivot := -1
		for r := c; r < len(rows); r++ {
			if math.Abs(rows[r][c]) > 1e-9 && (pivot < 0 || math.Abs(rows[r][c]) > math.Abs(rows[pivot][c])) {
				pivot = r
			}
		}
		if pivot < 0 {
			return nil, false
		}
		rows[c], rows[pivot] = rows[pivot], rows[c]
		for r := range rows {
			if r != c {
				f := rows[r][c] / rows[c][c]
				for k := c; k <= n; k++ {
					rows[r][k] -= f * rows[c][k]
				}
			}
		}
	}
	for r := range rows {
		if r >= n && math.Abs(rows[r][n]) > 1e-9 {
			return nil, false
		}
	}
	for c := range n {
		v := rows[c][n] / rows[c][c]
		if v < -1e-9 {
			return nil, false
		}
		x = append(x, max(v, 0))
	}
	return x, true
}

// The bounds are the smallest and largest value over all models with the data: those
// of a linear program, whose optimum is in a corner.
func TestBoundsAreSharp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Draw a model, so that its data are consistent.
		var model cells
		monotonic := rapid.Bool().Draw(t, "monotonic")
		p := causaltest.DrawDistribution(t, 8, "cell")
		for c := range model {
			to := c
			if monotonic && c>>1&1 == 1 { // never prevented: y1 is 1 too
				to |= 1
			}
			model[to] += p[c]
		}
		mass := func(m cells, in func(x, y0, y1 int) bool) (total float64) {
			for c, p := range m {
				if in(c>>2, c>>1&1, c&1) {
					total += p
				}
			}
			return total
		}
		k := Knowledge{Monotonic: monotonic}
		kind := rapid.IntRange(0, 1).Draw(t, "data")
		k.Joint = &Joint{}
		for c, p := range model {
			x, y0, y1 := c>>2, c>>1&1, c&1
			k.Joint[x][[]int{y0, y1}[x]] += p
		}
		if kind == 1 {
			k.Experiment = &Experiment{
				mass(model, func(x, y0, y1 int) bool { return y1 == 1 }),
				mass(model, func(x, y0, y1 int) bool { return y0 == 1 }),
			}
		}
		for q, part := range map[Quantity]struct{ group, of func(x, y0, y1 int) bool }{
			PN:  {func(x, y0, y1 int) bool { return x == 1 && y1 == 1 }, func(x, y0, y1 int) bool { return y0 == 0 }},
			PS:  {func(x, y0, y1 int) bool { return x == 0 && y0 == 0 }, func(x, y0, y1 int) bool { return y1 == 1 }},
			PNS: {func(x, y0, y1 int) bool { return true }, func(x, y0, y1 int) bool { return y0 == 0 && y1 == 1 }},
		} {
			group := mass(model, part.group)
			got, err := Bounds(q, k)
			if group == 0 {
				if !errors.Is(err, causal.ErrZeroProbability) {
					t.Fatalf("%s: nobody is asked: %v, %v", q, got, err)
				}
				continue
			}
			low, high := math.Inf(1), math.Inf(-1)
			for _, corner := range vertices(k) {
				v := mass(corner, func(x, y0, y1 int) bool { return part.group(x, y0, y1) && part.of(x, y0, y1) }) / group
				low, high = min(low, v), max(high, v)
			}
			if err != nil || math.Abs(got.Low-low) > 1e-7 || math.Abs(got.High-high) > 1e-7 {
				t.Fatalf("%s: %v, %v; want %v to %v", q, got, err, low, high)
			}
		}
		// With the experiment alone the bounds of PNS are those of a linear program too.
		if kind == 1 {
			k.Joint = nil
			got, err := Bounds(PNS, k)
			low, high := math.Inf(1), math.Inf(-1)
			for _, corner := range vertices(k) {
				v := mass(corner, func(x, y0, y1 int) bool { return y0 == 0 && y1 == 1 })
				low, high = min(low, v), max(high, v)
			}
			if err != nil || math.Abs(got.Low-low) > 1e-7 || math.Abs(got.High-high) > 1e-7 {
				t.Fatalf("pns by the experiment: %v, %v; want %v to %v", got, err, low, high)
			}
		}
	})
}
