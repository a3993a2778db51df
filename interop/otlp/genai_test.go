package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// exporter sends to the gateway as its users do: an endpoint and a header.
func (h *house) exporter(principal string) *otlptrace.Exporter {
	h.t.Helper()
	e, err := otlptracehttp.New(h.t.Context(), otlptracehttp.WithEndpoint(h.gateway), otlptracehttp.WithInsecure(),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + tokens[principal]}))
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// work records an agent's turn: a model call, a tool call that fails, one without
// a name, and a span of something else.
func work(t *testing.T) []sdktrace.ReadOnlySpan {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"))))
	tracer := provider.Tracer("agent")
	ctx, agent := tracer.Start(t.Context(), "invoke_agent fixer", trace.WithAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "fixer")))
	_, chat := tracer.Start(ctx, "chat m", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "anthropic"), attribute.String("gen_ai.response.model", "m-2"),
		attribute.String("gen_ai.response.id", "msg_1"), attribute.Int("gen_ai.usage.input_tokens", 120), attribute.Int("gen_ai.usage.cache_read.input_tokens", 100),
		attribute.Int("gen_ai.usage.output_tokens", 0), attribute.StringSlice("gen_ai.response.finish_reasons", []string{"tool_use"})))
	chat.End()
	_, tool := tracer.Start(ctx, "execute_tool restart", trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", "restart"), attribute.String("gen_ai.tool.call.id", "call_1"), attribute.String("error.type", "ENOENT")))
	tool.SetStatus(codes.Error, "no such unit")
	tool.End()
	_, nameless := tracer.Start(ctx, "execute_tool", trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool")))
	nameless.End()
	_, other := tracer.Start(ctx, "GET /")
	other.End()
	agent.End()
	if err := provider.ForceFlush(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	return kept.GetSpans().Snapshots()
}

// recorded are the events of a type in the ledger, in the order of records.
func (h *house) recorded(typ string) (out []map[string]any) {
	h.t.Helper()
	for line := range strings.Lines(string(h.assay("", "tail", "--type", typ))) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			h.t.Fatalf("%v: %s", err, line)
		}
		out = append(out, v)
	}
	return out
}

// TestSDKToLedger: the SDK's trace exporter, with gzip and a token, through the
// gateway to records; what it sends again adds nothing, and one bad span costs no
// other.
func TestSDKToLedger(t *testing.T) {
	h := newHouse(t)
	var mu sync.Mutex
	var told []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err.Error())
	}))
	spans := work(t)
	exporter := h.exporter("dispatcher/main")
	for range 3 {
		mu.Lock()
		told = nil
		mu.Unlock()
		err := exporter.ExportSpans(t.Context(), spans)
		mu.Lock()
		said := fmt.Sprint(err, told)
		mu.Unlock()
		if !strings.Contains(said, "gen_ai.tool.name") || !strings.Contains(said, "1 span") {
			t.Fatalf("the exporter was told %s", said)
		}
	}
	var calls, usages, episodes []map[string]any
	h.until("the turn is in the ledger", func() bool {
		calls, usages, episodes = h.recorded("tool.called"), h.recorded("usage.recorded"), h.recorded("episode.recorded")
		return len(calls) > 0 && len(usages) > 0 && len(episodes) > 0
	})
	if len(calls) != 1 || len(usages) != 1 || len(episodes) != 1 {
		t.Fatalf("%d calls, %d usages, %d episodes", len(calls), len(usages), len(episodes))
	}
	for _, c := range []struct {
		in         map[string]any
		name, want string
	}{
		{calls[0], "tool_call_id", "call_1"}, {calls[0], "status", "failed"}, {calls[0], "error", "ENOENT"}, {calls[0], "capture", "otlp"},
		{usages[0], "message_id", "msg_1"}, {usages[0], "usage_convention", "input_includes_cached"}, {episodes[0], "client", "shop"},
	} {
		if got := find(c.in, c.name); got != c.want {
			t.Errorf("%s is %q, want %q: %v", c.name, got, c.want, c.in)
		}
	}
	if id := spans[0].SpanContext().TraceID().String(); find(calls[0], "episodeid") != id || find(usages[0], "correlationid") != id || find(episodes[0], "turn_id") != id {
		t.Errorf("not of trace %s: %v %v %v", id, calls, usages, episodes)
	}
	var shown any
	if err := json.Unmarshal(h.assay("", "show", "call_1"), &shown); err != nil {
		t.Fatal(err)
	}
	if find(shown, "witness") != "otlp" {
		t.Errorf("%v", shown)
	}

	// An agent speaks for its own calls, which stay self-reports.
	mu.Lock()
	told = nil
	mu.Unlock()
	err := h.exporter("agent/piper").ExportSpans(t.Context(), work(t))
	mu.Lock()
	said := fmt.Sprint(err, told)
	mu.Unlock()
	if !strings.Contains(said, "this role may not write usage.recorded") {
		t.Errorf("the agent's exporter was told %s", said)
	}
	h.until("the agent's call is there too", func() bool { return len(h.recorded("tool.called")) == 2 })
	if len(h.recorded("usage.recorded")) != 1 {
		t.Error("an agent's usage is in the ledger")
	}
	// Without a token nothing gets in, and it is not tried again and again.
	if err := h.exporter("nobody/known").ExportSpans(t.Context(), work(t)); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
}

