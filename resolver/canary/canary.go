// Package canary ends a bounded rollout when the ledger says that it broke its
// bounds. It is a fold like resolver.Machine: no clock, no network, and the
// same ledger gives the same bytes.
//
// The operator's canary.started names what may be done, how often between two
// week.closed records, and by which criteria the rollout is taken back. One
// canary runs at a time; a start while another runs has no effect. What the
// dispatcher's tool.called shows in namespace canary is held against it, record
// by record:
//
//	action_not_listed      no entry of the allow-list has this tool and target
//	action_irreversible    an entry that has them is not reversible
//	action_beyond_cap      more calls since the last week.closed than cap_per_week
//	action_after_end       the operator had ended the canary
//	action_after_rollback  it had been rolled back
//
// A call that was denied did nothing, and an agent's own word of a call is none. Of
// several records of one call the best witness's counts (package calls), whenever it
// came: what a hook calls ok and the dispatcher denies is counted no more, though a
// rollback that it brought stands. A call is known for 30 days from its first record,
// and counts for the canary that ran when it did. What was imported has no effect.
//
// The criteria of a metric are looked at whenever a value of it comes in. A window
// is the window_s seconds of ledger time that end with the present record, and a
// rate counts only from min_n values on:
//
//	prediction_failure_rate  refuted ÷ (confirmed + refuted) of the predictions
//	                         recorded in namespace canary since the start whose
//	                         present verdict was recorded in the window; at
//	                         threshold, a fraction, or over. Void and unresolved
//	                         ones are neither.
//	repair_success_drop      (baseline − held ÷ (held + not held)) × 100, in
//	                         percentage points, of the canary's calls that a
//	                         fix.rechecked names by tool_call_id, by the latest
//	                         conclusive one, recorded in the window; at threshold
//	                         or over. Baseline is a fraction.
//	latency_ratio            the 95th percentile by nearest rank of latency_ms of
//	                         the calls (of one tool, if named) recorded in the
//	                         window ÷ baseline, in milliseconds; over threshold.
//	                         An unknown latency is left out, and not in min_n.
//	correctness_violation    at once, without a window: a confirmed prediction of
//	                         the canary was amended to refuted, or a repair that
//	                         had held no longer does.
//
// A report decides none of them: a verdict that rests on what an operator or a
// sandbox reported is unresolved, and a recheck that nobody saw directly is
// inconclusive.
//
// The first record at which a rule applies brings rollback.triggered, without
// waiting for a person, once for each rule of a canary.
package canary

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
	"assay/resolver/calls"
)

// Rules names the rules above. Other rules are another name: a saved state of
// theirs is not taken up.
const Rules = "canary/3"

// Namespace is where canaries act.
const Namespace = "canary"

// Rules that a rollback.triggered of the resolver can name.
const (
	NotListed     = "action_not_listed"
	Irreversible  = "action_irreversible"
	BeyondCap     = "action_beyond_cap"
	AfterEnd      = "action_after_end"
	AfterRollback = "action_after_rollback"
	FailureRate   = "prediction_failure_rate"
	SuccessDrop   = "repair_success_drop"
	LatencyRatio  = "latency_ratio"
	Violation     = "correctness_violation"
	Invalid       = "invalid_canary"
)

// Config is what the emitted events say of their writer.
type Config struct {
	Resolver events.ResolverIdentity
	Source   string // CloudEvents source; "" is resolver.DefaultSource
}

// Fold is the state after some record. It is not safe for concurrent use.
type Fold struct {
	cfg   Config
	state state
	heard *calls.Log           // state.Heard
	calls map[ledger.Seq]*call // state.Calls, by the first record
	byID  map[string]*call     // see add
	out   []resolver.Emission
}

