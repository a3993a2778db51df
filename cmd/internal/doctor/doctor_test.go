package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
)

// house is an initialised directory.
type house struct {
	t       *testing.T
	dir     node.Dir
	offline string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t, node.Dir(filepath.Join(t.TempDir(), "ledger")), t.TempDir()}
	if _, err := node.Init(t.Context(), node.InitConfig{Dir: h.dir, OfflineDir: h.offline, Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// config is one in which this machine is in order.
func (h *house) config() Config {
	return Config{Dir: h.dir, LowWater: 1, Software: "test", Synchronised: func() (bool, error) { return true, nil }}
}

func (h *house) examine(c Config) Report {
	h.t.Helper()
	r, err := Examine(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *house) up() *node.Up {
	h.t.Helper()
	up, err := node.StartUp(h.t.Context(), node.UpConfig{Dir: h.dir, Software: "test", Seal: time.Hour, Sensor: time.Hour, Gateway: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { up.Stop() })
	for range 3000 {
		if st := up.Status(); st.Logger.CheckpointSize == st.Logger.Size && st.Projector.Lag == 0 && uint64(st.Resolver.Applied) == st.Logger.Size {
			return up
		}
		time.Sleep(20 * time.Millisecond)
	}
	h.t.Fatal("never at rest")
	return nil
}

func (h *house) path(names ...string) string {
	return filepath.Join(append([]string{string(h.dir)}, names...)...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want is a finding that must be there.
type want struct {
	check  string
	result Result
	seen   string // part of it
}

func (r Report) has(w want) bool {
	for _, f := range r.Findings {
		if f.Check == w.check && f.Result == w.result && strings.Contains(f.Seen, w.seen) {
			return true
		}
	}
	return false
}

func (r Report) text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-7s %s: %s\n", f.Result, f.Check, f.Seen)
	}
	return b.String()
}

// worse lists the findings of a result, but for the boundary, which a test's
// directory does not have.
func (r Report) worse(result Result) (out []string) {
	for _, f := range r.Findings {
		if f.Result == result && f.Check != "boundary" {
			out = append(out, f.Check+": "+f.Seen)
		}
	}
	return out
}

// TestBrokenAtRest: nothing runs, and one thing is wrong.
func TestBrokenAtRest(t *testing.T) {
	h := newHouse(t)
	whole := h.examine(h.config())
	if bad := append(whole.worse(Fail), whole.worse(Warn)...); len(bad) > 0 || whole.Asked {
		t.Fatalf("a healthy house: %q, asked %t", bad, whole.Asked)
	}
	for _, check := range []string{"services", "broker", "fsync", "stream settings", "stream", "logger", "clock", "schemas"} {
		if !whole.has(want{check, Unknown, ""}) {
			t.Errorf("%s is not unknown while nothing runs", check)
		}
	}
	pin := filepath.Join(t.TempDir(), "pin.json")
	h.remember(pin)
	chmod := func(mode os.FileMode, names ...string) func(*testing.T) {
		return func(t *testing.T) {
			path := h.path(names...)
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.Chmod(path, mode))
			t.Cleanup(func() { must(t, os.Chmod(path, info.Mode().Perm())) })
		}
	}
	edit := func(change func(string) string, names ...string) func(*testing.T) {
		return func(t *testing.T) {
			path := h.path(names...)
			old, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(change(string(old))), 0o600))
			t.Cleanup(func() { must(t, os.WriteFile(path, old, 0o600)) })
		}
	}
	put := func(content string, names ...string) func(*testing.T) {
		return func(t *testing.T) {
			path := h.path(names...)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, []byte(content), 0o600))
			t.Cleanup(func() { os.Remove(path) })
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T)
		config func(*Config)
		want   want
	}{
		{name: "world-readable credential", damage: chmod(0o644, "creds", "agent.piper.nk"), want: want{"secrets", Fail, "agent.piper.nk has mode 0644"}},
		{name: "world-readable key", damage: chmod(0o604, "logger", "key"), want: want{"secrets", Fail, "logger/key has mode 0604"}},
		{name: "group-readable key", damage: chmod(0o640, "logger", "key"), want: want{"secrets", Warn, "logger/key has mode 0640"}},
		{name: "views open to all", damage: chmod(0o755, "views"), want: want{"directories", Fail, "views has mode 0755"}},
		{name: "root's file in a service's directory", damage: h.give("logger", "key.pub"), want: want{"directories", Warn, "in it key.pub to others"}},
		{name: "offline seed left behind", damage: put("SU", "creds", "bootstrap.store.nk"), want: want{"offline seeds", Fail, "bootstrap.store.nk"}},
		{name: "recovery seed left behind", damage: put("SO", "logger", "recovery.nk"), want: want{"offline seeds", Fail, "recovery.nk"}},
		{
			name:   "sync_interval changed",
			damage: edit(func(s string) string { return strings.Replace(s, "always", `"2m"`, 1) }, "broker", "nats.conf"),
			want:   want{"broker configuration", Fail, "does not say sync_interval: always"},
		},
		{
			name:   "configuration edited",
			damage: edit(func(s string) string { return strings.Replace(s, "max_payload: 2097152", "max_payload: 4194304", 1) }, "broker", "nats.conf"),
			want:   want{"broker configuration", Warn, "is not what"},
		},
		{name: "credential missing", damage: h.hide("creds", "sensor.host.nk"), want: want{"permissions of sensor.host", Warn, "no credential"}},
		{name: "checkpoint missing", damage: h.hide("logger", "checkpoint", "latest"), want: want{"checkpoint", Fail, "no such file"}},
		{
			name:   "checkpoint damaged",
			damage: edit(func(s string) string { return strings.Replace(s, "\n2\n", "\n1\n", 1) }, "logger", "checkpoint", "latest"),
			want:   want{"checkpoint", Fail, "latest"},
		},
		{name: "checkpoints rolled back", damage: h.rollBack, config: func(c *Config) { c.Pin = pin }, want: want{"pin", Fail, "was rolled back"}},
		{name: "no pin yet", config: func(c *Config) { c.Pin = pin + "x" }, want: want{"pin", Unknown, "no pin"}},
		{name: "pin", config: func(c *Config) { c.Pin = pin }, want: want{"pin", OK, "remembered"}},
		{name: "low disk", config: func(c *Config) { c.LowWater = 1 << 60 }, want: want{"disk", Fail, "MiB free on the disk"}},
		{name: "no NTP", config: func(c *Config) { c.Synchronised = func() (bool, error) { return false, nil } }, want: want{"clock", Warn, "nothing keeps"}},
		{name: "leftover of a put", damage: put("x", "blobs", "ab", ".abcd.tmp"), want: want{"blob store", Warn, "1 files of 1 bytes"}},
		{name: "restore unfinished", damage: put("{}", "logger", "restoring"), want: want{"unfinished work", Warn, "a restore was not finished"}},
		{name: "key waits", damage: put("{}", "logger", "key.next"), want: want{"unfinished work", Warn, "a new signing key waits"}},
		{name: "service killed", damage: h.leaveSocket, want: want{"services", Warn, "nobody answers on"}},
		{name: "broker killed", damage: put("nats://127.0.0.1:1\n", "run", "nats.url"), want: want{"broker", Fail, "nothing answers"}},
		{name: "witness policy", damage: put("nonsense\n", "witness-policy.txt"), want: want{"witnesses", Fail, "policy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := h.config()
			if c.damage != nil {
				c.damage(t)
			}
			if c.config != nil {
				c.config(&cfg)
			}
			r := h.examine(cfg)
			if !r.has(c.want) {
				t.Errorf("want %s %s: …%s…\n%s", c.want.result, c.want.check, c.want.seen, r.text())
			}
		})
	}
}

