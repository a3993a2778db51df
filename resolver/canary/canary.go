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
// A call that was denied did nothing, and an agent's own word of a call is none.
// The criteria are looked at whenever a value comes in. A window is the
// window_s seconds of ledger time that end with the present record, and a rate
// counts only from min_n values on:
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
// The first record at which a rule applies brings rollback.triggered, without
// waiting for a person, once for each rule of a canary.
package canary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/ledger"
	"assay/resolver"
)

// Rules names the rules above. Other rules are another name: a saved state of
// theirs is not taken up.
const Rules = "canary/1"

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
}

// rollout is one canary.
type rollout struct {
	Start     events.CanaryStarted `json:"start"`
	Principal string               `json:"principal"`
	EventID   string               `json:"event_id"`
	Over      string               `json:"over,omitzero"` // AfterEnd or AfterRollback, what a call is from now on
	ThisWeek  int64                `json:"this_week"`
	Told      []string             `json:"told"` // rules that brought a rollback.triggered
	Calls     []*call              `json:"calls"`
	// Promises are found by the event id of their resolution or, once they have
	// one, of their last change.
	Promises map[string]*promise `json:"promises"`
}

// call is a tool call of the canary.
type call struct {
	ID        string     `json:"id"`
	Tool      string     `json:"tool"`
	Seq       ledger.Seq `json:"seq"`
	At        time.Time  `json:"at"` // recorded_at
	LatencyMS *float64   `json:"latency_ms,omitzero"`
	Held      *bool      `json:"held,omitzero"` // by the latest conclusive recheck
	CheckedAt time.Time  `json:"checked_at,omitzero"`
	Checked   ledger.Seq `json:"checked,omitzero"`
}

// promise is a prediction of the canary.
type promise struct {
	Verdict string     `json:"verdict,omitzero"`
	Seq     ledger.Seq `json:"seq"` // of the verdict's record
	At      time.Time  `json:"at,omitzero"`
	// Resolved is the time of the first verdict.
	Resolved time.Time `json:"resolved,omitzero"`
}

// New is a fold before record 1.
func New(cfg Config) *Fold {
	if cfg.Source == "" {
		cfg.Source = resolver.DefaultSource
	}
	return &Fold{cfg: cfg}
}

// Rules implements resolver.Companion.
func (f *Fold) Rules() string { return Rules }

// Save implements resolver.Companion.
func (f *Fold) Save() ([]byte, error) { return json.Marshal(&f.state, json.Deterministic(true)) }

// Restore implements resolver.Companion.
func (f *Fold) Restore(raw []byte) error {
	var s state
	if err := json.Unmarshal(raw, &s, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("canary: %w", err)
	}
	f.state = s
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
	if !f.concerns(role, rec.Namespace) {
		return nil, nil
	}
	ev, err := events.Decode(rec.Event)
	if err != nil {
		return nil, nil // it has no effect
	}
	if err := f.effect(&rec, role, ev); err != nil {
		return nil, fmt.Errorf("record %d: %w", rec.Seq, err)
	}
	return f.out, nil
}

// concerns spares most records the decoding.
func (f *Fold) concerns(role, namespace string) bool {
	switch role {
	case "operator":
		return true
	case "resolver", "logger":
		return f.state.Last != nil
	case "dispatcher", "agent":
		return f.state.Last != nil && namespace == Namespace
	}
	return false
}

func (f *Fold) effect(rec *ledger.Record, role string, ev *events.Event) error {
	if d, ok := ev.Data.(*events.CanaryStarted); ok && role == "operator" {
		return f.start(rec, ev, d)
	}
	r := f.state.Last
	if r == nil {
		return nil
	}
	switch d := ev.Data.(type) {
	case *events.CanaryEnded:
		if role == "operator" && d.CanaryID == r.Start.CanaryID && r.Over == "" {
			r.finish(AfterEnd)
		}
	case *events.RollbackTriggered:
		if (role == "operator" || role == "resolver") && d.CanaryID == r.Start.CanaryID && r.Over == "" {
			r.finish(AfterRollback)
		}
	case *events.WeekClosed:
		if role == "logger" {
			r.ThisWeek = 0
		}
	case *events.ToolCalled:
		if role == "dispatcher" && rec.Namespace == Namespace && d.Status != "denied" {
			return f.called(rec, ev, d)
		}
	case *events.PredictionRecorded:
		if role == "agent" && rec.Namespace == Namespace && r.Over == "" {
			id := events.DerivedID(events.TypePredictionResolved, rec.Principal, ev.ID).String()
			r.Promises[id] = &promise{}
		}
	case *events.PredictionResolved:
		if role == "resolver" {
			return f.resolved(rec, ev, d)
		}
	case *events.PredictionResolutionAmended:
		if role == "resolver" {
			return f.amended(rec, ev, d)
		}
	case *events.FixRechecked:
		if role == "resolver" || role == "operator" {
			return f.rechecked(rec, ev, d)
		}
	}
	return nil
}

// start takes a canary up, if none runs and the id is new. One whose criteria
// make no sense is rolled back at once: it would run without them.
func (f *Fold) start(rec *ledger.Record, ev *events.Event, d *events.CanaryStarted) error {
	if slices.Contains(f.state.Used, d.CanaryID) || f.state.Last != nil && f.state.Last.Over == "" {
		return nil
	}
	f.state.Used = append(f.state.Used, d.CanaryID)
	f.state.Last = &rollout{Start: *d, Principal: rec.Principal, EventID: ev.ID, Promises: make(map[string]*promise)}
	if fault := Lint(d); fault != nil {
		return f.rollBack(rec, ev, finding{rule: Invalid, reason: fault.Error(), evidence: []ledger.Seq{rec.Seq}})
	}
	return nil
}

// finish lets go of what the criteria were computed from.
func (r *rollout) finish(over string) {
	r.Over, r.Calls, r.Promises = over, nil, nil
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
		return fmt.Errorf("canary %s: %w", r.Start.CanaryID, err)
	}
	f.out = append(f.out, resolver.Emission{ID: id, Type: d.Type(), Cut: rec.Seq, Event: raw})
	return nil
}
