// Package stats holds the estimates, intervals and tests that scores, the
// benchmark and `assay calc` report.
//
// # What is not known is not given
//
// A function whose last result is ok answers false where the quantity does not
// exist (0 of 0, one class only, no discordant pair) or where the data cannot
// carry it (an interval from one cluster, from values that do not vary), and also
// for arguments outside its domain. It never answers NaN, and a nil pointer in a
// result means the same as false.
//
// # Same on every machine
//
// Go may fuse a multiplication and an addition on some machines, and math.Exp,
// Log, Erf and Lgamma differ between architectures in the last places. These
// functions use neither, only integers and single IEEE operations, and give the
// same bits everywhere, so that folds and digests may hold their results:
//
//	Wilson and AgrestiCoull with a constant z (Z95), Kappa.Kappa, Brier, ECE,
//	AUROC, RiskCoverage, McNemarTest.Chi2 and Chi2Continuity, Seed, and of a
//	bootstrap Estimate, Percentile and Basic
//
// Everything else goes through gonum's distributions, is right to 1e-9 in the
// stated ranges, and is for display alone: Z, ClopperPearson, BinomialTest, all
// P values, the errors and intervals of Kappa, LogLoss, BCa, TOST, sample sizes
// and power.
package stats

import (
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// MaxCount is the largest count for which the exact binomial tails and Student's
// t are right to 1e-9, absolute and relative: the incomplete beta function beneath
// them loses places in proportion to the counts.
const MaxCount = 200_000

// Interval is a closed interval of estimates.
type Interval struct{ Low, High float64 }

// Z95 is the normal distribution's 0.975 quantile: Z(0.05), spelt out so that
// results that rest on it are the same on every machine.
const Z95 = 1.959963984540054

// Z is the normal distribution's 1 − alpha/2 quantile, for a two-sided interval
// at confidence 1 − alpha, with alpha in (0, 1).
func Z(alpha float64) float64 { return -distuv.UnitNormal.Quantile(alpha / 2) }

// studentTail is P(T > t) for Student's t with df degrees of freedom, up to
// 2·MaxCount.
func studentTail(t, df float64) float64 {
	if t*t < 1 {
		// distuv loses half the digits near 0, where df/(df+t²) rounds to 1. This is
		// the same integral from its other end.
		half := mathext.RegIncBeta(0.5, df/2, t*t/(df+t*t)) / 2
		if t > 0 {
			return 0.5 - half
		}
		return 0.5 + half
	}
	return distuv.StudentsT{Sigma: 1, Nu: df}.Survival(t)
}