// remember makes the pin of a ledger that has grown, and keeps the checkpoint
// from before.
func (h *house) remember(pin string) {
	old, err := os.ReadFile(h.dir.Logger().Latest())
	must(h.t, err)
	must(h.t, os.WriteFile(filepath.Join(h.offline, "old"), old, 0o600))
	must(h.t, h.up().Stop())
	a, err := node.LoadAnchor(node.AnchorConfig{Dir: h.dir})
	must(h.t, err)
	ev, err := node.OpenEvidence(h.t.Context(), node.EvidenceConfig{Dir: h.dir, Scratch: h.t.TempDir()})
	must(h.t, err)
	defer ev.Close()
	r, err := node.Verify(h.t.Context(), ev, a, nil)
	must(h.t, err)
	_, err = node.Remember(pin, nil, a, r)
	must(h.t, err)
}

// give gives a file to another user, which only root can.
func (h *house) give(names ...string) func(*testing.T) {
	return func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root to change an owner")
		}
		must(t, os.Chown(h.path(names...), 65534, -1))
		t.Cleanup(func() { must(t, os.Chown(h.path(names...), 0, -1)) })
	}
}

// hide moves a file away for the time of a test.
func (h *house) hide(names ...string) func(*testing.T) {
	return func(t *testing.T) {
		path := h.path(names...)
		must(t, os.Rename(path, path+".hidden"))
		t.Cleanup(func() { must(t, os.Rename(path+".hidden", path)) })
	}
}

