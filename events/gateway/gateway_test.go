package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"assay/events"
	"assay/events/gateway"
	"assay/events/publish"
	"assay/events/publish/spool"
	"assay/internal/blob"
	"assay/internal/versioned"
	"assay/schema"
)

// ledger is what stands behind the gateway: it answers as the test says.
type ledger struct {
	mu     sync.Mutex
	events []string
	answer func(event []byte) publish.Answer // nil: schema.Check decides
	err    error
}

// PublishBatch implements gateway.Publisher.
func (l *ledger) PublishBatch(_ context.Context, batch [][]byte) ([]publish.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]publish.Answer, len(batch))
	if l.err != nil {
		return out, l.err
	}
	for i, e := range batch {
		if l.answer != nil {
			out[i] = l.answer(e)
			continue
		}
		if _, fault := schema.Check(e); fault != nil {
			out[i].Refusal = &publish.Refusal{Code: string(fault.Code), Pointer: fault.Pointer, Message: fault.Message}
			continue
		}
		l.events = append(l.events, string(e))
		seq := uint64(len(l.events))
		out[i].Receipt = publish.Receipt{Seq: &seq, Leaf: "ab", RecordedAt: "2026-01-01T00:00:00.000000000Z"}
	}
	return out, nil
}

func (l *ledger) taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.events...)
}

// The uids of callers beside the test's own; they need no user to be listed.
const (
	otherUID   = 54_321
	unknownUID = 54_322
)

// door is a running gateway.
type door struct {
	*gateway.Gateway
	t      testing.TB
	socket string
	piper  *ledger // of the test's own uid
	other  *ledger // of otherUID
	clock  clock
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t testing.TB, change func(*gateway.Config)) *door {
	t.Helper()
	dir, err := os.MkdirTemp("", "assay-gateway-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, socket: filepath.Join(dir, "gateway.sock"), piper: &ledger{}, other: &ledger{}, clock: clock{now: time.Unix(1e9, 0)}}
	own, other := uint32(os.Getuid()), uint32(otherUID)
	store, err := blob.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := gateway.Config{
		File: &gateway.File{Mode: "0666", Callers: []gateway.Caller{
			{UID: &own, Principal: "agent/piper", Rate: 1e6}, {UID: &other, Principal: "agent/other", Rate: 1e6},
		}},
		Dir: dir, Socket: d.socket, Now: d.clock.Now, Blobs: store, Random: rand.Reader,
		Publishers: map[string]gateway.Publisher{"agent/piper": d.piper, "agent/other": d.other},
	}
	if change != nil {
		change(&cfg)
	}
	if d.Gateway, err = gateway.Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// dialAs connects to the socket as another uid, which only root can.
func dialAs(t testing.TB, socket string, uid int) (net.Conn, error) {
	t.Helper()
	if uid == os.Getuid() {
		return net.Dial("unix", socket)
	}
	if os.Getuid() != 0 {
		t.Skip("not root: connections of another user are not tried")
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		// The raw call changes this thread alone, which ends with the goroutine
		// because it stays locked.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			done <- result{nil, errno}
			return
		}
		c, err := net.Dial("unix", socket)
		// The main thread would not end, and so stay the other user's.
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(os.Getuid()), ^uintptr(0)); errno != 0 {
			err = errors.Join(err, errno)
		}
		done <- result{c, err}
	}()
	r := <-done
	return r.conn, r.err
}

func (d *door) client(uid int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dialAs(d.t, d.socket, uid) },
	}}
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (d *door) do(uid int, method, path, contentType, body string, headers ...string) answer {
	d.t.Helper()
	return do(d.t, d.client(uid), "http://gateway"+path, method, contentType, body, headers...)
}

