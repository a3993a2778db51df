package logger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// env is a ledger on a real broker.
type env struct {
	*brokertest.Env
	t   testing.TB
	cfg logger.Config
}

func newEnv(t testing.TB) *env {
	t.Helper()
	e := &env{Env: brokertest.New(t), t: t}
	dir := filepath.Join(e.Dir, "logger")
	if _, err := logger.CreateKeys(logger.Files(dir), "example.com/log"); err != nil {
		t.Fatal(err)
	}
	e.cfg = logger.Config{Dir: dir, Stream: e.stream(), Software: "test", Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
	if err := logger.Genesis(e.Context(), e.cfg, strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) stream() *stream.Stream {
	e.t.Helper()
	s, err := stream.New(e.Connect(principal.LoggerStore), stream.Config{})
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// running is a logger with its intake.
type running struct {
	*logger.Logger
	stop func() error
}

func (e *env) start() *running {
	e.t.Helper()
	l, err := logger.Open(e.Context(), e.cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	in, err := l.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return e.Broker.Connect(e.Credential(principal.LoggerIntake), opts...)
	}, e.Principals.Principals)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	var once sync.Once
	r := &running{Logger: l}
	r.stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-ended
			in.Close()
			err = errors.Join(err, l.Close())
		})
		return err
	}
	e.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			e.t.Error(err)
		}
	})
	return r
}

