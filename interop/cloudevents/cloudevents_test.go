package cloudevents

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/protocol/nats/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/protocol"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
)

const token = "0123456789abcdef0123456789abcdef"

// house is an installation that runs, whose gateway listens at addr.
type house struct {
	t         *testing.T
	bin, dir  string
	addr, url string
}

func (h *house) assay(args ...string) []byte {
	h.t.Helper()
	cmd := exec.Command(h.bin, append([]string{"--dir", h.dir, "--json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("assay %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return out
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, bin: filepath.Join(t.TempDir(), "assay"), dir: filepath.Join(t.TempDir(), "ledger")}
	build := exec.Command("go", "build", "-o", h.bin, "./cmd/assay")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build assay: %v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + h.addr + "/v1/events"
	h.assay("init", "--offline-dir", t.TempDir())
	for name, content := range map[string]string{
		"creds/agent.piper.token": token + "\n",
		"gateway.json":            `{"v":1,"tcp":"` + h.addr + `","callers":[{"token_file":"creds/agent.piper.token","principal":"agent/piper"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.up()
	return h
}

func (h *house) up() {
	h.t.Helper()
	cmd := exec.Command(h.bin, "--dir", h.dir, "up", "--gateway")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			h.t.Errorf("up: %v", err)
		}
		if h.t.Failed() {
			h.t.Logf("up says:\n%s", &log)
		}
	})
	h.until("the gateway's port opens", func() bool {
		c, err := net.Dial("tcp", h.addr)
		return err == nil && c.Close() == nil
	})
}

func (h *house) until(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// shown is whether the ledger has an event, by its id.
func (h *house) shown(id string) bool {
	h.t.Helper()
	return exec.Command(h.bin, "--dir", h.dir, "--json", "show", id).Run() == nil
}

func (h *house) nats() *natsgo.Conn {
	h.t.Helper()
	url, err := os.ReadFile(filepath.Join(h.dir, "run/nats.url"))
	if err != nil {
		h.t.Fatal(err)
	}
	sign, err := natsgo.NkeyOptionFromSeed(filepath.Join(h.dir, "creds/agent.piper.nk"))
	if err != nil {
		h.t.Fatal(err)
	}
	nc, err := natsgo.Connect(strings.TrimSpace(string(url)), sign)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(nc.Close)
	return nc
}

// client posts with the token, as users of the SDK do it.
func (h *house) client() cloudevents.Client {
	h.t.Helper()
	c, err := cloudevents.NewClientHTTP(cehttp.WithTarget(h.url), cehttp.WithHeader("Authorization", "Bearer "+token))
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// gate is an event as the SDK makes it.
func gate(t testing.TB) event.Event {
	t.Helper()
	e := cloudevents.NewEvent()
	e.SetID(uuid.Must(uuid.NewV7()).String())
	e.SetSource("urn:piper/é%20")
	e.SetType("gate.chosen")
	e.SetSubject("what to do?")
	e.SetTime(time.Now())
	e.SetDataSchema("urn:assay:gate.chosen:1")
	e.SetExtension("episodeid", "e1")
	e.SetExtension("flagged", true)
	e.SetExtension("attempt", 3)
	if err := e.SetData(cloudevents.ApplicationJSON, map[string]any{"context": map[string]any{}, "action": "KNOW"}); err != nil {
		t.Fatal(err)
	}
	return e
}

// post sends a request that the SDK made, and reads the answer.
func (h *house) post(req *http.Request) (status int, body []byte) {
	h.t.Helper()
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, body
}

type answer struct {
	Leaf  string `json:"leaf"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

func read[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func TestModes(t *testing.T) {
	h := newHouse(t)
	t.Run("HTTP", func(t *testing.T) { overHTTP(t, h) })
	t.Run("batch", func(t *testing.T) { batch(t, h) })
	t.Run("NATS", func(t *testing.T) { overNATS(t, h) })
	t.Run("conformance", func(t *testing.T) { conformance(t, h) })
}

// overHTTP: the SDK's client in both modes; one event is the same in each.
func overHTTP(t *testing.T, h *house) {
	for name, mode := range map[string]func(context.Context) context.Context{"binary": binding.WithForceBinary, "structured": binding.WithForceStructured} {
		e := gate(t)
		if result := h.client().Send(mode(t.Context()), e); !protocol.IsACK(result) {
			t.Errorf("%s: %v", name, result)
		}
		h.until(name+" is in the ledger", func() bool { return h.shown(e.ID()) })
		e.SetType("logger.started")
		if result := h.client().Send(mode(t.Context()), e); protocol.IsACK(result) {
			t.Errorf("%s: a logger's event was taken", name)
		}
	}
}

func batch(t *testing.T, h *house) {
	one, two, bad := gate(t), gate(t), gate(t)
	bad.SetType("prediction.resolved")
	bad.SetDataSchema("urn:assay:prediction.resolved:1")
	req, err := cehttp.NewHTTPRequestFromEvents(t.Context(), h.url, []event.Event{one, bad, two})
	if err != nil {
		t.Fatal(err)
	}
	status, body := h.post(req)
	answers := read[[]answer](t, body)
	if status != http.StatusOK || len(answers) != 3 || answers[0].Leaf == "" || answers[1].Error == nil || answers[2].Leaf == "" {
		t.Errorf("%d %s", status, body)
	}
}

// overNATS: the SDK's sender is structured and asks for no answer. It has no
// binary mode of its own for NATS; the binding has the headers of HTTP, which the
// SDK writes.
func overNATS(t *testing.T, h *house) {
	nc := h.nats()
	sender, err := nats.NewSenderFromConn(nc, "intake.agent.piper")
	if err != nil {
		t.Fatal(err)
	}
	e := gate(t)
	if err := sender.Send(t.Context(), (*binding.EventMessage)(&e)); err != nil {
		t.Fatal(err)
	}
	h.until("what the sender sent is in the ledger", func() bool { return h.shown(e.ID()) })

	e = gate(t)
	req, err := cehttp.NewHTTPRequestFromEvent(t.Context(), h.url, e)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	leaves := map[string]bool{}
	for name, header := range map[string]natsgo.Header{"as HTTP has them": natsgo.Header(req.Header), "in lower case": lower(req.Header)} {
		m, err := nc.RequestMsg(&natsgo.Msg{Subject: "intake.agent.piper", Header: header, Data: data}, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		a := read[answer](t, m.Data)
		if a.Leaf == "" {
			t.Errorf("headers %s: %s", name, m.Data)
		}
		leaves[a.Leaf] = true
	}
	// The same event by HTTP is the same bytes: its first receipt.
	if req, err = cehttp.NewHTTPRequestFromEvent(t.Context(), h.url, e); err != nil {
		t.Fatal(err)
	}
	status, body := h.post(req)
	if leaves[read[answer](t, body).Leaf] = true; status != http.StatusOK || len(leaves) != 1 {
		t.Errorf("%d %s: %v", status, body, leaves)
	}
}

func lower(h http.Header) natsgo.Header {
	out := natsgo.Header{}
	for name, values := range h {
		out[strings.ToLower(name)] = values
	}
	return out
}

// conformance restates the public conformance events (structured JSON) for an
// event of ours: what is valid there is taken, what is invalid there is not.
// assay asks for more than the specification: an id that is a UUID, a known type,
// a time, its dataschema, an object of JSON as data, and no member that is null.
func conformance(t *testing.T, h *house) {
	send := func(changes map[string]any, contentType string) (int, []byte) {
		e := map[string]any{
			"specversion": "1.0", "id": uuid.Must(uuid.NewV7()).String(), "source": "https://example.com", "type": "gate.chosen", "time": "2018-04-05T17:31:00Z",
			"dataschema": "urn:assay:gate.chosen:1", "data": map[string]any{"context": map[string]any{}, "action": "KNOW"},
		}
		for name, v := range changes {
			if e[name] = v; v == drop {
				delete(e, name)
			}
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest("POST", h.url, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		return h.post(req)
	}
	const structured = "application/cloudevents+json"
	for name, valid := range map[string]map[string]any{
		"minimal":                nil,
		"UTC":                    {"time": "2018-04-05T17:31:00Z"},
		"nanoseconds":            {"time": "2018-04-05T17:31:00.000000000Z"},
		"positive offset":        {"time": "2018-04-05T18:31:00+01:00"},
		"negative offset":        {"time": "2018-04-05T16:31:00-01:00"},
		"relative source":        {"source": "#fragment"},
		"all core attributes":    {"datacontenttype": "application/json", "subject": "tests"},
		"extensions of any type": {"extinteger": 10, "extboolean": true, "extstring": "text", "exturi": "https://example.com", "exturiref": "//authority/path", "exttimestamp": "2023-03-31T15:12:00Z", "extbinary": "TWE="},
	} {
		for _, contentType := range []string{structured, structured + "; charset=utf-8"} {
			if status, body := send(valid, contentType); status != http.StatusOK {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
	}
	for name, invalid := range map[string]map[string]any{
		"no specversion":         {"specversion": drop},
		"no id":                  {"id": drop},
		"no type":                {"type": drop},
		"no source":              {"source": drop},
		"time is no time":        {"time": "lunchtime"},
		"time to the minute":     {"time": "2018-04-05T18:31Z"},
		"offset X":               {"time": "2018-04-05T18:31:00X"},
		"offset out of range":    {"time": "2018-04-05T18:31:00+25:00"},
		"offset in words":        {"time": "2018-04-05T18:31:00+xx:00"},
		"offset of hours alone":  {"time": "2018-04-05T18:31:00+05"},
		"empty id":               {"id": ""},
		"empty type":             {"type": ""},
		"empty source":           {"source": ""},
		"empty specversion":      {"specversion": ""},
		"another specversion":    {"specversion": "0.9"},
		"datacontenttype":        {"datacontenttype": "xyz"},
		"empty datacontenttype":  {"datacontenttype": ""},
		"empty dataschema":       {"dataschema": ""},
		"empty subject":          {"subject": ""},
		"id is a number":         {"id": 25},
		"id is an object":        {"id": map[string]any{"xyz": "abc"}},
		"extension in capitals":  {"MyExtension": "bad"},
		"extension with a dot":   {"my.extension": "bad"},
		"extension is a decimal": {"myextension": 1.5},
		"data twice":             {"data_base64": "eyAieHl6IjogMTIzIH0="},
	} {
		status, body := send(invalid, structured)
		if a := read[answer](t, body); status/100 != 4 || a.Error == nil || a.Error.Code == "" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	// The features of the HTTP binding: the same request with either form of the
	// content type is one event, to the byte.
	id := uuid.Must(uuid.NewV7()).String()
	leaves := map[string]bool{}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		req, err := http.NewRequest("POST", h.url, strings.NewReader("{\n    \"context\": {}, \"action\": \"TEST\"\n}"))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"ce-specversion": "1.0", "ce-type": "gate.chosen", "ce-time": "2018-04-05T03:56:24Z", "ce-id": id, "ce-source": "/mycontext/subcontext",
			"ce-dataschema": "urn:assay:gate.chosen:1", "Content-Type": contentType,
		} {
			req.Header.Set(name, value)
		}
		status, body := h.post(req)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", contentType, status, body)
		}
		leaves[read[answer](t, body).Leaf] = true
	}
	if len(leaves) != 1 {
		t.Errorf("%v", leaves)
	}
}

// drop takes a member away.
var drop = struct{}{}
