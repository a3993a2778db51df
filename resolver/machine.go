package resolver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/resolver/calls"
	"assay/resolver/criterion"
)

var (
	// ErrOrder means that records were not applied in ledger order.
	ErrOrder = errors.New("record out of order")
	// ErrRegistry means that a prediction pins a registry whose bytes are not at hand.
	ErrRegistry = errors.New("registry not available")
)

// Engine names the rules that this build resolves by. Another rule is another
// engine: a resolution already in the ledger can then only be amended.
const Engine = "criterion/4"

// State is where a prediction stands.
type State int8

// The states. A recorded prediction leaves Recorded with its own record.
const (
	Recorded State = iota
	AwaitingAction
	WindowOpen
	Evaluable // closed, and still unknown
	Settled
)

// String is the state's name in the contract.
func (s State) String() string {
	return [...]string{"recorded", "awaiting_action", "window_open", "evaluable", "settled"}[s]
}

// MachineConfig is what a fold depends on beside the ledger.
type MachineConfig struct {
	// Registry judges predictions that no earlier prediction.armed pins.
	Registry *criterion.Registry
	// Registries finds a pinned registry by the hash of its bytes. Nil knows
	// Registry alone.
	Registries func(sha256 string) (*criterion.Registry, error)
	// Segments loads evidence.
	Segments Segments
	// Resolver is written into each resolution.
	Resolver events.ResolverIdentity
	// Source is the CloudEvents source of the emitted events.
	Source string
	// Pinned says which registry the stored prediction.armed or
	// prediction.resolved of that event id names. Nil knows of none.
	Pinned func(id string) (registrySHA256 string, ok bool)
	// IsFinal says that the ledger has the prediction.resolved of that event id
	// and that nothing amends it any more: the prediction is not evaluated again.
	// Nil evaluates everything.
	IsFinal func(resolvedID string) bool
}

// Emission is an event that the fold calls for. The same ledger gives the same
// bytes.
type Emission struct {
	ID        string
	Type      string
	Principal string // whose prediction it is
	PredID    string
	Cut       ledger.Seq // the record that brought it about
	Event     []byte
	// Manifest, unless nil, lists more segments than an event holds; the
	// event's one reference is its SHA-256. It is stored before the event is
	// published.
	Manifest []byte
	beside   bool // of the companion: what the intake refuses of it stops nothing
}

// Machine folds records into emissions. It is not safe for concurrent use, and
// after an error it must be built anew.
//
// A prediction that is settled stays for a while. Until its window has closed
// it keeps the series that it watches, so that an early verdict is looked at
// once more with all that the window held; then, until events.AmendableFor has passed,
// it is packed and has a place on the shelves of its series, where late samples find it.
type Machine struct {
	cfg        MachineConfig
	registries map[string]*criterion.Registry // those that predictions pinned beside cfg's, by hash
	segments   memo
	seq        ledger.Seq
	now        time.Time // ledger time
	hold       *hold
	preds      map[predKey]*prediction // not settled yet
	past       past                    // settled
	terms      map[termsKey]*terms     // of those on the shelves
	ages       []*prediction           // those of preds in ledger order, and settled ones not yet let go of
	awaiting   map[actionKey]map[*prediction]bool
	calls      *calls.Log
	actions    actionLog
	deadlines  timeQueue
	sources    map[string]*source
	order      []*source // by first appearance
	skipped    int
	tooLate    int // segments with samples that came too late to amend anything
	out        []Emission
}

// hold is a clock step that nobody confirmed.
type hold struct {
	seq ledger.Seq
	at  time.Time
}

// NewMachine is a machine before record 1.
func NewMachine(cfg MachineConfig) *Machine {
	if cfg.Pinned == nil {
		cfg.Pinned = func(string) (string, bool) { return "", false }
	}
	if cfg.IsFinal == nil {
		cfg.IsFinal = func(string) bool { return false }
	}
	return &Machine{
		cfg: cfg, registries: make(map[string]*criterion.Registry), segments: memo{from: cfg.Segments},
		preds: make(map[predKey]*prediction), past: past{watching: make(map[int]*prediction)}, terms: make(map[termsKey]*terms),
		awaiting: make(map[actionKey]map[*prediction]bool), calls: calls.NewLog(horizon, nil), actions: newActionLog(), sources: make(map[string]*source),
	}
}

// Now is ledger time after the last applied record.
func (m *Machine) Now() time.Time { return m.now }

// Seq is the last applied record.
func (m *Machine) Seq() ledger.Seq { return m.seq }

// Skipped counts records that do not decode; they have no effect but on time.
func (m *Machine) Skipped() int { return m.skipped }

// TooLate counts sealed segments with samples more than events.AmendableFor older than
// ledger time: what was settled longer ago is not amended by them.
func (m *Machine) TooLate() int { return m.tooLate }

