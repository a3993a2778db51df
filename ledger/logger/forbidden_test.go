package logger_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
)

// wire is a connection that speaks the broker's protocol by itself: what the
// client library would not send, an agent can.
type wire struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// dialWire signs in with a principal's credential; claim overrides members of
// the CONNECT message.
func (e *env) dialWire(user string, claim map[string]any) *wire {
	e.t.Helper()
	u, err := url.Parse(e.Broker.ClientURL())
	if err != nil {
		e.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	w := &wire{e.t, conn, bufio.NewReader(conn)}
	var info struct {
		Nonce string `json:"nonce"`
	}
	line := w.line()
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		e.t.Fatalf("%q: %v", line, err)
	}
	c := e.Credential(user)
	sig, err := c.Sign([]byte(info.Nonce))
	if err != nil {
		e.t.Fatal(err)
	}
	hello := map[string]any{
		"nkey": c.Public, "sig": base64.RawURLEncoding.EncodeToString(sig), "headers": true, "no_responders": true,
		"lang": "wire", "version": "1", "protocol": 1, "verbose": false, "pedantic": false,
	}
	for k, v := range claim {
		hello[k] = v
	}
	raw, err := json.Marshal(hello)
	if err != nil {
		e.t.Fatal(err)
	}
	w.send("CONNECT " + string(raw) + "\r\n")
	return w
}

func (w *wire) send(text string) {
	w.t.Helper()
	if err := w.conn.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	_, _ = w.conn.Write([]byte(text)) // the broker may close meanwhile, which settle sees
}

// line is the next line, "" when the broker has closed.
func (w *wire) line() string {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	text, err := w.in.ReadString('\n')
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		w.t.Fatal("the broker neither answers nor closes")
	}
	return strings.TrimRight(text, "\r\n")
}

// settle waits until the broker has dealt with everything that was sent, and
// returns its errors and the messages that it delivered.
func (w *wire) settle() (refusals, heard []string) {
	w.t.Helper()
	w.send("PING\r\n")
	for {
		switch line := w.line(); {
		case line == "PONG", line == "":
			return refusals, heard
		case line == "PING":
			w.send("PONG\r\n")
		case strings.HasPrefix(line, "-ERR"):
			refusals = append(refusals, line)
		case strings.HasPrefix(line, "MSG "), strings.HasPrefix(line, "HMSG "):
			heard = append(heard, line+" "+w.line())
		}
	}
}

func pub(subject, reply string, body string) string {
	return fmt.Sprintf("PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body)
}

// hpub publishes on Piper's intake with header lines.
func hpub(reply, body string, headers ...string) string {
	h := "NATS/1.0\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	return fmt.Sprintf("HPUB intake.agent.piper %s %d %d\r\n%s%s\r\n", reply, len(h), len(h)+len(body), h, body)
}

// What becomes of an attempt.
const (
	refusedByBroker = "refused"   // the broker says so, and nothing arrives
	noEffect        = "no effect" // it may say nothing, and nothing arrives
	taken           = "taken"     // recorded as Piper's own event, in her namespace
	// Anything else is the code of a recorded rejection.
)

// attempt is one thing that Piper tries.
type attempt struct {
	name string
	wire string
	want string
}

const nonsense = `{"seq":1}`

func forbiddenSubscriptions() (out []attempt) {
	for _, s := range []string{
		">", "*", "*.>", "intake.>", "intake.*.*", "intake.agent.piper", "intake.dispatcher.main", "ledger.>", "ledger.claim.recorded",
		"quarantine.>", "telemetry.>", "buffer.>", "$JS.API.>", "$JS.>", "$JS.ACK.>", "$JS.EVENT.>", "$SYS.>", "$SYS.ACCOUNT.>",
		"_R_.>", "_GR_.>", "$NRG.>", "ledger-read.>", "> workers", "intake.agent.piper workers", "intake.> logger",
	} {
		out = append(out, attempt{name: "SUB " + s, wire: "SUB " + s + " 1\r\n", want: refusedByBroker})
	}
	return append(out,
		attempt{name: "SUB _INBOX.>, where the answers of others do not come", wire: "SUB _INBOX.> 1\r\n", want: noEffect},
		attempt{name: "a flood of subscriptions", wire: flood(1500, "SUB _INBOX.%d %d\r\n"), want: refusedByBroker},
		attempt{name: "a flood of ends of subscriptions", wire: flood(20_000, "UNSUB %d %d\r\n"), want: noEffect},
	)
}

func flood(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+1, i+1)
	}
	return b.String()
}

