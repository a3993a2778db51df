package crash

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/internal/disktest"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
)

// cluster is a house of three brokers, two loggers, projector and resolver.
type cluster struct {
	*house
	peers   []broker.Peer
	nodes   map[string]*process
	loggers map[string]*process // by socket
	views   *process
	judge   *process
	sensing []*process
	load    *load
	disk    string   // of the broker n3, "" when it has none of its own
	net     *network // nil on loopback
}

// layOut makes the directories of a cluster; with disk, n3 gets a small one.
func layOut(t testing.TB, peers []broker.Peer, disk string, within *network) *cluster {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "h")
	c := &cluster{
		house: &house{t: t, dir: node.Dir(dir)}, peers: peers, disk: disk, net: within,
		nodes: map[string]*process{}, loggers: map[string]*process{},
	}
	if disk != "" {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "nodes"), 0o700), os.Symlink(disk, filepath.Join(dir, "nodes", "n3"))); err != nil {
			t.Fatal(err)
		}
	}
	layout := broker.Cluster{Peers: peers}
	c.urls = layout.URLs()
	return c
}

// initArgs lay the cluster out.
func (c *cluster) initArgs(offline string) []string {
	args := []string{"init", "--offline-dir", offline}
	for _, p := range c.peers {
		args = append(args, "--peer", fmt.Sprintf("%s=%s:%d:%d", p.Name, p.Host, p.Client, p.Route))
	}
	return args
}

func (c *cluster) startBrokers() {
	c.t.Helper()
	for _, p := range c.peers {
		argv := []string{assay, "--dir", string(c.dir), "serve", "broker", "--node", p.Name, "--low-water", "32"}
		c.nodes[p.Name] = c.supervise(p.Name, c.net.in(p.Name, argv))
	}
	for _, p := range c.peers {
		c.awaitServed(nodeSocket(p.Name))
	}
}

// nodeSocket is a broker's socket, seen from DIR/run.
func nodeSocket(name string) string { return "../nodes/" + name + "/run/broker" }

func (c *cluster) startServices(seed uint64) {
	c.t.Helper()
	c.loggers["logger"] = c.serve("logger", "--standby")
	c.await("the first logger to write", func() bool { return c.role("logger") == logger.RoleActive })
	c.loggers["logger-b"] = c.serve("logger", "--standby", "--instance", "b")
	c.views, c.judge = c.serve("projector"), c.serve("resolver", "--seal", "1s")
	c.sensing = []*process{c.serve("sensor", "--sensor", "200ms"), c.serve("ingress")}
	c.awaitServed("logger-b", "assay", "resolver", "ingress", "sensor")
	c.load = c.start(&load{h: c.house, batch: 8, acked: map[string]promise{}, open: map[string]promise{}}, 5, 2, seed)
	c.flows()
}

func newCluster(t testing.TB, peers []broker.Peer, disk string, within *network, seed uint64) *cluster {
	t.Helper()
	c := layOut(t, peers, disk, within)
	offline := t.TempDir()
	c.must(c.initArgs(offline)...)
	c.startBrokers()
	c.must("init", "--offline-dir", offline)
	c.startServices(seed)
	return c
}

// flows waits until events are acked again and says how long that took.
func (c *cluster) flows() time.Duration {
	c.t.Helper()
	began, flowing := time.Now(), c.load.acks.Load()+100
	c.await("acks to flow", func() bool { return c.load.acks.Load() >= flowing })
	return time.Since(began)
}

// sealed counts the segments of telemetry in the ledger.
func (c *cluster) sealed() (n int) {
	c.t.Helper()
	e, err := node.OpenEvidence(c.t.Context(), node.EvidenceConfig{Dir: c.dir})
	if err != nil {
		return 0
	}
	defer e.Close()
	head, err := e.Head(c.t.Context())
	if err == nil {
		err = e.Read(c.t.Context(), 1, head, func(_ ledger.Seq, body []byte) error {
			if bytes.Contains(body, []byte(`"telemetry.sealed"`)) {
				n++
			}
			return nil
		})
	}
	if err != nil {
		return 0
	}
	return n
}

