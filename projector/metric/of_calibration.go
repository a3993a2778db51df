package metric

import (
	"math"

	"assay/projector/view"
)

// What calibration metrics have in common.
const (
	scorable     = "scorable predictions that are confirmed or refuted"
	notScored    = imported + "; predictions without a verdict of telemetry; what may not be scored"
	holdAgainst  = "unresolved predictions are neither errors nor successes: hold it against prediction_resolution_coverage"
	byTenth      = "tenth of p, 0 in the first"
	calibrations = "C8 7.7, Calibration; 14"
)

var calibrationMetrics = []Metric{
	{
		Name:        "log_loss",
		Question:    "How much of what happened do stated probabilities not foresee?",
		Numerator:   "−ln of the probability given to what happened, p between 0.000001 and 0.999999",
		Denominator: scorable,
		Groups:      "category of the claim",
		Kind:        Outcome, Form: FormMean, Unit: "nats", Per: perLoss,
		Exclusions: notScored, Missing: holdAgainst, Source: calibrations,
		over: []view.Listing{view.AllPredictions},
		count: func(p *pass) error {
			return p.scoredPredictions(func(it item, v *view.Prediction) error {
				return it.amount(decision(v).ref, lossParts(surprise(clamp(v.P), outcome(v))))
			})
		},
	},
	statedProbability,
	observedShare,
}

var statedProbability = Metric{
	Name:        "stated_probability",
	Question:    "What does the agent say of how likely its predictions are?",
	Numerator:   "p",
	Denominator: scorable,
	Groups:      byTenth,
	Kind:        Diagnostic, Form: FormMean, Unit: "probability", Per: perProbability,
	Exclusions: notScored, Missing: holdAgainst, Source: calibrations,
	over: []view.Listing{view.AllPredictions},
	count: func(p *pass) error {
		return p.byTenth(func(it item, v *view.Prediction) error {
			return it.amount(decision(v).ref, int64(math.Round(v.P*perProbability)))
		})
	},
}

var observedShare = Metric{
	Name:        "observed_share",
	Question:    "How often does happen what was given a probability?",
	Numerator:   "of those, predictions that are confirmed",
	Denominator: scorable,
	Groups:      byTenth,
	Kind:        Diagnostic, Form: FormRatio, Unit: "share", Interval: Wilson,
	Exclusions: notScored, Missing: holdAgainst, Source: calibrations,
	over: []view.Listing{view.AllPredictions},
	count: func(p *pass) error {
		return p.byTenth(func(it item, v *view.Prediction) error {
			return it.putBy(v.Final().Verdict == view.VerdictConfirmed, decision(v).ref)
		})
	},
}

// byTenth takes up what may be scored, with the tenth of its probability as group.
func (p *pass) byTenth(fn func(item, *view.Prediction) error) error {
	return p.predictions(func(it item, v *view.Prediction) error {
		switch {
		case !decided(v):
			return it.exclude("no verdict")
		case !scored(v):
			return it.exclude("not scorable")
		}
		it.group = tenth(v.P)
		return fn(it, v)
	})
}

// distances are the sums of calibrationError where nobody wants to know the records:
// by tenth how far what was stated is from what was observed, which both are kept.
func (p *pass) distances() error {
	stated, err := p.quiet().total(&statedProbability)
	if err != nil {
		return err
	}
	observed, err := p.quiet().total(&observedShare)
	if err != nil {
		return err
	}
	out := p.sums.week(0)
	out.All = tally{N: stated.All.N, Excluded: stated.All.Excluded, Unknown: stated.All.Unknown}
	for name, g := range stated.Groups {
		by := g.Num
		if o := observed.Groups[name]; o != nil {
			confirmed, _ := o.Num.int64()
			by.add(wideOf(-confirmed * perProbability))
		}
		if by.Hi < 0 {
			by = by.negative()
		}
		*out.group(name) = tally{Num: by, N: g.N, Excluded: g.Excluded, Unknown: g.Unknown}
		out.All.Num.add(by)
	}
	return nil
}
