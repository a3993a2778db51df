package logger_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// subject is an empty stream under the conformance suite, and the faults that
// the suite asks for.
type subject struct {
	logger.Stream
	// other is a second writer's view of the same stream.
	other logger.Stream
	// deaf keeps the answer to the next append away; the append arrives. heal
	// ends it.
	deaf func()
	// severed keeps the next append, which is of n messages, away, or all but
	// a part of its bytes.
	severed func(n int)
	heal    func()
}

// implementations are what stands behind logger.Stream: the test's stream, the
// simulation's, and the real one. Each behaviour gets an empty stream.
var implementations = []struct {
	name string
	run  func(t *testing.T, behaviour func(*testing.T, *subject))
}{
	{"memory", func(t *testing.T, behaviour func(*testing.T, *subject)) {
		s := &memStream{max: 5000, attempts: map[ledger.Seq]ledger.Hash{}}
		behaviour(t, &subject{
			Stream: s, other: s,
			deaf:    func() { s.then(fault{outcome: unacked}) },
			severed: func(int) { s.then(fault{outcome: lost}) },
			heal:    func() { s.forget() },
		})
	}},
	{"simulation", func(t *testing.T, behaviour func(*testing.T, *subject)) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, filepath.Join(dir, "logger"), 1)
			s.stream.max, s.calm = 5000, true
			in, _, _ := s.incarnate()
			other, _, _ := s.incarnate()
			next := func(f fate) func() {
				return func() { s.hostility, s.calm = hostility{fates: []fate{f}, appends: 1}, false }
			}
			behaviour(t, &subject{
				Stream: simLine{in}, other: simLine{other}, deaf: next(fateUnacked), severed: func(int) { next(fateLost)() },
				heal: func() { s.calm = true },
			})
			in.cancel()
			other.cancel()
		})
	}},
	{"broker", func(t *testing.T, behaviour func(*testing.T, *subject)) {
		e := brokertest.New(t)
		d := &cutDialer{}
		behaviour(t, &subject{
			Stream: cutStream(t, e, d, 10*time.Second), other: cutStream(t, e, &cutDialer{}, 10*time.Second),
			deaf: d.deafen, severed: func(n int) { d.sever(120 * n) }, heal: d.heal,
		})
	}},
}

