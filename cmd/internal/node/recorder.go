package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"assay/cmd/internal/hooks"
	"assay/events/drop"
	"assay/events/publish"
	"assay/internal/principal"
)

// Recorder publishes an agent's events one at a time, and leaves in her drop what
// cannot be delivered now: `up` or the gateway delivers it.
type Recorder struct {
	dir  Dir
	id   string
	drop drop.Dir

	mu     sync.Mutex // one event at a time: they keep their order
	conn   *nats.Conn
	client *publish.Client
	queued bool // this recorder left something; until that is gone, all else queues behind it
}

// NewRecorder records as an agent. The broker may be away.
func NewRecorder(dir Dir, agent string) *Recorder {
	return &Recorder{dir: dir, id: agent, drop: hooks.DropOf(string(dir), agent)}
}

// Publish sends an event and waits a few seconds for its receipt. Without an answer
// the event is spooled.
func (r *Recorder) Publish(ctx context.Context, event []byte) (publish.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queued {
		n, err := r.drop.Count()
		if r.queued = err != nil || n.Waiting > 0; r.queued {
			return r.spool(event)
		}
	}
	if err := r.connect(); err != nil {
		// One who may not read it has a gateway that may: her user is one of several.
		if errors.Is(err, errNoCredential) && !errors.Is(err, fs.ErrPermission) {
			return publish.Answer{}, err // nobody could deliver it either
		}
		return r.spool(event)
	}
	ctx, cancel := context.WithTimeout(ctx, publish.DefaultPatience)
	defer cancel()
	receipt, err := r.client.Publish(ctx, event)
	var refusal *publish.Refusal
	switch {
	case errors.As(err, &refusal) && errors.Is(err, publish.ErrRefused):
		return publish.Answer{Refusal: refusal}, nil
	case err != nil:
		return r.spool(event)
	}
	return publish.Answer{Receipt: receipt}, nil
}

func (r *Recorder) spool(event []byte) (publish.Answer, error) {
	if err := hooks.MakeDrop(string(r.dir), r.drop); err != nil {
		return publish.Answer{}, err
	}
	if err := r.drop.Put(event, time.Now()); err != nil {
		return publish.Answer{}, err
	}
	r.queued = true
	return publish.Answer{Spooled: true}, nil
}

var errNoCredential = errors.New("there is no credential")

func (r *Recorder) connect() error {
	if r.conn != nil && !r.conn.IsClosed() {
		return nil
	}
	cred, err := principal.LoadCredential(principal.CredentialPath(r.dir.Creds(), userOf(r.id)))
	if err != nil {
		return fmt.Errorf("%w of %s: %w", errNoCredential, r.id, err)
	}
	hub, err := LocalHub(r.dir)
	if err != nil {
		return err
	}
	if r.conn, err = hub.DialAs(cred, false); err != nil {
		return err
	}
	r.client = publish.New(r.conn, r.id)
	return nil
}

// Close ends the connection.
func (r *Recorder) Close() {
	if r.conn != nil {
		r.conn.Close()
	}
}
