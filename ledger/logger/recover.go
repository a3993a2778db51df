package logger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
)

// recover holds the stream against checkpoint and index and catches the index
// up. It reads from the last signed position on, so that a start costs what
// was written since, not the whole ledger.
//
//	checkpoint ≤ stream, else ErrBehind; its root must come out, else ErrFork
//	index ≤ stream, else ErrBehind; its head must come out, else ErrFork
//	what follows the index is chained records of this log, or foreign
func (l *Logger) recover(ctx context.Context) error {
	// The checkpoints first: another logger may sign while this one looks on,
	// and what it signed before the stream's end was read is in the stream.
	cps, err := LoadCheckpoints(l.files)
	if err != nil {
		return err
	}
	head, err := l.cfg.Stream.Head(ctx)
	if err != nil {
		return err
	}
	indexed, indexedTree, err := l.index.head()
	if err != nil {
		return err
	}
	if err := checkStart(head.First, head.Last, head.Deleted, cps, indexed); err != nil {
		return err
	}
	opening, err := l.cfg.Stream.Get(ctx, 1)
	if err != nil {
		return err
	}
	opened := openedBy(opening)
	if opened != nil {
		l.recoveryHash = strings.ToLower(opened.RecoveryKeySHA256)
	}
	if l.w.zone, err = LoadZone(zoneOf(opened)); err != nil {
		return fmt.Errorf("record 1: %w", err)
	}
	l.mu.Lock()
	l.signed = cps[0]
	l.mu.Unlock()
	from := uint64(indexed.seq)
	if cps[0].Size > l.matched {
		from = min(from, cps[0].Size)
	}
	c := catchUp{l: l, signed: cps[0].Size, checkpoints: map[uint64]ledger.Hash{}, indexed: indexed, indexedRoot: indexedTree.Root()}
	c.batch = l.index.db.NewBatch()
	defer func() { _ = c.batch.Close() }()
	for _, cp := range cps {
		if root, ok := c.checkpoints[cp.Size]; ok && root != cp.Root {
			return fmt.Errorf("%w: two checkpoints of size %d are signed, with the roots %s and %s", ErrFork, cp.Size, root, cp.Root)
		}
		c.checkpoints[cp.Size] = cp.Root
	}
	if err := l.missesCheckpoint(cps[0].Size); err != nil {
		return err
	}
	if err := c.begin(ctx, from); err != nil {
		return err
	}
	if err := l.cfg.Stream.Read(ctx, c.pos.seq+1, head.Last, c.add); err != nil {
		return err
	}
	if err := c.end(head.Last); err != nil {
		return err
	}
	if err := l.findSince(ctx); err != nil {
		return err
	}
	l.matched = cps[0].Size
	return nil
}