func do(t testing.TB, c *http.Client, url, method, contentType, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// code is the error code of an answer, "" without one.
func (a answer) code() string {
	var e publish.Answer
	if json.Unmarshal([]byte(a.body), &e) != nil || e.Refusal == nil {
		return ""
	}
	return e.Refusal.Code
}

func (d *door) post(contentType, body string, headers ...string) answer {
	d.t.Helper()
	return d.do(os.Getuid(), "POST", "/v1/events", contentType, body, headers...)
}

const (
	structured = "application/cloudevents+json"
	batch      = "application/cloudevents-batch+json"
	ndjson     = "application/x-ndjson"
)

func mustGate(t testing.TB) string {
	t.Helper()
	ev, err := events.Maker{Source: "urn:test"}.New(&events.GateChosen{Action: "KNOW"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := events.Encode(ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestShapes(t *testing.T) {
	d := open(t, nil)
	one, two := mustGate(t), mustGate(t)
	spaced := strings.ReplaceAll(one, `,"`, ",\n  \"")
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		answers, taken          int
		kind                    string
	}{
		{"one", structured, one, 200, 1, 1, "application/json"},
		{"one with a charset", structured + "; charset=utf-8", spaced, 200, 1, 1, "application/json"},
		{"a batch", batch, "[" + spaced + " , " + two + "]", 200, 2, 2, "application/json"},
		{"no event", batch, " [ ] ", 200, 0, 0, "application/json"},
		{"lines", ndjson, one + "\n\n" + two + "\r\n", 200, 2, 2, ndjson},
		{"lines with a bad one", ndjson, one + "\n{\"id\":\n" + two, 200, 3, 2, ndjson},
		{"a batch with a bad one", batch, "[" + one + `,{"a":1,"a":2}]`, 200, 2, 1, "application/json"},
		{"lines without any", ndjson, "\n", 200, 0, 0, ndjson},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(d.piper.taken())
			a := d.post(c.contentType, c.body)
			if a.status != c.status || a.header.Get("Content-Type") != c.kind {
				t.Fatalf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
			}
			n := strings.Count(a.body, `"leaf":`) + strings.Count(a.body, `"error":`)
			if n != c.answers || len(d.piper.taken())-before != c.taken {
				t.Errorf("%d answers, %d taken: %s", n, len(d.piper.taken())-before, a.body)
			}
			if c.kind == ndjson && strings.Count(a.body, "\n") != c.answers {
				t.Errorf("lines: %q", a.body)
			}
		})
	}
	for _, e := range d.piper.taken() {
		if strings.ContainsAny(e, "\n") || !strings.HasPrefix(e, `{"specversion"`) {
			t.Errorf("not compact: %s", e)
		}
	}
}

func TestStatuses(t *testing.T) {
	d := open(t, nil)
	retry := 2.5
	refusal := func(code string, retry *float64) func([]byte) publish.Answer {
		return func([]byte) publish.Answer {
			return publish.Answer{Refusal: &publish.Refusal{Code: code, Pointer: "/x", Message: "m", RetryAfter: retry}}
		}
	}
	id := uuid.Must(uuid.NewV7()).String()
	full := fmt.Errorf("%w: 10 of 10 bytes", spool.ErrFull)
	for _, c := range []struct {
		name, contentType, body string
		answer                  func([]byte) publish.Answer
		err                     error
		status                  int
		code, retryAfter        string
	}{
		{"malformed", structured, "nonsense", nil, nil, 400, "bad_json", ""},
		{"empty", structured, "", nil, nil, 400, "bad_json", ""},
		{"missing member", structured, "{}", nil, nil, 400, "missing_field", ""},
		{"a large event", structured, strings.Replace(mustGate(t), "KNOW", strings.Repeat("K", 70_000), 1), nil, nil, 413, "too_large", ""},
		{"a large body", structured, strings.Repeat(" ", gateway.MaxBody+1), nil, nil, 413, "too_large", ""},
		{"many events", ndjson, strings.Repeat("{}\n", gateway.MaxItems+1), nil, nil, 413, "too_many_events", ""},
		{"a batch that is none", batch, "{}", nil, nil, 400, "bad_json", ""},
		{"more behind a batch", batch, "[] []", nil, nil, 400, "bad_json", ""},
		{"a batch cut off", batch, "[{}", nil, nil, 400, "bad_json", ""},
		{"no type", "", "{}", nil, nil, 415, "unsupported_media_type", ""},
		{"plain JSON", "application/json", mustGate(t), nil, nil, 415, "unsupported_media_type", ""},
		{"XML", "application/cloudevents+xml", "<x/>", nil, nil, 415, "unsupported_media_type", ""},
		{"conflict", structured, "{}", refusal("conflict", nil), nil, 409, "conflict", ""},
		{"another's type", structured, "{}", refusal("forbidden_type", nil), nil, 403, "forbidden_type", ""},
		{"unknown type", structured, "{}", refusal("unknown_type", nil), nil, 422, "unknown_type", ""},
		{"unknown version", structured, "{}", refusal("unknown_version", nil), nil, 422, "unknown_version", ""},
		{"unavailable", structured, "{}", refusal("unavailable", &retry), nil, 503, "unavailable", "3"},
		{"spool full", structured, "{}", nil, full, 503, "spool_full", "5"},
		{"spool full for a batch", batch, "[{},{}]", nil, full, 503, "spool_full", "5"},
		{"closed for good", structured, "{}", nil, publish.ErrClosed, 403, "forbidden", ""},
		{"disk error", structured, "{}", nil, errors.New("disk"), 503, "unavailable", "5"},
		{"spooled", structured, `{"id":"` + id + `"}`, func([]byte) publish.Answer { return publish.Answer{Spooled: true} }, nil, 202, "", ""},
		{"a batch spooled", batch, `[{"id":"` + id + `"}]`, func([]byte) publish.Answer { return publish.Answer{Spooled: true} }, nil, 202, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.piper.mu.Lock()
			d.piper.answer, d.piper.err = c.answer, c.err
			d.piper.mu.Unlock()
			a := d.post(c.contentType, c.body)
			if a.status != c.status || a.code() != c.code || a.header.Get("Retry-After") != c.retryAfter {
				t.Fatalf("%d %s Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
			}
			if c.status == 202 && !strings.Contains(a.body, `{"spooled":true,"id":"`+id+`"}`) {
				t.Errorf("%s", a.body)
			}
			if c.status == 413 && c.code == "too_large" && !(strings.Contains(a.body, "dataref") && strings.Contains(a.body, "64000")) {
				t.Errorf("no limit or no dataref: %s", a.body)
			}
		})
	}
	st := d.Stats()
	if st.Refused["bad_json"] != 5 || st.Refused["spool_full"] != 2 || st.Spooled != 2 || st.Refused["too_large"] != 2 {
		t.Errorf("%+v", st)
	}
	if a := d.do(os.Getuid(), "GET", "/healthz", "", ""); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
	for path, want := range map[string]int{"/v1/events": 405, "/status": 404, "/": 404} {
		if a := d.do(os.Getuid(), "GET", path, "", ""); a.status != want {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
}

// A batch that the ledger took a part of before the spool was full keeps the
// receipts that came.
func TestPartlyAnswered(t *testing.T) {
	d := open(t, nil)
	var group []string
	for range 1500 { // two messages
		group = append(group, mustGate(t))
	}
	calls := 0
	d.piper.answer = func([]byte) publish.Answer {
		if calls++; calls == 1000 {
			d.piper.err = spool.ErrFull
		}
		return publish.Answer{Receipt: publish.Receipt{Leaf: "ab"}}
	}
	a := d.post(batch, "["+strings.Join(group, ",")+"]")
	if a.status != 200 || strings.Count(a.body, `"leaf"`) != 1000 || strings.Count(a.body, `"spool_full"`) != 500 || a.header.Get("Retry-After") != "5" {
		t.Errorf("%d, %d receipts", a.status, strings.Count(a.body, `"leaf"`))
	}
}

func TestBinaryMode(t *testing.T) {
	d := open(t, nil)
	id := uuid.Must(uuid.NewV7()).String()
	base := []string{
		"ce-specversion", "1.0", "ce-id", id, "ce-type", "gate.chosen", "ce-source", "urn:t%C3%A9st%20a",
		"CE-Time", "2026-01-01T00:00:00Z", "ce-dataschema", "urn:assay:gate.chosen:1", "ce-subject", `"quoted \"x\""`, "Ce-EpisodeId", "e%22p",
	}
	const data = `{"context":{}, "action":"TEST"}`
	d.piper.answer = func(e []byte) publish.Answer {
		d.piper.events = append(d.piper.events, string(e))
		return publish.Answer{Receipt: publish.Receipt{Leaf: "ab"}}
	}
	head := `{"specversion":"1.0","id":"` + id + `","source":"urn:tést a","type":"gate.chosen","subject":"quoted \"x\"","time":"2026-01-01T00:00:00Z","dataschema":"urn:assay:gate.chosen:1"`
	for _, c := range []struct {
		name, contentType, body string
		add                     []string
		want                    string // "" is a refusal
		pointer                 string
	}{
		{"JSON", "application/json; charset=utf-8", data, nil, head + `,"episodeid":"e\"p","datacontenttype":"application/json","data":{"context":{},"action":"TEST"}}`, ""},
		{"extension", "application/json", "{}", []string{"ce-myext1", "v"}, head + `,"episodeid":"e\"p","myext1":"v","datacontenttype":"application/json","data":{}}`, ""},
		{"other data", "text/plain", "hi", nil, head + `,"episodeid":"e\"p","datacontenttype":"text/plain","data_base64":"aGk="}`, ""},
		{"no data", "", "", nil, head + `,"episodeid":"e\"p"}`, ""},
		{"twice", "application/json", "{}", []string{"ce-id", "x"}, "", "/id"},
		{"no encoding", "application/json", "{}", []string{"ce-x", "100%"}, "", "/x"},
		{"no UTF-8", "application/json", "{}", []string{"ce-x", "%ff"}, "", "/x"},
		{"bad name", "application/json", "{}", []string{"ce-my_ext", "1"}, "", "/my_ext"},
		{"data as header", "application/json", "{}", []string{"ce-data", "1"}, "", "/data"},
		{"type as header", "application/json", "{}", []string{"ce-datacontenttype", "a/b"}, "", "/datacontenttype"},
		{"members behind the data", "application/json", `{},"id":"x"`, nil, "", "/data"},
		{"no JSON", "application/json", `{`, nil, "", "/data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(d.piper.taken())
			a := d.post(c.contentType, c.body, append(append([]string(nil), base...), c.add...)...)
			got := d.piper.taken()[before:]
			if c.want == "" {
				if a.status != 400 || len(got) != 0 || !strings.Contains(a.body, `"pointer":"`+c.pointer+`"`) {
					t.Errorf("%d %s, sent %q", a.status, a.body, got)
				}
				return
			}
			if a.status != 200 || len(got) != 1 || got[0] != c.want {
				t.Errorf("%d %s\ngot  %q\nwant %q", a.status, a.body, got, c.want)
			}
		})
	}
}

func TestRate(t *testing.T) {
	d := open(t, func(c *gateway.Config) {
		c.File.Callers[0].Rate, c.File.Callers[0].Burst = 2, 4
	})
	lines := func(n int) string {
		var out []string
		for range n {
			out = append(out, mustGate(t))
		}
		return strings.Join(out, "\n")
	}
	steps := []struct {
		advance time.Duration
		events  int
		status  int
		after   string
	}{
		{0, 3, 200, ""},
		{0, 1, 200, ""},
		{0, 1, 429, "1"},
		{500 * time.Millisecond, 1, 200, ""},
		{0, 1, 429, "1"},
		{time.Hour, 4, 200, ""},
		{time.Hour, 9, 200, ""}, // more than a burst: let in when the bucket is full, and paid for
		{time.Second, 1, 429, "2"},
		{3 * time.Second, 1, 200, ""},
	}
	for i, s := range steps {
		d.clock.advance(s.advance)
		a := d.post(ndjson, lines(s.events))
		if a.status != s.status || a.header.Get("Retry-After") != s.after || (s.status == 429) != (a.code() == "rate_limited") {
			t.Errorf("step %d: %d, Retry-After %q, %s", i, a.status, a.header.Get("Retry-After"), a.body)
		}
	}
	if d.Stats().Refused["rate_limited"] != 3 {
		t.Errorf("%+v", d.Stats())
	}
}

func TestCallersByUID(t *testing.T) {
	d := open(t, nil)
	if c, err := dialAs(t, d.socket, otherUID); err == nil { // skips unless root
		c.Close()
	}
	hers := mustGate(t)
	if a := d.do(otherUID, "POST", "/v1/events", structured, hers); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := d.other.taken(); len(got) != 1 || got[0] != hers || len(d.piper.taken()) != 0 {
		t.Errorf("other has %q, piper %q", got, d.piper.taken())
	}
	for _, c := range [][2]string{{"POST", "/v1/events"}, {"PUT", "/v1/blobs"}} {
		if a := d.do(unknownUID, c[0], c[1], structured, mustGate(t)); a.status != 403 || a.code() != "unknown_caller" {
			t.Errorf("%s of an unknown user: %d %s", c[1], a.status, a.body)
		}
	}
	if len(d.piper.taken()) != 0 || len(d.other.taken()) != 1 {
		t.Error("an unknown user's event was taken")
	}
}

// TestManyConnections: one user's thousand connections are cut to his share,
// and do not stop another.
func TestManyConnections(t *testing.T) {
	d := open(t, nil)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range 1000 {
		c, err := net.Dial("unix", d.socket)
		if err != nil { // the backlog is full
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if os.Getuid() == 0 {
		if a := d.do(otherUID, "POST", "/v1/events", structured, mustGate(t)); a.status != 200 {
			t.Errorf("another user: %d %s", a.status, a.body)
		}
	} else {
		t.Log("not root: another user is not tried")
	}
	for deadline := time.Now().Add(time.Minute); d.Stats().Refused["too_many_connections"] < 1000-gateway.DefaultConnections; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", d.Stats())
		}
	}
	if st := d.Stats(); st.Refused["too_many_connections"] != 1000-gateway.DefaultConnections || st.Connections > gateway.DefaultConnections+1 {
		t.Errorf("%+v", st) // the other user's may be closing still
	}
	for _, c := range held {
		c.Close()
	}
	for deadline := time.Now().Add(time.Minute); d.Stats().Connections > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", d.Stats().Connections)
		}
	}
	if a := d.post(structured, mustGate(t)); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// TestReload: another file holds from the next request on, over the connections
// that are there; a wrong one changes nothing.
func TestReload(t *testing.T) {
	d := open(t, nil)
	dials := 0
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return net.Dial("unix", d.socket)
	}}}
	defer client.CloseIdleConnections()
	post := func() answer { return do(t, client, "http://gateway/v1/events", "POST", structured, mustGate(t)) }
	if a := post(); a.status != 200 || len(d.piper.taken()) != 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	own := uint32(os.Getuid())
	file := func(callers ...gateway.Caller) *gateway.File { return &gateway.File{Mode: "0666", Callers: callers} }
	late := &ledger{}
	publishers := map[string]gateway.Publisher{"agent/other": d.other, "agent/late": late}
	if err := d.Reload(file(gateway.Caller{UID: &own, Principal: "agent/late", Rate: 1, Burst: 3}), publishers); err != nil {
		t.Fatal(err)
	}
	if a := post(); a.status != 200 || len(late.taken()) != 1 || len(d.piper.taken()) != 1 {
		t.Errorf("as another principal: %d %s", a.status, a.body)
	}

	wrong := map[string]*gateway.File{
		"nobody":          file(),
		"twice":           file(gateway.Caller{UID: &own, Principal: "agent/late"}, gateway.Caller{UID: &own, Principal: "agent/other"}),
		"no publisher":    file(gateway.Caller{UID: &own, Principal: "agent/late"}, gateway.Caller{UID: new(uint32), Principal: "agent/piper2"}),
		"no such user":    file(gateway.Caller{User: "nobody-of-that-name", Principal: "agent/late"}),
		"another mode":    {Mode: "0600", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
		"another socket":  {Mode: "0666", Socket: d.socket + "2", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
		"another address": {Mode: "0666", TCP: "127.0.0.1:0", Callers: file(gateway.Caller{UID: &own, Principal: "agent/late"}).Callers},
	}
	for name, f := range wrong {
		if err := d.Reload(f, publishers); !errors.Is(err, gateway.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One event of the burst is spent, two are left: nothing reset the rate.
	for i, status := range []int{200, 200, 429} {
		if a := post(); a.status != status {
			t.Errorf("event %d after the wrong files: %d %s", i+1, a.status, a.body)
		}
	}
	few := file(gateway.Caller{UID: &own, Principal: "agent/late", Rate: 100})
	few.Connections, few.BlobBytes = 1, 10
	if err := d.Reload(few, publishers); err != nil {
		t.Fatal(err)
	}
	if a := post(); a.status != 429 {
		t.Errorf("what was left of the rate is forgotten: %d %s", a.status, a.body)
	}
	d.clock.advance(time.Second)
	if a := post(); a.status != 200 || len(late.taken()) != 4 {
		t.Errorf("at the new rate: %d %s", a.status, a.body)
	}
	if a := do(t, client, "http://gateway/v1/blobs", "PUT", "", "more than ten bytes"); a.status != 413 {
		t.Errorf("a blob over the new limit: %d %s", a.status, a.body)
	}
	if a := d.do(int(own), "POST", "/v1/events", structured, mustGate(t)); a.code() != "too_many_connections" {
		t.Errorf("a second connection: %d %s", a.status, a.body)
	}
	if dials != 1 {
		t.Errorf("the client had to connect %d times", dials)
	}
}

// TestSlowClients: whoever does not send what he announced is cut off.
func TestSlowClients(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.HeaderTimeout, c.BodyTimeout = time.Second, 200*time.Millisecond })
	for name, sent := range map[string]string{
		"nothing":       "",
		"half a header": "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-",
		"half a body":   "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: " + structured + "\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("unix", d.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, sent); err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(c)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("still served")
			}
			if name == "half a body" && !bytes.Contains(raw, []byte("408")) {
				t.Errorf("%q", raw)
			}
		})
	}
}