func forbiddenSubjects() (out []attempt) {
	subjects := []string{
		"intake.dispatcher.main", "intake.operator.main", "intake.resolver.main", "intake.agent", "intake.agent.piper.x",
		"intake.agent.*", "intake.agent.>", "intake.>", ">", "ledger.prediction.resolved", "ledger.ledger.opened", "quarantine.agent.piper",
		"telemetry.host", "buffer.host", "ledger-read.STREAM.INFO.LEDGER", "ledger-read.DIRECT.GET.LEDGER",
		"$JS.ACK.LEDGER.x.1.1.1.1.1", "$JS.FC.LEDGER.x.1", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.STORE.INFO", "$SYS.REQ.USER.INFO",
		"$SYS.REQ.CLAIMS.UPDATE", "_R_.x", "_GR_.x", "$NRG.x", "_INBOX.other.1", "_INBOX.sealer.1",
	}
	for _, api := range []string{
		"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.LEDGER", "STREAM.DELETE.LEDGER", "STREAM.PURGE.LEDGER", "STREAM.UPDATE.LEDGER",
		"STREAM.CREATE.X", "STREAM.MSG.GET.LEDGER", "STREAM.MSG.DELETE.LEDGER", "STREAM.SNAPSHOT.LEDGER", "STREAM.RESTORE.LEDGER",
		"STREAM.LEADER.STEPDOWN.LEDGER", "DIRECT.GET.LEDGER", "DIRECT.GET.LEDGER.ledger.claim.recorded", "CONSUMER.CREATE.LEDGER",
		"CONSUMER.CREATE.LEDGER.x", "CONSUMER.DURABLE.CREATE.LEDGER.x", "CONSUMER.MSG.NEXT.LEDGER.x", "CONSUMER.DELETE.LEDGER.x", "META.LEADER.STEPDOWN",
	} {
		subjects = append(subjects, "$JS.API."+api)
	}
	for _, s := range subjects {
		out = append(out, attempt{name: "PUB " + s, wire: pub(s, "_INBOX.own.1", nonsense), want: refusedByBroker})
	}
	return out
}

func replyTricks() (out []attempt) {
	for _, a := range []struct{ reply, want string }{
		{"$JS.API.STREAM.DELETE.LEDGER", noEffect}, {"$JS.API.CONSUMER.CREATE.LEDGER", noEffect}, {"$JS.ACK.LEDGER.x.1.1.1.1.1", noEffect},
		{"_R_.x", noEffect}, {"ledger.prediction.resolved", "missing_field"}, {"_INBOX.other.1", "missing_field"},
		{"intake.dispatcher.main", "missing_field"}, {"intake.operator.main", "missing_field"}, {"telemetry.host", "missing_field"}, {"$SYS.REQ.SERVER.PING", "missing_field"},
	} {
		out = append(out, attempt{name: "reply to " + a.reply, wire: pub("intake.agent.piper", a.reply, nonsense), want: a.want})
	}
	return append(out,
		attempt{name: "reply to the own intake, a loop", wire: pub("intake.agent.piper", "intake.agent.piper", nonsense), want: "missing_field"},
		attempt{name: "a batch whose reply deletes the stream", want: noEffect,
			wire: hpub("$JS.API.STREAM.DELETE.LEDGER", nonsense, "Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1")},
	)
}

