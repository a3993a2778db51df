package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	dir, offline = t.TempDir(), t.TempDir()
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
	return dir, offline
}

func startHouse(t testing.TB) *house {
	t.Helper()
	dir, offline := initDir(t)
	b, err := Start(Config{Dir: dir, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h := &house{dir, offline, b}
	if err := CreateStreams(t.Context(), h.connect(t, principal.BootstrapStore), h.connect(t, principal.BootstrapTelemetry)); err != nil {
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

// Every attempt by an agent or a sensor ends without a message that it must
// not see, with a refusal where the broker says so, and with LEDGER unchanged.
func TestPrincipalCannot(t *testing.T) {
	h := startHouse(t)
	in := startIntake(t, h)
	h.fill(t, 5)
	t.Run("subscribe", func(t *testing.T) { testSubscribe(t, h) })
	t.Run("publish", func(t *testing.T) { testPublish(t, h, in) })
	t.Run("tricks on the own intake", func(t *testing.T) { testTricks(t, h, in) })
}

func testSubscribe(t *testing.T, h *house) {
	stir := h.connect(t, "agent.other")
	for _, c := range []struct {
		user, subject string
		refused       bool
	}{
		{"agent.piper", ">", true},
		{"agent.piper", "*", true},
		{"agent.piper", "intake.>", true},
		{"agent.piper", "intake.agent.piper", true},
		{"agent.piper", "ledger.>", true},
		{"agent.piper", "quarantine.>", true},
		{"agent.piper", "telemetry.>", true},
		{"agent.piper", "$JS.API.>", true},
		{"agent.piper", "$JS.>", true},
		{"agent.piper", "$SYS.>", true},
		{"agent.piper", "_R_.>", true},
		{"agent.piper", "_INBOX.>", false}, // its own account's: the others' are elsewhere
		{"sensor.host", "telemetry.>", true},
		{"sensor.host", "buffer.>", true},
		{"service.logger-intake", "_R_.>", true},
		{"service.logger-intake", "_INBOX.>", true},
		{"service.read-projector", "ledger.>", true},
		{"service.read-projector", "ledger-read.>", true},
		{"service.ingress", "_INBOX.>", true},
		{"service.ingress", "_INBOX.sealer.>", true},
		{"service.sealer", "_INBOX.ingress.>", true},
		{"service.sealer", "telemetry.>", true},
		{"service.logger-store", "ledger.>", true},
	} {
		t.Run(c.user+" "+c.subject, func(t *testing.T) {
			before := h.photograph(t)
			nc := h.connect(t, c.user)
			sub, err := nc.SubscribeSync(c.subject)
			if err != nil {
				t.Fatal(err)
			}
			must(t, nc.Flush())
			// Traffic that an eavesdropper would hear.
			if _, err := stir.Request("intake.agent.other", []byte("secret"), 5*time.Second); err != nil {
				t.Fatal(err)
			}
			if h.photograph(t) != before {
				t.Error("LEDGER changed")
			}
			if got := refused(t, nc); got != c.refused {
				t.Errorf("refused %v, want %v", got, c.refused)
			}
			if n, _, err := sub.Pending(); err == nil && n > 0 {
				t.Errorf("heard %d messages", n)
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testPublish(t *testing.T, h *house, in *intake) {
	store := []string{
		"ledger.claim.recorded", "ledger.prediction.resolved", "quarantine.x", "buffer.host",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.LEDGER", "$JS.API.STREAM.DELETE.LEDGER",
		"$JS.API.STREAM.PURGE.LEDGER", "$JS.API.STREAM.UPDATE.LEDGER", "$JS.API.STREAM.CREATE.X",
		"$JS.API.STREAM.MSG.DELETE.LEDGER", "$JS.API.STREAM.MSG.GET.LEDGER", "$JS.API.DIRECT.GET.LEDGER",
		"$JS.API.CONSUMER.CREATE.LEDGER.x", "ledger-read.STREAM.INFO.LEDGER",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "_R_.x", "_INBOX.x", "_GR_.x", "$NRG.x",
		"intake.operator.main", "intake.agent.other", "intake.agent.piper.x", "intake.agent",
	}
	publishes := map[string][]string{
		"agent.piper": append(store, "telemetry.host", "telemetry.piper"),
		"sensor.host": append(store, "telemetry.second", "intake.agent.piper", "intake.sensor.second"),
	}
	for user, subjects := range publishes {
		for _, subject := range subjects {
			t.Run(user+" "+subject, func(t *testing.T) {
				before := h.photograph(t)
				in.reset()
				nc := h.connect(t, user)
				must(t, nc.PublishRequest(subject, nc.NewInbox(), []byte(`{"seq":1}`)))
				if !refused(t, nc) {
					t.Error("not refused")
				}
				if h.photograph(t) != before {
					t.Error("LEDGER changed")
				}
				if s := in.subjects(); len(s) > 0 {
					t.Errorf("intake heard %v", s)
				}
			})
		}
	}
}

// trick is a message on the sender's own intake with something else about it.
type trick struct {
	name   string
	reply  string
	header nats.Header
	// arrives: the intake hears the message, as the sender's and nobody else's.
	arrives bool
}

func testTricks(t *testing.T, h *house, in *intake) {
	stranger := h.connect(t, "agent.other")
	for _, c := range []trick{
		{name: "plain", arrives: true},
		{name: "reply STREAM.DELETE", reply: "$JS.API.STREAM.DELETE.LEDGER"},
		{name: "reply ACK", reply: "$JS.ACK.LEDGER.x.1.1.1.1.1"},
		{name: "reply into LEDGER", reply: "ledger.prediction.resolved", arrives: true},
		{name: "reply to the operator's intake", reply: "intake.operator.main", arrives: true},
		{name: "reply to the own intake", reply: "intake.agent.piper", arrives: true},
		{name: "reply _R_", reply: "_R_.x"},
		{name: "atomic batch", header: nats.Header{"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}}, arrives: true},
		{name: "atomic batch with reply STREAM.DELETE", reply: "$JS.API.STREAM.DELETE.LEDGER",
			header: nats.Header{"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}}},
		{name: "expected sequence", header: nats.Header{"Nats-Expected-Last-Sequence": {"5"}}, arrives: true},
		{name: "message id", header: nats.Header{"Nats-Msg-Id": {"x"}}, arrives: true},
		{name: "rollup", header: nats.Header{"Nats-Rollup": {"all"}}, arrives: true},
		{name: "schedule", header: nats.Header{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"ledger.x"}}, arrives: true},
		{name: "request info", header: nats.Header{"Nats-Request-Info": {`{"acc":"STORE","svc":"STORE"}`}}, arrives: true},
		{name: "trace into LEDGER", header: nats.Header{"Nats-Trace-Dest": {"ledger.x"}}},
		{name: "trace to the operator's intake", header: nats.Header{"Nats-Trace-Dest": {"intake.operator.main"}}},
		{name: "trace to JetStream", header: nats.Header{"Nats-Trace-Dest": {"$JS.API.STREAM.DELETE.LEDGER"}}},
		{name: "trace to the own intake", header: nats.Header{"Nats-Trace-Dest": {"intake.agent.piper"}}, arrives: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := h.photograph(t)
			in.reset()
			nc := h.connect(t, "agent.piper")
			m := &nats.Msg{Subject: "intake.agent.piper", Reply: c.reply, Header: c.header, Data: []byte(`{"seq":1}`)}
			must(t, nc.PublishMsg(m))
			must(t, nc.Flush())
			// A round trip of another principal, after which nothing is in flight.
			for range 3 {
				if _, err := stranger.Request("intake.agent.other", nil, 5*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			own := 0
			for _, s := range in.subjects() {
				switch s {
				case "intake.agent.piper":
					own++
				case "intake.agent.other":
				default:
					t.Errorf("intake heard %s", s)
				}
			}
			if (own > 0) != c.arrives || own > 2 { // a reply or a trace may come back as one more
				t.Errorf("arrived %d times, want arrival %v", own, c.arrives)
			}
			if h.photograph(t) != before {
				t.Error("LEDGER changed")
			}
		})
	}
}

func TestOversizePayload(t *testing.T) {
	h := startHouse(t)
	in := startIntake(t, h)
	nc := h.connect(t, "agent.piper")
	if err := nc.Publish("intake.agent.piper", make([]byte, MaxPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("client let it pass: %v", err)
	}
	if _, err := nc.Request("intake.agent.piper", make([]byte, MaxPayload), 10*time.Second); err != nil {
		t.Errorf("the largest payload: %v", err)
	}
	if n := len(in.subjects()); n != 1 {
		t.Errorf("intake heard %d messages", n)
	}
}

func TestSensorReachesOnlyTheIngress(t *testing.T) {
	h := startHouse(t)
	ingress := h.connect(t, principal.Ingress)
	js := mustJS(t, ingress)
	_, err := ingress.Subscribe("telemetry.>", func(m *nats.Msg) {
		// Only subject and data go on: the sender's headers would be the buffer's.
		name := strings.TrimPrefix(m.Subject, "telemetry.")
		if _, err := js.Publish(context.Background(), BufferSubject(name), m.Data); err == nil && m.Reply != "" {
			m.Respond([]byte("stored"))
		}
	})
	must(t, err)
	must(t, ingress.Flush())
	sensor := h.connect(t, "sensor.host")
	for i := range 3 {
		m := &nats.Msg{Subject: "telemetry.host", Data: fmt.Appendf(nil, "%d", i),
			Header: nats.Header{"Nats-Msg-Id": {"same"}, "Nats-Expected-Last-Sequence": {"77"}, "Nats-Rollup": {"all"}}}
		if res, err := sensor.RequestMsg(m, 5*time.Second); err != nil || string(res.Data) != "stored" {
			t.Fatalf("sample %d: %v", i, err)
		}
	}
	s, err := mustJS(t, h.connect(t, principal.Sealer)).Stream(t.Context(), TelemetryStream)
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 3 {
		t.Errorf("buffer holds %d samples, want 3", n)
	}
	m, err := s.GetMsg(t.Context(), 2)
	if err != nil || m.Subject != "buffer.host" || string(m.Data) != "1" || m.Header.Get("Nats-Msg-Id") != "" || m.Header.Get("Nats-Rollup") != "" {
		t.Errorf("sample 2: %+v, %v", m, err)
	}
}

// No user of assay's own services may change a stream, and readers only read.
func TestServiceCannot(t *testing.T) {
	h := startHouse(t)
	h.fill(t, 5)
	for user, subjects := range map[string][]string{
		principal.LoggerStore: {
			"$JS.API.STREAM.DELETE.LEDGER", "$JS.API.STREAM.UPDATE.LEDGER", "$JS.API.STREAM.PURGE.LEDGER",
			"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.MSG.DELETE.LEDGER", "$JS.API.STREAM.RESTORE.LEDGER",
			"$JS.API.STREAM.SNAPSHOT.LEDGER", "$JS.API.STREAM.DELETE.QUARANTINE", "$JS.API.CONSUMER.CREATE.QUARANTINE.x",
			"buffer.host", "intake.agent.piper", "_R_.x",
		},
		principal.LoggerIntake: {"intake.agent.piper", "ledger.x", "_INBOX.x", "$JS.API.STREAM.DELETE.LEDGER"},
		principal.ReadProjector: {
			"ledger.x", "quarantine.x", "$JS.API.STREAM.INFO.LEDGER", "$JS.API.CONSUMER.CREATE.LEDGER.x",
			"ledger-read.STREAM.DELETE.LEDGER", "ledger-read.STREAM.UPDATE.LEDGER", "ledger-read.STREAM.PURGE.LEDGER",
			"ledger-read.STREAM.MSG.DELETE.LEDGER", "ledger-read.STREAM.MSG.GET.QUARANTINE", "ledger-read.STREAM.CREATE.X",
			"ledger-read.CONSUMER.CREATE.QUARANTINE.x", "ledger-read.STREAM.INFO.QUARANTINE", "intake.resolver.main",
		},
		principal.Ingress: {"telemetry.host", "ledger.x", "$JS.API.STREAM.DELETE.TELEMETRY", "$JS.API.STREAM.PURGE.TELEMETRY", "$JS.API.STREAM.MSG.GET.TELEMETRY"},
		principal.Sealer:  {"buffer.host", "telemetry.host", "_R_.x", "$JS.API.STREAM.DELETE.TELEMETRY", "$JS.API.STREAM.UPDATE.TELEMETRY"},
		principal.BootstrapStore: {
			"$JS.API.STREAM.DELETE.LEDGER", "$JS.API.STREAM.PURGE.LEDGER", "ledger.x", "$JS.API.STREAM.CREATE.X",
		},
	} {
		for _, subject := range subjects {
			t.Run(user+" "+subject, func(t *testing.T) {
				before := h.photograph(t)
				nc := h.connect(t, user)
				must(t, nc.PublishRequest(subject, inboxOf(user)+".x", []byte(`{"seq":2}`)))
				if !refused(t, nc) {
					t.Error("not refused")
				}
				if h.photograph(t) != before {
					t.Error("LEDGER changed")
				}
			})
		}
	}
}

func TestReaderReads(t *testing.T) {
	h := startHouse(t)
	h.fill(t, 20)
	before := h.photograph(t)
	js, err := ReadAPI(h.connect(t, principal.ReadOperator))
	must(t, err)
	s, err := js.Stream(t.Context(), LedgerStream)
	must(t, err)
	if n := s.CachedInfo().State.LastSeq; n != 20 {
		t.Errorf("head %d", n)
	}
	if m, err := s.GetMsg(t.Context(), 7); err != nil || string(m.Data) != `{"record":6}` {
		t.Errorf("direct get: %v, %v", m, err)
	}
	nc := h.connect(t, principal.ReadOperator)
	if m, err := nc.Request(ReadPrefix+".STREAM.MSG.GET.LEDGER", []byte(`{"seq":7}`), 5*time.Second); err != nil || !bytes.Contains(m.Data, []byte(`"seq":7`)) {
		t.Errorf("msg get: %v", err)
	}
	for range 2 { // the second reader starts where the first one has been
		if got := readAll(t, js, 3, 20); got != 18 {
			t.Errorf("read %d records, want 18", got)
		}
	}
	if h.photograph(t) != before {
		t.Error("LEDGER changed")
	}
}

// readAll counts the records from first to last through an ordered consumer.
func readAll(t testing.TB, js jetstream.JetStream, first, last uint64) int {
	t.Helper()
	c, err := js.OrderedConsumer(t.Context(), LedgerStream, ReadFrom(first))
	must(t, err)
	done, n := make(chan struct{}), 0
	cc, err := c.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Stream != first+uint64(n) {
			t.Errorf("message %d: %v, %v", n, meta, err)
		}
		if n++; meta.Sequence.Stream == last {
			close(done)
		}
	}, PullOptions())
	must(t, err)
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Error("the end was not reached")
	}
	cc.Stop()
	<-cc.Closed()
	return n
}

// A consumer's delivery subject is a way to make JetStream publish: it must
// not reach LEDGER, JetStream itself or the replies of others.
func TestReaderConsumerCannotWrite(t *testing.T) {
	h := startHouse(t)
	h.fill(t, 5)
	for _, deliver := range []string{
		"ledger.x", "ledger.claim.recorded", "$JS.API.STREAM.DELETE.LEDGER", "$JS.ACK.x", "_R_.x", "ledger.>", "ledger-read.x",
	} {
		t.Run(deliver, func(t *testing.T) {
			before := h.photograph(t)
			nc := h.connect(t, principal.ReadOperator)
			create := func(action, deliver string) string {
				req := fmt.Sprintf(`{"stream_name":"LEDGER","action":%q,"config":{"name":"x","durable_name":"x","deliver_subject":%q,"ack_policy":"none","deliver_policy":"all","replay_policy":"instant"}}`, action, deliver)
				m, err := nc.Request(ReadPrefix+".CONSUMER.CREATE.LEDGER.x", []byte(req), 5*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				return string(m.Data)
			}
			create("", deliver)
			// The same by way of an update of a harmless consumer.
			create("", "elsewhere")
			create("update", deliver)
			readAll(t, must1(ReadAPI(nc)), 1, 5)
			if h.photograph(t) != before {
				t.Error("LEDGER changed")
			}
			if _, err := nc.Request(ReadPrefix+".CONSUMER.DELETE.LEDGER.x", nil, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		})
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
	if ds, err := CheckStreams(t.Context(), js, LedgerStream, QuarantineStream); err != nil || len(ds) > 0 {
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
	must(t, CreateStreams(t.Context(), store, telemetry))
	c := ledgerConfig()
	c.MaxMsgs, c.MaxAge, c.AllowDirect = 10, time.Hour, false
	must1(mustJS(t, store).UpdateStream(t.Context(), c))
	ds, err := CheckStreams(t.Context(), mustJS(t, store), LedgerStream, QuarantineStream)
	must(t, err)
	var settings []string
	for _, d := range ds {
		settings = append(settings, d.Stream+"."+d.Setting)
	}
	if want := []string{"LEDGER.max_msgs", "LEDGER.max_age", "LEDGER.allow_direct"}; !slices.Equal(settings, want) {
		t.Errorf("deviations %v, want %v", ds, want)
	}
	must(t, CreateStreams(t.Context(), store, telemetry))
	if ds, err := CheckStreams(t.Context(), mustJS(t, store), LedgerStream); err != nil || len(ds) > 0 {
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
		c := ledgerConfig()
		change(&c)
		ds := compare(ledgerConfig(), c)
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
	must(t, CreateStreams(t.Context(), store, telemetry))
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
