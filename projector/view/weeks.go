package view

import (
	"fmt"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Week is a week that the logger closed: [Start, End). Weeks are those of the
// ledger and of no namespace.
type Week struct {
	Week       string     `json:"week"` // ISO 8601, such as 2026-W48
	Zone       string     `json:"zone"`
	Start      time.Time  `json:"start"`
	End        time.Time  `json:"end"`
	Seq        ledger.Seq `json:"seq"`
	Leaf       string     `json:"leaf"` // hex; the seed of the week's audit
	RecordedAt time.Time  `json:"recorded_at"`
	Repeats    int64      `json:"repeats"` // later records that close it again
}

// Audit is a week's sample as the operator published it. The first of a week,
// namespace and set counts. One from before the week was closed is an orphan: its seed
// is the leaf of week.closed, which nobody could know.
type Audit struct {
	Seq        ledger.Seq           `json:"seq"`
	EventID    string               `json:"event_id"`
	RecordedAt time.Time            `json:"recorded_at"`
	Principal  string               `json:"principal"`
	Sampled    *events.AuditSampled `json:"sampled"`
	Repeats    int64                `json:"repeats"`
}

const (
	weekKind  = "w"
	auditKind = "a"
)

type weeks struct{}

func (weeks) Name() string { return Weeks }
func (weeks) Version() int { return 4 }

// Apply implements projector.Projection.
func (weeks) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.WeekClosed:
		return closeWeek(b, r, d)
	case *events.AuditSampled:
		return sampled(b, r, d)
	}
	return nil
}

func closeWeek(b *projector.Batch, r *projector.Record, d *events.WeekClosed) error {
	if r.Role() != roleLogger {
		return forbidden(r)
	}
	start, okStart := events.Time(&d.Start)
	end, okEnd := events.Time(&d.End)
	if !okStart || !okEnd {
		return fmt.Errorf("week %s has no start or end", d.Week)
	}
	w, ok := projector.Edit[Week](b, key(weekKind, d.Week))
	if ok {
		w.Repeats++
		return nil
	}
	*w = Week{
		Week: d.Week, Zone: d.Zone, Start: start.UTC(), End: end.UTC(), Seq: r.Seq, Leaf: r.Leaf.String(), RecordedAt: r.RecordedAt,
	}
	return nil
}

func sampled(b *projector.Batch, r *projector.Record, d *events.AuditSampled) error {
	if r.Role() != roleOperator {
		return forbidden(r)
	}
	if isApart(r.Namespace) {
		moved := *d
		moved.Namespace += importedMark
		d = &moved
	} else if _, closed := projector.View[Week](b, key(weekKind, d.Week)); !closed {
		addOrphan(b, r.Namespace, d.Week, orphanUnknown, r)
		return nil
	}
	k := key(auditKind, d.Namespace, d.Week)
	if d.Set != nil {
		k = key(auditKind, d.Namespace, d.Week, *d.Set)
	}
	a, ok := projector.Edit[Audit](b, k)
	if ok {
		a.Repeats++
		return nil
	}
	*a = Audit{Seq: r.Seq, EventID: r.Event.ID, RecordedAt: r.RecordedAt, Principal: r.Principal, Sampled: d}
	return nil
}

// GetWeek reads one closed week; kv.ErrNotFound when it is not.
func GetWeek(s *projector.State, week string) (*Week, error) {
	return projector.Load[Week](s, Weeks, key(weekKind, week))
}

// ListWeeks calls fn for the closed weeks in order.
func ListWeeks(s *projector.State, fn func(*Week) error) error { return list(s, Weeks, fn, weekKind) }

// GetAudit reads a week's sample of outcomes; kv.ErrNotFound when there is none.
func GetAudit(s *projector.State, namespace, week string) (*Audit, error) {
	return projector.Load[Audit](s, Weeks, key(auditKind, namespace, week))
}

// ListAudits calls fn for a namespace's samples in the order of weeks.
func ListAudits(s *projector.State, namespace string, fn func(*Audit) error) error {
	return list(s, Weeks, fn, auditKind, namespace)
}