// State finds where a prediction stands; false when none was recorded.
func (m *Machine) State(principal, predID string) (State, bool) {
	key := predKey{principal, predID}
	if p, ok := m.preds[key]; ok {
		return p.state, true
	}
	_, ok := m.past.names.find(settledKey(key))
	return Settled, ok
}

// enter adds a prediction, behind those that were recorded before it.
func (m *Machine) enter(p *prediction) {
	m.preds[p.key] = p
	if len(m.ages) > 2*len(m.preds)+minSweep {
		// One that stays open must not keep all that settled since in memory.
		m.ages = slices.DeleteFunc(m.ages, func(p *prediction) bool { return p.state == Settled })
	}
	m.ages = append(m.ages, p)
}

// oldest is the open prediction that was recorded first; nil without any.
func (m *Machine) oldest() *prediction {
	for len(m.ages) > 0 && m.ages[0].state == Settled {
		m.ages[0] = nil
		m.ages = m.ages[1:]
	}
	if len(m.ages) == 0 {
		return nil
	}
	return m.ages[0]
}

// schedule sets p's next deadline; an earlier one is void.
func (m *Machine) schedule(p *prediction, at time.Time) {
	p.deadline = at
	m.deadlines.sweep(len(m.preds), func(t timed) bool { return t.at.Equal(t.pred.deadline) })
	m.deadlines.add(at, p)
}

// Apply takes the next record. Records must come in ledger order and be under
// a checkpoint; those that an operator acknowledged as foreign must not come.
//
// Time passes first: what was sealed before this record may close a window at
// its recorded_at, and then deadlines that lie before it expire. The record's
// own effect comes after that, and may do either again.
func (m *Machine) Apply(rec ledger.Record) ([]Emission, error) {
	if rec.Seq <= m.seq {
		return nil, fmt.Errorf("%w: %d after %d", ErrOrder, rec.Seq, m.seq)
	}
	m.seq, m.out = rec.Seq, nil
	m.segments.reset()
	defer m.segments.reset()
	if rec.RecordedAt.After(m.now) {
		m.now = rec.RecordedAt
	}
	cut := cut{rec.Seq, rec.RecordedAt}
	ev := m.decode(rec)
	if _, ok := ev.Data.(*events.ClockStepped); ok && role(rec) == "logger" {
		m.hold = &hold{rec.Seq, m.now} // before its own recorded_at expires anything
	}
	if err := m.settle(cut); err != nil {
		return nil, err
	}
	changed, err := m.effect(rec, ev, cut)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", rec.Seq, err)
	}
	if changed {
		if err := m.settle(cut); err != nil {
			return nil, err
		}
	}
	return m.out, nil
}

// cut is the record at which a state is left.
type cut struct {
	seq ledger.Seq
	at  time.Time
}

// settle closes windows and baselines that are waited for no longer, and expires
// what is due.
func (m *Machine) settle(c cut) error {
	if err := m.close(c); err != nil {
		return err
	}
	if m.hold != nil {
		return nil
	}
	m.letGo()
	for {
		t, ok := m.deadlines.next(func(at time.Time) bool { return at.Before(m.now) })
		if !ok {
			return nil
		}
		if !t.at.Equal(t.pred.deadline) {
			continue
		}
		if err := m.expire(t.pred, c); err != nil {
			return err
		}
	}
}

