package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
)

// host is a machine on which every service runs as its own Unix user, made as
// deploy/README.md says.
type host struct {
	*house
	t      *testing.T
	prefix string // of the users' names, in place of "assay"
	bin    string
	procs  map[string]*process // by name
	ids    map[string]*syscall.Credential
	// sockets are those of the status, seen from DIR/run, and whose each is.
	sockets map[string]string
}

// services in the order in which they start.
var services = []string{"broker", "logger", "projector", "resolver", "ingress", "sensor", "gateway"}

// people are those who are no service: the agent, and an operator.
var people = []string{"piper", "alice"}

// hosts counts them: they are made side by side, with users of their own.
var hosts atomic.Int32

func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can make users and run services as them")
	}
	for _, tool := range []string{"useradd", "groupadd", "usermod", "userdel", "groupdel"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: there is no %s here (Debian package passwd)", tool)
		}
	}
	// Not t.TempDir, which no other user may pass.
	dir, err := os.MkdirTemp("", "assay-host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h := &host{t: t, prefix: fmt.Sprintf("at%d-%d", os.Getpid(), hosts.Add(1)), procs: map[string]*process{}, ids: map[string]*syscall.Credential{}, sockets: map[string]string{}}
	h.bin = filepath.Join(dir, "assay")
	h.check(os.Chmod(dir, 0o711))
	h.sh("cp", assay, h.bin)
	h.check(os.Chmod(h.bin, 0o755))
	h.makeUsers()
	h.house = &house{t: t, dir: node.Dir(filepath.Join(dir, "house"))}
	return h
}

