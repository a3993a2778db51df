package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/events/eventstest"
	"assay/events/publish"
	"assay/internal/principal"
	"assay/internal/usertest"
	"assay/ledger"
)

// gatewayHouse is a broker and a gateway; the logger comes and goes.
type gatewayHouse struct {
	t      *testing.T
	dir    Dir
	socket string
	broker *kept
	hub    *Hub
	gate   *Gateway
	logger context.CancelFunc
	ended  chan error
}

func newGatewayHouse(t *testing.T, file string) *gatewayHouse {
	t.Helper()
	open, err := os.MkdirTemp("", "assay-gateway-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &gatewayHouse{t: t, dir: Dir(t.TempDir()), socket: filepath.Join(open, "gateway.sock")}
	if _, err := Init(t.Context(), InitConfig{Dir: h.dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := principal.Dir(h.dir).Add(principal.New(principal.Agent, "other", "production")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.dir.GatewayFile(), []byte(strings.ReplaceAll(file, "SOCKET", h.socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	if h.broker, err = startBroker(UpConfig{Dir: h.dir, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.broker.stop(); err != nil {
			t.Error(err)
		}
	})
	h.hub = EmbeddedHub(h.broker.Broker, h.dir.Creds())
	return h
}

func (h *gatewayHouse) startLogger() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := StartLogger(ctx, h.hub, UpConfig{Dir: h.dir, Software: "test", Log: zerolog.Nop()})
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	h.logger, h.ended = cancel, make(chan error, 1)
	go func() { h.ended <- l.Wait() }()
	h.t.Cleanup(h.stopLogger)
}

func (h *gatewayHouse) stopLogger() {
	h.t.Helper()
	if h.logger == nil {
		return
	}
	h.logger()
	if err := <-h.ended; err != nil && !errors.Is(err, context.Canceled) {
		h.t.Error(err)
	}
	h.logger = nil
}

func (h *gatewayHouse) startGateway() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	if h.gate, err = StartGateway(ctx, h.dir, h.hub, GatewayConfig{LowWater: 1, Patience: 300 * time.Millisecond, Log: zerolog.Nop()}); err != nil {
		cancel()
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cancel()
		if err := h.gate.Wait(); err != nil {
			h.t.Error(err)
		}
	})
}

// post sends a body as a uid, which must be the test's own unless that is root.
func (h *gatewayHouse) post(uid int, contentType string, body []byte) (status int, answer string) {
	h.t.Helper()
	return h.send(uid, "POST", "events", contentType, body)
}

// put uploads a blob.
func (h *gatewayHouse) put(content string) (status int, answer string) {
	h.t.Helper()
	return h.send(os.Getuid(), "PUT", "blobs", "", []byte(content))
}

func (h *gatewayHouse) send(uid int, method, to, contentType string, body []byte) (status int, answer string) {
	h.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return usertest.Dial(h.t, h.socket, uid) },
	}}
	req, err := http.NewRequest(method, "http://gateway/v1/"+to, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// settled posts until the answer is the ledger's: on a busy machine it may take
// longer than the gateway's patience.
func (h *gatewayHouse) settled(uid int, raw []byte) (status int, answer string) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		status, answer = h.post(uid, oneEvent, raw)
		if status != 202 || time.Now().After(deadline) {
			return status, answer
		}
	}
}

