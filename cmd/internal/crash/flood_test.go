package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/events/publish"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
)

const (
	// floodConnections is how many the agent opens, of which the broker lets in
	// some.
	floodConnections = 1000
	// floodMost is the most memory in bytes that broker or logger may take. The
	// logger's client holds 64 MiB of a principal, its queue 16 MiB, and a starved
	// collector lets several times that lie about; seen: 260 MiB and 1 GiB.
	floodMost = 2 << 30
	// floodShare is how many times fewer acks another may get in a flood, at most.
	floodShare = 30
)

// flood is one agent's traffic. But for the slow readers nothing of it asks for
// a receipt, so that all of it has to be found in the ledger: as an event, or
// counted as refused.
type flood struct {
	sent  atomic.Int64
	asked atomic.Int64 // by the slow readers: answered, or counted when dropped
	wg    sync.WaitGroup

	mu      sync.Mutex
	open    []*nats.Conn
	refused int
}

// floodReport is what the flooding process says at its end.
type floodReport struct {
	Sent    int64 `json:"sent"`
	Asked   int64 `json:"asked"`
	Open    int   `json:"open"`
	Refused int   `json:"refused"`
}

// floodHouse and floodURLs tell TestFlooder, in a process of its own, whom to
// flood.
const (
	floodHouse = "ASSAY_FLOOD_HOUSE"
	floodURLs  = "ASSAY_FLOOD_URLS"
	flooding   = "the flood has begun"
)

// TestFlooder is the flooding agent, which the tests of a flood start.
func TestFlooder(t *testing.T) {
	dir := os.Getenv(floodHouse)
	if dir == "" {
		t.Skip("it is the process that another test starts")
	}
	h := &house{t: t, dir: node.Dir(dir), urls: os.Getenv(floodURLs)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := h.startFlood(ctx)
	fmt.Printf("\n%s\n", flooding)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the other test closes it
		t.Error(err)
	}
	cancel()
	f.wg.Wait()
	raw, err := json.Marshal(floodReport{f.sent.Load(), f.asked.Load(), len(f.open), f.refused})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s\n", raw)
}

// flooded runs TestFlooder while fn runs. It is nice: a host's slices keep
// an agent's processes from taking the services' share of the processor, which is
// not what is looked at here.
func (h *house) flooded(fn func()) (r floodReport) {
	h.t.Helper()
	cmd := exec.Command("nice", "-n", "10", os.Args[0], "-test.run=^TestFlooder$")
	cmd.Env = append(os.Environ(), floodHouse+"="+string(h.dir), floodURLs+"="+h.url())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out := bufio.NewReader(said)
	line := ""
	await := func(prefix string) {
		for line = ""; !strings.HasPrefix(line, prefix); {
			if line, err = out.ReadString('\n'); err != nil {
				h.t.Fatalf("the flooding process ended before %q: %v", prefix, err)
			}
		}
	}
	runtime.LockOSThread() // whose end would be the child's
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(flooding)
	fn()
	if err := stop.Close(); err != nil {
		h.t.Fatal(err)
	}
	await("{")
	r = mustDecode[floodReport](h.t, line)
	if _, err := io.Copy(io.Discard, out); err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		h.t.Fatalf("the flooding process: %v", err)
	}
	return r
}

// TestAFloodStopsNobodyElse: whatever one principal does, every event of
// another is acked, memory stays bounded, and the ledger counts what it
// refused.
func TestAFloodStopsNobodyElse(t *testing.T) {
	h := newHouse(t)
	b := h.serve("broker", "--port", strconv.Itoa(h.port))
	h.awaitServed("broker")
	l := h.serve("logger")
	h.awaitServed("logger")
	h.outlastsAFlood(l, map[string]*process{"broker": b})
}