func headerTricks() (out []attempt) {
	for _, h := range []string{
		"Nats-Msg-Id: x", "Nats-Expected-Stream: LEDGER", "Nats-Expected-Last-Sequence: 1", "Nats-Expected-Last-Msg-Id: x", "Nats-Rollup: all",
		"Nats-TTL: 1s", "Nats-Incr: 1", "Nats-Marker-Reason: Purge", "Nats-Schedule: @every 1s", "Nats-Stream-Source: LEDGER 1", "Nats-Batch-Id: b",
		"Nats-Pending-Messages: 1", "nats-msg-id: x", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
	} {
		out = append(out, attempt{name: "header " + h, wire: hpub("_INBOX.own.1", nonsense, h), want: "forbidden_header"})
	}
	for _, dest := range []string{"ledger.x", "intake.operator.main", "$JS.API.STREAM.DELETE.LEDGER", "_R_.x"} {
		out = append(out, attempt{name: "trace to " + dest, wire: hpub("", nonsense, "Nats-Trace-Dest: "+dest), want: noEffect})
	}
	return append(out,
		attempt{name: "header that the broker writes itself", wire: hpub("", nonsense, `Nats-Request-Info: {"acc":"STORE","svc":"STORE"}`), want: "missing_field"},
		attempt{name: "a bomb of headers", wire: hpub("", nonsense, strings.Repeat("X-A: b\r\n", 50_000)+"X-B: c"), want: "missing_field"},
		attempt{name: "a header as large as a message may be", wire: hpub("", nonsense, "X: "+strings.Repeat("x", broker.MaxPayload-1024)), want: "missing_field"},
		attempt{name: "a header that is larger", wire: hpub("", nonsense, "X: "+strings.Repeat("x", broker.MaxPayload)), want: refusedByBroker},
		attempt{name: "a message that is larger", wire: pub("intake.agent.piper", "", strings.Repeat("x", broker.MaxPayload+1)), want: refusedByBroker},
		attempt{name: "a subject without end", wire: "PUB intake.agent.piper." + strings.Repeat("x", 8192) + " 0\r\n\r\n", want: refusedByBroker},
		attempt{name: "speaking as a cluster's server", wire: "RS+ STORE ledger.>\r\n", want: refusedByBroker},
		attempt{name: "speaking as a leaf node", wire: "LS+ ledger.>\r\n", want: refusedByBroker},
	)
}

// claims are payloads by which Piper would be somebody else.
func claims(t testing.TB, theirs, future string) (out []attempt) {
	say := func(name, body, want string) {
		out = append(out, attempt{name: name, wire: pub("intake.agent.piper", "_INBOX.own.1", body), want: want})
	}
	with := func(member string) string { return strings.Replace(string(gate(t)), "{", "{"+member+",", 1) }
	good := string(gate(t))
	as := func(typ string) string { return string(mustExample(t, typ)) }
	// Members of the envelope that nobody knows are hers to say, and nobody reads them.
	say("a principal in the event", with(`"principal":"operator/main"`), taken)
	say("a namespace in the event", with(`"namespace":"bench/run1"`), taken)
	say("a position in the event", with(`"seq":1`), taken)
	say("a principal in the data", strings.Replace(good, `"data":{`, `"data":{"principal":"operator/main",`, 1), "unknown_field")
	say("a namespace in the data", strings.Replace(good, `"data":{`, `"data":{"namespace":"bench/run1",`, 1), "unknown_field")
	say("a second value behind the event", good+`,"principal":"operator/main"}`, "bad_json")
	say("a record as the event", `{"v":1,"seq":1,"prev":"00","recorded_at":"2026-01-01T00:00:00Z","principal":"operator/main","namespace":"production","event":`+good+`}`, "unknown_field")
	say("a verdict", as("prediction.resolved"), "forbidden_type")
	say("an opportunity of the detector", as("opportunity.detected"), "forbidden_type")
	say("the logger's own record", as("logger.started"), "forbidden_type")
	say("the opening of a ledger", as("ledger.opened"), "forbidden_type")
	say("a rejection of somebody else", as("intake.rejected"), "forbidden_type")
	say("the operator's acknowledgement", as("ledger.foreign_acknowledged"), "forbidden_type")
	say("sealed telemetry", as("telemetry.sealed"), "forbidden_type")
	say("an event of a type that is newer than the logger", strings.Replace(good, "gate.chosen", "gate.widened", 2), "unknown_type")
	say("an event of a newer version", strings.Replace(good, "gate.chosen:1", "gate.chosen:2", 1), "unknown_version")
	for name, id := range map[string]string{"another's event id": theirs, "the id of another's event that is yet to come": future} {
		own := gate(t)
		say(name, strings.Replace(string(own), idOf(t, own), id, 1), taken)
	}
	return out
}

