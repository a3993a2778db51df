package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Rejected sums what was refused from one principal for one reason.
type Rejected struct {
	Namespace string     `json:"namespace"`
	Principal string     `json:"principal"`
	Code      string     `json:"code"`
	Count     int64      `json:"count"`   // messages
	Bytes     int64      `json:"bytes"`   // of them
	Records   int64      `json:"records"` // of the ledger; a counted one stands for many messages
	FirstSeq  ledger.Seq `json:"first_seq"`
	LastSeq   ledger.Seq `json:"last_seq"`
	LastAt    time.Time  `json:"last_at"`
}

// Rejection is one intake.rejected.
type Rejection struct {
	Seq        ledger.Seq `json:"seq"`
	RecordedAt time.Time  `json:"recorded_at"`
	Principal  string     `json:"principal"` // whose message it was
	Code       string     `json:"code"`
	Pointer    *string    `json:"pointer,omitzero"`
	EventID    *string    `json:"event_id,omitzero"`
	Count      int64      `json:"count"`
	Bytes      int64      `json:"bytes"`
}

const (
	rejectedKind  = "s"
	rejectionKind = "l"
)

type rejections struct{}

func (rejections) Name() string { return Rejections }
func (rejections) Version() int { return 1 }

// Apply implements projector.Projection.
func (rejections) Apply(b *projector.Batch, r *projector.Record) error {
	d, ok := r.Event.Data.(*events.IntakeRejected)
	if !ok {
		return nil
	}
	if r.Role() != "logger" {
		return forbidden(r)
	}
	s, ok := projector.Edit[Rejected](b, key(rejectedKind, r.Namespace, d.Principal, d.Code))
	if !ok {
		s.Namespace, s.Principal, s.Code, s.FirstSeq = r.Namespace, d.Principal, d.Code, r.Seq
	}
	s.Count += d.Count
	s.Bytes += d.Size
	s.Records++
	s.LastSeq, s.LastAt = r.Seq, r.RecordedAt
	l, _ := projector.Edit[Rejection](b, key(rejectionKind, r.Namespace, projector.SeqKey(r.Seq)))
	*l = Rejection{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: d.Principal, Code: d.Code,
		Pointer: d.Pointer, EventID: d.EventID, Count: d.Count, Bytes: d.Size,
	}
	return nil
}

// ListRejected calls fn for a namespace's sums, by principal and code.
func ListRejected(s *projector.State, namespace string, fn func(*Rejected) error) error {
	return list(s, Rejections, fn, rejectedKind, namespace)
}

// ListRejections calls fn for a namespace's refusals in order.
func ListRejections(s *projector.State, namespace string, fn func(*Rejection) error) error {
	return list(s, Rejections, fn, rejectionKind, namespace)
}
