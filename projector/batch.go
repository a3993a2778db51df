package projector

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/internal/kv"
)

// keepEntries bounds the decoded values that a Batch keeps between commits.
const keepEntries = 8192

// encoding makes equal values equal bytes, whatever order a map iterates in.
var encoding = json.JoinOptions(json.Deterministic(true))

// Batch is one projection's view of its own state: values are decoded once,
// changed in memory, and each touched key is written once a commit.
type Batch struct {
	store   kv.Reader
	prefix  string
	entries map[string]*entry
	raw     []rawPut
	edits   int   // changes since the counter was last read
	err     error // the first failed read; the runner stops on it
	buf     bytes.Buffer
	// known is set for a projection that started from nothing in this process:
	// what it does not know is not in the store.
	known *keyFilter
}

type entry struct {
	value  any // *T
	exists bool
	dirty  bool
	stored bool // in the store when it was read, or written since
}

type rawPut struct {
	key   string
	value []byte
}

func newBatch(store kv.Reader, prefix string) *Batch {
	return &Batch{store: store, prefix: prefix, entries: make(map[string]*entry)}
}

// Edit returns the value at key to be changed in place, and whether it was
// there; if not, it is a new zero value. It is written with the next commit.
// The pointer must not be kept after Apply.
//
// A store that cannot be read yields a zero value here and stops the runner
// after the Apply.
func Edit[T any](b *Batch, key string) (v *T, existed bool) {
	e := find[T](b, key)
	existed = e.exists
	e.exists, e.dirty = true, true
	b.edits++
	return e.value.(*T), existed
}

// View returns the value at key to be read only, and whether it is there.
func View[T any](b *Batch, key string) (v *T, exists bool) {
	e := find[T](b, key)
	return e.value.(*T), e.exists
}

// Put writes bytes at a key that is not otherwise edited or viewed.
func (b *Batch) Put(key string, value []byte) {
	b.raw = append(b.raw, rawPut{key, value})
	b.edits++
}

func find[T any](b *Batch, key string) *entry {
	if e, ok := b.entries[key]; ok {
		return e
	}
	v := new(T)
	e := &entry{value: v}
	b.entries[key] = e
	if b.known != nil && !b.known.mayHave(key) {
		return e
	}
	data, err := b.store.Get([]byte(b.prefix + key))
	if errors.Is(err, kv.ErrNotFound) {
		return e
	}
	if err == nil {
		e.exists, e.stored = true, true
		err = json.Unmarshal(data, v)
	}
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("state %s%s: %w", b.prefix, key, err)
	}
	return e
}

// flush adds the changed keys to w in order.
func (b *Batch) flush(w *kv.Batch) error {
	keys := make([]string, 0, len(b.entries))
	for k, e := range b.entries {
		if e.dirty {
			keys = append(keys, k)
			if b.known != nil && !e.stored {
				b.known.add(k)
			}
		}
	}
	slices.Sort(keys)
	key := []byte(b.prefix)
	for _, k := range keys {
		e := b.entries[k]
		b.buf.Reset()
		if err := json.MarshalWrite(&b.buf, e.value, encoding); err != nil {
			return fmt.Errorf("state %s%s: %w", b.prefix, k, err)
		}
		key = append(key[:len(b.prefix)], k...)
		w.Put(key, b.buf.Bytes())
	}
	slices.SortStableFunc(b.raw, func(x, y rawPut) int { return strings.Compare(x.key, y.key) })
	for _, p := range b.raw {
		key = append(key[:len(b.prefix)], p.key...)
		w.Put(key, p.value)
	}
	return nil
}

// committed forgets what is on disk now, but for a bounded number of values
// that the next records are likely to touch again.
func (b *Batch) committed() {
	b.raw = b.raw[:0]
	if len(b.entries) > keepEntries {
		clear(b.entries)
		return
	}
	for _, e := range b.entries {
		e.stored = e.stored || e.dirty
		e.dirty = false
	}
}

// reset drops everything that was not committed.
func (b *Batch) reset() {
	clear(b.entries)
	b.raw, b.err, b.edits = nil, nil, 0
}
