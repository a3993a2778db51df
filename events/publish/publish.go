// Package publish is the client side of an intake: it sends events, waits for
// their receipts and, where none came, sends the same bytes again. The event
// id makes that safe: the ledger takes an event once.
package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
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
	Leaf       string  `json:"leaf,omitzero"` // hex leaf hash of the record
	RecordedAt string  `json:"recorded_at,omitzero"`
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

// Client publishes as one principal. Its methods may be called from several
// goroutines.
type Client struct {
	nc      *nats.Conn
	subject string

	mu      sync.Mutex
	inbox   string // prefix of the reply subjects; "" before the first request
	next    uint64
	waiting map[string]chan []byte // by the reply subject's last token
}

// New publishes over nc, which must be connected as principal (role/name).
func New(nc *nats.Conn, principal string) *Client {
	return &Client{
		nc: nc, subject: "intake." + strings.Replace(principal, "/", ".", 1), waiting: map[string]chan []byte{},
	}
}

// Pending is an event on its way.
type Pending struct {
	c     *Client
	event []byte
	first *attempt
	err   error
}

// Send publishes an event without waiting for its receipt, which Wait then
// gives. Events sent one after another are chained in that order, but for one
// that Wait has to send again.
func (c *Client) Send(event []byte) *Pending {
	p := &Pending{c: c, event: event}
	p.first, p.err = c.send(event)
	return p
}

// Wait is Publish for an event that was sent.
func (p *Pending) Wait(ctx context.Context) (Receipt, error) {
	return p.c.receipt(ctx, p.event, p.first, p.err)
}

// Publish sends one event and waits until the ledger holds it. Without an
// answer, or while the ledger is unavailable, it sends the same bytes again
// until ctx ends. A refusal is a *Refusal.
func (c *Client) Publish(ctx context.Context, event []byte) (Receipt, error) {
	return c.Send(event).Wait(ctx)
}

func (c *Client) receipt(ctx context.Context, event []byte, first *attempt, err error) (Receipt, error) {
	var a Answer
	err = c.exchange(ctx, event, first, err, func(reply []byte) (retry *Refusal, err error) {
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
	first, err := c.send(body)
	err = c.exchange(ctx, body, first, err, func(reply []byte) (retry *Refusal, err error) {
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

// attempt is one request whose answer may come.
type attempt struct {
	c     *Client
	token string
	reply chan []byte
}

// drop forgets the attempt; a late answer to it is passed over.
func (a *attempt) drop() {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	delete(a.c.waiting, a.token)
}

// send publishes body once.
func (c *Client) send(body []byte) (*attempt, error) {
	if len(body) > MaxMessage {
		return nil, &Refusal{Code: "too_large", Message: fmt.Sprintf("%d bytes, a message holds at most %d", len(body), MaxMessage)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inbox == "" {
		inbox := c.nc.NewInbox() + "."
		if _, err := c.nc.Subscribe(inbox+"*", c.receive); err != nil {
			return nil, fmt.Errorf("listen for receipts: %w", err)
		}
		c.inbox = inbox
	}
	c.next++
	a := &attempt{c: c, token: strconv.FormatUint(c.next, 36), reply: make(chan []byte, 1)}
	if err := c.nc.PublishRequest(c.subject, c.inbox+a.token, body); err != nil {
		return nil, err
	}
	c.waiting[a.token] = a.reply
	return a, nil
}

// receive hands an answer to its attempt. A message without data is the
// broker's word that nobody listens.
func (c *Client) receive(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	c.mu.Lock()
	reply := c.waiting[token]
	delete(c.waiting, token)
	c.mu.Unlock()
	if reply != nil {
		reply <- m.Data
	}
}

// wait is the answer to an attempt.
func (a *attempt) wait(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	defer a.drop()
	select {
	case body := <-a.reply:
		if len(body) == 0 {
			return nil, nats.ErrNoResponders
		}
		return body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exchange waits for the answer to the first attempt, whose outcome was a and
// err, and sends body again until read accepts an answer.
func (c *Client) exchange(ctx context.Context, body []byte, a *attempt, err error, read func([]byte) (retry *Refusal, err error)) error {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		var answer []byte
		if err == nil {
			answer, err = a.wait(ctx)
		}
		if err == nil {
			retry, rerr := read(answer)
			if retry == nil {
				return rerr
			}
			err = retry
			pause = max(pause, time.Duration(*retry.RetryAfter*float64(time.Second)))
		}
		var refused *Refusal
		if errors.As(err, &refused) && refused.RetryAfter == nil {
			return err
		}
		if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("no receipt: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no receipt: %w", err)
		case <-time.After(pause):
		}
		a, err = c.send(body)
	}
}
