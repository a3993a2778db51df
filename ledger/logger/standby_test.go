package logger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/internal/durable"
	"assay/internal/kv"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// pausable is what a process sees of clock and stream; while it is stopped, as
// by SIGSTOP, it gets no answer from either.
type pausable struct {
	logger.Clock
	s *memStream

	mu      sync.Mutex
	stopped chan struct{} // closed by wake; nil while the process runs
	onAck   []byte        // stop when an append with this event is stored
	from    ledger.Seq    // where the last bounded read began
}

func (p *pausable) wait() {
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

func (p *pausable) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = make(chan struct{})
}

func (p *pausable) pauseOnAck(event []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAck = event
}

func (p *pausable) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

func (p *pausable) Wall() time.Time          { p.wait(); return p.Clock.Wall() }
func (p *pausable) Monotonic() time.Duration { p.wait(); return p.Clock.Monotonic() }
func (p *pausable) MaxBatch() int            { return 100 }

func (p *pausable) Stage(ledger.Seq, []stream.Message) { p.wait() }

func (p *pausable) Append(_ context.Context, first ledger.Seq, msgs []stream.Message) error {
	p.wait()
	p.s.mu.Lock()
	if int(first) != len(p.s.bodies)+1 {
		p.s.mu.Unlock()
		return fmt.Errorf("append at %d: %w", first, stream.ErrWrongSequence)
	}
	p.s.store(msgs)
	p.s.mu.Unlock()
	p.mu.Lock()
	for _, m := range msgs {
		if p.onAck != nil && bytes.Contains(m.Body, p.onAck) {
			p.onAck, p.stopped = nil, make(chan struct{})
		}
	}
	p.mu.Unlock()
	p.wait()
	return nil
}

func (p *pausable) Head(ctx context.Context) (stream.Head, error) { p.wait(); return p.s.Head(ctx) }

func (p *pausable) Get(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	p.wait()
	return p.s.Get(ctx, seq)
}

