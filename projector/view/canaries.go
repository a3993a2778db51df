package view

import (
	"errors"
	"fmt"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Canary is a bounded rollout as it was started, with what became of it. It
// judges nothing: the resolver does (resolver/canary), and says so in
// rollback.triggered.
type Canary struct {
	CanaryID   string                   `json:"canary_id"`
	EventID    string                   `json:"event_id"`
	Seq        ledger.Seq               `json:"seq"`
	RecordedAt time.Time                `json:"recorded_at"`
	Principal  string                   `json:"principal"`
	Policy     string                   `json:"policy"`
	Actions    []events.CanaryAction    `json:"actions"`
	CapPerWeek int64                    `json:"cap_per_week"`
	Criteria   []events.CanaryCriterion `json:"criteria"`

	State string     `json:"state"` // running, ended, rolled_back, or refused while another ran
	Ended *CanaryEnd `json:"ended,omitzero"`
	// Executed counts the dispatcher's tool calls in namespace canary from the
	// start on, until another canary starts; ThisWeek those since the last
	// week.closed.
	Executed  int64 `json:"executed"`
	ThisWeek  int64 `json:"this_week"`
	Rollbacks int64 `json:"rollbacks"` // rollback.triggered, one for each rule at most
	Repeats   int64 `json:"repeats"`   // later starts of the same id
}

// CanaryEnd is the operator's end of a canary.
type CanaryEnd struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	Reason     string     `json:"reason"`
}

// Rollback is one rollback.triggered.
type Rollback struct {
	Seq          ledger.Seq `json:"seq"`
	EventID      string     `json:"event_id"`
	RecordedAt   time.Time  `json:"recorded_at"`
	Principal    string     `json:"principal"`
	Rule         string     `json:"rule"`
	Reason       string     `json:"reason"`
	Value        *float64   `json:"value"`
	Baseline     *float64   `json:"baseline"`
	Threshold    *float64   `json:"threshold"`
	N            *int64     `json:"n"`
	CutSeq       *uint64    `json:"cut_seq"`
	EvidenceSeqs []uint64   `json:"evidence_seqs"`
}

// States of a canary.
const (
	CanaryRunning    = "running"
	CanaryOver       = "ended"
	CanaryRolledBack = "rolled_back"
	CanaryRefused    = "refused"
)

// canaryNamespace is where canaries act.
const canaryNamespace = "canary"

const (
	canaryKind     = "c"
	rollbackKind   = "r"
	canaryCallKind = "t"
	currentKey     = "l"
)

// counted marks a call.
type counted struct{}

// current is the canary that started last.
type current struct {
	CanaryID string `json:"canary_id"`
}

type canaries struct{}

func (canaries) Name() string { return Canaries }
func (canaries) Version() int { return 1 }

// Apply implements projector.Projection.
func (canaries) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.CanaryStarted:
		if r.Role() != roleOperator {
			return fmt.Errorf("%w: %s by %s", ErrRole, r.Event.Type, r.Principal)
		}
		startCanary(b, r, d)
	case *events.CanaryEnded:
		if r.Role() != roleOperator {
			return fmt.Errorf("%w: %s by %s", ErrRole, r.Event.Type, r.Principal)
		}
		onCanary(b, r, d.CanaryID, func(c *Canary) {
			if c.State == CanaryRunning {
				c.State, c.Ended = CanaryOver, &CanaryEnd{r.Seq, r.RecordedAt, r.Principal, d.Reason}
			}
		})
	case *events.RollbackTriggered:
		if r.Role() != roleOperator && r.Role() != roleResolver {
			return fmt.Errorf("%w: %s by %s", ErrRole, r.Event.Type, r.Principal)
		}
		rollBack(b, r, d)
	case *events.ToolCalled:
		if r.Namespace == canaryNamespace && r.Role() == roleDispatcher && d.Status != callDenied {
			countCall(b, d)
		}
	case *events.WeekClosed:
		if r.Role() == roleLogger {
			onCurrent(b, func(c *Canary) { c.ThisWeek = 0 })
		}
	}
	return nil
}

func startCanary(b *projector.Batch, r *projector.Record, d *events.CanaryStarted) {
	c, ok := projector.Edit[Canary](b, key(canaryKind, d.CanaryID))
	if ok {
		c.Repeats++
		return
	}
	*c = Canary{
		CanaryID: d.CanaryID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		Policy: d.Policy, Actions: d.Actions, CapPerWeek: d.CapPerWeek, Criteria: d.Criteria, State: CanaryRunning,
	}
	last, _ := projector.View[current](b, currentKey)
	if other, ok := projector.View[Canary](b, key(canaryKind, last.CanaryID)); ok && other.State == CanaryRunning {
		c.State = CanaryRefused
		return
	}
	last, _ = projector.Edit[current](b, currentKey)
	last.CanaryID = d.CanaryID
}

func rollBack(b *projector.Batch, r *projector.Record, d *events.RollbackTriggered) {
	onCanary(b, r, d.CanaryID, func(c *Canary) {
		c.Rollbacks++
		if c.State == CanaryRunning {
			c.State = CanaryRolledBack
		}
		v, _ := projector.Edit[Rollback](b, key(rollbackKind, d.CanaryID, projector.SeqKey(r.Seq)))
		*v = Rollback{
			r.Seq, r.Event.ID, r.RecordedAt, r.Principal, d.Rule, d.Reason, d.Value, d.Baseline, d.Threshold, d.N, d.CutSeq, d.EvidenceSeqs,
		}
	})
}

// countCall counts a call once, whatever is recorded of it again.
func countCall(b *projector.Batch, d *events.ToolCalled) {
	onCurrent(b, func(c *Canary) {
		k := key(canaryCallKind, c.CanaryID, d.ToolCallID, d.Tool)
		if _, known := projector.View[counted](b, k); !known {
			projector.Edit[counted](b, k)
			c.Executed++
			c.ThisWeek++
		}
	})
}

func onCanary(b *projector.Batch, r *projector.Record, id string, fn func(*Canary)) {
	if _, ok := projector.View[Canary](b, key(canaryKind, id)); !ok {
		addOrphan(b, r.Namespace, id, orphanUnknown, r)
		return
	}
	c, _ := projector.Edit[Canary](b, key(canaryKind, id))
	fn(c)
}

func onCurrent(b *projector.Batch, fn func(*Canary)) {
	if last, ok := projector.View[current](b, currentKey); ok {
		c, _ := projector.Edit[Canary](b, key(canaryKind, last.CanaryID))
		fn(c)
	}
}

// FoundCanary is a canary with its rollbacks.
type FoundCanary struct {
	Canary
	Triggered []Rollback `json:"triggered"`
}

// GetCanary reads one canary; kv.ErrNotFound when there is none.
func GetCanary(s *projector.State, id string) (*FoundCanary, error) {
	c, err := projector.Load[Canary](s, Canaries, key(canaryKind, id))
	if err != nil {
		return nil, err
	}
	out := &FoundCanary{Canary: *c}
	err = list(s, Canaries, func(v *Rollback) error { out.Triggered = append(out.Triggered, *v); return nil }, rollbackKind, id)
	return out, err
}

func findCanaries(s *projector.State, id string) ([]FoundCanary, error) {
	c, err := GetCanary(s, id)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []FoundCanary{*c}, nil
}

// ListCanaries calls fn for every canary in the order of ids.
func ListCanaries(s *projector.State, fn func(*Canary) error) error {
	return list(s, Canaries, fn, canaryKind)
}
