package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
)

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
		{"agent.piper", "transcript.>", true},
		{"dispatcher.main", "transcript.>", true},
		{"detector.main", "intake.>", true},
		{"detector.main", ">", true},
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
		"agent.piper": append(store, "telemetry.host", "telemetry.piper", "transcript.agent.piper", "transcript.agent.other", "transcript.x"),
		"sensor.host": append(store, "transcript.main", "telemetry.second", "intake.agent.piper", "intake.sensor.second"),
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
		if _, err := js.Publish(context.Background(), "buffer."+name, m.Data); err == nil && m.Reply != "" {
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

// A detector hears of each turn who sent it, and answers; no other hears it.
func TestTranscriptReachesOnlyTheDetector(t *testing.T) {
	h := startHouse(t)
	detector, other := h.connect(t, "detector.main"), h.connect(t, "agent.other")
	deaf, err := other.SubscribeSync("_INBOX.>")
	must(t, err)
	_, err = detector.Subscribe("transcript.>", func(m *nats.Msg) { m.Respond([]byte(m.Subject)) })
	must(t, err)
	must(t, detector.Flush())
	must(t, other.Flush())
	for user, want := range map[string]string{"agent.piper": "transcript.agent.piper", "dispatcher.main": "transcript.dispatcher.main"} {
		res, err := h.connect(t, user).Request("transcript.main", []byte("turn"), 5*time.Second)
		if err != nil || string(res.Data) != want {
			t.Errorf("%s: %v, %v", user, res, err)
		}
	}
	must(t, other.Flush())
	if n, _, _ := deaf.Pending(); n > 0 {
		t.Errorf("another heard %d messages", n)
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
	c, err := js.OrderedConsumer(t.Context(), LedgerStream, readFrom(first))
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
	}, pullOptions)
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

// readFrom and pullOptions read as the readers of LEDGER do.
func readFrom(seq uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(seq, 1)}
}

const pullOptions = jetstream.PullMaxBytes(8 << 20)