// state is all that later records depend on.
type state struct {
	Seq ledger.Seq `json:"seq"`
	Now time.Time  `json:"now"` // ledger time
	// Used are the ids of all canaries that ever started.
	Used []string `json:"used"`
	// Last is the canary that started last; nil before the first.
	Last *rollout `json:"last,omitzero"`
	// Heard is what Fold.heard lists when the state is saved: all calls that were told
	// of, so that their other witnesses are known.
	Heard []calls.Call `json:"heard"`
	// Calls are those of Heard that were let run while a canary ran, in the order in
	// which they were counted; see remember.
	Calls []*call `json:"calls"`
}

// rollout is one canary.
type rollout struct {
	Start     events.CanaryStarted `json:"start"`
	Seq       ledger.Seq           `json:"seq"` // of the start
	Principal string               `json:"principal"`
	EventID   string               `json:"event_id"`
	Over      string               `json:"over,omitzero"` // AfterEnd or AfterRollback, what a call is from now on
	Week      ledger.Seq           `json:"week,omitzero"` // of the last week.closed; 0 before one
	ThisWeek  int64                `json:"this_week"`
	Told      []string             `json:"told"` // rules that brought a rollback.triggered
	// Windows are those of Start.Criteria, in their order; that of a
	// correctness_violation stays empty.
	Windows []window `json:"windows"`
	// Promises are found by the event id of their resolution or, once they have
	// one, of their last change.
	Promises map[string]*promise `json:"promises"`
	// Reached is the latest cut of a resolution or amendment. The resolver
	// publishes in the order of cuts, so that what is to come lies behind it.
	Reached time.Time `json:"reached"`
}

// call is a tool call that counts for a canary.
type call struct {
	ID      string     `json:"id"`
	First   ledger.Seq `json:"first"`         // its first record
	Seq     ledger.Seq `json:"seq"`           // the record from which on it counts
	At      time.Time  `json:"at"`            // ledger time of that
	Held    *bool      `json:"held,omitzero"` // by the latest conclusive recheck
	Checked ledger.Seq `json:"checked,omitzero"`
}

// promise is a prediction of the canary.
type promise struct {
	Verdict string     `json:"verdict,omitzero"`
	Seq     ledger.Seq `json:"seq"`          // of the verdict's record
	Cut     time.Time  `json:"cut,omitzero"` // of the first verdict
}

// remember is how long a call is known at least.
const remember = 30 * 24 * time.Hour

// New is a fold before record 1.
func New(cfg Config) *Fold {
	if cfg.Source == "" {
		cfg.Source = resolver.DefaultSource
	}
	f := &Fold{cfg: cfg}
	f.index()
	return f
}

// index finds the calls of the state.
func (f *Fold) index() {
	f.heard, f.state.Heard = calls.NewLog(remember, f.state.Heard), nil
	f.indexCalls()
}

func (f *Fold) indexCalls() {
	f.calls, f.byID = make(map[ledger.Seq]*call, len(f.state.Calls)), make(map[string]*call, len(f.state.Calls))
	for _, c := range f.state.Calls {
		f.add(c)
	}
}

// add makes a call one that is found; by its id alone, the first of the canary
// that started last.
func (f *Fold) add(c *call) {
	f.calls[c.First] = c
	if old := f.byID[c.ID]; old == nil || old.Seq < f.state.Last.Seq {
		f.byID[c.ID] = c
	}
}

// Rules implements resolver.Companion.
func (f *Fold) Rules() string { return Rules }

// Save implements resolver.Companion.
func (f *Fold) Save() ([]byte, error) {
	s := f.state
	s.Heard = f.heard.List()
	return json.Marshal(&s, json.Deterministic(true))
}

// Restore implements resolver.Companion.
func (f *Fold) Restore(raw []byte) error {
	var s state
	if err := json.Unmarshal(raw, &s, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("canary: %w", err)
	}
	switch r := s.Last; {
	case r == nil && len(s.Calls)+len(s.Heard) > 0:
		return errors.New("canary: calls of no canary")
	case r != nil && r.Over == "" && len(r.Windows) != len(r.Start.Criteria):
		return fmt.Errorf("canary: %d windows of %d criteria", len(r.Windows), len(r.Start.Criteria))
	}
	f.state = s
	f.index()
	return nil
}

