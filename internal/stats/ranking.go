package stats

import (
	"cmp"
	"math"
	"slices"
)

// AUROC is the probability that a positive case scores above a negative one, ties
// counting half (D. Bamber, Journal of Mathematical Psychology 12, 1975: the
// Mann–Whitney statistic divided by the number of pairs). It exists only where
// both classes do.
func AUROC(score []float64, positive []bool) (auroc float64, ok bool) {
	if len(score) != len(positive) || slices.ContainsFunc(score, math.IsNaN) {
		return 0, false
	}
	order := descending(score)
	var positives, negatives, halves int64 // halves: half wins of positives, two a pair
	for i := 0; i < len(order); {
		var p, n int64
		for v := score[order[i]]; i < len(order) && score[order[i]] == v; i++ {
			if positive[order[i]] {
				p++
			} else {
				n++
			}
		}
		halves += n * (2*positives + p)
		positives += p
		negatives += n
	}
	if positives == 0 || negatives == 0 {
		return 0, false
	}
	return float64(halves) / float64(2*positives*negatives), true
}

// descending is the order of the cases from the highest score on.
func descending(score []float64) []int {
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(score[j], score[i]) })
	return order
}

// RiskPoint is what happens when only the cases of at least a confidence are
// answered.
type RiskPoint struct {
	Threshold float64 // the least confidence answered
	Answered  int
	Wrong     int     // of the answered
	Coverage  float64 // Answered ÷ all
	Risk      float64 // Wrong ÷ Answered
}

// RiskCoverage is the curve of selective answering, from the most confident cases
// to all (R. El-Yaniv, Y. Wiener, JMLR 11, 2010). Cases of one confidence come in
// together: a threshold cannot tell them apart. No case, no curve.
func RiskCoverage(confidence []float64, wrong []bool) (curve []RiskPoint, ok bool) {
	if len(confidence) == 0 || len(confidence) != len(wrong) || slices.ContainsFunc(confidence, math.IsNaN) {
		return nil, false
	}
	order := descending(confidence)
	total := float64(len(order))
	for i, at := range order {
		if i == 0 || confidence[at] != curve[len(curve)-1].Threshold {
			next := RiskPoint{Threshold: confidence[at]}
			if i > 0 {
				next.Wrong = curve[len(curve)-1].Wrong
			}
			curve = append(curve, next)
		}
		p := &curve[len(curve)-1]
		p.Answered = i + 1
		if wrong[at] {
			p.Wrong++
		}
		p.Coverage, p.Risk = float64(p.Answered)/total, float64(p.Wrong)/float64(p.Answered)
	}
	return curve, true
}