func (p *pausable) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	if to != 0 {
		p.mu.Lock()
		p.from = from
		p.mu.Unlock()
		return p.s.Read(ctx, from, to, fn)
	}
	for seq := from; ; {
		last := ledger.Seq(p.s.len())
		err := p.s.Read(ctx, seq, last, func(seq ledger.Seq, body []byte) error { p.wait(); return fn(seq, body) })
		if err != nil {
			return err
		}
		seq = max(seq, last+1)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// twins are several loggers of one directory.
type twins struct {
	*house
	key note.Verifier
}

// twin is one of them, as a process of its own.
type twin struct {
	*session
	p    *pausable
	took chan error // what TakeOver said
}

func newTwins(t *testing.T) *twins {
	h := newHouse(t)
	_, key, err := logger.LoadVerifier(h.files())
	if err != nil {
		t.Fatal(err)
	}
	return &twins{h, key}
}

// standBy starts a logger that runs as soon as it may.
func (h *twins) standBy(instance string) *twin {
	h.t.Helper()
	p := &pausable{Clock: logger.SystemClock(), s: h.s}
	cfg := h.cfg
	cfg.Stream, cfg.Clock, cfg.Instance = p, p, instance
	l, err := logger.OpenStandby(context.Background(), cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	tw := &twin{p: p, took: make(chan error, 1)}
	tw.session = &session{h: h.house, l: l, ended: make(chan error, 1), sources: map[principal.Role]*logger.Source{}}
	var ctx context.Context
	ctx, tw.cancel = context.WithCancel(context.Background())
	go func() {
		err := l.TakeOver(ctx)
		if err == nil {
			for _, p := range principal.Defaults() {
				tw.sources[p.Role] = l.AddSource(p)
			}
		}
		tw.took <- err
		if err == nil {
			err = l.Run(ctx)
		}
		tw.ended <- err
	}()
	h.t.Cleanup(func() { p.wake(); tw.end() })
	return tw
}

// active waits until the logger has taken over and returns how long it was silent.
func (tw *twin) active() time.Duration {
	tw.h.t.Helper()
	begun := time.Now()
	if err := <-tw.took; err != nil {
		tw.h.t.Fatal(err)
	}
	if st := tw.l.Status(); st.Role != logger.RoleActive || st.State != logger.Serving {
		tw.h.t.Errorf("after the takeover: %+v", st)
	}
	return time.Since(begun)
}

func (tw *twin) standsBy() bool { return tw.l.Status().Role == logger.RoleStandby }

// latestSize is the size of the checkpoint on file.
func (h *twins) latestSize() uint64 {
	h.t.Helper()
	raw, err := os.ReadFile(h.checkpoint("latest"))
	if err != nil {
		h.t.Fatal(err)
	}
	cp, err := ledger.OpenCheckpoint(raw, h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	return cp.Size
}

// whole audits, and wants each event of raws once.
func (h *twins) whole(raws ...[]byte) {
	h.t.Helper()
	if r := h.audit(); r.Verdict != ledger.Consistent {
		h.t.Fatalf("audit: %s %s", r.Verdict, deref(r.Finding))
	}
	at := h.positions()
	for _, raw := range raws {
		if len(at[string(raw)]) != 1 {
			h.t.Errorf("%s is at %v", raw, at[string(raw)])
		}
	}
}

// inBubble runs the test on a clock that jumps whenever everybody waits.
func inBubble(t *testing.T, fn func(*testing.T)) { synctest.Test(t, fn) }

func TestStandbyTakesOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		a := h.standBy("")
		if took := a.active(); took > 6*time.Second {
			t.Errorf("the first took %s", took)
		}
		b := h.standBy("b")
		raw := gate(t)
		first := a.must(principal.Agent, raw)
		time.Sleep(time.Minute) // the ticks of an idle logger keep the lease
		if !b.standsBy() || a.l.Status().Role != logger.RoleActive || *a.l.Status().LeaseAge > 3 || *b.l.Status().LeaseAge > 3 {
			t.Fatalf("after a minute: %+v, %+v", a.l.Status(), b.l.Status())
		}
		if st := b.l.Status(); st.Size+2 < uint64(h.s.len()) {
			t.Errorf("the standby is at %d of %d", st.Size, h.s.len())
		}
		signed := h.latestSize()
		a.p.pause() // for good: kill -9
		if took := b.active(); took > 7*time.Second {
			t.Errorf("the takeover took %s", took)
		}
		if again := b.must(principal.Agent, raw); again != first {
			t.Errorf("%+v, first %+v", again, first)
		}
		second := gate(t)
		b.must(principal.Agent, second)
		time.Sleep(2 * time.Second)
		if h.latestSize() < signed || b.l.Status().CheckpointSize < uint64(h.positions()[string(second)][0]) {
			t.Errorf("signed %d, before %d", h.latestSize(), signed)
		}
		b.stop()
		h.whole(raw, second)
	})
}

func TestOneOfTwoStandbysWins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		var all []*twin
		for _, name := range []string{"", "b", "c"} {
			all = append(all, h.standBy(name))
		}
		time.Sleep(20 * time.Second)
		active := 0
		for _, tw := range all {
			if tw.l.Status().Role == logger.RoleActive {
				active++
			} else if st := tw.l.Status(); st.State != logger.StandingBy {
				t.Errorf("%+v", st)
			}
		}
		if starts := len(own[*events.LoggerStarted](h.house)); active != 1 || starts != 1 {
			t.Errorf("%d are active, %d started", active, starts)
		}
		for _, tw := range all {
			tw.end()
		}
		h.whole()
	})
}

