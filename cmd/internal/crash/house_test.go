package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/cmd/internal/node"
	"assay/internal/principal"
	"assay/ledger/broker"
)

// patience bounds every wait for a process; nothing is measured with it.
const patience = 90 * time.Second

// assay is the binary under test.
var assay string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "assay-crash-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		assay = filepath.Join(dir, "assay")
		build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", assay, "assay/cmd/assay")...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build assay: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// house is an initialised directory and the port of its broker, or the addresses
// of those of a cluster.
type house struct {
	t    testing.TB
	dir  node.Dir
	port int
	urls string
}

func newHouse(t testing.TB) *house { return newHouseIn(t, t.TempDir()) }

func newHouseIn(t testing.TB, dir string) *house {
	t.Helper()
	h := &house{t: t, dir: node.Dir(filepath.Join(dir, "house")), port: freePort(t)}
	h.must("init", "--offline-dir", t.TempDir())
	return h
}

// freePort is a port below those that the system hands out: while the broker
// is down, no connection, not even one to that very port, can take it.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (h *house) url() string {
	if h.urls != "" {
		return h.urls
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", h.port)
}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// run runs a command to its end.
func (h *house) run(stdin string, args ...string) result {
	h.t.Helper()
	return h.runWith(assay, nil, stdin, args...)
}

// runWith runs a command of another binary, as another user unless that is nil.
func (h *house) runWith(bin string, as *syscall.Credential, stdin string, args ...string) result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"--dir", string(h.dir)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		h.t.Fatalf("assay %v: %v, %v", args, err, ctx.Err())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to exit 0.
func (h *house) must(args ...string) string {
	h.t.Helper()
	r := h.run("", args...)
	if r.code != 0 {
		h.t.Fatalf("assay %v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

func mustDecode[T any](t testing.TB, raw string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// process is a service under a unit manager: it is started again whenever it
// ends before stop.
type process struct {
	h    *house
	name string
	as   *syscall.Credential // nil: the test's own user
	log  string
	done chan struct{}

	mu       sync.Mutex
	argv     []string  // of the next start
	cmd      *exec.Cmd // nil between two starts
	stopping bool
	starts   int
	last     error // of the last end
}

// restartPause is the unit manager's RestartSec.
const restartPause = 100 * time.Millisecond

// serve starts `assay serve NAME` under supervision.
func (h *house) serve(name string, args ...string) *process {
	h.t.Helper()
	return h.supervise(name, append([]string{assay, "--dir", string(h.dir), "serve", name}, args...))
}

func (h *house) supervise(name string, argv []string) *process {
	h.t.Helper()
	return h.superviseAs(name, argv, nil)
}

func (h *house) superviseAs(name string, argv []string, as *syscall.Credential) *process {
	h.t.Helper()
	p := &process{h: h, name: name, argv: argv, as: as, log: filepath.Join(h.t.TempDir(), name+".log"), done: make(chan struct{})}
	go p.loop()
	h.t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		<-p.done
		if raw, err := os.ReadFile(p.log); err == nil && bytes.Contains(raw, []byte("DATA RACE")) {
			h.t.Errorf("%s has a data race", p.name)
		}
		if h.t.Failed() {
			h.t.Logf("%s, started %d times, last end %v:\n%s", name, p.starts, p.last, p.tail())
		}
	})
	return p
}

func (p *process) loop() {
	// The kernel sends Pdeathsig when the thread that started the child ends.
	runtime.LockOSThread()
	defer close(p.done)
	for p.once() {
		time.Sleep(restartPause)
	}
}

// once runs the service to its end and says whether it shall start again.
func (p *process) once() bool {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.h.t.Error(err)
		return false
	}
	defer log.Close()
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		return false
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: p.as}
	if err := cmd.Start(); err != nil {
		p.mu.Unlock()
		p.h.t.Error(err)
		return false
	}
	p.cmd = cmd
	p.starts++
	p.mu.Unlock()
	err = cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.last = nil, err
	return !p.stopping
}

func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}

// kill is kill -9; the supervisor starts the service again. It reports whether
// the service was running.
func (p *process) kill() bool { return p.hit(syscall.SIGKILL) }

// hit is kill with any signal.
func (p *process) hit(sig syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && p.cmd.Process.Signal(sig) == nil
}

// pid of the running service, 0 between two starts.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// end signals the service and keeps it from being started again.
func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	}
}

// stop asks the service to end, which it has to do with exit 0.
func (p *process) stop() {
	p.h.t.Helper()
	p.end(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.h.t.Fatalf("%s did not end", p.name)
	}
	if p.last != nil {
		p.h.t.Errorf("%s ended with %v", p.name, p.last)
	}
}

// await polls until ok holds.
func (h *house) await(what string, ok func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// status asks the service on a socket of DIR/run; false while none answers.
func (h *house) status(socket string) (st node.Status, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return st, node.Ask(ctx, filepath.Join(h.dir.Run(), socket+".sock"), "GET", "/status", nil, &st) == nil
}

func (h *house) awaitServed(sockets ...string) {
	h.t.Helper()
	for _, s := range sockets {
		h.await(s+" to answer", func() bool { _, ok := h.status(s); return ok })
	}
}

// connect opens a connection of a principal that outlives the broker.
func (h *house) connect(user string, opts ...nats.Option) *nats.Conn {
	h.t.Helper()
	c, err := principal.LoadCredential(principal.CredentialPath(h.dir.Creds(), user))
	if err != nil {
		h.t.Fatal(err)
	}
	var nc *nats.Conn
	h.await("a connection as "+user, func() bool { // a broker may be on its way back
		nc, err = broker.Dial(h.url(), c, opts...)
		return err == nil
	})
	h.t.Cleanup(nc.Close)
	return nc
}

// envInt is a positive number from the environment.
func envInt(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%q is not a positive number", name, text)
	}
	return n
}
