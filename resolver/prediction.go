package resolver

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
	"assay/resolver/calls"
	"assay/resolver/criterion"
)

type predKey struct{ principal, predID string }

// actionKey is an awaited tool call; an empty target awaits any.
type actionKey struct{ tool, target string }

// prediction is one prediction's state.
type prediction struct {
	key        predKey
	seq        ledger.Seq
	eventID    string
	episode    string
	namespace  string
	opp        *string
	recordedAt time.Time
	p          float64        // the probability that it was given
	raw        jsontext.Value // the criterion's bytes
	registry   *criterion.Registry
	state      State
	reports    []report  // what operators said, one for each verdict
	deadline   time.Time // execute_by, expires_after, or the end of events.AmendableFor

	criterion criterion.Criterion // of raw
	watches   []*watch            // one a clause, as in criterion
	knownTo   []time.Time         // by clause, the source's capped watermark when it was recorded

	// From here on, what there is once the window has opened.
	act      *action // that opened it; nil without
	window   criterion.Span
	baseline criterion.Span // zero without
	since    time.Time      // first event time that matters
	until    time.Time      // first event time that does not
	series   []*series      // that it holds, its own and the heartbeats first
	sources  []*source      // that its clauses rest on
	pinned   bool           // their segments are remembered for it
	closing  int            // sources that the window waits for
	proving  int            // sources that the baseline waits for
	eagerTo  time.Time      // any sample before it may decide; zero for none

	// And once it is settled.
	ruling    ruling
	lastID    string     // event id of its resolution or last amendment
	lastCut   ledger.Seq // and the record that brought that about
	foreknown string
	nth       int  // its number in past
	shelved   bool // it holds nothing: packed, unpacked for one look, or over
}

// watch is one clause with the series that decide it.
type watch struct {
	pred   *prediction
	clause criterion.Clause
	limits criterion.Limits
	own    *series
	screen *criterion.Screen // while the window is open
	place  int               // in own.open
}

// record takes a prediction in. A second one of the same principal and id has
// no effect: the first is the promise.
func (m *Machine) record(rec ledger.Record, ev *events.Event, d *events.PredictionRecorded, c cut) error {
	key := predKey{rec.Principal, d.PredID}
	if _, ok := m.past.names.find(settledKey(key)); ok || m.preds[key] != nil {
		return nil
	}
	p := &prediction{
		key: key, seq: rec.Seq, eventID: ev.ID, episode: ev.EpisodeID, namespace: rec.Namespace, opp: d.Context.OpportunityID,
		recordedAt: rec.RecordedAt, p: d.P, raw: slices.Clone(d.Criterion), registry: m.cfg.Registry,
	}
	m.enter(p)
	if m.cfg.IsFinal(p.resolvedID()) {
		m.forget(p)
		return nil
	}
	for _, id := range []string{p.armedID(), p.resolvedID()} {
		if sha, ok := m.cfg.Pinned(id); ok {
			r, err := m.registry(sha)
			if err != nil {
				return err
			}
			p.registry = r
			break
		}
	}
	if fault, ok := p.lint(); !ok {
		return m.void(p, c, "invalid", &fault.Pointer, fault.Message)
	}
	for _, w := range p.watches {
		p.knownTo = append(p.knownTo, m.reached(m.source(w.limits.Signal.Source)))
	}
	if p.criterion.Action != nil {
		p.state = AwaitingAction
		m.await(p)
		return nil
	}
	return m.arm(p, nil, c)
}

// await makes p wait for its action.
func (m *Machine) await(p *prediction) {
	a := p.criterion.Action
	m.schedule(p, p.recordedAt.Add(a.ExecuteBy))
	at := actionKey{a.Tool, a.Target}
	if m.awaiting[at] == nil {
		m.awaiting[at] = make(map[*prediction]bool)
	}
	m.awaiting[at][p] = true
}

// registry finds one by its hash; each is parsed once.
func (m *Machine) registry(sha string) (*criterion.Registry, error) {
	if m.cfg.Registry.HashString() == sha {
		return m.cfg.Registry, nil
	}
	if r := m.registries[sha]; r != nil {
		return r, nil
	}
	if m.cfg.Registries == nil {
		return nil, fmt.Errorf("%w: %s", ErrRegistry, sha)
	}
	r, err := m.cfg.Registries(sha)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRegistry, sha, err)
	}
	m.registries[sha] = r
	return r, nil
}

