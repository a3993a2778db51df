package logger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"assay/internal/kv"
	"assay/ledger"
)

// index is the logger's memory of what it wrote. It holds nothing that the
// stream does not say too, so a lost index is rebuilt and a rewound one is
// caught up.
//
//	v                           → indexVersion
//	e ‖ principal ‖ 0 ‖ id      → seq ‖ recorded_at ns ‖ leaf ‖ prev ‖ namespace
//	h                           → seq ‖ recorded_at ns ‖ leaf ‖ frontier
//	f ‖ size                    → the same as h, at a size that was signed
//	x ‖ seq                     → leaf of a foreign message without acknowledgement
//	s                           → size of the newest checkpoint that was stored
//
// Numbers are eight bytes, big-endian. An index of another version is made anew.
type index struct {
	db *kv.DB
	// thinned is a size up to which signed positions were thinned out already.
	thinned uint64
}

const indexVersion = 2

// entry is what the index keeps of a record: its leaf, and all that the leaf is
// made of but the principal and the event.
type entry struct {
	seq       ledger.Seq
	time      time.Time
	leaf      ledger.Hash
	prev      ledger.Hash
	namespace string
}

// has reports whether the record is of this event of its principal's: other bytes
// would have another leaf. So nothing needs to be hashed for an event that comes
// but once.
func (e *entry) has(principal string, event []byte) bool {
	h := ledger.Header{Seq: e.seq, Prev: e.prev, RecordedAt: e.time, Principal: principal, Namespace: e.namespace}
	return ledger.Leaf(ledger.AppendRecord(nil, h, event)) == e.leaf
}

// idKey names an event: ids are unique for each principal.
type idKey struct {
	principal string
	id        [16]byte
}

func openIndex(dir string, cfg *Config) (*index, error) {
	db, err := kv.Open(dir, kv.Options{Logger: cfg.Log, FS: cfg.IndexFS, WrittenMore: true})
	if err != nil {
		return nil, fmt.Errorf("logger index: %w", err)
	}
	x := &index{db: db}
	if err := x.renew(); err != nil {
		return nil, errors.Join(fmt.Errorf("logger index: %w", err), db.Close())
	}
	return x, nil
}

// renew empties an index of another version.
func (x *index) renew() error {
	v, err := x.db.Get([]byte("v"))
	if err == nil && len(v) == 8 && binary.BigEndian.Uint64(v) == indexVersion {
		return nil
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	b := x.db.NewBatch()
	defer b.Close()
	wipe(b)
	b.Put([]byte("v"), binary.BigEndian.AppendUint64(nil, indexVersion))
	return b.Commit(true)
}

func (x *index) close() error { return x.db.Close() }

func (k idKey) bytes() []byte { return k.append(make([]byte, 0, len(k.principal)+18)) }

func (k idKey) append(b []byte) []byte {
	b = append(b, 'e')
	b = append(b, k.principal...)
	b = append(b, 0)
	return append(b, k.id[:]...)
}

func (x *index) lookup(k idKey) (entry, bool, error) {
	v, err := x.db.Get(k.bytes())
	if errors.Is(err, kv.ErrNotFound) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, err
	}
	if len(v) < 16+64 {
		return entry{}, false, fmt.Errorf("index entry of %d bytes: %w", len(v), ledger.ErrCorrupt)
	}
	e := entry{seq: ledger.Seq(binary.BigEndian.Uint64(v)), time: time.Unix(0, int64(binary.BigEndian.Uint64(v[8:])))}
	copy(e.leaf[:], v[16:])
	copy(e.prev[:], v[48:])
	e.namespace = string(v[80:])
	return e, true, nil
}

// largest is the largest id that the index has of a principal; all zeros when
// it has none.
func (x *index) largest(principal string) (id [16]byte, err error) {
	prefix := idKey{principal: principal}.bytes()
	prefix = prefix[:len(prefix)-len(id)]
	key, err := x.db.LastKey(prefix)
	if errors.Is(err, kv.ErrNotFound) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	if len(key) != len(prefix)+len(id) {
		return id, fmt.Errorf("index key of %d bytes: %w", len(key), ledger.ErrCorrupt)
	}
	copy(id[:], key[len(prefix):])
	return id, nil
}

func putEntry(b *kv.Batch, k idKey, e entry) {
	var key, value [128]byte
	v := binary.BigEndian.AppendUint64(value[:0], uint64(e.seq))
	v = binary.BigEndian.AppendUint64(v, uint64(e.time.UnixNano()))
	v = append(append(v, e.leaf[:]...), e.prev[:]...)
	b.Put(k.append(key[:0]), append(v, e.namespace...))
}

func encodeHead(p position, tree *ledger.Tree) []byte {
	v := make([]byte, 16, 16+32+32*64)
	binary.BigEndian.PutUint64(v, uint64(p.seq))
	binary.BigEndian.PutUint64(v[8:], uint64(p.time.UnixNano()))
	v = append(v, p.leaf[:]...)
	return append(v, tree.EncodeFrontier()...)
}

func decodeHead(v []byte) (position, *ledger.Tree, error) {
	if len(v) < 48 {
		return position{}, nil, fmt.Errorf("index head of %d bytes: %w", len(v), ledger.ErrCorrupt)
	}
	p := position{seq: ledger.Seq(binary.BigEndian.Uint64(v)), time: time.Unix(0, int64(binary.BigEndian.Uint64(v[8:])))}
	copy(p.leaf[:], v[16:])
	tree, err := ledger.DecodeFrontier(uint64(p.seq), v[48:])
	return p, tree, err
}