// rollBack puts the whole checkpoint directory of before in place.
func (h *house) rollBack(t *testing.T) {
	dir, aside := h.dir.Logger().Checkpoints(), filepath.Join(t.TempDir(), "aside")
	must(t, os.Rename(dir, aside))
	must(t, os.Mkdir(dir, 0o700))
	old, err := os.ReadFile(filepath.Join(h.offline, "old"))
	must(t, err)
	must(t, os.WriteFile(h.dir.Logger().Latest(), old, 0o644))
	t.Cleanup(func() { must(t, errors.Join(os.RemoveAll(dir), os.Rename(aside, dir))) })
}

// leaveSocket leaves a socket that nobody listens on.
func (h *house) leaveSocket(t *testing.T) {
	path := h.path("run", "logger.sock")
	ln, err := net.Listen("unix", path)
	must(t, err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, ln.Close())
	t.Cleanup(func() { os.Remove(path) })
}

// TestRunning: everything is well under `up`, every permission is tried, and
// the ledger holds nothing of it; then things go wrong one by one.
func TestRunning(t *testing.T) {
	h := newHouse(t)
	old, err := os.ReadFile(h.dir.Logger().Latest())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(h.offline, "old"), old, 0o600))
	up := h.up()
	size := up.Status().Logger.Size
	r := h.examine(h.config())
	for _, result := range []Result{Fail, Warn, Unknown} {
		if bad := r.worse(result); len(bad) > 0 {
			t.Errorf("a healthy house: %s: %q", result, bad)
		}
	}
	if users := 7 + len(principal.ServiceUsers()); strings.Count(r.text(), "permissions of") != users {
		t.Errorf("want %d users tried\n%s", users, r.text())
	}
	for _, check := range []string{"broker", "fsync", "stream settings", "stream", "checkpoint", "logger", "projector", "resolver", "telemetry", "gateway", "schemas", "store limit"} {
		if !r.has(want{check, OK, ""}) {
			t.Errorf("%s is not ok\n%s", check, r.text())
		}
	}
	h.checkOnlyOwn(size)

	cfg := h.config()
	cfg.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	cfg.Software = "a newer build"
	cfg.LowWater = 1 << 60
	r = h.examine(cfg)
	for _, w := range []want{
		{"clock", Fail, "behind ledger time"}, {"software", Warn, `up runs "test"`}, {"store limit", Fail, "before the broker's store limit"},
	} {
		if !r.has(w) {
			t.Errorf("no %v\n%s", w, r.text())
		}
	}

	h.setMaxAge(up)
	r = h.examine(h.config())
	if w := (want{"stream settings", Fail, "max_age is 24h0m0s, want 0s"}); !r.has(w) {
		t.Errorf("no %v\n%s", w, r.text())
	}

	// The logger signs each second that the log grew, so both are compared
	// until it has not grown in between.
	for try := 0; ; try++ {
		must(t, os.WriteFile(h.dir.Logger().Latest(), old, 0o644))
		r = h.examine(h.config())
		if r.has(want{"checkpoint", Fail, "it was rolled back"}) {
			break
		}
		if try == 20 {
			t.Fatalf("a rolled-back checkpoint is not found\n%s", r.text())
		}
	}
}

