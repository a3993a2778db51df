// Package publish is the client side of an intake: it sends events, waits for
// their receipts and, where none came, sends the same bytes again. The event
// id makes that safe: the ledger takes an event once.
//
// With a spool, an event that cannot be delivered is written to disk and sent
// when the ledger is there again. The caller is told so (ErrSpooled,
// Answer.Spooled): it is a promise to deliver, not a receipt. The same event
// published again later gets its receipt.
package publish

import (
	"bytes"
	"cmp"
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

	"assay/events/publish/spool"
)

// ErrRefused means that the ledger will not take these bytes; the error is an
// *Refusal.
var ErrRefused = errors.New("event refused")

// MaxMessage is the largest intake message in bytes, one event or a batch.
const MaxMessage = 2 << 20

// A logger that stands by takes over within seven seconds: what was asked of the
// one before it is asked again soon after.
const (
	attemptTimeout = 3 * time.Second
	firstPause     = 100 * time.Millisecond
	longPause      = 2 * time.Second
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

// Is makes errors.Is(err, ErrRefused) true where sending again is of no use.
func (r *Refusal) Is(target error) bool { return target == ErrRefused && r.RetryAfter == nil }

// Answer is a receipt or a refusal, or with a spool the word that the event is
// on its way.
type Answer struct {
	Receipt
	Refusal *Refusal `json:"error,omitzero"`
	// Spooled: the event is on this client's disk and will be delivered.
	Spooled bool `json:"spooled,omitzero"`
}

// Client publishes as one principal. Its methods may be called from several
// goroutines.
type Client struct {
	nc      *nats.Conn
	subject string
	spooling

	mu      sync.Mutex
	inbox   string // prefix of the reply subjects; "" before the first request
	next    uint64
	waiting map[string]chan []byte // by the reply subject's last token
}

// Config says how a Client publishes.
type Config struct {
	// Conn must be connected as Principal (role/name).
	Conn      *nats.Conn
	Principal string
	// Spool takes the events that cannot be delivered; nil: Publish waits as long
	// as its context lasts. The caller runs Forward and closes the spool after it.
	Spool *spool.Spool
	// Patience is how long an event is tried before it is spooled; 0 is
	// DefaultPatience.
	Patience time.Duration
	// Refused is told of a spooled event that the ledger then refused for good,
	// and recorded as refused; nil: nobody is.
	Refused func(event []byte, r *Refusal)
}

// New publishes over nc, which must be connected as principal (role/name).
func New(nc *nats.Conn, principal string) *Client {
	return NewClient(Config{Conn: nc, Principal: principal})
}

// NewClient publishes as the configuration says.
func NewClient(cfg Config) *Client {
	c := &Client{
		nc: cfg.Conn, subject: "intake." + strings.Replace(cfg.Principal, "/", ".", 1), waiting: map[string]chan []byte{},
		spooling: spooling{spool: cfg.Spool, patience: cmp.Or(cfg.Patience, DefaultPatience), refused: cfg.Refused},
	}
	// What is spooled from before says that the ledger was away.
	c.away.Store(cfg.Spool != nil && !cfg.Spool.Empty())
	return c
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
// that Wait has to send again. Send and Wait leave the spool alone.
func (c *Client) Send(event []byte) *Pending {
	if jsontext.Value(event).Kind() == '[' && isValue(event) {
		// No event, but the intake would take it for a batch: as the only
		// item of one, it gets one answer.
		event = join([][]byte{event})
	}
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
//
// With a spool it does so for the client's patience at most and then spools the
// event: ErrSpooled. While the ledger is known to be away, or does not catch up
// with what is spooled, that is at once, so that events keep their order.
// spool.ErrFull means that there was no room either. If ctx is cancelled
// rather than out of time, the event is not spooled.
func (c *Client) Publish(ctx context.Context, event []byte) (Receipt, error) {
	if c.spool == nil {
		return c.Send(event).Wait(ctx)
	}
	answers, err := c.PublishBatch(ctx, [][]byte{event})
	a := answers[0]
	switch {
	case a.Refusal != nil:
		return Receipt{}, a.Refusal
	case a.Spooled:
		return Receipt{}, ErrSpooled
	}
	return a.Receipt, err
}

func (c *Client) receipt(ctx context.Context, event []byte, first *attempt, err error) (Receipt, error) {
	var a Answer
	err = c.exchange(ctx, event, first, err, func(reply []byte) (retry *Refusal, err error) {
		answers, err := readAnswers(reply, 1)
		if err != nil {
			return nil, err
		}
		a = answers[0]
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
// each other. Those that the ledger was unavailable for are sent again until
// ctx ends. With an error the answers that came are returned all the same; an
// event without one has neither leaf nor refusal.
//
// With a spool, events without an answer are spooled as Publish says, all of
// them or none.
func (c *Client) PublishBatch(ctx context.Context, batch [][]byte) ([]Answer, error) {
	if c.spool == nil || len(batch) == 0 {
		return c.publishBatch(ctx, batch)
	}
	return c.publishOrSpool(ctx, batch)
}

func (c *Client) publishBatch(ctx context.Context, batch [][]byte) ([]Answer, error) {
	out := make([]Answer, len(batch))
	var together, alone []int
	for i, e := range batch {
		if isValue(e) {
			together = append(together, i)
		} else {
			alone = append(alone, i) // in a batch it would spoil the others
		}
	}
	for len(together) > 0 {
		answers, err := c.publishTogether(ctx, pick(batch, together))
		if err != nil {
			return out, err
		}
		again := together[:0]
		for j, a := range answers {
			i := together[j]
			if retryable(a) != nil {
				again = append(again, i)
			} else {
				out[i] = a
			}
		}
		together = again
	}
	for _, i := range alone {
		r, err := c.Send(batch[i]).Wait(ctx)
		if err != nil && !errors.As(err, &out[i].Refusal) {
			return out, err
		}
		out[i].Receipt = r
	}
	return out, nil
}

// publishTogether sends one message, again while the ledger is unavailable for
// all of it.
func (c *Client) publishTogether(ctx context.Context, batch [][]byte) (answers []Answer, err error) {
	body := join(batch)
	first, err := c.send(body)
	err = c.exchange(ctx, body, first, err, func(reply []byte) (retry *Refusal, err error) {
		if answers, err = readAnswers(reply, len(batch)); err != nil {
			return nil, err
		}
		for _, a := range answers {
			if retry = retryable(a); retry == nil {
				return nil, nil
			}
		}
		return retry, nil
	})
	return answers, err
}

// readAnswers reads the answer to a message of n events. A refusal of the
// message is one of each event.
func readAnswers(reply []byte, n int) ([]Answer, error) {
	var answers []Answer
	if jsontext.Value(reply).Kind() == '[' {
		if err := json.Unmarshal(reply, &answers); err != nil {
			return nil, fmt.Errorf("read receipts: %w", err)
		}
	} else {
		var a Answer
		if err := json.Unmarshal(reply, &a); err != nil {
			return nil, fmt.Errorf("read receipt: %w", err)
		}
		answers = append(answers, a)
		for a.Refusal != nil && len(answers) < n {
			answers = append(answers, a)
		}
	}
	if len(answers) != n {
		return nil, fmt.Errorf("read receipts: %d for %d events", len(answers), n)
	}
	for _, a := range answers {
		if a.Refusal == nil && a.Leaf == "" {
			return nil, errors.New("read receipts: neither a leaf nor a refusal")
		}
	}
	return answers, nil
}

// isValue says whether the intake can tell the event from others in a batch.
func isValue(event []byte) bool {
	return jsontext.Value(event).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func join(batch [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(batch, []byte{','})...), ']')
}

func pick(batch [][]byte, which []int) [][]byte {
	out := make([][]byte, len(which))
	for j, i := range which {
		out[j] = batch[i]
	}
	return out
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
		return nil, fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
	}
}

// errNoAnswer means that an attempt's time went by in silence.
var errNoAnswer = errors.New("no answer")

// noReceipt says that the caller's patience ended, and what was last in the way.
func noReceipt(ctx context.Context, last error) error {
	if errors.Is(last, ctx.Err()) {
		return fmt.Errorf("no receipt: %w", last)
	}
	return fmt.Errorf("no receipt: %w, last: %w", ctx.Err(), last)
}

// exchange waits for the answer to the first attempt, whose outcome was a and
// err, and sends body again until read accepts an answer.
func (c *Client) exchange(ctx context.Context, body []byte, a *attempt, err error, read func([]byte) (retry *Refusal, err error)) error {
	var said error // the last answer: it tells more than a silence after it
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		var answer []byte
		if err == nil {
			answer, err = a.wait(ctx)
		}
		switch silent := errors.Is(err, errNoAnswer); {
		case silent && ctx.Err() != nil && said != nil:
			err = said
		case err != nil && !silent:
			said = err
		}
		if err == nil {
			retry, rerr := read(answer)
			if retry == nil {
				return rerr
			}
			err, said = retry, retry
			pause = max(pause, time.Duration(*retry.RetryAfter*float64(time.Second)))
		}
		var refused *Refusal
		if errors.As(err, &refused) && refused.RetryAfter == nil {
			return err
		}
		if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("no receipt: %w", err)
		}
		select {
		case <-ctx.Done():
			return noReceipt(ctx, err)
		case <-time.After(pause):
		}
		a, err = c.send(body)
	}
}