// TestLogsToLedger: log records as Claude Code sends them, by the SDK.
func TestLogsToLedger(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	exporter, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(h.gateway), otlploghttp.WithInsecure(), otlploghttp.WithHeaders(map[string]string{"Authorization": "Bearer " + tokens["dispatcher/main"]}))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(exporter)), sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "claude-code"))))
	var r log.Record
	r.SetTimestamp(time.Now())
	r.SetBody(attribute.StringValue("claude_code.tool_result"))
	r.AddAttributes(attribute.String("event.name", "tool_result"), attribute.String("session.id", "s1"), attribute.String("tool_name", "Bash"),
		attribute.String("tool_use_id", "toolu_1"), attribute.String("success", "true"), attribute.Int("duration_ms", 12))
	logger := provider.Logger("com.anthropic.claude_code.events")
	logger.Emit(ctx, r)
	logger.Emit(ctx, r)
	if err := errors.Join(provider.ForceFlush(ctx), provider.Shutdown(ctx)); err != nil {
		t.Fatal(err)
	}
	h.until("the call is in the ledger", func() bool { return len(h.recorded("tool.called")) > 0 })
	if calls := h.recorded("tool.called"); len(calls) != 1 || find(calls[0], "tool_call_id") != "toolu_1" || find(calls[0], "episodeid") != "s1" {
		t.Errorf("%v", calls)
	}
	t.Run("deployed", func(t *testing.T) { deployed(t, h) })
}

// deployed: the wiring that deploy/otel shows reaches the gateway, read as its
// programs read it.
func deployed(t *testing.T, h *house) {
	const dir = "../../deploy/otel/"
	fill := strings.NewReplacer("127.0.0.1:7070", h.gateway, "TOKEN", tokens["dispatcher/main"])
	file := func(name string) string {
		raw, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		return fill.Replace(string(raw))
	}
	var settings struct {
		Env map[string]string `json:"env"`
	}
	if err := json.Unmarshal([]byte(file("claude-code.settings.json")), &settings); err != nil {
		t.Fatal(err)
	}
	if settings.Env["CLAUDE_CODE_ENABLE_TELEMETRY"] != "1" || settings.Env["OTEL_LOGS_EXPORTER"] != "otlp" {
		t.Errorf("%v", settings.Env)
	}
	agent := map[string]string{}
	for line := range strings.Lines(file("agent.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			agent[name] = value
		}
	}
	for name, env := range map[string]map[string]string{"claude-code": settings.Env, "agent": agent} {
		t.Run(name, func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			exporter, err := otlptracehttp.New(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := exporter.ExportSpans(t.Context(), tool(t)); err != nil {
				t.Error(err)
			}
			records, err := otlploghttp.New(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			send(t, records, "toolu_"+name)
		})
	}
	codex := regexp.MustCompile(`exporter = \{ otlp-http = \{ endpoint = "([^"]+)", protocol = "binary", headers = \{ "Authorization" = "([^"]+)" \} \} \}`).FindStringSubmatch(file("codex.toml"))
	if codex == nil {
		t.Fatal("codex.toml has no exporter")
	}
	records, err := otlploghttp.New(t.Context(), otlploghttp.WithEndpointURL(codex[1]), otlploghttp.WithHeaders(map[string]string{"Authorization": codex[2]}))
	if err != nil {
		t.Fatal(err)
	}
	send(t, records, "toolu_codex")
	for _, call := range []string{"toolu_claude-code", "toolu_agent", "toolu_codex"} {
		h.until(call+" is in the ledger", func() bool { return strings.Contains(fmt.Sprint(h.recorded("tool.called")), call) })
	}
}

// tool is a span of a tool call.
func tool(t *testing.T) []sdktrace.ReadOnlySpan {
	t.Helper()
	for _, s := range work(t) {
		if s.Name() == "execute_tool restart" {
			return []sdktrace.ReadOnlySpan{s}
		}
	}
	t.Fatal("no tool call")
	return nil
}

// send exports a tool's result as Claude Code does, and waits for the answer.
func send(t *testing.T, exporter sdklog.Exporter, callID string) {
	t.Helper()
	failed := make(chan error, 1)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		select {
		case failed <- err:
		default:
		}
	}))
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(exporter)))
	var r log.Record
	r.SetTimestamp(time.Now())
	r.SetBody(attribute.StringValue("claude_code.tool_result"))
	r.AddAttributes(attribute.String("event.name", "tool_result"), attribute.String("tool_name", "Bash"), attribute.String("tool_use_id", callID), attribute.String("success", "true"))
	provider.Logger("x").Emit(t.Context(), r)
	if err := errors.Join(provider.ForceFlush(t.Context()), provider.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}