// parse makes criterion and watches again of a criterion that passed before.
func (p *prediction) parse() error {
	if fault, ok := p.lint(); !ok {
		return fmt.Errorf("%w: prediction of record %d: %w", ErrCorrupt, p.seq, fault)
	}
	return nil
}

// lint parses and lints the criterion and makes a watch of each clause; false
// with the first fault.
func (p *prediction) lint() (criterion.Fault, bool) {
	c, err := criterion.Parse(p.raw)
	if fault, ok := errors.AsType[criterion.Fault](err); ok {
		return fault, false
	}
	if faults := criterion.Lint(c, p.registry); len(faults) > 0 {
		return faults[0], false
	}
	p.criterion, p.watches = c, nil
	for _, clause := range c.Clauses() {
		limits, _ := criterion.LimitsOf(c, clause, p.registry)
		p.watches = append(p.watches, &watch{pred: p, clause: clause, limits: limits, place: -1})
	}
	return criterion.Fault{}, true
}

// toolCalled notes what was done and matches it with the predictions that wait for
// it, but for those that were recorded when somebody had told of the call already. A
// record that tells nothing better of a call has no effect. A harness writes
// dispatcher's types for its own cases only.
func (m *Machine) toolCalled(rec ledger.Record, role string, ev *events.Event, d *events.ToolCalled, c cut) error {
	call, before, ok := m.calls.Hear(&rec, m.now, ev, d)
	if !ok {
		return nil
	}
	m.actions.remove(before.Seq)
	act := actionOf(rec, role, &call, d)
	if call.Succeeded() {
		m.actions.note(act)
		m.actions.forget(m.now)
	}
	if before.Succeeded() {
		if err := m.unarm(&call, &before, c); err != nil {
			return err
		}
	}
	keys := []actionKey{{call.Tool, ""}}
	if call.Target != "" {
		keys = append(keys, actionKey{call.Tool, call.Target})
	}
	var waiting []*prediction
	for _, key := range keys {
		for p := range m.awaiting[key] {
			if p.seq < call.First && act.concerns(p) {
				waiting = append(waiting, p)
			}
		}
	}
	slices.SortFunc(waiting, bySeq)
	for _, p := range waiting {
		m.stopAwaiting(p)
		var err error
		if call.Succeeded() {
			err = m.arm(p, &act, c)
		} else {
			err = m.void(p, c, "action_failed", nil, ended(&call))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unarm voids the open predictions whose window a call opened of which a better
// witness tells otherwise. What is settled stands.
func (m *Machine) unarm(call, before *calls.Call, c cut) error {
	if call.Succeeded() && call.Tool == before.Tool && call.Target == before.Target {
		return nil
	}
	var list []*prediction
	for _, p := range m.preds {
		if p.act != nil && p.act.call == call.First && !(call.Succeeded() && p.criterion.Action.Matches(call.Tool, call.Target)) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, bySeq)
	for _, p := range list {
		if err := m.void(p, c, "action_failed", nil, ended(call)); err != nil {
			return err
		}
	}
	return nil
}

// ended says in words how a call ended.
func ended(c *calls.Call) string {
	return fmt.Sprintf("record %d: %s ended %s", c.Seq, c.Tool, c.Status)
}

func (m *Machine) stopAwaiting(p *prediction) {
	key := actionKey{p.criterion.Action.Tool, p.criterion.Action.Target}
	delete(m.awaiting[key], p)
	if len(m.awaiting[key]) == 0 {
		delete(m.awaiting, key)
	}
}

func (m *Machine) withdraw(rec ledger.Record, d *events.PredictionWithdrawn, c cut) error {
	p := m.preds[predKey{rec.Principal, d.PredID}]
	if p == nil || p.state != AwaitingAction {
		return nil
	}
	return m.void(p, c, "withdrawn", nil, fmt.Sprintf("record %d", rec.Seq))
}

// arm opens the window and looks at what is sealed already.
func (m *Machine) arm(p *prediction, act *action, c cut) error {
	anchor := p.recordedAt
	if act != nil {
		anchor = act.end
	}
	p.act, p.state = act, WindowOpen
	p.place(anchor.Add(p.criterion.Window.Offset))
	if old := m.now.Add(-horizon); p.since.Before(old) {
		p.since = old // whatever other predictions make the sources remember
	}
	m.schedule(p, p.window.End.Add(p.criterion.ExpiresAfter))
	m.pin(p)
	m.waitFor(p, true)
	if err := m.emitArmed(p, c); err != nil {
		return err
	}
	if err := m.watch(p); err != nil {
		return err
	}
	p.attend()
	return m.look(p, c)
}

// place sets the window, the baseline, and the time that evidence may be of.
// Where controls are given the stretch before the action is needed too.
func (p *prediction) place(start time.Time) {
	p.window = criterion.Span{Start: start, End: start.Add(p.criterion.Window.Length)}
	before := p.recordedAt
	if p.act != nil {
		before = p.act.start
	}
	p.baseline = p.criterion.BaselineSpan(before)
	first := start
	if p.criterion.Baseline != nil && p.baseline.Start.Before(first) {
		first = p.baseline.Start
	}
	if pre := p.criterion.PreWindow(before); len(p.criterion.Controls) > 0 && pre.Start.Before(first) {
		first = pre.Start
	}
	var back, ahead time.Duration
	for _, w := range p.watches {
		back = max(back, max(w.limits.Staleness, w.limits.Skew)+w.limits.Skew)
		ahead = max(ahead, w.limits.Skew)
	}
	p.since, p.until = first.Add(-back), p.window.End.Add(ahead+1)
}

// waitFor puts p into the queues of its sources, once each. Those that have
// reached the time already are left out unless all is set.
func (m *Machine) waitFor(p *prediction, all bool) {
	p.closing = m.enqueue(p, p.window.End, all, func(src *source) *timeQueue { return &src.closing })
	if p.criterion.Baseline != nil {
		p.proving = m.enqueue(p, p.baseline.End, all, func(src *source) *timeQueue { return &src.proving })
	}
}

func (m *Machine) enqueue(p *prediction, end time.Time, all bool, queue func(*source) *timeQueue) (n int) {
	latest := make(map[*source]time.Time)
	for _, w := range p.watches {
		src := m.source(w.limits.Signal.Source)
		if at := end.Add(w.limits.Lateness); at.After(latest[src]) {
			latest[src] = at
		}
	}
	for src, at := range latest {
		if all || at.After(m.reached(src)) {
			q := queue(src)
			q.sweep(src.pinned, func(t timed) bool { return t.pred.pinned }) // those that a dead source was waited for
			q.add(at, p)
			n++
		}
	}
	return n
}

// watch makes p hold the series that its clauses need and those of its controls,
// and loads what they do not hold yet.
func (m *Machine) watch(p *prediction) error {
	missing := p.take(m.source)
	for src, list := range missing {
		if err := src.load(list, farFuture, &m.segments); err != nil {
			return err
		}
	}
	return nil
}

// farFuture is after every event time.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// take makes p a holder of its series among those of sources, and returns those
// that have to be loaded, by source.
func (p *prediction) take(sources func(name string) *source) map[*source][]*series {
	missing := make(map[*source][]*series)
	need := func(w *watch, signal string, labels map[string]string, anyLabels bool) *series {
		src := sources(w.limits.Signal.Source)
		se, fresh := src.find(signal, labels, anyLabels)
		if slices.Contains(p.series, se) {
			return se
		}
		p.series = append(p.series, se)
		se.hold(p)
		if fresh || p.since.Before(se.from) {
			se.from = p.since
			missing[src] = append(missing[src], se)
		}
		return se
	}
	for _, w := range p.watches {
		w.own = need(w, w.clause.Signal, w.clause.Labels, false)
	}
	for _, w := range p.watches {
		if h := w.limits.Signal.Heartbeat; h != w.clause.Signal {
			need(w, h, nil, true)
		}
	}
	for _, labels := range p.criterion.Controls {
		for _, w := range p.watches {
			need(w, w.clause.Signal, labels, false)
		}
	}
	return missing
}

// attend makes the series tell p of the samples that may decide it: by the
// screens of its clauses while the window is open, and of each sample that the
// baseline may rest on; of each sample whatever once it is closed or expired.
func (p *prediction) attend() {
	p.eagerTo = time.Time{}
	switch {
	case p.state == WindowOpen:
		for _, w := range p.watches {
			w.screen = criterion.NewScreen(w.clause, w.limits, p.window)
			for i := w.own.search(p.since); i < len(w.own.samples); i++ {
				w.screen.Add(&w.own.samples[i])
			}
			w.place = len(w.own.open)
			w.own.open = append(w.own.open, w)
		}
		if p.criterion.Baseline != nil {
			for _, w := range p.watches {
				if end := p.baseline.End.Add(w.limits.Skew + 1); end.After(p.eagerTo) {
					p.eagerTo = end
				}
			}
		}
	case p.state == Evaluable || p.state == Settled && p.ruling.verdict == Unresolved:
		p.eagerTo = p.until
	}
	if p.eagerTo.IsZero() {
		return
	}
	for _, se := range p.series {
		se.eager[p] = struct{}{}
		if p.eagerTo.After(se.eagerTo) {
			se.eagerTo = p.eagerTo
		}
	}
}

// ignore ends what attend began.
func (p *prediction) ignore() {
	for _, w := range p.watches {
		if w.place < 0 {
			continue
		}
		open := w.own.open
		last := len(open) - 1
		open[w.place] = open[last]
		open[w.place].place = w.place
		open[last] = nil
		w.own.open = open[:last]
		w.place, w.screen = -1, nil
	}
	if p.eagerTo.IsZero() {
		return
	}
	for _, se := range p.series {
		if delete(se.eager, p); len(se.eager) == 0 {
			se.eagerTo = time.Time{}
		}
	}
	p.eagerTo = time.Time{}
}

// release lets go of all series.
func (p *prediction) release() {
	p.ignore()
	list := p.series
	p.series = nil
	for _, se := range list {
		se.release(p)
	}
	for _, w := range p.watches {
		w.own = nil
	}
}

func (p *prediction) input(ev evidence) criterion.Input {
	return criterion.Input{
		Criterion: p.criterion, Registry: p.registry, Window: p.window, Samples: ev.samples, Closed: p.closing == 0,
		Baseline: p.baseline, BaselineClosed: p.proving == 0, Principal: p.key.principal,
	}
}

// look evaluates p by all that is sealed. An open prediction is resolved if that
// decides it, a settled one amended if that changes its ruling.
func (m *Machine) look(p *prediction, c cut) error {
	ev := p.gather()
	res := criterion.Evaluate(p.input(ev))
	switch {
	case p.state == Settled:
		return m.revise(p, c, ev, res)
	case res.Outcome == criterion.Unknown:
		return nil
	}
	return m.resolve(p, c, ev, res)
}

// closed is called once, when the last source is waited for no longer.
func (m *Machine) closed(p *prediction, c cut) error {
	if p.state == WindowOpen {
		p.ignore()
		p.state = Evaluable
		p.attend()
	}
	if err := m.look(p, c); err != nil {
		return err
	}
	if p.state == Settled && !p.shelved {
		m.shelve(p)
	}
	return nil
}

// expire ends what was not executed or stayed unknown.
func (m *Machine) expire(p *prediction, c cut) error {
	switch p.state {
	case Settled:
		return nil
	case AwaitingAction:
		return m.void(p, c, "not_executed", nil, "no such tool call by "+ledger.FormatTime(p.deadline))
	}
	ev := p.gather()
	return m.resolve(p, c, ev, criterion.Evaluate(p.input(ev)))
}

// forget lets go of a prediction that never comes to a verdict, but for a hash
// of its name.
func (m *Machine) forget(p *prediction) {
	if p.state == AwaitingAction {
		m.stopAwaiting(p)
	}
	delete(m.preds, p.key)
	m.past.add(p.key)
	p.unpin()
	p.release()
	p.clear()
}
