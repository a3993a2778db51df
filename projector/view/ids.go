package view

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"assay/ledger"
	"assay/projector"
)

// ids maps event ids to sequences: the id's 16 bytes and the principal, since
// ids are unique for each principal only. UUIDv7 grow with time, so that the
// keys of a batch lie together.
type ids struct{}

// idKind keeps ids, whose bytes an agent chooses, apart from other keys.
const idKind = "i"

func (ids) Name() string { return IDs }
func (ids) Version() int { return 1 }

// Apply implements projector.Projection.
func (ids) Apply(b *projector.Batch, r *projector.Record) error {
	id, err := uuid.Parse(r.Event.ID)
	if err != nil {
		return fmt.Errorf("event id: %w", err)
	}
	b.Put(idKind+string(id[:])+r.Principal, binary.AppendUvarint(nil, uint64(r.Seq)))
	return nil
}

// EventRef is where an event is.
type EventRef struct {
	Principal string     `json:"principal"`
	Seq       ledger.Seq `json:"seq"`
}

// FindEvent finds the records of an event id; ids that are no UUID have none.
func FindEvent(s *projector.State, eventID string) (found []EventRef, err error) {
	id, err := uuid.Parse(eventID)
	if err != nil {
		return nil, nil
	}
	err = s.ScanRaw(IDs, idKind+string(id[:]), "", func(k string, v []byte) error {
		seq, n := binary.Uvarint(v)
		if n <= 0 {
			return fmt.Errorf("event id index: malformed entry of %s", eventID)
		}
		found = append(found, EventRef{k[len(idKind)+len(id):], ledger.Seq(seq)})
		return nil
	})
	return found, err
}