// checkOnlyOwn wants nothing behind a record but what the services themselves
// write while nobody sends events.
func (h *house) checkOnlyOwn(from uint64) {
	h.t.Helper()
	ev, err := node.OpenEvidence(h.t.Context(), node.EvidenceConfig{Dir: h.dir})
	must(h.t, err)
	defer ev.Close()
	head, err := ev.Head(h.t.Context())
	must(h.t, err)
	if uint64(head) <= from {
		return
	}
	must(h.t, ev.Read(h.t.Context(), ledger.Seq(from+1), head, func(seq ledger.Seq, body []byte) error {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			return err
		}
		e, err := events.Decode(rec.Event)
		if err == nil && e.Type != "clock.ticked" && e.Type != "telemetry.sealed" {
			h.t.Errorf("record %d is %s by %s", seq, e.Type, rec.Principal)
		}
		return err
	}))
}

// setMaxAge changes LEDGER as the bootstrap user may.
func (h *house) setMaxAge(up *node.Up) {
	h.t.Helper()
	c, err := principal.LoadCredential(principal.CredentialPath(h.offline, principal.BootstrapStore))
	must(h.t, err)
	nc, err := up.Hub.DialAs(c, false)
	must(h.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(h.t, err)
	s, err := js.Stream(h.t.Context(), broker.LedgerStream)
	must(h.t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxAge = 24 * time.Hour
	_, err = js.UpdateStream(h.t.Context(), cfg)
	must(h.t, err)
}

// TestStoppedServices: only the broker runs.
func TestStoppedServices(t *testing.T) {
	h := newHouse(t)
	ctx, stop := context.WithCancel(t.Context())
	s, err := node.StartService(ctx, node.ServiceConfig{Service: "broker", UpConfig: node.UpConfig{Dir: h.dir, Software: "test"}})
	must(t, err)
	defer func() {
		stop()
		must(t, s.Wait())
	}()
	r := h.examine(h.config())
	for _, w := range []want{
		{"logger", Fail, "no logger answers the intake"}, {"projector", Warn, "no projector answers"}, {"resolver", Warn, ""}, {"telemetry", Warn, ""},
		{"permissions of agent.piper", Unknown, "nobody answers intake.agent.piper"}, {"broker", OK, "nats-server 2."}, {"broker store", OK, ""},
		{"checkpoint", OK, "no logger on this host"}, {"clock", OK, "the last record is of"},
	} {
		if !r.has(w) {
			t.Errorf("no %v", w)
		}
	}
	if t.Failed() {
		t.Log(r.text())
	}
}

// TestExternalBroker: somebody changed an external broker's configuration: the
// agent and the services of both JetStream accounts may do everything, a
// service nothing, and acks come before the fsync. The examination says so and
// changes nothing, though nobody would stop it.
func TestExternalBroker(t *testing.T) {
	h := newHouse(t)
	path := broker.Dir(h.dir).Config()
	raw, err := os.ReadFile(path)
	must(t, err)
	file, err := principal.Load(principal.Dir(h.dir).Principals())
	must(t, err)
	piper, _ := file.Find("agent/piper")
	services, err := principal.LoadServices(principal.Dir(h.dir).Services())
	must(t, err)
	conf := strings.Replace(string(raw), "sync_interval: always", `sync_interval: "2m"`, 1)
	conf = widen(t, conf, piper.NKey, `publish { allow: ">" }`, `subscribe { allow: ">" }`)
	conf = widen(t, conf, services.Users[principal.LoggerStore], `publish { allow: ">" }`, `subscribe { allow: ">" }`)
	conf = widen(t, conf, services.Users[principal.Ingress], `publish { allow: ">" }`, `subscribe { allow: ">" }`)
	conf = widen(t, conf, services.Users[principal.Sealer], `publish { allow: "nothing" }`, `subscribe { allow: ">" }`)
	must(t, os.WriteFile(path, []byte(conf), 0o600))

	opts, err := server.ProcessConfigFile(path)
	must(t, err)
	opts.Port, opts.HTTPHost, opts.HTTPPort, opts.NoSigs, opts.NoLog = server.RANDOM_PORT, "127.0.0.1", server.RANDOM_PORT, true, true
	srv, err := server.NewServer(opts)
	must(t, err)
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	cfg := h.config()
	cfg.NATS = srv.ClientURL()
	before := h.last(cfg)
	r := h.examine(cfg)
	for _, w := range []want{
		{"fsync", Unknown, "does not tell"}, {"broker configuration", Fail, "sync_interval"},
		{"permissions of agent.piper", Fail, "may publish to $JS.API.STREAM.DELETE.LEDGER"},
		{"permissions of agent.piper", Fail, "may subscribe to >"},
		{"permissions of " + principal.Sealer, Fail, "may not publish to $JS.API.STREAM.INFO.TELEMETRY"},
		{"permissions of " + principal.LoggerStore, Fail, "may publish to $JS.API.STREAM.DELETE.LEDGER"},
		{"permissions of " + principal.Ingress, Fail, "may publish to $JS.API.STREAM.DELETE.TELEMETRY"},
		{"permissions of " + principal.LoggerIntake, OK, "refused"},
		{"stream", OK, "records 1 to 1"},
	} {
		if !r.has(w) {
			t.Errorf("no %v\n%s", w, r.text())
		}
	}
	if after := h.last(cfg); after != before {
		t.Errorf("the ledger grew from %d to %d", before, after)
	}
	cfg.Monitor = "http://" + srv.MonitorAddr().String()
	r = h.examine(cfg)
	for _, w := range []want{
		{"fsync", Fail, "before it fsyncs"}, {"stream settings", OK, "LEDGER and QUARANTINE"}, {"stream settings", OK, "TELEMETRY"},
	} {
		if !r.has(w) {
			t.Errorf("no %v after the first examination\n%s", w, r.text())
		}
	}
	streams, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true})
	must(t, err)
	for _, a := range streams.AccountDetails {
		for _, s := range a.Streams {
			if want := map[string]uint64{broker.LedgerStream: 1}[s.Name]; s.State.Msgs != want || s.State.LastSeq != want {
				t.Errorf("%s holds %d messages up to %d, want %d", s.Name, s.State.Msgs, s.State.LastSeq, want)
			}
		}
	}
	if streams.Streams != 3 {
		t.Errorf("%d streams, want 3", streams.Streams)
	}
}

