package resolver

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
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

// past is the settled predictions. The name of each stays for ever; those that
// may be amended are the last ones, for all may be for equally long.
type past struct {
	names    table[ledger.Hash, struct{}] // settledKey of each, in the order in which they were settled
	first    int                          // number of list[0] in names
	list     []kept
	watching map[int]*prediction // by number, those that still hold their series
	live     int                 // of list, those that may be amended
}

// kept is a prediction on the shelves; zero for one that is not there yet, or no more.
type kept struct {
	packed string
	terms  *terms
}

// terms are the words of a promise, the registry that judges them and where late
// samples look for it: what predictions with the same words have in common.
type terms struct {
	termsKey
	held    int // by predictions on the shelves
	shelves []*shelf
	sources []*source
}

type termsKey struct {
	raw      string // the criterion's bytes
	registry *criterion.Registry
}

// add takes in the name of a prediction that is settled.
func (p *past) add(key predKey) (n int) {
	p.list = append(p.list, kept{})
	return p.names.put(settledKey(key), struct{}{})
}

// find is the number of a prediction that may be amended.
func (p *past) find(key predKey) (n int, ok bool) {
	n, ok = p.names.find(settledKey(key))
	return n, ok && n >= p.first && (p.watching[n] != nil || p.list[n-p.first].terms != nil)
}

// get is a prediction that may be amended. One that is on the shelves is made
// anew: what becomes of it counts only once it is put.
func (p *past) get(n int) *prediction {
	if w := p.watching[n]; w != nil {
		return w
	}
	k := p.list[n-p.first]
	out, _ := unpack(k.packed) // of our own making, or looked through when it was restored
	out.nth, out.raw, out.registry, out.sources = n, jsontext.Value(k.terms.raw), k.terms.registry, k.terms.sources
	return out
}

// glance is what get begins with, of one on the shelves.
func (p *past) glance(n int) glance { return glanceAt(p.list[n-p.first].packed) }

// ref names a prediction without unpacking it.
type ref struct {
	seq ledger.Seq
	p   *prediction // nil on the shelves
	nth int         // there
}

func (r ref) compare(other ref) int { return cmp.Compare(r.seq, other.seq) }

// put keeps what became of a prediction that get made.
func (p *past) put(q *prediction) {
	if q.shelved {
		p.list[q.nth-p.first].packed = q.pack()
	}
}

