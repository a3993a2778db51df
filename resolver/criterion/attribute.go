package criterion

import "time"

// The kinds of attribution, in the order in which they are preferred.
const (
	Confounded    = "confounded"      // others acted on the target too
	Controlled    = "controlled"      // untouched peers did not change as the treated series did
	AboveBaseRate = "above_base_rate" // without an action it comes true less often than promised
	TemporalOnly  = "temporal_only"   // it came true after the action, and no more is known
)

// AttributionInput is everything that an attribution depends on. Samples must
// hold, beside what the evaluation looked at, the pre-window of every clause,
// both windows of every control, and the placebo stretch.
type AttributionInput struct {
	Input
	Result Result   // of Evaluate over Input
	P      float64  // the prediction's probability
	Others []uint64 // records of other actions on the target, from the action's start to the window's end
	// ActionStart is where the pre-window ends. Zero without an action: nothing
	// is compared with a pre-window then.
	ActionStart time.Time
	// PreClosed says that no source is waited for any longer up to ActionStart.
	PreClosed bool
	// Placebo is an earlier stretch without actions on the target, of which no
	// source is waited for any longer; nil without one.
	Placebo *Span
}

// Attribution says how far an outcome can be laid to the action. It never moves
// the verdict.
type Attribution struct {
	Kind     string
	Others   []uint64     // as given
	Treated  []Comparison // each clause; nil without controls
	Controls []Comparison // each clause under each control's labels
	BaseRate *BaseRate    // nil where no outcome without an action is known
}

// Comparison is what one series did from the pre-window to the window.
type Comparison struct {
	Clause        int               // in Criterion.Clauses
	Labels        map[string]string // of the series
	Before, After Outcome           // of the clause, whatever its baseline
}

// Changed says whether the series went from failing to passing.
func (c Comparison) Changed() Outcome { return And(not(c.Before), c.After) }

func not(o Outcome) Outcome {
	switch o {
	case True:
		return False
	case False:
		return True
	}
	return Unknown
}

// Attribute finds the first kind that the evidence bears out.
func Attribute(in AttributionInput) Attribution {
	out := Attribution{Kind: TemporalOnly, Others: in.Others}
	if !in.ActionStart.IsZero() && len(in.Criterion.Controls) > 0 && len(in.Criterion.All) > 0 {
		out.compare(in)
	}
	if in.Placebo != nil {
		out.BaseRate = baseRate(in)
	}
	confirmed := in.Result.Outcome == True
	switch {
	case len(in.Others) > 0:
		out.Kind = Confounded
	case confirmed && out.isControlled():
		out.Kind = Controlled
	case confirmed && out.BaseRate != nil && out.BaseRate.Upper < in.P:
		out.Kind = AboveBaseRate
	}
	return out
}

// compare evaluates each clause before and after the action, over the treated
// series and over those of the controls.
func (a *Attribution) compare(in AttributionInput) {
	pre := in.Criterion.PreWindow(in.ActionStart)
	comparison := func(i int, clause Clause) Comparison {
		c := Comparison{Clause: i, Labels: clause.Labels}
		lim, ok := LimitsOf(in.Criterion, clause, in.Registry)
		if !ok || !lim.fit(pre) || !lim.fit(in.Window) {
			return c
		}
		s := gather(in.Samples, clause, lim, lim.Reach(pre).join(lim.Reach(in.Window)))
		before, _, _ := s.decide(clause, pre, in.PreClosed)
		after, _, _ := s.decide(clause, in.Window, in.Closed)
		c.Before, c.After = before.Outcome, after.Outcome
		return c
	}
	for i, clause := range in.Criterion.All {
		a.Treated = append(a.Treated, comparison(i, clause))
		for _, labels := range in.Criterion.Controls {
			clause.Labels = labels
			a.Controls = append(a.Controls, comparison(i, clause))
		}
	}
}

// isControlled says that every clause's series went from failing to passing,
// and that no control's did.
func (a *Attribution) isControlled() bool {
	for _, c := range a.Treated {
		if c.Changed() != True {
			return false
		}
	}
	for _, c := range a.Controls {
		if c.Changed() != False {
			return false
		}
	}
	return len(a.Controls) > 0
}
