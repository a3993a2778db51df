package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"assay/events"
	"assay/events/gateway"
	"assay/events/publish"
	"assay/events/publish/spool"
	"assay/internal/otlp"
)

// spans is a request with a tool call, numbered from 1, for each word of tools;
// one without a tool if it is "-", one of no agent if it is "http", a model's if it
// is "chat".
func spans(tools string) ptraceotlp.ExportRequest {
	req := ptraceotlp.NewExportRequest()
	out := req.Traces().ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i, tool := range strings.Fields(tools) {
		s := out.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{15: 1})
		s.SetSpanID(pcommon.SpanID{6: byte((i + 1) >> 8), 7: byte(i + 1)})
		s.SetStartTimestamp(1e18)
		s.SetEndTimestamp(1e18 + 1)
		switch tool {
		case "http":
			s.Attributes().PutStr("http.route", "/")
		case "chat":
			s.Attributes().PutStr("gen_ai.operation.name", "chat")
		case "-":
			s.Attributes().PutStr("gen_ai.operation.name", "execute_tool")
		default:
			s.Attributes().PutStr("gen_ai.operation.name", "execute_tool")
			s.Attributes().PutStr("gen_ai.tool.name", tool)
			s.Attributes().PutStr("gen_ai.tool.call.id", fmt.Sprintf("call_%d", i+1))
		}
	}
	return req
}

func logRecords() plogotlp.ExportRequest {
	req := plogotlp.NewExportRequest()
	l := req.Logs().ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	l.SetTimestamp(1e18)
	l.Body().SetStr("claude_code.tool_result")
	l.Attributes().PutStr("tool_name", "Bash")
	l.Attributes().PutStr("tool_use_id", "toolu_1")
	l.Attributes().PutStr("success", "true")
	return req
}

