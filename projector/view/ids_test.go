package view

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
)

// TestFindEventInSegments: one segment with an index, one whose last message is
// nobody's event and which so has none, and one that has just begun.
func TestFindEventInSegments(t *testing.T) {
	l := ledgertest.New()
	idOf := func(n uint64) string {
		id := uuid.UUID{0: byte(n * 37), 6: 0x80, 8: 0x80}
		binary.BigEndian.PutUint64(id[8:], n|1<<63)
		return id.String()
	}
	put := func(n uint64) ledger.Seq {
		return l.PutEvent("agent/piper", "production", fmt.Appendf(nil,
			`{"specversion":"1.0","id":"%s","source":"urn:x","type":"later.type","time":"2026-10-01T00:00:00Z","dataschema":"urn:assay:later.type:1","data":{}}`, idOf(n)))
	}
	const twice = 70_000 // is the id of two records
	for n := uint64(1); n <= 2*idSegment+100; n++ {
		switch n {
		case 10, 2 * idSegment:
			l.PutRaw([]byte("somebody else's"))
		case 77:
			put(twice)
		default:
			put(n)
		}
	}
	_, err := projector.Replay(context.Background(), projector.ReplayConfig{
		Source: l, Projections: []projector.Projection{ids{}}, Dir: t.TempDir(),
		Inspect: func(s *projector.State) error {
			for segment, indexed := range map[uint64]bool{0: true, 1: false, 2: false} {
				_, err := projector.Load[projector.Bytes](s, IDs, idBucketKey(segment, 0))
				if indexed != (err == nil) {
					t.Errorf("segment %d: %v, want an index: %v", segment, err, indexed)
				}
			}
			for n, want := range map[uint64][]ledger.Seq{
				1: {1}, 9: {9}, 10: nil, 11: {11}, 64: {64}, 65: {65}, 77: nil, idSegment - 1: {idSegment - 1}, idSegment: {idSegment},
				idSegment + 1: {idSegment + 1}, twice: {77, twice}, 2*idSegment - 1: {2*idSegment - 1}, 2 * idSegment: nil,
				2*idSegment + 1: {2*idSegment + 1}, 2*idSegment + 100: {2*idSegment + 100}, 1 << 40: nil,
			} {
				if got, err := FindEvent(s, idOf(n)); err != nil || !slices.Equal(got, want) {
					t.Errorf("id of %d: %v %v, want %v", n, got, err, want)
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
