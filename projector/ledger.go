package projector

import (
	"errors"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
)

// ledgerName is the projection that every runner keeps: what the ledger says
// about itself.
const ledgerName = "ledger"

const (
	ledgerStateKey = "state"
	foreignPrefix  = "foreign/"
)

// LedgerState is the ledger in numbers.
type LedgerState struct {
	Records int64 `json:"records"` // with a place in the chain, foreign messages excluded
	Foreign int64 `json:"foreign"` // messages of other writers; they have no effect
	// Unacknowledged is how many of the foreign the operator has not signed for.
	Unacknowledged int64 `json:"unacknowledged"`
	// Undecodable records are parked; see State.Parked.
	Undecodable int64 `json:"undecodable"`
	// Namespaces counts the records of each.
	Namespaces map[string]int64 `json:"namespaces,omitzero"`
	// Unknown counts the records of types that this build does not know.
	Unknown map[string]int64 `json:"unknown,omitzero"`
	// Time is ledger time: the largest recorded_at so far. It is zero before
	// the first record.
	Time time.Time `json:"time"`
}

// Foreign is a stored message that the logger did not write.
type Foreign struct {
	Seq            ledger.Seq `json:"seq"`
	SHA256         string     `json:"sha256"` // hex leaf hash
	Reason         string     `json:"reason"`
	AcknowledgedAt ledger.Seq `json:"acknowledged_at,omitzero"` // seq of the acknowledgement
}

// Ledger reads the ledger's own numbers, once.
func (s *State) Ledger() (LedgerState, error) {
	if s.ledger == nil {
		v, err := Load[LedgerState](s, ledgerName, ledgerStateKey)
		if errors.Is(err, kv.ErrNotFound) {
			v, err = &LedgerState{}, nil
		}
		if err != nil {
			return LedgerState{}, err
		}
		s.ledger = v
	}
	return *s.ledger, nil
}

// Foreign calls fn for every foreign message in order.
func (s *State) Foreign(fn func(Foreign) error) error {
	return Scan(s, ledgerName, foreignPrefix, "", func(_ string, f *Foreign) error { return fn(*f) })
}

type ledgerProjection struct{}

func (ledgerProjection) Name() string { return ledgerName }
func (ledgerProjection) Version() int { return 1 }

// Apply implements Projection. A record whose event could not be decoded comes
// here with Event nil.
func (ledgerProjection) Apply(b *Batch, r *Record) error {
	s, _ := Edit[LedgerState](b, ledgerStateKey)
	s.Records++
	if s.Namespaces == nil {
		s.Namespaces = make(map[string]int64)
	}
	s.Namespaces[r.Namespace]++
	if r.RecordedAt.After(s.Time) {
		s.Time = r.RecordedAt
	}
	if r.Event == nil {
		s.Undecodable++
		return nil
	}
	switch d := r.Event.Data.(type) {
	case *events.Unknown:
		if s.Unknown == nil {
			s.Unknown = make(map[string]int64)
		}
		s.Unknown[d.TypeName]++
	case *events.ForeignAcknowledged:
		acknowledge(b, s, r, d)
	}
	return nil
}

func acknowledge(b *Batch, s *LedgerState, r *Record, d *events.ForeignAcknowledged) {
	key := foreignPrefix + SeqKey(ledger.Seq(d.Seq))
	f, ok := View[Foreign](b, key)
	if !ok || f.SHA256 != d.SHA256 || f.AcknowledgedAt != 0 || r.Role() != "operator" {
		return
	}
	f, _ = Edit[Foreign](b, key)
	f.AcknowledgedAt = r.Seq
	s.Unacknowledged--
}

func addForeign(b *Batch, it *item, reason string) {
	s, _ := Edit[LedgerState](b, ledgerStateKey)
	s.Foreign++
	s.Unacknowledged++
	f, _ := Edit[Foreign](b, foreignPrefix+SeqKey(it.at))
	*f = Foreign{Seq: it.at, SHA256: it.Leaf.String(), Reason: reason}
}
