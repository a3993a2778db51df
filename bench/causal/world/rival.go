package world

import (
	"math"
	"slices"

	"assay/bench/causal/scm"
)

const (
	// inside is how far the probabilities of a rival stay from 0 and 1.
	inside = 0.02
	// stride is how far one of them moves in a step at most.
	stride = 0.08
	// strides is how many steps are taken at most.
	strides = 60
	// enough is how far apart two answers are when the search ends.
	enough = 0.2
	// equal is how close cells of two joint distributions are that are the same.
	equal = 1e-14
	// corrections is how many are tried of a step before a shorter one is.
	corrections = 8
	// negligible is the length, against that of 1, of what is rounding.
	negligible = 1e-7
)

// Rival is a world of the same structure with the same joint distribution of what is
// observed, in which P(Y=1|do(X=1)) is another, as far off as was found: up to enough.
// All variables are binary. Where the structure identifies the effect there is none, and
// the answers are the same.
//
// The worlds of one joint are a curved surface in the space of all P(variable=1|parents).
// The search walks on it: along the surface in the direction in which the answer changes
// most, and then, by Newton's method, back to where the joint is the same to the bit or
// nearly so.
func (w *World) Rival() *World {
	from := newPoint(w)
	want := from.joint
	best := from
	for _, sign := range []float64{1, -1} {
		at := from
		for range strides {
			next, ok := at.stride(want, sign)
			if !ok {
				break
			}
			at = next
			if math.Abs(at.answer-from.answer) >= enough {
				break
			}
		}
		if math.Abs(at.answer-from.answer) > math.Abs(best.answer-from.answer) {
			best = at
		}
		if math.Abs(best.answer-from.answer) >= enough {
			break
		}
	}
	return best.world()
}

// point is a world as numbers.
type point struct {
	of *World
	// ones are P(1|row of the parents), of all nodes one after another; those of a node
	// start at its place in first.
	ones  []float64
	first []int
	joint []float64 // of what is observed
	// slopes are the derivatives of each cell of the joint.
	slopes [][]float64
	// answer is P(Y=1|do(X=1)), uphill its derivatives.
	answer float64
	uphill []float64
}

func newPoint(w *World) *point {
	p := &point{of: w}
	for _, v := range w.Nodes {
		p.first = append(p.first, len(p.ones))
		row := make([]float64, 1<<len(v.Parents))
		for _, t := range v.Tables {
			for i, x := range t.Values {
				row[i] += float64(t.P * float64(x))
			}
		}
		p.ones = append(p.ones, row...)
	}
	return p.at(p.ones)
}

// at is the world with other numbers, worked out by going through all values of all
// variables.
func (p *point) at(ones []float64) *point {
	w := p.of
	n := len(w.Nodes)
	place := map[string]int{}
	for i, v := range w.Nodes {
		place[v.Name] = i
	}
	parents := make([][]int, n)
	for i, v := range w.Nodes {
		for _, name := range v.Parents {
			parents[i] = append(parents[i], place[name])
		}
	}
	var observed []int
	for _, name := range w.Observed() {
		observed = append(observed, place[name])
	}
	x, y := place[w.X], place[w.Y]
	out := &point{of: w, ones: ones, first: p.first, uphill: make([]float64, len(ones))}
	out.joint, out.slopes = make([]float64, 1<<len(observed)), make([][]float64, 1<<len(observed))
	for cell := range out.slopes {
		out.slopes[cell] = make([]float64, len(ones))
	}
	own, factor, before := make([]int, n), make([]float64, n), make([]float64, n+1)
	for all := range 1 << n {
		bit := func(v int) int { return all >> v & 1 }
		before[0] = 1
		for i := range n {
			row := 0
			for _, q := range parents[i] {
				row = row<<1 | bit(q)
			}
			own[i] = p.first[i] + row
			factor[i] = ones[own[i]]
			if bit(i) == 0 {
				factor[i] = 1 - factor[i]
			}
			before[i+1] = before[i] * factor[i]
		}
		cell := 0
		for _, v := range observed {
			cell = cell<<1 | bit(v)
		}
		out.joint[cell] += before[n]
		after := 1.0
		for i := n - 1; i >= 0; i-- {
			sign := float64(2*bit(i) - 1)
			out.slopes[cell][own[i]] += float64(sign * float64(before[i]*after))
			after *= factor[i]
		}
		if bit(x) == 0 || bit(y) == 0 {
			continue
		}
		factor[x] = 1 // as under do(X=1)
		for i := range n {
			before[i+1] = before[i] * factor[i]
		}
		out.answer += before[n]
		after = 1.0
		for i := n - 1; i >= 0; i-- {
			if i != x {
				out.uphill[own[i]] += float64(float64(2*bit(i)-1) * float64(before[i]*after))
			}
			after *= factor[i]
		}
	}
	return out
}

