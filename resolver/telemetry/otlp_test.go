package telemetry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"assay/internal/answerkeys"
	"assay/internal/otlp"
	"assay/resolver/criterion"
)

func testOTLP(t testing.TB, reg *criterion.Registry) *OTLP {
	t.Helper()
	return NewOTLP(OTLPConfig{
		Source: reg.Source("app"), Signals: reg.SignalsOf("app"), Now: func() time.Time { return otlpNow }, Log: zerolog.Nop(),
	})
}

func gzipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestOTLPOverHTTP(t *testing.T) {
	reg := otlpRegistry(t, "counter", `"metric":"m"`)
	md, m := metricOf("m")
	m.SetEmptySum().SetIsMonotonic(true)
	m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	fill(m.Sum().DataPoints().AppendEmpty(), 7, otlpNow.Add(-time.Hour), otlpNow)
	request := pmetricotlp.NewExportRequestFromMetrics(md)
	asProto, err := request.MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := request.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	delta, err := request.MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	bomb := gzipped(t, make([]byte, 100<<20))
	if len(bomb) > MaxOTLPBody {
		t.Fatal("the bomb is too large to be one")
	}
	for name, c := range map[string]struct {
		path, contentType, encoding string
		body                        []byte
		broker                      error
		status, samples             int
		rejected                    int64
	}{
		"protobuf":             {"/v1/metrics", otlp.Protobuf, "", asProto, nil, 200, 1, 0},
		"JSON":                 {"/v1/metrics", "application/json; charset=utf-8", "", asJSON, nil, 200, 1, 0},
		"gzip":                 {"/v1/metrics", otlp.Protobuf, "gzip", gzipped(t, asProto), nil, 200, 1, 0},
		"gzip and JSON":        {"/v1/metrics", otlp.JSON, "gzip", gzipped(t, asJSON), nil, 200, 1, 0},
		"identity":             {"/v1/metrics", otlp.JSON, "identity", asJSON, nil, 200, 1, 0},
		"nothing":              {"/v1/metrics", otlp.Protobuf, "", nil, nil, 200, 0, 0},
		"an empty object":      {"/v1/logs", otlp.JSON, "", []byte(`{}`), nil, 200, 0, 0},
		"partly refused":       {"/v1/metrics", otlp.Protobuf, "", delta, nil, 200, 0, 1},
		"no broker":            {"/v1/metrics", otlp.Protobuf, "", asProto, ErrNotConnected, 503, 0, 0},
		"no broker for JSON":   {"/v1/metrics", otlp.JSON, "", asJSON, ErrNotConnected, 503, 0, 0},
		"no type":              {"/v1/metrics", "", "", asProto, nil, 415, 0, 0},
		"another type":         {"/v1/metrics", "text/plain", "", asProto, nil, 415, 0, 0},
		"another encoding":     {"/v1/metrics", otlp.Protobuf, "zstd", asProto, nil, 415, 0, 0},
		"no protobuf":          {"/v1/metrics", otlp.Protobuf, "", []byte("x"), nil, 400, 0, 0},
		"cut off":              {"/v1/metrics", otlp.Protobuf, "", asProto[:len(asProto)-1], nil, 400, 0, 0},
		"no JSON":              {"/v1/metrics", otlp.JSON, "", []byte(`{"resourceMetrics":[`), nil, 400, 0, 0},
		"more after the JSON":  {"/v1/metrics", otlp.JSON, "", append(asJSON[:len(asJSON):len(asJSON)], "{}"...), nil, 400, 0, 0},
		"JSON of another form": {"/v1/metrics", otlp.JSON, "", []byte(`{"resourceMetrics":7}`), nil, 400, 0, 0},
		"no gzip":              {"/v1/metrics", otlp.Protobuf, "gzip", asProto, nil, 400, 0, 0},
		"half a gzip":          {"/v1/metrics", otlp.Protobuf, "gzip", gzipped(t, asProto)[:30], nil, 400, 0, 0},
		"too large":            {"/v1/metrics", otlp.Protobuf, "", make([]byte, MaxOTLPBody+1), nil, 413, 0, 0},
		"a bomb":               {"/v1/metrics", otlp.Protobuf, "gzip", bomb, nil, 413, 0, 0},
		"traces":               {"/v1/traces", otlp.Protobuf, "", asProto, nil, 404, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o, out := testOTLP(t, reg), &recorder{err: c.broker}
			srv := httptest.NewServer(o.Handler(out))
			defer srv.Close()
			req, err := http.NewRequest(http.MethodPost, srv.URL+c.path, bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Content-Type": c.contentType, "Content-Encoding": c.encoding} {
				if v != "" {
					req.Header.Set(k, v)
				}
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || len(out.samples) != c.samples {
				t.Fatalf("status %d with %d samples, want %d with %d: %q", resp.StatusCode, len(out.samples), c.status, c.samples, body)
			}
			isJSON := !strings.HasPrefix(c.contentType, otlp.Protobuf)
			if got := resp.Header.Get("Content-Type"); (got == otlp.JSON) != isJSON {
				t.Errorf("Content-Type %q", got)
			}
			if (resp.Header.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
			}
			if c.status != 200 {
				checkStatus(t, body, isJSON)
				if st := o.Stats(); st.Failed+st.Refused != 1 || st.Sent != 0 {
					t.Errorf("%+v", st)
				}
				return
			}
			answer := pmetricotlp.NewExportResponse()
			if isJSON {
				err = answer.UnmarshalJSON(body)
			} else {
				err = answer.UnmarshalProto(body)
			}
			if p := answer.PartialSuccess(); err != nil || p.RejectedDataPoints() != c.rejected || (p.ErrorMessage() == "") != (c.rejected == 0) {
				t.Errorf("answer %q: %v", body, err)
			}
			if st := o.Stats(); st.Sent != uint64(c.samples) || st.Refused != uint64(c.rejected) {
				t.Errorf("%+v", st)
			}
		})
	}
}