// TestMemoryIsEachPrincipalsOwn: bodies that never end hold their principal's
// memory alone.
func TestMemoryIsEachPrincipalsOwn(t *testing.T) {
	d := open(t, nil)
	body := strings.Repeat(" ", gateway.MaxBody-1)
	for range 12 { // times two MiB
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", structured, gateway.MaxBody)
		go io.WriteString(c, body)
	}
	// Seven of them fit. The others are refused, and what they held is free again.
	for deadline := time.Now().Add(time.Minute); d.Stats().Refused["busy"] < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", d.Stats())
		}
	}
	if a := d.post(structured, mustGate(t)); a.status != 200 {
		t.Errorf("a small one: %d %s", a.status, a.body)
	}
	if os.Getuid() == 0 {
		if a := d.do(otherUID, "POST", "/v1/events", structured, mustGate(t)); a.status != 200 {
			t.Errorf("another user: %d %s", a.status, a.body)
		}
	}
}

// TestNoBlobStore: whoever uploads is told at once, for good, and where to go.
func TestNoBlobStore(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Blobs = nil })
	for _, size := range []int{1, gateway.DefaultBlob / 8} {
		a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", strings.Repeat("x", size))
		if a.status != 501 || a.code() != "no_blob_store" || a.header.Get("Retry-After") != "" || !strings.Contains(a.body, `"retry_after":null`) || !strings.Contains(a.body, "assay blob put") {
			t.Errorf("%d bytes: %d %s", size, a.status, a.body)
		}
	}
	if a := d.post(structured, mustGate(t)); a.status != 200 || d.Stats().Refused["no_blob_store"] != 2 {
		t.Errorf("an event: %d %s, %+v", a.status, a.body, d.Stats())
	}
}

