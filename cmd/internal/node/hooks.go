package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/cmd/internal/hooks"
	"assay/events/drop"
	"assay/events/publish"
	"assay/internal/durable"
	"assay/internal/principal"
)

const (
	// hooksEvery is how long a drop is left alone once it is empty.
	hooksEvery = 250 * time.Millisecond
	// hooksPause is how long a drop waits whose events cannot be delivered.
	hooksPause = 2 * time.Second
	// hooksBatch is how many events of a drop are under way at once.
	hooksBatch = 256
	// hooksPatience is how long their answers are waited for before the events
	// are taken up anew, in their order.
	hooksPatience = 30 * time.Second
	// begunKept is how long a call that began is remembered without an end.
	begunKept = 7 * 24 * time.Hour
)

// Hooks delivers what the hooks of agents' clients leave in DIR/hooks, each
// agent's events with its own credential. Of several on one directory one
// delivers.
type Hooks struct {
	dir  Dir
	hub  *Hub
	log  zerolog.Logger
	done sync.WaitGroup
	ctx  context.Context

	mu    sync.Mutex
	drops map[string]*dropped // by role/name; none is taken away
}

// dropped is one agent's drop.
type dropped struct {
	drop.Dir
	principal          string
	delivered, refused atomic.Uint64
	trouble            atomic.Pointer[string] // why nothing is delivered now

	// Of the one that delivers: the lock that keeps others out, and the way to the
	// ledger; nil until there is something to deliver.
	lock   *durable.Lock
	conn   *nats.Conn
	client *publish.Client
}

// StartHooks delivers until ctx ends. The broker may be away meanwhile.
func StartHooks(ctx context.Context, dir Dir, hub *Hub, log zerolog.Logger) *Hooks {
	h := &Hooks{dir: dir, hub: hub, log: log, ctx: ctx, drops: map[string]*dropped{}}
	h.done.Go(func() {
		for h.look(); pause(ctx, hooksEvery) == nil; h.look() {
		}
	})
	return h
}

// Wait returns once nothing is delivered any more, after the context that it was
// started with ended.
func (h *Hooks) Wait() error {
	<-h.ctx.Done()
	h.done.Wait()
	return nil
}

// pause waits; its error is that of a context that ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// look takes up drops that are new.
func (h *Hooks) look() {
	entries, _ := os.ReadDir(h.dir.Hooks()) // there is none before the first hook
	for _, e := range entries {
		id := strings.Replace(e.Name(), ".", "/", 1)
		if !e.IsDir() || !hooks.IsAgent(id) {
			continue
		}
		h.mu.Lock()
		d := h.drops[id]
		if d == nil {
			d = &dropped{Dir: hooks.DropOf(string(h.dir), id), principal: id}
			h.drops[id] = d
			h.done.Go(func() { h.deliver(d) })
		}
		h.mu.Unlock()
	}
}

// deliver empties a drop again and again.
func (h *Hooks) deliver(d *dropped) {
	defer d.close()
	swept := time.Time{}
	for {
		n, err := h.empty(d)
		switch {
		case h.ctx.Err() != nil:
			return
		case n == 0 && err == nil && time.Since(swept) > time.Hour:
			swept = time.Now()
			d.sweep(swept.Add(-begunKept))
		}
		wait := hooksEvery
		switch {
		case errors.Is(err, durable.ErrLocked): // another process delivers
			wait = hooksPause
		case err != nil:
			d.say(h.log, err)
			wait = hooksPause
		default:
			d.trouble.Store(nil)
			if n > 0 {
				continue // there may be more
			}
		}
		if pause(h.ctx, wait) != nil {
			return
		}
	}
}

func (d *dropped) close() {
	if d.conn != nil {
		d.conn.Close()
	}
	if d.lock != nil {
		_ = d.lock.Unlock()
	}
}

// say notes why nothing is delivered, once for each reason.
func (d *dropped) say(log zerolog.Logger, err error) {
	text := err.Error()
	if old := d.trouble.Swap(&text); old == nil || *old != text {
		log.Warn().Err(err).Str("principal", d.principal).Msg("what hooks left is not delivered; it stays where it is")
	}
}

// empty delivers the oldest events and says how many. Their answers are waited
// for in order; what has none stays.
func (h *Hooks) empty(d *dropped) (int, error) {
	if err := d.hold(); err != nil {
		return 0, err
	}
	items, _, err := d.Waiting(hooksBatch)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	if err := h.connect(d); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, hooksPatience)
	defer cancel()
	pending := make([]*publish.Pending, len(items))
	for i, item := range items {
		pending[i] = d.client.Send(item.Event)
	}
	for i, item := range items {
		_, err := pending[i].Wait(ctx)
		var refusal *publish.Refusal
		switch {
		case errors.As(err, &refusal) && errors.Is(err, publish.ErrRefused):
			d.refused.Add(1)
			d.Complain(time.Now(), fmt.Sprintf("the ledger refused an event: %v", refusal))
		case err != nil:
			return i, fmt.Errorf("deliver what hooks left: %w", err)
		default:
			d.delivered.Add(1)
		}
		if err := item.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
	}
	return len(items), nil
}

// hold takes the drop's lock: durable.ErrLocked while another process has it.
func (d *dropped) hold() (err error) {
	if d.lock == nil {
		d.lock, err = durable.TryLock(filepath.Join(string(d.Dir), "lock"))
	}
	return err
}

// connect opens the agent's connection, again where it was closed for good.
func (h *Hooks) connect(d *dropped) error {
	if d.conn != nil && !d.conn.IsClosed() {
		return nil
	}
	cred, err := principal.LoadCredential(principal.CredentialPath(h.hub.creds, userOf(d.principal)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no credential of %s: `assay principal add %s` makes one", d.principal, d.principal)
	}
	if err != nil {
		return err
	}
	// Not in process: there, a revoked principal's connection is never closed.
	if d.conn, err = h.hub.DialAs(cred, false); err != nil {
		return err
	}
	d.client = publish.New(d.conn, d.principal)
	return nil
}

// sweep forgets calls that began before a time and never ended: denied ones, say.
func (d *dropped) sweep(before time.Time) {
	begun := filepath.Join(string(d.Dir), "begun")
	entries, _ := os.ReadDir(begun) // there is none before the first call
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(begun, e.Name()))
		}
	}
}

// HookStatus is what the hooks of one agent left, and what became of it.
type HookStatus struct {
	Waiting   int    `json:"waiting"`   // events that are to be delivered
	Delivered uint64 `json:"delivered"` // since the start
	Refused   uint64 `json:"refused"`   // by the ledger, for good
	Errors    int    `json:"errors"`    // in the log beside the events, of hooks that could not record
	LastError string `json:"last_error,omitzero"`
	Trouble   string `json:"trouble,omitzero"` // why nothing is delivered
}

// StatusOf is by agent; nil where no hook ran yet, or nothing delivers.
func (h *Hooks) StatusOf() map[string]HookStatus {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out map[string]HookStatus
	for id, d := range h.drops {
		s := HookStatus{Delivered: d.delivered.Load(), Refused: d.refused.Load()}
		_, s.Waiting, _ = d.Waiting(0)
		s.Errors, s.LastError = d.Complaints()
		if t := d.trouble.Load(); t != nil {
			s.Trouble = *t
		}
		if out == nil {
			out = map[string]HookStatus{}
		}
		out[id] = s
	}
	return out
}
