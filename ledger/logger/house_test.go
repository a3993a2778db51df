package logger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/events/eventstest"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
)

// house is a ledger on a memStream.
type house struct {
	t     tb
	s     *memStream
	clock *clock
	cfg   logger.Config
	free  atomic.Uint64
}

const recoveryHash = "0000000000000000000000000000000000000000000000000000000000000000"

func newHouse(t testing.TB) *house { return houseIn(t, t.TempDir()) }

func houseIn(t tb, dir string) *house {
	t.Helper()
	h := emptyHouse(t, dir)
	if err := logger.Genesis(context.Background(), h.cfg, recoveryHash); err != nil {
		t.Fatal(err)
	}
	return h
}

// emptyHouse has keys and no ledger yet.
func emptyHouse(t tb, dir string) *house {
	t.Helper()
	h := looseHouse(t, dir)
	if _, err := logger.CreateKeys(h.files(), "example.com/log"); err != nil {
		t.Fatal(err)
	}
	return h
}

// looseHouse has no directory yet.
func looseHouse(t tb, dir string) *house {
	h := &house{
		t:     t,
		s:     &memStream{max: 5000, attempts: map[ledger.Seq]ledger.Hash{}},
		clock: &clock{wall: time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC), mono: time.Hour},
	}
	h.free.Store(1 << 40)
	h.cfg = logger.Config{
		Dir: filepath.Join(dir, "logger"), Stream: h.s, Clock: h.clock, Software: "test",
		FreeBytes: func() (uint64, error) { return h.free.Load(), nil },
	}
	return h
}

func (h *house) files() logger.Files { return logger.Files(h.cfg.Dir) }
func (h *house) indexDir() string    { return filepath.Join(h.cfg.Dir, "index") }

// session is a running logger.
type session struct {
	h       *house
	l       *logger.Logger
	cancel  context.CancelFunc
	ended   chan error
	sources map[principal.Role]*logger.Source
	once    sync.Once
	err     error
}

func (h *house) open() (*logger.Logger, error) {
	return h.openWithin(20 * time.Second)
}

func (h *house) openWithin(d time.Duration) (*logger.Logger, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return logger.Open(ctx, h.cfg)
}

// refuses opens the logger and wants the error.
func (h *house) refuses(want error) error {
	h.t.Helper()
	l, err := h.open()
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, want) {
		h.t.Fatalf("open: %v, want %v", err, want)
	}
	return err
}

func (h *house) start() *session {
	h.t.Helper()
	l, err := h.open()
	if err != nil {
		h.t.Fatal(err)
	}
	return h.run(l)
}

func (h *house) run(l *logger.Logger) *session {
	s := &session{h: h, l: l, ended: make(chan error, 1), sources: map[principal.Role]*logger.Source{}}
	for _, p := range principal.Defaults() {
		s.sources[p.Role] = l.AddSource(p)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { s.ended <- l.Run(ctx) }()
	h.t.Cleanup(func() { s.end() })
	return s
}

// end stops the logger and returns what Run and Close said.
func (s *session) end() error {
	s.once.Do(func() {
		s.cancel()
		s.err = errors.Join(s.wait(), s.l.Close())
	})
	return s.err
}

// wait returns Run's result, once it has ended.
func (s *session) wait() error {
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	case <-time.After(30 * time.Second):
		return errors.New("the logger does not stop")
	}
}

// stop ends the session, which must have gone well.
func (s *session) stop() {
	s.h.t.Helper()
	if err := s.end(); err != nil {
		s.h.t.Fatal(err)
	}
}

// promise is a reply to come.
type promise struct {
	t    tb
	body chan []byte
	n    atomic.Int32
}

func (s *session) submit(role principal.Role, raw []byte) *promise {
	p := &promise{t: s.h.t, body: make(chan []byte, 8)}
	s.sources[role].Submit(raw, p.reply)
	return p
}

func (p *promise) reply(body []byte) {
	if p.n.Add(1) > 1 {
		p.t.Errorf("answered %d times: %s", p.n.Load(), body)
	}
	p.body <- body
}

func (p *promise) raw() []byte {
	p.t.Helper()
	select {
	case body := <-p.body:
		p.body <- body
		return body
	case <-time.After(20 * time.Second):
		p.t.Fatalf("no answer")
		return nil
	}
}

func (p *promise) wait() answer {
	p.t.Helper()
	var a answer
	if body := p.raw(); json.Unmarshal(body, &a) != nil {
		p.t.Fatalf("answer %s", body)
	}
	return a
}

// all are the answers to a JSON batch.
func (p *promise) all(n int) []answer {
	p.t.Helper()
	var as []answer
	if body := p.raw(); json.Unmarshal(body, &as) != nil || len(as) != n {
		p.t.Fatalf("want %d answers: %.500s", n, body)
	}
	return as
}

func (p *promise) waits() bool { return p.n.Load() == 0 }

// submitBatch sends the events as one JSON batch, so that they are queued at once.
func (s *session) submitBatch(role principal.Role, raws [][]byte) *promise {
	return s.submit(role, batchOf(raws))
}

func batchOf(raws [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(raws, []byte{','})...), ']')
}

func (s *session) ask(role principal.Role, raw []byte) answer {
	s.h.t.Helper()
	return s.submit(role, raw).wait()
}

// must is ask for an event that is taken.
func (s *session) must(role principal.Role, raw []byte) answer {
	s.h.t.Helper()
	a := s.ask(role, raw)
	if a.Error != nil {
		s.h.t.Fatalf("%s: %+v", raw, *a.Error)
	}
	return a
}

// mustRefuse is ask for an event that is answered with code.
func (s *session) mustRefuse(role principal.Role, raw []byte, code string) answer {
	s.h.t.Helper()
	a := s.ask(role, raw)
	if a.code() != code {
		s.h.t.Fatalf("%.200s: %+v, want %s", raw, a, code)
	}
	return a
}

