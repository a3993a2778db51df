package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
)

// TestClientExamples runs the examples of docs/clients.md against a running
// gateway, those for which the machine has the tool.
func TestClientExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := filepath.Abs("../../deploy/clients")
	if err != nil {
		t.Fatal(err)
	}
	dir, up := gatewayLedger(t)
	for _, c := range []struct {
		tool, first string   // the program, and the first line of the example
		argv        []string // how it is run; "" is the example's file
		receipts    int
	}{
		{"curl", "# the gateway with curl", []string{"bash", "-e", ""}, 2},
		{"node", "// the gateway with node:http", []string{"node", ""}, 1},
		{"node", "// the gateway's loopback port with fetch", []string{"node", ""}, 2},
		{"node", "// NATS with @nats-io/transport-node", []string{"node", ""}, 1},
		{"python3", "# the gateway with assay.py", []string{"python3", ""}, 1},
	} {
		t.Run(c.first, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skipf("%s is not installed: this example is not tried", c.tool)
			}
			code := example(t, string(page), c.first)
			work := t.TempDir()
			if strings.Contains(code, "@nats-io/") {
				modules := os.Getenv("ASSAY_NODE_MODULES")
				if modules == "" {
					t.Skip("ASSAY_NODE_MODULES names no node_modules with @nats-io/transport-node: this example is not tried")
				}
				if err := os.Symlink(modules, filepath.Join(work, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			code = strings.Replace(code, "127.0.0.1:7070", up.Door.StatusOf().TCP, 1)
			script := filepath.Join(work, "example.mjs")
			if err := os.WriteFile(script, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			argv := append([]string{}, c.argv...)
			argv[len(argv)-1] = script
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = work
			cmd.Env = append(os.Environ(), "ASSAY_DIR="+string(dir), "PYTHONPATH="+clients, "PYTHONDONTWRITEBYTECODE=1")
			count := func() uint64 { return up.Door.StatusOf().Taken }
			if strings.Contains(code, "@nats-io/") { // past the gateway
				count = func() uint64 { return up.Logger.StatusOf().Size }
			}
			before := count()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if recorded := count() - before; recorded != uint64(c.receipts) {
				t.Errorf("%d records, want %d:\n%s", recorded, c.receipts, out)
			}
			if strings.Contains(string(out), "spooled") || c.tool == "curl" && !strings.Contains(string(out), `"ref":"sha256:`) {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestPythonClient runs the tests of deploy/clients/assay.py with a running gateway.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: the client is not tried")
	}
	dir, up := gatewayLedger(t)
	cmd := exec.Command(python, "-B", "-m", "unittest", "-v", "test_assay")
	cmd.Dir = "../../deploy/clients"
	cmd.Env = append(os.Environ(), "ASSAY_DIR="+string(dir), "ASSAY_URL=http://"+up.Door.StatusOf().TCP, "ASSAY_TOKEN_FILE="+tokenOf(dir))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "skipped") {
		t.Errorf("%v\n%s", err, out)
	}
}

// gatewayLedger runs a ledger whose gateway takes us as agent/piper, on its socket by
// our uid and on a loopback port by a token.
func gatewayLedger(t *testing.T) (node.Dir, *node.Up) {
	t.Helper()
	dir := node.Dir(filepath.Join(t.TempDir(), "ledger"))
	if _, err := node.Init(t.Context(), node.InitConfig{Dir: dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tokenOf(dir), []byte(strings.Repeat("0123456789", 4)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := `{"v":1,"tcp":"127.0.0.1:0","callers":[{"uid":` + strconv.Itoa(os.Getuid()) + `,"principal":"agent/piper"},{"token_file":"creds/agent.piper.token","principal":"agent/piper"}]}`
	if err := os.WriteFile(dir.GatewayFile(), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	up, err := node.StartUp(t.Context(), node.UpConfig{Dir: dir, Software: "test", Gateway: true, LowWater: 1, Seal: time.Hour, Sensor: time.Hour, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Stop(); err != nil {
			t.Error(err)
		}
	})
	return dir, up
}

func tokenOf(dir node.Dir) string { return filepath.Join(dir.Creds(), "agent.piper.token") }

// example is the fenced block of the page that starts with a line.
func example(t *testing.T, page, first string) string {
	t.Helper()
	at := strings.Index(page, "\n"+first+"\n")
	if at < 0 || strings.Count(page, "\n"+first+"\n") != 1 {
		t.Fatalf("the page has no example %q", first)
	}
	code, _, ok := strings.Cut(page[at+1:], "\n```")
	if !ok {
		t.Fatalf("the example %q has no end", first)
	}
	return code + "\n"
}