// Apply implements resolver.Companion.
func (f *Fold) Apply(rec ledger.Record) ([]resolver.Emission, error) {
	if rec.Seq <= f.state.Seq {
		return nil, fmt.Errorf("%w: %d after %d", resolver.ErrOrder, rec.Seq, f.state.Seq)
	}
	f.state.Seq, f.out = rec.Seq, nil
	if rec.RecordedAt.After(f.state.Now) {
		f.state.Now = rec.RecordedAt
	}
	role, _, _ := strings.Cut(rec.Principal, "/")
	if !f.hears(role, rec.Namespace) {
		return nil, nil
	}
	// What does not decode has no effect, nor has what was imported.
	ev, err := events.DecodeEnvelope(rec.Event)
	if err != nil || !f.concerns(role, ev.Type) {
		return nil, nil
	}
	if ev, err = events.Decode(rec.Event); err != nil || ev.Data.Common().IsImported() {
		return nil, nil
	}
	err = f.effect(&rec, role, ev)
	if err != nil {
		err = fmt.Errorf("record %d: %w", rec.Seq, err)
	}
	return f.out, err
}

// running is the canary that runs; nil without one.
func (f *Fold) running() *rollout {
	if r := f.state.Last; r != nil && r.Over == "" {
		return r
	}
	return nil
}

// hears spares most records even the reading of their envelope.
func (f *Fold) hears(role, namespace string) bool {
	switch role {
	case "operator":
		return true
	case "resolver", "logger":
		return f.running() != nil
	case "agent":
		return f.running() != nil && namespace == Namespace
	case "dispatcher":
		// Once a canary is over and a call behind its end was told, nothing that is
		// done is news until the next one starts.
		r := f.state.Last
		return r != nil && namespace == Namespace && !slices.Contains(r.Told, r.Over)
	}
	return false
}

// concerns says which types of a role that is heard have an effect.
func (f *Fold) concerns(role, typ string) bool {
	switch typ {
	case events.TypeCanaryStarted:
		return role == "operator" && f.running() == nil
	case events.TypeCanaryEnded:
		return role == "operator" && f.running() != nil
	case events.TypeRollbackTriggered, events.TypeFixRechecked:
		return (role == "operator" || role == "resolver") && f.running() != nil
	case events.TypeWeekClosed:
		return role == "logger"
	case events.TypeToolCalled:
		return role == "dispatcher"
	case events.TypePredictionRecorded:
		return role == "agent"
	case events.TypePredictionResolved, events.TypePredictionResolutionAmended:
		return role == "resolver"
	}
	return false
}

// effect is what a record that concerns the fold brings about.
func (f *Fold) effect(rec *ledger.Record, role string, ev *events.Event) error {
	r := f.state.Last
	switch d := ev.Data.(type) {
	case *events.CanaryStarted:
		return f.start(rec, ev, d)
	case *events.CanaryEnded:
		if d.CanaryID == r.Start.CanaryID {
			r.finish(AfterEnd)
		}
	case *events.RollbackTriggered:
		if d.CanaryID == r.Start.CanaryID {
			r.finish(AfterRollback)
		}
	case *events.WeekClosed:
		r.Week, r.ThisWeek = rec.Seq, 0
		f.forget()
	case *events.ToolCalled:
		return f.called(rec, ev, d)
	case *events.PredictionRecorded:
		id := events.DerivedID(events.TypePredictionResolved, rec.Principal, ev.ID).String()
		if r.Promises[id] == nil {
			r.Promises[id] = &promise{}
		}
	case *events.PredictionResolved:
		return f.resolved(rec, ev, d)
	case *events.PredictionResolutionAmended:
		return f.amended(rec, ev, d)
	case *events.FixRechecked:
		return f.rechecked(rec, ev, d)
	}
	return nil
}