// close finds the predictions of which a source is waited for no longer. One
// that waits for none is looked at once more.
func (m *Machine) close(c cut) error {
	var due []*prediction
	for _, src := range m.order {
		reached := m.reached(src)
		passed := func(at time.Time) bool { return !at.After(reached) }
		for t, ok := src.proving.next(passed); ok; t, ok = src.proving.next(passed) {
			if p := t.pred; p.proving > 0 {
				if p.proving--; p.proving == 0 {
					due = append(due, p)
				}
			}
		}
		for t, ok := src.closing.next(passed); ok; t, ok = src.closing.next(passed) {
			if p := t.pred; p.closing > 0 {
				if p.closing--; p.closing == 0 {
					due = append(due, p)
				}
			}
		}
	}
	slices.SortFunc(due, bySeq)
	for _, p := range slices.Compact(due) {
		var err error
		switch {
		case p.closing == 0:
			err = m.closed(p, c)
		case p.state == WindowOpen:
			err = m.look(p, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reached is the source's watermark, capped at ledger time.
func (m *Machine) reached(src *source) time.Time {
	if src.watermark.After(m.now) {
		return m.now
	}
	return src.watermark
}

// effectTypes are the types that the fold decodes.
var effectTypes = []string{
	events.TypePredictionRecorded, events.TypePredictionWithdrawn, events.TypeToolCalled, events.TypeTelemetrySealed,
	events.TypeClockStepped, events.TypeClockConfirmed, events.TypeOutcomeRecorded,
}

// decode reads the events that the fold looks at; others, what does not decode and
// what was imported come back without data.
func (m *Machine) decode(rec ledger.Record) *events.Event {
	ev, err := events.DecodeEnvelope(rec.Event)
	if err == nil && slices.Contains(effectTypes, ev.Type) {
		ev, err = events.Decode(rec.Event)
	}
	if err != nil {
		m.skipped++
		return &events.Event{}
	}
	if ev.Data != nil && ev.Data.Common().IsImported() {
		return &events.Event{}
	}
	return ev
}

func role(rec ledger.Record) string {
	r, _, _ := strings.Cut(rec.Principal, "/")
	return r
}

// effect applies what the record says, if its writer may say it; changed means
// that windows or deadlines are to be looked at again.
func (m *Machine) effect(rec ledger.Record, ev *events.Event, c cut) (changed bool, err error) {
	role := role(rec)
	switch d := ev.Data.(type) {
	case *events.PredictionRecorded:
		return true, m.record(rec, ev, d, c)
	case *events.PredictionWithdrawn:
		return false, m.withdraw(rec, d, c)
	case *events.ToolCalled:
		if role == "dispatcher" || role == "harness" {
			return true, m.toolCalled(rec, role, ev, d, c)
		}
	case *events.TelemetrySealed:
		if role == "resolver" {
			return true, m.seal(rec, d, c)
		}
	case *events.OutcomeRecorded:
		if role == "operator" || role == "resolver" {
			return false, m.report(rec, d, c)
		}
	case *events.ClockConfirmed:
		if role == "operator" && m.hold != nil && ledger.Seq(d.SteppedSeq) == m.hold.seq {
			m.hold = nil
			return true, nil
		}
	}
	return false, nil
}

func (m *Machine) source(name string) *source {
	src := m.sources[name]
	if src == nil {
		src = newSource(name)
		m.sources[name] = src
		m.order = append(m.order, src)
	}
	return src
}

// seal takes a segment in and looks at the predictions that it may decide, open
// ones and settled ones. A segment that holds nothing for either is not loaded.
func (m *Machine) seal(rec ledger.Record, d *events.TelemetrySealed, c cut) error {
	end, okEnd := events.Time(&d.End)
	mark, okMark := events.Time(&d.Watermark)
	sha, err := ledger.ParseHash(d.SHA256)
	if !okEnd || !okMark || err != nil {
		m.skipped++
		return nil
	}
	earliest, _ := events.Time(d.Earliest)
	src := m.source(d.Source)
	seg := sealed{rec.Seq, earliest.UTC(), end.UTC(), d.Samples, sha}
	src.add(seg, m.now)
	if mark.After(src.watermark) {
		src.watermark = mark.UTC()
	}
	if m.hold != nil && !mark.Before(m.hold.at) {
		m.hold = nil
	}
	if d.Earliest != nil && earliest.Before(m.now.Add(-events.AmendableFor)) {
		m.tooLate++
	}
	if src.watched == 0 && (src.shelved == 0 || stampOf(seg.earliest) >= src.shelfEnd) {
		return nil
	}
	samples, err := m.segments.Load(d.SHA256)
	if err != nil {
		return fmt.Errorf("segment %s: %w", d.SHA256, err)
	}
	touched, late := make(map[*prediction]bool), make(map[int]bool)
	var buf []byte
	for i := range samples {
		by := src.series[samples[i].Signal]
		if by == nil {
			continue
		}
		s := &samples[i]
		buf = by.each(s, buf, func(se *series, sh *shelf) {
			if se != nil && se.insert(*s, origin{rec.Seq, sha}) {
				se.touch(s, touched)
			}
			if sh != nil {
				sh.touch(s, m.past.first, late)
			}
		})
	}
	return m.lookAt(touched, late, c)
}

// lookTogether is how many predictions have their evidence loaded again at once, so
// that telemetry which is late for all of a week does not fill the memory.
const lookTogether = 1000

// lookAt evaluates predictions in the order of their records, touched ones and late,
// which are on the shelves: their evidence is loaded again.
func (m *Machine) lookAt(touched map[*prediction]bool, late map[int]bool, c cut) error {
	list := make([]ref, 0, len(touched)+len(late))
	for p := range touched {
		list = append(list, ref{p.seq, p, 0})
	}
	for n := range late {
		list = append(list, ref{m.past.glance(n).seq, nil, n})
	}
	slices.SortFunc(list, ref.compare)
	for refs := range slices.Chunk(list, lookTogether) {
		var ready, apart []*prediction
		for _, r := range refs {
			p := r.p
			if p == nil {
				if p = m.past.get(r.nth); !p.remembered() {
					continue
				}
				if err := p.reopen(); err != nil {
					return err
				}
				apart = append(apart, p)
			}
			ready = append(ready, p)
		}
		if err := m.loadApart(apart); err != nil {
			return err
		}
		for _, p := range ready {
			if err := m.look(p, c); err != nil {
				return err
			}
		}
		for _, p := range apart {
			m.past.put(p)
		}
	}
	return nil
}

func bySeq(a, b *prediction) int { return cmp.Compare(a.seq, b.seq) }