// A logger that was stopped wakes up after another took over. Whatever it had
// under way, it acks only what is stored, and answers and signs nothing else.
func TestPausedLoggerIsFenced(t *testing.T) {
	for name, c := range map[string]struct {
		onAck  bool // stopped with an append stored and its ack unseen
		before bool // with a request waiting, before it stops
	}{
		"idle":              {},
		"request waits":     {before: true},
		"append unanswered": {onAck: true, before: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				h := newTwins(t)
				a := h.standBy("")
				a.active()
				b := h.standBy("b")
				known := gate(t)
				first := a.must(principal.Agent, known)
				time.Sleep(2 * time.Second)
				raw := gate(t)
				var under *promise
				if c.onAck {
					a.p.pauseOnAck(raw)
					under = a.submit(principal.Agent, raw)
				} else {
					a.p.pause()
				}
				if c.before && under == nil {
					under = a.submit(principal.Agent, raw)
				}
				b.active()
				stored := b.must(principal.Agent, raw) // the client asks the other one
				time.Sleep(2 * time.Second)
				signed, records := h.latestSize(), h.s.len()
				late := []*promise{
					a.submit(principal.Agent, known), a.submit(principal.Agent, gate(t)), a.submit(principal.Agent, []byte("{}")),
				}
				a.p.wake()
				if err := a.wait(); !errors.Is(err, logger.ErrFenced) {
					t.Fatalf("run: %v", err)
				}
				time.Sleep(5 * time.Second)
				if under != nil && !under.waits() {
					if got := under.wait(); !c.onAck || got != stored {
						t.Errorf("answered %+v, stored %+v", got, stored)
					}
				}
				if c.onAck && under.waits() {
					t.Error("what is stored was not acked")
				}
				for i, p := range late {
					if !p.waits() {
						t.Errorf("%d: answered %s (first %+v)", i, p.raw(), first)
					}
				}
				if st := a.l.Status(); st.Role != logger.RoleFenced || st.CheckpointSize >= signed {
					t.Errorf("%+v, the other signed %d", st, signed)
				}
				if h.latestSize() < signed || h.s.len() < records {
					t.Errorf("checkpoint %d, was %d", h.latestSize(), signed)
				}
				a.end()
				again := h.standBy("") // the same process stands by again
				time.Sleep(15 * time.Second)
				if !again.standsBy() {
					t.Errorf("%+v", again.l.Status())
				}
				b.stop()
				again.end()
				h.whole(known, raw)
			})
		})
	}
}

// A standby that was itself stopped has no silence to count.
func TestPausedStandbyProvesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		a := h.standBy("")
		a.active()
		b := h.standBy("b")
		time.Sleep(5 * time.Second)
		for range 5 {
			b.p.pause()
			time.Sleep(time.Minute)
			b.p.wake()
			time.Sleep(3 * time.Second)
			if !b.standsBy() {
				t.Fatalf("%+v", b.l.Status())
			}
		}
		if n := len(own[*events.LoggerStarted](h.house)); n != 1 {
			t.Errorf("%d starts", n)
		}
		a.stop()
		b.end()
		h.whole()
	})
}

// On two hosts nothing is shared but the stream and, by a copy, the keys. A
// logger that wakes does not sign there either.
func TestTwoHosts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		other := &twins{looseHouse(t, t.TempDir()), h.key}
		other.s, other.cfg.Stream = h.s, h.cfg.Stream
		copyDir(t, h.cfg.Dir, other.cfg.Dir)
		a := h.standBy("")
		a.active()
		b := other.standBy("")
		raws := gates(t, 30)
		for _, raw := range raws[:28] {
			a.must(principal.Agent, raw)
			time.Sleep(time.Second)
		}
		signed := h.latestSize()
		a.p.pauseOnAck(raws[28])
		under := a.submit(principal.Agent, raws[28])
		b.active()
		b.must(principal.Agent, raws[29])
		a.p.wake()
		if err := a.wait(); !errors.Is(err, logger.ErrFenced) {
			t.Fatalf("run: %v", err)
		}
		if got := under.wait(); got.Error != nil {
			t.Errorf("%+v", got)
		}
		if now := h.latestSize(); now != signed {
			t.Errorf("the fenced one signed %d, before %d", now, signed)
		}
		b.p.mu.Lock()
		from := b.p.from
		b.p.mu.Unlock()
		if int(from)+5 < h.s.len() {
			t.Errorf("the takeover read from %d of %d", from, h.s.len())
		}
		b.stop()
		other.whole(raws...)
		if other.latestSize() != uint64(h.s.len()) {
			t.Errorf("signed %d of %d", other.latestSize(), h.s.len())
		}
	})
}

