package projector

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"hash/crc32"
	"slices"

	"assay/internal/kv"
)

// A projection's keys, in order, are cut into chunks: before each key whose
// CRC-32C has seven zero bits at its end. The first chunk holds the keys before
// the first such key, perhaps none. Where the cuts are follows from the keys
// alone, so equal states have equal chunks, whatever order they grew in; keys are
// never deleted, so a cut stays. Whoever chooses keys can make a chunk long,
// which costs time and nothing else: what holds the state together is SHA-256.
//
// The runner keeps each chunk's hash beside the state, under the chunk's first
// key, and empties it in the very commit that changes the chunk; an empty one is
// computed again when it is asked for, or by the runner once it has nothing
// else to do.

const (
	chunkPrefix = "d/"
	chunkBits   = 7
	// Tags that start what is hashed, so that no chunk is a state.
	chunkTag = 0x00
	stateTag = 0x01
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// startsChunk says whether a key is the first of its chunk.
func startsChunk(key []byte) bool {
	return len(key) > 0 && crc32.Checksum(key, castagnoli)&(1<<chunkBits-1) == 0
}

func chunksOf(name string, version int) string {
	return chunkPrefix + stateOf(name, version)[len(statePrefix):]
}

// chunkHasher computes the hashes of chunks, one after the other.
type chunkHasher struct {
	h   hash.Hash
	buf []byte // an entry as it is hashed
}

func newChunkHasher() *chunkHasher { return &chunkHasher{h: sha256.New()} }

func (c *chunkHasher) begin() {
	c.h.Reset()
	c.h.Write([]byte{chunkTag})
}

func (c *chunkHasher) add(key, value []byte) {
	c.buf = appendSized(c.buf[:0], key)
	c.buf = appendSized(c.buf, value)
	c.h.Write(c.buf)
}

func (c *chunkHasher) sum() (sum [sha256.Size]byte) {
	c.h.Sum(sum[:0])
	return sum
}

// scanChunks calls fn for every chunk of a state, computed from its bytes.
func scanChunks(r kv.Reader, state string, fn func(start []byte, sum [sha256.Size]byte) error) error {
	h := newChunkHasher()
	var start []byte
	h.begin()
	err := r.Scan([]byte(state), nil, func(k, v []byte) error {
		k = k[len(state):]
		if startsChunk(k) {
			if err := fn(start, h.sum()); err != nil {
				return err
			}
			start = append(start[:0], k...)
			h.begin()
		}
		h.add(k, v)
		return nil
	})
	if err != nil {
		return err
	}
	return fn(start, h.sum())
}

// hashChunk computes one chunk's hash from its bytes.
func (c *chunkHasher) hashChunk(r kv.Reader, state string, start []byte) ([sha256.Size]byte, error) {
	c.begin()
	var after []byte
	if len(start) > 0 {
		after = append([]byte(state), start...)
		v, err := r.Get(after)
		if err != nil {
			return [sha256.Size]byte{}, fmt.Errorf("chunk %s: %w", after, err)
		}
		c.add(start, v)
	}
	err := r.Scan([]byte(state), after, func(k, v []byte) error {
		k = k[len(state):]
		if startsChunk(k) {
			return kv.ErrStop
		}
		c.add(k, v)
		return nil
	})
	return c.sum(), err
}

// keptChunks calls fn for every chunk with the hash that is kept of it, and
// computes those that are not.
func keptChunks(r kv.Reader, c Cursor, fn func(start []byte, sum [sha256.Size]byte) error) error {
	state, chunks := stateOf(c.Projection, c.Version), chunksOf(c.Projection, c.Version)
	if !c.chunked {
		return scanChunks(r, state, fn)
	}
	h := newChunkHasher()
	return r.Scan([]byte(chunks), nil, func(k, v []byte) (err error) {
		start := k[len(chunks):]
		var sum [sha256.Size]byte
		switch len(v) {
		case len(sum):
			copy(sum[:], v)
		case 0:
			if sum, err = h.hashChunk(r, state, start); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: hash of chunk %s", ErrCorrupt, k)
		}
		return fn(start, sum)
	})
}

// chunkIndex knows the chunks of one state and which hashes are not kept. It
// is what the store holds, once what it wrote is committed.
type chunkIndex struct {
	state, chunks string
	list          []chunkAt
	stale         int
	next          int // where settle goes on
	key           []byte
}

type chunkAt struct {
	start string
	stale bool
}

// openChunks reads the index of a state. For one that was folded without, the
// chunks are found in its keys and written to w, all of them stale.
func openChunks(r kv.Reader, w *kv.Batch, c Cursor) (*chunkIndex, error) {
	x := &chunkIndex{state: stateOf(c.Projection, c.Version), chunks: chunksOf(c.Projection, c.Version)}
	if c.chunked {
		err := r.Scan([]byte(x.chunks), nil, func(k, v []byte) error {
			x.list = append(x.list, chunkAt{string(k[len(x.chunks):]), len(v) == 0})
			if len(v) == 0 {
				x.stale++
			}
			return nil
		})
		return x, err
	}
	w.DeletePrefix([]byte(x.chunks))
	x.list = []chunkAt{{"", true}}
	err := r.Scan([]byte(x.state), nil, func(k, _ []byte) error {
		if k = k[len(x.state):]; startsChunk(k) {
			x.list = append(x.list, chunkAt{string(k), true})
		}
		return nil
	})
	x.stale = len(x.list)
	for _, at := range x.list {
		w.Put(x.keyOf(at.start), nil)
	}
	return x, err
}

func (x *chunkIndex) keyOf(start string) []byte {
	x.key = append(append(x.key[:0], x.chunks...), start...)
	return x.key
}

// touch marks the chunks of the entries, which are sorted, as stale.
func (x *chunkIndex) touch(w *kv.Batch, dirty []*entry) {
	x.split(dirty)
	i := 0
	for _, e := range dirty {
		// The chunk is the last one that starts at the key or before it.
		n, found := slices.BinarySearchFunc(x.list[i:], e.key, func(at chunkAt, key string) int { return cmp.Compare(at.start, key) })
		i += n
		if !found {
			i--
		}
		if found && !e.stored && i > 0 {
			x.mark(w, i-1) // its end is this chunk's now
		}
		x.mark(w, i)
	}
}

func (x *chunkIndex) mark(w *kv.Batch, i int) {
	if x.list[i].stale {
		return
	}
	x.list[i].stale = true
	x.stale++
	w.Put(x.keyOf(x.list[i].start), nil)
}

// split adds the chunks that new keys start.
func (x *chunkIndex) split(dirty []*entry) {
	var starts []chunkAt
	for _, e := range dirty {
		if !e.stored && startsChunk([]byte(e.key)) {
			starts = append(starts, chunkAt{e.key, false})
		}
	}
	if len(starts) == 0 {
		return
	}
	old := x.list
	x.list = make([]chunkAt, 0, len(old)+len(starts))
	for _, at := range starts {
		n, _ := slices.BinarySearchFunc(old, at.start, func(at chunkAt, key string) int { return cmp.Compare(at.start, key) })
		x.list = append(append(x.list, old[:n]...), at)
		old = old[n:]
	}
	x.list = append(x.list, old...)
}

// settle computes up to n stale hashes from what is committed and writes them.
// It returns how many.
func (x *chunkIndex) settle(r kv.Reader, w *kv.Batch, n int) (done int, err error) {
	h := newChunkHasher()
	for range x.list {
		if done == n || x.stale == 0 {
			break
		}
		if x.next >= len(x.list) {
			x.next = 0
		}
		at := &x.list[x.next]
		x.next++
		if !at.stale {
			continue
		}
		sum, err := h.hashChunk(r, x.state, []byte(at.start))
		if err != nil {
			return done, err
		}
		w.Put(x.keyOf(at.start), sum[:])
		at.stale = false
		x.stale--
		done++
	}
	return done, nil
}