// widen replaces a user's permissions in the rendered configuration.
func widen(t *testing.T, conf, nkey, publish, subscribe string) string {
	t.Helper()
	_, rest, ok := strings.Cut(conf, "{ nkey: "+nkey+", permissions {\n")
	if !ok {
		t.Fatalf("no user %s", nkey)
	}
	old := strings.SplitN(rest, "\n", 3)
	tail := old[1][strings.LastIndex(old[1], "] } } }"):]
	return strings.Replace(conf, old[0]+"\n"+old[1], "        "+publish+"\n        "+subscribe+strings.TrimPrefix(tail, "] }"), 1)
}

func (h *house) last(c Config) ledger.Seq {
	h.t.Helper()
	ev, err := node.OpenEvidence(h.t.Context(), node.EvidenceConfig{Dir: h.dir, NATS: c.NATS})
	must(h.t, err)
	defer ev.Close()
	head, err := ev.Head(h.t.Context())
	must(h.t, err)
	return head
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		text  string
		ok    bool
		older bool
	}{
		{"2.15.3", true, false}, {"2.15.2", true, true}, {"2.14.9", true, true}, {"2.16.0", true, false}, {"3.0.0", true, false},
		{"2.15.3-RC.1", true, false}, {"v2.10.0", true, true}, {"2.15", false, false}, {"", false, false}, {"a.b.c", false, false},
	} {
		v, ok := parseVersion(c.text)
		if ok != c.ok || ok && older(v, oldestBroker) != c.older {
			t.Errorf("%q: %v, %t", c.text, v, ok)
		}
	}
}

// TestNotInitialised: there is nothing to examine.
func TestNotInitialised(t *testing.T) {
	_, err := Examine(t.Context(), Config{Dir: node.Dir(t.TempDir())})
	if !errors.Is(err, node.ErrNotInitialised) {
		t.Errorf("%v", err)
	}
}
