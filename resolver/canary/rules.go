package canary

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
	"assay/resolver/calls"
)

const (
	// maxWindow keeps a window within what a duration can say, in seconds.
	maxWindow = 10 * 365 * 24 * 3600
	// minBaseline is the least latency that another is compared with, in
	// milliseconds: next to nothing at all everything is slow.
	minBaseline = 0.001
	// maxNumber is the largest number that an event may hold.
	maxNumber = 1 << 53
	// maxCap is the most calls in a week of what is still a bounded rollout. It
	// bounds what the fold remembers.
	maxCap = 10_000
)

// Lint says what is wrong with a canary's cap and criteria; nil if nothing is.
func Lint(d *events.CanaryStarted) error {
	var errs []error
	if d.CapPerWeek > maxCap {
		errs = append(errs, fmt.Errorf("/cap_per_week: at most %d calls a week are a bounded rollout", maxCap))
	}
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
		if c.Baseline == nil || *c.Baseline < minBaseline {
			return fmt.Errorf("baseline must be %v milliseconds or more", minBaseline)
		}
	default:
		return errors.New("no such metric")
	}
	return nil
}

// called holds a tool call against the canary's bounds: one that is new, or was denied
// by a worse witness, is counted; one that a better witness denies is no more; and one
// that was counted for this canary is looked at again, as a better witness tells it.
func (f *Fold) called(rec *ledger.Record, ev *events.Event, d *events.ToolCalled) error {
	c, before, ok := f.heard.Hear(rec, f.state.Now, ev, d)
	if !ok {
		return nil
	}
	r, counted := f.state.Last, f.calls[c.First]
	switch {
	case !c.Ran() && counted != nil:
		return f.uncount(rec, ev, counted, before.Seq)
	case !c.Ran():
		return nil
	case !before.Ran():
		f.count(rec, &c)
	case r.Over != "" || counted == nil || counted.Seq < r.Seq:
		return nil // it was another canary's, or this one's before its end
	}
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
	ms := latency(d)
	if ms == nil && !before.Ran() {
		return nil
	}
	for i, c := range r.Start.Criteria {
		if c.Metric != LatencyRatio {
			continue
		}
		r.Windows[i].remove(before.Seq)
		if ms != nil && (c.Tool == nil || *c.Tool == d.Tool) {
			r.Windows[i].add(value{Seq: rec.Seq, At: f.state.Now, Bad: *ms / *c.Baseline > *c.Threshold, MS: *ms})
		}
	}
	return f.criteria(rec, ev, LatencyRatio)
}

// count notes a call that was let run.
func (f *Fold) count(rec *ledger.Record, c *calls.Call) {
	r := f.state.Last
	r.ThisWeek++
	if r.Over == "" {
		n := &call{ID: c.ID, First: c.First, Seq: rec.Seq, At: f.state.Now}
		f.state.Calls = append(f.state.Calls, n)
		f.add(n)
	}
}

// uncount takes back what count noted, and with it the latency of record told and what
// rechecks said of it.
func (f *Fold) uncount(rec *ledger.Record, ev *events.Event, c *call, told ledger.Seq) error {
	f.state.Calls = slices.DeleteFunc(f.state.Calls, func(o *call) bool { return o == c })
	f.indexCalls()
	r := f.state.Last
	if r.Over != "" || c.Seq < r.Seq {
		return nil
	}
	if c.Seq > r.Week {
		r.ThisWeek--
	}
	f.replace(LatencyRatio, told, value{}, false)
	f.replace(SuccessDrop, c.Checked, value{}, false)
	if err := f.criteria(rec, ev, LatencyRatio); err != nil || r.Over != "" {
		return err
	}
	return f.criteria(rec, ev, SuccessDrop)
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
	r, cut := f.state.Last, events.CutTime(ev, rec.RecordedAt)
	r.reach(cut)
	p := r.Promises[ev.ID]
	if p == nil || p.Verdict != "" {
		return nil
	}
	p.Cut = cut
	return f.rule(rec, ev, p, d.Verdict, d.Resolver)
}

// reach moves up to where the resolver has published.
func (r *rollout) reach(cut time.Time) {
	if cut.After(r.Reached) {
		r.Reached = cut
	}
}

// amended changes a verdict. What comes too late is a note, and another
// engine's opinion moves nothing but the place of the last change.
func (f *Fold) amended(rec *ledger.Record, ev *events.Event, d *events.PredictionResolutionAmended) error {
	r, cut := f.state.Last, events.CutTime(ev, rec.RecordedAt)
	r.reach(cut)
	p := r.Promises[d.Supersedes]
	if p == nil || p.Verdict == "" || events.TooLate(p.Cut, cut) {
		return nil
	}
	delete(r.Promises, d.Supersedes)
	r.Promises[ev.ID] = p
	if d.Cause == "engine" {
		return nil
	}
	return f.rule(rec, ev, p, d.Verdict, d.Resolver)
}

