package crash

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/events/publish"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
)

// nextType is the event type that the next release knows and this one does not;
// it has the schema of thisType.
const (
	thisType = "gate.chosen"
	nextType = "gate.widened"
	// nextSoftware begins what a service of the next release calls itself.
	nextSoftware = "assay next "
)

// buildNext builds the next release: these sources with another name and one
// more event type.
func buildNext(t testing.TB) string {
	t.Helper()
	dir, repo := t.TempDir(), mustRead(t, "go", "list", "-m", "-f", "{{.Dir}}")
	schemas := filepath.Join(dir, "schema")
	overlay := map[string]string{}
	put := func(path, text string) {
		t.Helper()
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(repo, path)] = to
	}
	altered := func(path, to, old, new string) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(repo, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), old) {
			t.Fatalf("%s has no %s", path, old)
		}
		put(to, strings.ReplaceAll(string(raw), old, new))
	}
	if err := os.CopyFS(schemas, os.DirFS(filepath.Join(repo, "schema"))); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"json", "golden"} {
		altered(filepath.Join("schema", kind, thisType+".json"), filepath.Join("schema", kind, nextType+".json"), thisType, nextType)
	}
	altered("cmd/assay/main.go", "cmd/assay/main.go", `"assay "`, `"`+nextSoftware+`"`)
	mustRead(t, "go", "run", "assay/schema/internal/gen", "-dir", schemas)
	const generated = "schema/validate_gen.go"
	overlay[filepath.Join(repo, generated)] = filepath.Join(dir, generated)
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "assay")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	mustRead(t, "go", append(append([]string{"build", "-overlay", list}, buildFlags...), "-o", bin, "assay/cmd/assay")...)
	return bin
}

// mustRead is what a command prints.
func mustRead(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// newer is a producer of the next release, whose one event is sent until it is
// taken.
type newer struct {
	conn *nats.Conn
	id   string
	raw  []byte
}

func (c *cluster) newer() *newer {
	event := mustTemplate(c.t, thisType).next()
	return &newer{c.connect("agent.piper"), event.id, []byte(strings.ReplaceAll(string(event.raw), thisType, nextType))}
}

// send is the logger's answer.
func (n *newer) send(h *house) (a publish.Answer) {
	h.t.Helper()
	h.await("an answer to a newer producer", func() bool {
		m, err := n.conn.Request("intake.agent.piper", n.raw, 10*time.Second)
		if err != nil {
			return false // an election, or a logger that takes over
		}
		a = mustDecode[publish.Answer](h.t, string(m.Data))
		return a.Refusal == nil || a.Refusal.RetryAfter == nil
	})
	return a
}

// unknown checks that a logger of this release says that it is one.
func (n *newer) unknown(h *house, when string) {
	h.t.Helper()
	if a := n.send(h); a.Refusal == nil || a.Refusal.Code != "unknown_type" || a.Refusal.Pointer != "/type" {
		h.t.Errorf("%s: a newer event was answered %+v", when, a)
	}
}

// upgrade asks the service to end, which it has to do with exit 0; the
// supervisor starts it again from the other binary.
func (p *process) upgrade(bin string) {
	p.h.t.Helper()
	p.mu.Lock()
	starts := p.starts
	p.argv = append([]string{bin}, p.argv[1:]...)
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
	p.h.await(p.name+" to start again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.starts > starts
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		p.h.t.Errorf("%s ended with %v", p.name, p.last)
	}
}

// Every broker and every service is replaced by the next release's, one after
// another, under load, and in the order of docs/cluster.md. Until the logger is
// the next release's, it refuses what only that one knows.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	next := buildNext(t)
	seed, _, _ := clusterSeed(t)
	c := newCluster(t, brokertest.Peers(t), "", nil, seed)
	producer := c.newer()
	producer.unknown(c.house, "before")
	for _, p := range c.peers {
		c.nodes[p.Name].upgrade(next)
		c.awaitServed(nodeSocket(p.Name))
		c.flows()
		c.whole()
	}
	producer.unknown(c.house, "with brokers of the next release")
	for _, reader := range append([]*process{c.views, c.judge}, c.sensing...) {
		reader.upgrade(next)
	}
	c.awaitServed("assay", "resolver", "ingress", "sensor")
	c.flows()
	active := c.active()
	standby := slices.DeleteFunc(sortedKeys(c.loggers), func(s string) bool { return s == active })[0]
	c.loggers[standby].upgrade(next)
	c.await("the upgraded logger to stand by", func() bool { return c.role(standby) == logger.RoleStandby })
	producer.unknown(c.house, "with a standby of the next release")
	c.loggers[active].upgrade(next)
	c.awaitServed(active)
	c.flows()
	// The refused id is free; once it is taken it is an event as any other.
	a := producer.send(c.house)
	if a.Refusal != nil || a.Seq == nil {
		t.Fatalf("the next release answers %+v to its own event", a)
	}
	c.load.mu.Lock()
	c.load.acked[producer.id] = promise{"agent/piper", sha256.Sum256(producer.raw), a.Receipt}
	c.load.mu.Unlock()
	all := mustDecode[[]node.Status](t, c.must("--json", "status"))
	if services := len(c.nodes) + len(c.loggers) + 2 + len(c.sensing); len(all) != services {
		t.Errorf("%d services answer, want %d", len(all), services)
	}
	for _, st := range all {
		if !strings.HasPrefix(st.Software, nextSoftware) {
			t.Errorf("%s is still %s", st.Services, st.Software)
		}
	}
	c.replaceDisk("n2")
	c.settle()
}

// replaceDisk takes a broker's whole store away. It fetches its copy from the
// others, who are a majority without it.
func (c *cluster) replaceDisk(name string) {
	c.t.Helper()
	old := c.nodes[name]
	old.killForGood()
	c.flows()
	if err := os.RemoveAll(filepath.Join(broker.Dir(c.dir).Node(name).Store(), "jetstream")); err != nil {
		c.t.Fatal(err)
	}
	c.nodes[name] = c.supervise(name, old.argv)
	c.awaitServed(nodeSocket(name))
	c.flows()
}