// held keeps the next append waiting; it returns once that has begun.
func (s *session) held() (release func()) {
	s.h.t.Helper()
	f := fault{hold: make(chan struct{}), took: make(chan struct{})}
	s.h.s.then(f)
	s.submit(principal.Agent, gate(s.h.t))
	select {
	case <-f.took:
	case <-time.After(20 * time.Second):
		s.h.t.Fatalf("no append")
	}
	return func() { close(f.hold) }
}

// await polls until ok; what it waits for happens without a time of its own.
func await(t tb, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (s *session) awaitState(want logger.State) {
	s.h.t.Helper()
	await(s.h.t, string(want), func() bool { return s.l.Status().State == want })
}

func encode(t tb, p events.Payload) []byte { return eventstest.Encode(t, p) }

func gate(t tb) []byte { return eventstest.Gate(t) }

func gates(t tb, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = gate(t)
	}
	return out
}

func ackOf(t tb, seq ledger.Seq, sha string) []byte {
	return encode(t, &events.ForeignAcknowledged{Seq: uint64(seq), SHA256: sha})
}

// audit holds the stream against the checkpoints on file.
func (h *house) audit() ledger.Report {
	h.t.Helper()
	vkey, _, err := logger.LoadVerifier(h.files())
	if err != nil {
		h.t.Fatal(err)
	}
	cps, err := logger.LoadCheckpoints(h.files())
	if err != nil {
		h.t.Fatal(err)
	}
	a := ledger.NewAuditor(ledger.Anchor{Key: vkey, Checkpoints: cps})
	for i, b := range h.s.all() {
		a.Add(ledger.Seq(i+1), b)
	}
	return a.Report()
}

// consistent audits, and holds the stream against the rules of the append.
func (h *house) consistent() ledger.Report {
	h.t.Helper()
	r := h.audit()
	if r.Verdict != ledger.Consistent {
		h.t.Fatalf("audit: %s %s", r.Verdict, deref(r.Finding))
	}
	if faults := weekFaults(h.s.all(), nil); len(faults) > 0 {
		h.t.Fatalf("weeks: %s", strings.Join(faults, "; "))
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if len(h.s.breaches) > 0 {
		h.t.Fatalf("breaches: %s", strings.Join(h.s.breaches, "; "))
	}
	return r
}

// weekFaults: where the week changes, in UTC, there is week.closed for the one
// that ended, and nowhere else. What goes in before anything else may go in does
// not count. A record of another logger, which closes no week, may stand where a
// week.closed is missing; whoever goes on behind it has nothing left to close.
func weekFaults(bodies [][]byte, others map[ledger.Seq]bool) (faults []string) {
	var before, closed string
	for i, body := range bodies {
		r, err := ledger.ParseRecord(body)
		if err != nil {
			continue // a foreign message has no time
		}
		ev, err := events.Decode(r.Event)
		if err != nil {
			return append(faults, fmt.Sprintf("record %d: %v", i+1, err))
		}
		switch ev.Data.(type) {
		case *events.LedgerRestored, *events.ForeignAcknowledged, *events.ClockStepped:
			continue
		}
		year, n := r.RecordedAt.ISOWeek()
		week, want := fmt.Sprintf("%d-W%02d", year, n), ""
		if before != "" && week != before {
			want = before
		}
		closed = ""
		if d, ok := ev.Data.(*events.WeekClosed); ok {
			closed = d.Week
		}
		if closed != want && !(closed == "" && others[ledger.Seq(i+1)]) {
			faults = append(faults, fmt.Sprintf("record %d of %s, behind one of %s, closes %q", i+1, week, before, closed))
		}
		before = week
	}
	return faults
}

// fullySigned is consistent with a checkpoint over everything.
func (h *house) fullySigned() {
	h.t.Helper()
	if r := h.consistent(); *r.UnsignedTail != 0 {
		h.t.Fatalf("%d records are not signed", *r.UnsignedTail)
	}
}

// positions are where each event's bytes are in the stream.
func (h *house) positions() map[string][]ledger.Seq {
	h.t.Helper()
	out := map[string][]ledger.Seq{}
	for i, b := range h.s.all() {
		if r, err := ledger.ParseRecord(b); err == nil {
			out[string(r.Event)] = append(out[string(r.Event)], ledger.Seq(i+1))
		}
	}
	return out
}

// checkReceipt holds a receipt against the stream: the event is there once, at
// that position, with that leaf and time.
func (h *house) checkReceipt(at map[string][]ledger.Seq, raw []byte, a answer) {
	h.t.Helper()
	if seqs := at[string(raw)]; len(seqs) != 1 || uint64(seqs[0]) != a.Seq {
		h.t.Fatalf("the receipt says %d, the stream has the event at %v", a.Seq, seqs)
	}
	body := h.s.all()[a.Seq-1]
	r, err := ledger.ParseRecord(body)
	if err != nil {
		h.t.Fatal(err)
	}
	if ledger.Leaf(body).String() != a.Leaf || ledger.FormatTime(r.RecordedAt) != a.RecordedAt {
		h.t.Fatalf("receipt %+v, record %s", a, body)
	}
}

// own are the logger's events of one payload type, in order.
func own[P events.Payload](h *house) []P {
	h.t.Helper()
	var out []P
	for _, b := range h.s.all() {
		r, err := ledger.ParseRecord(b)
		if err != nil || r.Principal != logger.Principal {
			continue
		}
		ev, err := events.Decode(r.Event)
		if err != nil {
			h.t.Fatal(err)
		}
		if p, ok := ev.Data.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// copyDir copies a directory's files.
func copyDir(t tb, dir, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
}