// TestAFloodOfAClusterStopsNobodyElse: the flooding agent is at every broker of
// the cluster, and so is the one who works.
func TestAFloodOfAClusterStopsNobodyElse(t *testing.T) {
	c := layOut(t, brokertest.Peers(t), "", nil)
	offline := t.TempDir()
	c.must(c.initArgs(offline)...)
	c.startBrokers()
	c.must("init", "--offline-dir", offline)
	l := c.serve("logger")
	c.awaitServed("logger")
	brokers := map[string]*process{}
	for name, p := range c.nodes {
		brokers[nodeSocket(name)] = p
	}
	c.outlastsAFlood(l, brokers)
}

// outlastsAFlood floods the brokers, which are named by their sockets, holds the
// ledger against what was sent and stops logger and brokers.
func (h *house) outlastsAFlood(l *process, brokers map[string]*process) {
	t := h.t
	t.Helper()
	span := time.Duration(envInt(t, "ASSAY_FLOOD_SECONDS", 1)) * time.Second

	victim := publish.New(h.connect("dispatcher.main"), "dispatcher/main")
	tools := mustTemplate(t, "tool.called")
	quiet := h.ackTimes(victim, tools, span/4, 0)
	var during []time.Duration
	f := h.flooded(func() { during = h.ackTimes(victim, tools, span, 5) })
	// Seen: a half to a fifth of the acks without a flood, and a hundredth where one
	// principal's events stand before another's.
	if seen, without := len(during), 4*len(quiet); seen*floodShare < without {
		t.Errorf("%d acks of the other in the flood, about %d without: less than one in %d", seen, without, floodShare)
	}
	// Behind all of it, so that nothing waits any more once this is acked.
	last := publish.New(h.connect("agent.piper"), "agent/piper")
	h.ackTimes(last, mustTemplate(t, "gate.chosen"), 0, 1)
	f.Sent++
	after := h.ackTimes(victim, tools, 0, 1)

	var refused uint64 // to the agent, by the brokers
	for socket, b := range brokers {
		h.checkPeak(b)
		st, ok := h.status(socket)
		if !ok {
			t.Errorf("%s does not answer", b.name)
		}
		refused += st.Refused["agent/piper"]
	}
	h.checkPeak(l)
	if refused < uint64(f.Refused) || f.Refused == 0 {
		t.Errorf("%d connections were refused, the brokers count %d", f.Refused, refused)
	}
	l.stop()
	h.must("verify")
	taken, counted := h.countEvents("agent/piper"), h.countRejected("agent/piper")
	if n := int64(taken + counted); n < f.Sent || n > f.Sent+f.Asked {
		t.Errorf("%d events were sent and %d receipts asked for; the ledger holds %d and counts %d as refused", f.Sent, f.Asked, taken, counted)
	}
	if stored, acked := h.countEvents("dispatcher/main"), len(quiet)+len(during)+len(after); stored != acked {
		t.Errorf("%d events of the other were acked, %d are stored", acked, stored)
	}
	for _, b := range brokers {
		b.stop()
	}
	for _, p := range append(slices.Collect(maps.Values(brokers)), l) {
		if p.starts != 1 {
			t.Errorf("%s was started %d times", p.name, p.starts)
		}
	}
	t.Logf("%d events in %s beside %d connections (%d refused): %d taken, %d counted as refused", f.Sent, span, f.Open, f.Refused, taken, counted)
	t.Logf("the other's acks: quiet p50 %s p99 %s (%d), in the flood p50 %s p99 %s (%d): p99 %.1f times", at(quiet, 50), at(quiet, 99), len(quiet),
		at(during, 50), at(during, 99), len(during), float64(at(during, 99))/float64(at(quiet, 99)))
}

// checkPeak holds what a process took of memory against floodMost.
func (h *house) checkPeak(p *process) {
	h.t.Helper()
	peak := peakRSS(p.pid())
	if peak > floodMost {
		h.t.Errorf("%s took %d MiB at its peak, at most %d", p.name, peak>>20, int64(floodMost)>>20)
	}
	h.t.Logf("%s: %d MiB at its peak", p.name, peak>>20)
}

// at is a percentile of sorted times.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

