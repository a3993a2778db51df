package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/ledger/broker"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// network is one network namespace for each broker, joined by a bridge that this
// host is on as well. A nil network is loopback.
type network struct {
	t      testing.TB
	tag    string // in the names of all that is made
	subnet string // its first three bytes
	peers  []broker.Peer
}

// newNetwork makes the namespaces; the test is skipped where that is not permitted.
func newNetwork(t testing.TB) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces take the command ip")
	}
	id := os.Getpid()%200_000*10 + rand.IntN(10)
	n := &network{t: t, tag: fmt.Sprintf("as%d", id), subnet: fmt.Sprintf("10.%d.%d", 100+id/256%100, id%256)}
	t.Cleanup(n.remove)
	bridge := n.tag + "br"
	if err := n.try("link", "add", bridge, "type", "bridge"); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	n.ip("addr", "add", n.subnet+".254/24", "dev", bridge)
	n.ip("link", "set", bridge, "up")
	for i := range broker.ClusterSize {
		p := broker.Peer{Name: fmt.Sprintf("n%d", i+1), Host: fmt.Sprintf("%s.%d", n.subnet, i+1), Client: 4222, Route: 6222}
		n.peers = append(n.peers, p)
		n.ip("netns", "add", n.space(p.Name))
		n.ip("link", "add", n.cable(p.Name), "type", "veth", "peer", "name", "eth0", "netns", n.space(p.Name))
		n.ip("link", "set", n.cable(p.Name), "master", bridge, "up")
		n.ip("-n", n.space(p.Name), "addr", "add", p.Host+"/24", "dev", "eth0")
		n.ip("-n", n.space(p.Name), "link", "set", "eth0", "up")
		n.ip("-n", n.space(p.Name), "link", "set", "lo", "up")
	}
	return n
}

func (n *network) space(name string) string { return n.tag + name }
func (n *network) cable(name string) string { return n.tag + "v" + name }

func (n *network) try(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if err := n.try(args...); err != nil {
		n.t.Fatal(err)
	}
}

// remove takes everything down; cables go with their namespaces.
func (n *network) remove() {
	var errs []error
	for _, p := range n.peers {
		errs = append(errs, n.try("netns", "del", n.space(p.Name)))
	}
	if len(n.peers) > 0 {
		errs = append(errs, n.try("link", "del", n.tag+"br"))
	}
	if err := errors.Join(errs...); err != nil {
		n.t.Error(err)
	}
}

// in is how a broker's command runs in its namespace.
func (n *network) in(name string, argv []string) []string {
	if n == nil {
		return argv
	}
	return append([]string{"ip", "netns", "exec", n.space(name)}, argv...)
}

// unplug cuts a broker off from everybody.
func (n *network) unplug(name string) (heal func()) {
	n.ip("link", "set", n.cable(name), "down")
	return func() { n.ip("link", "set", n.cable(name), "up") }
}

// split cuts a broker off from the other brokers alone: clients still reach it.
func (n *network) split(name string) (heal func()) {
	var undo [][]string
	for _, p := range n.peers {
		if p.Name != name {
			route := []string{"blackhole", p.Host + "/32"}
			n.ip(append([]string{"-n", n.space(name), "route", "add"}, route...)...)
			undo = append(undo, append([]string{"-n", n.space(name), "route", "del"}, route...))
		}
	}
	return func() {
		for _, args := range undo {
			n.ip(args...)
		}
	}
}

// The leader of the ledger's stream is cut off, from everybody or from the other
// brokers alone, for longer than it takes it to find out: the others go on, what
// was acked stays, and the one that comes back has what they have.
func TestClusterSurvivesPartitions(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	seed, rounds, _ := clusterSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1<<34))
	c := newCluster(t, n.peers, "", n, seed)
	cuts := []struct {
		name string
		cut  func(string) func()
	}{{"unplug", n.unplug}, {"split", n.split}}
	first := rng.IntN(2)
	for round := range rounds {
		kind := cuts[(first+round)%2]
		c.whole()
		leader := c.leader()
		heal := kind.cut(leader)
		resumed := c.flows()
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
		c.flows()
		heal()
		t.Logf("%s %s: acks %.1f s after, %.1f s after it was back", kind.name, leader, resumed.Seconds(), c.flows().Seconds())
	}
	c.settle()
}