// head is the last indexed position; the empty tree when there is none.
func (x *index) head() (position, *ledger.Tree, error) {
	v, err := x.db.Get([]byte("h"))
	if errors.Is(err, kv.ErrNotFound) {
		return position{}, &ledger.Tree{}, nil
	}
	if err != nil {
		return position{}, nil, err
	}
	return decodeHead(v)
}

func putHead(b *kv.Batch, p position, tree *ledger.Tree) { b.Put([]byte("h"), encodeHead(p, tree)) }

func frontierKey(size uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{'f'}, size)
}

// keepFrontiers is how many signed positions stay: the checkpoint on file may
// be one older than the index knows, after a crash between the two. Beyond
// them those stay whose checkpoints do (ledger.KeepCheckpoint), so that a proof
// from any signed size need not read the ledger from record 1.
const keepFrontiers = 4

// putSigned stores the frontier of a size that is about to be signed, and syncs
// the index. The one of onFile, the size of the checkpoint that will be
// replaced, stays however often signing fails. One signature at a time.
func (x *index) putSigned(p position, tree *ledger.Tree, onFile uint64) error {
	var sizes []uint64 // that may have to go
	var after []byte
	if x.thinned > 0 {
		after = frontierKey(x.thinned)
	}
	err := x.db.Scan([]byte{'f'}, after, func(k, _ []byte) error {
		if size := binary.BigEndian.Uint64(k[1:]); size < tree.Size() {
			sizes = append(sizes, size)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := x.db.NewBatch()
	defer b.Close()
	b.Put(frontierKey(tree.Size()), encodeHead(p, tree))
	thinned := x.thinned
	for i, size := range sizes[:max(0, len(sizes)-keepFrontiers+1)] {
		next := tree.Size()
		if i+1 < len(sizes) {
			next = sizes[i+1]
		}
		if size >= onFile {
			break
		}
		thinned = size
		if !ledger.KeepCheckpoint(size, next) {
			b.Delete(frontierKey(size))
		}
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	x.thinned = thinned
	return nil
}

// keepFollowed is how many positions a standby keeps: more seconds than a
// checkpoint can be behind the records.
const keepFollowed = 16

// putFollowed stores a frontier that a takeover may start from. The oldest
// stays too, which is at or below the last checkpoint that was matched.
func (x *index) putFollowed(p position, tree *ledger.Tree) error {
	var stored []uint64
	err := x.db.Scan([]byte{'f'}, nil, func(k, _ []byte) error {
		stored = append(stored, binary.BigEndian.Uint64(k[1:]))
		return nil
	})
	if err != nil {
		return err
	}
	b := x.db.NewBatch()
	defer b.Close()
	for i := 1; i < len(stored)-keepFollowed; i++ {
		if !ledger.KeepCheckpoint(stored[i], stored[i+1]) {
			b.Delete(frontierKey(stored[i]))
		}
	}
	b.Put(frontierKey(tree.Size()), encodeHead(p, tree))
	return b.Commit(true)
}

// frontierUpTo is the largest stored frontier of at most size leaves.
func (x *index) frontierUpTo(size uint64) (p position, tree *ledger.Tree, err error) {
	tree = &ledger.Tree{}
	err = x.db.Scan([]byte{'f'}, nil, func(k, v []byte) error {
		if binary.BigEndian.Uint64(k[1:]) > size {
			return kv.ErrStop
		}
		p, tree, err = decodeHead(v)
		return err
	})
	return p, tree, err
}

// putStored notes that a checkpoint of this size is on file.
func (x *index) putStored(size uint64) error {
	b := x.db.NewBatch()
	defer b.Close()
	b.Put([]byte("s"), binary.BigEndian.AppendUint64(nil, size))
	return b.Commit(false)
}

// stored is the size of the newest checkpoint that was on file; 0 when none is
// known.
func (x *index) stored() (uint64, error) {
	v, err := x.db.Get([]byte("s"))
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err == nil && len(v) != 8 {
		err = fmt.Errorf("index entry of the stored checkpoint: %w", ledger.ErrCorrupt)
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// wipe forgets everything: the index is about to be made from record 1.
func wipe(b *kv.Batch) {
	for _, kind := range "efhxs" {
		b.DeletePrefix([]byte{byte(kind)})
	}
}

func foreignKey(seq ledger.Seq) []byte {
	return binary.BigEndian.AppendUint64([]byte{'x'}, uint64(seq))
}

// foreign lists the foreign messages that wait for an acknowledgement.
func (x *index) foreign() (map[ledger.Seq]ledger.Hash, error) {
	out := map[ledger.Seq]ledger.Hash{}
	err := x.db.Scan([]byte{'x'}, nil, func(k, v []byte) error {
		if len(k) != 9 || len(v) != len(ledger.Hash{}) {
			return fmt.Errorf("index entry of a foreign message: %w", ledger.ErrCorrupt)
		}
		out[ledger.Seq(binary.BigEndian.Uint64(k[1:]))] = ledger.Hash(v)
		return nil
	})
	return out, err
}