// ackTimes publishes one event after another for a while, and at least some;
// every one must be acked. The times come sorted.
func (h *house) ackTimes(c *publish.Client, events template, span time.Duration, least int) (took []time.Duration) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for began := time.Now(); time.Since(began) < span || len(took) < least; {
		sent := time.Now()
		if _, err := c.Publish(ctx, events.next().raw); err != nil {
			h.t.Fatalf("event %d of the other: %v", len(took)+1, err)
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	return took
}

// startFlood is everything at once.
func (h *house) startFlood(ctx context.Context) *flood {
	h.t.Helper()
	f := &flood{}
	gate := mustTemplate(h.t, "gate.chosen")
	garbage := []byte("garbage")
	huge := []byte(`"` + strings.Repeat("x", broker.MaxPayload-1024) + `"`)
	var conns []*nats.Conn
	for range 3 {
		// A client whose pings wait behind its own flood would give the connection
		// up, and with it what waits there.
		conns = append(conns, h.connect("agent.piper", nats.PingInterval(time.Hour)))
	}
	f.slowReaders(ctx, h, 8)
	f.connections(h)
	f.repeat(ctx, h.t, conns[0], func() []byte { return gate.next().raw })
	f.repeat(ctx, h.t, conns[1], func() []byte { return garbage })
	f.repeat(ctx, h.t, conns[2], func() []byte { return huge })
	return f
}

func (f *flood) repeat(ctx context.Context, t testing.TB, nc *nats.Conn, next func() []byte) {
	f.wg.Go(func() {
		for ctx.Err() == nil {
			if nc.Publish("intake.agent.piper", next()) == nil {
				f.sent.Add(1)
			}
		}
		// What the broker does not let in yet waits in this connection.
		if err := nc.FlushTimeout(patience); err != nil {
			t.Errorf("flush what was sent: %v", err)
		}
	})
}

// slowReaders ask for receipts, of an event that was taken already, and never
// read one.
func (f *flood) slowReaders(ctx context.Context, h *house, n int) {
	again := mustTemplate(h.t, "gate.chosen").next().raw
	first := h.connect("agent.piper")
	if _, err := first.Request("intake.agent.piper", again, patience); err != nil {
		h.t.Fatal(err)
	}
	f.sent.Add(1)
	for range n {
		nc := h.connect("agent.piper")
		block := make(chan struct{})
		sub, err := nc.Subscribe("_INBOX.slow", func(*nats.Msg) { <-block })
		if err != nil {
			h.t.Fatal(err)
		}
		_ = sub.SetPendingLimits(-1, 1<<10)
		f.wg.Go(func() {
			defer close(block)
			for ctx.Err() == nil {
				// The same event again is the same receipt, and no new record.
				f.asked.Add(1)
				_ = nc.PublishRequest("intake.agent.piper", "_INBOX.slow", again)
				_ = nc.FlushTimeout(time.Second)
			}
		})
	}
}

// connections opens as many as it gets, and keeps them.
func (f *flood) connections(h *house) {
	c, err := principal.LoadCredential(principal.CredentialPath(h.dir.Creds(), "agent.piper"))
	if err != nil {
		h.t.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for next.Add(1) <= floodConnections {
				nc, err := broker.Dial(h.url(), c, nats.NoReconnect(), nats.Timeout(30*time.Second))
				f.mu.Lock()
				if err != nil {
					f.refused++
				} else {
					f.open = append(f.open, nc)
				}
				f.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// countEvents is how many events of a principal's own the ledger holds.
func (h *house) countEvents(who string) (n int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := node.OpenEvidence(ctx, node.EvidenceConfig{Dir: h.dir, Scratch: h.t.TempDir()})
	if err != nil {
		h.t.Fatal(err)
	}
	err = e.Read(ctx, 1, 1<<62, func(_ ledger.Seq, body []byte) error {
		r, err := ledger.ParseRecord(body)
		if err == nil && r.Principal == who {
			n++
		}
		return err
	})
	if err = errors.Join(err, e.Close()); err != nil {
		h.t.Fatal(err)
	}
	return n
}