// A logger that wakes in the middle of storing a checkpoint cannot put it in the
// place of a later one.
func TestPreparedCheckpointIsSweptAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		a := h.standBy("")
		a.active()
		prepared := h.checkpoint(".latest.123")
		write(t, prepared, "what a stopped logger was about to rename")
		b := h.standBy("b")
		time.Sleep(3 * time.Second)
		if _, err := os.Stat(prepared); err != nil {
			t.Errorf("removed while its logger is active: %v", err)
		}
		a.p.pause()
		b.active()
		if _, err := os.Stat(prepared); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
		b.stop()
		h.whole()
	})
}

// While the broker is away everybody is silent, and it proves nothing.
func TestStandbyOutlastsTheBroker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		b := h.standBy("b")
		h.s.mu.Lock()
		h.s.failing = 20
		h.s.mu.Unlock()
		time.Sleep(30 * time.Second)
		if !b.standsBy() || !strings.Contains(b.l.Status().Detail, errLink.Error()) {
			t.Errorf("%+v", b.l.Status())
		}
		h.s.mu.Lock()
		h.s.failing = 0
		h.s.mu.Unlock()
		b.active()
		b.stop()
		h.whole()
	})
}

func TestStandbyDoesNotPassAForeignMessage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		a := h.standBy("")
		a.active()
		b := h.standBy("b")
		seq := h.s.write([]byte("not a record"))
		sum := ledger.Leaf([]byte("not a record")).String()
		time.Sleep(15 * time.Second)
		if st := b.l.Status(); st.Role != logger.RoleStandby || !strings.Contains(st.Detail, "acknowledgement") {
			t.Errorf("%+v", st)
		}
		if a.l.Status().State != logger.ForeignIn {
			t.Fatalf("%+v", a.l.Status())
		}
		a.must(principal.Operator, ackOf(t, seq, sum))
		time.Sleep(10 * time.Second)
		if st := b.l.Status(); st.Role != logger.RoleStandby || st.Detail != "" {
			t.Errorf("%+v", st)
		}
		a.p.pause()
		b.active()
		b.stop()
		if r := h.audit(); r.Verdict != ledger.Consistent {
			t.Errorf("audit: %s %s", r.Verdict, deref(r.Finding))
		}
	})
}

// A takeover reads the tail, not the ledger.
func TestTakeoverReadsTheTail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newTwins(t)
		a := h.standBy("")
		a.active()
		b := h.standBy("b")
		for range 200 {
			a.must(principal.Agent, gate(t))
			time.Sleep(100 * time.Millisecond)
		}
		a.p.pause()
		b.active()
		b.p.mu.Lock()
		from := b.p.from
		b.p.mu.Unlock()
		if uint64(from)+30 < h.latestSize() {
			t.Errorf("read again from %d of %d", from, h.s.len())
		}
		b.stop()
		h.whole()
	})
}

func TestStandbyNames(t *testing.T) {
	h := newHouse(t)
	for name, c := range map[string]struct {
		first, second func(context.Context, logger.Config) (*logger.Logger, error)
		instance      string
		want          error
	}{
		"alone beside standbys":   {logger.OpenStandby, logger.Open, "b", durable.ErrLocked},
		"standby beside one":      {logger.Open, logger.OpenStandby, "b", durable.ErrLocked},
		"two of one name":         {logger.OpenStandby, logger.OpenStandby, "", kv.ErrLocked},
		"a name that is a path":   {logger.OpenStandby, logger.OpenStandby, "../b", logger.ErrInstance},
		"two standbys, two names": {logger.OpenStandby, logger.OpenStandby, "b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := c.first(t.Context(), h.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			cfg := h.cfg
			cfg.Instance = c.instance
			b, err := c.second(t.Context(), cfg)
			if err == nil {
				b.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
