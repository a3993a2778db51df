package canary

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
)

// maxWindow keeps a window within what a duration can say.
const maxWindow = 10 * 365 * 24 * 3600

// Lint says what is wrong with a canary's criteria; nil if nothing is.
func Lint(d *events.CanaryStarted) error {
	var errs []error
	for i, c := range d.Criteria {
		if err := lint(c); err != nil {
			errs = append(errs, fmt.Errorf("/criteria/%d: %s: %w", i, c.Metric, err))
		}
	}
	return errors.Join(errs...)
}

func lint(c events.CanaryCriterion) error {
	if c.Tool != nil && c.Metric != LatencyRatio {
		return fmt.Errorf("tool is for %s only", LatencyRatio)
	}
	if c.Metric == Violation {
		if c.Threshold != nil || c.Baseline != nil || c.MinN != nil || c.WindowS != nil {
			return errors.New("it holds at once, and takes no figures")
		}
		return nil
	}
	switch {
	case c.Threshold == nil || *c.Threshold <= 0:
		return errors.New("threshold must be over 0")
	case c.MinN == nil || *c.MinN < 1:
		return errors.New("min_n must be 1 or more")
	case c.WindowS == nil || *c.WindowS < 1 || *c.WindowS > maxWindow:
		return errors.New("window_s must be between a second and ten years")
	}
	switch c.Metric {
	case FailureRate:
		if c.Baseline != nil || *c.Threshold > 1 {
			return errors.New("threshold is a fraction, and there is no baseline")
		}
	case SuccessDrop:
		if c.Baseline == nil || *c.Baseline <= 0 || *c.Baseline > 1 || *c.Threshold > 100 {
			return errors.New("baseline is a fraction over 0, threshold is in percentage points")
		}
	case LatencyRatio:
		if c.Baseline == nil || *c.Baseline <= 0 {
			return errors.New("baseline must be over 0 milliseconds")
		}
	default:
		return errors.New("no such metric")
	}
	return nil
}

// called holds a tool call against the canary's bounds.
func (f *Fold) called(rec *ledger.Record, ev *events.Event, d *events.ToolCalled) error {
	r := f.state.Last
	if slices.ContainsFunc(r.Calls, func(c *call) bool { return c.ID == d.ToolCallID && c.Tool == d.Tool }) {
		return nil // the first record of a call counts
	}
	r.ThisWeek++
	if rule, why := r.bound(d); rule != "" {
		target := ""
		if d.Target != nil {
			target = " on " + *d.Target
		}
		n, limit := r.ThisWeek, float64(r.Start.CapPerWeek)
		x := finding{rule: rule, reason: fmt.Sprintf("%s%s: %s", d.Tool, target, why), evidence: []ledger.Seq{rec.Seq}}
		if rule == BeyondCap {
			value := float64(n)
			x.value, x.threshold, x.n = &value, &limit, &n
		}
		return f.rollBack(rec, ev, x)
	}
	r.Calls = append(r.Calls, &call{ID: d.ToolCallID, Tool: d.Tool, Seq: rec.Seq, At: rec.RecordedAt, LatencyMS: latency(d)})
	return f.criteria(rec, ev, LatencyRatio)
}

// latency is the call's own field, or the context's where that is absent.
func latency(d *events.ToolCalled) *float64 {
	if d.LatencyMS == nil && d.Context.Cost != nil {
		return d.Context.Cost.LatencyMS
	}
	return d.LatencyMS
}

// bound is the rule that a call breaks; "" when it keeps them all.
func (r *rollout) bound(d *events.ToolCalled) (rule, why string) {
	if r.Over == AfterEnd {
		return AfterEnd, "the canary had ended"
	}
	if r.Over != "" {
		return AfterRollback, "the canary had been rolled back"
	}
	listed := false
	for _, a := range r.Start.Actions {
		if a.Tool != d.Tool || a.Target != nil && (d.Target == nil || *a.Target != *d.Target) {
			continue
		}
		if !a.Reversible {
			return Irreversible, "it cannot be undone"
		}
		listed = true
	}
	switch {
	case !listed:
		return NotListed, "the canary does not list it"
	case r.ThisWeek > r.Start.CapPerWeek:
		return BeyondCap, fmt.Sprintf("call %d of this week, of %d", r.ThisWeek, r.Start.CapPerWeek)
	}
	return "", ""
}

// resolved notes a prediction's verdict; of several resolutions the first counts.
func (f *Fold) resolved(rec *ledger.Record, ev *events.Event, d *events.PredictionResolved) error {
	p := f.state.Last.Promises[ev.ID]
	if p == nil || p.Verdict != "" {
		return nil
	}
	*p = promise{Verdict: d.Verdict, Seq: rec.Seq, At: rec.RecordedAt, Resolved: rec.RecordedAt}
	return f.criteria(rec, ev, FailureRate)
}

