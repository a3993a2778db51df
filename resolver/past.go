package resolver

import (
	"slices"
	"sort"
	"time"

	"assay/events"
	"assay/resolver/criterion"
)

// ruling is what evidence and reports come to.
type ruling struct {
	verdict string
	reason  string // of unresolved
	kind    string // of the resolver: telemetry, operator or sandbox
}

// Kinds of a resolver.
const (
	byTelemetry = "telemetry"
	byOperator  = "operator"
	bySandbox   = "sandbox"
)

// Causes of an amendment. One by another engine is the operator's decision and
// never this fold's.
const (
	causeLate      = "late_telemetry"
	causeCorrected = "corrected_telemetry"
	causeReport    = "operator_report"
)

// telemetryRuling is what the evidence alone comes to.
func telemetryRuling(res criterion.Result) ruling {
	switch res.Outcome {
	case criterion.True:
		return ruling{verdict: Confirmed, kind: byTelemetry}
	case criterion.False:
		return ruling{verdict: Refuted, kind: byTelemetry}
	}
	return ruling{Unresolved, res.Reason.String(), byTelemetry}
}

// settleDown turns a prediction that has its ruling into one that may be
// amended.
func (m *Machine) settleDown(p *prediction) {
	delete(m.preds, p.key)
	m.done[settledKey(p.key)] = struct{}{}
	m.past[p.key] = p
	p.ignore()
	p.state = Settled
	m.schedule(p, m.now.Add(events.AmendableFor))
	if p.closing == 0 {
		m.shelve(p)
	} else {
		p.attend()
	}
}

// revise looks at a settled prediction again. While its window is open nothing
// but a verdict counts, for the reason why there is none still changes. A report
// that stands is not replaced by another reason for not knowing.
func (m *Machine) revise(p *prediction, c cut, ev evidence, res criterion.Result) error {
	now := telemetryRuling(res)
	if now == p.ruling || now.verdict == Unresolved && (p.closing > 0 || p.ruling.kind != byTelemetry) {
		return nil
	}
	cause := causeLate
	if ev.corrects(p.lastCut) {
		cause = causeCorrected
	}
	if err := m.amend(p, c, cause, now, ev, res); err != nil {
		return err
	}
	if p.closing > 0 {
		p.ignore()
		p.attend()
	}
	return m.applyReports(p, c)
}

// letGo ends the time in which p may be amended.
func (m *Machine) letGo(p *prediction) {
	p.release()
	p.unshelve()
	for _, src := range p.sources {
		src.pinned--
	}
	delete(m.past, p.key)
	*p = prediction{seq: p.seq, state: Settled} // queues may still point at it
}

// pin makes the sources remember their segments as long as p may need them.
func (m *Machine) pin(p *prediction) {
	p.pinned = true
	for _, w := range p.watches {
		src := m.source(w.limits.Signal.Source)
		if slices.Contains(p.sources, src) {
			continue
		}
		p.sources = append(p.sources, src)
		src.pinned++
		src.pins.sweep(src.pinned, func(t timed) bool { return t.pred.pinned })
		src.pins.add(p.since, p)
	}
}

// remembered says whether everything that p rests on can be loaded again.
func (p *prediction) remembered() bool {
	return !slices.ContainsFunc(p.sources, func(src *source) bool { return src.forgotten.After(p.since) })
}

// shelf is the settled predictions that the late samples of one series concern.
type shelf struct {
	src       *source
	signal    string
	key       string // of its labels
	anyLabels bool
	list      []placed // by until
	live      int      // of them still on the shelf
}

// placed is a prediction on a shelf: what it rests on lies in [since, until).
type placed struct {
	since, until time.Time
	pred         *prediction
}

// shelf finds or makes one.
func (src *source) shelf(signal string, labels map[string]string, anyLabels bool) *shelf {
	by := src.signal(signal)
	if anyLabels {
		if by.shelf == nil {
			by.shelf = &shelf{src: src, signal: signal, anyLabels: true}
		}
		return by.shelf
	}
	key := string(labelKey(nil, labels))
	if by.shelves[key] == nil {
		by.shelves[key] = &shelf{src: src, signal: signal, key: key}
	}
	return by.shelves[key]
}

func (sh *shelf) put(p *prediction) {
	if slices.Contains(p.shelves, sh) {
		return
	}
	p.shelves = append(p.shelves, sh)
	sh.live++
	if len(sh.list) > 2*sh.live+minSweep {
		sh.list = slices.DeleteFunc(sh.list, func(e placed) bool { return !e.pred.shelved })
	}
	i := sort.Search(len(sh.list), func(i int) bool { return sh.list[i].until.After(p.until) })
	sh.list = slices.Insert(sh.list, i, placed{p.since, p.until, p})
}

func (sh *shelf) remove() {
	if sh.live--; sh.live > 0 {
		return
	}
	by := sh.src.series[sh.signal]
	if sh.anyLabels {
		by.shelf = nil
	} else {
		delete(by.shelves, sh.key)
	}
	sh.src.tidy(sh.signal)
}

// touch marks the predictions that the sample concerns. One that comes in order,
// after all that they rest on, costs one comparison.
func (sh *shelf) touch(s *criterion.Sample, touched map[*prediction]bool) {
	for i := len(sh.list) - 1; i >= 0 && s.Time.Before(sh.list[i].until); i-- {
		if e := &sh.list[i]; e.pred.shelved && !s.Time.Before(e.since) {
			touched[e.pred] = true
		}
	}
}

// shelve lets go of all that p holds for places on shelves. Its controls have
// none: they never change a ruling.
func (m *Machine) shelve(p *prediction) {
	p.shelved = true
	for _, w := range p.watches {
		src := m.source(w.limits.Signal.Source)
		src.shelf(w.clause.Signal, w.clause.Labels, false).put(p)
		if h := w.limits.Signal.Heartbeat; h != w.clause.Signal {
			src.shelf(h, nil, true).put(p)
		}
	}
	for _, src := range p.sources {
		src.shelved++
		if p.until.After(src.shelfEnd) {
			src.shelfEnd = p.until
		}
	}
	p.release()
	p.putBack()
}

func (p *prediction) unshelve() {
	if !p.shelved {
		return
	}
	p.shelved = false
	for _, sh := range p.shelves {
		sh.remove()
	}
	for _, src := range p.sources {
		src.shelved--
	}
}

// loadApart loads again what predictions rest on, each segment once, into
// series of their own. putBack lets go of that.
func (m *Machine) loadApart(list []*prediction) error {
	copies := make(map[string]*source)
	var until time.Time
	missing := make(map[*source][]*series)
	for _, p := range list {
		if err := p.parse(); err != nil {
			return err
		}
		fresh := p.take(func(name string) *source {
			if copies[name] == nil {
				copies[name] = newSource(name)
				copies[name].segments = m.sources[name].segments
			}
			return copies[name]
		})
		for src, list := range fresh {
			for _, se := range list {
				if !slices.Contains(missing[src], se) {
					missing[src] = append(missing[src], se)
				}
			}
		}
		if p.until.After(until) {
			until = p.until
		}
	}
	for src, list := range missing {
		if err := src.load(list, until, &m.segments); err != nil {
			return err
		}
	}
	return nil
}

func (p *prediction) putBack() {
	if p.shelved {
		p.criterion, p.watches, p.series = criterion.Criterion{}, nil, nil
	}
}