// recorded are the records behind the first two that no clock tick made.
func (h *gatewayHouse) recorded() (out []ledger.Record) {
	h.t.Helper()
	s, nc, err := h.hub.OpenReader(principal.ReadOperator)
	if err != nil {
		h.t.Fatal(err)
	}
	defer nc.Close()
	head, err := s.Head(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	err = s.Read(h.t.Context(), 1, head.Last, func(_ ledger.Seq, body []byte) error {
		r, err := ledger.ParseRecord(body)
		if err == nil && !strings.HasPrefix(r.Principal, "logger/") {
			out = append(out, r)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

const oneEvent = "application/cloudevents+json"

// TestGateway: receipts of the real ledger, an absence of the logger, a full
// spool, and the return.
func TestGateway(t *testing.T) {
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","spool_bytes":3000,"callers":[{"uid":%d,"principal":"agent/piper"}]}`, os.Getuid()))
	h.startLogger()
	h.startGateway()
	uid := os.Getuid()
	var want []string
	first := eventstest.Gate(t)
	status, answer := h.settled(uid, first)
	var receipt publish.Answer
	if err := json.Unmarshal([]byte(answer), &receipt); err != nil || status != 200 || receipt.Seq == nil || receipt.Leaf == "" {
		t.Fatalf("%d %s", status, answer)
	}
	want = append(want, string(first))
	if _, again := h.settled(uid, first); again != answer {
		t.Errorf("the same event again: %s, first %s", again, answer)
	}
	other := bytes.Replace(first, []byte("KNOW"), []byte("TEST"), 1)
	if status, answer := h.settled(uid, other); status != 409 || !strings.Contains(answer, `"conflict"`) {
		t.Errorf("other bytes: %d %s", status, answer)
	}
	if status, answer := h.settled(uid, []byte("nonsense")); status != 400 || !strings.Contains(answer, `"bad_json"`) {
		t.Errorf("nonsense: %d %s", status, answer)
	}
	if status, answer := h.settled(uid, bytes.Replace(eventstest.Gate(t), []byte("KNOW"), bytes.Repeat([]byte("K"), 70_000), 1)); status != 413 || !strings.Contains(answer, "dataref") {
		t.Errorf("large: %d %s", status, answer)
	}

	h.stopLogger()
	full := false
	for range 20 {
		raw := eventstest.Gate(t)
		status, answer := h.post(uid, oneEvent, raw)
		if full = status == 503; full {
			if !strings.Contains(answer, `"spool_full"`) {
				t.Errorf("%d %s", status, answer)
			}
			break
		}
		if status != 202 || !strings.Contains(answer, `{"spooled":true,"id":"`) {
			t.Fatalf("%d %s", status, answer)
		}
		want = append(want, string(raw))
	}
	spool := h.gate.StatusOf().Spools["agent/piper"]
	if !full || spool.Events != len(want)-1 || spool.Bytes == 0 || len(want) < 4 {
		t.Fatalf("full: %v, %+v", full, spool)
	}
	h.startLogger()
	h.drained("agent/piper")
	last := eventstest.Gate(t)
	if status, answer := h.settled(uid, last); status != 200 {
		t.Errorf("after the return: %d %s", status, answer)
	}
	want = append(want, string(last))
	var got []string
	for _, r := range h.recorded() {
		if r.Principal != "agent/piper" {
			t.Errorf("record %d is of %s", r.Seq, r.Principal)
		}
		got = append(got, string(r.Event))
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %d events, want %d, or in another order", len(got), len(want))
	}
	if st := h.gate.StatusOf(); st.Spooled < uint64(len(want)-2) || st.Refused["conflict"] == 0 || st.Refused["spool_full"] != 1 {
		t.Errorf("%+v", st)
	}
}

func (h *gatewayHouse) drained(id string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if err := h.gate.outlets[id].spool.Drained(ctx); err != nil {
		h.t.Fatalf("%v: %+v", err, h.gate.StatusOf())
	}
}

// TestGatewayKnowsItsCallers: a real second user's events are recorded as her
// principal's, another's are not taken.
func TestGatewayKnowsItsCallers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: no second Unix user is made")
	}
	name := addUser(t)
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","mode":"0666","callers":[{"user":%q,"principal":"agent/other"},{"uid":0,"principal":"agent/piper"}]}`, name))
	h.startLogger()
	h.startGateway()
	hers, own := eventstest.Gate(t), eventstest.Gate(t)
	for _, c := range []struct {
		uid    int
		raw    []byte
		status int
	}{{uid, hers, 200}, {0, own, 200}, {uid + 100_000, eventstest.Gate(t), 403}} {
		if status, answer := h.settled(c.uid, c.raw); status != c.status {
			t.Errorf("uid %d: %d %s", c.uid, status, answer)
		}
	}
	records := h.recorded()
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		want := "agent/piper"
		if string(r.Event) == string(hers) {
			want = "agent/other"
		}
		if r.Principal != want {
			t.Errorf("record %d is of %s, want %s", r.Seq, r.Principal, want)
		}
	}
}

// addUser makes a system user for the time of the test.
func addUser(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("assayt%d", os.Getpid())
	if out, err := exec.Command("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name).CombinedOutput(); err != nil {
		t.Skipf("no second Unix user can be made: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("userdel", name).CombinedOutput(); err != nil {
			t.Errorf("remove the user %s: %v %s", name, err, out)
		}
	})
	return name
}

// TestGatewayOutlastsItsConfiguration: what was promised to a caller who is no
// longer listed is delivered all the same.
func TestGatewayOutlastsItsConfiguration(t *testing.T) {
	file := `{"v":1,"socket":"SOCKET","callers":[{"uid":%d,"principal":"agent/%s"}]}`
	h := newGatewayHouse(t, fmt.Sprintf(file, os.Getuid(), "other"))
	ctx, cancel := context.WithCancel(t.Context())
	g, err := StartGateway(ctx, h.dir, h.hub, GatewayConfig{Patience: time.Millisecond, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	raw := eventstest.Gate(t)
	if status, answer := h.post(os.Getuid(), oneEvent, raw); status != 202 {
		t.Errorf("%d %s", status, answer)
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.dir.GatewayFile(), []byte(strings.ReplaceAll(fmt.Sprintf(file, os.Getuid(), "piper"), "SOCKET", h.socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.startGateway()
	h.startLogger()
	h.drained("agent/other")
	if records := h.recorded(); len(records) != 1 || records[0].Principal != "agent/other" || !bytes.Equal(records[0].Event, raw) {
		t.Errorf("%d records", len(records))
	}
}

// TestGatewayReload: another file holds without a restart; what is spooled for a
// caller who is no longer listed is delivered, and a wrong file changes nothing.
func TestGatewayReload(t *testing.T) {
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","callers":[{"uid":%d,"principal":"agent/other"}]}`, os.Getuid()))
	h.startGateway()
	hers, own := eventstest.Gate(t), eventstest.Gate(t)
	if status, answer := h.post(os.Getuid(), oneEvent, hers); status != 202 {
		t.Fatalf("%d %s", status, answer)
	}
	reload := func(file string) error {
		t.Helper()
		text := strings.NewReplacer("SOCKET", h.socket, "OWN", strconv.Itoa(os.Getuid())).Replace(file)
		if err := os.WriteFile(h.dir.GatewayFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return h.gate.Reload()
	}
	if err := reload(`{"v":1,"socket":"SOCKET","spool_bytes":3000,"callers":[{"uid":OWN,"principal":"agent/piper"}]}`); err != nil {
		t.Fatal(err)
	}
	if status, answer := h.post(os.Getuid(), oneEvent, own); status != 202 {
		t.Fatalf("%d %s", status, answer)
	}
	for name, file := range map[string]string{
		"no JSON":       `{"v":1,`,
		"no credential": `{"v":1,"socket":"SOCKET","spool_bytes":9999,"callers":[{"uid":1,"principal":"dispatcher/main"},{"uid":2,"principal":"agent/nobody"}]}`,
		"other socket":  `{"v":1,"socket":"SOCKET.other","callers":[{"uid":1,"principal":"detector/main"}]}`,
	} {
		if err := reload(file); err == nil {
			t.Errorf("%s: taken up", name)
		}
	}
	spools := h.gate.StatusOf().Spools
	if len(spools) != 2 || spools["agent/other"].Events != 1 || spools["agent/piper"].Events != 1 || spools["agent/piper"].Limit != 3000 || spools["agent/other"].Limit != 3000 {
		t.Errorf("after the wrong files: %+v", spools)
	}
	// What a wrong file opened was closed again, so that a right one can have it.
	if err := reload(`{"v":1,"socket":"SOCKET","callers":[{"uid":OWN,"principal":"agent/piper"},{"uid":1,"principal":"dispatcher/main"},{"uid":2,"principal":"detector/main"}]}`); err != nil {
		t.Fatal(err)
	}
	h.startLogger()
	h.drained("agent/other")
	h.drained("agent/piper")
	if status, answer := h.settled(os.Getuid(), eventstest.Gate(t)); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	got := map[string]string{}
	for _, r := range h.recorded() {
		got[string(r.Event)] = r.Principal
	}
	if len(got) != 3 || got[string(hers)] != "agent/other" || got[string(own)] != "agent/piper" {
		t.Errorf("recorded %v", got)
	}
}

// TestGatewayOnAHostOfItsOwn has no blob store and makes none, where nobody would
// find what is in it; an event that names a blob goes through.
func TestGatewayOnAHostOfItsOwn(t *testing.T) {
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","callers":[{"uid":%d,"principal":"agent/piper"}]}`, os.Getuid()))
	if err := os.Remove(h.dir.Blobs()); err != nil {
		t.Fatal(err)
	}
	h.startLogger()
	h.startGateway()
	if status, answer := h.put("what was said"); status != 501 || !strings.Contains(answer, `"no_blob_store"`) {
		t.Errorf("%d %s", status, answer)
	}
	if _, err := os.Stat(h.dir.Blobs()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made: %v", err)
	}
	ref := `"dataref":"sha256:` + strings.Repeat("ab", 32) + `","data":`
	raw := bytes.Replace(eventstest.Gate(t), []byte(`"data":`), []byte(ref), 1)
	if status, answer := h.settled(os.Getuid(), raw); status != 200 {
		t.Errorf("an event with a dataref: %d %s", status, answer)
	}
}

// TestGatewayBlobs: uploads land in the directory's store, and leave the logger
// its room.
func TestGatewayBlobs(t *testing.T) {
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","blob_bytes":1000,"callers":[{"uid":%d,"principal":"agent/piper"}]}`, os.Getuid()))
	h.startGateway()
	status, answer := h.put("what was said")
	list, err := ListBlobs(h.dir, nil)
	if err != nil || status != 201 || len(list.Blobs) != 1 || !strings.Contains(answer, list.Blobs[0].Ref) {
		t.Fatalf("%d %s, %+v, %v", status, answer, list, err)
	}
	h.gate.cfg.LowWater = 1 << 60
	if status, answer := h.put("what was said"); status != 503 || !strings.Contains(answer, "uploads leave") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestGatewayRevokedPrincipal: whom the broker does not let in any more is told
// so, and is promised nothing.
func TestGatewayRevokedPrincipal(t *testing.T) {
	h := newGatewayHouse(t, fmt.Sprintf(`{"v":1,"socket":"SOCKET","callers":[{"uid":%d,"principal":"agent/other"}]}`, os.Getuid()))
	h.startLogger()
	h.startGateway()
	if status, answer := h.settled(os.Getuid(), eventstest.Gate(t)); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if err := principal.Dir(h.dir).Revoke("agent/other", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := h.broker.Reload(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, answer := h.post(os.Getuid(), oneEvent, eventstest.Gate(t))
		if status == 403 && strings.Contains(answer, `"forbidden"`) {
			break
		}
		if status != 202 || time.Now().After(deadline) {
			t.Fatalf("%d %s", status, answer)
		}
	}
	if records := h.recorded(); len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
}

func TestGatewayRefusesToStart(t *testing.T) {
	for name, c := range map[string][2]string{
		"nobody of that name": {`{"v":1,"socket":"SOCKET","callers":[{"uid":1,"principal":"agent/nobody"}]}`, "no credential of agent/nobody"},
		"a wrong file":        {`{"v":1,"socket":"SOCKET"}`, "gateway.json"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &gatewayHouse{t: t, dir: Dir(t.TempDir())}
			if err := os.WriteFile(h.dir.GatewayFile(), []byte(c[0]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := StartGateway(t.Context(), h.dir, RemoteHub("nats://127.0.0.1:1", h.dir.Creds()), GatewayConfig{}); err == nil || !strings.Contains(err.Error(), c[1]) {
				t.Errorf("%v", err)
			}
		})
	}
}
