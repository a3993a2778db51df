package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"assay/internal/kv"
	"assay/ledger"
)

// Beside the views a runner keeps what somebody computed from them, so that it need
// not be computed again while nothing changed that it rests on. It is no part of the
// state: no digest covers it, and a replay neither has it nor believes it.
//
// What changed is known by marks. A changed key leaves one for itself and one for
// each of its prefixes that ends in 0x00; whoever reads a key or such a prefix notes
// the same mark. A mark is the CRC-32C of projection, 0x00 and key: two that are
// equal by chance cost a computation and nothing else. Every commit writes its marks
// down with the record of the commit before, so that a commit by somebody who does
// not keep them shows as a gap.
//
//	k       what is kept stands at a record: eight bytes, and whatever its owner likes
//	k/…     what is kept
//	l/<seq> the marks of a commit: the record of the one before, eight bytes, then four bytes each

const (
	keptKey    = "k"
	keptPrefix = "k/"
	markPrefix = "l/"
	// maxMarks is how many are written down before what is kept is given up: most
	// of it rests on something that changed then.
	maxMarks = 1 << 20
)

// mark is that of a key, or of a prefix of keys.
func mark(projection, key string) uint32 {
	return crc32.Update(markOf(projection), castagnoli, []byte(key))
}

func markOf(projection string) uint32 {
	return crc32.Update(0, castagnoli, append([]byte(projection), 0))
}

// appendMarks adds the marks that a change of the key leaves.
func appendMarks(marks []uint32, of uint32, key string) []uint32 {
	last := 0
	for i := range len(key) {
		if key[i] == 0 {
			of = crc32.Update(of, castagnoli, []byte(key[last:i+1]))
			marks, last = append(marks, of), i+1
		}
	}
	if last < len(key) {
		marks = append(marks, crc32.Update(of, castagnoli, []byte(key[last:])))
	}
	return marks
}

// writeMarks puts the marks of what is about to be committed into its batch.
func (r *Runner) writeMarks(w *kv.Batch) {
	var marks []uint32
	for _, v := range r.views {
		if v.ledger {
			continue
		}
		of := markOf(v.Name())
		for _, e := range v.batch.dirty {
			marks = appendMarks(marks, of, e.key)
		}
	}
	slices.Sort(marks)
	marks = slices.Compact(marks)
	if r.marks += len(marks); r.marks > r.cfg.maxMarks {
		r.keeps, r.marks = false, 0
		forget(w)
		return
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+4*len(marks)), uint64(r.served))
	for _, m := range marks {
		value = binary.BigEndian.AppendUint32(value, m)
	}
	w.Put(markKey(r.chain.seq), value)
}

func markKey(seq ledger.Seq) []byte {
	return binary.BigEndian.AppendUint64([]byte(markPrefix), uint64(seq))
}

// forget deletes everything that is kept.
func forget(w *kv.Batch) {
	w.Delete([]byte(keptKey))
	w.DeletePrefix([]byte(keptPrefix))
	w.DeletePrefix([]byte(markPrefix))
}

// Changes are the marks of what changed, each with the record of the last commit
// that changed it.
type Changes struct {
	last map[uint32]ledger.Seq
	may  [1 << 10]uint64 // a bit for each mark's low 16, so that most are told apart without a look-up
}

func (c *Changes) add(m uint32, seq ledger.Seq) {
	if c.last == nil {
		c.last = map[uint32]ledger.Seq{}
	}
	c.last[m] = seq
	c.may[m%(1<<16)/64] |= 1 << (m % 64)
}

// Since says whether anything with one of the marks, as Trace.Marks gives them,
// changed behind the record since.
func (c *Changes) Since(since ledger.Seq, marks []byte) bool {
	for ; len(marks) >= 4; marks = marks[4:] {
		m := binary.BigEndian.Uint32(marks)
		if c.may[m%(1<<16)/64]&(1<<(m%64)) != 0 && c.last[m] > since {
			return true
		}
	}
	return false
}

// KeptAt is the record that everything that is kept stood at once, what its owner
// noted with it, and what changed since; ErrNoState when nothing is kept, or it is
// not known what changed.
func (s *State) KeptAt() (at ledger.Seq, note []byte, changed *Changes, err error) {
	data, err := s.r.Get([]byte(keptKey))
	if errors.Is(err, kv.ErrNotFound) || err == nil && len(data) < 8 {
		return 0, nil, nil, fmt.Errorf("%w: nothing is kept", ErrNoState)
	}
	if err != nil {
		return 0, nil, nil, err
	}
	now, _, err := s.At()
	if err != nil {
		return 0, nil, nil, err
	}
	at = ledger.Seq(binary.BigEndian.Uint64(data))
	changed, last := &Changes{}, at
	err = s.r.Scan([]byte(markPrefix), markKey(at), func(k, v []byte) error {
		if len(k) != len(markPrefix)+8 || len(v)%4 != 0 || len(v) < 8 || ledger.Seq(binary.BigEndian.Uint64(v)) != last {
			last = 0
			return kv.ErrStop
		}
		last = ledger.Seq(binary.BigEndian.Uint64(k[len(markPrefix):]))
		for v = v[8:]; len(v) > 0; v = v[4:] {
			changed.add(binary.BigEndian.Uint32(v), last)
		}
		return nil
	})
	if err == nil && last != now {
		err = fmt.Errorf("%w: it is not known what changed since record %d", ErrNoState, at)
	}
	return at, data[8:], changed, err
}

