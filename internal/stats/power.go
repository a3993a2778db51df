package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// PairedDesign plans a comparison of two arms on the same cases with yes/no
// outcomes (R. J. Connor, Sample Size for Testing Differences in Proportions for the
// Paired-Sample Design, Biometrics 43, 1987, eq. 3: McNemar's test without
// continuity correction). The sizes are approximations for planning: what a study
// has depends on the discordance that it meets.
type PairedDesign struct {
	Discordance float64 // share of the cases where the arms differ, in (0, 1]
	Effect      float64 // difference of the arms' success rates, 0 < |Effect| ≤ Discordance
	Alpha       float64 // two-sided, in (0, 1)
}

func (d PairedDesign) valid() bool {
	return d.Discordance > 0 && d.Discordance <= 1 && d.Effect != 0 && math.Abs(d.Effect) <= d.Discordance && d.Alpha > 0 && d.Alpha < 1
}

// sd is the standard deviation of a case's difference.
func (d PairedDesign) sd() float64 { return math.Sqrt(d.Discordance - d.Effect*d.Effect) }

// N is the number of independent cases that detects the effect with a power in
// (0, 1).
func (d PairedDesign) N(power float64) (n float64, ok bool) {
	if !d.valid() || !(power > 0 && power < 1) {
		return 0, false
	}
	// Below a power of a half the second term is negative; the sum never is for a
	// power above alpha/2.
	root := Z(d.Alpha)*math.Sqrt(d.Discordance) + distuv.UnitNormal.Quantile(power)*d.sd()
	n = math.Ceil(root * root / (d.Effect * d.Effect))
	return max(1, n), root > 0 && isFinite(n)
}

// Power is the probability that n independent cases detect the effect, in its own
// direction.
func (d PairedDesign) Power(n float64) (power float64, ok bool) {
	if !d.valid() || !(n >= 1) || !isFinite(n) {
		return 0, false
	}
	excess := math.Abs(d.Effect)*math.Sqrt(n) - Z(d.Alpha)*math.Sqrt(d.Discordance)
	if d.sd() == 0 { // every case is discordant in the same direction
		return indicator(excess > 0), true
	}
	return distuv.UnitNormal.CDF(excess / d.sd()), true
}

// PrecisionN is the number of independent cases whose interval at confidence
// 1 − alpha for the difference of two paired yes/no arms has about the half-width,
// near no difference: z²·discordance/halfWidth².
func PrecisionN(discordance, halfWidth, alpha float64) (n float64, ok bool) {
	if !(discordance > 0 && discordance <= 1 && halfWidth > 0 && alpha > 0 && alpha < 1) {
		return 0, false
	}
	r := Z(alpha) / halfWidth
	n = max(1, math.Ceil(r*r*discordance))
	return n, isFinite(n)
}
