package publish_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"assay/events/eventstest"
	"assay/events/publish"
	"assay/events/publish/spool"
	"assay/schema"
)

// spooling is a client of agent/piper with a spool, whose Forward runs when
// forward is called.
type spooling struct {
	*publish.Client
	t       testing.TB
	spool   *spool.Spool
	mu      sync.Mutex
	refused []string // codes
}

func (h *house) spooling(limit int64) *spooling {
	h.t.Helper()
	q, err := spool.Open(spool.Config{Dir: filepath.Join(h.Dir, "spool"), Principal: "agent/piper", Limit: limit})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { q.Close() })
	s := &spooling{t: h.t, spool: q}
	s.Client = publish.NewClient(publish.Config{
		Conn: h.Connect("agent.piper"), Principal: "agent/piper", Spool: q, Patience: 200 * time.Millisecond,
		Refused: func(_ []byte, r *publish.Refusal) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused = append(s.refused, r.Code)
		},
	})
	return s
}

func (s *spooling) forward() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Forward(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.t.Errorf("forward: %v", err)
		}
	})
}

// receipt publishes until there is one: on a busy machine the ledger may take
// longer than the client's patience.
func (s *spooling) receipt(raw []byte) publish.Receipt {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := s.Publish(context.Background(), raw)
		if !errors.Is(err, publish.ErrSpooled) || time.Now().After(deadline) {
			return mustReceipt(s.t, r, err)
		}
	}
}

func mustSpool(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, publish.ErrSpooled) {
		t.Fatalf("want spooled, got %v", err)
	}
}

// While the ledger is away events are spooled; when it is back they come first
// and in order, and what follows gets receipts again.
func TestSpooledEventsAreDeliveredInOrder(t *testing.T) {
	h := newHouse(t)
	c := h.spooling(0)
	c.forward()
	var want []string
	for range 5 {
		raw := eventstest.Gate(t)
		_, err := c.Publish(h.Context(), raw)
		mustSpool(t, err)
		want = append(want, string(raw))
	}
	one, two := eventstest.Gate(t), eventstest.Gate(t)
	answers, err := c.PublishBatch(h.Context(), [][]byte{one, []byte("nonsense"), two, []byte(`{"id":1}`)})
	if err != nil || !answers[0].Spooled || !answers[2].Spooled || answers[0].Leaf != "" {
		t.Fatalf("%+v, %v", answers, err)
	}
	// What no ledger takes is not promised to one.
	for i, code := range map[int]schema.Code{1: schema.CodeBadJSON, 3: schema.CodeBadID} {
		if r := answers[i].Refusal; r == nil || r.Code != string(code) || answers[i].Spooled {
			t.Errorf("item %d: %+v", i, answers[i])
		}
	}
	want = append(want, string(one), string(two))
	h.start()
	if err := c.spool.Drained(h.Context()); err != nil {
		t.Fatal(err)
	}
	last := eventstest.Gate(t)
	c.receipt(last)
	want = append(want, string(last))
	// The same event again: the receipt that could not be given.
	if r := c.receipt([]byte(want[0])); *r.Seq != 3 {
		t.Errorf("the first event is record %d", *r.Seq)
	}
	records := h.records()
	if len(records) != len(want) {
		t.Fatalf("%d records, want %d", len(records), len(want))
	}
	for i, rec := range records {
		if string(rec.Event) != want[i] {
			t.Errorf("record %d is not event %d", rec.Seq, i)
		}
	}
}

// TestSpoolPushesBack: a full spool refuses, at once and for all of a batch.
func TestSpoolPushesBack(t *testing.T) {
	h := newHouse(t)
	one := eventstest.Gate(t)
	c := h.spooling(int64(len(one) + 100))
	_, err := c.Publish(h.Context(), one)
	mustSpool(t, err)
	answers, err := c.PublishBatch(h.Context(), [][]byte{eventstest.Gate(t), eventstest.Gate(t)})
	if !errors.Is(err, spool.ErrFull) || answers[0].Spooled || answers[1].Spooled {
		t.Errorf("%+v, %v", answers, err)
	}
	if _, err := c.Publish(h.Context(), eventstest.Gate(t)); !errors.Is(err, spool.ErrFull) || errors.Is(err, publish.ErrSpooled) {
		t.Errorf("%v", err)
	}
	if n := c.spool.Stats().Events; n != 1 {
		t.Errorf("%d events", n)
	}
}

// A caller who leaves has no promise, and none is kept for him.
func TestCancelledEventsAreNotSpooled(t *testing.T) {
	h := newHouse(t)
	c := h.spooling(0)
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := c.Publish(ctx, eventstest.Gate(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	late, cancel := context.WithTimeout(h.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Publish(late, eventstest.Gate(t)); !errors.Is(err, publish.ErrSpooled) {
		t.Errorf("out of time: %v", err)
	}
	if n := c.spool.Stats().Events; n != 1 {
		t.Errorf("%d events", n)
	}
}

// The ledger refuses what it must not take from this principal when it is
// delivered, says so, and the events behind it go on.
func TestSpooledEventIsRefused(t *testing.T) {
	h := newHouse(t)
	c := h.spooling(0)
	example, _ := schema.Example("opportunity.detected")
	foreign, err := schema.Compact(example)
	if err != nil {
		t.Fatal(err)
	}
	unknown := []byte(strings.ReplaceAll(string(eventstest.Gate(t)), "gate.chosen", "gate.unheard"))
	good := eventstest.Gate(t)
	for _, raw := range [][]byte{foreign, unknown, good} {
		_, err := c.Publish(h.Context(), raw)
		mustSpool(t, err)
	}
	h.start()
	c.forward()
	if err := c.spool.Drained(h.Context()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Join(c.refused, " ") != "forbidden_type unknown_type" {
		t.Errorf("refused: %v", c.refused)
	}
	if records := h.records(); len(records) != 3 || string(records[2].Event) != string(good) && string(records[0].Event) != string(good) && string(records[1].Event) != string(good) {
		t.Errorf("%d records", len(records))
	}
}

// A connection that is closed for good delivers nothing: no promise is given.
func TestClosedConnectionSpoolsNothing(t *testing.T) {
	h := newHouse(t)
	q, err := spool.Open(spool.Config{Dir: t.TempDir(), Principal: "agent/piper"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	nc := h.Connect("agent.piper")
	c := publish.NewClient(publish.Config{Conn: nc, Principal: "agent/piper", Spool: q})
	nc.Close()
	if _, err := c.Publish(h.Context(), eventstest.Gate(t)); !errors.Is(err, publish.ErrClosed) || !errors.Is(err, nats.ErrConnectionClosed) || !q.Empty() {
		t.Errorf("%v, %+v", err, q.Stats())
	}
}
