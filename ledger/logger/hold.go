package logger

import (
	"errors"
	"fmt"
	"time"

	"assay/ledger/stream"
)

// patience is how long a client waits for an append whose outcome is unknown.
// A broker that is started again is back well before.
const patience = 5 * time.Second

// outcome waits for the answer to the append under way. A broker whose disk is
// full gives none, so those who wait for it are looked after meanwhile.
func (w *writer) outcome(acked <-chan error, b *batch, tick *time.Ticker) error {
	for {
		select {
		case err := <-acked:
			return err
		case <-tick.C:
			w.checkRoom()
			w.hold(b, nil)
		}
	}
}

// stuck is the state while an append has no outcome, and why.
func (w *writer) stuck(err error) (State, string) {
	switch {
	case errors.Is(err, stream.ErrFull):
		return LowDisk, err.Error()
	case w.room == roomForNone:
		return LowDisk, fmt.Sprintf("%s; %s", w.roomDetail(), err)
	}
	return Undecided, err.Error()
}

// hold answers everyone who waits for b, or behind it, that the ledger is
// unavailable: at once where that is because it is full, else when patience
// ends. Until b is settled everything that comes is answered the same. What
// was sent stays as it is: it is decided later, and whoever then sends the same
// event again gets the receipt of what was stored.
func (w *writer) hold(b *batch, err error) {
	why := unavailable("the ledger does not answer; publish the same event again")
	switch {
	case w.held:
		return
	case w.l.lapsed():
		return // another logger may answer: see fence
	case w.room == roomForNone || errors.Is(err, stream.ErrFull):
		why = unavailable("the ledger's disk is full; publish the same event again")
	case w.l.cfg.Clock.Monotonic()-w.sent < patience:
		return
	}
	w.held = true
	body := why.encode()
	for _, waits := range []*batch{b, w.built} {
		if waits == nil {
			continue
		}
		for _, rec := range waits.records {
			kept := rec.waiters[:0]
			for _, wt := range rec.waiters {
				if wt.r.reply == nil {
					kept = append(kept, wt) // nobody to answer: it is stored, or counted when it is dropped
					continue
				}
				wt.r.answer(wt.i, body)
			}
			rec.waiters = kept
		}
	}
	w.l.queues.close(why)
}

// release takes events again once the append is settled.
func (w *writer) release() {
	if w.held {
		w.held = false
		w.l.queues.open()
	}
}