// amended changes a verdict. What comes too late is a note, and another
// engine's opinion moves nothing but the place of the last change.
func (f *Fold) amended(rec *ledger.Record, ev *events.Event, d *events.PredictionResolutionAmended) error {
	r := f.state.Last
	p := r.Promises[d.Supersedes]
	if p == nil || p.Verdict == "" || rec.RecordedAt.After(p.Resolved.Add(resolver.AmendableFor)) {
		return nil
	}
	delete(r.Promises, d.Supersedes)
	r.Promises[ev.ID] = p
	if d.Cause == "engine" {
		return nil
	}
	before := *p
	p.Verdict, p.Seq, p.At = d.Verdict, rec.Seq, rec.RecordedAt
	if before.Verdict == resolver.Confirmed && d.Verdict == resolver.Refuted {
		return f.violated(rec, ev, "a confirmed prediction turned out to be refuted", before.Seq)
	}
	return f.criteria(rec, ev, FailureRate)
}

// rechecked notes whether a repair of the canary held.
func (f *Fold) rechecked(rec *ledger.Record, ev *events.Event, d *events.FixRechecked) error {
	r := f.state.Last
	if d.ToolCallID == nil || d.Result == "inconclusive" {
		return nil
	}
	i := slices.IndexFunc(r.Calls, func(c *call) bool { return c.ID == *d.ToolCallID })
	if i < 0 {
		return nil
	}
	c, held := r.Calls[i], d.Result == "confirmed"
	before, at := c.Held, c.Checked
	c.Held, c.CheckedAt, c.Checked = &held, rec.RecordedAt, rec.Seq
	if before != nil && *before && !held {
		return f.violated(rec, ev, "a repair that had held no longer does", at)
	}
	return f.criteria(rec, ev, SuccessDrop)
}

// violated ends the canary if it has the criterion for it.
func (f *Fold) violated(rec *ledger.Record, ev *events.Event, reason string, before ledger.Seq) error {
	for _, c := range f.state.Last.Start.Criteria {
		if c.Metric == Violation {
			return f.rollBack(rec, ev, finding{rule: Violation, reason: reason, evidence: []ledger.Seq{before, rec.Seq}})
		}
	}
	return f.criteria(rec, ev, "")
}

// criteria looks at those of a metric, or at all, in their order.
func (f *Fold) criteria(rec *ledger.Record, ev *events.Event, metric string) error {
	r := f.state.Last
	for _, c := range r.Start.Criteria {
		if r.Over != "" {
			return nil
		}
		if metric != "" && c.Metric != metric {
			continue
		}
		var x *finding
		since := f.state.Now.Add(-time.Duration(orZero(c.WindowS)) * time.Second)
		switch c.Metric {
		case FailureRate:
			x = r.failureRate(c, since)
		case SuccessDrop:
			x = r.successDrop(c, since)
		case LatencyRatio:
			x = r.latencyRatio(c, since)
		}
		if x == nil {
			continue
		}
		x.rule, x.threshold, x.baseline = c.Metric, c.Threshold, c.Baseline
		if err := f.rollBack(rec, ev, *x); err != nil {
			return err
		}
	}
	return nil
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// rounding is how far a rate may fall short of its threshold by arithmetic:
// 0.70 − 0.65 is not 0.05 in binary.
const rounding = 1e-9

func (r *rollout) failureRate(c events.CanaryCriterion, since time.Time) *finding {
	var n, refuted int64
	var seqs []ledger.Seq
	for _, p := range r.Promises {
		if !p.At.After(since) || p.Verdict != resolver.Confirmed && p.Verdict != resolver.Refuted {
			continue
		}
		n++
		seqs = append(seqs, p.Seq)
		if p.Verdict == resolver.Refuted {
			refuted++
		}
	}
	if n < *c.MinN {
		return nil
	}
	rate := float64(refuted) / float64(n)
	if rate < *c.Threshold-rounding {
		return nil
	}
	return &finding{reason: fmt.Sprintf("%d of %d predictions were refuted", refuted, n), value: &rate, n: &n, evidence: seqs}
}

func (r *rollout) successDrop(c events.CanaryCriterion, since time.Time) *finding {
	var n, held int64
	var seqs []ledger.Seq
	for _, k := range r.Calls {
		if k.Held == nil || !k.CheckedAt.After(since) {
			continue
		}
		n++
		seqs = append(seqs, k.Checked)
		if *k.Held {
			held++
		}
	}
	if n < *c.MinN {
		return nil
	}
	drop := (*c.Baseline - float64(held)/float64(n)) * 100
	if drop < *c.Threshold-rounding {
		return nil
	}
	return &finding{
		reason: fmt.Sprintf("%d of %d repairs held, %.4g points under the baseline of %.4g", held, n, drop, *c.Baseline),
		value:  &drop, n: &n, evidence: seqs,
	}
}

func (r *rollout) latencyRatio(c events.CanaryCriterion, since time.Time) *finding {
	var known []float64
	var seqs []ledger.Seq
	for _, k := range r.Calls {
		if k.LatencyMS != nil && k.At.After(since) && (c.Tool == nil || *c.Tool == k.Tool) {
			known = append(known, *k.LatencyMS)
			seqs = append(seqs, k.Seq)
		}
	}
	n := int64(len(known))
	if n < *c.MinN {
		return nil
	}
	slices.Sort(known)
	p95 := known[(95*n+99)/100-1] // rank ⌈0.95 n⌉
	ratio := p95 / *c.Baseline
	if ratio <= *c.Threshold {
		return nil
	}
	return &finding{
		reason: fmt.Sprintf("the 95th percentile of %d latencies is %.6g ms, the baseline %.6g ms", n, p95, *c.Baseline),
		value:  &ratio, n: &n, evidence: seqs,
	}
}