// Piper tries everything that she must not: each attempt is refused or without
// effect, and the ledger is byte for byte what it was, but for her rejections.
func TestAgentCannot(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	other := e.Connect("dispatcher.main")
	theirs := mustToolOf(t)
	receipt := request(t, other, "intake.dispatcher.main", theirs)
	eavesdrop := e.Connect("operator.main")
	strays, err := eavesdrop.SubscribeSync("_INBOX.>")
	if err != nil {
		t.Fatal(err)
	}
	stirs, err := other.SubscribeSync("_INBOX.other.>")
	if err != nil {
		t.Fatal(err)
	}
	before := e.bodies()
	consumers := e.consumers()

	table := append(forbiddenSubscriptions(), forbiddenSubjects()...)
	table = append(append(table, replyTricks()...), headerTricks()...)
	future := mustToolOf(t)
	table = append(table, claims(t, idOf(t, theirs), idOf(t, future))...)
	if len(table) < 40 {
		t.Fatalf("only %d attempts", len(table))
	}
	want, own := map[string]int64{}, 0
	for _, a := range table {
		t.Run(a.name, func(t *testing.T) {
			w := e.dialWire("agent.piper", nil)
			w.t = t
			w.send(a.wire)
			refusals, heard := w.settle()
			// Others are heard meanwhile: the same event again is the same receipt.
			if again := request(t, other, "intake.dispatcher.main", theirs); again.Seq != receipt.Seq || again.Leaf != receipt.Leaf {
				t.Errorf("the other's receipt is %+v, want %+v", again, receipt)
			}
			_, late := w.settle()
			if heard = append(heard, late...); len(heard) > 0 {
				t.Errorf("heard %.200q", heard)
			}
			if n := want[a.want] + 1; a.want != refusedByBroker && a.want != noEffect && a.want != taken {
				await(t, "its rejection as "+a.want, func() bool { return int64(r.Status().Rejected[a.want]) >= n })
			}
			if refused := len(refusals) > 0; refused != (a.want == refusedByBroker) && a.want != noEffect {
				t.Errorf("refusals %q, want %s", refusals, a.want)
			}
		})
		switch a.want {
		case refusedByBroker, noEffect:
		case taken:
			own++
		default:
			want[a.want]++
		}
	}
	// Her connections claim to be others.
	for name, claim := range map[string]map[string]any{
		"another's key":   {"nkey": e.Credential("operator.main").Public},
		"the store's key": {"nkey": e.Credential(principal.LoggerStore).Public},
		"no key at all":   {"nkey": "", "sig": ""},
		"a user's name":   {"nkey": "", "sig": "", "user": "operator.main", "pass": "x"},
	} {
		t.Run("connect with "+name, func(t *testing.T) {
			w := e.dialWire("agent.piper", claim)
			w.send(pub("intake.operator.main", "", nonsense))
			if refusals, _ := w.settle(); len(refusals) == 0 || !strings.Contains(refusals[0], "Authorization Violation") {
				t.Errorf("refusals %q", refusals)
			}
		})
	}
	if a := request(t, other, "intake.dispatcher.main", future); a.Error != nil {
		t.Errorf("the other's next event: %+v", a.Error)
	}
	if n, _, _ := strays.Pending(); n > 0 {
		t.Errorf("the operator's inbox heard %d messages", n)
	}
	if n, _, _ := stirs.Pending(); n > 0 {
		t.Errorf("the other's inbox heard %d messages", n)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got := e.consumers(); got > consumers {
		t.Errorf("LEDGER has %d consumers, had %d", got, consumers)
	}
	e.mustBeConsistent(-1)
	e.mustHaveOnlyGrown(before, want, own)
}

func (e *env) consumers() int {
	e.t.Helper()
	m, err := e.Connect(principal.LoggerStore).Request("$JS.API.STREAM.INFO.LEDGER", nil, 10*time.Second)
	if err != nil {
		e.t.Fatal(err)
	}
	var info struct {
		State struct {
			Consumers int `json:"consumer_count"`
		} `json:"state"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		e.t.Fatal(err)
	}
	return info.State.Consumers
}

// mustHaveOnlyGrown holds the ledger against what it was: behind that stand
// Piper's rejections, counted by code, her own events, one event of the
// dispatcher's, and what the logger says of itself.
func (e *env) mustHaveOnlyGrown(before [][]byte, want map[string]int64, own int) {
	e.t.Helper()
	after := e.bodies()
	got, events := map[string]int64{}, map[string]int{}
	for i, body := range after {
		if i < len(before) {
			if !bytes.Equal(body, before[i]) {
				e.t.Errorf("record %d was changed", i+1)
			}
			continue
		}
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			e.t.Fatal(err)
		}
		e.classify(rec, got, events)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.t.Errorf("rejections by code %v, want %v", got, want)
	}
	if events["agent/piper production"] != own || events["dispatcher/main production"] != 1 || len(events) != 2 {
		e.t.Errorf("events by author %v, want %d of agent/piper and one of dispatcher/main", events, own)
	}
}

func (e *env) classify(rec ledger.Record, rejected map[string]int64, authors map[string]int) {
	e.t.Helper()
	ev, err := events.Decode(rec.Event)
	if err != nil {
		e.t.Fatal(err)
	}
	switch d := ev.Data.(type) {
	case *events.IntakeRejected:
		if d.Principal != "agent/piper" {
			e.t.Errorf("a rejection of %s", d.Principal)
		}
		rejected[d.Code] += d.Count
	case *events.ClockTicked, *events.ClockStepped:
	default:
		authors[rec.Principal+" "+rec.Namespace]++
	}
}

// A producer that is newer than the logger is told so, by a code of its own
// for a type and for a version, and may send the event again once the logger
// knows it: a refused id is free.
func TestNewerSchemaIsRefused(t *testing.T) {
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	good := string(gate(t))
	for _, c := range []struct{ name, raw, code, pointer string }{
		{"type", strings.Replace(good, "gate.chosen", "gate.widened", 2), "unknown_type", "/type"},
		{"version", strings.Replace(good, "gate.chosen:1", "gate.chosen:2", 1), "unknown_version", "/dataschema"},
	} {
		a := request(t, nc, "intake.agent.piper", []byte(c.raw))
		if a.code() != c.code || a.Error.Pointer != c.pointer || a.Error.RetryAfter != nil {
			t.Errorf("a newer %s: %+v", c.name, a.Error)
		}
	}
	if a := request(t, nc, "intake.agent.piper", []byte(good)); a.Error != nil || a.Seq == 0 {
		t.Errorf("the same id in a version that is known: %+v", a)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	got, authors := map[string]int64{}, map[string]int{}
	for _, body := range e.bodies()[2:] {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		e.classify(rec, got, authors)
	}
	if fmt.Sprint(got) != fmt.Sprint(map[string]int64{"unknown_type": 1, "unknown_version": 1}) || authors["agent/piper production"] != 1 {
		t.Errorf("rejections %v, events %v", got, authors)
	}
}