// behaviours are what the logger relies on.
var behaviours = []struct {
	name string
	hold func(*testing.T, *subject)
}{
	{"appends are stored in order", func(t *testing.T, s *subject) {
		s.wantEnd(t, 0)
		next := 1
		for _, n := range []int{1, 1, 2, 19, 600, 1} {
			if err := s.Append(t.Context(), ledger.Seq(next), simple(next, n)); err != nil {
				t.Fatal(err)
			}
			next += n
			s.wantEnd(t, next-1)
		}
		s.holds(t, next-1)
	}},
	{"the largest batch is one append", func(t *testing.T, s *subject) {
		n := s.MaxBatch()
		if n < 1000 {
			t.Fatalf("at most %d", n)
		}
		if err := s.Append(t.Context(), 1, simple(1, n)); err != nil {
			t.Fatal(err)
		}
		s.holds(t, n)
		if err := s.Append(t.Context(), ledger.Seq(n), simple(n, 2)); !errors.Is(err, stream.ErrWrongSequence) {
			t.Errorf("behind it: %v", err)
		}
	}},
	{"an append elsewhere stores nothing", func(t *testing.T, s *subject) {
		mustStore(t, s, 1, 5)
		for _, first := range []int{1, 5, 7, 100} {
			for _, n := range []int{1, 2, 50} {
				err := s.Append(t.Context(), ledger.Seq(first), simple(first, n))
				if !errors.Is(err, stream.ErrWrongSequence) || errors.Is(err, stream.ErrUndecided) {
					t.Errorf("%d at %d: %v", n, first, err)
				}
			}
		}
		s.holds(t, 5)
	}},
	{"the bytes are the caller's again", func(t *testing.T, s *subject) {
		msgs := simple(1, 30)
		if err := s.Append(t.Context(), 1, msgs); err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			clear(m.Body)
		}
		s.holds(t, 30)
	}},
	{"without an answer nothing is decided", func(t *testing.T, s *subject) {
		next := 1
		for _, n := range []int{1, 30} {
			for what, stored := range map[string]bool{"answer": true, "append": false} {
				if stored {
					s.deaf()
				} else {
					s.severed(n)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				err := s.Append(ctx, ledger.Seq(next), simple(next, n))
				cancel()
				if !errors.Is(err, stream.ErrUndecided) || errors.Is(err, stream.ErrWrongSequence) {
					t.Fatalf("%d, %s lost: %v", n, what, err)
				}
				s.heal()
				// The same bytes at the same place, until something is decided.
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a broken connection takes a while to be noticed
					err = s.Append(ctx, ledger.Seq(next), simple(next, n))
					cancel()
					if !errors.Is(err, stream.ErrUndecided) {
						break
					}
				}
				if stored && !errors.Is(err, stream.ErrWrongSequence) || !stored && err != nil && !errors.Is(err, stream.ErrWrongSequence) {
					t.Errorf("%d, %s lost, again: %v", n, what, err)
				}
				next += n
				s.wantEnd(t, next-1)
			}
		}
		s.holds(t, next-1)
	}},
	{"a part that is stored is found, and the rest follows it", func(t *testing.T, s *subject) {
		msgs := simple(1, 30)
		if err := s.other.Append(t.Context(), 1, msgs[:7]); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), 1, msgs); !errors.Is(err, stream.ErrWrongSequence) {
			t.Fatal(err)
		}
		s.wantEnd(t, 7)
		for i := range 7 {
			if body, err := s.Get(t.Context(), ledger.Seq(i+1)); err != nil || ledger.Leaf(body) != ledger.Leaf(msgs[i].Body) {
				t.Fatalf("%d: %s %v", i+1, body, err)
			}
		}
		if err := s.Append(t.Context(), 8, msgs[7:]); err != nil {
			t.Fatal(err)
		}
		s.holds(t, 30)
	}},
	{"of two writers at one place one wins whole", func(t *testing.T, s *subject) {
		mustStore(t, s, 1, 3)
		if err := s.other.Append(t.Context(), 4, simple(4, 2)); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 25} {
			if err := s.Append(t.Context(), 4, simple(4, n)); !errors.Is(err, stream.ErrWrongSequence) {
				t.Errorf("%v", err)
			}
		}
		s.holds(t, 5)
	}},
	{"an absent message is not found", func(t *testing.T, s *subject) {
		if _, err := s.Get(t.Context(), 1); !errors.Is(err, stream.ErrNotFound) {
			t.Errorf("of an empty stream: %v", err)
		}
		mustStore(t, s, 1, 3)
		if body, err := s.Get(t.Context(), 2); err != nil || string(body) != string(simple(2, 1)[0].Body) {
			t.Errorf("%s %v", body, err)
		}
		for _, seq := range []ledger.Seq{4, 1 << 40} {
			if _, err := s.Get(t.Context(), seq); !errors.Is(err, stream.ErrNotFound) {
				t.Errorf("%d: %v", seq, err)
			}
		}
	}},
	{"a read is of a range", func(t *testing.T, s *subject) {
		if err := s.Read(t.Context(), 1, 10, func(ledger.Seq, []byte) error { return errors.New("called") }); err != nil {
			t.Errorf("of an empty stream: %v", err)
		}
		mustStore(t, s, 1, 30)
		for _, c := range []struct{ from, to, first, last int }{
			{0, 30, 1, 30}, {1, 1, 1, 1}, {7, 9, 7, 9}, {30, 30, 30, 30}, {29, 1000, 29, 30}, {31, 40, 0, 0}, {9, 7, 0, 0},
		} {
			first, last := 0, 0
			err := s.Read(t.Context(), ledger.Seq(c.from), ledger.Seq(c.to), func(seq ledger.Seq, body []byte) error {
				if first == 0 {
					first = int(seq)
				}
				last = int(seq)
				if string(body) != string(simple(last, 1)[0].Body) {
					return fmt.Errorf("%d: %s", seq, body)
				}
				return nil
			})
			if err != nil || first != c.first || last != c.last {
				t.Errorf("%d to %d: %d to %d, %v", c.from, c.to, first, last, err)
			}
		}
		stop, calls := errors.New("stop"), 0
		if err := s.Read(t.Context(), 1, 30, func(ledger.Seq, []byte) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}},
}