// start takes a canary up, if its id is new. One whose criteria make no sense is
// rolled back at once: it would run without them.
func (f *Fold) start(rec *ledger.Record, ev *events.Event, d *events.CanaryStarted) error {
	if slices.Contains(f.state.Used, d.CanaryID) {
		return nil
	}
	f.state.Used = append(f.state.Used, d.CanaryID)
	f.state.Last = &rollout{
		Start: *d, Seq: rec.Seq, Principal: rec.Principal, EventID: ev.ID,
		Windows: make([]window, len(d.Criteria)), Promises: make(map[string]*promise),
	}
	f.forget()
	if fault := Lint(d); fault != nil {
		return f.rollBack(rec, ev, finding{rule: Invalid, reason: fault.Error(), evidence: []ledger.Seq{rec.Seq}})
	}
	return nil
}

// forget lets go of what nothing can change any more, when a week is closed and
// when a canary starts: calls that were made long ago, and predictions whose
// amendments would come too late.
func (f *Fold) forget() {
	since := f.state.Now.Add(-remember)
	if n := slices.IndexFunc(f.state.Calls, func(c *call) bool { return c.At.After(since) }); n != 0 {
		if n < 0 {
			n = len(f.state.Calls)
		}
		f.state.Calls = slices.Delete(f.state.Calls, 0, n)
		f.indexCalls()
	}
	r := f.state.Last
	for id, p := range r.Promises {
		if p.Verdict != "" && events.TooLate(p.Cut, r.Reached) {
			delete(r.Promises, id)
		}
	}
}

// finish lets go of what the criteria were computed from.
func (r *rollout) finish(over string) {
	r.Over, r.Windows, r.Promises = over, nil, nil
}

// finding is a rule that applies, with its figures.
type finding struct {
	rule, reason               string
	value, baseline, threshold *float64
	n                          *int64
	evidence                   []ledger.Seq
}

// maxEvidence is how many records a rollback names; of more, the last.
const maxEvidence = 256

// rollBack ends the canary, and says so unless this rule did already.
func (f *Fold) rollBack(rec *ledger.Record, ev *events.Event, x finding) error {
	r := f.state.Last
	if r.Over == "" {
		r.finish(AfterRollback)
	}
	if slices.Contains(r.Told, x.rule) {
		return nil
	}
	r.Told = append(r.Told, x.rule)
	component, capture, cut, who := "resolver", "live", uint64(rec.Seq), f.cfg.Resolver
	d := &events.RollbackTriggered{
		Context: events.Context{Component: &component, Capture: &capture}, CanaryID: r.Start.CanaryID, Rule: x.rule, Reason: x.reason,
		Value: x.value, Baseline: x.baseline, Threshold: x.threshold, N: x.n, CutSeq: &cut, Resolver: &who,
	}
	slices.Sort(x.evidence)
	for _, seq := range x.evidence[max(0, len(x.evidence)-maxEvidence):] {
		d.EvidenceSeqs = append(d.EvidenceSeqs, uint64(seq))
	}
	id := events.DerivedID(d.Type(), r.Principal, r.EventID, x.rule).String()
	raw, err := events.Encode(&events.Event{
		ID: id, Source: f.cfg.Source, Type: d.Type(), Time: events.FormatTime(rec.RecordedAt), DataSchema: events.DataSchema(d.Type(), 1),
		Version: 1, CausationID: ev.ID, Data: d,
	})
	if err != nil {
		return fmt.Errorf("%w: %s of canary %s: %w", resolver.ErrUnencodable, x.rule, r.Start.CanaryID, err)
	}
	f.out = append(f.out, resolver.Emission{ID: id, Type: d.Type(), Cut: rec.Seq, Event: raw})
	return nil
}
