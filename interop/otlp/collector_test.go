package otlp

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

// TestCollector: a real Collector with the configuration that deploy/otel ships,
// between the SDK and the gateway. ASSAY_OTELCOL is its binary, which `task
// otel-collector` builds.
func TestCollector(t *testing.T) {
	bin := os.Getenv("ASSAY_OTELCOL")
	if bin == "" {
		t.Skip("SKIPPED: ASSAY_OTELCOL names no Collector (task otel-collector)")
	}
	h := newHouse(t)
	door := freeAddress(t)
	raw, err := os.ReadFile("../../deploy/otel/collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "collector.yaml")
	text := strings.NewReplacer("127.0.0.1:4328", door, "127.0.0.1:7070", h.gateway, "127.0.0.1:4318", h.listen).Replace(string(raw))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--config", config)
	cmd.Env = append(os.Environ(), "GATEWAY_TOKEN="+tokens["dispatcher/main"], "SENSOR_TOKEN=none")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the Collector: %v", err)
		}
		if t.Failed() {
			t.Logf("the Collector says:\n%s", &said)
		}
	})
	h.until("the Collector listens", func() bool {
		c, err := net.Dial("tcp", door)
		return err == nil && c.Close() == nil
	})

	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(door), otlptracehttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	turn := work(t)
	for range 2 { // a producer that repeats itself
		if err := spans.ExportSpans(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	records, err := otlploghttp.New(t.Context(), otlploghttp.WithEndpoint(door), otlploghttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	send(t, records, "toolu_collected")
	app := newApplication(t, door)
	app.serve(t.Context(), 1, "/cart")
	h.until("everything is there", func() bool {
		return len(h.recorded("tool.called")) == 2 && len(h.recorded("usage.recorded")) == 1 && len(h.recorded("episode.recorded")) == 1 &&
			bytes.Contains(h.assay("", "status"), []byte(`"up_to"`))
	})
}
