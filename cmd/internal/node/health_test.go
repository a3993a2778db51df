package node

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/events/eventstest"
	"assay/events/publish"
)

// newHouse is an initialised directory. Its witness is never asked with
// success, and the policy does not need it.
func newHouse(t *testing.T) Dir {
	t.Helper()
	dir := Dir(filepath.Join(t.TempDir(), "ledger"))
	if _, err := Init(t.Context(), InitConfig{Dir: dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	_, vkey := signerFor(t, "w", func(skey string) (note.Signer, error) { return fnote.NewSignerForCosignatureV1(skey) })
	vkey, err := fnote.VKeyToCosignatureV1(vkey)
	if err != nil {
		t.Fatal(err)
	}
	policy := "witness w " + vkey + " http://127.0.0.1:1/\nquorum none\n"
	if err := os.WriteFile(dir.Policy(), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scraped is one scrape of a socket.
type scraped map[string]*dto.MetricFamily

func scrape(t *testing.T, socket string) scraped {
	t.Helper()
	var raw []byte
	if err := Ask(t.Context(), socket, "GET", "/metrics", nil, &raw); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(append(raw, '\n')))
	if err != nil {
		t.Fatalf("scrape: %v", err)
	}
	problems, err := promlint.New(bytes.NewReader(append(raw, '\n'))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	return families
}

// value sums a metric over its series that have the label, "name=value", or
// all; a histogram's is its count.
func (s scraped) value(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	f := s[name]
	if f == nil {
		t.Fatalf("no metric %s", name)
	}
	for _, m := range f.Metric {
		has := label == ""
		for _, l := range m.Label {
			has = has || l.GetName()+"="+l.GetValue() == label
		}
		if !has {
			continue
		}
		switch {
		case m.Counter != nil:
			sum += m.Counter.GetValue()
		case m.Gauge != nil:
			sum += m.Gauge.GetValue()
		case m.Histogram != nil:
			sum += float64(m.Histogram.GetSampleCount())
		}
	}
	return sum
}

// eventually asks until ok, for as long as a loaded machine may need.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestMetrics: a whole `up` is scraped before and after events, and the
// numbers move as they should.
func TestMetrics(t *testing.T) {
	dir := newHouse(t)
	up, err := StartUp(t.Context(), UpConfig{Dir: dir, Software: "test", Seal: time.Second, Sensor: 200 * time.Millisecond, Metrics: "127.0.0.1:0", Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Stop()
	before := scrape(t, dir.Socket())
	publishSome(t, up.Hub)

	var after scraped
	eventually(t, "signed, projected, folded and sealed", func() bool {
		after = scrape(t, dir.Socket())
		return after["assay_predictions_open"] != nil && after.value(t, "assay_predictions_open", "") == 1 &&
			after["assay_telemetry_watermark_lag_seconds"] != nil &&
			after.value(t, "assay_witness_failing", "witness=w") == 1
	})
	for _, c := range []struct {
		name, label string
		least       float64 // growth
	}{
		{"assay_append_records_total", "", 13},
		{"assay_append_bytes_total", "", 13 * 300},
		{"assay_append_batch_records", "", 2},
		{"assay_append_duration_seconds", "", 2},
		{"assay_intake_answer_duration_seconds", "", 2},
		{"assay_ledger_records", "", 13},
		{"assay_checkpoint_records", "", 13},
		{"assay_projector_records", "", 13},
		{"assay_projector_head_records", "", 13},
		{"assay_intake_rejected_total", "code=bad_json", 1},
		{"assay_broker_refused_total", "principal=agent/piper", 1},
		{"assay_broker_store_bytes", "", 13 * 300},
	} {
		was := 0.0
		if before[c.name] != nil {
			was = before.value(t, c.name, c.label)
		}
		if grew := after.value(t, c.name, c.label) - was; grew < c.least {
			t.Errorf("%s{%s} grew by %g, want at least %g", c.name, c.label, grew, c.least)
		}
	}
	for _, c := range []struct {
		name, label string
		want        float64
	}{
		{"assay_ready", "", 1},
		{"assay_build_info", "version=test", 1},
		{"assay_logger_state", "state=serving", 1},
		{"assay_logger_state", "", 1}, // and none of the others
		{"assay_broker_store_serving", "", 1},
		{"assay_broker_restarts_total", "", 0},
		{"assay_intake_rejected_total", "code=conflict", 0},
		{"assay_projector_parked_records", "", 0},
		{"assay_projector_halted", "", 0},
		{"assay_telemetry_batches_total", "outcome=lost", 0},
	} {
		if got := after.value(t, c.name, c.label); got != c.want {
			t.Errorf("%s{%s} = %g, want %g", c.name, c.label, got, c.want)
		}
	}
	if age := after.value(t, "assay_checkpoint_age_seconds", ""); age < 0 || age > 60 {
		t.Errorf("the checkpoint is %g s old", age)
	}
	if n := len(after["assay_projector_lag_records"].Metric); n < 5 {
		t.Errorf("the lag of %d projections", n)
	}
	checkDeployed(t, after)
	checkTCP(t, up.scrape.addr.String())
}

// publishSome sends twelve events, an open prediction among them, one
// rejection, and one publish that the broker refuses.
func publishSome(t *testing.T, hub *Hub) {
	t.Helper()
	nc, err := hub.Connect("agent.piper")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client := publish.New(nc, "agent/piper")
	send := func(p events.Payload) {
		if _, err := client.Publish(t.Context(), eventstest.Encode(t, p)); err != nil {
			t.Fatal(err)
		}
	}
	for range 11 {
		send(&events.GateChosen{Action: "KNOW"})
	}
	action := "kill"
	send(&events.PredictionRecorded{
		PredID: "0195d3c0-0000-7000-8000-000000000001", PredictedEffect: "it is gone", P: 0.5, Action: &action,
		Criterion: []byte(`{"criterion_version":1,"action":{"tool":"kill","target":"hog","execute_by":"1h"},` +
			`"window":{"anchor":"action_end","offset":"1s","length":"4s"},` +
			`"all":[{"signal":"process_up","labels":{"pid":"1","start":"1"},"reduce":"max","op":"==","value":0}],"expires_after":"20s"}`),
	})
	var refused *publish.Refusal
	if _, err := client.Publish(t.Context(), []byte(`{`)); !errors.As(err, &refused) {
		t.Fatalf("garbage: %v", err)
	}
	if err := errors.Join(nc.Publish("ledger.x", nil), nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

// checkDeployed wants every metric that the alerts and the dashboard name in
// the scrape.
func checkDeployed(t *testing.T, s scraped) {
	t.Helper()
	named := regexp.MustCompile(`\b(?:assay|process)_[a-z0-9_]+\b`)
	for _, file := range []string{"alerts.yml", "dashboard.json"} {
		raw, err := os.ReadFile(filepath.Join("../../../deploy/prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Compact(slices.Sorted(slices.Values(named.FindAllString(string(raw), -1))))
		if len(names) < 20 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			family := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && s[base] != nil {
					family = base
				}
			}
			if s[family] == nil {
				t.Errorf("%s names %s, which no scrape has", file, name)
			}
		}
	}
}

func checkTCP(t *testing.T, addr string) {
	t.Helper()
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/status": 404} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// TestReadiness: services that run alone lose their broker, and say so.
func TestReadiness(t *testing.T) {
	dir := newHouse(t)
	start := func(ctx context.Context, name string) *Service {
		s, err := StartService(ctx, ServiceConfig{Service: name, UpConfig: UpConfig{Dir: dir, Software: "test", Sensor: time.Hour}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return s
	}
	ctx, stop := context.WithCancel(t.Context())
	brokerCtx, stopBroker := context.WithCancel(t.Context())
	broker := start(brokerCtx, "broker")
	sockets := map[string]string{"broker": dir.service("broker")}
	var services []*Service
	for _, name := range []string{"logger", "projector", "resolver", "ingress", "sensor"} { // a gateway spools meanwhile
		services = append(services, start(ctx, name))
		sockets[name] = dir.service(name)
	}
	sockets["projector"] = dir.Socket()
	defer stop()
	ready := func(socket string) (bool, string) {
		var raw []byte
		err := Ask(t.Context(), socket, "GET", "/readyz", nil, &raw)
		if err != nil {
			return false, err.Error()
		}
		return true, string(raw)
	}
	for name, socket := range sockets {
		if ok, why := ready(socket); !ok {
			t.Errorf("%s is not ready: %s", name, why)
		}
		if v := scrape(t, socket).value(t, "assay_ready", ""); v != 1 {
			t.Errorf("%s: assay_ready %g", name, v)
		}
	}
	if s := scrape(t, sockets["projector"]); s["assay_ledger_records"] != nil || s["assay_append_records_total"] != nil {
		t.Error("a projector shows a logger's metrics")
	}
	stopBroker()
	if err := broker.Wait(); err != nil {
		t.Fatal(err)
	}
	delete(sockets, "broker")
	defer func() {
		brokerCtx, stopBroker := context.WithCancel(t.Context())
		broker := start(brokerCtx, "broker")
		for name, socket := range sockets {
			eventually(t, name+" is ready again", func() bool { ok, _ := ready(socket); return ok })
		}
		stop()
		for _, s := range services {
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		}
		stopBroker()
		if err := broker.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for name, socket := range sockets {
		eventually(t, name+" says that the broker is gone", func() bool {
			ok, why := ready(socket)
			return !ok && strings.Contains(why, "not connected to the broker")
		})
		var raw []byte
		if err := Ask(t.Context(), socket, "GET", "/healthz", nil, &raw); err != nil || string(raw) != "ok" {
			t.Errorf("%s is alive: %q, %v", name, raw, err)
		}
		if v := scrape(t, socket).value(t, "assay_ready", ""); v != 0 {
			t.Errorf("%s: assay_ready %g", name, v)
		}
	}
}

func TestListenAddress(t *testing.T) {
	for _, c := range []struct {
		text   string
		public bool
		want   string // "": refused
	}{
		{"9480", false, "127.0.0.1:9480"},
		{":9480", false, "127.0.0.1:9480"},
		{":9480", true, "127.0.0.1:9480"},
		{"localhost:9480", false, "127.0.0.1:9480"},
		{"[::1]:9480", false, "[::1]:9480"},
		{"0.0.0.0:9480", false, ""},
		{"[::]:9480", false, ""},
		{"192.0.2.1:9480", false, ""},
		{"0.0.0.0:9480", true, "0.0.0.0:9480"},
		{"192.0.2.1:9480", true, "192.0.2.1:9480"},
		{"example.org:9480", true, ""},
		{"127.0.0.1:9480:1", false, ""},
	} {
		got, err := ListenAddress(c.text, c.public)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q, public %t: %q, %v; want %q", c.text, c.public, got, err, c.want)
		}
	}
}

// TestAlertRules holds the rules against Prometheus's own reading of them.
func TestAlertRules(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"check", "config", "--syntax-only", "prometheus.yml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = "../../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