func (h *host) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) sh(name string, args ...string) {
	h.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		h.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// makeUsers makes those of deploy/sysusers.d under names of the test's own.
func (h *host) makeUsers() {
	h.t.Helper()
	f, err := os.Open("../../../deploy/sysusers.d/assay.conf")
	h.check(err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		name := h.name(fields[1])
		switch fields[0] {
		case "g":
			h.group(name)
		case "u":
			h.user(name)
		case "m":
			h.sh("usermod", "-aG", h.name(fields[2]), name)
		default:
			h.t.Fatalf("sysusers line %q", lines.Text())
		}
	}
	for _, p := range people {
		h.user(h.prefix + "-" + p)
	}
	h.sh("usermod", "-aG", h.prefix+"-agents", h.prefix+"-piper")
	h.sh("usermod", "-aG", h.prefix+","+h.prefix+"-operators", h.prefix+"-alice")
	for _, part := range slices.Concat(services, people) {
		h.ids[part] = h.identity(h.prefix + "-" + part)
	}
}

func (h *host) name(shipped string) string { return h.prefix + strings.TrimPrefix(shipped, "assay") }

func (h *host) group(name string) {
	h.t.Helper()
	h.sh("groupadd", "--system", name)
	h.t.Cleanup(func() { _ = exec.Command("groupdel", name).Run() }) // the user's own goes with it
}

func (h *host) user(name string) {
	h.t.Helper()
	h.sh("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name)
	h.t.Cleanup(func() {
		if out, err := exec.Command("userdel", name).CombinedOutput(); err != nil {
			h.t.Errorf("userdel %s: %v\n%s", name, err, out)
		}
	})
}

func (h *host) identity(name string) *syscall.Credential {
	h.t.Helper()
	u, err := user.Lookup(name)
	h.check(err)
	groups, err := u.GroupIds()
	h.check(err)
	number := func(text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 32)
		h.check(err)
		return uint32(n)
	}
	c := &syscall.Credential{Uid: number(u.Uid), Gid: number(u.Gid)}
	for _, g := range groups {
		c.Groups = append(c.Groups, number(g))
	}
	return c
}

// as runs fn on a thread that has a user's identity and nothing of root's. The
// thread ends with it.
func (h *host) as(who string, fn func()) {
	h.t.Helper()
	c := h.ids[who]
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: nobody else may get this thread
		groups := append([]uint32{}, c.Groups...)
		err := raw(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
		if err == nil {
			err = raw(syscall.SYS_SETRESGID, uintptr(c.Gid), uintptr(c.Gid), uintptr(c.Gid))
		}
		if err == nil {
			err = raw(syscall.SYS_SETRESUID, uintptr(c.Uid), uintptr(c.Uid), uintptr(c.Uid))
		}
		if err == nil {
			fn()
		}
		done <- err
	}()
	h.check(<-done)
}

func raw(number, a, b, c uintptr) error {
	// One thread's identity, where the syscall package would change all.
	if _, _, errno := syscall.RawSyscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// serveAs starts a service under its own user and waits until it answers on a
// socket, seen from DIR/run.
func (h *host) serveAs(service, socket string, args ...string) {
	h.t.Helper()
	argv := append([]string{h.bin, "--dir", string(h.dir), "serve", service}, args...)
	h.procs[socket] = h.house.superviseAs(filepath.Base(socket), argv, h.ids[service])
	h.sockets[socket] = service
	h.awaitServed(socket)
}

// runAs runs a command as a user.
func (h *host) runAs(who, stdin string, args ...string) result {
	h.t.Helper()
	return h.house.runWith(h.bin, h.ids[who], stdin, args...)
}

// serveRest starts every service but broker and logger.
func (h *host) serveRest() {
	h.t.Helper()
	for service, socket := range map[string]string{"projector": "assay", "resolver": "resolver", "ingress": "ingress", "sensor": "sensor", "gateway": "gateway-status"} {
		h.serveAs(service, socket)
	}
}

// split gives each file to its user, and checks that it did.
func (h *host) split(args ...string) {
	h.t.Helper()
	h.must(append([]string{"permissions", "--prefix", h.prefix}, args...)...)
	h.run("", append([]string{"permissions", "--prefix", h.prefix, "--check"}, args...)...).says(h.t, "permissions --check", 0, "")
}

func (h *host) letInPiper() {
	h.t.Helper()
	callers := fmt.Sprintf(`{"v":1,"callers":[{"user":%q,"principal":"agent/piper"}]}`, h.prefix+"-piper")
	h.check(os.WriteFile(h.dir.GatewayFile(), []byte(callers), 0o600))
}

// Every service runs as its own user on a directory that `assay permissions`
// split, and nobody reaches what is another's: the kernel is asked, file by
// file, as each user.
func TestUsersAreKeptApart(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.port = freePort(t)
	h.must("init", "--offline-dir", t.TempDir())
	h.letInPiper()
	h.split()
	h.serveAs("broker", "broker", "--port", strconv.Itoa(h.port))
	h.serveAs("logger", "logger")
	h.serveRest()
	h.testApart("logger")
	h.stop()
	h.run("", "verify").says(t, "verify by root at the end", 0, "consistent")
}

// The same on a directory whose brokers are those of a cluster, with a logger that
// stands by: it has no other socket than the one that root linked for it.
func TestUsersOfAClusterAreKeptApart(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := &cluster{house: h.house, peers: brokertest.Peers(t)}
	h.urls = (&broker.Cluster{Peers: c.peers}).URLs()
	offline := t.TempDir()
	h.must(c.initArgs(offline)...)
	h.letInPiper()
	h.split("--instance", "b")
	for _, p := range c.peers {
		h.serveAs("broker", nodeSocket(p.Name), "--node", p.Name)
	}
	h.must("init", "--offline-dir", offline)
	h.split("--instance", "b")
	h.serveAs("logger", "logger", "--standby")
	h.await("the first logger to write", func() bool { return h.role("logger") == logger.RoleActive })
	h.serveAs("logger", "logger-b", "--standby", "--instance", "b")
	h.serveRest()
	h.testApart("logger")
	h.check(os.Chmod(broker.Dir(h.dir).Node("n1").Cluster(), 0o644))
	h.run("", "doctor").says(t, "doctor on a secret that all can read", 1, "nodes/n1/cluster.json has mode 0644")
	h.split()
	h.testBrokerHost(t)
	h.procs["logger"].stop()
	h.await("the other logger to write", func() bool { return h.role("logger-b") == logger.RoleActive })
	delete(h.procs, "logger")
	h.run(string(mustTemplate(t, "gate.chosen").next().raw), "emit").says(t, "emit after the takeover", 0, "")
	h.run("", "verify").says(t, "verify by root at the end", 0, "consistent")
	h.stop()
}

// testBrokerHost splits the directory of a host that has a broker of the cluster and
// nothing else.
func (h *host) testBrokerHost(t *testing.T) {
	far := *h
	far.house = &house{t: t, dir: node.Dir(filepath.Join(filepath.Dir(h.bin), "far"))}
	to := broker.Dir(far.dir).Node("n1")
	h.check(os.MkdirAll(filepath.Dir(string(to)), 0o700))
	h.sh("cp", "-r", string(broker.Dir(h.dir).Node("n1")), string(to))
	far.split()
	far.as("broker", func() {
		if err := canRead(to.Cluster()); err != nil {
			t.Errorf("the broker: %v", err)
		}
		if err := canWrite(to.Store(), true); err != nil {
			t.Errorf("the broker: %v", err)
		}
	})
	far.as("logger", func() {
		if canRead(to.Cluster()) == nil || canRead(to.Config()) == nil {
			t.Error("the logger reads the brokers' secret")
		}
	})
	if _, err := os.Lstat(far.dir.Run()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a host without services has %s: %v", far.dir.Run(), err)
	}
}

// testApart tries everything with everyone, on a host where all runs. writes is
// the socket of the logger that does.
func (h *host) testApart(writes string) {
	t := h.t
	t.Helper()
	// The agent publishes with a copy of her credential, and nothing else.
	home := filepath.Join(filepath.Dir(h.bin), "piper")
	h.check(os.Mkdir(home, 0o700))
	seed := filepath.Join(home, "agent.piper.nk")
	h.sh("cp", filepath.Join(h.dir.Creds(), "agent.piper.nk"), seed)
	h.sh("chown", "-R", h.prefix+"-piper:", home)
	event := mustTemplate(t, "gate.chosen")
	emit := []string{"emit", "--as", "agent/piper", "--nats", h.url(), "--nkey", seed}
	h.runAs("piper", string(event.next().raw), emit...).says(t, "emit as piper", 0, "")
	h.awaitViews(writes)

	t.Run("hooks", h.testHooks)
	t.Run("operator", h.testOperator)
	t.Run("files", h.testFiles)
	t.Run("sockets", h.testSockets)
	t.Run("processes", h.testProcesses)
	t.Run("gateway", h.testGateway)
	t.Run("new principal", h.testNewPrincipal)

	if r := h.run("", "doctor"); strings.Contains(r.out, "fail ") {
		t.Errorf("doctor: exit %d\n%s%s", r.code, r.out, r.err)
	}
	h.runAs("piper", string(event.next().raw), emit...).says(t, "emit after it all", 0, "")
	for name, p := range h.procs {
		if p.starts != 1 {
			t.Errorf("%s was started %d times:\n%s", name, p.starts, p.tail())
		}
	}
}

// stop ends the brokers last. What the services wrote meanwhile is theirs.
func (h *host) stop() {
	h.t.Helper()
	for _, brokers := range []bool{false, true} {
		for socket, p := range h.procs {
			if (h.sockets[socket] == "broker") == brokers {
				p.stop()
			}
		}
	}
	h.run("", "permissions", "--prefix", h.prefix, "--check").says(h.t, "permissions --check at the end", 0, "")
}

func (h *host) testOperator(t *testing.T) {
	r := h.runAs("alice", "", "verify", "--json")
	if report := mustDecode[ledger.Report](t, r.out); r.code != 0 || report.CheckpointSize == nil {
		t.Errorf("verify: exit %d, %s%s", r.code, r.out, r.err)
	}
	for _, s := range []string{"broker", "logger", "projector", "resolver", "ingress"} {
		h.runAs("alice", "", "status").says(t, "status", 0, s+" ")
	}
	h.runAs("alice", "", "tail").says(t, "tail", 0, "gate.chosen")
	h.runAs("alice", "", "score").says(t, "score", 0, "")
	h.runAs("alice", "", "list", "claims").says(t, "list", 0, "")
	h.runAs("alice", "", "principal", "list").says(t, "principal list", 0, "agent/piper")
	for _, args := range [][]string{{"verify"}, {"tail"}, {"status"}, {"score"}, {"principal", "list"}} {
		if r := h.runAs("piper", "", args...); r.code == 0 {
			t.Errorf("piper: %v: exit 0\n%s", args, r.out)
		}
	}
}

// owns says whose an entry of the directory is, "" for root's.
func owns(rel string) string {
	first, rest, _ := strings.Cut(rel, "/")
	switch first {
	case "broker", "logger", "resolver", "gateway":
		return first
	case "views", "snapshots":
		return "projector"
	case "blobs":
		return "resolver"
	case "telemetry":
		return "sensor"
	case "hooks":
		if rest != "" {
			return "piper"
		}
	case "run":
		service, _, _ := strings.Cut(rest, "/")
		return strings.TrimSuffix(service, "-status")
	case "nodes":
		if strings.Count(rest, "/") > 0 {
			return "broker"
		}
	case "creds":
		switch user := strings.TrimSuffix(rest, ".nk"); {
		case strings.HasPrefix(user, "service.logger-"):
			return "logger"
		case user == "service.read-projector":
			return "projector"
		case user == "service.sealer", user == "service.read-resolver", strings.HasPrefix(user, "resolver."):
			return "resolver"
		case user == "service.ingress":
			return "ingress"
		case strings.HasPrefix(user, "sensor."):
			return "sensor"
		case strings.HasPrefix(user, "service."), strings.HasPrefix(user, "operator."):
			return ""
		case rest != "":
			return "gateway"
		}
	}
	return ""
}

// mayRead says who else reads an entry: a file, or a directory's names.
func mayRead(who, rel string) bool {
	parts := strings.Split(rel, "/")
	ofNode := parts[0] == "nodes" && (len(parts) < 3 || parts[2] == "run" && (len(parts) == 3 || parts[3] == "nats.url"))
	switch {
	case rel == "run/broker/nats.url":
		return true
	case who == "piper":
		return false
	case rel == ".", rel == "cluster.json", ofNode, rel == "principals.json", rel == "registry.json", rel == "logger/key.pub", rel == "run", rel == "hooks",
		rel == "logger/checkpoint", strings.HasPrefix(rel, "logger/checkpoint/"):
		return true // of all services and operators
	case who == "gateway" && (rel == "gateway.json" || delivers(who, rel)):
		return true
	case who == "alice":
		return rel == "creds/service.read-operator.nk" || rel == "creds/operator.main.nk"
	}
	return false
}

// delivers says whether a user takes events out of a directory that is another's.
func delivers(who, rel string) bool { return who == "gateway" && rel == "hooks/agent.piper" }

// testFiles tries to read and to write every file, and to list and to add to
// every directory, as everyone.
func (h *host) testFiles(t *testing.T) {
	type entry struct {
		rel string
		dir bool
	}
	var all []entry
	h.check(filepath.WalkDir(string(h.dir), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running service removed it
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(string(h.dir), path)
		if err == nil && (e.IsDir() || e.Type().IsRegular()) {
			all = append(all, entry{rel, e.IsDir()})
		}
		return err
	}))
	if len(all) < 60 {
		t.Fatalf("only %d entries", len(all))
	}
	for _, who := range slices.Concat(people, services) {
		t.Run(who, func(t *testing.T) {
			h.as(who, func() {
				for _, e := range all {
					own := owns(e.rel) == who
					path := filepath.Join(string(h.dir), e.rel)
					if err := canRead(path); err == nil && !own && !mayRead(who, e.rel) {
						t.Errorf("reads %s", e.rel)
					} else if err != nil && !errors.Is(err, fs.ErrNotExist) && (own || mayRead(who, e.rel)) {
						t.Errorf("cannot read %s: %v", e.rel, err)
					}
					if err := canWrite(path, e.dir); err == nil && !own && !delivers(who, e.rel) {
						t.Errorf("writes %s", e.rel)
					}
					if !own && os.Chmod(path, 0o666) == nil {
						t.Errorf("changes the mode of %s", e.rel)
					}
				}
			})
		})
	}
}

func canRead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		_, err = f.Readdirnames(1)
	case err == nil:
		_, err = f.Read(make([]byte, 1))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// canWrite opens a file for writing, which changes nothing, or makes an entry in a
// directory.
func canWrite(path string, dir bool) error {
	if !dir {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	f, err := os.CreateTemp(path, ".probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// testSockets asks who may connect to which service.
func (h *host) testSockets(t *testing.T) {
	for _, who := range slices.Concat(people, services) {
		h.as(who, func() {
			for name, service := range h.sockets {
				want := who == service || who == "alice" || service == "broker" && who != "piper"
				c, err := net.Dial("unix", filepath.Join(h.dir.Run(), name+".sock"))
				if err == nil {
					c.Close()
				}
				if (err == nil) != want {
					t.Errorf("%s connects to %s: %v, want %v", who, name+".sock", err, want)
				}
			}
			c, err := net.Dial("unix", h.dir.GatewaySocket())
			if err == nil {
				c.Close()
			}
			if want := who == "piper" || who == "gateway"; (err == nil) != want {
				t.Errorf("%s connects to the gateway's door: %v, want %v", who, err, want)
			}
			// Nobody can stand in for the broker while it is away: its port is
			// root's to give.
			if ln, err := net.Listen("tcp", "127.0.0.1:422"); err == nil {
				ln.Close()
				if lowestPort(t) > 422 {
					t.Errorf("%s listens on the broker's port", who)
				}
			}
		})
	}
}

func lowestPort(t *testing.T) int {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		t.Log(err)
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Log(err)
	}
	return n
}

// testProcesses tries to signal and to look into every service.
func (h *host) testProcesses(t *testing.T) {
	for _, who := range slices.Concat(people, services) {
		h.as(who, func() {
			for service, p := range h.procs {
				if h.ids[who] == p.as {
					continue
				}
				if err := syscall.Kill(p.pid(), 0); !errors.Is(err, syscall.EPERM) {
					t.Errorf("%s signals %s: %v", who, service, err)
				}
				for _, name := range []string{"environ", "mem", "maps", "fd"} {
					if canRead(fmt.Sprintf("/proc/%d/%s", p.pid(), name)) == nil {
						t.Errorf("%s reads %s of %s", who, name, service)
					}
				}
			}
		})
	}
}

// testGateway publishes through the gateway as the agent's user, whom the
// kernel names to it.
func (h *host) testGateway(t *testing.T) {
	body := string(mustTemplate(t, "gate.chosen").next().raw)
	h.as("piper", func() {
		c, err := net.Dial("unix", h.dir.GatewaySocket())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/cloudevents+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.Contains(string(answer), `"seq":`) {
			t.Errorf("%v: %s", err, answer)
		}
		// The blob store is the resolver's alone.
		blobs, err := net.Dial("unix", h.dir.GatewaySocket())
		if err != nil {
			t.Error(err)
			return
		}
		defer blobs.Close()
		fmt.Fprintf(blobs, "PUT /v1/blobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsaid")
		answer, err = io.ReadAll(blobs)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 501 ") || !strings.Contains(string(answer), `"no_blob_store"`) {
			t.Errorf("%v: %s", err, answer)
		}
	})
}

// testHooks leaves events as the agent's user and as others. What is not hers counts
// for nothing, and keeps nothing of hers waiting.
func (h *host) testHooks(t *testing.T) {
	payload := func(point string, call int) string {
		return fmt.Sprintf(`{"session_id":"s","hook_event_name":%q,"tool_name":"Bash","tool_input":{},"tool_use_id":"toolu_%d"}`, point, call)
	}
	run := func(who string, call int) (said string) {
		for _, point := range []string{"PreToolUse", "PostToolUse"} {
			r := h.runAs(who, payload(point, call), "hook", "claude-code", "--as", "agent/piper")
			if said += r.err; r.code != 0 || r.out != "" {
				t.Errorf("a hook of %s: exit %d, %q", who, r.code, r.out)
			}
		}
		return said
	}
	delivered := func(n, refused int) {
		t.Helper()
		h.await("the gateway to deliver what hooks left", func() bool {
			return strings.Contains(h.runAs("alice", "", "status").out, fmt.Sprintf("of agent/piper: %d delivered, 0 waiting, %d refused", n, refused))
		})
	}
	if said := run("piper", 1); said != "" {
		t.Errorf("piper: %s", said)
	}
	delivered(1, 0)
	for _, who := range []string{"alice", "sensor"} {
		if said := run(who, 2); !strings.Contains(said, "permission denied") {
			t.Errorf("%s: %s", who, said)
		}
	}
	// One who may write there, the gateway itself, is not piper.
	to := filepath.Join(h.dir.Hooks(), "agent.piper")
	h.as("gateway", func() {
		if err := os.WriteFile(filepath.Join(to, "0.event"), mustTemplate(t, "gate.chosen").next().raw, 0o640); err != nil {
			t.Error(err)
		}
	})
	if said := run("piper", 3); said != "" {
		t.Errorf("piper: %s", said)
	}
	delivered(2, 1)
	h.check(os.Remove(filepath.Join(to, "0.refused")))
	// What she records over MCP takes the same way: the credential is the gateway's.
	h.as("piper", func() {
		r := node.NewRecorder(h.dir, "agent/piper")
		defer r.Close()
		if a, err := r.Publish(t.Context(), mustTemplate(t, "gate.chosen").next().raw); err != nil || !a.Spooled {
			t.Errorf("%+v, %v", a, err)
		}
	})
	delivered(3, 0)
	h.await("the calls in the views", func() bool {
		out := h.runAs("alice", "", "--json", "list", "tool_calls").out
		return strings.Contains(out, "toolu_1") && strings.Contains(out, "toolu_3") && !strings.Contains(out, "toolu_2")
	})
}

// testNewPrincipal adds one as root while everything runs.
func (h *host) testNewPrincipal(t *testing.T) {
	r := h.run("", "principal", "add", "agent/second", "--json")
	r.says(t, "principal add", 0, `"live":true`)
	r = h.run("", "permissions", "--prefix", h.prefix, "--check")
	r.says(t, "its credential is still root's", 1, "creds/agent.second.nk")
	if n := strings.Count(r.out, "\n"); n != 1 {
		t.Errorf("%d entries are not as they should be:\n%s", n, r.out)
	}
	h.must("permissions", "--prefix", h.prefix)
	event := string(mustTemplate(t, "gate.chosen").next().raw)
	h.run(event, "emit", "--as", "agent/second").says(t, "emit as the new one", 0, "")
}
