// Package ledgertest builds ledgers in memory for tests: real records with real
// links, and the feed that a projector reads them from.
package ledgertest

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"

	"assay/events"
	"assay/ledger"
)

// Start is the recorded_at of the first record.
var Start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// Ledger is a chain of stored messages. It implements projector.Source; Put and
// PutRaw may be called while it is read.
type Ledger struct {
	mu     sync.Mutex
	grown  sync.Cond
	bodies [][]byte
	last   ledger.Hash
	now    time.Time
	ids    uint64
	// Mangle, if set, replaces what the feed says a message is.
	Mangle func(seq ledger.Seq, body []byte) []byte
}

// New is an empty ledger.
func New() *Ledger {
	l := &Ledger{now: Start}
	l.grown.L = &l.mu
	return l
}

// Now is the recorded_at of the next record.
func (l *Ledger) Now() time.Time { return l.now }

// Advance moves the logger's clock; each record moves it by a second besides.
func (l *Ledger) Advance(d time.Duration) { l.now = l.now.Add(d) }

// Option changes an event before it is recorded.
type Option func(*events.Event)

// Episode sets the episode.
func Episode(id string) Option { return func(e *events.Event) { e.EpisodeID = id } }

// Sequence sets the source's own number.
func Sequence(n string) Option { return func(e *events.Event) { e.Sequence = n } }

// CausedBy sets the causation id.
func CausedBy(id string) Option { return func(e *events.Event) { e.CausationID = id } }

// ID sets the event id.
func ID(id string) Option { return func(e *events.Event) { e.ID = id } }

// DataRef names a blob.
func DataRef(ref string) Option { return func(e *events.Event) { e.DataRef = ref } }

// At sets the event's own time.
func At(t time.Time) Option { return func(e *events.Event) { e.Time = events.FormatTime(t) } }

// NextID is the event id that the next Put gives.
func (l *Ledger) NextID() string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], l.ids<<16)
	binary.BigEndian.PutUint64(id[8:], l.ids)
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}

// Put records an event of the principal.
func (l *Ledger) Put(principal, namespace string, data events.Payload, opts ...Option) ledger.Seq {
	e := &events.Event{
		ID: l.NextID(), Source: "urn:test:" + principal, Type: data.Type(), Time: events.FormatTime(l.now),
		DataSchema: events.DataSchema(data.Type(), 1), Data: data,
	}
	l.ids++
	for _, o := range opts {
		o(e)
	}
	raw, err := events.Encode(e)
	if err != nil {
		panic(err) // a test that builds an event which cannot be encoded is wrong
	}
	return l.PutEvent(principal, namespace, raw)
}

// PutEvent records event bytes as they are.
func (l *Ledger) PutEvent(principal, namespace string, raw []byte) ledger.Seq {
	h := ledger.Header{
		Seq: ledger.Seq(len(l.bodies) + 1), Prev: l.last, RecordedAt: l.now, Principal: principal, Namespace: namespace,
	}
	l.now = l.now.Add(time.Second)
	return l.PutRaw(ledger.AppendRecord(nil, h, raw))
}

// PutRaw stores a message that need not be a record.
func (l *Ledger) PutRaw(body []byte) ledger.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, body)
	l.last = ledger.Leaf(body)
	l.grown.Broadcast()
	return ledger.Seq(len(l.bodies))
}

// Body is a stored message.
func (l *Ledger) Body(seq ledger.Seq) []byte { return l.bodies[seq-1] }

// Leaf is the leaf hash of the last message.
func (l *Ledger) Leaf() ledger.Hash { return l.last }

// Truncate cuts the ledger back to n messages.
func (l *Ledger) Truncate(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = l.bodies[:n:n]
	l.last = ledger.Hash{}
	if n > 0 {
		l.last = ledger.Leaf(l.bodies[n-1])
	}
}

// Head implements projector.Source.
func (l *Ledger) Head(context.Context) (ledger.Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ledger.Seq(len(l.bodies)), nil
}

// Read implements projector.Source. A message that Mangle makes nil is left out.
func (l *Ledger) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grown.Broadcast()
	})()
	for seq := max(from, 1); to == 0 || seq <= to; seq++ {
		body, ok := l.wait(ctx, seq, to == 0)
		if !ok {
			return ctx.Err()
		}
		if l.Mangle != nil {
			if body = l.Mangle(seq, body); body == nil {
				continue
			}
		}
		if err := fn(seq, body); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) wait(ctx context.Context, seq ledger.Seq, follow bool) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for int(seq) > len(l.bodies) {
		if !follow || ctx.Err() != nil {
			return nil, false
		}
		l.grown.Wait()
	}
	return l.bodies[seq-1], ctx.Err() == nil
}

// Ptr is a pointer to v, for the optional fields of payloads.
func Ptr[T any](v T) *T { return &v }
