package metric

import (
	"errors"
	"fmt"
	"math"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/projector/view"
)

// perProbability is in how many parts a difference of probabilities is counted, so
// that sums are the same in every order.
const perProbability = 1_000_000_000

var predictionMetrics = []Metric{
	{
		Name:        "prediction_resolution_coverage",
		Question:    "How many promises were settled by telemetry? Low coverage caps every other number.",
		Numerator:   "of those, predictions that are confirmed or refuted",
		Denominator: "predictions older than seven days by ledger time",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: youngerThan7,
		Missing:    "void, unresolved and open predictions stay in the denominator; what somebody reported resolves nothing",
		Source:     "C9 Weekly report, Resolution coverage; C8 13",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.predictions(func(it item, v *view.Prediction) error {
				it.group = ""
				if !p.isOld(v.RecordedAt) {
					return it.exclude("not older than seven days")
				}
				if err := it.denominator(); err != nil || !decided(v) {
					return err
				}
				return it.numerator(decision(v).ref)
			})
		},
	},
	{
		Name:      "unresolved_prediction_age",
		Question:  "How long have the promises without a verdict been waiting?",
		Numerator: "age by ledger time of predictions that are open or unresolved",
		Kind:      Diagnostic, Form: FormMedian, Unit: "days", Per: 86400,
		Exclusions: imported + "; confirmed, refuted and void predictions",
		Source:     "C8 13",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.predictions(func(it item, v *view.Prediction) error {
				it.group = ""
				if f := v.Final(); decided(v) || f != nil && f.Verdict == view.VerdictVoid {
					return it.exclude("settled or void")
				}
				return it.waits(v.RecordedAt)
			})
		},
	},
	{
		Name:        "scorable_share",
		Question:    "How many verdicts are of promises whose outcome nobody could have known beforehand?",
		Numerator:   "of those, predictions that may be scored",
		Denominator: "predictions that are confirmed or refuted",
		Groups:      "category of the claim",
		Kind:        Guardrail, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: imported + "; predictions without a verdict of telemetry",
		Source:     "C8 13; C9 Separate intent, action and outcome",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.decidedPredictions(func(it item, v *view.Prediction) error { return it.putBy(scored(v), decision(v).ref) })
		},
	},
	{
		Name:        "confirmed_share",
		Question:    "How often did what was predicted happen?",
		Numerator:   "of those, predictions that are confirmed",
		Denominator: scorable,
		Groups:      "category of the claim",
		Kind:        Outcome, Form: FormRatio, Unit: "share", Interval: Wilson,
		Exclusions: notScored,
		Missing:    holdAgainst,
		Source:     "C8 7.7, Calibration",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.scoredPredictions(func(it item, v *view.Prediction) error {
				return it.putBy(v.Final().Verdict == view.VerdictConfirmed, decision(v).ref)
			})
		},
	},
	{
		Name:        "brier",
		Question:    "How far are stated probabilities from what happened?",
		Numerator:   "(p − outcome)², outcome being 1 for confirmed and 0 for refuted",
		Denominator: scorable,
		Groups:      "category of the claim",
		Kind:        Outcome, Form: FormMean, Unit: "squared probability", Per: perProbability,
		Exclusions: notScored,
		Missing:    holdAgainst,
		Source:     "C8 7.7, Calibration",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.misses(func(v *view.Prediction) float64 { return square(v.P - outcome(v)) })
		},
	},
	{
		Name:        "overconfidence",
		Question:    "Are stated probabilities too high or too low?",
		Numerator:   "p − outcome; above 0 they are too high",
		Denominator: scorable,
		Groups:      "category of the claim",
		Kind:        Diagnostic, Form: FormMean, Unit: "probability", Per: perProbability,
		Exclusions: notScored,
		Missing:    holdAgainst,
		Source:     "C8 7.7, Calibration",
		over:       []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.misses(func(v *view.Prediction) float64 { return v.P - outcome(v) })
		},
	},
	{
		Name:        "calibration_error",
		Question:    "How far is what happens at a stated probability from it?",
		Numerator:   "p − outcome, with the sign that makes the sum of its tenth positive (ECE, ten bins of equal width)",
		Denominator: scorable,
		Groups:      byTenth,
		Kind:        Diagnostic, Form: FormMean, Unit: "probability", Per: perProbability,
		Exclusions: notScored,
		Missing:    holdAgainst,
		Source:     "C8 7.7, Calibration",
		count:      (*pass).calibrationError,
	},
}

