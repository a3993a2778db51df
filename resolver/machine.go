package resolver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
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
const Engine = "criterion/1"

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
	// Pinned says which registry the stored prediction.armed of that event id
	// names. Nil knows of none.
	Pinned func(armedID string) (registrySHA256 string, ok bool)
	// IsResolved says that the ledger has the prediction.resolved of that event
	// id: it stands, and the prediction is not evaluated again. Nil evaluates
	// everything, which is how a replay checks stored resolutions.
	IsResolved func(resolvedID string) bool
}

// Emission is an event that the fold calls for. The same ledger gives the same
// bytes.
type Emission struct {
	ID     string
	Type   string
	PredID string
	Cut    ledger.Seq // the record that brought it about
	Event  []byte
	// Manifest, unless nil, lists more segments than an event holds; the
	// event's one reference is its SHA-256. It is stored before the event is
	// published.
	Manifest []byte
}

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
	criterion  criterion.Criterion
	raw        jsontext.Value // the criterion's bytes
	sha        string         // their SHA-256
	registry   *criterion.Registry
	state      State

	clause   criterion.Clause
	limits   criterion.Limits
	window   criterion.Span
	since    time.Time // first event time that matters
	knownTo  time.Time // the source's capped watermark when it was recorded
	src      *source
	own      *series
	beat     *series // nil where the series is its own heartbeat
	screen   *criterion.Screen
	deadline time.Time // execute_by or expires_after
}

// hold is a clock step that nobody confirmed.
type hold struct {
	seq ledger.Seq
	at  time.Time
}

// Machine folds records into emissions. It is not safe for concurrent use, and
// after an error it must be built anew.
type Machine struct {
	cfg       MachineConfig
	seq       ledger.Seq
	now       time.Time // ledger time
	hold      *hold
	preds     map[predKey]*prediction  // not settled yet
	ages      []*prediction            // the same in ledger order, and settled ones not yet let go of
	done      map[ledger.Hash]struct{} // settledKey of every settled one
	awaiting  map[actionKey]map[*prediction]bool
	deadlines timeQueue
	sources   map[string]*source
	order     []*source // by first appearance
	skipped   int
	out       []Emission
}

// NewMachine is a machine before record 1.
func NewMachine(cfg MachineConfig) *Machine {
	if cfg.Pinned == nil {
		cfg.Pinned = func(string) (string, bool) { return "", false }
	}
	if cfg.IsResolved == nil {
		cfg.IsResolved = func(string) bool { return false }
	}
	return &Machine{
		cfg: cfg, preds: make(map[predKey]*prediction), done: make(map[ledger.Hash]struct{}),
		awaiting: make(map[actionKey]map[*prediction]bool), sources: make(map[string]*source),
	}
}

// Now is ledger time after the last applied record.
func (m *Machine) Now() time.Time { return m.now }

// Seq is the last applied record.
func (m *Machine) Seq() ledger.Seq { return m.seq }

// Skipped counts records that do not decode; they have no effect but on time.
func (m *Machine) Skipped() int { return m.skipped }

// State finds where a prediction stands; false when none was recorded.
func (m *Machine) State(principal, predID string) (State, bool) {
	key := predKey{principal, predID}
	if p, ok := m.preds[key]; ok {
		return p.state, true
	}
	_, ok := m.done[settledKey(key)]
	return Settled, ok
}

// enter adds a prediction, behind those that were recorded before it.
func (m *Machine) enter(p *prediction) {
	m.preds[p.key] = p
	if len(m.ages) > 2*len(m.preds)+minAges {
		// One that stays open must not keep all that settled since in memory.
		m.ages = slices.DeleteFunc(m.ages, func(p *prediction) bool { return p.state == Settled })
	}
	m.ages = append(m.ages, p)
}

// minAges spares a fold with few open predictions most of the sweeping.
const minAges = 64

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

