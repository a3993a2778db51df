package logger

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/kv"
	"assay/ledger"
)

// An id that was used is never new, in whatever order the ids came; one that was
// not, and lies above the index's largest, is new as long as nothing was forgotten.
func TestRecentIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func(n uint64) (id [16]byte) {
			binary.BigEndian.PutUint64(id[:], n)
			return id
		}
		start := rapid.Uint64Range(0, 1000).Draw(t, "largest in the index")
		r := newRecent(id(start))
		used := map[uint64]bool{}
		at := start
		for range rapid.IntRange(1, 4*recentIDs).Draw(t, "ids") {
			// Mostly a little above what came, sometimes far below or above.
			n := at + rapid.Uint64Range(0, 64).Draw(t, "step")
			switch rapid.IntRange(0, 99).Draw(t, "kind") {
			case 0:
				n = rapid.Uint64Range(0, at).Draw(t, "below")
			case 1:
				n = at + rapid.Uint64Range(0, 1<<20).Draw(t, "far above")
			}
			fresh := r.isNew(id(n))
			if fresh && (used[n] || n <= start) {
				t.Fatalf("%d is new, and was used", n)
			}
			if !fresh && !used[n] && n > start && len(used) < recentIDs {
				t.Fatalf("%d is not new, was never used, and nothing was forgotten", n)
			}
			used[n], at = true, max(at, n)
		}
	})
}

// Half of what is remembered is forgotten at a time, and what is remembered is
// bounded.
func TestRecentIDsAreBounded(t *testing.T) {
	r := newRecent([16]byte{})
	for n := range uint64(10 * recentIDs) {
		var id [16]byte
		binary.BigEndian.PutUint64(id[8:], n+1)
		if !r.isNew(id) {
			t.Fatalf("id %d of a growing row is not new", n)
		}
		if len(r.old)+len(r.young) > 2*recentIDs {
			t.Fatalf("%d ids are remembered", len(r.old)+len(r.young))
		}
	}
}

// An entry tells its event from every other, whatever else of the record is the
// same.
func TestEntryHasItsEvent(t *testing.T) {
	event := []byte(`{"id":"a","data":{}}`)
	h := ledger.Header{Seq: 7, Prev: ledger.Leaf([]byte("x")), RecordedAt: time.Unix(5, 9).UTC(), Principal: "agent/piper", Namespace: "production"}
	e := entry{seq: h.Seq, time: time.Unix(5, 9), leaf: ledger.Leaf(ledger.AppendRecord(nil, h, event)), prev: h.Prev, namespace: h.Namespace}
	if !e.has("agent/piper", event) {
		t.Error("the entry does not know its event")
	}
	for _, other := range []string{`{"id":"a","data":{} }`, `{"id":"a","data":{"b":1}}`, ""} {
		if e.has("agent/piper", []byte(other)) {
			t.Errorf("the entry takes %q for its event", other)
		}
	}
	if e.has("agent/other", event) {
		t.Error("the entry takes another principal's event for its own")
	}
}

// An index of another version, or of none, is emptied; one of this version stays.
func TestIndexOfAnotherVersion(t *testing.T) {
	for _, tt := range []struct {
		version []byte // nil: without
		stays   bool
	}{
		{binary.BigEndian.AppendUint64(nil, indexVersion), true},
		{binary.BigEndian.AppendUint64(nil, indexVersion-1), false},
		{binary.BigEndian.AppendUint64(nil, indexVersion+1), false},
		{[]byte{}, false},
		{nil, false},
	} {
		t.Run(fmt.Sprintf("%x", tt.version), func(t *testing.T) {
			dir := t.TempDir()
			db, err := kv.Open(dir, kv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			b := db.NewBatch()
			if tt.version != nil {
				b.Put([]byte("v"), tt.version)
			}
			key := idKey{"agent/piper", [16]byte{1}}
			var tree ledger.Tree
			tree.Append(ledger.Leaf([]byte("a")))
			putEntry(b, key, entry{seq: 1, time: time.Unix(0, 1), namespace: "production"})
			putHead(b, position{seq: 1}, &tree)
			b.Put(foreignKey(3), make([]byte, 32))
			if err := b.Commit(true); err != nil {
				t.Fatal(err)
			}
			b.Close()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			x, err := openIndex(dir, &Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.close()
			_, found, err := x.lookup(key)
			if err != nil || found != tt.stays {
				t.Errorf("the entry is there: %v, %v", found, err)
			}
			head, _, err := x.head()
			if err != nil || (head.seq == 1) != tt.stays {
				t.Errorf("the head is at %d, %v", head.seq, err)
			}
			foreign, err := x.foreign()
			if err != nil || (len(foreign) == 1) != tt.stays {
				t.Errorf("%d foreign messages, %v", len(foreign), err)
			}
		})
	}
}
