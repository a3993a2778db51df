package broker

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
)

// The rendered file serves an external nats-server as well.
func TestExternalServer(t *testing.T) {
	dir, offline := initDir(t)
	must1(WriteConfig(dir))
	bin := filepath.Join(t.TempDir(), "nats-server")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if out, err := exec.Command(bin, "-t", "-c", Dir(dir).Config()).CombinedOutput(); err != nil {
		t.Fatalf("nats-server -t: %v\n%s", err, out)
	}
	ports := t.TempDir()
	cmd := exec.Command(bin, "-c", Dir(dir).Config(), "-p", "-1", "-m", "-1", "--ports_file_dir", ports)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	url, monitor := externalAddresses(t, ports)
	ext := func(path string) *nats.Conn {
		nc, err := Dial(url, must1(principal.LoadCredential(path)))
		must(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	store, telemetry := ext(principal.CredentialPath(offline, principal.BootstrapStore)), ext(principal.CredentialPath(offline, principal.BootstrapTelemetry))
	must(t, CreateStreams(t.Context(), store, telemetry, 1))
	must1(mustJS(t, ext(principal.Dir(dir).Credential(principal.LoggerStore))).Publish(t.Context(), "ledger.x", []byte("1")))
	js := must1(ReadAPI(ext(principal.Dir(dir).Credential(principal.ReadResolver))))
	if n := readAll(t, js, 1, 1); n != 1 {
		t.Errorf("read %d", n)
	}
	testExternalReload(t, dir, url, cmd.Process)
	for _, c := range []struct {
		monitor string
		want    SyncMode
	}{{"", SyncUnknown}, {monitor, SyncAlways}} {
		if got, err := ExternalSyncMode(t.Context(), c.monitor); err != nil || got != c.want {
			t.Errorf("sync mode by %q: %s, %v; want %s", c.monitor, got, err, c.want)
		}
	}
}

// A new principal works after two SIGHUPs, without a restart.
func testExternalReload(t *testing.T, dir, url string, p *os.Process) {
	t.Helper()
	names := principal.Dir(dir)
	intake, err := Dial(url, must1(principal.LoadCredential(names.Credential(principal.LoggerIntake))))
	must(t, err)
	defer intake.Close()
	must1(intake.Subscribe("intake.>", func(m *nats.Msg) { m.Respond([]byte("ack")) }))
	must(t, intake.Flush())
	must1(names.Add(principal.New(principal.Agent, "late", "production")))
	must1(WriteConfig(dir))
	c := must1(principal.LoadCredential(names.Credential("agent.late")))
	for deadline := time.Now().Add(30 * time.Second); ; {
		must(t, p.Signal(syscall.SIGHUP)) // the second is the one that counts, and more do no harm
		nc, err := Dial(url, c)
		if err == nil {
			_, err = nc.Request("intake.agent.late", nil, time.Second)
			nc.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("new principal after reloads: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// externalAddresses reads the file in which nats-server says what it chose.
func externalAddresses(t *testing.T, dir string) (url, monitor string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(dir, "*.ports"))
		if len(files) == 0 {
			continue
		}
		data, _ := os.ReadFile(files[0])
		for _, word := range strings.FieldsFunc(string(data), func(r rune) bool { return strings.ContainsRune("\"[]{}, \n\t", r) }) {
			if strings.HasPrefix(word, "nats://") {
				url = word
			}
			if strings.HasPrefix(word, "http://") {
				monitor = word
			}
		}
		if url != "" && monitor != "" {
			return url, monitor
		}
	}
	t.Fatal("nats-server did not say its ports")
	return "", ""
}
