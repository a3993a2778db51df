package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"assay/internal/kv"
	"assay/ledger"
)

func (r *Runner) foldChunk(ctx context.Context, c *chunk) error {
	for i := range c.items {
		it := &c.items[i]
		if r.anchor != (ledger.Hash{}) {
			if err := r.checkAnchor(it); err != nil {
				return err
			}
			continue
		}
		if err := r.fold(it); err != nil {
			return err
		}
		if r.pending++; r.pending >= r.cfg.CommitEvery {
			if err := r.commit(); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAnchor finds the message at the lowest cursor again.
func (r *Runner) checkAnchor(it *item) error {
	if it.at != r.chain.seq {
		return &LinkError{Seq: it.at, Kind: ErrGap, What: "sequence", Want: fmt.Sprint(r.chain.seq), Got: fmt.Sprint(it.at)}
	}
	if it.Leaf != r.anchor {
		return &LinkError{Seq: it.at, Kind: ErrFork, What: "leaf", Want: r.anchor.String(), Got: it.Leaf.String()}
	}
	r.chain.parent, r.anchor = it.Prev, ledger.Hash{}
	return nil
}

// fold takes one message into every view that has not got it yet.
func (r *Runner) fold(it *item) error {
	if r.chain.settled() == nil && r.chain.check(it) != nil {
		if err := r.commit(); err != nil { // for nothing will be while the suspect waits
			return err
		}
	}
	what, reason, err := r.chain.next(it)
	if err != nil {
		return r.keepGood(err)
	}
	for _, v := range r.views {
		if v.cursor.Seq >= it.at {
			if v.cursor.Seq == it.at && v.cursor.Leaf != it.Leaf {
				return &LinkError{Seq: it.at, Kind: ErrFork, What: "leaf", Want: v.cursor.Leaf.String(), Got: it.Leaf.String()}
			}
			continue
		}
		if err := r.apply(v, it, what, reason); err != nil {
			return err
		}
	}
	if waits := r.chain.settled() != nil; waits != r.waits {
		r.waits = waits
		r.update(func(s *Status) { s.Halted = haltedText(r.chain.settled()) })
	}
	return nil
}

func haltedText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// keepGood commits what was folded before the message that ends the feed.
func (r *Runner) keepGood(err error) error {
	if cerr := r.commit(); cerr != nil {
		return errors.Join(err, cerr)
	}
	return err
}

func (r *Runner) apply(v *view, it *item, what step, reason string) error {
	b := v.batch
	b.edits = 0
	var err error
	switch {
	case what == stepForeign:
		if v.ledger {
			addForeign(b, it, reason)
			r.foreign++
		}
	case it.decodeErr == nil:
		err = v.Apply(b, &it.Record)
	case v.ledger:
		err = v.Apply(b, &it.Record)
		r.park(v, it, it.decodeErr)
	}
	if b.err != nil {
		return b.err
	}
	if err == nil {
		return nil
	}
	if b.edits > 0 {
		return fmt.Errorf("%w: %s at %d: %w", ErrPartialApply, v.Name(), it.at, err)
	}
	r.park(v, it, err)
	return b.err
}

func (r *Runner) park(v *view, it *item, reason error) {
	p, _ := Edit[Parked](v.batch, parkedPrefix+SeqKey(it.at))
	*p = Parked{Projection: v.Name(), Seq: it.at, Reason: reason.Error()}
	r.parked++
	r.cfg.Logger.Warn().Str("projection", v.Name()).Uint64("seq", uint64(it.at)).Err(reason).Msg("record parked")
}

// commit writes the touched keys, the cursors and the feed's position in one
// batch. It is not fsynced: a crash rewinds all of them together. While a
// suspect waits, nothing is committed, so that a restart sees it again.
func (r *Runner) commit() error {
	if r.pending == 0 || r.chain.settled() != nil {
		return nil
	}
	w := r.cfg.DB.NewBatch()
	defer w.Close()
	for _, v := range r.views {
		if v.cursor.Seq >= r.chain.seq {
			continue
		}
		if err := r.commitView(w, v); err != nil {
			return err
		}
	}
	position := buildKey
	if r.level() {
		position = servedKey
		r.serve(w)
		if r.keeps {
			r.writeMarks(w)
		}
	}
	w.Put([]byte(position), encodeFrontier(&r.chain.tree))
	if err := w.Commit(false); err != nil {
		return fmt.Errorf("commit views at %d: %w", r.chain.seq, err)
	}
	return r.committed()
}

// level says that the fold has come as far as readers are.
func (r *Runner) level() bool { return r.chain.seq >= r.served }

func (r *Runner) commitView(w *kv.Batch, v *view) error {
	if err := v.batch.flush(w); err != nil {
		return err
	}
	if v.chunks != nil {
		v.chunks.touch(w, v.batch.dirty, r.chain.seq)
	}
	c := v.cursor
	c.Seq, c.Leaf, c.chunked = r.chain.seq, r.chain.leaf, v.chunks != nil
	return putCursor(w, c)
}

func putCursor(w *kv.Batch, c Cursor) error {
	data, err := json.Marshal(storedCursor{c.Seq, c.Leaf.String(), c.chunked})
	if err != nil {
		return fmt.Errorf("cursor of %s: %w", c.Projection, err)
	}
	w.Put([]byte(cursorKey(c.Projection, c.Version)), data)
	return nil
}

// serve shows readers what was built, and deletes what they saw instead and
// every build that was given up.
func (r *Runner) serve(w *kv.Batch) {
	if len(r.others) == 0 && !slices.ContainsFunc(r.views, func(v *view) bool { return !v.active }) {
		return
	}
	for _, c := range r.others {
		drop(w, c)
		w.Delete([]byte(activePrefix + c.Projection))
	}
	for _, v := range r.views {
		w.Put([]byte(activePrefix+v.Name()), strconv.AppendInt(nil, int64(v.Version()), 10))
	}
	w.Delete([]byte(buildKey))
}

// drop deletes one version of a projection.
func drop(w *kv.Batch, c Cursor) {
	w.DeletePrefix([]byte(stateOf(c.Projection, c.Version)))
	w.DeletePrefix([]byte(chunksOf(c.Projection, c.Version)))
	w.Delete([]byte(cursorKey(c.Projection, c.Version)))
}

func (r *Runner) committed() error {
	swapped := false
	for _, v := range r.views {
		if v.cursor.Seq >= r.chain.seq {
			continue
		}
		v.cursor.Seq, v.cursor.Leaf, v.cursor.chunked = r.chain.seq, r.chain.leaf, v.chunks != nil
		v.batch.committed()
	}
	if r.level() {
		for _, v := range r.views {
			swapped = swapped || !v.active && r.served > 0
			v.active = true
		}
		r.served, r.others = r.chain.seq, nil
	}
	r.update(func(s *Status) {
		s.Parked, s.Foreign = s.Parked+r.parked, s.Foreign+r.foreign
		s.Seq, s.Head = r.chain.seq, max(s.Head, r.chain.seq)
		s.Rebuilding, s.Views = r.rebuilding(), r.places()
	})
	r.pending, r.parked, r.foreign = 0, 0, 0
	if swapped { // what the old version parked is gone
		if err := r.loadStatus(); err != nil {
			return err
		}
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.Status())
	}
	return nil
}