func encoded(t testing.TB, contentType string, m otlp.Message) string {
	t.Helper()
	c, err := otlp.CodecOf(http.Header{"Content-Type": {contentType}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func zipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// partly is what an answer to traces says.
func partly(t testing.TB, a answer) (rejected int64, message string) {
	t.Helper()
	resp := ptraceotlp.NewExportResponse()
	var err error
	if a.header.Get("Content-Type") == otlp.JSON {
		err = resp.UnmarshalJSON([]byte(a.body))
	} else {
		err = resp.UnmarshalProto([]byte(a.body))
	}
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %v: %q", a.status, err, a.body)
	}
	return resp.PartialSuccess().RejectedSpans(), resp.PartialSuccess().ErrorMessage()
}

// why is the message of a refusal, which is in the encoding that was asked in.
func why(t testing.TB, a answer) string {
	t.Helper()
	var st rpcstatus.Status
	var err error
	if a.header.Get("Content-Type") == otlp.JSON {
		err = protojson.Unmarshal([]byte(a.body), &st)
	} else {
		err = proto.Unmarshal([]byte(a.body), &st)
	}
	if err != nil || st.Message == "" {
		t.Fatalf("%d %v: %q", a.status, err, a.body)
	}
	return st.Message
}

func TestOTLP(t *testing.T) {
	d := open(t, nil)
	uid := os.Getuid()
	req := spans("restart http query")
	var first []string
	for i, c := range []struct {
		contentType, encoding, body string
	}{
		{otlp.Protobuf, "", encoded(t, otlp.Protobuf, req)},
		{otlp.JSON, "", encoded(t, otlp.JSON, req)},
		{otlp.Protobuf, "gzip", zipped(t, encoded(t, otlp.Protobuf, req))},
		{otlp.JSON + "; charset=utf-8", "gzip", zipped(t, encoded(t, otlp.JSON, req))},
	} {
		headers := []string{}
		if c.encoding != "" {
			headers = append(headers, "Content-Encoding", c.encoding)
		}
		a := d.do(uid, "POST", "/v1/traces", c.contentType, c.body, headers...)
		if want := strings.SplitN(c.contentType, ";", 2)[0]; a.header.Get("Content-Type") != want {
			t.Errorf("%s is answered in %s", c.contentType, a.header.Get("Content-Type"))
		}
		if n, message := partly(t, a); n != 0 || message != "" {
			t.Errorf("%s %s: %d %q", c.contentType, c.encoding, n, message)
		}
		taken := d.piper.taken()[2*i:]
		if i == 0 {
			first = taken
		}
		if len(taken) != 2 || !slices.Equal(taken, first) { // to the byte, whatever the encoding
			t.Errorf("%s %s: %d events %s", c.contentType, c.encoding, len(taken), taken)
		}
	}
	e, err := events.Decode([]byte(first[0]))
	if err != nil {
		t.Fatal(err)
	}
	call, ok := e.Data.(*events.ToolCalled)
	if !ok || call.Tool != "restart" || call.ToolCallID != "call_1" || *call.Context.Capture != "otlp" {
		t.Errorf("%s", first[0])
	}
	a := d.do(uid, "POST", "/v1/logs", otlp.Protobuf, encoded(t, otlp.Protobuf, logRecords()))
	if got := d.piper.taken(); a.status != http.StatusOK || len(got) != 9 || !strings.Contains(got[8], `"tool_call_id":"toolu_1"`) {
		t.Errorf("logs: %d %q %s", a.status, a.body, got[8:])
	}
	if n := d.do(uid, "POST", "/v1/traces", otlp.Protobuf, ""); n.status != http.StatusOK {
		t.Errorf("nothing: %d", n.status)
	}
	if st := d.Stats(); st.Taken != 9 {
		t.Errorf("%+v", st)
	}
}

// TestOTLPPartly: what is bad is rejected alone, whoever finds it so, and what the
// caller may not say is left out with a word.
func TestOTLPPartly(t *testing.T) {
	d := open(t, nil)
	d.piper.answer = func(event []byte) publish.Answer {
		if bytes.Contains(event, []byte(`"call_1"`)) {
			return publish.Answer{Refusal: &publish.Refusal{Code: "conflict", Message: "the id was used for other bytes"}}
		}
		return publish.Answer{Receipt: publish.Receipt{Leaf: "ab"}}
	}
	for _, contentType := range []string{otlp.Protobuf, otlp.JSON} {
		n, message := partly(t, d.do(os.Getuid(), "POST", "/v1/traces", contentType, encoded(t, contentType, spans("restart - query chat"))))
		if n != 2 || !strings.Contains(message, "span 0000000000000002 of trace") || !strings.Contains(message, "conflict") ||
			!strings.Contains(message, "1 left out: this role may not write usage.recorded") {
			t.Errorf("%s: %d rejected: %s", contentType, n, message)
		}
		n, message = partly(t, d.do(os.Getuid(), "POST", "/v1/traces", contentType, encoded(t, contentType, spans("- - query"))))
		if n != 2 || message == "" {
			t.Errorf("%s: %d rejected: %s", contentType, n, message)
		}
		n, message = partly(t, d.do(os.Getuid(), "POST", "/v1/traces", contentType, encoded(t, contentType, spans("http chat"))))
		if n != 0 || message == "" { // a warning
			t.Errorf("%s: %d rejected: %q", contentType, n, message)
		}
	}
}

// TestOTLPRefused: each refusal has the status by which an exporter sends again or
// does not, and is a Status in the request's own encoding.
func TestOTLPRefused(t *testing.T) {
	body := encoded(t, otlp.Protobuf, spans("restart query"))
	asJSON := encoded(t, otlp.JSON, spans("restart query"))
	unavailable := 7.0
	for name, c := range map[string]struct {
		path, contentType, encoding, body string
		ledger                            func(*ledger)
		status                            int
		retryAfter                        string
	}{
		"no protobuf":         {"/v1/traces", otlp.Protobuf, "", "x", nil, 400, ""},
		"cut off":             {"/v1/traces", otlp.Protobuf, "", body[:len(body)-1], nil, 400, ""},
		"no JSON":             {"/v1/traces", otlp.JSON, "", asJSON + "{}", nil, 400, ""},
		"a bad trace id":      {"/v1/traces", otlp.JSON, "", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}`, nil, 400, ""},
		"no media type":       {"/v1/traces", "", "", body, nil, 415, ""},
		"an event":            {"/v1/traces", "application/cloudevents+json", "", "{}", nil, 415, ""},
		"another encoding":    {"/v1/traces", otlp.Protobuf, "zstd", body, nil, 415, ""},
		"no gzip":             {"/v1/traces", otlp.Protobuf, "gzip", body, nil, 400, ""},
		"a gzip that is torn": {"/v1/traces", otlp.Protobuf, "gzip", strings.Replace(zipped(t, strings.Repeat("x", 9)), "x", "y", 1), nil, 400, ""},
		"a gzip cut off":      {"/v1/traces", otlp.Protobuf, "gzip", zipped(t, body)[:20], nil, 400, ""},
		"a gzip of nothing":   {"/v1/traces", otlp.Protobuf, "gzip", "", nil, 400, ""},
		"more after a gzip":   {"/v1/traces", otlp.Protobuf, "gzip", zipped(t, body) + "x", nil, 400, ""},
		"no JSON at all":      {"/v1/logs", otlp.JSON, "", "", nil, 400, ""},
		"too many events":     {"/v1/traces", otlp.Protobuf, "", encoded(t, otlp.Protobuf, spans(strings.Repeat("a ", gateway.MaxItems+1))), nil, 413, ""},
		"hidden messages":     {"/v1/traces", otlp.Protobuf, "", "\x90\x80\x80\x80\x80\x01\x00" + body, nil, 400, ""},
		"numbers for spans":   {"/v1/traces", otlp.JSON, "", `{"resourceSpans":[` + strings.Repeat("0,", otlp.MaxMessages) + `0]}`, nil, 400, ""},
		"too large":           {"/v1/traces", otlp.Protobuf, "", strings.Repeat("x", gateway.MaxOTLP+1), nil, 413, ""},
		"a bomb":              {"/v1/traces", otlp.Protobuf, "gzip", zipped(t, strings.Repeat("\x00", 10*gateway.MaxOTLP)), nil, 413, ""},
		"many small ones":     {"/v1/logs", otlp.Protobuf, "", strings.Repeat("\x0a\x00", otlp.MaxMessages+1), nil, 400, ""},
		"metrics":             {"/v1/metrics", otlp.Protobuf, "", "", nil, 404, ""},
		"the spool is full":   {"/v1/traces", otlp.Protobuf, "", body, func(l *ledger) { l.err = spool.ErrFull }, 503, "5"},
		"revoked":             {"/v1/traces", otlp.Protobuf, "", body, func(l *ledger) { l.err = publish.ErrClosed }, 403, ""},
		"one is undecided": {"/v1/traces", otlp.JSON, "", asJSON, func(l *ledger) {
			l.answer = func(event []byte) publish.Answer {
				if bytes.Contains(event, []byte(`"call_2"`)) {
					return publish.Answer{Refusal: &publish.Refusal{Code: "unavailable", RetryAfter: &unavailable}}
				}
				return publish.Answer{Receipt: publish.Receipt{Leaf: "ab"}}
			}
		}, 503, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			if c.ledger != nil {
				c.ledger(d.piper)
			}
			headers := []string{}
			if c.encoding != "" {
				headers = append(headers, "Content-Encoding", c.encoding)
			}
			a := d.do(os.Getuid(), "POST", c.path, c.contentType, c.body, headers...)
			if a.status != c.status || a.header.Get("Retry-After") != c.retryAfter {
				t.Errorf("%d, again after %q: %q", a.status, a.header.Get("Retry-After"), a.body)
			}
			why(t, a)
			if wantJSON := c.contentType != otlp.Protobuf; (a.header.Get("Content-Type") == otlp.JSON) != wantJSON {
				t.Errorf("answered as %s", a.header.Get("Content-Type"))
			}
		})
	}
}

// TestOTLPAgain: what is sent again after an answer that left something open is the
// same to the byte, so that the ledger has nothing twice; and a span that occurs
// twice is one event, or a conflict that is counted.
func TestOTLPAgain(t *testing.T) {
	d := open(t, nil)
	seen := map[string]string{} // bytes by id, as the ledger keeps them
	open, later := true, 1.0
	d.piper.answer = func(event []byte) publish.Answer {
		if open && bytes.Contains(event, []byte(`"call_2"`)) {
			return publish.Answer{Refusal: &publish.Refusal{Code: "unavailable", RetryAfter: &later}}
		}
		e, err := events.Decode(event)
		if err != nil {
			t.Error(err)
			return publish.Answer{}
		}
		if was, ok := seen[e.ID]; ok && was != string(event) {
			return publish.Answer{Refusal: &publish.Refusal{Code: "conflict", Message: "the id was used for other bytes"}}
		}
		seen[e.ID] = string(event)
		return publish.Answer{Receipt: publish.Receipt{Leaf: "ab"}}
	}
	send := func(req otlp.Message) answer {
		return d.do(os.Getuid(), "POST", "/v1/traces", otlp.Protobuf, encoded(t, otlp.Protobuf, req))
	}
	if a := send(spans("restart query check")); a.status != http.StatusServiceUnavailable || len(seen) != 2 {
		t.Fatalf("%d with %d events", a.status, len(seen))
	}
	open = false
	for range 2 {
		if n, message := partly(t, send(spans("restart query check"))); n != 0 || message != "" || len(seen) != 3 {
			t.Errorf("again: %d rejected %q, %d events", n, message, len(seen))
		}
	}
	twice := spans("restart restart query check")
	list := twice.Traces().ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	list.At(0).CopyTo(list.At(1))
	list.At(2).SetSpanID(list.At(0).SpanID())
	list.At(3).SetSpanID(pcommon.SpanID{})
	n, message := partly(t, send(twice))
	if n != 2 || len(seen) != 3 || !strings.Contains(message, "without trace or span id") || !strings.Contains(message, "conflict") {
		t.Errorf("one span thrice: %d rejected %q, %d events", n, message, len(seen))
	}
}

// TestOTLPRate: an exporter that is too fast is told when to go on, and the same
// request is then taken.
func TestOTLPRate(t *testing.T) {
	d := open(t, func(cfg *gateway.Config) { cfg.File.Callers[0].Rate, cfg.File.Callers[0].Burst = 1, 3 })
	body := encoded(t, otlp.Protobuf, spans("a b c"))
	if a := d.do(os.Getuid(), "POST", "/v1/traces", otlp.Protobuf, body); a.status != http.StatusOK {
		t.Fatalf("%d %q", a.status, a.body)
	}
	a := d.do(os.Getuid(), "POST", "/v1/traces", otlp.Protobuf, body)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(why(t, a), "rate") {
		t.Fatalf("%d %q", a.status, a.body)
	}
	d.clock.advance(10 * time.Second)
	if a = d.do(os.Getuid(), "POST", "/v1/traces", otlp.Protobuf, body); a.status != http.StatusOK {
		t.Errorf("later: %d %q", a.status, a.body)
	}
}

// TestOTLPByToken: the loopback port knows the caller by the token that exporters
// send as a header.
func TestOTLPByToken(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	d := open(t, func(cfg *gateway.Config) {
		if err := os.WriteFile(filepath.Join(cfg.Dir, "t"), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.File.TCP = "127.0.0.1:0"
		cfg.File.Callers = append(cfg.File.Callers, gateway.Caller{TokenFile: "t", Principal: "agent/other"})
	})
	url := "http://" + d.TCPAddr() + "/v1/traces"
	body := encoded(t, otlp.Protobuf, spans("restart"))
	a := do(t, http.DefaultClient, url, "POST", otlp.Protobuf, body)
	if a.status != http.StatusUnauthorized || !strings.Contains(why(t, a), "Bearer") {
		t.Errorf("without a token: %d %q", a.status, a.body)
	}
	if a = do(t, http.DefaultClient, url, "POST", otlp.Protobuf, body, "Authorization", "Bearer "+token); a.status != http.StatusOK || len(d.other.taken()) != 1 {
		t.Errorf("with a token: %d %q", a.status, a.body)
	}
}

// TestOTLPOfASensor: a sensor writes no event, whatever its spans say, and is told so.
func TestOTLPOfASensor(t *testing.T) {
	sensor := &ledger{}
	d := open(t, func(cfg *gateway.Config) {
		cfg.Publishers["sensor/host"] = sensor
		cfg.File.Callers[0].Principal = "sensor/host"
	})
	n, message := partly(t, d.do(os.Getuid(), "POST", "/v1/traces", otlp.Protobuf, encoded(t, otlp.Protobuf, spans("restart chat http"))))
	if n != 0 || message != "1 left out: this role may not write tool.called; 1 left out: this role may not write usage.recorded" || len(sensor.taken()) != 0 {
		t.Errorf("%d %q %v", n, message, sensor.taken())
	}
	if a := d.do(os.Getuid(), "POST", "/v1/metrics", otlp.Protobuf, ""); a.status != http.StatusNotFound || !strings.Contains(why(t, a), "otlp source") {
		t.Errorf("metrics: %d %q", a.status, a.body)
	}
}

// FuzzOTLP: no request brings the gateway down, and each is answered in its own
// encoding.
func FuzzOTLP(f *testing.F) {
	d := open(f, func(cfg *gateway.Config) { cfg.File.Callers[0].Rate = 1e12 })
	f.Add(true, []byte(encoded(f, otlp.Protobuf, spans("a http -"))))
	f.Add(false, []byte(encoded(f, otlp.JSON, spans("a http -"))))
	f.Fuzz(func(t *testing.T, isProto bool, body []byte) {
		contentType := otlp.JSON
		if isProto {
			contentType = otlp.Protobuf
		}
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", d.socket) },
		}}
		a := do(t, client, "http://gateway/v1/traces", "POST", contentType, string(body))
		if a.header.Get("Content-Type") != contentType {
			t.Fatalf("%d as %s", a.status, a.header.Get("Content-Type"))
		}
		if a.status == http.StatusOK {
			if n, message := partly(t, a); n > 0 && message == "" {
				t.Fatal("rejected without a word")
			}
		} else {
			why(t, a)
		}
	})
}
