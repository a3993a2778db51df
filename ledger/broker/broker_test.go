package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/internal/principal"
)

// house is an initialised directory with a running broker.
type house struct {
	dir, offline string
	*Broker
}

func initDir(t testing.TB) (dir, offline string) {
	t.Helper()
	dir = t.TempDir()
	return dir, initDirAt(t, dir)
}

func initDirAt(t testing.TB, dir string) (offline string) {
	t.Helper()
	offline = t.TempDir()
	names := principal.Dir(dir)
	if _, _, err := names.Init(offline); err != nil {
		t.Fatal(err)
	}
	for _, p := range []principal.Principal{
		principal.New(principal.Agent, "other", "production"),
		principal.New(principal.Sensor, "second", "production"),
	} {
		if _, err := names.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return offline
}

func startHouse(t testing.TB) *house { return startHouseAt(t, t.TempDir(), Config{}) }

// startHouseAt starts a broker in a directory of the caller's.
func startHouseAt(t testing.TB, dir string, cfg Config) *house {
	t.Helper()
	offline := initDirAt(t, dir)
	cfg.Dir, cfg.Log = dir, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	b, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h := &house{dir, offline, b}
	if err := CreateStreams(t.Context(), h.connect(t, principal.BootstrapStore), h.connect(t, principal.BootstrapTelemetry), 1); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) credential(t testing.TB, user string) principal.Credential {
	t.Helper()
	path := principal.Dir(h.dir).Credential(user)
	if strings.HasPrefix(user, "bootstrap.") {
		path = principal.CredentialPath(h.offline, user)
	}
	c, err := principal.LoadCredential(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (h *house) connect(t testing.TB, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := h.Connect(h.credential(t, user), opts...)
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func mustJS(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// fill appends n records as the logger's store user does.
func (h *house) fill(t testing.TB, n int) {
	t.Helper()
	js := mustJS(t, h.connect(t, principal.LoggerStore))
	for i := range n {
		if _, err := js.Publish(t.Context(), "ledger.claim.recorded", fmt.Appendf(nil, `{"record":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// intake stands for the logger's intake: it acknowledges and remembers.
type intake struct {
	mu   sync.Mutex
	seen []*nats.Msg
}

func startIntake(t testing.TB, h *house) *intake {
	t.Helper()
	in := &intake{}
	nc := h.connect(t, principal.LoggerIntake)
	_, err := nc.Subscribe("intake.>", func(m *nats.Msg) {
		in.mu.Lock()
		in.seen = append(in.seen, m)
		in.mu.Unlock()
		if m.Reply != "" {
			m.Respond([]byte("ack " + m.Subject))
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *intake) reset() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.seen = nil
}

func (in *intake) subjects() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var out []string
	for _, m := range in.seen {
		out = append(out, m.Subject)
	}
	return out
}

// dial is connect over loopback TCP, as principals do.
func (h *house) dial(t testing.TB, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := Dial(h.ClientURL(), h.credential(t, user), opts...)
	if err != nil {
		t.Fatalf("dial as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// refused says whether the broker refused something on the connection. Both
// sides keep the order, so after the round trip of a flush it is known.
func refused(t testing.TB, nc *nats.Conn) bool {
	t.Helper()
	must(t, nc.Flush())
	return errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

// photograph is LEDGER's configuration, state and every message: what no
// attempt may change. Consumers may come and go.
func (h *house) photograph(t testing.TB) string {
	t.Helper()
	s, err := mustJS(t, h.connect(t, principal.LoggerStore)).Stream(t.Context(), LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := info.State
	state.Consumers = 0
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n%+v\n", info.Config, state)
	for seq := uint64(1); seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %s %v %q\n", m.Sequence, m.Time, m.Subject, m.Header, m.Data)
	}
	return b.String()
}

func TestConfigIsAccepted(t *testing.T) {
	dir, _ := initDir(t)
	if changed, err := WriteConfig(dir); err != nil || !changed {
		t.Fatalf("first write: %v, %v", changed, err)
	}
	if changed, err := WriteConfig(dir); err != nil || changed {
		t.Fatalf("second write: %v, %v", changed, err)
	}
	opts, err := server.ProcessConfigFile(Dir(dir).Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"host", opts.Host, "127.0.0.1"},
		{"sync always", opts.SyncAlways, true},
		{"batch", opts.JetStreamLimits.MaxBatchSize, MaxBatch},
		{"payload", opts.MaxPayload, int32(MaxPayload)},
		{"store", opts.StoreDir, filepath.Join(dir, "broker")},
		{"file store", opts.JetStreamMaxStore, int64(maxFileStore)},
		{"system account", opts.SystemAccount, ""},
		{"user without login", opts.NoAuthUser, ""},
		{"password users", len(opts.Users), 0},
		{"monitoring", opts.HTTPPort, 0},
		{"accounts", len(opts.Accounts), 3 + 3 + 9},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	// To the server an empty allow-list allows everything.
	for _, u := range opts.Nkeys {
		p := u.Permissions
		if p == nil || len(p.Publish.Allow) == 0 || len(p.Subscribe.Allow) == 0 || p.Response != nil {
			t.Errorf("user %s of %s has no allow-lists", u.Nkey, u.Account.Name)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	dir := t.TempDir()
	f, s, err := principal.Dir(dir).Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]RenderConfig{
		"relative store":             {Principals: f, Services: s, StoreDir: "x"},
		"store with control bytes":   {Principals: f, Services: s, StoreDir: "/a\nb"},
		"services without their key": {Principals: f, Services: &principal.Services{}, StoreDir: dir},
	} {
		if _, err := Render(c); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}

func TestAccountNames(t *testing.T) {
	for _, c := range []struct{ role, name, account string }{
		{"agent", "piper", "P_agent_piper"}, {"sensor", "a_b-c", "P_sensor_a_b-c"},
	} {
		p := principal.New(principal.Role(c.role), c.name, "production")
		if got := AccountOf(p); got != c.account {
			t.Errorf("account %s, want %s", got, c.account)
		}
		if got, ok := PrincipalOf(c.account); !ok || got != p.ID() {
			t.Errorf("principal of %s: %s, %v", c.account, got, ok)
		}
	}
	for _, a := range []string{storeAccount, "READ_operator", Unauthenticated} {
		if got, ok := PrincipalOf(a); ok {
			t.Errorf("%s is principal %s", a, got)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestStoreUserAppendsAndReads(t *testing.T) {
	h := startHouse(t)
	h.fill(t, 3)
	nc := h.connect(t, principal.LoggerStore)
	js := mustJS(t, nc)
	if _, err := js.Publish(t.Context(), "quarantine.agent.piper", make([]byte, MaxPayload)); err != nil {
		t.Errorf("quarantine: %v", err)
	}
	if got := readAll(t, js, 1, 3); got != 3 {
		t.Errorf("read %d", got)
	}
	if _, err := js.Publish(t.Context(), "ledger.x", []byte("x"), jetstream.WithExpectLastSequence(1)); err == nil {
		t.Error("wrong expected sequence was accepted")
	}
	if _, err := js.Publish(t.Context(), "ledger.x", make([]byte, 65536)); err == nil {
		t.Error("a record above the limit was accepted")
	}
	if ds, err := CheckStreams(t.Context(), js, 1, LedgerStream, QuarantineStream); err != nil || len(ds) > 0 {
		t.Errorf("deviations %v, %v", ds, err)
	}
	// A batch of the largest size is one acknowledgement.
	for i := range MaxBatch {
		m := &nats.Msg{Subject: "ledger.x", Data: []byte("x"), Header: nats.Header{
			"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {fmt.Sprint(i + 1)}}}
		if i < MaxBatch-1 {
			must(t, nc.PublishMsg(m))
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		res, err := nc.RequestMsg(m, 20*time.Second)
		if err != nil || !bytes.Contains(res.Data, []byte(fmt.Sprintf(`"seq":%d`, 3+MaxBatch))) {
			t.Fatalf("commit: %s, %v", res.Data, err)
		}
	}
}

func TestCreateStreamsRepeatsAndRepairs(t *testing.T) {
	h := startHouse(t)
	h.fill(t, 2)
	store, telemetry := h.connect(t, principal.BootstrapStore), h.connect(t, principal.BootstrapTelemetry)
	must(t, CreateStreams(t.Context(), store, telemetry, 1))
	c := ledgerConfig(1)
	c.MaxMsgs, c.MaxAge, c.AllowDirect = 10, time.Hour, false
	must1(mustJS(t, store).UpdateStream(t.Context(), c))
	ds, err := CheckStreams(t.Context(), mustJS(t, store), 1, LedgerStream, QuarantineStream)
	must(t, err)
	var settings []string
	for _, d := range ds {
		settings = append(settings, d.Stream+"."+d.Setting)
	}
	if want := []string{"LEDGER.max_msgs", "LEDGER.max_age", "LEDGER.allow_direct"}; !slices.Equal(settings, want) {
		t.Errorf("deviations %v, want %v", ds, want)
	}
	must(t, CreateStreams(t.Context(), store, telemetry, 1))
	if ds, err := CheckStreams(t.Context(), mustJS(t, store), 1, LedgerStream); err != nil || len(ds) > 0 {
		t.Errorf("after repair: %v, %v", ds, err)
	}
}

func TestCompareNamesEachSetting(t *testing.T) {
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"deny_delete":               func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"deny_purge":                func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"discard":                   func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"storage":                   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"retention":                 func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"max_age":                   func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_bytes":                 func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 },
		"max_msgs_per_subject":      func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"max_msg_size":              func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 },
		"subjects":                  func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "intake.>") },
		"allow_rollup_hdrs":         func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"allow_msg_ttl":             func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"allow_msg_schedules":       func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = true },
		"allow_msg_counter":         func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true },
		"allow_atomic":              func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"persist_mode":              func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"first_seq":                 func(c *jetstream.StreamConfig) { c.FirstSeq = 9 },
		"sources":                   func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "X"}} },
		"mirror":                    func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "X"} },
		"republish":                 func(c *jetstream.StreamConfig) { c.RePublish = &jetstream.RePublish{Destination: "x"} },
		"subject_transform":         func(c *jetstream.StreamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} },
		"subject_delete_marker_ttl": func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Hour },
	} {
		c := ledgerConfig(1)
		change(&c)
		ds := compare(ledgerConfig(1), c)
		if len(ds) != 1 || ds[0].Setting != setting || ds[0].Stream != LedgerStream {
			t.Errorf("%s: deviations %v", setting, ds)
		}
	}
}

func TestReloadAddsAndRevokes(t *testing.T) {
	h := startHouse(t)
	startIntake(t, h)
	h.fill(t, 5)
	before := h.photograph(t)
	names := principal.Dir(h.dir)
	lost := make(chan struct{})
	piper := h.dial(t, "agent.piper", nats.ClosedHandler(func(*nats.Conn) { close(lost) }))
	var drops atomic.Int32
	other := h.dial(t, "agent.other", nats.DisconnectErrHandler(func(*nats.Conn, error) { drops.Add(1) }))
	reader := must1(ReadAPI(h.connect(t, principal.ReadProjector)))
	must1(names.Add(principal.New(principal.Agent, "late", "bench/r1")))
	must1(names.Add(principal.New(principal.Sensor, "late", "bench/r1")))
	must(t, names.Revoke("agent/piper", time.Now()))
	must(t, h.Reload())
	select {
	case <-lost:
	case <-time.After(30 * time.Second):
		t.Fatal("the revoked principal's connection is still open")
	}
	if piper.IsConnected() {
		t.Error("the revoked principal is connected")
	}
	late := h.dial(t, "agent.late")
	for _, nc := range []struct {
		*nats.Conn
		subject string
	}{{other, "intake.agent.other"}, {late, "intake.agent.late"}} {
		if m, err := nc.Request(nc.subject, nil, 5*time.Second); err != nil || string(m.Data) != "ack "+nc.subject {
			t.Errorf("%s after reload: %v", nc.subject, err)
		}
	}
	if n := readAll(t, reader, 1, 5); n != 5 {
		t.Errorf("reader read %d after reload", n)
	}
	if n := drops.Load(); n > 0 {
		t.Errorf("an unchanged principal was cut off %d times", n)
	}
	if h.photograph(t) != before {
		t.Error("LEDGER changed")
	}
	// A second reload, so that what the first one installed is replaced as well.
	must(t, names.Revoke("agent/late", time.Now()))
	must(t, h.Reload())
	if _, err := other.Request("intake.agent.other", nil, 5*time.Second); err != nil {
		t.Errorf("after the second reload: %v", err)
	}
}

func TestRevokedCredentialIsRefused(t *testing.T) {
	h := startHouse(t)
	c := h.credential(t, "agent.piper")
	must(t, principal.Dir(h.dir).Revoke("agent/piper", time.Now()))
	must(t, h.Reload())
	if _, err := h.Connect(c); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connect: %v", err)
	}
	if _, err := Dial(h.ClientURL(), c); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("dial: %v", err)
	}
	if n := h.Refusals()[Unauthenticated]; n == 0 {
		t.Error("the refused connection was not counted")
	}
}

// TestConnectionsOverTheLimitAreTheirPrincipals: the server says of them only
// that they are too many. Whoever names the key of another without having it is
// counted as nobody.
func TestConnectionsOverTheLimitAreTheirPrincipals(t *testing.T) {
	h := startHouse(t)
	own := h.credential(t, "agent.piper")
	for range principalMaxConns {
		nc := must1(Dial(h.ClientURL(), own))
		t.Cleanup(nc.Close)
	}
	const over = 3
	for range over {
		if nc, err := Dial(h.ClientURL(), own); err == nil {
			nc.Close()
			t.Fatalf("connection %d is let in", principalMaxConns+1)
		}
	}
	if nc, err := nats.Connect(h.ClientURL(), nats.Nkey(own.Public, h.credential(t, "agent.other").Sign)); err == nil {
		nc.Close()
		t.Fatal("a forged signature is let in")
	}
	// The server says it after the client heard it.
	want := map[string]uint64{"P_agent_piper": over, Unauthenticated: 1}
	for deadline := time.Now().Add(20 * time.Second); !maps.Equal(h.Refusals(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("refused: %v, want %v", h.Refusals(), want)
		}
	}
}

func TestRefusalsAreCountedByAccount(t *testing.T) {
	h := startHouse(t)
	before := h.Refusals()
	// A name made to look like another account's line, verbs included.
	nc := h.connect(t, "agent.piper", nats.Name(`x" - "P_operator_main/nkey:U" - Publish Violation %[1]q%s%d`))
	for range 5 {
		must(t, nc.Publish("P_operator_main/nkey:UX", nil))
	}
	sub, err := nc.SubscribeSync("ledger.%s.>")
	must(t, err)
	must(t, nc.Flush())
	sub.Unsubscribe()
	must(t, nc.Flush())
	got := h.Refusals()
	maps.DeleteFunc(got, func(a string, n uint64) bool { return before[a] == n })
	if want := map[string]uint64{"P_agent_piper": 6}; !maps.Equal(got, want) {
		t.Errorf("refusals %v, want %v", got, want)
	}
}

func TestStartIsExclusive(t *testing.T) {
	h := startHouse(t)
	if _, err := Start(Config{Dir: h.dir}); !errors.Is(err, ErrLocked) {
		t.Fatalf("second broker: %v", err)
	}
	url, err := ReadURL(h.dir)
	if err != nil || url != h.ClientURL() {
		t.Errorf("url file %q, %v; want %q", url, err, h.ClientURL())
	}
	if got := h.SyncMode(); got != SyncAlways {
		t.Errorf("sync mode %s", got)
	}
}

func TestPortInUse(t *testing.T) {
	h := startHouse(t)
	dir, _ := initDir(t)
	h.mu.Lock()
	port := h.port
	h.mu.Unlock()
	if b, err := Start(Config{Dir: dir, Port: port}); err == nil {
		b.Stop(context.Background())
		t.Fatal("two brokers on one port")
	}
	b, err := Start(Config{Dir: dir}) // the lock was given back
	must(t, err)
	must(t, b.Stop(context.Background()))
	if _, err := ReadURL(dir); err == nil {
		t.Error("the stopped broker's address is still there")
	}
	if _, err := b.Connect(principal.Credential{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("connection to a stopped broker: %v", err)
	}
	if err := b.Reload(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("reload of a stopped broker: %v", err)
	}
	must(t, b.Stop(context.Background()))
}

func TestRestartKeepsAddressConnectionsAndRecords(t *testing.T) {
	h := startHouse(t)
	startIntake(t, h)
	h.fill(t, 5)
	before, url := h.photograph(t), h.ClientURL()
	back := make(chan struct{}, 1)
	nc := h.connect(t, "agent.piper", nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	must(t, h.Restart(t.Context()))
	if got := h.ClientURL(); got != url {
		t.Errorf("address %s, was %s", got, url)
	}
	select {
	case <-back:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection did not come back")
	}
	if h.photograph(t) != before {
		t.Error("LEDGER changed")
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // the intake's own connection may come back later
		_, err := nc.Request("intake.agent.piper", nil, 5*time.Second)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("request after restart: %v", err)
		}
	}
}
