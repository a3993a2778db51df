package crash

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/broker/brokertest"
)

// records reads the whole ledger.
func (h *house) records() (leaves []ledger.Hash) {
	h.t.Helper()
	e, err := node.OpenEvidence(h.t.Context(), node.EvidenceConfig{Dir: h.dir, Scratch: h.t.TempDir()})
	if err != nil {
		h.t.Fatal(err)
	}
	defer e.Close()
	head, err := e.Head(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := e.Read(h.t.Context(), 1, head, func(_ ledger.Seq, body []byte) error {
		leaves = append(leaves, ledger.Leaf(body))
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	return leaves
}

// A ledger moves from the embedded broker to a cluster: the same bytes at the
// same places, so that old receipts, proofs and pins hold, and an interrupted
// move goes on where it was.
func TestMigrationToACluster(t *testing.T) {
	t.Parallel()
	c := layOut(t, brokertest.Peers(t), "", nil)
	urls := c.urls
	c.port, c.urls = freePort(t), ""
	offline, keep := t.TempDir(), t.TempDir()
	c.must("init", "--offline-dir", offline)
	up := c.supervise("up", []string{assay, "--dir", string(c.dir), "up", "--port", strconv.Itoa(c.port)})
	c.awaitServed("assay")
	c.load = c.startLoad(1)
	for range 30 {
		c.flows()
	}
	c.load.end()
	old := c.load
	up.stop()
	pin, proof, backup := filepath.Join(keep, "pin"), filepath.Join(keep, "proof"), filepath.Join(keep, "backup")
	c.must("verify", "--pin", pin)
	c.must("prove", "7", "--out", proof)
	c.must("backup", backup)
	before := c.records()

	c.urls = urls
	if r := c.run("", append(c.initArgs(offline), "--nats", "x")...); r.code != 2 {
		t.Errorf("--peer with --nats: exit %d, %s", r.code, r.err)
	}
	c.must(c.initArgs(offline)...)
	c.startBrokers()
	// Neither a logger nor init takes the empty cluster for the ledger's.
	if r := c.run("", "init", "--offline-dir", offline); r.code != 1 || !strings.Contains(r.err, "opened elsewhere") {
		t.Errorf("init on the empty cluster: exit %d, %s", r.code, r.err)
	}
	if r := c.run("", "serve", "logger", "--standby"); r.code != 1 {
		t.Errorf("a logger on the empty cluster: exit %d, %s", r.code, r.err)
	}
	c.cutOff("restore", backup, "--offline-dir", offline, "--nats", c.url())
	if r := c.run("", "serve", "logger", "--standby"); r.code != 1 {
		t.Errorf("a logger on a cluster that is being filled: exit %d, %s", r.code, r.err)
	}
	c.must("restore", backup, "--offline-dir", offline, "--nats", c.url())
	if after := c.records(); !slices.Equal(after, before) {
		t.Fatalf("%d records became %d, or others", len(before), len(after))
	}
	c.must("restore", backup, "--offline-dir", offline) // once more, by the cluster's own addresses

	c.startServices(2)
	c.load.mu.Lock() // the receipts of before hold as well
	maps.Copy(c.load.acked, old.acked)
	maps.Copy(c.load.open, old.open)
	c.load.mu.Unlock()
	c.settle(func() {
		c.must("verify", "--pin", pin)
		c.must("check", proof, "--pin", pin)
		if after := c.records(); len(after) <= len(before) || !slices.Equal(after[:len(before)], before) {
			t.Errorf("the first %d records are others", len(before))
		}
	})
}

// cutOff starts a restore and kills it once it has begun to change something.
func (h *house) cutOff(args ...string) {
	h.t.Helper()
	cmd := exec.Command(assay, append([]string{"--dir", string(h.dir)}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.await("the restore to begin", func() bool { _, err := os.Stat(h.dir.Logger().Restoring()); return err == nil })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
