package view

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"assay/ledger"
	"assay/projector"
)

// ids holds the event ids in the order of the ledger: a block of 64 records is
// one value, 16 bytes a record, zeros where there is no event. A key for each id
// would cost a third of a replay; a lookup reads the blocks through instead,
// 160 MB for ten million records.
type ids struct{}

const (
	idBlock = 64 // records
	idSize  = len(uuid.UUID{})
	idKind  = "i"
)

func (ids) Name() string { return IDs }
func (ids) Version() int { return 1 }

func idBlockKey(block uint64) string { return idKind + fmt.Sprintf("%016x", block) }

// Apply implements projector.Projection.
func (ids) Apply(b *projector.Batch, r *projector.Record) error {
	id, err := uuid.Parse(r.Event.ID)
	if err != nil {
		return fmt.Errorf("event id: %w", err)
	}
	index := uint64(r.Seq.Index())
	at := int(index%idBlock) * idSize
	v, _ := projector.Edit[projector.Bytes](b, idBlockKey(index/idBlock))
	if missing := at - len(*v); missing > 0 {
		*v = append(*v, make([]byte, missing)...)
	}
	*v = append(*v, id[:]...)
	return nil
}

// FindEvent finds the records of an event id, one a principal at most; an id
// that is no UUID has none.
func FindEvent(s *projector.State, eventID string) (found []ledger.Seq, err error) {
	id, err := uuid.Parse(eventID)
	if err != nil || id == (uuid.UUID{}) {
		return nil, nil
	}
	err = projector.Scan(s, IDs, idKind, "", func(k string, v *projector.Bytes) error {
		block, err := strconv.ParseUint(k[len(idKind):], 16, 64)
		if err != nil {
			return fmt.Errorf("event id index: %w", err)
		}
		for at := 0; at+idSize <= len(*v); at += idSize {
			if bytes.Equal((*v)[at:at+idSize], id[:]) {
				found = append(found, ledger.Seq(block*idBlock+uint64(at/idSize)+1))
			}
		}
		return nil
	})
	return found, err
}
