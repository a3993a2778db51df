package logger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/ledger"
	"assay/ledger/stream"
)

const (
	firstPause = 20 * time.Millisecond
	longPause  = 2 * time.Second
)

// settle turns an append's outcome into a certainty: nil once all of b is
// stored. It sends identical bytes again for as long as ctx lives.
//
// errForeign: the stream goes on with another's message; the part of b before
// it is finished and the rest answered. ErrFenced, ErrBehind and
// ledger.ErrCorrupt end the logger; b is then as it was.
func (w *writer) settle(ctx context.Context, b *batch, err error) error {
	pause := firstPause
	first, msgs := b.first, b.msgs
	undecided := false
	defer w.release()
	acked := err == nil // by the broker, just now: it is no older than b.sent
	for {
		switch {
		case err == nil:
			if undecided {
				w.rest()
			}
			if acked {
				w.l.renew(b.sent)
			}
			return nil
		case errors.Is(err, stream.ErrWrongSequence):
			var done int
			done, err = w.compare(ctx, b, first, msgs)
			if err != nil && !errors.Is(err, stream.ErrUndecided) {
				return err
			}
			if err == nil && done == len(msgs) {
				continue
			}
			if err == nil && done == 0 {
				// The stream ended elsewhere a moment ago and does not now.
				err = fmt.Errorf("%w: the stream's end moved", stream.ErrUndecided)
			}
			// A prefix is ours: what is left goes out with the same bytes.
			first += ledger.Seq(done)
			msgs = msgs[done:]
		}
		if err != nil {
			undecided = true
			w.checkRoom()
			w.l.setState(w.stuck(err))
			w.hold(b, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			pause = min(2*pause, longPause)
		}
		b.sent = w.l.cfg.Clock.Monotonic()
		err = w.l.cfg.Stream.Append(context.WithoutCancel(ctx), first, msgs)
		acked = err == nil
	}
}

// compare finds out how many of msgs, expected from first on, the stream
// holds. A message there that is not ours ends the append.
func (w *writer) compare(ctx context.Context, b *batch, first ledger.Seq, msgs []stream.Message) (int, error) {
	head, err := w.l.cfg.Stream.Head(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", stream.ErrUndecided, err)
	}
	if head.Last+1 < first {
		return 0, fmt.Errorf("%w: it ends at %d, record %d was confirmed", ErrBehind, head.Last, first-1)
	}
	for i, m := range msgs {
		seq := first + ledger.Seq(i)
		if seq > head.Last {
			return i, nil
		}
		body, err := w.get(ctx, seq)
		if err != nil {
			return 0, err
		}
		if ledger.Leaf(body) != ledger.Leaf(m.Body) {
			return 0, w.meetForeign(ctx, b, seq, head.Last)
		}
	}
	return len(msgs), nil
}

// get reads a message that the stream must have.
func (w *writer) get(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	body, err := w.l.cfg.Stream.Get(ctx, seq)
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return nil, fmt.Errorf("%w: the stream goes on after %d but lacks it", ledger.ErrCorrupt, seq)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", stream.ErrUndecided, err)
	}
	return body, nil
}

// meetForeign settles a batch whose record at seq is not in the stream: what
// is before it was stored, what follows was not and never will be, since the
// stream moved on. It chains over the messages up to last and closes the
// intake to everything but their acknowledgement. Before all of them are read
// nothing is changed.
func (w *writer) meetForeign(ctx context.Context, b *batch, seq, last ledger.Seq) error {
	n := int(seq - b.first)
	prev := w.head.leaf
	if n > 0 {
		prev = b.records[n-1].entry.leaf
	}
	leaves, err := w.foreignLeaves(ctx, prev, seq, last)
	if err != nil {
		return err
	}
	if err := w.finish(&batch{records: b.records[:n]}); err != nil {
		return err
	}
	w.drop(&batch{records: b.records[n:]})
	b.records = nil
	kb := w.l.index.db.NewBatch()
	defer kb.Close()
	for i, leaf := range leaves {
		at := seq + ledger.Seq(i)
		w.foreign[at] = leaf
		kb.Put(foreignKey(at), leaf[:])
		w.tree.Append(leaf)
		w.head.seq, w.head.leaf = at, leaf
	}
	w.tip = w.head
	if err := w.commit(kb); err != nil {
		return err
	}
	w.rest()
	return errForeign
}

// foreignLeaves reads the messages from seq to last that others wrote behind
// the record of leaf prev. ErrFenced: one of them is a record of this ledger.
func (w *writer) foreignLeaves(ctx context.Context, prev ledger.Hash, seq, last ledger.Seq) ([]ledger.Hash, error) {
	var leaves []ledger.Hash
	for ; seq <= last; seq++ {
		body, err := w.get(ctx, seq)
		if err != nil {
			return nil, err
		}
		if r, err := ledger.ParseRecord(body); err == nil && r.Seq == seq && r.Prev == prev {
			return nil, fmt.Errorf("%w: record %d is linked to this ledger but not ours", ErrFenced, seq)
		}
		prev = ledger.Leaf(body)
		leaves = append(leaves, prev)
	}
	return leaves, nil
}

func (w *writer) foreignDetail() string {
	seqs := slices.Sorted(maps.Keys(w.foreign))
	if len(seqs) == 0 {
		return ""
	}
	return fmt.Sprintf("message %d (sha256 %s) was not written by this logger; %d wait for acknowledgement", seqs[0], w.foreign[seqs[0]], len(seqs))
}

// acknowledges is the foreign message that the event acknowledges; 0 if none.
func (w *writer) acknowledges(who string, event []byte) ledger.Seq {
	ack, ok := ledger.ParseAcknowledgement(&ledger.Record{Header: ledger.Header{Principal: who}, Event: event})
	if !ok {
		return 0
	}
	if leaf, waits := w.foreign[ack.Seq]; !waits || leaf.String() != ack.SHA256 {
		return 0
	}
	return ack.Seq
}