// settleDown turns a prediction that has its ruling into one that may be
// amended.
func (m *Machine) settleDown(p *prediction) {
	delete(m.preds, p.key)
	p.ignore()
	p.state, p.deadline = Settled, m.now.Add(events.AmendableFor)
	p.nth = m.past.add(p.key)
	m.past.live++
	if p.closing == 0 {
		m.shelve(p)
	} else {
		m.past.watching[p.nth] = p
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

// letGo ends the time in which the first of the settled may be amended, as long as
// that is over. They come in the order of their deadlines.
func (m *Machine) letGo() {
	past := &m.past
	for len(past.list) > 0 {
		n, k := past.first, past.list[0]
		p := past.watching[n]
		switch {
		case p != nil && p.deadline.Before(m.now):
			delete(past.watching, n)
			p.unpin()
			p.release()
			p.clear()
			past.live--
		case k.terms != nil && past.glance(n).deadline.Before(m.now):
			m.unshelve(n, k.terms)
			past.live--
		case p != nil || k.terms != nil:
			return
		}
		past.list[0] = kept{}
		past.first, past.list = n+1, past.list[1:]
	}
}

// clear leaves of a prediction what queues need that still point at it.
func (p *prediction) clear() { *p = prediction{seq: p.seq, state: Settled, shelved: true} }

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

// unpin ends what pin began.
func (p *prediction) unpin() {
	p.pinned = false
	for _, src := range p.sources {
		src.pinned--
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

// placed is a prediction on a shelf, by its number in past: what it rests on lies in
// [since, until).
type placed struct {
	since, until stamp
	nth          int
}

// stamp is a time in nanoseconds from the Unix epoch. All that lies before the year
// 1678 or after 2262 is equally far.
type stamp int64

func stampOf(t time.Time) stamp {
	const furthest = math.MaxInt64/1_000_000_000 - 1
	switch s := t.Unix(); {
	case s > furthest:
		return math.MaxInt64
	case s < -furthest:
		return math.MinInt64
	}
	return stamp(t.UnixNano())
}

func (s stamp) time() time.Time { return time.Unix(0, int64(s)).UTC() }

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

// put adds a prediction; those before first are let go of.
func (sh *shelf) put(e placed, first int) {
	sh.live++
	if len(sh.list) > 2*sh.live+minSweep {
		sh.list = slices.DeleteFunc(sh.list, func(e placed) bool { return e.nth < first })
	}
	i := sort.Search(len(sh.list), func(i int) bool { return sh.list[i].until > e.until })
	sh.list = slices.Insert(sh.list, i, e)
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

// touch marks the predictions that the sample concerns, those before first left
// out. One that comes in order, after all that they rest on, costs one comparison.
func (sh *shelf) touch(s *criterion.Sample, first int, late map[int]bool) {
	at := stampOf(s.Time)
	for i := len(sh.list) - 1; i >= 0 && at < sh.list[i].until; i-- {
		if e := &sh.list[i]; e.nth >= first && at >= e.since {
			late[e.nth] = true
		}
	}
}

// shelve lets go of all that p holds for places on shelves.
func (m *Machine) shelve(p *prediction) {
	t := m.termsOf(p)
	m.past.list[p.nth-m.past.first] = kept{p.pack(), t}
	m.putOnShelves(placed{stampOf(p.since), stampOf(p.until), p.nth}, t)
	delete(m.past.watching, p.nth)
	p.unpin()
	p.release()
	p.clear()
}

// putOnShelves gives a settled prediction its places on those of its terms.
func (m *Machine) putOnShelves(e placed, t *terms) {
	t.held++
	for _, sh := range t.shelves {
		sh.put(e, m.past.first)
	}
	for _, src := range t.sources {
		src.shelved++
		src.need(e, m.past.first)
		src.shelfEnd = max(src.shelfEnd, e.until)
	}
}

// unshelve ends what putOnShelves began.
func (m *Machine) unshelve(n int, t *terms) {
	for _, sh := range t.shelves {
		sh.remove()
	}
	for _, src := range t.sources {
		src.shelved--
		src.outlive(n)
	}
	if t.held--; t.held == 0 {
		delete(m.terms, t.termsKey)
	}
}

// termsOf finds or makes the terms of a prediction that was parsed.
func (m *Machine) termsOf(p *prediction) *terms {
	if t := m.terms[termsKey{string(p.raw), p.registry}]; t != nil {
		return t
	}
	t := &terms{termsKey: termsKey{string(p.raw), p.registry}}
	m.findShelves(t, p)
	return t
}

// findShelves finds or makes the shelves of terms by a prediction that has them. Controls
// have none: they never change a ruling.
func (m *Machine) findShelves(t *terms, p *prediction) {
	add := func(sh *shelf) {
		if !slices.Contains(t.shelves, sh) {
			t.shelves = append(t.shelves, sh)
		}
	}
	for _, w := range p.watches {
		src := m.source(w.limits.Signal.Source)
		if !slices.Contains(t.sources, src) {
			t.sources = append(t.sources, src)
		}
		add(src.shelf(w.clause.Signal, w.clause.Labels, false))
		if h := w.limits.Signal.Heartbeat; h != w.clause.Signal {
			add(src.shelf(h, nil, true))
		}
	}
	m.terms[t.termsKey] = t
}

// need makes the source remember its segments as long as a settled prediction may
// need them; those before first are let go of.
func (src *source) need(e placed, first int) {
	if len(src.needs) > 2*src.shelved+minSweep {
		src.needs = slices.DeleteFunc(src.needs, func(e need) bool { return e.nth < first })
		heap.Init(&src.needs)
	}
	heap.Push(&src.needs, need{e.since, e.nth})
}

// outlive ends the needs of the settled predictions up to the n-th.
func (src *source) outlive(n int) {
	for len(src.needs) > 0 && src.needs[0].nth <= n {
		heap.Pop(&src.needs)
	}
}

// reopen makes of an unpacked prediction again what it was before it was shelved, but
// for its series.
func (p *prediction) reopen() error {
	since := p.since // which may be later than what place says: the sources had forgotten more
	if err := p.parse(); err != nil {
		return err
	}
	p.place(p.window.Start)
	p.since = since
	return nil
}

// loadApart loads again what parsed predictions rest on, each segment once, into
// series of their own.
func (m *Machine) loadApart(list []*prediction) error {
	copies := make(map[string]*source)
	var until time.Time
	missing := make(map[*source][]*series)
	for _, p := range list {
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
