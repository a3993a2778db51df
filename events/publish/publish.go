// Package publish is the client side of an intake: it sends events, waits for
// their receipts and, where none came, sends the same bytes again. The event
// id makes that safe: the ledger takes an event once.
package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
)

// ErrRefused means that the ledger will not take these bytes; the error is an
// *Refusal.
var ErrRefused = errors.New("event refused")

// MaxMessage is the largest intake message in bytes, one event or a batch.
const MaxMessage = 2 << 20

const (
	attemptTimeout = 5 * time.Second
	firstPause     = 100 * time.Millisecond
	longPause      = 5 * time.Second
)

// Receipt says where the ledger holds an event, durably.
type Receipt struct {
	// Seq is nil for a principal that is not told positions.
	Seq        *uint64 `json:"seq,omitzero"`
	Leaf       string  `json:"leaf"` // hex leaf hash of the record
	RecordedAt string  `json:"recorded_at"`
}

// Refusal is the intake's answer to an event that it did not take.
type Refusal struct {
	Code       string   `json:"code"`
	Pointer    string   `json:"pointer"` // JSON Pointer into the event
	Message    string   `json:"message"`
	RetryAfter *float64 `json:"retry_after"` // seconds; nil: never
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Pointer == "" {
		return fmt.Sprintf("%s: %s", r.Code, r.Message)
	}
	return fmt.Sprintf("%s at %s: %s", r.Code, r.Pointer, r.Message)
}

// Is makes errors.Is(err, ErrRefused) true.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// Answer is a receipt or a refusal.
type Answer struct {
	Receipt
	Refusal *Refusal `json:"error,omitzero"`
}

// Client publishes as one principal.
type Client struct {
	nc      *nats.Conn
	subject string
}

// New publishes over nc, which must be connected as principal (role/name).
func New(nc *nats.Conn, principal string) *Client {
	return &Client{nc: nc, subject: "intake." + strings.Replace(principal, "/", ".", 1)}
}

// Publish sends one event and waits until the ledger holds it. Without an
// answer, or while the ledger is unavailable, it sends the same bytes again
// until ctx ends. A refusal is a *Refusal.
func (c *Client) Publish(ctx context.Context, event []byte) (Receipt, error) {
	var a Answer
	err := c.exchange(ctx, event, func(reply []byte) (retry *Refusal, err error) {
		a = Answer{}
		if err := json.Unmarshal(reply, &a); err != nil {
			return nil, fmt.Errorf("read receipt: %w", err)
		}
		return retryable(a), nil
	})
	if err != nil {
		return Receipt{}, err
	}
	if a.Refusal != nil {
		return Receipt{}, a.Refusal
	}
	return a.Receipt, nil
}

// PublishBatch sends several events as one message, at most MaxMessage bytes
// together, and returns their answers in order; the events are independent of
// each other. Events that the ledger was unavailable for are sent again until
// ctx ends.
func (c *Client) PublishBatch(ctx context.Context, batch [][]byte) ([]Answer, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	body := append(append([]byte{'['}, bytes.Join(batch, []byte{','})...), ']')
	var out []Answer
	err := c.exchange(ctx, body, func(reply []byte) (retry *Refusal, err error) {
		if jsontext.Value(reply).Kind() == '{' {
			var a Answer
			if err := json.Unmarshal(reply, &a); err != nil {
				return nil, fmt.Errorf("read receipts: %w", err)
			}
			if r := retryable(a); r != nil {
				return r, nil
			}
			return nil, fmt.Errorf("batch: %w", a.Refusal)
		}
		out = nil
		if err := json.Unmarshal(reply, &out); err != nil || len(out) != len(batch) {
			return nil, fmt.Errorf("read receipts: %d for %d events: %w", len(out), len(batch), err)
		}
		for _, a := range out {
			if r := retryable(a); r != nil {
				return r, nil
			}
		}
		return nil, nil
	})
	return out, err
}

func retryable(a Answer) *Refusal {
	if a.Refusal != nil && a.Refusal.RetryAfter != nil {
		return a.Refusal
	}
	return nil
}

// exchange sends body until read accepts an answer.
func (c *Client) exchange(ctx context.Context, body []byte, read func([]byte) (retry *Refusal, err error)) error {
	if len(body) > MaxMessage {
		return &Refusal{Code: "too_large", Message: fmt.Sprintf("%d bytes, a message holds at most %d", len(body), MaxMessage)}
	}
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		msg, err := c.nc.RequestWithContext(attempt, c.subject, body)
		cancel()
		if err == nil {
			retry, rerr := read(msg.Data)
			if retry == nil {
				return rerr
			}
			err = retry
			pause = max(pause, time.Duration(*retry.RetryAfter*float64(time.Second)))
		}
		if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("no receipt: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no receipt: %w", err)
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}
