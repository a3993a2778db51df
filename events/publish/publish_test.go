package publish_test

import (
	"bytes"
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
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/schema"
)

// house is a ledger on a real broker; its logger runs from start on.
type house struct {
	*brokertest.Env
	t   testing.TB
	cfg logger.Config
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{Env: brokertest.New(t), t: t}
	files := logger.Files(filepath.Join(h.Dir, "logger"))
	if _, err := logger.CreateKeys(files, "example.com/log"); err != nil {
		t.Fatal(err)
	}
	h.cfg = logger.Config{Dir: string(files), Stream: h.stream(), Software: "test"}
	if err := logger.Genesis(h.Context(), h.cfg, strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) stream() *stream.Stream {
	h.t.Helper()
	s, err := stream.New(h.Connect(principal.LoggerStore), stream.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *house) start() {
	h.t.Helper()
	l, err := logger.Open(h.Context(), h.cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	in, err := l.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return h.Broker.Connect(h.Credential(principal.LoggerIntake), opts...)
	}, h.Principals.Principals)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		err := <-ended
		in.Close()
		if err := errors.Join(err, l.Close()); err != nil {
			h.t.Error(err)
		}
	})
}

// piper is a client of agent/piper.
func (h *house) piper() *publish.Client {
	return publish.New(h.Connect("agent.piper"), "agent/piper")
}

