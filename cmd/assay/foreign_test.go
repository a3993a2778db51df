package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/internal/principal"
)

// command runs assay in this process.
type command struct {
	t   *testing.T
	dir string
}

func (c command) run(stdin string, args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	code = run(c.t.Context(), append([]string{"--dir", c.dir}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func (c command) must(want int, stdin string, args ...string) string {
	c.t.Helper()
	code, out, errs := c.run(stdin, args...)
	if code != want {
		c.t.Fatalf("assay %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	return out + errs
}

func TestForeignMessageIsAcknowledged(t *testing.T) {
	c := command{t, filepath.Join(t.TempDir(), "ledger")}
	c.must(0, "", "init", "--offline-dir", t.TempDir())
	up, err := node.StartUp(context.Background(), node.UpConfig{Dir: node.Dir(c.dir), Software: "test", Log: zerolog.Nop(), Seal: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := up.Stop(); err != nil {
			t.Error(err)
		}
	}()
	gate := `{"type":"gate.chosen","data":{"context":{},"action":"KNOW"}}`
	c.must(0, gate, "emit")

	// Somebody with the store's credential writes past the logger.
	nc, err := up.Hub.Connect(principal.LoggerStore)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.RequestMsg(&nats.Msg{Subject: "ledger.gate.chosen", Data: []byte("not\na record")}, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if out := c.must(1, gate, "emit", "--timeout", "3s"); !strings.Contains(out, "unavailable") {
		t.Errorf("emit beside a foreign message: %s", out)
	}
	if out := c.must(0, "", "status"); !strings.Contains(out, "foreign_record message 4") {
		t.Errorf("status: %s", out)
	}
	if out := c.must(1, "", "verify"); !strings.Contains(out, "first bad   4") {
		t.Errorf("verify before: %s", out)
	}
	c.must(2, "", "foreign", "ack", "4", "--as", "agent/piper")
	c.must(1, "", "foreign", "ack", "99")
	if out := c.must(0, "", "foreign", "ack", "4"); !strings.Contains(out, "acknowledged message 4") {
		t.Errorf("ack: %s", out)
	}
	c.must(0, gate, "emit")
	if out := c.must(0, "", "verify"); !strings.Contains(out, "consistent") || !strings.Contains(out, "acknowledged: true") {
		t.Errorf("verify after: %s", out)
	}
	if out := c.must(0, "", "tail", "--from", "4", "--to", "4"); !strings.Contains(out, "FOREIGN") {
		t.Errorf("tail: %s", out)
	}
	if out := c.must(1, "", "tail", "--raw", "--from", "1"); !strings.Contains(out, "message 4 holds a line break") {
		t.Errorf("export: %s", out)
	}
	deadline := time.Now().Add(20 * time.Second)
	for code, out, _ := c.run("", "replay"); code != 0; code, out, _ = c.run("", "replay") {
		if time.Now().After(deadline) {
			t.Fatalf("replay: %s", out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