// Kept is what was kept under a key; kv.ErrNotFound when there is nothing.
func (s *State) Kept(key string) ([]byte, error) { return s.r.Get([]byte(keptPrefix + key)) }

// ScanKept calls fn for what is kept under the keys with a prefix, in order. Bytes
// are valid during the call only.
func (s *State) ScanKept(prefix string, fn func(key string, value []byte) error) error {
	return s.r.Scan([]byte(keptPrefix+prefix), nil, func(k, v []byte) error { return fn(string(k[len(keptPrefix):]), v) })
}

// Keeping is the views at a runner's last commit, with what is kept beside them to
// be changed.
type Keeping struct {
	*State
	w *kv.Batch
	r *Runner
	// Interrupted says that the runner has something else to do.
	Interrupted func() bool
}

// Put keeps a value with the next Commit.
func (k *Keeping) Put(key string, value []byte) { k.w.Put([]byte(keptPrefix+key), value) }

// Forget deletes everything that is kept with the next Commit, before what is put
// after it.
func (k *Keeping) Forget() { forget(k.w) }

// Stand notes with the next Commit that everything that is kept stands at the views'
// record. From the first time on the runner writes down what changes.
func (k *Keeping) Stand(note []byte) error {
	at, _, err := k.At()
	if err != nil {
		return err
	}
	k.w.DeletePrefix([]byte(markPrefix)) // no commit is behind it
	k.w.Put([]byte(keptKey), append(binary.BigEndian.AppendUint64(nil, uint64(at)), note...))
	k.r.keeps, k.r.marks = true, 0
	return nil
}

// Commit writes what was put. A crash may lose it, together with the views.
func (k *Keeping) Commit() error {
	if err := k.w.Commit(false); err != nil {
		return fmt.Errorf("what is kept beside the views: %w", err)
	}
	err := k.w.Close()
	k.w = k.r.cfg.DB.NewBatch()
	return err
}

// keep lets the owner bring what is kept up to the views, if they stand at one
// record. What it cannot compute it must do without: views do not wait for it.
func (r *Runner) keep(interrupted func() bool) error {
	if r.cfg.Keep == nil || interrupted() {
		return nil
	}
	s, err := NewState(r.cfg.DB)
	if err == nil {
		_, _, err = s.At()
	}
	if errors.Is(err, ErrNoState) || errors.Is(err, ErrUneven) {
		return nil
	}
	if err != nil {
		return err
	}
	k := &Keeping{State: s, w: r.cfg.DB.NewBatch(), r: r, Interrupted: interrupted}
	defer func() { k.w.Close() }()
	if err := r.cfg.Keep(k); err != nil {
		if failed := r.cfg.DB.Err(); failed != nil {
			return err
		}
		r.cfg.Logger.Error().Err(err).Msg("what is kept beside the views could not be brought up to them")
	}
	return nil
}

// Trace notes what is read through a State (State.Traced).
type Trace struct{ marks map[uint32]struct{} }

// Marks are those of what was read, in order, four bytes each.
func (t *Trace) Marks() (out []byte) {
	for _, m := range slices.Sorted(maps.Keys(t.marks)) {
		out = binary.BigEndian.AppendUint32(out, m)
	}
	return out
}

// note that a key, or everything with a prefix, was read.
func (t *Trace) note(projection, key string) {
	if t != nil && projection != ledgerName {
		t.marks[mark(projection, key)] = struct{}{}
	}
}

// findKept says whether anything is kept, which somebody must know who changes what
// it rests on.
func (r *Runner) findKept() error {
	_, err := r.cfg.DB.Get([]byte(keptKey))
	r.keeps, r.marks = err == nil && r.cfg.Keep != nil, 0
	if errors.Is(err, kv.ErrNotFound) {
		err = nil
	}
	return err
}

// disbelieve deletes what came with a snapshot, whose digest does not cover it.
func (r *Runner) disbelieve() error {
	w := r.cfg.DB.NewBatch()
	defer w.Close()
	forget(w)
	return w.Commit(false)
}
