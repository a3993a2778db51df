package resolver

import (
	"cmp"
	"slices"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver/calls"
	"assay/resolver/criterion"
)

// action is a tool call that succeeded, as its best witness tells it.
type action struct {
	call       ledger.Seq // what the call is known by, whoever tells of it
	seq        ledger.Seq // the record that counts
	target     string
	namespace  string // of a harness's, which acts on its own cases only; "" of a dispatcher's
	start, end time.Time
}

// actionOf dates a tool call by its witness's word or, where that is unknown or
// absurd, by when the ledger heard of it.
func actionOf(rec ledger.Record, role string, call *calls.Call, d *events.ToolCalled) action {
	a := action{call: call.First, seq: rec.Seq, target: call.Target, end: rec.RecordedAt}
	if role == "harness" {
		a.namespace = rec.Namespace
	}
	sane := func(t time.Time) bool {
		return !t.Before(rec.RecordedAt.Add(-horizon)) && !t.After(rec.RecordedAt.Add(horizon))
	}
	if t, ok := events.Time(d.EndedAt); ok && sane(t) {
		a.end = t.UTC()
	}
	a.start = a.end
	if t, ok := events.Time(d.StartedAt); ok && sane(t) && t.Before(a.end) {
		a.start = t.UTC()
	}
	return a
}

// concerns says whether the action can be one that p is about.
func (a *action) concerns(p *prediction) bool { return a.namespace == "" || a.namespace == p.namespace }

// maxActions bounds the actions that are remembered, of whatever target.
const maxActions = 100_000

// actionLog is the actions of the last while, so that an outcome is not laid to
// one of them alone.
type actionLog struct {
	list     []*action // with a target, by seq
	byTarget map[string][]*action
	gone     time.Time // end of the last action that is forgotten: from then on all are known
}

func newActionLog() actionLog { return actionLog{byTarget: make(map[string][]*action)} }

// note adds an action on a target, behind those of earlier records.
func (l *actionLog) note(a action) {
	if a.target != "" {
		l.list = append(l.list, &a)
		l.byTarget[a.target] = append(l.byTarget[a.target], &a)
	}
}

// remove takes out the action of a record, if it is there.
func (l *actionLog) remove(seq ledger.Seq) {
	bySeq := func(a *action, seq ledger.Seq) int { return cmp.Compare(a.seq, seq) }
	i, ok := slices.BinarySearchFunc(l.list, seq, bySeq)
	if !ok {
		return
	}
	target := l.list[i].target
	l.list = slices.Delete(l.list, i, i+1)
	on := l.byTarget[target]
	i, _ = slices.BinarySearchFunc(on, seq, bySeq)
	if l.byTarget[target] = slices.Delete(on, i, i+1); len(l.byTarget[target]) == 0 {
		delete(l.byTarget, target)
	}
}

// forget drops the oldest beyond the horizon or maxActions.
func (l *actionLog) forget(now time.Time) {
	for old := now.Add(-horizon); len(l.list) > 0 && (len(l.list) > maxActions || l.list[0].end.Before(old)); {
		a := l.list[0]
		if a.end.After(l.gone) {
			l.gone = a.end
		}
		if l.byTarget[a.target] = l.byTarget[a.target][1:]; len(l.byTarget[a.target]) == 0 {
			delete(l.byTarget, a.target)
		}
		l.list[0] = nil
		l.list = l.list[1:]
	}
}

// others are the actions on p's target beside its own.
func (l *actionLog) others(p *prediction) []action {
	var out []action
	for _, a := range l.byTarget[p.act.target] {
		if a.call != p.act.call && a.concerns(p) {
			out = append(out, *a)
		}
	}
	return out
}

// Bounds of a placebo's earlier telemetry.
const (
	placeboWindows  = 24
	placeboSegments = 2000
	placeboSamples  = 500_000
)

// maxOthers is how many other actions an event names.
const maxOthers = 64

