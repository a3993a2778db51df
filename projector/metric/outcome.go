package metric

import (
	"math"

	"assay/projector/view"
)

// Useful counts verified useful conclusions (C9): a claim that is asserted, was
// asserted before the outcome was known, and of which either a scorable
// prediction was confirmed, or the root cause was confirmed by an independent
// fix-and-recheck. A confirmed recheck that a later one contradicts is none.
type Useful struct {
	Count        int64 `json:"count"`
	ByPrediction int64 `json:"by_prediction"` // of Count; one claim can be in both
	ByRecheck    int64 `json:"by_recheck"`
	Edges        int64 `json:"causal_edges"` // of Count, claims of a causal edge
	Propositions int64 `json:"propositions"` // of Count, claims of a value
	Asserted     int64 `json:"asserted"`     // claims that are asserted now
	Claims       int64 `json:"claims"`       // all claims
	// AssertedAfter is how many asserted claims would count had they been
	// asserted before their outcome was known.
	AssertedAfter int64 `json:"asserted_after_outcome"`
	// AlsoRefuted is how many of Count have a refuted prediction too.
	AlsoRefuted int64 `json:"also_refuted"`
	// Per100 is Count for every 100 detected opportunities, as a ratio whose
	// value is already multiplied by 100.
	Per100 Ratio `json:"per_100_opportunities"`
}

// Coverage says how much of what was claimed and promised is settled; it caps
// what every other number means.
type Coverage struct {
	Claims      ClaimCoverage      `json:"claims"`
	Predictions PredictionCoverage `json:"predictions"`
}

// ClaimCoverage is over claims; a claim is resolved when one of its predictions
// was confirmed or refuted, or a recheck was conclusive.
type ClaimCoverage struct {
	Rate              Ratio `json:"rate"` // resolved ÷ all older than seven days
	WithoutPrediction int64 `json:"without_prediction"`
	Young             int64 `json:"younger_than_7_days"` // not in the ratio
}

// PredictionCoverage is over predictions. The counts beside the ratio are of
// those older than seven days.
type PredictionCoverage struct {
	Rate       Ratio `json:"rate"` // (confirmed + refuted) ÷ all older than seven days
	Confirmed  int64 `json:"confirmed"`
	Refuted    int64 `json:"refuted"`
	Void       int64 `json:"void"`
	Unresolved int64 `json:"unresolved"`
	Reported   int64 `json:"reported"`            // of the unresolved, on whose outcome operators reported
	NotDue     int64 `json:"not_due"`             // no verdict yet
	Young      int64 `json:"younger_than_7_days"` // not in the ratio
	Total      Tally `json:"all"`                 // of any age
}

// Tally counts predictions of any age by what became of them.
type Tally struct {
	Recorded   int64 `json:"recorded"`
	Confirmed  int64 `json:"confirmed"`
	Refuted    int64 `json:"refuted"`
	Void       int64 `json:"void"`
	Unresolved int64 `json:"unresolved"`
	Reported   int64 `json:"reported"` // of the unresolved, on whose outcome operators reported
	Open       int64 `json:"open"`
}

// Calibration is over the confirmed and refuted predictions that are scorable,
// by their latest telemetry amendment.
type Calibration struct {
	N       int64 `json:"n"`
	Brier   Loss  `json:"brier"`    // mean of (p − outcome)²
	LogLoss Loss  `json:"log_loss"` // mean of −ln of the probability given to the outcome
	Clamped int64 `json:"clamped"`  // predictions whose p was clamped to [1e-6, 1 − 1e-6], for the log only
	// Unscorable are confirmed or refuted predictions left out: known or
	// knowable beforehand, or recorded after their window opened.
	Unscorable int64 `json:"unscorable"`
	// Filled is how many unresolved predictions the bounds fill in; void ones
	// are not among them.
	Filled int64 `json:"filled"`
	// Coverage repeats (confirmed + refuted) ÷ all older than seven days.
	Coverage Ratio `json:"coverage"`
}

// Loss is a mean loss, null without a scored prediction, and what it would be
// if every unresolved prediction had come out best, or worst. The bounds are
// null when there is nothing to fill in; they are no confidence interval.
type Loss struct {
	Value *float64 `json:"value"`
	Best  *float64 `json:"best"`
	Worst *float64 `json:"worst"`
}

const clampAt = 1e-6

// scored says whether a verdict may be scored: the resolver said so, and the
// prediction was not recorded after its window opened.
func scored(p *view.Prediction) bool {
	f := p.Final()
	return f != nil && f.Scorable && (p.Promise == nil || *p.Promise)
}

// decided says that telemetry gave a verdict; a report is none.
func decided(p *view.Prediction) bool {
	f := p.Final()
	return f != nil && !f.IsReport() && (f.Verdict == view.VerdictConfirmed || f.Verdict == view.VerdictRefuted)
}

func (c *computer) claim(sc *view.ShadowCase) {
	u, cov, cl := &c.Useful, &c.Coverage.Claims, &sc.Claim
	f := follow(sc)
	u.add(cl, f)
	if c.young(cl.RecordedAt) {
		cov.Young++
		return
	}
	cov.Rate.Denominator++
	count(&cov.Rate.Numerator, f.resolved)
	count(&cov.WithoutPrediction, cl.Predictions == 0)
}

