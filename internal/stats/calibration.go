package stats

import "math"

// Brier is the mean squared distance of the stated probabilities from what
// happened (G. W. Brier, Monthly Weather Review 78, 1950, for one event: half of
// his sum over both classes). Lists of one length; of 0 there is none.
func Brier(p []float64, happened []bool) (score float64, ok bool) {
	if len(p) == 0 || len(p) != len(happened) {
		return 0, false
	}
	var sum float64
	for i, q := range p {
		d := q - indicator(happened[i])
		sum += float64(d * d)
	}
	return sum / float64(len(p)), true
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// LogLoss is the mean of −ln(probability given to what happened), in nats, with
// the probabilities first moved into [clamp, 1 − clamp]; clamped says how many
// were moved. clamp in (0, 0.5).
func LogLoss(p []float64, happened []bool, clamp float64) (score float64, clamped int, ok bool) {
	if len(p) == 0 || len(p) != len(happened) || !(clamp > 0 && clamp < 0.5) {
		return 0, 0, false
	}
	var sum float64
	for i, q := range p {
		if !happened[i] {
			q = 1 - q
		}
		if q < clamp || q > 1-clamp {
			clamped++
			q = min(max(q, clamp), 1-clamp)
		}
		sum -= math.Log(q)
	}
	return sum / float64(len(p)), clamped, true
}

// Norm says how the gaps of the bins become one number.
type Norm string

// The norms of the expected calibration error.
const (
	L1  Norm = "l1"  // Σ n_b/n · gap
	L2  Norm = "l2"  // √(Σ n_b/n · gap²)
	Max Norm = "max" // the largest gap
)

// Bin is one bin of a reliability diagram, (Low, High], the first also with 0.
type Bin struct {
	Low, High  float64
	N          int
	Confidence float64 // mean stated probability; without meaning where N is 0
	Frequency  float64 // share of what happened; without meaning where N is 0
}

// ECE is the expected calibration error over bins of equal width (C. Guo, G. Pleiss,
// Y. Sun, K. Q. Weinberger, On Calibration of Modern Neural Networks, ICML 2017,
// section 2, for l1): in each bin the gap is that between mean confidence and
// frequency. The bins' bounds are the quotients i/bins, so that a probability
// that is written as one lies in the bin that it closes. It depends on the bins:
// report them, and their n, beside it.
func ECE(confidence []float64, happened []bool, bins int, norm Norm) (ece float64, diagram []Bin, ok bool) {
	if len(confidence) == 0 || len(confidence) != len(happened) || bins < 1 {
		return 0, nil, false
	}
	diagram = make([]Bin, bins)
	for i := range diagram {
		diagram[i].Low, diagram[i].High = bound(i, bins), bound(i+1, bins)
	}
	for i, p := range confidence {
		if !(p >= 0 && p <= 1) {
			return 0, nil, false
		}
		b := &diagram[binOf(p, bins)]
		b.N++
		b.Confidence += p
		b.Frequency += indicator(happened[i])
	}
	total := float64(len(confidence))
	for i := range diagram {
		b := &diagram[i]
		if b.N == 0 {
			continue
		}
		n := float64(b.N)
		b.Confidence /= n
		b.Frequency /= n
		gap, share := math.Abs(b.Confidence-b.Frequency), n/total
		switch norm {
		case L1:
			ece += float64(share * gap)
		case L2:
			ece += float64(share * float64(gap*gap))
		case Max:
			ece = max(ece, gap)
		default:
			return 0, nil, false
		}
	}
	if norm == L2 {
		ece = math.Sqrt(ece)
	}
	return ece, diagram, true
}

func bound(i, bins int) float64 { return float64(i) / float64(bins) }

// binOf is the bin of p in [0, 1]; the product may land beside a bound.
func binOf(p float64, bins int) int {
	i := min(int(p*float64(bins)), bins-1)
	for i > 0 && p <= bound(i, bins) {
		i--
	}
	for i < bins-1 && p > bound(i+1, bins) {
		i++
	}
	return i
}

// TopLabel reads the probabilities of several classes as one statement, that
// the first of the likeliest is right: its probability, and whether it is the
// label. ok is false without classes.
func TopLabel(probs []float64, label int) (confidence float64, correct, ok bool) {
	if len(probs) == 0 {
		return 0, false, false
	}
	top := 0
	for i, p := range probs {
		if p > probs[top] {
			top = i
		}
	}
	return probs[top], top == label, true
}