// stride takes a step uphill (sign 1) or downhill (-1); ok is false where there is none,
// or where it leads away from the joint.
func (p *point) stride(want []float64, sign float64) (*point, bool) {
	way := make([]float64, len(p.uphill))
	for i, d := range p.uphill {
		way[i] = sign * d
	}
	start := length(way)
	var stay frame
	for _, slope := range p.slopes {
		stay.aim(slope, 0)
	}
	way = stay.without(way)
	for i := 0; i < len(way); i++ { // numbers at their bounds that would go on
		if d := way[i]; d > 0 && p.ones[i] >= 1-inside || d < 0 && p.ones[i] <= inside {
			unit := make([]float64, len(way))
			unit[i] = 1
			if stay.aim(unit, 0) {
				way, i = stay.without(way), -1 // others may go on now
				continue
			}
			way[i] = 0 // it goes nowhere but for rounding
		}
	}
	if length(way) <= negligible*start {
		return nil, false
	}
	far := math.Inf(1)
	for i, d := range way {
		switch {
		case d > 0:
			far = min(far, stride/d, (1-inside-p.ones[i])/d)
		case d < 0:
			far = min(far, stride/-d, (p.ones[i]-inside)/-d)
		}
	}
	for range corrections {
		ones := make([]float64, len(way))
		for i, d := range way {
			ones[i] = p.ones[i] + float64(far*d)
		}
		if next, ok := p.at(ones).corrected(want); ok && float64(sign*(next.answer-p.answer)) > 0 {
			return next, true
		}
		far /= 2
	}
	return nil, false
}

// corrected brings the joint back to what it is to be.
func (p *point) corrected(want []float64) (*point, bool) {
	for range corrections {
		off := 0.0
		for cell, x := range p.joint {
			off = max(off, math.Abs(x-want[cell]))
		}
		if off <= equal {
			return p, true
		}
		var f frame
		for cell, slope := range p.slopes {
			f.aim(slope, want[cell]-p.joint[cell])
		}
		ones := slices.Clone(p.ones)
		for k, e := range f.axes {
			for i, x := range e {
				ones[i] += float64(f.steps[k] * x)
			}
		}
		for _, x := range ones {
			if !(x > 0 && x < 1) {
				return nil, false
			}
		}
		p = p.at(ones)
	}
	return nil, false
}

func (p *point) world() *World {
	var nodes []scm.Node
	for i, v := range p.of.Nodes {
		ones := p.ones[p.first[i] : p.first[i]+1<<len(v.Parents)]
		nodes = append(nodes, scm.Node{Name: v.Name, Parents: v.Parents, Tables: comonotone(ones)})
	}
	return New(p.of.Motif+"_rival", nodes, p.of.Latent...).about(p.of.X, p.of.Y, p.of.Z)
}

// frame is a set of directions at right angles to each other.
type frame struct {
	axes  [][]float64
	steps []float64 // how far to go along each
}

// aim adds a direction, unless it is one of theirs together, and goes along it until the
// way so far has a product of so much with it.
func (f *frame) aim(v []float64, product float64) bool {
	before := length(v)
	rest := f.without(v)
	n := length(rest)
	if n <= negligible*before || before == 0 {
		return false
	}
	for k, e := range f.axes {
		product -= float64(f.steps[k] * dot(e, v))
	}
	for i := range rest {
		rest[i] /= n
	}
	f.axes, f.steps = append(f.axes, rest), append(f.steps, product/dot(rest, v))
	return true
}

// without is what of a direction stands at right angles to all of the frame. It is taken
// twice: the first time leaves rounding behind.
func (f *frame) without(v []float64) []float64 {
	v = slices.Clone(v)
	for range 2 {
		for _, e := range f.axes {
			d := dot(e, v)
			for i, x := range e {
				v[i] -= float64(d * x)
			}
		}
	}
	return v
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

func length(v []float64) float64 { return math.Sqrt(dot(v, v)) }
