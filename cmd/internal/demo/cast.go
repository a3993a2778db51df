package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
)

// actor is one principal of the story, with its own credential and nothing else.
type actor struct {
	id      string
	nc      *nats.Conn
	client  *publish.Client
	maker   events.Maker
	episode string
	n       int
}

// newActor connects as role/name.
func newActor(hub *node.Hub, id, user, episode string) (*actor, error) {
	nc, err := hub.Connect(user)
	if err != nil {
		return nil, err
	}
	return &actor{
		id: id, nc: nc, client: publish.New(nc, id), episode: episode,
		maker: events.Maker{Source: "urn:assay:demo:" + id},
	}, nil
}

// say publishes an event and returns its id.
func (a *actor) say(ctx context.Context, p events.Payload) (string, error) {
	ev, err := a.maker.New(p)
	if err != nil {
		return "", err
	}
	a.n++
	ev.EpisodeID, ev.Sequence = a.episode, fmt.Sprint(a.n)
	raw, err := events.Encode(ev)
	if err != nil {
		return "", err
	}
	if _, err := a.client.Publish(ctx, raw); err != nil {
		return "", fmt.Errorf("%s says %s: %w", a.id, ev.Type, err)
	}
	return ev.ID, nil
}

// all publishes several events in order.
func (a *actor) all(ctx context.Context, ps ...events.Payload) error {
	for _, p := range ps {
		if _, err := a.say(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// refused publishes bytes that the ledger must not take, and returns the code.
func (a *actor) refused(ctx context.Context, raw []byte) (string, error) {
	_, err := a.client.Publish(ctx, raw)
	var r *publish.Refusal
	if !errors.As(err, &r) {
		return "", fmt.Errorf("the ledger took what it must refuse from %s: %w", a.id, err)
	}
	return r.Code, nil
}

func (a *actor) close() { a.nc.Close() }

// live is the context block of events as they happen.
func live(component, opportunity string) events.Context {
	capture := "live"
	c := events.Context{Component: &component, Capture: &capture}
	if opportunity != "" {
		c.OpportunityID = &opportunity
	}
	return c
}

func ptr[T any](v T) *T { return &v }

func timestamp(t time.Time) *string { return ptr(events.FormatTime(t)) }