func checkStatus(t *testing.T, body []byte, isJSON bool) {
	t.Helper()
	var status rpcstatus.Status
	err := errors.New("empty")
	if isJSON {
		err = protojson.Unmarshal(body, &status)
	} else if len(body) > 0 {
		err = proto.Unmarshal(body, &status)
	}
	if err != nil || status.Message == "" {
		t.Errorf("no Status: %q: %v", body, err)
	}
}

// Who has no token, is a browser or asks for something else is told so in the
// protocol's own words.
func TestOTLPDoor(t *testing.T) {
	reg := otlpRegistry(t, "gauge", `"metric":"m"`)
	src := reg.Source("app")
	src.TokenFile = filepath.Join(t.TempDir(), "token")
	mustDo(t, os.WriteFile(src.TokenFile, []byte("secret\n"), 0o600))
	h := NewOTLP(OTLPConfig{Source: src, Signals: reg.SignalsOf("app"), Log: zerolog.Nop()}).Handler(&recorder{})
	for _, c := range []struct {
		method, token, origin string
		status                int
	}{
		{http.MethodPost, "Bearer secret", "", http.StatusOK},
		{http.MethodPost, "", "", http.StatusUnauthorized},
		{http.MethodPost, "Bearer secrets", "", http.StatusUnauthorized},
		{http.MethodGet, "Bearer secret", "", http.StatusMethodNotAllowed},
		{http.MethodPost, "Bearer secret", "https://example.com", http.StatusForbidden},
	} {
		req := httptest.NewRequest(c.method, "/v1/metrics", nil)
		req.Header.Set("Content-Type", otlp.Protobuf)
		for k, v := range map[string]string{"Authorization": c.token, "Origin": c.origin} {
			if v != "" {
				req.Header.Set(k, v)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != c.status || w.Header().Get("Content-Type") != otlp.Protobuf {
			t.Errorf("%+v: %d %q", c, w.Code, w.Body)
		}
		if c.status != http.StatusOK {
			checkStatus(t, w.Body.Bytes(), false)
		}
	}
}

// What cannot be sent is sent again by its sender, and is the same then.
func TestOTLPSentAgain(t *testing.T) {
	reg := otlpRegistry(t, "event", `"match":{"body":"x"}`)
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for range 3 {
		r := records.AppendEmpty()
		r.SetTimestamp(pcommon.NewTimestampFromTime(otlpNow))
		r.Body().SetStr("x")
	}
	raw, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	h := testOTLP(t, reg).Handler(out)
	for range 3 {
		req := httptest.NewRequest(http.MethodPost, "/v1/logs", bytes.NewReader(raw))
		req.Header.Set("Content-Type", otlp.Protobuf)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	seen := map[uint64]int{}
	for i, s := range out.samples {
		if first := out.samples[i%3]; criterion.Compare(&s, &first) != 0 {
			t.Errorf("%+v, first %+v", s, first)
		}
		seen[s.Seq]++
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}

const otlpLogRegistry = `{"v":1,"sources":[{"name":"s","kind":"otlp","listen":"127.0.0.1:4318"}],"signals":[
 {"name":"beat","source":"s","unit":"1","kind":"gauge","heartbeat":"beat","writer":"sensor/s","metric":"app.alive",
  "interval":"10s","max_staleness":"5m","coverage_floor":0.8,"max_gap":"20s","allowed_lateness":"1m","max_skew":"1s"},
 {"name":"crash","source":"s","unit":"1","kind":"event","heartbeat":"beat","writer":"sensor/s","match":{"event_name":"crash"},
  "interval":"10s","max_staleness":"5m","coverage_floor":0.8,"max_gap":"30s","allowed_lateness":"0s","max_skew":"0s"}]}`

// Whatever loses a log record at the door, no window that holds it shows that
// there was none; what nothing asked of the logs takes nothing away.
func TestOTLPNoAbsenceAcrossALoss(t *testing.T) {
	reg := mustRegistry(t, otlpLogRegistry)
	token := filepath.Join(t.TempDir(), "token")
	mustDo(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	records := func(name string, at time.Time) []byte {
		ld := plog.NewLogs()
		r := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		r.SetEventName(name)
		r.SetTimestamp(pcommon.NewTimestampFromTime(at))
		raw, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
		mustDo(t, err)
		return raw
	}
	type act struct {
		path, contentType string
		body              []byte
		broker            error
		token             bool // is there
		status            int
	}
	logs := func(a act) act { a.path, a.contentType, a.token = otlp.Logs, otlp.Protobuf, true; return a }
	for _, tc := range []struct {
		name string
		act
		lost bool
	}{
		{"a record of something else", logs(act{body: records("start", after(580)), status: 200}), false},
		{"a record without a time", logs(act{body: records("crash", time.Unix(0, 0)), status: 200}), true},
		{"a record far ahead", logs(act{body: records("crash", after(900)), status: 200}), true},
		{"something else far ahead", logs(act{body: records("start", after(900)), status: 200}), false},
		{"not decodable", logs(act{body: []byte("x"), status: 400}), true},
		{"too large", logs(act{body: make([]byte, MaxOTLPBody+1), status: 413}), true},
		{"another type", act{path: otlp.Logs, contentType: "text/plain", token: true, status: 415}, true},
		{"no broker", logs(act{body: records("crash", after(580)), broker: ErrNotConnected, status: 503}), true},
		{"the token cannot be read", act{path: otlp.Logs, contentType: otlp.Protobuf, status: 500}, true},
		{"metrics, not decodable", act{path: otlp.Metrics, contentType: otlp.Protobuf, body: []byte("x"), token: true, status: 400}, false},
		{"traces", act{path: "/v1/traces", contentType: otlp.Protobuf, token: true, status: 404}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, now, out := reg.Source("s"), after(0), &recorder{}
			src.TokenFile = token
			o := NewOTLP(OTLPConfig{Source: src, Signals: reg.SignalsOf("s"), Now: func() time.Time { return now }, Log: zerolog.Nop()})
			h := o.Handler(out)
			post := func(a act) {
				t.Helper()
				req := httptest.NewRequest(http.MethodPost, a.path, bytes.NewReader(a.body))
				req.Header.Set("Content-Type", a.contentType)
				req.Header.Set("Authorization", "Bearer secret")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != a.status {
					t.Fatalf("%s: status %d, want %d", a.path, w.Code, a.status)
				}
			}
			for sec := 10; sec <= 1200; sec += 10 {
				now = after(float64(sec))
				md, m := metricOf("app.alive")
				fill(m.SetEmptyGauge().DataPoints().AppendEmpty(), 1, time.Time{}, now)
				raw, err := pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
				mustDo(t, err)
				post(act{path: otlp.Metrics, contentType: otlp.Protobuf, body: raw, status: 200})
				if sec != 600 {
					continue
				}
				now = after(600.5)
				out.err = tc.broker
				if !tc.token {
					mustDo(t, os.Rename(token, token+".away"))
				}
				post(tc.act)
				if !tc.token {
					mustDo(t, os.Rename(token+".away", token))
				}
				if got := o.Stats().Doubt; (got != "") != tc.lost {
					t.Errorf("doubt %q", got)
				}
			}
			checkLoss(t, reg, "crash", out.samples, after(540.5), after(600.5), tc.lost)
			for _, from := range []float64{100, 800} {
				if !shownAbsent(reg, "crash", out.samples, after(from), 2*time.Minute) {
					t.Errorf("far away, the window from %v shows no absence", from)
				}
			}
			if st := o.Stats(); st.Doubt != "" || !st.UpTo.Equal(after(1100)) { // 1200 less a minute and 30 s
				t.Errorf("%+v", st)
			}
		})
	}
}

// The specification's examples: their sum and histogram are deltas, and the
// exponential histogram does not say what it is.
func TestOTLPExamples(t *testing.T) {
	at := time.Unix(0, 1544712660300000000).UTC()
	const common = `"source":"app","heartbeat":"alive","writer":"sensor/app","unit":"1","interval":"1s","max_staleness":"10s","coverage_floor":0.8,"max_gap":"5s","allowed_lateness":"0s","max_skew":"0s"`
	reg := mustRegistry(t, `{"v":1,"sources":[{"name":"app","kind":"otlp","listen":"127.0.0.1:4318"}],"signals":[
		{"name":"alive","kind":"gauge","metric":"my.alive",`+common+`},
		{"name":"gauge","kind":"gauge","metric":"my.gauge","metric_unit":"1","match":{"resource.attributes.service.name":"my.service","scope.attributes.my.scope.attribute":"some scope attribute"},"labels_from":{"a":"attributes.my.gauge.attr"},`+common+`},
		{"name":"counter","kind":"counter","metric":"my.counter",`+common+`},
		{"name":"histogram","kind":"counter","metric":"my.histogram","field":"count",`+common+`},
		{"name":"exponential","kind":"counter","metric":"my.exponential.histogram","field":"sum",`+common+`},
		{"name":"record","kind":"event","match":{"severity_number":"10","severity_text":"Information","body":"Example log record","attributes.int.attribute":"10","attributes.boolean.attribute":"true","attributes.double.attribute":"637.704"},"labels_from":{"s":"attributes.string.attribute"},`+common+`}]}`)
	for _, c := range []struct {
		file, path string
		rejected   int64
		want       Sample
	}{
		{"otlp_metrics.json", "/v1/metrics", 3, Sample{Signal: "gauge", Value: 10, Labels: map[string]string{"a": "some value"}}},
		{"otlp_logs.json", "/v1/logs", 0, Sample{Signal: "record", Value: 1, Labels: map[string]string{"s": "some string"}}},
	} {
		raw, err := os.ReadFile(answerkeys.Need(t, "telemetry/"+c.file))
		mustDo(t, err)
		out := &recorder{}
		o := testOTLP(t, reg)
		req := httptest.NewRequest(http.MethodPost, c.path, bytes.NewReader(raw))
		req.Header.Set("Content-Type", otlp.JSON)
		w := httptest.NewRecorder()
		o.Handler(out).ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", c.file, w.Code, w.Body)
		}
		if st := o.Stats(); int64(st.Refused) != c.rejected {
			t.Errorf("%s: %+v: %s", c.file, st, w.Body)
		}
		if len(out.samples) != 1 {
			t.Fatalf("%s: %+v", c.file, out.samples)
		}
		if s := out.samples[0]; s.Signal != c.want.Signal || s.Value != c.want.Value || !maps.Equal(s.Labels, c.want.Labels) || !s.Time.Equal(at) {
			t.Errorf("%s: %+v, want %+v at %s", c.file, s, c.want, at)
		}
	}
}

func FuzzOTLP(f *testing.F) {
	f.Add([]byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"asInt":"5","timeUnixNano":"1544712660300000000"}]}}]}]}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		reg := otlpRegistry(t, "counter", `"metric":"m"`)
		out := &recorder{}
		h := testOTLP(t, reg).Handler(out)
		for _, path := range []string{"/v1/metrics", "/v1/logs"} {
			req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			req.Header.Set("Content-Type", map[bool]string{true: otlp.JSON, false: otlp.Protobuf}[isJSON])
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		batches, err := encodeBatches(out.samples)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			if _, err := ParseBatch("app", b); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
		}
	})
}