// fate is what became of one claim.
type fate struct {
	resolved     bool // by a prediction or a conclusive recheck
	byPrediction bool // a scorable prediction was confirmed after the assertion
	byRecheck    bool // a recheck held after the assertion
	late         bool // one of them, but before the assertion
	refuted      bool
}

func follow(sc *view.ShadowCase) (f fate) {
	cl := &sc.Claim
	if r := cl.Recheck; r != nil {
		f.resolved = true
		if r.Result == view.RecheckHeld && r.Principal != cl.Principal {
			f.note(&f.byRecheck, cl.AssertedSeq > 0 && cl.AssertedSeq < r.Seq)
		}
	}
	for i := range sc.Predictions {
		p := &sc.Predictions[i]
		if !decided(p) {
			continue
		}
		f.resolved = true
		switch {
		case p.Final().Verdict == view.VerdictRefuted:
			f.refuted = true
		case scored(p):
			f.note(&f.byPrediction, cl.AssertedSeq > 0 && cl.AssertedSeq < p.Resolution.KnownAt())
		}
	}
	return f
}

// note marks a success, as late when the claim was not yet asserted.
func (f *fate) note(which *bool, inTime bool) {
	if inTime {
		*which = true
	} else {
		f.late = true
	}
}

func (u *Useful) add(cl *view.Claim, f fate) {
	u.Claims++
	if cl.Status != view.StatusAsserted {
		return
	}
	u.Asserted++
	if !f.byPrediction && !f.byRecheck {
		if f.late {
			u.AssertedAfter++
		}
		return
	}
	u.Count++
	count(&u.ByPrediction, f.byPrediction)
	count(&u.ByRecheck, f.byRecheck)
	count(&u.AlsoRefuted, f.refuted)
	count(&u.Edges, cl.Edge != nil)
	count(&u.Propositions, cl.Proposition != nil)
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}

func (c *computer) prediction(p *view.Prediction) {
	cov, cal := &c.Coverage.Predictions, &c.Calibration
	cov.Total.add(p)
	if c.young(p.RecordedAt) {
		cov.Young++
	} else {
		cov.add(p)
	}
	switch {
	case decided(p) && scored(p):
		outcome := 0.0
		if p.Final().Verdict == view.VerdictConfirmed {
			outcome = 1
		}
		clamped := clamp(p.P)
		count(&cal.Clamped, clamped != p.P)
		c.Brier.score(square(p.P - outcome))
		c.LogLoss.score(surprise(clamped, outcome))
	case decided(p):
		cal.Unscorable++
	case fillable(p):
		clamped := clamp(p.P)
		c.Brier.fill(square(p.P), square(p.P-1))
		c.LogLoss.fill(surprise(clamped, 0), surprise(clamped, 1))
	}
}

// fillable is a prediction that telemetry left unresolved and that would have been
// scored: nothing known beforehand, recorded in time.
func fillable(p *view.Prediction) bool {
	f := p.Final()
	return f != nil && (f.Verdict == view.VerdictUnresolved || f.IsReport()) && (f.Foreknowledge == "" || f.Foreknowledge == "none") &&
		(p.Promise == nil || *p.Promise)
}

func (t *Tally) add(p *view.Prediction) {
	t.Recorded++
	f := p.Final()
	if f == nil {
		t.Open++
		return
	}
	switch {
	case f.Verdict == view.VerdictVoid:
		t.Void++
	case f.Verdict == view.VerdictUnresolved || f.IsReport():
		t.Unresolved++
		count(&t.Reported, p.Report != nil)
	case f.Verdict == view.VerdictConfirmed:
		t.Confirmed++
	case f.Verdict == view.VerdictRefuted:
		t.Refuted++
	}
}

func (c *PredictionCoverage) add(p *view.Prediction) {
	var t Tally
	t.add(p)
	c.Rate.Denominator++
	c.Rate.Numerator += t.Confirmed + t.Refuted
	c.Confirmed += t.Confirmed
	c.Refuted += t.Refuted
	c.Void += t.Void
	c.Unresolved += t.Unresolved
	c.Reported += t.Reported
	c.NotDue += t.Open
}

func square(x float64) float64 { return x * x }

func clamp(p float64) float64 { return min(max(p, clampAt), 1-clampAt) }

// surprise is −ln of the probability that p gave to the outcome.
func surprise(p, outcome float64) float64 {
	if outcome == 0 {
		p = 1 - p
	}
	return -math.Log(p)
}

// loss sums page by page in the order of prediction ids, so that it is the same
// each time.
type loss struct {
	N, Filled         int64
	Sum               float64
	FillBest, FillBad float64
}

func (l *loss) score(x float64) {
	l.N++
	l.Sum += x
}

func (l *loss) fill(a, b float64) {
	l.Filled++
	l.FillBest += min(a, b)
	l.FillBad += max(a, b)
}

func (l *loss) result() Loss {
	out := Loss{Value: divide(l.Sum, l.N)}
	if l.Filled > 0 {
		out.Best, out.Worst = divide(l.Sum+l.FillBest, l.N+l.Filled), divide(l.Sum+l.FillBad, l.N+l.Filled)
	}
	return out
}