// rule gives a prediction its present verdict.
func (f *Fold) rule(rec *ledger.Record, ev *events.Event, p *promise, verdict string, by events.ResolverIdentity) error {
	if by.IsReport() {
		verdict = resolver.Unresolved
	}
	before := *p
	p.Verdict, p.Seq = verdict, rec.Seq
	decided := verdict == resolver.Confirmed || verdict == resolver.Refuted
	f.replace(FailureRate, before.Seq, value{Seq: rec.Seq, At: f.state.Now, Bad: verdict == resolver.Refuted}, decided)
	if before.Verdict == resolver.Confirmed && verdict == resolver.Refuted {
		return f.violated(rec, ev, FailureRate, "a confirmed prediction turned out to be refuted", before.Seq)
	}
	return f.criteria(rec, ev, FailureRate)
}

// rechecked notes whether a repair of the canary held.
func (f *Fold) rechecked(rec *ledger.Record, ev *events.Event, d *events.FixRechecked) error {
	if d.ToolCallID == nil || d.Result == "inconclusive" || !d.Direct {
		return nil
	}
	c := f.byID[*d.ToolCallID]
	if c == nil || c.Seq < f.state.Last.Seq {
		return nil
	}
	held := d.Result == "confirmed"
	before, at := c.Held, c.Checked
	c.Held, c.Checked = &held, rec.Seq
	f.replace(SuccessDrop, at, value{Seq: rec.Seq, At: f.state.Now, Bad: !held}, true)
	if before != nil && *before && !held {
		return f.violated(rec, ev, SuccessDrop, "a repair that had held no longer does", at)
	}
	return f.criteria(rec, ev, SuccessDrop)
}

// replace puts a value, if it counts, where the one of record old was in the
// windows of a metric; 0 is none.
func (f *Fold) replace(metric string, old ledger.Seq, v value, counts bool) {
	r := f.state.Last
	for i, c := range r.Start.Criteria {
		if c.Metric != metric {
			continue
		}
		r.Windows[i].remove(old)
		if counts {
			r.Windows[i].add(v)
		}
	}
}

// violated ends the canary if it has the criterion for it, and otherwise looks at
// those of the metric that changed.
func (f *Fold) violated(rec *ledger.Record, ev *events.Event, metric, reason string, before ledger.Seq) error {
	for _, c := range f.state.Last.Start.Criteria {
		if c.Metric == Violation {
			return f.rollBack(rec, ev, finding{rule: Violation, reason: reason, evidence: []ledger.Seq{before, rec.Seq}})
		}
	}
	return f.criteria(rec, ev, metric)
}

// criteria looks at those of a metric, in their order, up to the first that
// applies.
func (f *Fold) criteria(rec *ledger.Record, ev *events.Event, metric string) error {
	r := f.state.Last
	for i, c := range r.Start.Criteria {
		if c.Metric != metric {
			continue
		}
		w := &r.Windows[i]
		w.expire(f.state.Now.Add(-time.Duration(*c.WindowS) * time.Second))
		if w.N < *c.MinN {
			continue
		}
		x := measure(c, w)
		if x == nil {
			continue
		}
		n := w.N
		x.rule, x.threshold, x.baseline, x.n, x.evidence = metric, c.Threshold, c.Baseline, &n, w.seqs()
		return f.rollBack(rec, ev, *x)
	}
	return nil
}

// rounding is how far a rate may fall short of its threshold by arithmetic:
// 0.70 − 0.65 is not 0.05 in binary.
const rounding = 1e-9

// measure holds what is in the window of a criterion against its threshold; nil
// when it does not apply.
func measure(c events.CanaryCriterion, w *window) *finding {
	switch c.Metric {
	case FailureRate:
		return failureRate(c, w)
	case SuccessDrop:
		return successDrop(c, w)
	}
	return latencyRatio(c, w)
}

func failureRate(c events.CanaryCriterion, w *window) *finding {
	rate := float64(w.Bad) / float64(w.N)
	if rate < *c.Threshold-rounding {
		return nil
	}
	return &finding{reason: fmt.Sprintf("%d of %d predictions were refuted", w.Bad, w.N), value: &rate}
}

func successDrop(c events.CanaryCriterion, w *window) *finding {
	held := w.N - w.Bad
	drop := (*c.Baseline - float64(held)/float64(w.N)) * 100
	if drop < *c.Threshold-rounding {
		return nil
	}
	return &finding{
		reason: fmt.Sprintf("%d of %d repairs held, %.4g points under the baseline of %.4g", held, w.N, drop, *c.Baseline),
		value:  &drop,
	}
}

// latencyRatio needs no order until it applies: the 95th percentile is over the
// limit when fewer latencies than its rank are within.
func latencyRatio(c events.CanaryCriterion, w *window) *finding {
	rank := (95*w.N + 99) / 100 // ⌈0.95 n⌉
	if w.N-w.Bad >= rank {
		return nil
	}
	p95 := w.latencies()[rank-1]
	x := &finding{reason: fmt.Sprintf("the 95th percentile of %d latencies is %.6g ms, the baseline %.6g ms", w.N, p95, *c.Baseline)}
	if ratio := p95 / *c.Baseline; ratio <= maxNumber {
		x.value = &ratio
	}
	return x
}
