package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Canary is a bounded rollout as it was started, with what became of it. It
// judges nothing: the resolver does (resolver/canary), and says so in
// rollback.triggered. That is recorded behind what it speaks of, by however long the
// resolver was down; what became of canaries goes by the cuts.
type Canary struct {
	CanaryFacts
	State       string `json:"state"`        // running, ended, rolled_back, or refused while another ran
	CallsBefore int64  `json:"calls_before"` // in namespace canary, up to the start
	// Executed counts the tool calls in namespace canary that were let run, from the
	// start on, until another canary starts; ThisWeek those since the last
	// week.closed.
	Executed int64 `json:"executed"`
	ThisWeek int64 `json:"this_week"`
}

// CanaryFacts are what the records say of one canary.
type CanaryFacts struct {
	CanaryID   string                   `json:"canary_id"`
	EventID    string                   `json:"event_id"`
	Seq        ledger.Seq               `json:"seq"`
	RecordedAt time.Time                `json:"recorded_at"`
	Principal  string                   `json:"principal"`
	Policy     string                   `json:"policy"`
	Actions    []events.CanaryAction    `json:"actions"`
	CapPerWeek int64                    `json:"cap_per_week"`
	Criteria   []events.CanaryCriterion `json:"criteria"`

	Ended *CanaryEnd `json:"ended,omitzero"` // the first canary.ended; of a Canary, if that ended it
	// RolledBack is the record at which it was rolled back: the first cut of a
	// rollback.triggered.
	RolledBack ledger.Seq `json:"rolled_back,omitzero"`
	Rollbacks  int64      `json:"rollbacks"` // rollback.triggered, one for each rule at most
	Repeats    int64      `json:"repeats"`   // later starts of the same id
	Imported   bool       `json:"imported"`  // it ran elsewhere, or before: no calls of it are counted
}

// CanaryEnd is the operator's end of a canary.
type CanaryEnd struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"`
	Reason     string     `json:"reason"`
}

// Rollback is one rollback.triggered; a canary's are in the order of their cuts.
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
	canaryKind   = "c"
	rollbackKind = "r"
)

type canaries struct{}

func (canaries) Name() string { return Canaries }
func (canaries) Version() int { return 4 }

// Apply implements projector.Projection.
func (canaries) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.CanaryStarted:
		if r.Role() != roleOperator {
			return forbidden(r)
		}
		startCanary(b, r, d)
	case *events.CanaryEnded:
		if r.Role() != roleOperator {
			return forbidden(r)
		}
		onCanary(b, r, d.CanaryID, func(c *CanaryFacts) {
			if c.Ended == nil {
				c.Ended = &CanaryEnd{r.Seq, r.RecordedAt, r.Principal, d.Reason}
			}
		})
	case *events.RollbackTriggered:
		if r.Role() != roleOperator && r.Role() != roleResolver {
			return forbidden(r)
		}
		rollBack(b, r, d)
	}
	return nil
}

func startCanary(b *projector.Batch, r *projector.Record, d *events.CanaryStarted) {
	c, ok := projector.Edit[CanaryFacts](b, key(canaryKind, idIn(r.Namespace, d.CanaryID)))
	if ok {
		c.Repeats++
		return
	}
	*c = CanaryFacts{
		CanaryID: d.CanaryID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		Policy: d.Policy, Actions: d.Actions, CapPerWeek: d.CapPerWeek, Criteria: d.Criteria,
		Imported: isApart(r.Namespace),
	}
}

func rollBack(b *projector.Batch, r *projector.Record, d *events.RollbackTriggered) {
	onCanary(b, r, d.CanaryID, func(c *CanaryFacts) {
		at := r.Seq
		if r.Role() == roleResolver && d.CutSeq != nil {
			at = min(at, max(c.Seq, ledger.Seq(*d.CutSeq)))
		}
		c.Rollbacks++
		if c.RolledBack == 0 || at < c.RolledBack {
			c.RolledBack = at
		}
		v, _ := projector.Edit[Rollback](b, key(rollbackKind, idIn(r.Namespace, d.CanaryID), projector.SeqKey(at), projector.SeqKey(r.Seq)))
		*v = Rollback{
			r.Seq, r.Event.ID, r.RecordedAt, r.Principal, d.Rule, d.Reason, d.Value, d.Baseline, d.Threshold, d.N, d.CutSeq, d.EvidenceSeqs,
		}
	})
}

