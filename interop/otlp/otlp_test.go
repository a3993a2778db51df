package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// house is an installation that runs, with the application as a source, and with a
// gateway.
type house struct {
	t        *testing.T
	bin, dir string
	listen   string // of the source
	gateway  string
}

func (h *house) assay(stdin string, args ...string) []byte {
	h.t.Helper()
	cmd := exec.Command(h.bin, append([]string{"--dir", h.dir, "--json"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("assay %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return out
}

const signals = `{"name":"app_alive","source":"app","unit":"1","kind":"gauge","heartbeat":"app_alive","metric":"app.alive",COMMON},
 {"name":"app_requests","source":"app","unit":"1","kind":"counter","heartbeat":"app_alive","metric":"app.requests","metric_unit":"{request}",
  "match":{"resource.attributes.service.name":"shop"},"labels_from":{"route":"attributes.http.route"},COMMON},
 {"name":"app_slow","source":"app","unit":"1","kind":"counter","heartbeat":"app_alive","metric":"app.duration","field":"count",COMMON},
 {"name":"app_crash","source":"app","unit":"1","kind":"event","heartbeat":"app_alive","match":{"attributes.crash":"true","severity_text":"FATAL"},COMMON}`

const common = `"writer":"sensor/app","interval":"1s","max_staleness":"30s","coverage_floor":0.8,"max_gap":"3s","allowed_lateness":"1s","max_skew":"0s","lo":0`

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, bin: filepath.Join(t.TempDir(), "assay"), dir: filepath.Join(t.TempDir(), "ledger")}
	build := exec.Command("go", "build", "-o", h.bin, "./cmd/assay")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build assay: %v\n%s", err, out)
	}
	h.listen, h.gateway = freeAddress(t), freeAddress(t)
	h.assay("", "init", "--offline-dir", t.TempDir())
	h.assay("", "principal", "add", "sensor/app")
	h.register()
	h.admit()
	h.up()
	return h
}

func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

// tokens of the gateway's callers, by principal.
var tokens = map[string]string{
	"dispatcher/main": "dispatcher-0123456789abcdef01234567",
	"agent/piper":     "agent-0123456789abcdef0123456789abc",
}

// admit lets the callers in at the gateway.
func (h *house) admit() {
	h.t.Helper()
	var callers []string
	for principal, token := range tokens {
		file := "creds/" + strings.Replace(principal, "/", ".", 1) + ".token"
		if err := os.WriteFile(filepath.Join(h.dir, file), []byte(token+"\n"), 0o600); err != nil {
			h.t.Fatal(err)
		}
		callers = append(callers, fmt.Sprintf(`{"token_file":%q,"principal":%q}`, file, principal))
	}
	file := fmt.Sprintf(`{"v":1,"tcp":%q,"callers":[%s]}`, h.gateway, strings.Join(callers, ","))
	if err := os.WriteFile(filepath.Join(h.dir, "gateway.json"), []byte(file), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// register adds the application to the registry of the host.
func (h *house) register() {
	h.t.Helper()
	path := filepath.Join(h.dir, "registry.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	var reg map[string]any
	if err := json.Unmarshal(raw, &reg); err != nil {
		h.t.Fatal(err)
	}
	var more []any
	if err := json.Unmarshal([]byte("["+strings.ReplaceAll(signals, "COMMON", common)+"]"), &more); err != nil {
		h.t.Fatal(err)
	}
	reg["signals"] = append(reg["signals"].([]any), more...)
	reg["sources"] = []any{map[string]any{"name": "app", "kind": "otlp", "listen": h.listen}}
	if raw, err = json.Marshal(reg); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) up() {
	h.t.Helper()
	cmd := exec.Command(h.bin, "--dir", h.dir, "up", "--sources", "--gateway", "--seal", "500ms")
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
	h.until("the source's door opens", func() bool {
		c, err := net.Dial("tcp", h.listen)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func (h *house) until(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s\n%s", what, h.assay("", "status"))
		}
	}
}

// predict records predictions about a time of that length from a second on,
// which expire some time after it, and returns once it has begun.
func (h *house) predict(length, expires string, clauses map[string]string) {
	h.t.Helper()
	var events strings.Builder
	for id, clause := range clauses {
		fmt.Fprintf(&events, `{"type":"prediction.recorded","data":{"context":{},"pred_id":%q,"claim_id":null,"action":null,"predicted_effect":"x","p":0.9,`+
			`"criterion":{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"1s","length":%q},"all":[%s],"expires_after":%q}}}`+"\n", id, length, clause, expires)
	}
	h.assay(events.String(), "emit")
	time.Sleep(2 * time.Second)
}

func (h *house) verdict(id string) (verdict, reason string) {
	h.t.Helper()
	h.until(id+" is resolved", func() bool {
		var shown any
		if err := json.Unmarshal(h.assay("", "show", id), &shown); err != nil {
			h.t.Fatal(err)
		}
		verdict, reason = find(shown, "verdict"), find(shown, "reason")
		return verdict != ""
	})
	return verdict, reason
}

// find is the first string member of that name.
func find(v any, name string) string {
	switch v := v.(type) {
	case map[string]any:
		if s, ok := v[name].(string); ok {
			return s
		}
		for _, e := range v {
			if s := find(e, name); s != "" {
				return s
			}
		}
	case []any:
		for _, e := range v {
			if s := find(e, name); s != "" {
				return s
			}
		}
	}
	return ""
}

// application is a process with metrics and logs, as a program has them.
type application struct {
	metrics  *sdkmetric.MeterProvider
	logs     *sdklog.LoggerProvider
	requests metric.Int64Counter
	duration metric.Float64Histogram
	logger   log.Logger
}

func newApplication(t *testing.T, addr string) *application {
	t.Helper()
	ctx := t.Context()
	res := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.instance.id", t.Name()))
	points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(addr), otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	if err != nil {
		t.Fatal(err)
	}
	records, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(addr), otlploghttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	a := &application{
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points, sdkmetric.WithInterval(250*time.Millisecond)))),
		logs:    sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(records, sdklog.WithExportInterval(100*time.Millisecond)))),
	}
	meter := a.metrics.Meter("shop")
	if a.requests, err = meter.Int64Counter("app.requests", metric.WithUnit("{request}")); err != nil {
		t.Fatal(err)
	}
	if a.duration, err = meter.Float64Histogram("app.duration"); err != nil {
		t.Fatal(err)
	}
	if _, err = meter.Int64ObservableGauge("app.alive", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(1)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	a.logger = a.logs.Logger("shop")
	return a
}

func (a *application) serve(ctx context.Context, n int64, route string) {
	a.requests.Add(ctx, n, metric.WithAttributes(attribute.String("http.route", route)))
	a.duration.Record(ctx, 0.2)
}

func (a *application) crash(ctx context.Context) {
	var r log.Record
	r.SetTimestamp(time.Now())
	r.SetSeverity(log.SeverityFatal)
	r.SetSeverityText("FATAL")
	r.SetBody(attribute.StringValue("out of memory"))
	r.AddAttributes(attribute.Bool("crash", true))
	a.logger.Emit(ctx, r)
}

// The SDK's exporters, over HTTP with gzip, through door, broker, ingress and
// sealer to resolutions.
func TestSDKToResolution(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	app := newApplication(t, h.listen)
	app.serve(ctx, 1, "/cart")
	app.serve(ctx, 1, "/pay")
	h.until("samples arrive", func() bool { return bytes.Contains(h.assay("", "status"), []byte(`"up_to"`)) })

	h.predict("20s", "120s", map[string]string{
		"served":   `{"signal":"app_requests","labels":{"route":"/cart"},"reduce":"increase","op":"==","value":6}`,
		"unserved": `{"signal":"app_requests","labels":{"route":"/pay"},"reduce":"increase","op":">=","value":1}`,
		"timed":    `{"signal":"app_slow","labels":{},"reduce":"increase","op":"==","value":2}`,
		"quiet":    `{"signal":"app_crash","labels":{},"reduce":"count","op":"==","value":0}`,
	})
	app.serve(ctx, 5, "/cart")
	app.serve(ctx, 1, "/cart")
	for id, want := range map[string]string{"served": "confirmed", "unserved": "refuted", "timed": "confirmed", "quiet": "confirmed"} {
		if verdict, reason := h.verdict(id); verdict != want {
			t.Errorf("%s: %s %s, want %s", id, verdict, reason, want)
		}
	}

	noCrash := `{"signal":"app_crash","labels":{},"reduce":"count","op":"==","value":0}`
	h.predict("20s", "120s", map[string]string{"crashes": noCrash})
	app.crash(ctx)
	if verdict, reason := h.verdict("crashes"); verdict != "refuted" {
		t.Errorf("crashes: %s %s, want refuted", verdict, reason)
	}

	// The process ends: its silence is no success, however long it is waited for.
	for _, stop := range []func(context.Context) error{app.metrics.Shutdown, app.logs.Shutdown} {
		if err := stop(ctx); err != nil {
			t.Error(err)
		}
	}
	h.predict("2s", "5s", map[string]string{"silent": noCrash})
	if verdict, reason := h.verdict("silent"); verdict != "unresolved" || reason != "source_silent" {
		t.Errorf("silent: %s %s, want unresolved source_silent", verdict, reason)
	}
}
