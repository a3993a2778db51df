package kv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestClone: a clone holds what the store did, and writing to it, compactions
// included, changes not a byte of the original.
func TestClone(t *testing.T) {
	base := t.TempDir()
	from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
	db, err := Open(from, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		b := db.NewBatch()
		for i := range 2000 {
			b.Put(fmt.Appendf(nil, "key-%05d", i), fmt.Appendf(nil, "round %d", round))
		}
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			break // the last one stays in the log
		}
		if err := db.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clone(from, to); !errors.Is(err, ErrLocked) {
		t.Fatalf("clone of an open store: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, from)
	if err := Clone(from, to); err != nil {
		t.Fatal(err)
	}
	clone, err := Open(to, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = clone.Scan([]byte("key-"), nil, func(_, v []byte) error {
		n++
		if string(v) != "round 2" {
			return fmt.Errorf("value %s", v)
		}
		return nil
	})
	if err != nil || n != 2000 {
		t.Fatalf("the clone has %d keys, %v", n, err)
	}
	b := clone.NewBatch()
	b.DeletePrefix([]byte("key-"))
	b.Put([]byte("other"), []byte("value"))
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(clone.db.Flush(), clone.db.Compact(t.Context(), []byte("a"), []byte("z"), false), clone.Close()); err != nil {
		t.Fatal(err)
	}
	after := files(t, from)
	for name, want := range before {
		if !bytes.Equal(after[name], want) {
			t.Errorf("%s changed under the clone", name)
		}
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = data
	}
	return out
}