// active is the socket of the logger that writes.
func (c *cluster) active() (socket string) {
	c.t.Helper()
	c.await("a logger to write", func() bool {
		for s := range c.loggers {
			if c.role(s) == logger.RoleActive {
				socket = s
				return true
			}
		}
		return false
	})
	return socket
}

// leader is the broker that leads the ledger's stream.
func (c *cluster) leader() (name string) {
	c.t.Helper()
	nc := c.connect(principal.LoggerStore)
	defer nc.Close()
	c.await("a leader", func() bool {
		m, err := nc.Request("$JS.API.STREAM.INFO."+broker.LedgerStream, nil, 2*time.Second)
		if err != nil {
			return false
		}
		var info struct {
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		}
		name = ""
		if json.Unmarshal(m.Data, &info) == nil {
			name = info.Cluster.Leader
		}
		return name != ""
	})
	return name
}

// whole waits until every broker's copy has what is in the ledger now: until then
// one that was away counts for a majority of servers, but not of copies.
func (c *cluster) whole() {
	c.t.Helper()
	var st node.Status
	c.await("the logger that writes to answer", func() bool {
		st, _ = c.status(c.active())
		return st.Logger != nil
	})
	for _, p := range c.peers {
		one := *c.house
		one.urls = (&broker.Cluster{Peers: []broker.Peer{p}}).URLs()
		nc := one.connect(principal.LoggerStore)
		c.await("the copy of "+p.Name+" to be whole", func() bool {
			m, err := directGet(nc, int(st.Logger.Size))
			return err == nil && m.Header.Get("Status") == ""
		})
		nc.Close()
	}
}

func (c *cluster) kill(name string) {
	c.t.Helper()
	c.await(name+" to be there to be killed", c.nodes[name].kill)
}

// pauseLogger stops the logger that writes for a while.
func (c *cluster) pauseLogger(pause time.Duration) {
	c.t.Helper()
	socket := c.active()
	c.loggers[socket].signal(syscall.SIGSTOP)
	began := time.Now()
	c.flows()
	time.Sleep(pause - time.Since(began))
	c.loggers[socket].signal(syscall.SIGCONT)
	c.await("the stopped logger to stand by", func() bool { return c.role(socket) == logger.RoleStandby })
}

// fillDisk takes all room from n3 and gives it back.
func (c *cluster) fillDisk() {
	c.t.Helper()
	disktest.Leave(c.t, c.disk, 0)
	c.await("n3 to meet the end of its disk", func() bool {
		st, ok := c.status(nodeSocket("n3"))
		return ok && st.Broker != nil && st.Broker.State == "failed"
	})
	c.flows() // the other two are a majority
	disktest.Release(c.t, c.disk)
	c.await("n3 to serve", func() bool {
		st, ok := c.status(nodeSocket("n3"))
		return ok && st.Broker != nil && st.Broker.State == "serving"
	})
}

// settle ends the load and holds the ledger, and every copy of it, against every
// promise; then it does what else is to be checked while the brokers run.
func (c *cluster) settle(also ...func()) {
	c.t.Helper()
	sealed := c.sealed()
	c.await("telemetry to be sealed still", func() bool { return c.sealed() > sealed })
	c.load.end()
	for _, p := range append(c.sensing, c.judge) {
		p.stop()
	}
	c.awaitViews(c.active())
	c.mustReplay("live views")
	c.views.stop()
	for _, l := range c.loggers {
		l.stop()
	}
	report := mustDecode[ledger.Report](c.t, c.must("verify", "--json"))
	if report.Verdict != ledger.Consistent || report.UnsignedTail == nil || *report.UnsignedTail != 0 {
		raw, _ := json.Marshal(report)
		c.t.Errorf("verify: %s", raw)
	}
	stored := c.load.check()
	c.copiesAgree()
	for _, check := range also {
		check()
	}
	for _, n := range c.nodes {
		n.stop()
	}
	c.t.Logf("%d acked, %d undecided of which %d stored; %d records", len(c.load.acked), len(c.load.open), stored, report.Size)
	if len(c.load.acked) < 400 {
		c.t.Errorf("only %d events were acked", len(c.load.acked))
	}
}