// missesCheckpoint says in log and status that the newest checkpoint on file is
// not the newest that was stored. That endangers nothing here, since the index
// tells what the records must be, but somebody may have been shown the gap.
func (l *Logger) missesCheckpoint(newest uint64) error {
	stored, err := l.index.stored()
	if err != nil || stored <= newest {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warning = fmt.Sprintf("the newest checkpoint on file signs %d records, but one of %d was stored: the directory was put back to an older state", newest, stored)
	l.cfg.Log.Error().Uint64("on_file", newest).Uint64("stored", stored).Msg("the newest checkpoint is gone")
	return nil
}

func checkStart(first, last ledger.Seq, deleted int, cps []ledger.Checkpoint, indexed position) error {
	switch {
	case last == 0 && len(cps) == 0 && indexed.seq == 0:
		return fmt.Errorf("the ledger was never opened: %w", ErrNotInitialised)
	case len(cps) == 0:
		return ErrNoCheckpoint
	case uint64(last) < cps[0].Size:
		return fmt.Errorf("%w: it ends at %d, the checkpoint signs %d", ErrBehind, last, cps[0].Size)
	case last < indexed.seq:
		return fmt.Errorf("%w: it ends at %d, the index knows %d", ErrBehind, last, indexed.seq)
	case first != 1 || deleted != 0:
		return fmt.Errorf("%w: the stream starts at %d and lacks %d messages", ledger.ErrCorrupt, first, deleted)
	}
	return nil
}

// catchUp walks the stream from a trusted position.
type catchUp struct {
	l           *Logger
	signed      uint64 // size of the newest checkpoint
	checkpoints map[uint64]ledger.Hash
	indexed     position
	indexedRoot ledger.Hash

	pos   position
	tree  *ledger.Tree
	batch *kv.Batch
	n     int
}

// begin finds the position to start from: the largest stored frontier at or
// below size, if the stream still holds that record; record 1 otherwise.
func (c *catchUp) begin(ctx context.Context, size uint64) (err error) {
	if c.pos, c.tree, err = c.l.index.frontierUpTo(size); err != nil {
		return err
	}
	if c.l.w.foreign, err = c.l.index.foreign(); err != nil {
		return err
	}
	if c.indexed.seq == 0 {
		// What an interrupted attempt left may be of a stream that was refused.
		c.l.w.foreign = map[ledger.Seq]ledger.Hash{}
		wipe(c.batch)
	}
	if c.pos.seq == 0 {
		return nil
	}
	body, err := c.l.cfg.Stream.Get(ctx, c.pos.seq)
	if err != nil {
		return err
	}
	if got := ledger.Leaf(body); got != c.pos.leaf {
		return fmt.Errorf("%w: record %d hashes to %s, it was %s", ErrFork, c.pos.seq, got, c.pos.leaf)
	}
	return c.compare()
}

// add takes the next stored message.
func (c *catchUp) add(seq ledger.Seq, body []byte) error {
	if seq != c.pos.seq+1 {
		return fmt.Errorf("%w: after record %d the stream continues at %d", ledger.ErrCorrupt, c.pos.seq, seq)
	}
	leaf := ledger.Leaf(body)
	r, err := ledger.ParseRecord(body)
	if err == nil && r.Seq == seq && r.Prev == c.pos.leaf {
		c.pos.time = r.RecordedAt
		if rot, ok := ledger.ParseRotation(&r); ok {
			if err := c.l.observe(seq, &rot); err != nil {
				return err
			}
		}
		if err := c.index(&r, leaf); err != nil {
			return err
		}
	} else if seq > c.indexed.seq {
		c.l.w.foreign[seq] = leaf
		c.batch.Put(foreignKey(seq), leaf[:])
	}
	c.pos.seq, c.pos.leaf = seq, leaf
	c.tree.Append(leaf)
	if err := c.compare(); err != nil {
		return err
	}
	if c.n++; c.n%5000 == 0 && seq > c.indexed.seq {
		return c.flush()
	}
	return nil
}

// index adds a record that the index does not have.
func (c *catchUp) index(r *ledger.Record, leaf ledger.Hash) error {
	if r.Seq <= c.indexed.seq {
		return nil
	}
	if ack, ok := ledger.ParseAcknowledgement(r); ok && c.l.w.foreign[ack.Seq].String() == ack.SHA256 {
		delete(c.l.w.foreign, ack.Seq)
		c.batch.Delete(foreignKey(ack.Seq))
	}
	if strings.HasPrefix(r.Principal, "logger/") {
		return nil // nobody asks for these again
	}
	ev, err := events.DecodeEnvelope(r.Event)
	if err != nil {
		return fmt.Errorf("record %d: %w: %w", r.Seq, ledger.ErrCorrupt, err)
	}
	id, err := uuid.Parse(ev.ID)
	if err != nil {
		return fmt.Errorf("record %d: %w: %w", r.Seq, ledger.ErrCorrupt, err)
	}
	putEntry(c.batch, idKey{r.Principal, id}, entry{seq: r.Seq, time: r.RecordedAt, leaf: leaf, prev: r.Prev, namespace: r.Namespace})
	return nil
}

// compare holds the position against what was signed and indexed there.
func (c *catchUp) compare() error {
	size := c.tree.Size()
	if root, ok := c.checkpoints[size]; ok && root != c.tree.Root() {
		return fmt.Errorf("%w: the checkpoint of size %d signs root %s, the records hash to %s", ErrFork, size, root, c.tree.Root())
	}
	if c.pos.seq == c.indexed.seq && (c.pos.leaf != c.indexed.leaf || c.tree.Root() != c.indexedRoot) {
		return fmt.Errorf("%w: record %d is not the one that was indexed", ErrFork, c.pos.seq)
	}
	return nil
}

// flush commits what was gathered. The head moves only once the newest
// checkpoint has been matched: a stream that is refused must leave no mark.
func (c *catchUp) flush() error {
	if uint64(c.pos.seq) >= c.signed {
		putHead(c.batch, c.pos, c.tree)
	}
	if err := c.batch.Commit(false); err != nil {
		return err
	}
	if err := c.batch.Close(); err != nil {
		return err
	}
	c.batch = c.l.index.db.NewBatch()
	return nil
}

func (c *catchUp) end(last ledger.Seq) error {
	if c.pos.seq != last {
		return fmt.Errorf("%w: the stream's end is %d, but reading it stopped at %d", ledger.ErrCorrupt, last, c.pos.seq)
	}
	if err := errors.Join(c.flush(), c.l.saveRing()); err != nil {
		return err
	}
	c.l.w.head, c.l.w.tip, c.l.w.tree = c.pos, c.pos, c.tree
	c.l.w.publish()
	return nil
}
