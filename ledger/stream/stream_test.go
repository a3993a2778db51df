package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/stream"
)

func messages(from, n int) []stream.Message {
	out := make([]stream.Message, n)
	for i := range out {
		out[i] = stream.Message{Subject: "ledger.gate.chosen", Body: fmt.Appendf(nil, `{"message":%d}`, from+i)}
	}
	return out
}

func open(t testing.TB, nc *nats.Conn, cfg stream.Config) *stream.Stream {
	t.Helper()
	s, err := stream.New(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func real(t testing.TB) (*brokertest.Env, *stream.Stream) {
	t.Helper()
	e := brokertest.New(t)
	return e, open(t, e.Connect(principal.LoggerStore), stream.Config{})
}

func mustAppend(t testing.TB, s *stream.Stream, first, n int) {
	t.Helper()
	if err := s.Append(t.Context(), ledger.Seq(first), messages(first, n)); err != nil {
		t.Fatal(err)
	}
}

// holds checks that the stream is messages 1 to n and nothing else.
func holds(t testing.TB, s *stream.Stream, n int) {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil || h != (stream.Head{First: ledger.Seq(min(n, 1)), Last: ledger.Seq(n)}) {
		t.Fatalf("head %+v %v, want %d", h, err, n)
	}
	want := 1
	err = s.Read(t.Context(), 1, 1<<62, func(seq ledger.Seq, body []byte) error {
		if int(seq) != want || string(body) != fmt.Sprintf(`{"message":%d}`, want) {
			return fmt.Errorf("message %d: %s, want %d", seq, body, want)
		}
		want++
		return nil
	})
	if err != nil || want != n+1 {
		t.Fatalf("read up to %d: %v", want-1, err)
	}
}

func TestAppendStoresInOrder(t *testing.T) {
	_, s := real(t)
	h, err := s.Head(t.Context())
	if err != nil || h.Last != 0 {
		t.Fatalf("empty: %+v %v", h, err)
	}
	next := 1
	for _, n := range []int{1, 1, 2, 19, 1000, 1, 5000, 5001} {
		mustAppend(t, s, next, n)
		next += n
	}
	holds(t, s, next-1)
	if err := s.Append(t.Context(), ledger.Seq(next), nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

func TestAppendElsewhereStoresNothing(t *testing.T) {
	_, s := real(t)
	mustAppend(t, s, 1, 5)
	for _, first := range []int{1, 5, 7, 100} {
		for _, n := range []int{1, 2, 50} {
			err := s.Append(t.Context(), ledger.Seq(first), messages(first, n))
			if !errors.Is(err, stream.ErrWrongSequence) || errors.Is(err, stream.ErrUndecided) {
				t.Errorf("%d messages at %d: %v", n, first, err)
			}
		}
	}
	holds(t, s, 5)
}

// TestResentBytesAreStoredOnce: the answer to a repeated append is
// ErrWrongSequence, never a second copy.
func TestResentBytesAreStoredOnce(t *testing.T) {
	_, s := real(t)
	for _, n := range []int{1, 30} {
		h, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first := int(h.Last) + 1
		mustAppend(t, s, first, n)
		for range 3 {
			if err := s.Append(t.Context(), ledger.Seq(first), messages(first, n)); !errors.Is(err, stream.ErrWrongSequence) {
				t.Errorf("again: %v", err)
			}
		}
	}
	holds(t, s, 31)
}

// TestTwoWritersFenceEachOther: of two appends at one position one wins whole.
func TestTwoWritersFenceEachOther(t *testing.T) {
	e, a := real(t)
	b := open(t, e.Connect(principal.LoggerStore), stream.Config{})
	next := 1
	for round := range 20 {
		n := 1 + round%3*20
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, s := range []*stream.Stream{a, b} {
			wg.Go(func() { errs[i] = s.Append(t.Context(), ledger.Seq(next), messages(next, n)) })
		}
		wg.Wait()
		lost := errs[0]
		if lost == nil {
			lost = errs[1]
		} else if errs[1] != nil {
			t.Fatalf("both lost: %v", errs)
		}
		if !errors.Is(lost, stream.ErrWrongSequence) {
			t.Fatalf("round %d: %v", round, errs)
		}
		next += n
	}
	holds(t, a, next-1)
}

func TestUndecidedWithoutABroker(t *testing.T) {
	e, _ := real(t)
	s := open(t, e.Connect(principal.LoggerStore), stream.Config{Timeout: 200 * time.Millisecond})
	mustAppend(t, s, 1, 2)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Broker.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		err := s.Append(t.Context(), 3, messages(3, n))
		if !errors.Is(err, stream.ErrUndecided) || errors.Is(err, stream.ErrWrongSequence) {
			t.Errorf("%d messages: %v", n, err)
		}
	}
	if _, err := s.Head(t.Context()); err == nil {
		t.Error("a head without a broker")
	}
	if _, err := s.Get(t.Context(), 1); err == nil || errors.Is(err, stream.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
}

func TestAppendSurvivesARestart(t *testing.T) {
	e, s := real(t)
	mustAppend(t, s, 1, 40)
	if err := e.Broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Until the connection is back nothing is decided.
	var err error
	for range 100 {
		if err = s.Append(t.Context(), 41, messages(41, 10)); !errors.Is(err, stream.ErrUndecided) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, stream.ErrWrongSequence) {
		t.Fatal(err)
	}
	holds(t, s, 50)
}

func TestGet(t *testing.T) {
	_, s := real(t)
	mustAppend(t, s, 1, 3)
	if body, err := s.Get(t.Context(), 2); err != nil || string(body) != `{"message":2}` {
		t.Errorf("%s %v", body, err)
	}
	for _, seq := range []ledger.Seq{4, 1 << 40} {
		if _, err := s.Get(t.Context(), seq); !errors.Is(err, stream.ErrNotFound) {
			t.Errorf("%d: %v", seq, err)
		}
	}
}

func TestReadRanges(t *testing.T) {
	_, s := real(t)
	mustAppend(t, s, 1, 30)
	for _, c := range []struct{ from, to, first, last int }{
		{0, 30, 1, 30}, {1, 1, 1, 1}, {7, 9, 7, 9}, {30, 30, 30, 30}, {29, 1000, 29, 30}, {31, 40, 0, 0}, {9, 7, 0, 0},
	} {
		first, last := 0, 0
		err := s.Read(t.Context(), ledger.Seq(c.from), ledger.Seq(c.to), func(seq ledger.Seq, _ []byte) error {
			if first == 0 {
				first = int(seq)
			}
			last = int(seq)
			return nil
		})
		if err != nil || first != c.first || last != c.last {
			t.Errorf("%d to %d: %d to %d, %v", c.from, c.to, first, last, err)
		}
	}
}

func TestReadEnds(t *testing.T) {
	_, s := real(t)
	mustAppend(t, s, 1, 30)
	stop, calls := errors.New("stop"), 0
	err := s.Read(t.Context(), 1, 30, func(ledger.Seq, []byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	// Without an end it goes on with what is new.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := ledger.Seq(0)
	err = s.Read(ctx, 25, 0, func(seq ledger.Seq, _ []byte) error {
		switch seen = seq; seq {
		case 30:
			go func() { _ = s.Append(context.Background(), 31, messages(31, 5)) }()
		case 35:
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 35 {
		t.Errorf("up to %d, %v", seen, err)
	}
}

// TestReadOfLargeMessages: a short range of more bytes than one pull carries is read to
// its end, and to no further.
func TestReadOfLargeMessages(t *testing.T) {
	_, s := real(t)
	const n, size = 160, 65_000
	if n*size <= stream.PullBytes {
		t.Fatal("one pull carries all")
	}
	body := []byte(strings.Repeat("x", size))
	for first := 1; first <= n+20; first += 20 {
		msgs := make([]stream.Message, 20)
		for i := range msgs {
			msgs[i] = stream.Message{Subject: "ledger.gate.chosen", Body: body}
		}
		if err := s.Append(t.Context(), ledger.Seq(first), msgs); err != nil {
			t.Fatal(err)
		}
	}
	next := ledger.Seq(1)
	err := s.Read(t.Context(), 1, n, func(seq ledger.Seq, got []byte) error {
		if seq != next || len(got) != size {
			return fmt.Errorf("message %d of %d bytes, want %d", seq, len(got), next)
		}
		next++
		return nil
	})
	if err != nil || next != n+1 {
		t.Errorf("up to %d: %v", next-1, err)
	}
}

// TestReadPassesOverAGap: what the stream lost is for the reader to notice.
func TestReadPassesOverAGap(t *testing.T) {
	nc := plainServer(t, 0)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, nc, stream.Config{})
	mustAppend(t, s, 1, 10)
	str, err := js.Stream(t.Context(), stream.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{4, 10} {
		if err := str.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Head(t.Context())
	if err != nil || h.Last != 10 || h.Deleted != 2 {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := s.Get(t.Context(), 4); !errors.Is(err, stream.ErrNotFound) {
		t.Error(err)
	}
	var seqs []string
	note := func(seq ledger.Seq, _ []byte) error {
		seqs = append(seqs, fmt.Sprint(seq))
		return nil
	}
	// What is lost at the end is not passed over: nothing behind it would tell.
	err = s.Read(t.Context(), 1, 10, note)
	var lost *ledger.LostError
	if !errors.As(err, &lost) || lost.After != 9 || lost.Last != 10 || !errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
	if got := strings.Join(seqs, " "); got != "1 2 3 5 6 7 8 9" {
		t.Error(got)
	}
	// One that is lost in the middle is passed over, alone too.
	seqs = nil
	if err := errors.Join(s.Read(t.Context(), 4, 4, note), s.Read(t.Context(), 3, 4, note), s.Read(t.Context(), 5, 5, note)); err != nil || strings.Join(seqs, " ") != "3 5" {
		t.Error(seqs, err)
	}
	// Nor is it waited for, when there is nothing before it to be delivered.
	if err := s.Read(t.Context(), 10, 10, note); !errors.As(err, &lost) || lost.After != 9 {
		t.Error(err)
	}
}

// TestASmallerBatchLimitIsFoundOut: a broker that allows fewer messages in a
// batch than the configuration says gets smaller ones.
func TestASmallerBatchLimitIsFoundOut(t *testing.T) {
	for _, limit := range []int{2, 50, 999} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := open(t, plainServer(t, limit), stream.Config{})
			if s.MaxBatch() != stream.DefaultMaxBatch {
				t.Errorf("limit %d before the first append", s.MaxBatch())
			}
			mustAppend(t, s, 1, 1000)
			mustAppend(t, s, 1001, 1200)
			holds(t, s, 2200)
			if got := s.MaxBatch(); got > limit || got < limit/2 {
				t.Errorf("limit %d was found to be %d", limit, got)
			}
		})
	}
}

// plainServer is a broker without accounts whose batches hold at most limit
// messages, with the ledger's stream as far as appends are concerned.
func plainServer(t testing.TB, limit int) *nats.Conn {
	t.Helper()
	opts := &server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true, NoLog: true}
	opts.JetStreamLimits.MaxBatchSize = limit
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: stream.Name, Subjects: []string{stream.SubjectPrefix + ">"}, Storage: jetstream.FileStorage, AllowAtomicPublish: true, AllowDirect: true,
	}); err != nil {
		t.Fatal(err)
	}
	return nc
}

// What is staged while an append is under way is stored by an append of its own
// last message, in its place.
func TestStagedIsCommittedByItsAppend(t *testing.T) {
	e := brokertest.New(t)
	nc := e.Connect(principal.LoggerStore)
	s := open(t, nc, stream.Config{})
	next := 1
	for _, n := range []int{2, 30, 5000} {
		done := make(chan error, 1)
		first := next
		go func() { done <- s.Append(context.Background(), ledger.Seq(first), messages(first, n)) }()
		next += n
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ours := messages(next, n)
		s.Stage(ledger.Seq(next), ours)
		holds(t, s, next-1)
		before := nc.Stats().OutMsgs
		if err := s.Append(t.Context(), ledger.Seq(next), ours); err != nil {
			t.Fatal(err)
		}
		if sent := nc.Stats().OutMsgs - before; sent != 1 {
			t.Errorf("%d messages were sent for a staged batch of %d", sent, n)
		}
		next += n
		holds(t, s, next-1)
	}
}

// Staging while the append before it is under way, as the logger does, again and
// again.
func TestStagedBehindAnAppend(t *testing.T) {
	_, s := real(t)
	const n, rounds = 700, 20
	cur, first := messages(1, n), 1
	for range rounds {
		done := make(chan error, 1)
		go func() { done <- s.Append(context.Background(), ledger.Seq(first), cur) }()
		next := messages(first+n, n)
		s.Stage(ledger.Seq(first+n), next)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cur, first = next, first+n
	}
	holds(t, s, rounds*n)
}

// Whatever was staged and not appended is never stored, and stands in the way of
// nothing.
func TestStagedIsNotStored(t *testing.T) {
	e, s := real(t)
	mustAppend(t, s, 1, 5)
	other := []stream.Message{{Subject: "ledger.gate.chosen", Body: []byte(`{"other":1}`)}, {Subject: "ledger.gate.chosen", Body: []byte(`{"other":2}`)}}
	s.Stage(6, other)
	mustAppend(t, s, 6, 2) // others of the same number at the same place
	s.Stage(8, other)
	mustAppend(t, s, 8, 1)
	s.Stage(9, other)
	mustAppend(t, s, 9, 30)
	holds(t, s, 38)

	// Somebody else was there first.
	s.Stage(39, other)
	mustAppend(t, open(t, e.Connect(principal.LoggerStore), stream.Config{}), 39, 3)
	if err := s.Append(t.Context(), 39, other); !errors.Is(err, stream.ErrWrongSequence) {
		t.Errorf("staged, and the stream went on: %v", err)
	}
	holds(t, s, 41)

	// A broker that restarts forgets it: undecided, until the same bytes go out
	// again.
	ours := messages(42, 40)
	s.Stage(42, ours)
	if err := e.Broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := s.Append(t.Context(), 42, ours)
		if err == nil {
			break
		}
		if !errors.Is(err, stream.ErrUndecided) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	holds(t, s, 81)
}

// stuck is a connection that takes nothing more while it is held.
type stuck struct {
	net.Conn
	held *sync.RWMutex
}

func (c stuck) Write(b []byte) (int, error) {
	c.held.RLock()
	defer c.held.RUnlock()
	return c.Conn.Write(b)
}

type stuckDialer struct{ held sync.RWMutex }

func (d *stuckDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return stuck{c, &d.held}, err
}

// A connection that is stuck holds up the Append, and not who stages.
func TestStageDoesNotWait(t *testing.T) {
	e := brokertest.New(t)
	var d stuckDialer
	nc, err := broker.Dial(e.Broker.ClientURL(), e.Credential(principal.LoggerStore), nats.SetCustomDialer(&d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := open(t, nc, stream.Config{Timeout: 30 * time.Second})
	mustAppend(t, s, 1, 5)
	ours, behind := messages(6, 5000), messages(5006, 5000)
	for _, list := range [][]stream.Message{ours, behind} {
		for i := range list {
			list[i].Body = fmt.Appendf(nil, `{"message":%s,"pad":"%s"}`, strings.TrimSuffix(strings.TrimPrefix(string(list[i].Body), `{"message":`), "}"), strings.Repeat("x", 1000))
		}
	}
	d.held.Lock()
	release := sync.OnceFunc(d.held.Unlock)
	t.Cleanup(release) // before nc.Close, which would wait
	staged := make(chan struct{})
	go func() {
		s.Stage(6, ours)
		s.Stage(5006, behind)
		close(staged)
	}()
	select {
	case <-staged:
	case <-time.After(20 * time.Second):
		t.Error("Stage waits for the connection")
	}
	done := make(chan error, 1)
	go func() { done <- s.Append(context.Background(), 6, ours) }()
	select {
	case err := <-done:
		t.Fatalf("appended over a stuck connection: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), 5006, behind); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int{6, 5005, 5006, 10005} {
		body, err := s.Get(t.Context(), ledger.Seq(seq))
		if err != nil || !strings.HasPrefix(string(body), fmt.Sprintf(`{"message":%d,`, seq)) {
			t.Errorf("message %d: %.40s %v", seq, body, err)
		}
	}
}

// What was staged when the limit of a batch was not known yet is not committed as a
// part of itself.
func TestStagedAboveTheLimit(t *testing.T) {
	const limit = 100
	s := open(t, plainServer(t, limit), stream.Config{})
	cur, next := messages(1, 500), messages(501, 300)
	done := make(chan error, 1)
	s.Stage(501, next)
	go func() { done <- s.Append(context.Background(), 1, cur) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.MaxBatch() > limit {
		t.Fatalf("the limit is taken for %d", s.MaxBatch())
	}
	if err := s.Append(t.Context(), 501, next); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 800)
}

// What was staged longer ago than the broker keeps it is sent anew.
func TestStagedLongAgo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 11 s")
	}
	t.Parallel()
	_, s := real(t)
	mustAppend(t, s, 1, 5)
	ours := messages(6, 30)
	s.Stage(6, ours)
	time.Sleep(11 * time.Second)
	if err := s.Append(t.Context(), 6, ours); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 35)
}