// records reads the ledger behind record 2, ledger.opened and logger.started.
func (h *house) records() (out []ledger.Record) {
	h.t.Helper()
	s := h.stream()
	head, err := s.Head(h.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	err = s.Read(h.Context(), 3, head.Last, func(_ ledger.Seq, body []byte) error {
		r, err := ledger.ParseRecord(body)
		out = append(out, r)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// scripted is an intake that answers agent/piper's messages one after another
// and keeps what it was sent; an empty answer is none.
type scripted struct {
	mu      sync.Mutex
	answers []string
	got     [][]byte
}

func (h *house) scripted(answers ...string) *scripted {
	h.t.Helper()
	s := &scripted{answers: answers}
	nc := h.Connect(principal.LoggerIntake)
	_, err := nc.Subscribe("intake.agent.piper", func(m *nats.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, m.Data)
		if n := len(s.got); n <= len(s.answers) && s.answers[n-1] != "" {
			_ = nc.Publish(m.Reply, []byte(s.answers[n-1]))
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (s *scripted) messages() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

func mustReceipt(t testing.TB, r publish.Receipt, err error) publish.Receipt {
	t.Helper()
	if err != nil || r.Seq == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

const (
	scriptedReceipt     = `{"seq":7,"leaf":"ab","recorded_at":"2026-01-01T00:00:00.000000000Z"}`
	scriptedUnavailable = `{"error":{"code":"unavailable","pointer":"","message":"wait","retry_after":0.01}}`
	scriptedRefusal     = `{"error":{"code":"bad_type","pointer":"/type","message":"unknown","retry_after":null}}`
)

func TestReceiptIsOfTheStoredRecord(t *testing.T) {
	h := newHouse(t)
	h.start()
	c, raw := h.piper(), eventstest.Gate(t)
	r, err := c.Publish(h.Context(), raw)
	mustReceipt(t, r, err)
	again, err := c.Publish(h.Context(), raw)
	mustReceipt(t, again, err)
	if *again.Seq != *r.Seq || again.Leaf != r.Leaf || again.RecordedAt != r.RecordedAt {
		t.Errorf("published again: %+v, want the first receipt %+v", again, r)
	}
	records := h.records()
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	got := records[0]
	if uint64(got.Seq) != *r.Seq || got.Leaf().String() != r.Leaf || ledger.FormatTime(got.RecordedAt) != r.RecordedAt || !bytes.Equal(got.Event, raw) {
		t.Errorf("record %+v, receipt %+v", got, r)
	}
}

func TestReceiptMayHideThePosition(t *testing.T) {
	h := newHouse(t)
	p := principal.New(principal.Agent, "hidden", "production")
	p.ReceiptsSeq = false
	if _, err := principal.Dir(h.Dir).Add(p); err != nil {
		t.Fatal(err)
	}
	if err := h.Broker.Reload(); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.Principals, err = principal.Load(principal.Dir(h.Dir).Principals()); err != nil {
		t.Fatal(err)
	}
	h.start()
	c := publish.New(h.Connect("agent.hidden"), "agent/hidden")
	if r, err := c.Publish(h.Context(), eventstest.Gate(t)); err != nil || r.Seq != nil || r.Leaf == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// While nobody listens the client goes on asking; the event is taken once.
func TestPublishWaitsForTheLogger(t *testing.T) {
	h := newHouse(t)
	c, one, two := h.piper(), eventstest.Gate(t), eventstest.Gate(t)
	var wg sync.WaitGroup
	var r publish.Receipt
	var answers []publish.Answer
	var err, berr error
	wg.Go(func() { r, err = c.Publish(h.Context(), one) })
	wg.Go(func() { answers, berr = c.PublishBatch(h.Context(), [][]byte{two}) })
	short, cancel := context.WithTimeout(h.Context(), 300*time.Millisecond)
	defer cancel()
	_, early := c.Publish(short, eventstest.Gate(t))
	if !errors.Is(early, nats.ErrNoResponders) || !errors.Is(early, context.DeadlineExceeded) || errors.Is(early, publish.ErrRefused) {
		t.Errorf("without a logger: %v", early)
	}
	h.start()
	wg.Wait()
	mustReceipt(t, r, err)
	if berr != nil || len(answers) != 1 || answers[0].Leaf == "" {
		t.Errorf("%+v, %v", answers, berr)
	}
	seen := map[string]int{}
	for _, rec := range h.records() {
		seen[string(rec.Event)]++
	}
	if seen[string(one)] != 1 || seen[string(two)] != 1 {
		t.Errorf("stored %d and %d times", seen[string(one)], seen[string(two)])
	}
}

func TestPublishSendsTheSameBytesAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string
	}{
		{"unavailable", scriptedUnavailable},
		{"no answer", ""}, // takes the five seconds of an attempt
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			s := h.scripted(c.first, scriptedReceipt)
			raw := eventstest.Gate(t)
			r, err := h.piper().Publish(h.Context(), raw)
			mustReceipt(t, r, err)
			got := s.messages()
			if len(got) != 2 || !bytes.Equal(got[0], raw) || !bytes.Equal(got[1], raw) {
				t.Errorf("sent %q", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	h := newHouse(t)
	h.start()
	c, raw := h.piper(), eventstest.Gate(t)
	r, err := c.Publish(h.Context(), raw)
	mustReceipt(t, r, err)
	example, _ := schema.Example("opportunity.detected")
	opportunity, err := schema.Compact(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name, event, code, pointer string
	}{
		{"no JSON", "nonsense", "bad_json", ""},
		{"empty", "", "bad_json", ""},
		{"two values", string(eventstest.Gate(t)) + string(eventstest.Gate(t)), "bad_json", ""},
		{"an array", "[" + string(eventstest.Gate(t)) + "," + string(eventstest.Gate(t)) + "]", "not_an_object", ""},
		{"an empty array", "[]", "not_an_object", ""},
		{"another's type", string(opportunity), "forbidden_type", "/type"},
		{"the id of other bytes", strings.Replace(string(raw), "KNOW", "TEST", 1), "conflict", "/id"},
		{"larger than an event may be", strings.Replace(string(eventstest.Gate(t)), "KNOW", strings.Repeat("K", 70_000), 1), "too_large", ""},
		{"larger than a message may be", strings.Repeat(" ", publish.MaxMessage+1), "too_large", ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, err := c.Publish(h.Context(), []byte(k.event))
			var refused *publish.Refusal
			if !errors.Is(err, publish.ErrRefused) || !errors.As(err, &refused) {
				t.Fatalf("%v", err)
			}
			if refused.Code != k.code || refused.Pointer != k.pointer || refused.RetryAfter != nil {
				t.Errorf("%+v, want %s at %q", refused, k.code, k.pointer)
			}
		})
	}
	// One rejection each, but for what was never sent.
	if n := len(h.records()); n != 1+8 {
		t.Errorf("%d records", n)
	}
}

func TestBatchItemsAreIndependent(t *testing.T) {
	h := newHouse(t)
	h.start()
	one, two, three := eventstest.Gate(t), eventstest.Gate(t), eventstest.Gate(t)
	batch := [][]byte{
		one,
		[]byte(`{"id":1}`),
		[]byte(`{"a":1},{"b":2}`), // two items where one was meant
		two,
		[]byte(`[`),
		{},
		one,
		three,
	}
	answers, err := h.piper().PublishBatch(h.Context(), batch)
	if err != nil || len(answers) != len(batch) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, a := range answers {
		refused := i == 1 || i == 2 || i == 4 || i == 5
		if (a.Refusal != nil) != refused || (a.Leaf == "") != refused {
			t.Errorf("item %d: %+v", i, a)
		}
	}
	if answers[6].Leaf != answers[0].Leaf || *answers[3].Seq <= *answers[0].Seq || *answers[7].Seq <= *answers[3].Seq {
		t.Errorf("%+v", answers)
	}
	if n := len(h.records()); n != 3+4 {
		t.Errorf("%d records", n)
	}
	if answers, err := h.piper().PublishBatch(h.Context(), nil); err != nil || len(answers) != 0 {
		t.Errorf("no events: %v, %v", answers, err)
	}
	large := bytes.Repeat([]byte(`"x"`), publish.MaxMessage/3)
	if _, err := h.piper().PublishBatch(h.Context(), [][]byte{eventstest.Gate(t), []byte(`"` + strings.Repeat("x", publish.MaxMessage) + `"`), large}); !errors.Is(err, publish.ErrRefused) {
		t.Errorf("more than a message holds: %v", err)
	}
}

// Only what the ledger was unavailable for is sent again: the rest has its answer.
func TestBatchSendsAgainWhatIsOpen(t *testing.T) {
	h := newHouse(t)
	s := h.scripted(
		scriptedUnavailable,
		"["+scriptedReceipt+","+scriptedUnavailable+","+scriptedRefusal+"]",
		"["+scriptedUnavailable+"]",
		"["+scriptedReceipt+"]",
	)
	one, two, three := eventstest.Gate(t), eventstest.Gate(t), eventstest.Gate(t)
	answers, err := h.piper().PublishBatch(h.Context(), [][]byte{one, two, three})
	if err != nil || answers[0].Leaf != "ab" || answers[1].Leaf != "ab" || answers[1].Refusal != nil || answers[2].Refusal == nil {
		t.Errorf("%+v, %v", answers, err)
	}
	all := "[" + string(one) + "," + string(two) + "," + string(three) + "]"
	want := []string{all, all, "[" + string(two) + "]", "[" + string(two) + "]"}
	got := s.messages()
	if len(got) != len(want) {
		t.Fatalf("%d messages", len(got))
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Errorf("message %d is %s", i, got[i])
		}
	}
}

func TestContextEndsTheWait(t *testing.T) {
	for _, k := range []struct {
		name, answer string
		unavailable  bool
	}{
		{"no answer", "", false},
		{"unavailable", strings.Replace(scriptedUnavailable, "0.01", "3600", 1), true},
	} {
		t.Run(k.name, func(t *testing.T) {
			h := newHouse(t)
			h.scripted(k.answer, k.answer, k.answer)
			ctx, cancel := context.WithTimeout(h.Context(), 300*time.Millisecond)
			defer cancel()
			c := h.piper()
			_, err := c.Publish(ctx, eventstest.Gate(t))
			_, berr := c.PublishBatch(ctx, [][]byte{eventstest.Gate(t)})
			for _, err := range []error{err, berr} {
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, publish.ErrRefused) {
					t.Errorf("%v", err)
				}
			}
			var r *publish.Refusal
			if errors.As(err, &r) != k.unavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, answer := range []string{`nonsense`, `{}`, `[]`, `[` + scriptedReceipt + `,` + scriptedReceipt + `]`, `{"leaf":1}`} {
		t.Run(answer, func(t *testing.T) {
			h := newHouse(t)
			h.scripted(answer, answer)
			c := h.piper()
			if r, err := c.Publish(h.Context(), eventstest.Gate(t)); err == nil {
				t.Errorf("event: %+v", r)
			}
			if a, err := c.PublishBatch(h.Context(), [][]byte{eventstest.Gate(t)}); err == nil {
				t.Errorf("batch: %+v", a)
			}
		})
	}
}

func TestClosedConnection(t *testing.T) {
	h := newHouse(t)
	nc := h.Connect("agent.piper")
	c := publish.New(nc, "agent/piper")
	nc.Close()
	if _, err := c.Publish(h.Context(), eventstest.Gate(t)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("%v", err)
	}
}

func TestSentEventsKeepTheirOrder(t *testing.T) {
	h := newHouse(t)
	h.start()
	c := h.piper()
	var sent []*publish.Pending
	for range 200 {
		sent = append(sent, c.Send(eventstest.Gate(t)))
	}
	var last uint64
	for i, p := range sent {
		r, err := p.Wait(h.Context())
		mustReceipt(t, r, err)
		if *r.Seq <= last {
			t.Errorf("event %d is record %d, the one before it %d", i, *r.Seq, last)
		}
		last = *r.Seq
	}
}
