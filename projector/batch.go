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
	dirty   []*entry // changed since the last commit
	edits   int      // changes since the counter was last read
	err     error    // the first failed read; the runner stops on it
	buf     bytes.Buffer
	// known is set for a projection that started from nothing in this process:
	// what it does not know is not in the store.
	known *keyFilter
}

type entry struct {
	key    string
	value  any // *T
	exists bool
	dirty  bool
	stored bool // in the store when it was read, or written since
}

// Bytes is a value that is stored as it is instead of as JSON.
type Bytes []byte

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
	if !e.dirty {
		e.dirty = true
		b.dirty = append(b.dirty, e)
	}
	e.exists = true
	b.edits++
	return e.value.(*T), existed
}

// View returns the value at key to be read only, and whether it is there.
func View[T any](b *Batch, key string) (v *T, exists bool) {
	e, ok := b.entries[key]
	if !ok {
		if e = load[T](b, key); e.exists {
			b.entries[key] = e
		}
	}
	return e.value.(*T), e.exists
}

func find[T any](b *Batch, key string) *entry {
	e, ok := b.entries[key]
	if !ok {
		e = load[T](b, key)
		b.entries[key] = e
	}
	return e
}

// load reads a value from the store; a new zero value when it is absent.
func load[T any](b *Batch, key string) *entry {
	e := &entry{key: key, value: new(T)}
	if b.known != nil && !b.known.mayHave(key) {
		return e
	}
	data, err := b.store.Get([]byte(b.prefix + key))
	if errors.Is(err, kv.ErrNotFound) {
		return e
	}
	if err == nil {
		e.exists, e.stored = true, true
		err = decodeValue(data, e.value)
	}
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("state %s%s: %w", b.prefix, key, err)
	}
	return e
}

// decodeValue reads what flush wrote; data is kept by a Bytes.
func decodeValue(data []byte, v any) error {
	if raw, ok := v.(*Bytes); ok {
		*raw = data
		return nil
	}
	return json.Unmarshal(data, v)
}

// flush adds the changed keys to w in order.
func (b *Batch) flush(w *kv.Batch) error {
	slices.SortFunc(b.dirty, func(x, y *entry) int { return strings.Compare(x.key, y.key) })
	key := []byte(b.prefix)
	for _, e := range b.dirty {
		if b.known != nil && !e.stored {
			b.known.add(e.key)
		}
		key = append(key[:len(b.prefix)], e.key...)
		if raw, ok := e.value.(*Bytes); ok {
			w.Put(key, *raw)
			continue
		}
		b.buf.Reset()
		if err := json.MarshalWrite(&b.buf, e.value, encoding); err != nil {
			return fmt.Errorf("state %s: %w", key, err)
		}
		w.Put(key, b.buf.Bytes())
	}
	return nil
}

// committed forgets what is on disk now, but for a bounded number of values
// that the next records are likely to touch again.
func (b *Batch) committed() {
	for i, e := range b.dirty {
		e.dirty, e.stored = false, true
		b.dirty[i] = nil
	}
	b.dirty = b.dirty[:0]
	if len(b.entries) > keepEntries {
		clear(b.entries)
	}
}

// reset drops everything that was not committed.
func (b *Batch) reset() {
	clear(b.entries)
	b.dirty, b.err, b.edits = nil, nil, 0
}