func onCanary(b *projector.Batch, r *projector.Record, id string, fn func(*CanaryFacts)) {
	k := key(canaryKind, idIn(r.Namespace, id))
	if _, ok := projector.View[CanaryFacts](b, k); !ok {
		addOrphan(b, r.Namespace, id, orphanUnknown, r)
		return
	}
	c, _ := projector.Edit[CanaryFacts](b, k)
	fn(c)
}

// state is that of a canary that was not refused, and the record at which it was
// over; 0 while it runs.
func (c *CanaryFacts) state() (state string, over ledger.Seq) {
	switch {
	case c.RolledBack > 0 && (c.Ended == nil || c.RolledBack <= c.Ended.Seq):
		return CanaryRolledBack, c.RolledBack
	case c.Ended != nil:
		return CanaryOver, c.Ended.Seq
	}
	return CanaryRunning, 0
}

// callsOfCanaries are the calls in namespace canary that were let run, each by the
// first record in which an observer tells of it, in order.
func callsOfCanaries(s *projector.State) (calls []ledger.Seq, err error) {
	err = ListToolCalls(s, canaryNamespace, func(t *ToolCall) error {
		if t.Executed() && !isApart(t.Namespace) {
			calls = append(calls, t.FirstObserved)
		}
		return nil
	})
	slices.Sort(calls)
	return calls, err
}

// allCanaries are the canaries in the order of their starts. One runs at a time,
// beside those that were imported.
func allCanaries(s *projector.State) (all []Canary, err error) {
	err = list(s, Canaries, func(c *CanaryFacts) error { all = append(all, Canary{CanaryFacts: *c}); return nil }, canaryKind)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Canary) int { return cmp.Compare(a.Seq, b.Seq) })
	calls, err := callsOfCanaries(s)
	if err != nil {
		return nil, err
	}
	before := func(seq ledger.Seq) int64 {
		n, _ := slices.BinarySearch(calls, seq)
		return int64(n)
	}
	var week int64 // calls before the last week was closed
	err = ListWeeks(s, func(w *Week) error { week = max(week, before(w.Seq)); return nil })
	if err != nil {
		return nil, err
	}
	var last *Canary // that was not refused
	count := func(until int64) {
		if last != nil {
			last.Executed, last.ThisWeek = until-last.CallsBefore, max(0, until-max(last.CallsBefore, week))
		}
	}
	var over ledger.Seq // of last
	for i := range all {
		c := &all[i]
		c.CallsBefore = before(c.Seq)
		if c.Imported {
			if c.State, _ = c.state(); c.State != CanaryOver {
				c.Ended = nil
			}
			continue
		}
		if last != nil && (over == 0 || over > c.Seq) {
			c.State, c.Ended = CanaryRefused, nil
			continue
		}
		count(c.CallsBefore)
		last = c
		if c.State, over = c.state(); c.State != CanaryOver {
			c.Ended = nil
		}
	}
	count(int64(len(calls)))
	return all, nil
}

// FoundCanary is a canary with its rollbacks.
type FoundCanary struct {
	Canary
	Triggered []Rollback `json:"triggered"`
}

// found is the canary with its own rollbacks; those of an import of its id begin alike.
func (c *Canary) found(s *projector.State) (*FoundCanary, error) {
	out, start := &FoundCanary{Canary: *c}, prefix(rollbackKind, c.CanaryID)
	err := projector.Scan(s, Canaries, start, "", func(k string, v *Rollback) error {
		if strings.HasPrefix(k[len(start):], importedMark) == c.Imported {
			out.Triggered = append(out.Triggered, *v)
		}
		return nil
	})
	return out, err
}

func findCanaries(s *projector.State, id string) (out []FoundCanary, err error) {
	known := false
	err = list(s, Canaries, func(c *CanaryFacts) error { known = known || c.CanaryID == id; return nil }, canaryKind)
	if err != nil || !known {
		return nil, err // without a look at all calls
	}
	all, err := allCanaries(s)
	for i := range all {
		if all[i].CanaryID != id || err != nil {
			continue
		}
		var f *FoundCanary
		if f, err = all[i].found(s); err == nil {
			out = append(out, *f)
		}
	}
	return out, err
}

// ListCanaries calls fn for every canary in the order of their starts.
func ListCanaries(s *projector.State, fn func(*Canary) error) error {
	all, err := allCanaries(s)
	for i := range all {
		if err == nil {
			err = fn(&all[i])
		}
	}
	return err
}
