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
)

// Hooks delivers what the hooks of agents' clients leave in DIR/hooks, each
// agent's events with its own credential. Of several on one directory one
// delivers. A drop counts if it belongs to the directory's owner or to a user who
// may call the gateway as that agent.
//
// The drop is the agent's, who may fill it with traps. So the lock, and the log of
// what was refused, stand in DIR/gateway/hooks.
type Hooks struct {
	dir  Dir
	hub  *Hub
	door *Gateway // nil where none runs
	log  zerolog.Logger
	done sync.WaitGroup
	ctx  context.Context

	mu    sync.Mutex
	drops map[string]*dropped // by role/name; none is taken away
}

// dropped is one agent's drop.
type dropped struct {
	drop.Dir
	principal string
	room      drop.Dir // of whoever delivers: lock and log
	delivered atomic.Uint64
	trouble   atomic.Pointer[string] // why nothing is delivered now

	// Of the one that delivers: the lock that keeps others out, and the way to the
	// ledger; nil until there is something to deliver.
	lock   *durable.Lock
	conn   *nats.Conn
	client *publish.Client
}

// StartHooks delivers until ctx ends. The broker may be away meanwhile. door says who
// may speak as whom, and may be nil.
func StartHooks(ctx context.Context, dir Dir, hub *Hub, door *Gateway, log zerolog.Logger) *Hooks {
	h := &Hooks{dir: dir, hub: hub, door: door, log: log, ctx: ctx, drops: map[string]*dropped{}}
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
			d = &dropped{Dir: hooks.DropOf(string(h.dir), id), principal: id, room: drop.Dir(filepath.Join(h.dir.Gateway(), "hooks", userOf(id)))}
			h.drops[id] = d
			h.done.Go(func() { h.deliver(d) })
		}
		h.mu.Unlock()
	}
}

// deliver empties a drop again and again.
func (h *Hooks) deliver(d *dropped) {
	defer d.close()
	swept := time.Time{} // of what was left unfinished
	for {
		n, err := h.empty(d)
		switch {
		case h.ctx.Err() != nil:
			return
		case n == 0 && err == nil && time.Since(swept) > time.Hour:
			swept = time.Now()
			d.Sweep(swept.Add(-time.Hour))
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
	items, err := d.Waiting(hooksBatch)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	if err := h.owned(d); err != nil {
		return 0, err
	}
	if err := h.connect(d); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, hooksPatience)
	defer cancel()
	pending := make([]*publish.Pending, len(items))
	for i, item := range items {
		if item.Err == nil {
			pending[i] = d.client.Send(item.Event)
		}
	}
	for i, item := range items {
		if err := d.settle(ctx, item, pending[i]); err != nil {
			return i, err
		}
	}
	return len(items), nil
}

// owned says why a drop's events do not count as its principal's: nil if they do.
func (h *Hooks) owned(d *dropped) error {
	owner, err := d.Owner()
	if err != nil {
		return err
	}
	house, err := drop.Dir(h.dir).Owner()
	if err != nil {
		return err
	}
	if owner == house || owner == uint32(os.Geteuid()) || h.door.speaksAs(owner, d.principal) {
		return nil
	}
	return fmt.Errorf("%s belongs to uid %d, who may not speak as %s: `gateway.json` says who may, and `assay permissions` makes their directories", d.Dir, owner, d.principal)
}

// settle waits for the answer to an event, nil for what is none, and takes it out of
// the drop: delivered, or set aside for good.
func (d *dropped) settle(ctx context.Context, item drop.Item, sent *publish.Pending) error {
	refused := item.Err
	if sent != nil {
		_, err := sent.Wait(ctx)
		var refusal *publish.Refusal
		switch {
		case err == nil:
			d.delivered.Add(1)
			return item.Remove()
		case !errors.As(err, &refusal) || !errors.Is(err, publish.ErrRefused):
			return fmt.Errorf("deliver what hooks left: %w", err)
		}
		refused = fmt.Errorf("the ledger refused an event: %w", refusal)
	}
	name, err := item.SetAside()
	if err != nil {
		return err
	}
	d.room.Complain(time.Now(), fmt.Sprintf("%v; it is kept as %s", refused, name))
	return nil
}

// hold takes the drop's lock: durable.ErrLocked while another process has it.
func (d *dropped) hold() error {
	if d.lock != nil {
		return nil
	}
	err := os.MkdirAll(string(d.room), 0o700)
	if err == nil {
		d.lock, err = durable.TryLock(filepath.Join(string(d.room), "lock"))
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

// HookStatus is what the hooks of one agent left, and what became of it.
type HookStatus struct {
	Waiting   int    `json:"waiting"`          // events that are to be delivered
	Delivered uint64 `json:"delivered"`        // since the start
	Refused   int    `json:"refused"`          // files that are kept as NAME.refused: the ledger refused the event, or it is another user's
	Strange   int    `json:"strange,omitzero"` // entries that are named like events and are no files
	Errors    int    `json:"errors"`           // in the logs, of hooks that could not record and of what was refused
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
		n, _ := d.Count()
		s := HookStatus{Waiting: n.Waiting, Delivered: d.delivered.Load(), Refused: n.Refused, Strange: n.Strange}
		s.Errors, s.LastError = d.Complaints()
		ours, last := d.room.Complaints()
		s.Errors, s.LastError = s.Errors+ours, max(s.LastError, last) // each begins with its time
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