// otlpConformer's source sends a request for each act, and the same bytes again
// where it is told to.
var otlpConformer = conformer{
	name: "otlp", stateless: true,
	open: func(t *testing.T, w *world, _ Cursor, out Sink) (*rig, error) {
		o := NewOTLP(OTLPConfig{
			Source: criterion.Source{Name: "s", Kind: criterion.OTLPKind},
			Signals: []criterion.Signal{
				{Name: "up_to", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Metric: "alive"},
				{Name: "level", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Metric: "level", LabelsFrom: map[string]string{"series": "attributes.series"}},
			},
			Now: w.clock, Log: zerolog.Nop(),
		})
		h := o.Handler(out)
		post := func(body []byte) error {
			req := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(body))
			req.Header.Set("Content-Type", otlp.Protobuf)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != http.StatusOK {
				return fmt.Errorf("status %d: %q", rec.Code, rec.Body)
			}
			return nil
		}
		var last []byte
		send := func(name string, points ...point) error {
			md, m := metricOf(name)
			m.SetEmptyGauge()
			for _, p := range points {
				fill(m.Gauge().DataPoints().AppendEmpty(), p.value, time.Time{}, p.at).Attributes().PutStr("series", p.series)
			}
			var err error
			last, err = pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
			mustDo(t, err)
			return post(last)
		}
		return &rig{
			adapter: o,
			tell:    func(points ...point) error { return send("level", points...) },
			retell:  func() error { return post(last) },
			beat:    func() error { return send("alive", point{"", w.now, 1}) },
			fail:    func() error { return post([]byte("x")) },
			garble:  func() error { return post(last[:len(last)-1]) },
			flood:   func() error { return post(make([]byte, MaxOTLPBody+1)) },
		}, nil
	},
}