// settle closes windows that are waited for no longer and expires what is due.
func (m *Machine) settle(c cut) error {
	for _, src := range m.order {
		reached := m.reached(src)
		for {
			t, ok := src.closing.next(func(at time.Time) bool { return !at.After(reached) })
			if !ok {
				break
			}
			if t.pred.state == WindowOpen {
				t.pred.state = Evaluable
				if err := m.evaluate(t.pred, c); err != nil {
					return err
				}
			}
		}
	}
	if m.hold != nil {
		return nil
	}
	for {
		t, ok := m.deadlines.next(func(at time.Time) bool { return at.Before(m.now) })
		if !ok {
			return nil
		}
		if t.pred.state == Settled || !t.at.Equal(t.pred.deadline) {
			continue
		}
		if err := m.expire(t.pred, c); err != nil {
			return err
		}
	}
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
	events.TypeClockStepped, events.TypeClockConfirmed,
}

// decode reads the events that the fold looks at; others, and what does not
// decode, come back without data.
func (m *Machine) decode(rec ledger.Record) *events.Event {
	ev, err := events.DecodeEnvelope(rec.Event)
	if err == nil && slices.Contains(effectTypes, ev.Type) {
		ev, err = events.Decode(rec.Event)
	}
	if err != nil {
		m.skipped++
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
			return true, m.toolCalled(rec, role, d, c)
		}
	case *events.TelemetrySealed:
		if role == "resolver" {
			return true, m.seal(rec, d, c)
		}
	case *events.ClockConfirmed:
		if role == "operator" && m.hold != nil && ledger.Seq(d.SteppedSeq) == m.hold.seq {
			m.hold = nil
			return true, nil
		}
	}
	return false, nil
}

// record takes a prediction in. A second one of the same principal and id has
// no effect: the first is the promise.
func (m *Machine) record(rec ledger.Record, ev *events.Event, d *events.PredictionRecorded, c cut) error {
	key := predKey{rec.Principal, d.PredID}
	if _, ok := m.done[settledKey(key)]; ok || m.preds[key] != nil {
		return nil
	}
	p := &prediction{
		key: key, seq: rec.Seq, eventID: ev.ID, episode: ev.EpisodeID, namespace: rec.Namespace,
		opp: d.Context.OpportunityID, recordedAt: rec.RecordedAt, raw: slices.Clone(d.Criterion), sha: hexSHA256(d.Criterion), registry: m.cfg.Registry,
	}
	m.enter(p)
	if m.cfg.IsResolved(p.resolvedID()) {
		m.forget(p)
		return nil
	}
	if sha, ok := m.cfg.Pinned(p.armedID()); ok {
		r, err := m.registry(sha)
		if err != nil {
			return err
		}
		p.registry = r
	}
	if fault, ok := p.lint(d); !ok {
		return m.void(p, c, "invalid", &fault.Pointer, fault.Message)
	}
	p.knownTo = m.reached(m.source(p.limits.Signal.Source))
	if p.criterion.Action != nil {
		p.state = AwaitingAction
		m.await(p)
		return nil
	}
	return m.arm(p, p.recordedAt, c)
}

// await makes p wait for its action.
func (m *Machine) await(p *prediction) {
	a := p.criterion.Action
	p.deadline = p.recordedAt.Add(a.ExecuteBy)
	m.deadlines.add(p.deadline, p)
	at := actionKey{a.Tool, a.Target}
	if m.awaiting[at] == nil {
		m.awaiting[at] = make(map[*prediction]bool)
	}
	m.awaiting[at][p] = true
}

func (m *Machine) registry(sha string) (*criterion.Registry, error) {
	if m.cfg.Registry.HashString() == sha {
		return m.cfg.Registry, nil
	}
	if m.cfg.Registries == nil {
		return nil, fmt.Errorf("%w: %s", ErrRegistry, sha)
	}
	r, err := m.cfg.Registries(sha)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRegistry, sha, err)
	}
	return r, nil
}