// attribute says how far the outcome can be laid to the action. What was not
// looked at is null: there is nothing to attribute without an action on a
// target.
func (m *Machine) attribute(p *prediction, ev evidence, res criterion.Result) (events.Attribution, error) {
	out := events.Attribution{Kind: criterion.TemporalOnly}
	if p.act == nil || p.act.target == "" || res.Outcome == criterion.Unknown {
		return out, nil
	}
	in := criterion.AttributionInput{Input: p.input(ev), Result: res, P: p.p, ActionStart: p.act.start, PreClosed: true}
	for _, w := range p.watches {
		reached := m.reached(m.source(w.limits.Signal.Source))
		in.PreClosed = in.PreClosed && !p.act.start.Add(w.limits.Lateness).After(reached)
	}
	var before time.Time // end of the last action before this one
	known := !m.actions.gone.After(p.act.start)
	for _, a := range m.actions.others(p) {
		switch {
		case a.end.Before(p.act.start):
			if a.end.After(before) {
				before = a.end
			}
		case a.start.Before(p.window.End):
			in.Others = append(in.Others, uint64(a.seq))
		}
	}
	if known && res.Outcome == criterion.True {
		span, samples, err := m.placebo(p, before)
		if err != nil {
			return out, err
		}
		in.Placebo, in.Samples = span, append(samples, in.Samples...)
	}
	return attributionOf(criterion.Attribute(in), in, known), nil
}

// placebo loads earlier telemetry of p's clauses, in which nobody acted on its
// target: at most placeboWindows of its windows before the action, less where an
// earlier action, the horizon, or placeboSegments or placeboSamples over all of
// its sources ends it. The span is nil when nothing is left.
func (m *Machine) placebo(p *prediction, before time.Time) (*criterion.Span, []criterion.Sample, error) {
	to := p.act.start
	from := to.Add(-placeboWindows * p.criterion.Window.Length)
	for _, t := range []time.Time{before, m.actions.gone, m.now.Add(-horizon)} { // the sources remember as much
		if t.After(from) {
			from = t
		}
	}
	from = affordable(p.sources, from, to)
	if !from.Before(to) {
		return nil, nil, nil
	}
	past := *p
	past.since, past.until, past.series, past.watches = from, to, nil, nil
	if err := past.parse(); err != nil {
		return nil, nil, err
	}
	past.criterion.Controls = nil
	if err := m.loadApart([]*prediction{&past}); err != nil {
		return nil, nil, err
	}
	return &criterion.Span{Start: from, End: to}, past.gather().samples, nil
}

// affordable is from or, where the segments of all sources that may hold samples
// in [from, to) are too many, the end of the newest that is one too many.
func affordable(sources []*source, from, to time.Time) time.Time {
	left := make([][]sealed, len(sources)) // of each source, those not looked at yet: the last is its newest
	for i, src := range sources {
		left[i] = src.segments
	}
	for segments, samples := 0, int64(0); ; {
		var newest *sealed
		at := 0
		for i, list := range left {
			if n := len(list); n > 0 && (newest == nil || list[n-1].end.After(newest.end)) {
				newest, at = &list[n-1], i
			}
		}
		if newest == nil || !newest.end.After(from) {
			return from
		}
		left[at] = left[at][:len(left[at])-1]
		if !newest.earliest.Before(to) {
			continue
		}
		segments++
		if samples += newest.samples; segments > placeboSegments || samples > placeboSamples {
			return newest.end
		}
	}
}

// attributionOf is what an event says of it.
func attributionOf(a criterion.Attribution, in criterion.AttributionInput, known bool) events.Attribution {
	out := events.Attribution{Kind: a.Kind}
	if known {
		out.Others = append([]uint64{}, in.Others[:min(len(in.Others), maxOthers)]...)
	}
	if b := a.BaseRate; b != nil {
		out.Placebo = &events.Placebo{
			Windows: int64(b.Windows), Confirmed: int64(b.Confirmed), Episodes: int64(b.Episodes), K: &b.K, Upper: &b.Upper,
		}
	}
	if n := len(in.Criterion.Controls); n > 0 && len(a.Controls) > 0 {
		out.Controls = &events.Controls{N: int64(n), Changed: changed(a.Controls, n)}
	}
	return out
}

// changed counts the controls of which a clause's series went from failing to
// passing; nil when that is not known of one. They come n a clause.
func changed(list []criterion.Comparison, n int) *int64 {
	var total int64
	for i := range n {
		any := criterion.False
		for j := i; j < len(list); j += n {
			any = criterion.Or(any, list[j].Changed())
		}
		switch any {
		case criterion.Unknown:
			return nil
		case criterion.True:
			total++
		}
	}
	return &total
}
