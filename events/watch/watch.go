// Package watch looks at the table of an SQLite database in which an agent keeps what
// she believes, and tells of every change of it: what she tells of her memory herself
// is held against what the store underneath holds.
//
// A look reads id, content, version and the columns of metadata of every row, and keeps
// hashes alone. What differs from the look before becomes an event:
//
//	a new row               belief.created
//	content changed         belief.revised, change content; without a new version where
//	                        the store counts none, or did not count on
//	version or metadata     belief.revised, change metadata; of the columns that may be
//	                        edited it is authorised
//	row deleted             belief.revised, change content, of nothing
//	id used again           belief.revised, change content, without a version
//
// Whether the agent told of a change is for the projection to say: an event waits for
// a while before it is sent, so that her own belief.revised of the same content stands
// in the ledger first. What she does not tell of is a silent change.
//
// Two changes of a row between two looks are one; content that came and went between
// them is not seen.
package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/publish"
	"assay/internal/durable"
)

// Config says what to watch, and where to tell of it.
type Config struct {
	Table Table
	// State is the file that keeps what is known of the table. One watcher holds it.
	State string
	// Author is who tells, such as dispatcher/main.
	Author string
	// Publish sends an event and returns once it stands in the ledger. The same bytes
	// may be sent again. An error that is publish.ErrRefused ends the watch.
	Publish func(ctx context.Context, event []byte) error
	// Interval is the time between two questions whether somebody committed.
	Interval time.Duration
	// Grace is how long an event waits for the agent's own.
	Grace time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// Watcher watches one table.
type Watcher struct {
	Config
	maker events.Maker
	lock  *durable.Lock
	state *state
	src   *source // nil while the database cannot be opened
	away  bool    // nobody has watched since the state was saved
	down  string  // why the database cannot be read, as it was logged
	// Looks and Sent count what was done since the start.
	Looks, Sent int64
}

// Open takes the state up; durable.ErrLocked when another watcher has it.
func Open(c Config) (*Watcher, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	path, err := filepath.Abs(c.Table.Path)
	if err != nil {
		return nil, err
	}
	c.Table.Path = path
	if err := os.MkdirAll(filepath.Dir(c.State), 0o700); err != nil {
		return nil, err
	}
	w := &Watcher{Config: c, maker: events.Maker{Source: "urn:assay:watch:" + c.Author, Now: c.Now}}
	if w.lock, err = durable.TryLock(c.State + ".lock"); err != nil {
		return nil, err
	}
	if w.state, err = loadState(c.State, c.Table); err != nil {
		return nil, errors.Join(err, w.lock.Unlock())
	}
	w.away = w.state.Looked
	return w, nil
}

// Close gives the state up. What still waits is sent by the next watcher.
func (w *Watcher) Close() error {
	err := w.lock.Unlock()
	if w.src != nil {
		err = errors.Join(err, w.src.close())
	}
	return err
}

// Waiting is how many events are still to be sent.
func (w *Watcher) Waiting() int { return len(w.state.Pending) }

// Rows is how many rows the table held at the last look.
func (w *Watcher) Rows() (n int) {
	for _, r := range w.state.Rows {
		if !r.Gone {
			n++
		}
	}
	return n
}

// Once looks once, waits for the agent's own word, and tells.
func (w *Watcher) Once(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	for len(w.state.Pending) > 0 {
		if err := sleep(ctx, w.state.Pending[len(w.state.Pending)-1].Due.Sub(w.Now())); err != nil {
			return err
		}
		if err := w.tell(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Run looks and tells until the context ends. A database that cannot be read, and a
// ledger that does not answer, are tried again; what the ledger refuses is an error, and
// so is a table that cannot be watched when the watch begins.
func (w *Watcher) Run(ctx context.Context) error {
	for first := true; ; first = false {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, errState) || first && (errors.Is(err, ErrNoTable) || errors.Is(err, ErrNotUnique)) {
				return err
			}
			w.unreadable(err)
		}
		if err := w.tell(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, publish.ErrRefused) || errors.Is(err, errState) {
				return err
			}
			w.Log.Warn().Err(err).Int("waiting", w.Waiting()).Msg("the ledger did not take what changed; it is sent again")
		}
		if err := sleep(ctx, w.Interval); err != nil {
			return nil
		}
	}
}

// unreadable logs once why the database cannot be read, and opens it anew next time.
func (w *Watcher) unreadable(err error) {
	if text := err.Error(); text != w.down {
		w.down = text
		w.Log.Warn().Err(err).Str("database", w.Table.Path).Msg("the table cannot be read; it is tried again")
	}
	w.drop()
}

func (w *Watcher) drop() {
	if w.src != nil {
		_ = w.src.close()
		w.src = nil
	}
}

// errState means that the state could not be saved: nothing is told that is not.
var errState = errors.New("save the state")

// look reads the table if somebody committed since the last look, and keeps what
// changed together with the events that tell of it.
func (w *Watcher) look(ctx context.Context) error {
	if w.src != nil && w.src.replaced() {
		w.drop()
	}
	if w.src == nil {
		src, err := open(ctx, w.Table)
		if err != nil {
			return err
		}
		w.src = src
	} else if changed, err := w.src.changed(ctx); err != nil || !changed {
		return err
	}
	now, err := w.src.look(ctx)
	if err != nil {
		return err
	}
	w.Looks++
	w.down = ""
	changes := w.state.diff(now, w.away)
	pending, due := w.state.Pending, w.Now().Add(w.Grace)
	for _, d := range changes {
		raw, err := w.event(d)
		if err != nil {
			w.drop() // what changed is found again
			return err
		}
		pending = append(pending, told{due, raw})
	}
	was, first := *w.state, !w.state.Looked
	w.state.take(now)
	w.state.Pending = pending
	if len(changes) > 0 || first {
		if err := w.state.save(w.State); err != nil {
			*w.state = was // as if the table had not been read
			w.drop()
			return fmt.Errorf("%w: %w", errState, err)
		}
	}
	w.away = false
	return nil
}

func (w *Watcher) event(d events.Payload) ([]byte, error) {
	component, capture := "assay watch sqlite", "live"
	*d.Common() = events.Context{Component: &component, Capture: &capture, Author: &w.Author}
	ev, err := w.maker.New(d)
	if err != nil {
		return nil, err
	}
	return events.Encode(ev)
}

// tell sends what is due, in order.
func (w *Watcher) tell(ctx context.Context) (err error) {
	sent, now := 0, w.Now()
	for _, p := range w.state.Pending {
		if p.Due.After(now) {
			break
		}
		if err = w.Publish(ctx, p.Event); err != nil {
			break
		}
		sent++
	}
	if sent == 0 {
		return err
	}
	w.Sent += int64(sent)
	w.state.Pending = w.state.Pending[sent:]
	if serr := w.state.save(w.State); serr != nil {
		return fmt.Errorf("%w: %w", errState, serr)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