// TestStreamConformance holds every implementation to the same behaviours, so
// that what the simulation shows is true of the broker too.
func TestStreamConformance(t *testing.T) {
	t.Parallel()
	for _, im := range implementations {
		for _, b := range behaviours {
			t.Run(im.name+"/"+b.name, func(t *testing.T) { im.run(t, b.hold) })
		}
	}
}

func simple(from, n int) []stream.Message {
	out := make([]stream.Message, n)
	for i := range out {
		out[i] = stream.Message{Subject: "ledger.gate.chosen", Body: fmt.Appendf(nil, `{"message":%d,"%0200d":0}`, from+i, 0)}
	}
	return out
}

func mustStore(t *testing.T, s *subject, first, n int) {
	t.Helper()
	if err := s.Append(t.Context(), ledger.Seq(first), simple(first, n)); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) wantEnd(t *testing.T, n int) {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil || h != (stream.Head{First: ledger.Seq(min(n, 1)), Last: ledger.Seq(n)}) {
		t.Fatalf("head %+v %v, want %d", h, err, n)
	}
}

// holds wants messages 1 to n and nothing else.
func (s *subject) holds(t *testing.T, n int) {
	t.Helper()
	s.wantEnd(t, n)
	want := 1
	err := s.Read(t.Context(), 1, 1<<62, func(seq ledger.Seq, body []byte) error {
		if int(seq) != want || string(body) != string(simple(want, 1)[0].Body) {
			return fmt.Errorf("message %d: %s, want %d", seq, body, want)
		}
		want++
		return nil
	})
	if err != nil || want != n+1 {
		t.Fatalf("read up to %d: %v", want-1, err)
	}
}

// cutStream is the real stream over a connection that d can cut.
func cutStream(t testing.TB, e *brokertest.Env, d *cutDialer, timeout time.Duration) *stream.Stream {
	t.Helper()
	url, err := broker.ReadURL(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := broker.Dial(url, e.Credential(principal.LoggerStore), nats.SetCustomDialer(d), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := stream.New(nc, stream.Config{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cutDialer makes connections that can be cut.
type cutDialer struct {
	mu     sync.Mutex
	conns  []*cutConn
	deaf   bool // what the server sends is lost
	budget int  // bytes that still go out before the connection breaks; 0: all
}

// Dial implements nats.CustomDialer.
func (d *cutDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	cc := &cutConn{Conn: c, d: d}
	d.conns = append(d.conns, cc)
	return cc, nil
}

func (d *cutDialer) deafen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = true
}

// sever breaks the connection after n more bytes went out.
func (d *cutDialer) sever(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.budget = n
}

// heal ends what deafen and sever began, over a new connection.
func (d *cutDialer) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf {
		for _, c := range d.conns {
			_ = c.Conn.Close() // its stream of bytes has a gap
		}
		d.conns = nil
	}
	d.deaf, d.budget = false, 0
}

type cutConn struct {
	net.Conn
	d *cutDialer
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		c.d.mu.Lock()
		deaf := c.d.deaf
		c.d.mu.Unlock()
		if err != nil || !deaf {
			return n, err
		}
	}
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.budget == 0 {
		return c.Conn.Write(p)
	}
	if len(p) < c.d.budget {
		c.d.budget -= len(p)
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.d.budget])
	c.d.budget = 0
	_ = c.Conn.Close()
	return n, net.ErrClosed
}