// lint parses and lints the criterion; false with the first fault.
func (p *prediction) lint(d *events.PredictionRecorded) (criterion.Fault, bool) {
	c, err := criterion.Parse(d.Criterion)
	if fault, ok := errors.AsType[criterion.Fault](err); ok {
		return fault, false
	}
	if faults := criterion.Lint(c, p.registry); len(faults) > 0 {
		return faults[0], false
	}
	p.criterion = c
	p.clause = append(c.All, c.Any...)[0]
	p.limits, _ = criterion.LimitsOf(c, p.clause, p.registry)
	return criterion.Fault{}, true
}

// toolCalled matches a tool call with the predictions that wait for it. A
// harness writes dispatcher's types for its own cases only.
func (m *Machine) toolCalled(rec ledger.Record, role string, d *events.ToolCalled, c cut) error {
	keys := []actionKey{{d.Tool, ""}}
	if d.Target != nil && *d.Target != "" {
		keys = append(keys, actionKey{d.Tool, *d.Target})
	}
	var waiting []*prediction
	for _, key := range keys {
		for p := range m.awaiting[key] {
			if role != "harness" || rec.Namespace == p.namespace {
				waiting = append(waiting, p)
			}
		}
	}
	slices.SortFunc(waiting, bySeq)
	for _, p := range waiting {
		m.stopAwaiting(p)
		var err error
		if d.Status == "ok" {
			err = m.arm(p, actionEnd(rec, d), c)
		} else {
			err = m.void(p, c, "action_failed", nil, fmt.Sprintf("record %d: %s ended %s", rec.Seq, d.Tool, d.Status))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func bySeq(a, b *prediction) int { return cmp.Compare(a.seq, b.seq) }

func (m *Machine) stopAwaiting(p *prediction) {
	key := actionKey{p.criterion.Action.Tool, p.criterion.Action.Target}
	delete(m.awaiting[key], p)
	if len(m.awaiting[key]) == 0 {
		delete(m.awaiting, key)
	}
}

// actionEnd is when the tool ended by the dispatcher's word, or, unknown or
// absurd, when the ledger heard of it.
func actionEnd(rec ledger.Record, d *events.ToolCalled) time.Time {
	t, ok := events.Time(d.EndedAt)
	if !ok || t.Before(rec.RecordedAt.Add(-horizon)) || t.After(rec.RecordedAt.Add(horizon)) {
		return rec.RecordedAt
	}
	return t.UTC()
}

func (m *Machine) withdraw(rec ledger.Record, d *events.PredictionWithdrawn, c cut) error {
	p := m.preds[predKey{rec.Principal, d.PredID}]
	if p == nil || p.state != AwaitingAction {
		return nil
	}
	return m.void(p, c, "withdrawn", nil, fmt.Sprintf("record %d", rec.Seq))
}

// arm opens the window and looks at what is sealed already.
func (m *Machine) arm(p *prediction, anchor time.Time, c cut) error {
	m.open(p, anchor.Add(p.criterion.Window.Offset))
	p.state = WindowOpen
	p.src.closing.add(p.window.End.Add(p.limits.Lateness), p)
	if err := m.emitArmed(p, c); err != nil {
		return err
	}
	if err := m.watch(p); err != nil {
		return err
	}
	return m.evaluate(p, c)
}

// open sets the window and all that follows from its start.
func (m *Machine) open(p *prediction, start time.Time) {
	p.window = criterion.Span{Start: start, End: start.Add(p.criterion.Window.Length)}
	p.since = start.Add(-max(p.limits.Staleness, p.limits.Skew) - p.limits.Skew)
	p.deadline = p.window.End.Add(p.criterion.ExpiresAfter)
	m.deadlines.add(p.deadline, p)
	p.src = m.source(p.limits.Signal.Source)
}

// watch finds p's series and screens what they hold already.
func (m *Machine) watch(p *prediction) (err error) {
	p.own, err = p.src.watch(p, p.clause.Signal, p.clause.Labels, false, p.since, m.cfg.Segments)
	if err != nil {
		return err
	}
	if h := p.limits.Signal.Heartbeat; h != p.clause.Signal {
		if p.beat, err = p.src.watch(p, h, nil, true, p.since, m.cfg.Segments); err != nil {
			return err
		}
	}
	p.screen = criterion.NewScreen(p.clause, p.limits, p.window)
	for i := range p.own.samples {
		p.screen.Add(&p.own.samples[i])
	}
	return nil
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

// seal takes a segment in and evaluates the predictions that it may decide.
func (m *Machine) seal(rec ledger.Record, d *events.TelemetrySealed, c cut) error {
	end, okEnd := events.Time(&d.End)
	mark, okMark := events.Time(&d.Watermark)
	sha, err := ledger.ParseHash(d.SHA256)
	if !okEnd || !okMark || err != nil {
		m.skipped++
		return nil
	}
	src := m.source(d.Source)
	src.add(sealed{rec.Seq, end.UTC(), sha}, m.now)
	if mark.After(src.watermark) {
		src.watermark = mark.UTC()
	}
	if m.hold != nil && !mark.Before(m.hold.at) {
		m.hold = nil
	}
	if len(src.series) == 0 {
		return nil
	}
	samples, err := m.cfg.Segments.Load(d.SHA256)
	if err != nil {
		return fmt.Errorf("segment %s: %w", d.SHA256, err)
	}
	touched := make(map[*prediction]bool)
	for i := range samples {
		for _, se := range src.series[samples[i].Signal] {
			if se.matches(&samples[i]) && src.insert(se, samples[i], origin{rec.Seq, sha}) {
				se.touch(&samples[i], touched)
			}
		}
	}
	list := make([]*prediction, 0, len(touched))
	for p := range touched {
		list = append(list, p)
	}
	slices.SortFunc(list, bySeq)
	for _, p := range list {
		if err := m.evaluate(p, c); err != nil {
			return err
		}
	}
	return nil
}

// touch marks the predictions whose outcome the sample may change.
func (se *series) touch(s *criterion.Sample, touched map[*prediction]bool) {
	for p := range se.watchers {
		if p.state == WindowOpen && se == p.own && p.screen.Add(s) {
			touched[p] = true
		}
		if p.state == Evaluable && !s.Time.Before(p.since) && !s.Time.After(p.window.End.Add(p.limits.Skew)) {
			touched[p] = true
		}
	}
}

// evaluate resolves the prediction if the evidence decides it.
func (m *Machine) evaluate(p *prediction, c cut) error {
	ev := p.gather()
	res := criterion.Evaluate(p.input(ev, p.state == Evaluable))
	if res.Outcome == criterion.Unknown {
		return nil
	}
	return m.resolve(p, c, ev, res)
}

func (p *prediction) input(ev evidence, closed bool) criterion.Input {
	return criterion.Input{
		Criterion: p.criterion, Registry: p.registry, Window: p.window, Samples: ev.samples, Closed: closed, Principal: p.key.principal,
	}
}

// expire ends what was not executed, or what stayed unknown.
func (m *Machine) expire(p *prediction, c cut) error {
	if p.state == AwaitingAction {
		return m.void(p, c, "not_executed", nil, "no such tool call by "+ledger.FormatTime(p.deadline))
	}
	ev := p.gather()
	return m.resolve(p, c, ev, criterion.Evaluate(p.input(ev, p.state == Evaluable)))
}

// forget lets go of all that a prediction held, but for a hash of its name.
func (m *Machine) forget(p *prediction) {
	if p.state == AwaitingAction {
		m.stopAwaiting(p)
	}
	if p.own != nil {
		p.src.unwatch(p, p.own)
	}
	if p.beat != nil {
		p.src.unwatch(p, p.beat)
	}
	delete(m.preds, p.key)
	m.done[settledKey(p.key)] = struct{}{}
	*p = prediction{seq: p.seq, state: Settled} // queues may still point at it
}
