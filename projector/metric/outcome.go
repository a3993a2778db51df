package metric

import (
	"math"

	"assay/projector/view"
)

// Useful counts verified useful conclusions (C9), as the metric useful_conclusions
// does: claims, each once, that were asserted when their first confirmation was
// decided, by a scorable prediction or an independent fix-and-recheck, and that
// nothing refuted.
type Useful struct {
	Count        int64 `json:"count"`
	ByPrediction int64 `json:"by_prediction"` // of Count, those that a prediction confirmed first
	ByRecheck    int64 `json:"by_recheck"`    // of Count, the others
	Edges        int64 `json:"causal_edges"`  // of Count, claims of a causal edge
	Propositions int64 `json:"propositions"`  // of Count, claims of a value
	Asserted     int64 `json:"asserted"`      // claims that are asserted now
	Claims       int64 `json:"claims"`        // all claims
	// AssertedAfter is how many claims that are asserted now would count had they
	// been so when their first confirmation was decided.
	AssertedAfter int64 `json:"asserted_after_outcome"`
	// Refuted is how many claims were confirmed, and do not count because a
	// prediction on them was refuted or their latest recheck did not hold.
	Refuted int64 `json:"refuted"`
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
// was confirmed or refuted by telemetry.
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

func (c *computer) claim(sc *view.ShadowCase) error {
	cov, cl := &c.Coverage.Claims, &sc.Claim
	f, err := c.follow(cl, sc.Predictions, sc.Rechecks)
	if err == nil {
		err = c.useful(cl, f)
	}
	if err != nil {
		return err
	}
	if c.young(cl.RecordedAt) {
		cov.Young++
		return nil
	}
	cov.Rate.Denominator++
	count(&cov.Rate.Numerator, f.settled != nil)
	count(&cov.WithoutPrediction, cl.Predictions == 0)
	return nil
}

func (c *computer) useful(cl *view.Claim, f past) error {
	u, asserted := &c.Useful, cl.Status == view.StatusAsserted
	u.Claims++
	count(&u.Asserted, asserted)
	if f.confirmed == nil {
		return nil
	}
	why, err := c.notUseful(cl, f)
	switch {
	case err != nil:
		return err
	case why != "":
		count(&u.Refuted, why == whyRefuted)
		count(&u.AssertedAfter, why == whyNotAsserted && asserted)
		return nil
	}
	u.Count++
	count(&u.ByPrediction, f.confirmed.by == byPrediction)
	count(&u.ByRecheck, f.confirmed.by == byRecheck)
	count(&u.Edges, cl.Edge != nil)
	count(&u.Propositions, cl.Proposition != nil)
	return nil
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}

func (c *computer) prediction(p *view.Prediction) error {
	ok, err := c.counts(p.Seq)
	if ok {
		err = c.rule(p)
	}
	if !ok || err != nil {
		return err
	}
	cov, cal := &c.Coverage.Predictions, &c.Calibration
	cov.Total.add(p)
	if c.young(p.RecordedAt) {
		cov.Young++
	} else {
		cov.add(p)
	}
	switch {
	case decided(p) && scored(p):
		happened, clamped := outcome(p), clamp(p.P)
		count(&cal.Clamped, clamped != p.P)
		c.Brier.score(square(p.P - happened))
		c.LogLoss.score(surprise(clamped, happened))
	case decided(p):
		cal.Unscorable++
	case fillable(p):
		clamped := clamp(p.P)
		c.Brier.fill(square(p.P), square(p.P-1))
		c.LogLoss.fill(surprise(clamped, 0), surprise(clamped, 1))
	}
	return nil
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

// loss sums in billionths, so that the sum is the same in every order.
type loss struct {
	N, Filled         int64
	Sum               int64
	FillBest, FillBad int64
}

// perLoss is in how many parts a loss is counted.
const perLoss = 1_000_000_000

func lossParts(x float64) int64 { return int64(math.Round(x * perLoss)) }

func (l *loss) score(x float64) {
	l.N++
	l.Sum += lossParts(x)
}

func (l *loss) fill(a, b float64) {
	l.Filled++
	l.FillBest += lossParts(min(a, b))
	l.FillBad += lossParts(max(a, b))
}

func (l *loss) result() Loss {
	mean := func(sum, n int64) *float64 { return divide(float64(sum)/perLoss, n) }
	out := Loss{Value: mean(l.Sum, l.N)}
	if l.Filled > 0 {
		out.Best, out.Worst = mean(l.Sum+l.FillBest, l.N+l.Filled), mean(l.Sum+l.FillBad, l.N+l.Filled)
	}
	return out
}
