package detector

import "fmt"

// Quality counts verdicts against labels.
type Quality struct {
	TruePositive  int64 `json:"true_positive"`
	FalsePositive int64 `json:"false_positive"`
	FalseNegative int64 `json:"false_negative"`
	TrueNegative  int64 `json:"true_negative"`
	// Kinds are those of the true positives whose kind is the label's too.
	Kinds int64 `json:"kind_right"`
}

// add counts a verdict; both are of Kinds, or None.
func (q *Quality) add(label, verdict string) {
	switch {
	case label == None && verdict == None:
		q.TrueNegative++
	case label == None:
		q.FalsePositive++
	case verdict == None:
		q.FalseNegative++
	default:
		q.TruePositive++
		if label == verdict {
			q.Kinds++
		}
	}
}

// Assess judges labelled turns.
func (d *Detector) Assess(turns []Labelled) (q Quality, err error) {
	for i, t := range turns {
		role, err := ParseRole(t.Role)
		if err != nil {
			return q, fmt.Errorf("turn %d: %w", i+1, err)
		}
		if !isLabel(t.Label) {
			return q, fmt.Errorf("turn %d: %w: %q", i+1, ErrLabel, t.Label)
		}
		q.add(t.Label, d.Judge(role, t.Text).label())
	}
	return q, nil
}

// label is the verdict as a rater would say it.
func (v Verdict) label() string {
	if !v.Opportunity {
		return None
	}
	return v.Kind
}
