package publish

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"assay/events/publish/spool"
	"assay/schema"
)

// ErrSpooled means that the event is on this client's disk and will be
// delivered, under the same id. It is not a receipt: the ledger may refuse it.
var ErrSpooled = errors.New("spooled: on disk, to be delivered when the ledger is there again")

// ErrClosed means that nothing is published over this connection any more: it
// was closed, or the broker refuses the credential for good.
var ErrClosed = errors.New("the connection to the broker is closed for good")

// DefaultPatience is how long a client with a spool tries to deliver an event.
const DefaultPatience = 3 * time.Second

const (
	forwardEvents = 1000
	forwardBytes  = 1 << 20
)

// spooling is the part of a Client that has a spool.
type spooling struct {
	spool    *spool.Spool
	patience time.Duration
	refused  func([]byte, *Refusal)
	away     atomic.Bool // the last that was heard of the ledger is nothing
}

// publishOrSpool is PublishBatch with a spool.
func (c *Client) publishOrSpool(ctx context.Context, batch [][]byte) ([]Answer, error) {
	answers := make([]Answer, len(batch))
	err := c.caughtUp(ctx)
	if err == nil {
		short, cancel := context.WithTimeout(ctx, c.patience)
		defer cancel()
		answers, err = c.publishBatch(short, batch)
		if err == nil {
			c.away.Store(false)
			return answers, nil
		}
	}
	switch { // nobody would ever forward it, or the caller left
	case c.nc.IsClosed():
		return answers, fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, nats.ErrMaxPayload) || errors.Is(ctx.Err(), context.Canceled):
		return answers, err
	}
	c.away.Store(true)
	return answers, c.keep(answers, batch)
}

// errBehind means that spooled events go first.
var errBehind = errors.New("earlier events are not delivered yet")

// caughtUp waits, as long as the client's patience, until what is spooled was
// delivered: without that a busy client would go on spooling behind a ledger
// that is back.
func (c *Client) caughtUp(ctx context.Context) error {
	if c.spool.Empty() {
		return nil
	}
	if c.away.Load() {
		return errBehind
	}
	short, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	return c.spool.Drained(short)
}

// keep spools the events that have no final answer. What no ledger would take
// is refused here and now: there is nobody to record it.
func (c *Client) keep(answers []Answer, batch [][]byte) error {
	var open [][]byte
	var which []int
	for i, a := range answers {
		if a.Leaf != "" || a.Refusal != nil && a.Refusal.RetryAfter == nil {
			continue
		}
		answers[i] = Answer{}
		if refusal := hopeless(batch[i]); refusal != nil {
			answers[i].Refusal = refusal
			continue
		}
		open, which = append(open, batch[i]), append(which, i)
	}
	if err := c.spool.Append(open...); err != nil {
		return err
	}
	for _, i := range which {
		answers[i].Spooled = true
	}
	return nil
}

// hopeless is why no ledger takes the event. A type or version that this build
// does not know may be known there.
func hopeless(event []byte) *Refusal {
	_, fault := schema.Check(event)
	if fault == nil || fault.Code == schema.CodeUnknownType || fault.Code == schema.CodeUnknownVersion {
		return nil
	}
	return &Refusal{Code: string(fault.Code), Pointer: fault.Pointer, Message: fault.Message}
}

// Forward delivers what is spooled, in order, until ctx ends or nothing can be
// delivered any more: ErrClosed, spool.ErrClosed, or spool.ErrCorrupt for files
// that were altered. One Forward runs at a time.
func (c *Client) Forward(ctx context.Context) error {
	for {
		b, err := c.spool.Peek(ctx, forwardEvents, forwardBytes)
		if err != nil {
			return err
		}
		answers, err := c.publishBatch(ctx, b.Events)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			if c.nc.IsClosed() {
				return fmt.Errorf("%w: %w", ErrClosed, err)
			}
			select { // an answer that is none: ask again
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(longPause):
			}
			continue
		}
		c.away.Store(false)
		for i, a := range answers {
			if a.Refusal != nil && c.refused != nil {
				c.refused(b.Events[i], a.Refusal)
			}
		}
		c.spool.Done(b)
	}
}
