package brokertest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger/broker"
)

// Cluster is three brokers on loopback in this process.
type Cluster struct {
	Dir, Offline string
	Layout       *broker.Cluster
	nodes        map[string]*broker.Broker
	tb           testing.TB
}

// NewCluster starts three brokers and makes the streams; the test's end stops
// them.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{Dir: tb.TempDir(), Offline: tb.TempDir(), nodes: map[string]*broker.Broker{}, tb: tb}
	if _, _, err := principal.Dir(c.Dir).Init(c.Offline); err != nil {
		tb.Fatal(err)
	}
	var err error
	if c.Layout, err = broker.NewCluster(Peers(tb)); err != nil {
		tb.Fatal(err)
	}
	if err := c.Layout.Save(c.Dir); err != nil {
		tb.Fatal(err)
	}
	if _, err := broker.WriteConfig(c.Dir); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for name := range c.nodes {
			c.Stop(name)
		}
	})
	for _, p := range c.Layout.Peers {
		c.Start(p.Name)
	}
	store, telemetry := c.dial(c.Offline, principal.BootstrapStore), c.dial(c.Offline, principal.BootstrapTelemetry)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := broker.CreateStreams(context.Background(), store, telemetry, broker.ClusterSize)
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
}

// Peers are three brokers n1 to n3 on loopback, at ports that are free and below
// those that the system hands out, so that they stay free while a broker is down.
func Peers(tb testing.TB) []broker.Peer {
	tb.Helper()
	port := func() int {
		for range 1000 {
			n := 20_000 + rand.IntN(12_000)
			if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n))); err == nil {
				_ = ln.Close()
				return n
			}
		}
		tb.Fatal("no free port")
		return 0
	}
	var peers []broker.Peer
	for i := range broker.ClusterSize {
		peers = append(peers, broker.Peer{Name: "n" + strconv.Itoa(i+1), Host: "127.0.0.1", Client: port(), Route: port()})
	}
	return peers
}

// Start starts a broker that does not run.
func (c *Cluster) Start(name string) {
	c.tb.Helper()
	b, err := broker.Start(broker.Config{Dir: string(broker.Dir(c.Dir).Node(name))})
	if err != nil {
		c.tb.Fatal(err)
	}
	c.nodes[name] = b
}

// Node is a broker that runs.
func (c *Cluster) Node(name string) *broker.Broker { return c.nodes[name] }

// Stop stops a broker.
func (c *Cluster) Stop(name string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.nodes[name].Stop(ctx); err != nil {
		c.tb.Error(err)
	}
	delete(c.nodes, name)
}

// Connect opens a connection as a user of DIR/creds to whichever broker answers.
func (c *Cluster) Connect(user string, opts ...nats.Option) *nats.Conn {
	c.tb.Helper()
	return c.dial(principal.Dir(c.Dir).Creds(), user, opts...)
}

func (c *Cluster) dial(creds, user string, opts ...nats.Option) *nats.Conn {
	c.tb.Helper()
	cred, err := principal.LoadCredential(principal.CredentialPath(creds, user))
	if err != nil {
		c.tb.Fatal(err)
	}
	nc, err := broker.Dial(c.Layout.URLs(), cred, opts...)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.tb.Cleanup(nc.Close)
	return nc
}
