package gateway_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"assay/events/eventstest"
	"assay/events/gateway"
	"assay/events/publish"
	"assay/events/publish/spool"
	"assay/internal/blob"
	"assay/internal/usertest"
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

func (d *door) client(uid int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return usertest.Dial(d.t, d.socket, uid) },
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

func gate(t testing.TB) string { return string(eventstest.Gate(t)) }

func TestShapes(t *testing.T) {
	d := open(t, nil)
	one, two := gate(t), gate(t)
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
		{"a large event", structured, strings.Replace(gate(t), "KNOW", strings.Repeat("K", 70_000), 1), nil, nil, 413, "too_large", ""},
		{"a large body", structured, strings.Repeat(" ", gateway.MaxBody+1), nil, nil, 413, "too_large", ""},
		{"many events", ndjson, strings.Repeat("{}\n", gateway.MaxItems+1), nil, nil, 413, "too_many_events", ""},
		{"a batch that is none", batch, "{}", nil, nil, 400, "bad_json", ""},
		{"more behind a batch", batch, "[] []", nil, nil, 400, "bad_json", ""},
		{"a batch cut off", batch, "[{}", nil, nil, 400, "bad_json", ""},
		{"no type", "", "{}", nil, nil, 415, "unsupported_media_type", ""},
		{"plain JSON", "application/json", gate(t), nil, nil, 415, "unsupported_media_type", ""},
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
		group = append(group, gate(t))
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