// copiesAgree reads each broker's own copy of the ledger and holds it against
// what the leader has.
func (c *cluster) copiesAgree() {
	c.t.Helper()
	e, err := node.OpenEvidence(c.t.Context(), node.EvidenceConfig{Dir: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	defer e.Close()
	head, err := e.Head(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	var leaves []ledger.Hash
	if err := e.Read(c.t.Context(), 1, head, func(_ ledger.Seq, body []byte) error {
		leaves = append(leaves, ledger.Leaf(body))
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range c.peers {
		one := *c.house
		one.urls = (&broker.Cluster{Peers: []broker.Peer{p}}).URLs()
		nc := one.connect(principal.LoggerStore)
		var differs error
		c.await("the copy of "+p.Name+" to catch up", func() bool {
			m, err := directGet(nc, len(leaves))
			return err == nil && ledger.Leaf(m.Data) == leaves[len(leaves)-1]
		})
		differs = compareCopy(nc, leaves)
		if m, err := directGet(nc, len(leaves)+1); err != nil || m.Header.Get("Status") != "404" {
			differs = errors.Join(differs, fmt.Errorf("after the end: %v, %v", m, err))
		}
		if differs != nil {
			c.t.Errorf("copy of %s: %v", p.Name, differs)
		}
		nc.Close()
	}
}

// directGet is answered by the broker that nc is connected to, if it has a copy.
func directGet(nc *nats.Conn, seq int) (*nats.Msg, error) {
	return nc.Request("$JS.API.DIRECT.GET."+broker.LedgerStream, fmt.Appendf(nil, `{"seq":%d}`, seq), 10*time.Second)
}

func compareCopy(nc *nats.Conn, leaves []ledger.Hash) error {
	const workers = 16
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(leaves) && errs[w] == nil; i += workers {
				m, err := directGet(nc, i+1)
				if err == nil && ledger.Leaf(m.Data) != leaves[i] {
					err = fmt.Errorf("%s %.200s", m.Header.Get("Status"), m.Data)
				}
				if err != nil {
					errs[w] = fmt.Errorf("record %d: %w", i+1, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// clusterSeed is the seed and the number of rounds.
func clusterSeed(t testing.TB) (seed uint64, rounds int, pause time.Duration) {
	t.Helper()
	rounds = envInt(t, "ASSAY_CLUSTER_ROUNDS", 2)
	seed = uint64(envInt(t, "ASSAY_CRASH_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	pause = time.Duration(envInt(t, "ASSAY_CLUSTER_PAUSE", 6)) * time.Second
	t.Logf("ASSAY_CLUSTER_ROUNDS=%d ASSAY_CRASH_SEED=%d", rounds, seed)
	return seed, rounds, pause
}

// An ack holds through kill -9 of any broker of a cluster, a logger that is
// stopped, and a broker's full disk, and so does the service: what is left of
// the brokers goes on by itself.
func TestClusterSurvivesFaults(t *testing.T) {
	t.Parallel()
	seed, rounds, pause := clusterSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1<<33))
	disk := ""
	if os.Geteuid() == 0 {
		disk = disktest.Mount(t, diskMiB)
	} else {
		t.Log("NOT TRIED: a full disk, which takes a tmpfs that only root may mount")
	}
	c := newCluster(t, brokertest.Peers(t), disk, nil, seed)
	faults := map[string]func(){"stop the logger": func() { c.pauseLogger(pause) }}
	for _, p := range c.peers {
		faults["kill "+p.Name] = func() { c.kill(p.Name) }
	}
	if c.disk != "" {
		faults["fill the disk of n3"] = c.fillDisk
	}
	var deck, took []string
	for round := range rounds {
		if len(deck) == 0 { // two rounds meet every fault
			deck = sortedKeys(faults)
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		dealt := len(deck)
		if round%2 == 0 {
			dealt = (dealt + 1) / 2
		}
		for _, name := range deck[:dealt] {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			c.whole()
			leader := c.leader()
			began := time.Now()
			faults[name]()
			struck := time.Since(began)
			took = append(took, fmt.Sprintf("%s (leader %s): %.1f s, acks %.1f s after", name, leader, struck.Seconds(), c.flows().Seconds()))
		}
		deck = deck[dealt:]
	}
	t.Log(strings.Join(took, "\n"))
	c.settle()
}