// predictions takes up each prediction.
func (p *pass) predictions(fn func(item, *view.Prediction) error) error {
	return view.ListPredictions(p.state, p.namespace, func(v *view.Prediction) error {
		it, ok, err := p.item(v.PredID, "", events.TypePredictionRecorded, v.Seq)
		if ok {
			err = p.rule(v)
		}
		if !ok || err != nil {
			return err
		}
		return fn(it, v)
	})
}

// decidedPredictions takes up what telemetry confirmed or refuted, with the
// category of the claim as group.
func (p *pass) decidedPredictions(fn func(item, *view.Prediction) error) error {
	return p.predictions(func(it item, v *view.Prediction) (err error) {
		if it.group, err = p.category(v); err != nil {
			return err
		}
		if !decided(v) {
			return it.exclude("no verdict")
		}
		return fn(it, v)
	})
}

func (p *pass) scoredPredictions(fn func(item, *view.Prediction) error) error {
	return p.decidedPredictions(func(it item, v *view.Prediction) error {
		if !scored(v) {
			return it.exclude("not scorable")
		}
		return fn(it, v)
	})
}

// misses counts by how much each scored prediction was off, in 1/perProbability.
func (p *pass) misses(by func(*view.Prediction) float64) error {
	return p.scoredPredictions(func(it item, v *view.Prediction) error {
		return it.amount(decision(v).ref, int64(math.Round(by(v)*perProbability)))
	})
}

// tenth is the bin of a probability as stats.ECE has it: behind its lower bound and
// up to its upper one, 0 in the first.
func tenth(p float64) string {
	for i := 1; i < 10; i++ {
		if p <= float64(i)/10 {
			return fmt.Sprintf("0.%d–%.1f", i-1, float64(i)/10)
		}
	}
	return "0.9–1.0"
}

func (p *pass) calibrationError() error {
	if p.fn == nil {
		return p.distances()
	}
	type miss struct {
		item
		by int64
	}
	var misses []miss
	sums := map[string]int64{}
	err := p.byTenth(func(it item, v *view.Prediction) error {
		it.ref = decision(v).ref
		imported, err := p.isImported(it.seq)
		if err == nil && !imported {
			m := miss{it, int64(math.Round(v.P*perProbability)) - int64(outcome(v))*perProbability}
			misses, sums[it.group] = append(misses, m), sums[it.group]+m.by
		}
		return err
	})
	for _, m := range misses {
		if sums[m.group] < 0 {
			m.by = -m.by
		}
		if err == nil {
			err = m.amount(m.ref, m.by)
		}
	}
	return err
}

// category is the rung of the claim that a prediction is on, "proposition" for a
// claim of a value, and "no claim".
func (p *pass) category(v *view.Prediction) (string, error) {
	const none = "no claim"
	if v.ClaimID == nil {
		return none, nil
	}
	c, err := view.GetClaim(p.state, v.Namespace, *v.ClaimID)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return none, nil
	case err != nil:
		return "", err
	case c.Edge == nil:
		return "proposition", nil
	}
	return c.Edge.Rung, nil
}

func outcome(v *view.Prediction) float64 {
	if v.Final().Verdict == view.VerdictConfirmed {
		return 1
	}
	return 0
}

// isOld says whether something is old enough to count for coverage.
func (p *pass) isOld(at time.Time) bool { return p.ages(at.Add(Settled)) }

// age is in seconds by ledger time.
func (p *pass) age(at time.Time) int64 { return int64(max(0, p.now.Sub(at)) / time.Second) }
