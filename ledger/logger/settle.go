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
// it is finished and the rest answered. ErrFenced, ErrBehind and ErrFork end
// the logger.
func (w *writer) settle(ctx context.Context, b *batch, err error) error {
	pause := firstPause
	first, msgs := b.first, b.msgs
	undecided := false
	for {
		switch {
		case err == nil:
			if undecided {
				w.l.setState(Serving, "")
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
			w.l.setState(Undecided, err.Error())
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
		err = w.l.cfg.Stream.Append(context.WithoutCancel(ctx), first, msgs)
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
		body, err := w.l.cfg.Stream.Get(ctx, seq)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", stream.ErrUndecided, err)
		}
		if ledger.Leaf(body) != ledger.Leaf(m.Body) {
			return 0, w.meetForeign(ctx, b, seq, head.Last)
		}
	}
	return len(msgs), nil
}

// meetForeign settles a batch whose record at seq is not in the stream: what
// is before it was stored, what follows was not and never will be, since the
// stream moved on. It chains over the messages up to last and closes the
// intake to everything but their acknowledgement.
func (w *writer) meetForeign(ctx context.Context, b *batch, seq, last ledger.Seq) error {
	n := int(seq - b.first)
	stored := &batch{first: b.first, msgs: b.msgs[:n], records: b.records[:n]}
	rest := &batch{first: seq, msgs: b.msgs[n:], records: b.records[n:]}
	if err := w.finish(stored); err != nil {
		return err
	}
	w.drop(rest)
	w.tip = w.head
	kb := w.l.index.db.NewBatch()
	defer kb.Close()
	for ; seq <= last; seq++ {
		body, err := w.l.cfg.Stream.Get(ctx, seq)
		if err != nil {
			return fmt.Errorf("read foreign message %d: %w", seq, err)
		}
		if r, err := ledger.ParseRecord(body); err == nil && r.Seq == seq && r.Prev == w.head.leaf {
			return fmt.Errorf("%w: record %d is linked to this ledger but not ours", ErrFenced, seq)
		}
		leaf := ledger.Leaf(body)
		w.foreign[seq] = leaf
		kb.Put(foreignKey(seq), leaf[:])
		w.tree.Append(leaf)
		w.head.seq, w.head.leaf = seq, leaf
	}
	w.tip = w.head
	if err := w.commit(kb); err != nil {
		return err
	}
	w.l.setState(ForeignIn, w.foreignDetail())
	return errForeign
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
