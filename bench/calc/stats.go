package calc

import "math"

// Why a reply's values are null.
const (
	noTrials     = "no_trials"
	noCases      = "no_cases"
	noDiscordant = "no_discordant_pairs"
	noChance     = "chance_agrees_always" // no case, or both raters with one category
	oneClass     = "one_class"
	noVariance   = "no_variance" // fewer than two values, or values all alike
	outOfRange   = "not_finite"
	fewResamples = "too_few_resamples" // for the confidence, or for the correction of BCa
)

// Limits that hold whatever the cost may be, beside stats.MaxCount.
const (
	maxCases      = math.MaxInt32 // that a table may count
	maxCategories = 1000
	maxBins       = 10_000
	maxResamples  = 100_000_000 // which are kept: 800 MB
)

// defaultB makes (B + 1)·α whole for the usual confidences.
const defaultB = 9999

// unknown is part of a reply that may have no value: its fields are null then, and
// Unavailable says why.
type unknown struct {
	Unavailable string `json:"unavailable,omitzero"`
}

func because(ok bool, reason string) unknown {
	if ok {
		return unknown{}
	}
	return unknown{reason}
}

// known is v, or null.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// planned is a plan whose answer is never an error.
func planned(cost int, answer func() any) plan {
	return plan{float64(cost), func() (any, *Error) { return answer(), nil }}
}

// tailCost is what an exact tail of a large count costs.
const tailCost = 1000
