package projector

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"slices"

	"assay/internal/kv"
	"assay/ledger"
)

// A projection's keys, in order, are cut into chunks: before each key whose
// CRC-32C has six zero bits at its end. The first chunk holds the keys before
// the first such key, perhaps none. Where the cuts are follows from the keys
// alone, so equal states have equal chunks, whatever order they grew in; keys are
// never deleted, so a cut stays. Whoever chooses keys can make a chunk long,
// which costs time and nothing else: what holds the state together is SHA-256.
//
// The runner keeps beside the state, under each chunk's first key, the record of
// the commit that last changed the chunk, eight bytes, and the chunk's hash
// behind it. The commit that changes a chunk drops the hash; it is computed again
// when it is asked for, or by the runner once it has nothing else to do.

const (
	chunkPrefix = "d/"
	chunkBits   = 6
	stampSize   = 8
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
	return r.Scan([]byte(chunks), nil, func(k, v []byte) error {
		start := k[len(chunks):]
		_, sum, ok, err := decodeChunk(v)
		if err == nil && !ok {
			sum, err = h.hashChunk(r, state, start)
		}
		if err != nil {
			return fmt.Errorf("chunk %s: %w", k, err)
		}
		return fn(start, sum)
	})
}

// decodeChunk reads what is kept of a chunk; ok says that the hash is.
func decodeChunk(v []byte) (stamp ledger.Seq, sum [sha256.Size]byte, ok bool, err error) {
	switch len(v) {
	case stampSize:
	case stampSize + len(sum):
		ok = true
		copy(sum[:], v[stampSize:])
	default:
		return 0, sum, false, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(v))
	}
	return ledger.Seq(binary.BigEndian.Uint64(v)), sum, ok, nil
}

// chunkIndex knows the chunks of one state and which hashes are not kept. It
// is what the store holds, once what it wrote is committed.
type chunkIndex struct {
	state, chunks string
	list          []chunkAt
	stale         int
	next          int // where settle goes on
	key, value    []byte
}

type chunkAt struct {
	start string
	stamp ledger.Seq
	stale bool // no hash is kept
}

// openChunks reads the index of a state. For one that was folded without, the
// chunks are found in its keys and written to w, all of them stale.
func openChunks(r kv.Reader, w *kv.Batch, c Cursor) (*chunkIndex, error) {
	x := &chunkIndex{state: stateOf(c.Projection, c.Version), chunks: chunksOf(c.Projection, c.Version)}
	if c.chunked {
		err := r.Scan([]byte(x.chunks), nil, func(k, v []byte) error {
			stamp, _, ok, err := decodeChunk(v)
			if err != nil {
				return fmt.Errorf("chunk %s: %w", k, err)
			}
			x.list = append(x.list, chunkAt{string(k[len(x.chunks):]), stamp, !ok})
			if !ok {
				x.stale++
			}
			return nil
		})
		return x, err
	}
	w.DeletePrefix([]byte(x.chunks))
	x.list = []chunkAt{{"", c.Seq, true}}
	err := r.Scan([]byte(x.state), nil, func(k, _ []byte) error {
		if k = k[len(x.state):]; startsChunk(k) {
			x.list = append(x.list, chunkAt{string(k), c.Seq, true})
		}
		return nil
	})
	x.stale = len(x.list)
	for i := range x.list {
		x.put(w, i, nil)
	}
	return x, err
}

// put writes what is kept of a chunk; sum may be empty.
func (x *chunkIndex) put(w *kv.Batch, i int, sum []byte) {
	at := &x.list[i]
	x.key = append(append(x.key[:0], x.chunks...), at.start...)
	x.value = append(binary.BigEndian.AppendUint64(x.value[:0], uint64(at.stamp)), sum...)
	w.Put(x.key, x.value)
}

// touch stamps the chunks of the entries, which are sorted, with the record that
// is committed.
func (x *chunkIndex) touch(w *kv.Batch, dirty []*entry, seq ledger.Seq) {
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
			x.mark(w, i-1, seq) // its end is this chunk's now
		}
		x.mark(w, i, seq)
	}
}

func (x *chunkIndex) mark(w *kv.Batch, i int, seq ledger.Seq) {
	at := &x.list[i]
	if at.stamp == seq {
		return
	}
	at.stamp = seq
	if !at.stale {
		at.stale = true
		x.stale++
	}
	x.put(w, i, nil)
}

// split adds the chunks that new keys start.
func (x *chunkIndex) split(dirty []*entry) {
	var starts []chunkAt
	for _, e := range dirty {
		if !e.stored && startsChunk([]byte(e.key)) {
			starts = append(starts, chunkAt{start: e.key})
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
		i := x.next
		at := &x.list[i]
		x.next++
		if !at.stale {
			continue
		}
		sum, err := h.hashChunk(r, x.state, []byte(at.start))
		if err != nil {
			return done, err
		}
		x.put(w, i, sum[:])
		at.stale = false
		x.stale--
		done++
	}
	return done, nil
}