func TestBlobs(t *testing.T) {
	var noRoom error
	d := open(t, func(c *gateway.Config) {
		c.File.BlobBytes = 1000
		c.Room = func() error { return noRoom }
	})
	a := d.do(os.Getuid(), "PUT", "/v1/blobs", "text/plain", "what was said")
	var put struct {
		Ref  string `json:"ref"`
		Size int64  `json:"size"`
	}
	if err := json.Unmarshal([]byte(a.body), &put); err != nil || a.status != 201 || put.Size != 13 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	store, err := blob.OpenExisting(filepath.Join(filepath.Dir(d.socket), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	name, ok := blob.ParseRef(put.Ref)
	var content bytes.Buffer
	if err := store.Content(name, &content); !ok || err != nil || content.String() != "what was said" {
		t.Errorf("%q, %v", content.String(), err)
	}
	if a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", strings.Repeat("x", 1001)); a.status != 413 {
		t.Errorf("too large: %d %s", a.status, a.body)
	}
	// The same without a length in front.
	req, err := http.NewRequest("PUT", "http://gateway/v1/blobs", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.client(os.Getuid()).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("too large, chunked: %d", resp.StatusCode)
	}
	noRoom = errors.New("disk is full")
	if a := d.do(os.Getuid(), "PUT", "/v1/blobs", "", "x"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("no room: %d %s", a.status, a.body)
	}
	if n, size, err := store.Leftovers(); n != 0 || err != nil {
		t.Errorf("left over: %d files, %d bytes, %v", n, size, err)
	}
}

func TestTokens(t *testing.T) {
	token := strings.Repeat("t0ken", 8)
	dir := t.TempDir()
	path := filepath.Join(dir, "other.token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, func(c *gateway.Config) {
		c.File.TCP = "127.0.0.1:0"
		c.File.Callers = append(c.File.Callers, gateway.Caller{TokenFile: path, Principal: "agent/other"})
	})
	url := "http://" + d.TCPAddr() + "/v1/events"
	for _, c := range []struct {
		name, header string
		status       int
	}{
		{"none", "", 401},
		{"another", "Bearer " + strings.Repeat("x", 40), 401},
		{"a part", "Bearer " + token[:39], 401},
		{"no scheme", token, 401},
		{"empty", "Bearer ", 401},
		{"the token", "Bearer " + token, 200},
	} {
		if a := do(t, http.DefaultClient, url, "POST", structured, mustGate(t), "Authorization", c.header); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if len(d.other.taken()) != 1 || len(d.piper.taken()) != 0 {
		t.Errorf("other %d, piper %d", len(d.other.taken()), len(d.piper.taken()))
	}
	// The socket's callers need no token, and one does not help there.
	if a := d.post(structured, mustGate(t), "Authorization", "Bearer "+token); a.status != 200 || len(d.piper.taken()) != 1 {
		t.Errorf("on the socket: %d", a.status)
	}
}

func TestFile(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"uid", `{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, nil},
		{"everything", `{"v":1,"socket":"/s","mode":"0600","tcp":"[::1]:0","connections":1,"spool_bytes":1,"blob_bytes":1,"callers":[{"user":"x","principal":"agent/a","rate":1.5,"burst":3},{"token_file":"f","principal":"agent/a"}]}`, nil},
		{"another version", `{"v":2,"callers":[]}`, versioned.ErrVersion},
		{"no version", `{"callers":[{"uid":0,"principal":"agent/a"}]}`, versioned.ErrVersion},
		{"no callers", `{"v":1,"callers":[]}`, gateway.ErrConfig},
		{"unknown member", `{"v":1,"x":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"unknown member of a caller", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","namespace":"x"}]}`, gateway.ErrConfig},
		{"twice", `{"v":1,"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"uid and user", `{"v":1,"callers":[{"uid":0,"user":"x","principal":"agent/a"}]}`, gateway.ErrConfig},
		{"nobody", `{"v":1,"callers":[{"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"negative uid", `{"v":1,"callers":[{"uid":-1,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"the logger", `{"v":1,"callers":[{"uid":0,"principal":"logger/x"}]}`, gateway.ErrConfig},
		{"no principal", `{"v":1,"callers":[{"uid":0,"principal":"piper"}]}`, gateway.ErrConfig},
		{"negative rate", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","rate":-1}]}`, gateway.ErrConfig},
		{"small burst", `{"v":1,"callers":[{"uid":0,"principal":"agent/a","burst":0.5}]}`, gateway.ErrConfig},
		{"token without tcp", `{"v":1,"callers":[{"token_file":"x","principal":"agent/a"}]}`, gateway.ErrConfig},
		{"every address", `{"v":1,"tcp":":80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"any address", `{"v":1,"tcp":"0.0.0.0:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"another host", `{"v":1,"tcp":"192.0.2.1:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"a name", `{"v":1,"tcp":"localhost:80","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"bad mode", `{"v":1,"mode":"rw","callers":[{"uid":0,"principal":"agent/a"}]}`, gateway.ErrConfig},
		{"more behind", `{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]} {}`, gateway.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := gateway.Decode([]byte(c.in)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := gateway.Own().Validate(); err != nil {
		t.Error(err)
	}
}

func TestStartRefuses(t *testing.T) {
	own := uint32(os.Getuid())
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := func(callers ...gateway.Caller) *gateway.File {
		return &gateway.File{TCP: "127.0.0.1:0", Callers: callers}
	}
	for name, f := range map[string]*gateway.File{
		"a principal without a way":    file(gateway.Caller{UID: &own, Principal: "agent/nobody"}),
		"a uid twice":                  file(gateway.Caller{UID: &own, Principal: "agent/piper"}, gateway.Caller{UID: &own, Principal: "agent/piper"}),
		"no such user":                 file(gateway.Caller{User: "no-such-user-here", Principal: "agent/piper"}),
		"no token file":                file(gateway.Caller{TokenFile: "missing", Principal: "agent/piper"}),
		"a short token":                file(gateway.Caller{TokenFile: write("short", "abc\n", 0o600), Principal: "agent/piper"}),
		"two tokens":                   file(gateway.Caller{TokenFile: write("two", strings.Repeat("x", 40)+"\n"+strings.Repeat("y", 40), 0o600), Principal: "agent/piper"}),
		"a token that others may read": file(gateway.Caller{TokenFile: write("open", strings.Repeat("x", 40), 0o644), Principal: "agent/piper"}),
	} {
		g, err := gateway.Start(gateway.Config{
			File: f, Dir: dir, Socket: filepath.Join(dir, "s"), Publishers: map[string]gateway.Publisher{"agent/piper": &ledger{}},
		})
		if err == nil {
			t.Errorf("%s: started", name)
			g.Close()
		}
	}
	// A socket that is in use is not taken from whoever has it; one left over is.
	d := open(t, nil)
	cfg := gateway.Config{File: gateway.Own(), Socket: d.socket, Publishers: map[string]gateway.Publisher{"agent/piper": &ledger{}}}
	if _, err := gateway.Start(cfg); err == nil {
		t.Error("two gateways on one socket")
	}
	if a := d.post(structured, mustGate(t)); a.status != 200 {
		t.Errorf("the first one: %d", a.status)
	}
}

// TestKeepAlive: one connection serves one request after another.
func TestKeepAlive(t *testing.T) {
	d := open(t, nil)
	c, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for range 3 {
		body := mustGate(t)
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", structured, len(body), body)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Stats().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"callers":[{"uid":0,"principal":"agent/a"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		file, err := gateway.Decode(in)
		if err == nil && file.Validate() != nil {
			t.Fatalf("accepted %q", in)
		}
	})
}
