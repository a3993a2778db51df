package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/google/uuid"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// ids finds the records of an event id. A key for each id would cost a third of
// a replay, so ids are kept in blocks: in the order of the ledger, 64 records to
// a value, 16 bytes a record, zeros where there is no event.
//
// With its last record a segment of 65,536 is indexed: its ids are dealt by
// their hash into 256 buckets, 6 bytes an id. A lookup reads one bucket of each
// segment, a hundred and fifty for ten million records, and the blocks of the
// segments that have no index: the last one, and any whose last record is not
// an event.
//
//	i <block, 16 hex digits>                     ids
//	x <segment, 8 hex digits> <bucket, 2>        hash (32 bits), place in the segment (16 bits), …; sorted
type ids struct{}

const (
	idBlock   = 64      // records
	idSegment = 1 << 16 // records
	idBuckets = 256
	idSize    = len(uuid.UUID{})
	idRef     = 6 // bytes of an id in a bucket
	idKind    = "i"
	idIndexed = "x"
)

func (ids) Name() string { return IDs }
func (ids) Version() int { return 2 }

func idBlockKey(block uint64) string { return idKind + fmt.Sprintf("%016x", block) }

func idBucketKey(segment uint64, bucket byte) string {
	return idIndexed + fmt.Sprintf("%08x%02x", segment, bucket)
}

// idHash spreads ids whose makers chose them. The low 8 bits are the bucket,
// the next 32 stand in it.
func idHash(id []byte) uint64 {
	sum := sha256.Sum256(id)
	return binary.BigEndian.Uint64(sum[:])
}

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
	if index%idSegment == idSegment-1 {
		indexSegment(b, index/idSegment)
	}
	return nil
}

// indexSegment writes the buckets of a segment, empty ones included: they say
// that there is an index.
func indexSegment(b *projector.Batch, segment uint64) {
	var buckets [idBuckets][]uint64 // hash ‖ place
	for block := range uint64(idSegment / idBlock) {
		v, _ := projector.View[projector.Bytes](b, idBlockKey(segment*(idSegment/idBlock)+block))
		for i, id := range idsOf(*v) {
			h := idHash(id)
			place := block*idBlock + uint64(i)
			buckets[byte(h)] = append(buckets[byte(h)], h>>8&0xffffffff<<16|place)
		}
	}
	for i, refs := range buckets {
		slices.Sort(refs)
		v, _ := projector.Edit[projector.Bytes](b, idBucketKey(segment, byte(i)))
		*v = make([]byte, 0, len(refs)*idRef)
		for _, ref := range refs {
			*v = binary.BigEndian.AppendUint32(*v, uint32(ref>>16))
			*v = binary.BigEndian.AppendUint16(*v, uint16(ref))
		}
	}
}

// idsOf iterates over a block's ids by their place in it.
func idsOf(block []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for i := 0; (i+1)*idSize <= len(block); i++ {
			id := block[i*idSize : (i+1)*idSize]
			if uuid.UUID(id) != (uuid.UUID{}) && !yield(i, id) {
				return
			}
		}
	}
}

// FindEvent finds the records of an event id, one a principal at most; an id
// that is no UUID has none.
func FindEvent(s *projector.State, eventID string) (found []ledger.Seq, err error) {
	id, err := uuid.Parse(eventID)
	if err != nil || id == (uuid.UUID{}) {
		return nil, nil
	}
	for segment := range segmentsOf(s) {
		places, err := findInSegment(s, segment, id)
		if err != nil {
			return nil, err
		}
		for _, place := range places {
			found = append(found, ledger.Seq(segment*idSegment+place+1))
		}
	}
	return found, nil
}

// segmentsOf is the number of segments that have a record.
func segmentsOf(s *projector.State) uint64 {
	for _, c := range s.Cursors() {
		if c.Projection == IDs {
			return (uint64(c.Seq) + idSegment - 1) / idSegment
		}
	}
	return 0
}

// findInSegment returns the places of the id in a segment.
func findInSegment(s *projector.State, segment uint64, id uuid.UUID) (places []uint64, err error) {
	h := idHash(id[:])
	bucket, err := projector.Load[projector.Bytes](s, IDs, idBucketKey(segment, byte(h)))
	if errors.Is(err, kv.ErrNotFound) {
		return scanSegment(s, segment, id)
	}
	if err != nil {
		return nil, err
	}
	refs, want := *bucket, uint32(h>>8)
	n := sort.Search(len(refs)/idRef, func(i int) bool { return binary.BigEndian.Uint32(refs[i*idRef:]) >= want })
	for refs = refs[n*idRef:]; len(refs) >= idRef && binary.BigEndian.Uint32(refs) == want; refs = refs[idRef:] {
		place := uint64(binary.BigEndian.Uint16(refs[4:]))
		block, err := projector.Load[projector.Bytes](s, IDs, idBlockKey((segment*idSegment+place)/idBlock))
		if err != nil {
			return nil, fmt.Errorf("event id index: %w", err)
		}
		if at := int(place%idBlock) * idSize; at+idSize <= len(*block) && bytes.Equal((*block)[at:at+idSize], id[:]) {
			places = append(places, place)
		}
	}
	return places, nil
}

// scanSegment reads the blocks of a segment that has no index.
func scanSegment(s *projector.State, segment uint64, id uuid.UUID) (places []uint64, err error) {
	const blocks = idSegment / idBlock
	after := ""
	if segment > 0 {
		after = idBlockKey(segment*blocks - 1)
	}
	err = projector.Scan(s, IDs, idKind, after, func(k string, v *projector.Bytes) error {
		block, err := strconv.ParseUint(k[len(idKind):], 16, 64)
		if err != nil {
			return fmt.Errorf("event id index: %w", err)
		}
		if block >= (segment+1)*blocks {
			return kv.ErrStop
		}
		for i, have := range idsOf(*v) {
			if bytes.Equal(have, id[:]) {
				places = append(places, block%blocks*idBlock+uint64(i))
			}
		}
		return nil
	})
	return places, err
}