// bodies reads the whole ledger.
func (e *env) bodies() [][]byte {
	e.t.Helper()
	var out [][]byte
	err := e.stream().Read(e.Context(), 1, 1<<62, func(seq ledger.Seq, body []byte) error {
		if int(seq) != len(out)+1 {
			return fmt.Errorf("gap at %d", len(out)+1)
		}
		out = append(out, body)
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// audit verifies the ledger against the checkpoints on file.
func (e *env) audit() ledger.Report {
	e.t.Helper()
	f := logger.Files(e.cfg.Dir)
	vkey, _, err := logger.LoadVerifier(f)
	if err != nil {
		e.t.Fatal(err)
	}
	cps, err := logger.LoadCheckpoints(f)
	if err != nil {
		e.t.Fatal(err)
	}
	a := ledger.NewAuditor(ledger.Anchor{Key: vkey, Checkpoints: cps})
	for i, b := range e.bodies() {
		a.Add(ledger.Seq(i+1), b)
	}
	return a.Report()
}

func (e *env) mustBeConsistent(records int) {
	e.t.Helper()
	r := e.audit()
	if r.Verdict != ledger.Consistent || *r.UnsignedTail != 0 {
		e.t.Fatalf("audit: %+v %v", r, deref(r.Finding))
	}
	if records >= 0 && r.Size != uint64(records) {
		e.t.Fatalf("%d records, want %d", r.Size, records)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

type answer struct {
	Seq        uint64 `json:"seq"`
	Leaf       string `json:"leaf"`
	RecordedAt string `json:"recorded_at"`
	Error      *struct {
		Code       string   `json:"code"`
		Pointer    string   `json:"pointer"`
		Message    string   `json:"message"`
		RetryAfter *float64 `json:"retry_after"`
	} `json:"error"`
}

func (a answer) code() string {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

func request(t testing.TB, nc *nats.Conn, subject string, raw []byte) answer {
	t.Helper()
	m, err := nc.Request(subject, raw, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		t.Fatalf("%v: %s", err, m.Data)
	}
	return a
}

func TestReceiptIsWhereTheRecordIs(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	raw := gate(t)
	a := request(t, nc, "intake.agent.piper", raw)
	if a.Error != nil {
		t.Fatalf("%+v", a.Error)
	}
	if again := request(t, nc, "intake.agent.piper", raw); again != a {
		t.Errorf("same id and bytes: %+v, want the first receipt %+v", again, a)
	}
	other := []byte(strings.Replace(string(raw), `"KNOW"`, `"TEST"`, 1))
	if b := request(t, nc, "intake.agent.piper", other); b.code() != "conflict" || b.Error.Pointer != "/id" {
		t.Errorf("same id, other bytes: %+v", b)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	bodies := e.bodies()
	rec, err := ledger.ParseRecord(bodies[a.Seq-1])
	if err != nil {
		t.Fatal(err)
	}
	if rec.Leaf().String() != a.Leaf || string(rec.Event) != string(raw) || rec.Principal != "agent/piper" || ledger.FormatTime(rec.RecordedAt) != a.RecordedAt {
		t.Errorf("record %+v, receipt %+v", rec, a)
	}
	// ledger.opened, logger.started, the gate, one rejection for the conflict.
	e.mustBeConsistent(4)

	e.start()
	if again := request(t, nc, "intake.agent.piper", raw); again != a {
		t.Errorf("after a restart: %+v, want the first receipt %+v", again, a)
	}
}

func TestBatchItemsAreIndependent(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	one, two := gate(t), gate(t)
	forged := []byte(strings.Replace(string(two), `gate.chosen`, `prediction.resolved`, 2))
	batch := "[" + string(one) + ", {\"id\":1}," + string(forged) + "," + string(two) + "," + string(one) + "]"
	m, err := nc.Request("intake.agent.piper", []byte(batch), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var as []answer
	if err := json.Unmarshal(m.Data, &as); err != nil {
		t.Fatalf("%v: %s", err, m.Data)
	}
	if len(as) != 5 || as[0].Error != nil || as[1].Error == nil || as[2].Error == nil || as[3].Error != nil || as[4] != as[0] {
		t.Errorf("%s", m.Data)
	}
	if m, err = nc.Request("intake.agent.piper", []byte("["+string(one)), time.Second*10); err != nil || !strings.Contains(string(m.Data), "bad_json") {
		t.Errorf("broken array: %s %v", m.Data, err)
	}
	if m, err = nc.Request("intake.agent.piper", []byte("[]"), time.Second*10); err != nil || string(m.Data) != "[]" {
		t.Errorf("empty array: %s %v", m.Data, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	e.mustBeConsistent(2 + 2 + 3)
}

func TestManyPublishersUnderLoad(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	const workers, each = 64, 50
	nc := e.Connect("agent.piper")
	var wg sync.WaitGroup
	var mu sync.Mutex
	seqs := map[uint64]string{}
	for range workers {
		wg.Go(func() {
			for range each {
				raw := gate(t)
				m, err := nc.Request("intake.agent.piper", raw, 20*time.Second)
				var a answer
				if err == nil {
					err = json.Unmarshal(m.Data, &a)
				}
				if err != nil || a.Error != nil {
					t.Errorf("%v %+v", err, a)
					return
				}
				mu.Lock()
				if _, twice := seqs[a.Seq]; twice {
					t.Errorf("seq %d twice", a.Seq)
				}
				seqs[a.Seq] = a.Leaf
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	e.mustBeConsistent(2 + workers*each)
	for i, b := range e.bodies() {
		if leaf, ok := seqs[uint64(i+1)]; ok && leaf != ledger.Leaf(b).String() {
			t.Errorf("record %d is not what its receipt says", i+1)
		}
	}
}

func TestRejectionsPastTheRateAreCounted(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	const n = 300
	for range n {
		if a := request(t, nc, "intake.agent.piper", []byte("garbage")); a.Error == nil {
			t.Fatal("accepted garbage")
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		total := int64(0)
		for _, b := range e.bodies() {
			rec, err := ledger.ParseRecord(b)
			if err != nil {
				t.Fatal(err)
			}
			ev, err := events.Decode(rec.Event)
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := ev.Data.(*events.IntakeRejected); ok {
				if p.Principal != "agent/piper" || p.Size != p.Count*int64(len("garbage")) {
					t.Errorf("%+v", p)
				}
				total += p.Count
			}
		}
		if total == n {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d rejections are in the ledger", total, n)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if size := r.Status().Size; size > 100 {
		t.Errorf("%d records for %d rejections", size, n)
	}
}

func TestHeadersAreRefused(t *testing.T) {
	e := newEnv(t)
	e.start()
	nc := e.Connect("agent.piper")
	for _, name := range []string{"Nats-Batch-Id", "Nats-Expected-Last-Sequence", "nats-trace-dest", "traceparent", "Nats-Msg-Id"} {
		m, err := nc.RequestMsg(&nats.Msg{Subject: "intake.agent.piper", Data: gate(t), Header: nats.Header{name: {"1"}}}, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(m.Data), "forbidden_header") {
			t.Errorf("%s: %s", name, m.Data)
		}
	}
}

// TestBinaryMode: an event in CloudEvents' binary content mode is taken like the
// same event in structured mode, the same event, and what is wrong with its headers
// is answered and recorded.
func TestBinaryMode(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	ask := func(header nats.Header, data string) (a answer) {
		t.Helper()
		m, err := nc.RequestMsg(&nats.Msg{Subject: "intake.agent.piper", Data: []byte(data), Header: header}, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, &a); err != nil {
			t.Fatalf("%v: %s", err, m.Data)
		}
		return a
	}
	const id = "0195d3c0-0000-7000-8000-000000000001"
	header := nats.Header{
		"ce-specversion": {"1.0"}, "Ce-Id": {id}, "CE-SOURCE": {"urn:b%C3%A9"}, "ce-type": {"gate.chosen"}, "ce-time": {"2026-01-01T00:00:00Z"},
		"ce-dataschema": {"urn:assay:gate.chosen:1"}, "ce-episodeid": {"e1"}, "content-type": {"application/json; charset=utf-8"},
	}
	taken := ask(header, ` { "context": {}, "action": "KNOW" } `)
	if taken.Leaf == "" {
		t.Fatalf("%+v", taken.Error)
	}
	structured := `{"specversion":"1.0","id":"` + id + `","source":"urn:bé","type":"gate.chosen","time":"2026-01-01T00:00:00Z",` +
		`"dataschema":"urn:assay:gate.chosen:1","episodeid":"e1","datacontenttype":"application/json","data":{"context":{},"action":"KNOW"}}`
	for name, h := range map[string]nats.Header{
		"bare": nil, "by content type": {"Content-Type": {"application/cloudevents+json"}},
		"attributes beside an event are no event": {"Content-Type": {"application/cloudevents+json; charset=utf-8"}, "ce-specversion": {"1.0"}, "ce-id": {"x"}},
		"headers of no attribute":                 {"X-Other": {"1"}, "Content-Type": {"application/json"}},
	} {
		if again := ask(h, structured); again.Leaf != taken.Leaf {
			t.Errorf("structured, %s: %+v %+v, want %s", name, again, again.Error, taken.Leaf)
		}
	}
	bad := 0
	for name, c := range map[string]struct {
		header     nats.Header
		data, code string
	}{
		"an attribute twice": {nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "Ce-Id": {id}}, `{}`, "bad_header"},
		"two values":         {nats.Header{"ce-specversion": {"1.0", "1.0"}}, `{}`, "bad_header"},
		"two types":          {nats.Header{"ce-specversion": {"1.0"}, "Content-Type": {"application/json"}, "content-type": {"text/plain"}}, `{}`, "bad_header"},
		"a version of old":   {nats.Header{"ce-specversion": {"0.3"}, "ce-id": {id}, "Content-Type": {"application/json"}}, `{}`, "bad_value"},
		"a trace":            {nats.Header{"ce-specversion": {"1.0"}, "TraceParent": {"00-1-1-01"}}, `{}`, "forbidden_header"},
		"a long name":        {nats.Header{"ce-specversion": {"1.0"}, "ce-" + strings.Repeat("n", 5000): {"x"}}, `{}`, "bad_header"},
		"data as attribute":  {nats.Header{"ce-specversion": {"1.0"}, "ce-data": {"{}"}}, `{}`, "bad_header"},
		"bad escape":         {nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"%zz"}}, `{}`, "bad_header"},
		"no JSON":            {nats.Header{"ce-specversion": {"1.0"}, "Content-Type": {"application/json"}}, `{},"id":"x"`, "bad_json"},
		"no attributes":      {nats.Header{"ce-specversion": {"1.0"}, "Content-Type": {"application/json"}}, `{}`, "missing_field"},
		"not JSON's type":    {nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-type": {"gate.chosen"}, "ce-source": {"x"}, "ce-time": {"2026-01-01T00:00:00Z"}, "ce-dataschema": {"urn:assay:gate.chosen:1"}}, "x", "unknown_field"},
		"headers of ours":    {nats.Header{"ce-specversion": {"1.0"}, "Nats-Msg-Id": {"1"}}, `{}`, "forbidden_header"},
	} {
		if a := ask(c.header, c.data); a.code() != c.code || a.Error.RetryAfter != nil {
			t.Errorf("%s: %+v %+v", name, a, a.Error)
		}
		bad++
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	recorded := int64(0)
	for _, b := range e.bodies() {
		rec, err := ledger.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := events.Decode(rec.Event)
		if err != nil {
			t.Fatal(err)
		}
		switch p := ev.Data.(type) {
		case *events.IntakeRejected:
			recorded += p.Count
		case *events.GateChosen:
			if string(rec.Event) != structured {
				t.Errorf("recorded %s", rec.Event)
			}
		}
	}
	if recorded != int64(bad) {
		t.Errorf("%d of %d refusals are in the ledger", recorded, bad)
	}
}

func TestEventsWithoutReplyAreTaken(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	if err := nc.Publish("intake.agent.piper", gate(t)); err != nil {
		t.Fatal(err)
	}
	request(t, nc, "intake.agent.piper", gate(t))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	e.mustBeConsistent(4)
}

func TestSeqCanBeWithheld(t *testing.T) {
	e := newEnv(t)
	for i := range e.Principals.Principals {
		e.Principals.Principals[i].ReceiptsSeq = false
	}
	e.start()
	m, err := e.Connect("agent.piper").Request("intake.agent.piper", gate(t), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(m.Data), `"seq"`) || !strings.Contains(string(m.Data), `"leaf"`) {
		t.Errorf("%s", m.Data)
	}
}

func TestUUIDsDoNotCollideAcrossPrincipals(t *testing.T) {
	e := newEnv(t)
	e.start()
	id := uuid.NewString()
	tool := []byte(strings.Replace(string(mustTool(t)), "ID", id, 1))
	a := request(t, e.Connect("agent.piper"), "intake.agent.piper", tool)
	b := request(t, e.Connect("dispatcher.main"), "intake.dispatcher.main", tool)
	if a.Error != nil || b.Error != nil || a.Seq == b.Seq {
		t.Errorf("%+v %+v", a, b)
	}
}

func mustTool(t tb) []byte {
	t.Helper()
	ev, err := events.Maker{Source: "urn:test"}.New(&events.ToolCalled{ToolCallID: "c1", Tool: "restart", Status: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	ev.ID = "ID"
	raw, err := events.Encode(ev)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
