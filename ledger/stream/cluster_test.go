package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/stream"
)

// persist appends as the logger does: identical bytes until the outcome is
// certain. It returns how many attempts were undecided and how many met the
// stream at another place.
func persist(t testing.TB, s *stream.Stream, first, n int) (undecided, elsewhere int) {
	msgs := messages(first, n)
	for deadline := time.Now().Add(90 * time.Second); len(msgs) > 0; {
		err := s.Append(context.Background(), ledger.Seq(first), msgs)
		if err == nil {
			return undecided, elsewhere
		}
		if time.Now().After(deadline) {
			t.Errorf("append at %d: %v", first, err)
			return undecided, elsewhere
		}
		if errors.Is(err, stream.ErrUndecided) == errors.Is(err, stream.ErrWrongSequence) {
			t.Errorf("neither or both: %v", err)
			return undecided, elsewhere
		}
		var head stream.Head
		if errors.Is(err, stream.ErrWrongSequence) {
			elsewhere++
			head, err = s.Head(context.Background())
		} else {
			undecided++
		}
		if err == nil && int(head.Last)+1 < first {
			t.Errorf("the head went back to %d, %d was acked", head.Last, first-1)
			return undecided, elsewhere
		}
		for err == nil && len(msgs) > 0 && first <= int(head.Last) {
			var body []byte
			if body, err = s.Get(context.Background(), ledger.Seq(first)); err == nil && string(body) != string(msgs[0].Body) {
				t.Errorf("message %d is %s", first, body)
				return undecided, elsewhere
			}
			if errors.Is(err, stream.ErrNotFound) {
				t.Errorf("message %d: %v, the head is %d", first, err, head.Last)
				return undecided, elsewhere
			}
			if err == nil {
				first, msgs = first+1, msgs[1:]
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return undecided, elsewhere
}

// Each broker is stopped and started again while batches are appended: the
// stream holds each message once and in order, and so does every copy.
func TestClusterChangesItsLeader(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := brokertest.NewCluster(t)
	s := open(t, c.Connect(principal.LoggerStore), stream.Config{})
	js, err := jetstream.New(c.Connect(principal.LoggerStore))
	if err != nil {
		t.Fatal(err)
	}
	ds, err := broker.CheckStreams(t.Context(), js, broker.ClusterSize, broker.LedgerStream, broker.QuarantineStream)
	if err != nil || len(ds) > 0 {
		t.Fatal(ds, err)
	}
	mustAppend(t, s, 1, stream.DefaultMaxBatch)
	var next atomic.Int64
	next.Store(stream.DefaultMaxBatch + 1)
	stop, done := make(chan struct{}), make(chan struct{})
	undecided, elsewhere := 0, 0
	go func() {
		defer close(done)
		for !t.Failed() {
			select {
			case <-stop:
				return
			default:
			}
			n := 1
			if rng.IntN(2) == 0 {
				n = 1 + rng.IntN(200)
			}
			u, e := persist(t, s, int(next.Load()), n)
			undecided, elsewhere = undecided+u, elsewhere+e
			next.Add(int64(n))
		}
	}()
	flows := func() {
		t.Helper()
		for from, deadline := next.Load(), time.Now().Add(time.Minute); next.Load() < from+500; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) || t.Failed() {
				t.Fatal("appends do not go on")
			}
		}
	}
	for _, p := range c.Layout.Peers {
		flows()
		c.Stop(p.Name)
		flows()
		c.Start(p.Name)
	}
	flows()
	close(stop)
	<-done
	n := int(next.Load()) - 1
	t.Logf("%d messages, %d attempts undecided, %d met the stream elsewhere", n, undecided, elsewhere)
	holds(t, s, n)
	for _, p := range c.Layout.Peers {
		copyHolds(t, c, p, n)
	}
}

// copyHolds reads one broker's own copy of the stream, by direct gets, which a
// broker with a copy answers itself.
func copyHolds(t testing.TB, c *brokertest.Cluster, p broker.Peer, n int) {
	t.Helper()
	cred, err := principal.LoadCredential(principal.Dir(c.Dir).Credential(principal.LoggerStore))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := broker.Dial(fmt.Sprintf("nats://%s:%d", p.Host, p.Client), cred)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for seq := n; seq > 0; seq -= 1 + n/300 {
		want := fmt.Sprintf(`{"message":%d}`, seq)
		var got string
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			var m *nats.Msg
			if m, err = nc.Request("$JS.API.DIRECT.GET.LEDGER", fmt.Appendf(nil, `{"seq":%d}`, seq), 5*time.Second); err == nil {
				if got = string(m.Data); got == want {
					break
				}
			}
		}
		if got != want {
			t.Fatalf("%s has %q at %d, %v", p.Name, got, seq, err)
		}
	}
}

// Without a majority nothing is decided, nothing is read and nothing counts as
// lost.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	c := brokertest.NewCluster(t)
	s := open(t, c.Connect(principal.LoggerStore), stream.Config{Timeout: time.Second})
	mustAppend(t, s, 1, 30)
	c.Stop("n1")
	c.Stop("n2")
	for began := time.Now(); time.Since(began) < 8*time.Second; {
		for _, n := range []int{1, 3} {
			// Undecided or, where a leader without followers keeps an attempt that
			// a majority may still store, at another place.
			err := s.Append(t.Context(), 31, messages(31, n))
			if err == nil || errors.Is(err, stream.ErrUndecided) == errors.Is(err, stream.ErrWrongSequence) {
				t.Fatalf("append without a majority: %v", err)
			}
		}
		if h, err := s.Head(t.Context()); err == nil && h.Last != 30 {
			t.Fatalf("head %+v", h)
		}
		if _, err := s.Get(t.Context(), 31); err == nil || errors.Is(err, stream.ErrNotFound) && time.Since(began) > 5*time.Second {
			t.Fatalf("get without a majority: %v", err)
		}
	}
	if h, err := s.Head(t.Context()); err == nil {
		t.Errorf("a head without a majority: %+v", h)
	}
	// A restart would not help it.
	if err := c.Node("n3").Check(); err != nil {
		t.Errorf("the broker that is left counts as broken: %v", err)
	}
	c.Start("n1")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if h, err := s.Head(t.Context()); err == nil && h.Last >= 30 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no head after the majority is back")
		}
	}
	// An undecided append may be stored: the longer one begins with the shorter.
	persist(t, s, 31, 3)
	// The servers elect their own leader, who makes consumers, after the stream's.
	if err := s.Read(t.Context(), 33, 33, func(ledger.Seq, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 33)
	if err := s.Append(t.Context(), 33, messages(33, 1)); !errors.Is(err, stream.ErrWrongSequence) && !errors.Is(err, stream.ErrUndecided) {
		t.Errorf("append where the stream does not end: %v", err)
	}
}

// What copies cost: batches of a thousand records of 600 bytes, and one at a
// time. All three brokers are on this machine and share its processor and disk.
func BenchmarkAppend(b *testing.B) {
	_, alone := real(b)
	clustered := open(b, brokertest.NewCluster(b).Connect(principal.LoggerStore), stream.Config{})
	for _, n := range []int{1, 1000} {
		for name, s := range map[string]*stream.Stream{"alone": alone, "cluster": clustered} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				head, err := s.Head(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				next := int(head.Last) + 1
				msgs := messages(next, n)
				for i := range msgs {
					msgs[i].Body = append(msgs[i].Body, make([]byte, 600-len(msgs[i].Body))...)
				}
				for b.Loop() {
					if err := s.Append(b.Context(), ledger.Seq(next), msgs); err != nil {
						b.Fatal(err)
					}
					next += n
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}
