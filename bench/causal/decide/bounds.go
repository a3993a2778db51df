package decide

import "assay/bench/causal"

// Quantity is a probability of causation between binary X and Y.
type Quantity string

// The probabilities of causation. Y(x) is what Y would be with X set to x.
const (
	PN  Quantity = "pn"  // necessity: P(Y(0)=0 | X=1, Y=1)
	PS  Quantity = "ps"  // sufficiency: P(Y(1)=1 | X=0, Y=0)
	PNS Quantity = "pns" // both: P(Y(1)=1, Y(0)=0)
)

// Joint is an observed distribution of X and Y, in this order.
type Joint [2][2]float64

// Experiment is what an experiment showed: P(Y=1) with X set to 1, and to 0.
type Experiment struct{ Do1, Do0 float64 }

// Interval is a range that a quantity lies in. Every number of it is the quantity of
// some model with the data.
type Interval struct{ Low, High float64 }

// Knowledge is what bounds a quantity. At least one of Joint and Experiment is there.
type Knowledge struct {
	Joint      *Joint
	Experiment *Experiment
	// Monotonic: X never prevents Y, Y(1) >= Y(0) in every case.
	Monotonic bool
}

// consistent is how far data may contradict each other, as rounded numbers do.
const consistent = 1e-9

// Bounds are the sharp bounds of a quantity (Tian and Pearl, Probabilities of
// causation: bounds and identification, 2000). Data that no model has together are a
// *causal.Fault with a place in {"joint", "experimental": {"y_do1", "y_do0"},
// "monotonic"}; where what a quantity conditions on cannot happen, the error is
// causal.ErrZeroProbability.
//
// With both kinds of data P(Y=1) - P(Y(0)=1) is the share of cases with X=1 where Y
// would fail without X, less that of cases where it would come about; likewise
// P(Y(1)=1) - P(Y=1) in the cases with X=0. A monotonic model has none of the latter
// sort, so that both are known.
func Bounds(q Quantity, k Knowledge) (Interval, error) {
	if fault := k.check(); fault != nil {
		return Interval{}, fault
	}
	switch {
	case k.Joint == nil:
		return k.experimental(q)
	case k.Experiment == nil:
		return k.observational(q)
	}
	return k.both(q)
}

func (k Knowledge) check() *causal.Fault {
	if k.Joint == nil && k.Experiment == nil {
		return causal.Badf(nil, "want joint, experimental, or both")
	}
	e := k.Experiment
	if k.Joint != nil && e != nil {
		j := k.Joint
		if e.Do1 < j[1][1]-consistent || e.Do1 > 1-j[1][0]+consistent {
			return causal.Badf(causal.At("experimental", "y_do1"), "no model has this with the joint: want %v to %v", j[1][1], 1-j[1][0])
		}
		if e.Do0 < j[0][1]-consistent || e.Do0 > 1-j[0][0]+consistent {
			return causal.Badf(causal.At("experimental", "y_do0"), "no model has this with the joint: want %v to %v", j[0][1], 1-j[0][0])
		}
		if y := j[0][1] + j[1][1]; k.Monotonic && (e.Do1 < y-consistent || e.Do0 > y+consistent) {
			return causal.Badf(causal.At("monotonic"), "the data are of no monotonic model: P(Y=1) is %v, and %v and %v with X set to 1 and 0", y, e.Do1, e.Do0)
		}
	}
	if e != nil && k.Monotonic && e.Do1 < e.Do0-consistent {
		return causal.Badf(causal.At("monotonic"), "the experiment is of no monotonic model")
	}
	return nil
}

// interval orders and clips what rounding may have moved.
func interval(low, high float64) (Interval, error) {
	low, high = min(max(low, 0), 1), min(max(high, 0), 1)
	return Interval{min(low, high), max(low, high)}, nil
}

func (k Knowledge) both(q Quantity) (Interval, error) {
	j, e := k.Joint, k.Experiment
	y := j[0][1] + j[1][1]
	a, b := y-e.Do0, e.Do1-y
	switch q {
	case PN:
		return part(j[1][1], a, 1-e.Do0-j[0][0], k.Monotonic)
	case PS:
		return part(j[0][0], b, e.Do1-j[1][1], k.Monotonic)
	case PNS:
		if k.Monotonic {
			return interval(e.Do1-e.Do0, e.Do1-e.Do0)
		}
		return interval(
			max(0, e.Do1-e.Do0, a, b),
			min(e.Do1, 1-e.Do0, j[1][1]+j[0][0], e.Do1-e.Do0+j[1][0]+j[0][1]))
	}
	return Interval{}, errQuantity
}

// part is the share of a group of cases: at least low of them, at most high.
func part(group, low, high float64, monotonic bool) (Interval, error) {
	if group == 0 {
		return Interval{}, causal.Impossible()
	}
	if monotonic {
		high = low
	}
	return interval(max(0, low)/group, min(group, high)/group)
}

func (k Knowledge) observational(q Quantity) (Interval, error) {
	j := k.Joint
	switch q {
	case PN: // X=1, Y=1: nothing is known of Y(0) there
		return part(j[1][1], 0, 1, false)
	case PS:
		return part(j[0][0], 0, 1, false)
	case PNS:
		return interval(0, j[1][1]+j[0][0])
	}
	return Interval{}, errQuantity
}

// experimental bounds without knowing who took X by choice: any part of the cases
// may have, so that only what holds in all of them bounds PN and PS.
func (k Knowledge) experimental(q Quantity) (Interval, error) {
	e := k.Experiment
	least, most := max(0, e.Do1-e.Do0), min(e.Do1, 1-e.Do0) // mass of Y(1)=1, Y(0)=0
	if k.Monotonic {
		most = least
	}
	switch q {
	case PNS:
		return interval(least, most)
	case PN: // among Y(1)=1: Y(0) is 0 in all cases, in none, or in some
		return among(e.Do1, most, e.Do1-least)
	case PS: // among Y(0)=0: Y(1)
		return among(1-e.Do0, most, 1-e.Do0-least)
	}
	return Interval{}, errQuantity
}

// among is the share of cases with a property in an unknown part of a group: with is
// the most mass that may have it, and without the most that may not.
func among(group, with, without float64) (Interval, error) {
	if group <= 0 {
		return Interval{}, causal.Impossible()
	}
	low, high := 0.0, 1.0
	if with <= consistent {
		high = 0
	}
	if without <= consistent {
		low = 1
	}
	return Interval{low, high}, nil
}

var errQuantity = causal.Badf(causal.At("quantity"), "want one of %s, %s, %s", PN, PS, PNS)
