package genai_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"assay/events"
	"assay/events/genai"
	"assay/internal/answerkeys"
	"assay/schema"
)

const (
	trace = "5b8efff798038103d269b633813fc60c"
	// 2026-03-01T10:00:00Z and a second and a half later.
	start, end = "1772359200000000000", "1772359201500000000"
)

// attributes are written as OTLP/JSON has them; a value is a string, an int, a
// float64 or a bool.
type attributes map[string]any

func (a attributes) String() string {
	var parts []string
	for name, v := range a {
		value := fmt.Sprintf(`{"stringValue":%q}`, v)
		switch v := v.(type) {
		case int:
			value = fmt.Sprintf(`{"intValue":"%d"}`, v)
		case float64:
			value = fmt.Sprintf(`{"doubleValue":%g}`, v)
		case bool:
			value = fmt.Sprintf(`{"boolValue":%t}`, v)
		}
		parts = append(parts, fmt.Sprintf(`{"key":%q,"value":%s}`, name, value))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// with is a with some changes; a nil value takes one away.
func (a attributes) with(changes attributes) attributes {
	a = maps.Clone(a)
	for name, v := range changes {
		if a[name] = v; v == nil {
			delete(a, name)
		}
	}
	return a
}

func span(id string, a attributes, more string) string {
	return fmt.Sprintf(`{"traceId":%q,"spanId":%q,"name":"s","startTimeUnixNano":%q,"endTimeUnixNano":%q,"attributes":%s%s}`, trace, id, start, end, a, more)
}

func spans(s ...string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"piper"}},{"key":"service.version","value":{"stringValue":"2.1"}}]},` +
		`"scopeSpans":[{"spans":[` + strings.Join(s, ",") + `]}]}]}`
}

func logs(service string, records ...string) string {
	return `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"` + service + `"}}]},"scopeLogs":[{"logRecords":[` + strings.Join(records, ",") + `]}]}]}`
}

// record is a log record; at is "" for one that its sender did not date.
func record(body, at string, a attributes) string {
	if at == "" {
		at = "0"
	}
	return fmt.Sprintf(`{"timeUnixNano":%q,"observedTimeUnixNano":%q,"body":{"stringValue":%q},"attributes":%s}`, at, end, body, a)
}

func read(t testing.TB, cfg genai.Config, exports ...string) genai.Reading {
	t.Helper()
	var all genai.Reading
	for _, export := range exports {
		r, err := genai.JSON([]byte(export), cfg)
		if err != nil {
			t.Fatal(err)
		}
		all.Events = append(all.Events, r.Events...)
		all.Passed += r.Passed
		all.Rejected += r.Rejected
		if all.Why == nil {
			all.Why = r.Why
		}
		if r.Withheld != nil {
			all.Withheld = r.Withheld
		}
	}
	return all
}

// checkData wants one event with that data, members in any order.
func checkData(t *testing.T, r genai.Reading, typ, want string) {
	t.Helper()
	if len(r.Events) != 1 {
		t.Fatalf("%d events: %s", len(r.Events), r.Notice())
	}
	e, err := events.Decode(r.Events[0].Raw)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := e.RawData, jsontext.Value(want)
	if err := errors.Join(got.Canonicalize(), wanted.Canonicalize()); err != nil {
		t.Fatal(err)
	}
	if e.Type != typ || !bytes.Equal(got, wanted) {
		t.Errorf("%s\n got %s\nwant %s", e.Type, got, wanted)
	}
}

var (
	tool = attributes{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "restart", "gen_ai.tool.call.id": "call_1", "gen_ai.conversation.id": "conv-7",
		"gen_ai.agent.name": "fixer", "gen_ai.tool.call.arguments": `{"unit":"x"}`,
	}
	chat = attributes{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m", "gen_ai.response.model": "m-2",
		"gen_ai.response.id": "msg_1", "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 100,
		"gen_ai.input.messages": "the user's secret", "session.id": "s-1",
	}
	agent = attributes{"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 100}
	times = `"started_at":"2026-03-01T10:00:00Z","ended_at":"2026-03-01T10:00:01.5Z","latency_ms":1500`
)

// argsHash is the SHA-256 of {"unit":"x"}.
const argsHash = "9b2e7bd59287c431a64c4daf30b0143b34d57d54102dddc48942b08e6ca1971b"

func TestSpans(t *testing.T) {
	for name, c := range map[string]struct {
		span, typ, want string
	}{
		"tool": {span("00f067aa0ba902b7", tool, ""), "tool.called",
			`{"context":{"component":"fixer","capture":"otlp"},"tool_call_id":"call_1","tool":"restart","status":"ok","args_hash":"` + argsHash + `",` + times + `}`},
		"tool that failed": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c", "error.type": "ENOENT"}, `,"status":{"code":2,"message":"no such file /home/ann"}`), "tool.called",
			`{"context":{"component":"piper","capture":"otlp"},"tool_call_id":"c","tool":"t","status":"failed","error":"ENOENT",` + times + `}`},
		"tool that failed by its status alone": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c"}, `,"status":{"code":2}`), "tool.called",
			`{"context":{"component":"piper","capture":"otlp"},"tool_call_id":"c","tool":"t","status":"failed",` + times + `}`},
		"tool out of time": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c", "error.type": "timeout"}, ""), "tool.called",
			`{"context":{"component":"piper","capture":"otlp"},"tool_call_id":"c","tool":"t","status":"timeout","error":"timeout",` + times + `}`},
		"model": {span("00f067aa0ba902b7", chat, ""), "usage.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"message_id":"msg_1","provider":"anthropic","model":"m-2","status":"ok",` +
				`"tokens":{"input":120,"output":7,"cached":100},"usage_convention":"input_includes_cached",` + times + `}`},
		"model by older names": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m",
			"gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 2}, ""), "usage.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"provider":"openai","model":"m","status":"ok","tokens":{"input":9,"output":2},` + times + `}`},
		"cached by an older name": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.cache_read_input_tokens": 80}, ""), "usage.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"status":"ok","tokens":{"input":9,"cached":80},` + times + `}`},
		"no tokens are unknown": {span("00f067aa0ba902b7", chat.with(attributes{"gen_ai.usage.input_tokens": nil, "gen_ai.usage.output_tokens": nil, "gen_ai.usage.cache_read.input_tokens": nil}), ""), "usage.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"message_id":"msg_1","provider":"anthropic","model":"m-2","status":"ok",` + times + `}`},
		"zero tokens are zero": {span("00f067aa0ba902b7", attributes{"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 0}, ""), "usage.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"status":"ok","tokens":{"input":3,"cached":0},"usage_convention":"input_includes_cached",` + times + `}`},
		"agent": {span("00f067aa0ba902b7", agent, ""), "episode.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"turn_id":"` + trace + `","client":"piper","client_version":"2.1",` +
				`"latency_ms":1500,"uncached_input_tokens":20,"cached_input_tokens":100,"output_tokens":7,"total_tokens":127}`},
		"agent's turn of a conversation": {span("00f067aa0ba902b7", agent.with(attributes{"gen_ai.conversation.id": "conv-7"}), ""), "episode.recorded",
			`{"context":{"component":"piper","capture":"otlp"},"session_id":"conv-7","turn_id":"` + trace + `","client":"piper","client_version":"2.1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			checkData(t, read(t, genai.Config{Role: schema.RoleDispatcher}, spans(c.span)), c.typ, c.want)
		})
	}
}

// TestEnvelope: hex ids are in lower case however they came; the conversation
// comes before the session and the trace; an id that nobody gave follows from
// the span.
func TestEnvelope(t *testing.T) {
	r := read(t, genai.Config{}, spans(
		strings.Replace(span("EEE19B7EC3C1B174", tool, ""), trace, strings.ToUpper(trace), 1),
		span("eee19b7ec3c1b175", chat, ""),
		span("eee19b7ec3c1b176", attributes{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}, ""),
	))
	if len(r.Events) != 3 {
		t.Fatalf("%d events: %s", len(r.Events), r.Notice())
	}
	for i, episode := range []string{"conv-7", "s-1", trace} {
		e := r.Events[i]
		if e.EpisodeID != episode || e.CorrelationID != trace || e.Source != "urn:otlp:piper" || e.Time != "2026-03-01T10:00:01.5Z" {
			t.Errorf("event %d: episode %s of trace %s, from %s at %s", i, e.EpisodeID, e.CorrelationID, e.Source, e.Time)
		}
	}
	if id := r.Events[2].Data.(*events.ToolCalled).ToolCallID; id != "otlp:"+r.Events[2].ID {
		t.Errorf("the call is %s in event %s", id, r.Events[2].ID)
	}
	same := read(t, genai.Config{}, spans(span("eee19b7ec3c1b174", tool, ""))).Events[0]
	if !bytes.Equal(same.Raw, r.Events[0].Raw) {
		t.Errorf("sent again:\n%s\n%s", same.Raw, r.Events[0].Raw)
	}
}

// TestNothingIsTakenOver: neither identity nor text gets through.
func TestNothingIsTakenOver(t *testing.T) {
	hostile := attributes{
		"principal": "operator/ops", "namespace": "bench/x", "gen_ai.tool.call.result": "SECRET", "gen_ai.tool.description": "SECRET",
		"gen_ai.input.messages": "SECRET", "gen_ai.output.messages": "SECRET", "context": "SECRET", "source": "SECRET", "id": "SECRET",
	}
	r := read(t, genai.Config{}, spans(
		span("00f067aa0ba902b1", tool.with(hostile), `,"status":{"code":2,"message":"SECRET"},"events":[{"name":"exception","attributes":[{"key":"exception.message","value":{"stringValue":"SECRET"}}]}]`),
		span("00f067aa0ba902b2", chat.with(hostile), ""),
		span("00f067aa0ba902b3", agent.with(hostile), ""),
	), logs("claude-code",
		record("claude_code.tool_result", end, claudeTool.with(hostile).with(attributes{"error": "SECRET", "success": "false", "tool_parameters": "SECRET"})),
		record("codex.tool_result", "", codexTool.with(hostile).with(attributes{"output": "SECRET", "arguments": "SECRET"})),
	))
	if len(r.Events) != 5 {
		t.Fatalf("%d events: %s", len(r.Events), r.Notice())
	}
	for _, e := range r.Events {
		for _, text := range []string{"SECRET", "operator/", "bench/", "secret"} {
			if strings.Contains(string(e.Raw), text) {
				t.Errorf("%s is in %s", text, e.Raw)
			}
		}
	}
}

// TestOneBadSpan is rejected alone, with the reason.
func TestOneBadSpan(t *testing.T) {
	good := span("00f067aa0ba902b7", tool, "")
	for name, c := range map[string]struct{ bad, why string }{
		"no tool":         {span("00f067aa0ba902b8", tool.with(attributes{"gen_ai.tool.name": nil}), ""), "gen_ai.tool.name"},
		"tool is a list":  {strings.Replace(span("00f067aa0ba902b8", tool.with(attributes{"gen_ai.tool.name": "LIST"}), ""), `{"stringValue":"LIST"}`, `{"arrayValue":{}}`, 1), "gen_ai.tool.name"},
		"tool too long":   {span("00f067aa0ba902b8", tool.with(attributes{"gen_ai.tool.name": strings.Repeat("x", 257)}), ""), "/data/tool"},
		"negative tokens": {span("00f067aa0ba902b8", chat.with(attributes{"gen_ai.usage.output_tokens": -1}), ""), "gen_ai.usage.output_tokens"},
		"half a token":    {span("00f067aa0ba902b8", chat.with(attributes{"gen_ai.usage.output_tokens": 0.5}), ""), "gen_ai.usage.output_tokens"},
		"tokens in words": {span("00f067aa0ba902b8", chat.with(attributes{"gen_ai.usage.output_tokens": "many"}), ""), "gen_ai.usage.output_tokens"},
		"no span id":      {span("", tool, ""), "span id"},
		"no time":         {strings.NewReplacer(start, "0", end, "0").Replace(span("00f067aa0ba902b8", tool, "")), "time"},
		"ends first":      {strings.NewReplacer(start, end, end, start).Replace(span("00f067aa0ba902b8", tool, "")), "before it starts"},
		"ends never":      {strings.Replace(span("00f067aa0ba902b8", tool, ""), end, "18446744073709551615", 1), "2262"},
		"undated log":     {"", "time"},
		"flag":            {"", "success"},
	} {
		t.Run(name, func(t *testing.T) {
			exports := []string{spans(good, c.bad)}
			switch name {
			case "undated log":
				exports = []string{spans(good), logs("c", strings.Replace(record("claude_code.tool_result", "", claudeTool), end, "0", 1))}
			case "flag":
				exports = []string{spans(good), logs("c", record("claude_code.tool_result", end, claudeTool.with(attributes{"success": "perhaps"})))}
			}
			r := read(t, genai.Config{}, exports...)
			if len(r.Events) != 1 || r.Rejected != 1 || r.Why == nil || !strings.Contains(r.Why.Error(), c.why) || !strings.Contains(r.Notice(), c.why) {
				t.Errorf("%d events, %d rejected: %v", len(r.Events), r.Rejected, r.Why)
			}
		})
	}
}

// TestForeignIDs: an id that is none in the ledger has the name there that hooks and
// imports have for it.
func TestForeignIDs(t *testing.T) {
	e := read(t, genai.Config{}, spans(span("00f067aa0ba902b8", tool.with(attributes{"gen_ai.tool.call.id": "two words", "gen_ai.conversation.id": "a talk"}), ""))).Events[0]
	if call := e.Data.(*events.ToolCalled); call.ToolCallID != events.Identifier("two words") || e.EpisodeID != events.Identifier("a talk") {
		t.Errorf("call %s of %s", call.ToolCallID, e.EpisodeID)
	}
	e = read(t, genai.Config{}, spans(span("00f067aa0ba902b8", agent.with(attributes{"gen_ai.conversation.id": "a talk"}), ""))).Events[0]
	if d := e.Data.(*events.EpisodeRecorded); *d.SessionID != events.Identifier("a talk") || e.EpisodeID != *d.SessionID {
		t.Errorf("session %s of %s", *d.SessionID, e.EpisodeID)
	}
}

// TestRoles: an agent speaks of its calls alone, and is told what was left out.
func TestRoles(t *testing.T) {
	all := spans(span("00f067aa0ba902b1", tool, ""), span("00f067aa0ba902b2", chat, ""), span("00f067aa0ba902b3", agent, ""), span("00f067aa0ba902b4", attributes{"http.route": "/"}, ""),
		span("00f067aa0ba902b5", agent, `,"parentSpanId":"00f067aa0ba902b3"`))
	for role, events := range map[schema.Role]int{schema.RoleAgent: 1, schema.RoleDispatcher: 3, schema.RoleHarness: 3, schema.RoleSensor: 0, "": 3} {
		r := read(t, genai.Config{Role: role}, all)
		if len(r.Events) != events || r.Passed != 2 || r.Rejected != 0 || len(r.Withheld) != 3-events {
			t.Errorf("%s: %d events, %d passed over, withheld %v", role, len(r.Events), r.Passed, r.Withheld)
		}
		if told := strings.Contains(r.Notice(), "1 left out: this role may not write usage.recorded"); told != (events < 3) {
			t.Errorf("%s: %q", role, r.Notice())
		}
	}
}

var (
	claudeTool = attributes{
		"event.name": "tool_result", "event.sequence": 4, "session.id": "0b7c", "prompt.id": "p", "user.email": "ann@example.com",
		"tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true", "duration_ms": 12,
	}
	claudeAPI = attributes{
		"event.name": "api_request", "session.id": "0b7c", "model": "claude-m", "request_id": "req_1", "cost_usd": 0.25, "duration_ms": "2341",
		"input_tokens": 10, "output_tokens": 20, "cache_read_tokens": 300, "cache_creation_tokens": 40,
	}
	codexTool = attributes{
		"event.name": "codex.tool_result", "event.timestamp": "2026-03-01T10:00:01.500Z", "conversation.id": "0195", "tool_name": "shell", "call_id": "call_9",
		"arguments": `{"unit":"x"}`, "duration_ms": "12", "success": "false", "output": "denied",
	}
	codexEnd = attributes{
		"event.name": "codex.sse_event", "event.kind": "response.completed", "event.timestamp": "2026-03-01T10:00:01.500Z", "conversation.id": "0195", "model": "gpt-m",
		"input_token_count": "100", "output_token_count": "5", "cached_token_count": 80, "reasoning_token_count": 3, "tool_token_count": "105",
	}
)

func TestLogs(t *testing.T) {
	const ended = `"ended_at":"2026-03-01T10:00:01.5Z"`
	for name, c := range map[string]struct{ record, typ, want string }{
		"Claude Code's tool": {record("claude_code.tool_result", end, claudeTool), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"toolu_1","tool":"Bash","status":"ok","latency_ms":12,` + ended + `}`},
		"Claude Code's tool that failed": {record("claude_code.tool_result", end, claudeTool.with(attributes{"success": "false", "error_type": "ShellError", "error": "cat: /home/ann"})), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"toolu_1","tool":"Bash","status":"failed","error":"ShellError","latency_ms":12,` + ended + `}`},
		"the event's name in its own field": {strings.Replace(record("", end, claudeTool), `"body"`, `"eventName":"claude_code.tool_result","body"`, 1), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"toolu_1","tool":"Bash","status":"ok","latency_ms":12,` + ended + `}`},
		"Claude Code's tool that was denied": {record("claude_code.tool_decision", end, attributes{"event.name": "tool_decision", "tool_name": "Bash", "tool_use_id": "toolu_2", "decision": "reject", "source": "user_reject"}), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"toolu_2","tool":"Bash","status":"denied"}`},
		"Claude Code's request": {record("claude_code.api_request", end, claudeAPI), "usage.recorded",
			`{"context":{"component":"cli","capture":"otlp"},"message_id":"req_1","model":"claude-m","status":"ok",` +
				`"tokens":{"input":50,"output":20,"cached":300},"usage_convention":"input_excludes_cached","latency_ms":2341,` + ended + `}`},
		"Claude Code's request, part unknown": {record("claude_code.api_request", end, claudeAPI.with(attributes{"cache_creation_tokens": nil})), "usage.recorded",
			`{"context":{"component":"cli","capture":"otlp"},"message_id":"req_1","model":"claude-m","status":"ok",` +
				`"tokens":{"output":20,"cached":300},"usage_convention":"input_excludes_cached","latency_ms":2341,` + ended + `}`},
		"Claude Code's request that failed": {record("claude_code.api_error", end, attributes{"model": "claude-m", "error": "overloaded", "status_code": 529, "attempt": 3, "duration_ms": 9}), "usage.recorded",
			`{"context":{"component":"cli","capture":"otlp"},"model":"claude-m","status":"failed","attempts":3,"latency_ms":9,` + ended + `}`},
		"Codex's tool": {record("", "", codexTool), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"call_9","tool":"shell","status":"failed","args_hash":"` + argsHash + `","latency_ms":12,` + ended + `}`},
		"Codex's tool that was denied": {record("", "", codexTool.with(attributes{"event.name": "codex.tool_decision", "decision": "denied", "source": "User"})), "tool.called",
			`{"context":{"component":"cli","capture":"otlp"},"tool_call_id":"call_9","tool":"shell","status":"denied"}`},
		"Codex's response": {record("", "", codexEnd), "usage.recorded",
			`{"context":{"component":"cli","capture":"otlp"},"model":"gpt-m","status":"ok","tokens":{"input":100,"output":5,"cached":80},"usage_convention":"input_includes_cached",` + ended + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			checkData(t, read(t, genai.Config{Role: schema.RoleDispatcher}, logs("cli", c.record)), c.typ, c.want)
		})
	}
}

// TestLogsThatSayNothing are passed over, and none is rejected.
func TestLogsThatSayNothing(t *testing.T) {
	r := read(t, genai.Config{}, logs("cli",
		record("claude_code.user_prompt", end, attributes{"event.name": "user_prompt", "prompt": "x"}),
		record("claude_code.tool_decision", end, attributes{"event.name": "tool_decision", "decision": "accept", "tool_name": "Bash"}),
		record("", "", codexTool.with(attributes{"event.name": "codex.tool_decision", "decision": "approved"})),
		record("", "", codexEnd.with(attributes{"event.kind": "response.output_item.done"})),
		record("tool_result", end, attributes{"event.name": "tool_result", "tool_name": "x", "success": "true"}), // of whatever program
		`{"timeUnixNano":"1","body":{"kvlistValue":{}}}`,
	), `{"resourceMetrics":[]}`)
	if len(r.Events) != 0 || r.Passed != 6 || r.Rejected != 0 {
		t.Errorf("%d events, %d passed over, %d rejected: %v", len(r.Events), r.Passed, r.Rejected, r.Why)
	}
}

// TestIdentityOfRecords: a record has the same id again, in whatever order its
// attributes come and whenever it was observed, and no other has it.
func TestIdentityOfRecords(t *testing.T) {
	one := record("claude_code.api_request", end, claudeAPI)
	id := read(t, genai.Config{}, logs("cli", one)).Events[0].ID
	for range 20 { // the attributes come in the order of a map
		later := strings.Replace(record("claude_code.api_request", end, claudeAPI), `"observedTimeUnixNano":"`+end, `"observedTimeUnixNano":"`+start, 1)
		if again := read(t, genai.Config{}, logs("cli", later)).Events[0].ID; again != id {
			t.Fatalf("%s, and again %s", id, again)
		}
	}
	seen := map[string]string{id: "itself"}
	for name, export := range map[string]string{
		"another second":    logs("cli", record("claude_code.api_request", start, claudeAPI)),
		"another attribute": logs("cli", record("claude_code.api_request", end, claudeAPI.with(attributes{"event.sequence": 5}))),
		"another value":     logs("cli", record("claude_code.api_request", end, claudeAPI.with(attributes{"output_tokens": 21}))),
		"another program":   logs("other", one),
		"another event":     logs("cli", record("claude_code.api_error", end, claudeAPI)),
	} {
		r := read(t, genai.Config{}, export)
		if len(r.Events) != 1 || seen[r.Events[0].ID] != "" {
			t.Errorf("%s: %d events, like %q", name, len(r.Events), seen[r.Events[0].ID])
			continue
		}
		seen[r.Events[0].ID] = name
	}
	// Where only the observer dated it, that tells two apart.
	undated := record("", "", codexEnd.with(attributes{"event.timestamp": nil}))
	a := read(t, genai.Config{}, logs("cli", undated)).Events[0]
	b := read(t, genai.Config{}, logs("cli", strings.Replace(undated, end, start, 1))).Events[0]
	if a.ID == b.ID {
		t.Error("two responses have one id")
	}
}

// TestOfAResource: what all items of a resource share is read as if each had it, but
// for what only a call itself has.
func TestOfAResource(t *testing.T) {
	shared := `{"key":"gen_ai.tool.name","value":{"stringValue":"restart"}},{"key":"gen_ai.tool.name","value":{"stringValue":"second"}},{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{}"}}`
	own := attributes{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c"}
	export := `{"resourceSpans":[{"resource":{"attributes":[` + shared + `]},"scopeSpans":[{"spans":[` + span("00000000000000a1", own, "") + `]}]}]}`
	checkData(t, read(t, genai.Config{}, export), events.TypeToolCalled, `{"context":{"capture":"otlp"},"tool_call_id":"c","tool":"restart","status":"ok",`+times+`}`)
}

// TestResourceIsReadOnce: what a resource says costs no more for the more records have it.
func TestResourceIsReadOnce(t *testing.T) {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	const many = 2000
	for i := range many {
		rl.Resource().Attributes().PutInt(fmt.Sprint("k", i), int64(i))
	}
	records := rl.ScopeLogs().AppendEmpty().LogRecords()
	read := func() float64 {
		r := records.AppendEmpty()
		r.SetTimestamp(pcommon.Timestamp(records.Len()))
		r.SetEventName("claude_code.tool_decision")
		r.Attributes().PutStr("decision", "reject")
		r.Attributes().PutStr("tool_name", "Bash")
		return testing.AllocsPerRun(1, func() {
			if got := genai.Logs(ld, genai.Config{}); len(got.Events) != records.Len() {
				t.Fatal(got.Notice())
			}
		})
	}
	one := read()
	if two := read(); two-one > many/2 {
		t.Errorf("a second record of the resource takes %v allocations more than the first's %v", two-one, one)
	}
}

// TestTooLong: a string that no event could take is told by its name, before it is
// copied for each item.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, a := range map[string]attributes{
		"gen_ai.tool.call.id":       tool.with(attributes{"gen_ai.tool.call.id": long}),
		"gen_ai.conversation.id":    tool.with(attributes{"gen_ai.conversation.id": long}),
		"gen_ai.usage.input_tokens": chat.with(attributes{"gen_ai.usage.input_tokens": strings.Repeat("0", 4000) + "7"}),
	} {
		r := read(t, genai.Config{}, spans(span("00000000000000a1", a, "")))
		if len(r.Events) != 0 || r.Rejected != 1 || !strings.Contains(r.Notice(), name+": want") || len(r.Notice()) > 300 {
			t.Errorf("%s: %d events, %q", name, len(r.Events), r.Notice())
		}
	}
	r := read(t, genai.Config{}, logs(long, record("claude_code.api_request", end, claudeAPI)))
	if len(r.Events) != 0 || r.Rejected != 1 || !strings.Contains(r.Notice(), "service.name: want") {
		t.Errorf("service.name: %q", r.Notice())
	}
}

// TestMax: reading ends once there are more events than are wanted.
func TestMax(t *testing.T) {
	for max, want := range map[int]int{0: 3, 1: 2, 2: 3, 3: 3} {
		cfg := genai.Config{Max: max}
		if r := read(t, cfg, spans(span("00000000000000a1", tool, ""), span("00000000000000a2", tool, ""), span("00000000000000a3", tool, ""))); len(r.Events) != want {
			t.Errorf("spans, at most %d: %d events", max, len(r.Events))
		}
		one := func(n int) string {
			return record("claude_code.api_request", end, claudeAPI.with(attributes{"event.sequence": n}))
		}
		if r := read(t, cfg, logs("cli", one(1), one(2), one(3))); len(r.Events) != want {
			t.Errorf("records, at most %d: %d events", max, len(r.Events))
		}
	}
}

// TestTimes: a time that is none is unknown or rejects its span, never another time.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct{ start, end, want string }{
		"none":              {"0", "0", "without a time"},
		"the end alone":     {"0", end, `"ended_at":"2026-03-01T10:00:01.5Z"`},
		"the start alone":   {start, "0", `"started_at":"2026-03-01T10:00:00Z"`},
		"an end before":     {end, start, "it ends before it starts"},
		"no length":         {end, end, `"latency_ms":0`},
		"beyond 63 bits":    {start, "9223372036854775808", "end: want a time before the year 2262"},
		"all of 64 bits":    {"18446744073709551615", end, "start: want a time before the year 2262"},
		"all that there is": {"1", "9223372036854775807", `"latency_ms":9223372036854.775`},
	} {
		raw := fmt.Sprintf(`{"traceId":%q,"spanId":"00000000000000a1","startTimeUnixNano":%q,"endTimeUnixNano":%q,"attributes":%s}`, trace, c.start, c.end, tool)
		r := read(t, genai.Config{}, spans(raw))
		got := r.Notice()
		if len(r.Events) == 1 {
			got = string(r.Events[0].Raw)
		}
		if !strings.Contains(got, c.want) || len(r.Events) == 1 && (c.start == "0" || c.end == "0") && strings.Contains(got, "latency_ms") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRefusesWhatIsNoExport(t *testing.T) {
	for _, in := range []string{`x`, `[]`, `{}`, `{"spans":[]}`, `{"resourceSpans":7}`, `{"resourceSpans":[`, `{"resourceLogs":[]} {}`, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}`} {
		if r, err := genai.JSON([]byte(in), genai.Config{}); !errors.Is(err, genai.ErrFormat) {
			t.Errorf("%s: %+v, %v", in, r, err)
		}
	}
	for _, in := range []string{"x", `{"resourceSpans":[]}`, "\n\x05", "\n\x02\x12\x01"} {
		if r, err := genai.Proto([]byte(in), genai.Config{}); !errors.Is(err, genai.ErrFormat) {
			t.Errorf("%q: %+v, %v", in, r, err)
		}
	}
}

// TestProtobufIsReadAsJSON: an export is told by what is in it.
func TestProtobufIsReadAsJSON(t *testing.T) {
	for name, in := range map[string]string{
		"spans": spans(span("00f067aa0ba902b7", tool, ""), span("00f067aa0ba902b8", chat, "")),
		"logs":  logs("cli", record("claude_code.tool_result", end, claudeTool), record("", "", codexEnd)),
	} {
		want := read(t, genai.Config{}, in)
		var raw []byte
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces([]byte(in))
		if err == nil {
			raw, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		}
		if name == "logs" {
			var ld plog.Logs
			if ld, err = (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(in)); err == nil {
				raw, err = (&plog.ProtoMarshaler{}).MarshalLogs(ld)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := genai.Proto(raw, genai.Config{})
		if err != nil || len(got.Events) != 2 || !reflect.DeepEqual(raws(got), raws(want)) {
			t.Errorf("%s: %v\n%q\n%q", name, err, raws(got), raws(want))
		}
	}
	md := pmetric.NewMetrics()
	m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("sixteen bytes ok")
	m.SetEmptySum().DataPoints().AppendEmpty().SetIntValue(1)
	raw, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := genai.Proto(raw, genai.Config{}); err != nil || len(r.Events) != 0 || r.Rejected != 0 {
		t.Errorf("metrics: %+v, %v", r, err)
	}
}

func raws(r genai.Reading) (all []string) {
	for _, e := range r.Events {
		all = append(all, string(e.Raw))
	}
	return all
}

// TestSpecificationsExample is a trace of no agent.
func TestSpecificationsExample(t *testing.T) {
	raw, err := os.ReadFile(filepath.Clean(answerkeys.Need(t, "transcripts/otlp-trace.json")))
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, genai.Config{}, string(raw))
	if len(r.Events) != 0 || r.Passed != 1 || r.Rejected != 0 {
		t.Errorf("%d events, %d passed over, %d rejected", len(r.Events), r.Passed, r.Rejected)
	}
}

// FuzzRead: whatever comes, each event satisfies the schema and is within the
// writer's rights, and twice the same comes to the same.
func FuzzRead(f *testing.F) {
	f.Add(spans(span("00f067aa0ba902b7", tool, ""), span("00f067aa0ba902b8", chat, ""), span("00f067aa0ba902b9", agent, "")))
	f.Add(logs("cli", record("claude_code.tool_result", end, claudeTool), record("claude_code.api_request", end, claudeAPI), record("", "", codexTool), record("", "", codexEnd)))
	f.Fuzz(func(t *testing.T, in string) {
		var runs [2][]genai.Event
		for i := range runs {
			for _, decode := range []func([]byte, genai.Config) (genai.Reading, error){genai.JSON, genai.Proto} {
				r, err := decode([]byte(in), genai.Config{Role: schema.RoleDispatcher})
				if err != nil {
					continue
				}
				runs[i] = append(runs[i], r.Events...)
				if r.Rejected > 0 && r.Notice() == "" {
					t.Error("rejected without a word")
				}
			}
		}
		for i, e := range runs[0] {
			if _, fault := schema.Check(e.Raw); fault != nil {
				t.Fatalf("%v: %s", fault, e.Raw)
			}
			if !schema.MayWrite(schema.RoleDispatcher, e.Type, "production") {
				t.Fatalf("a dispatcher's %s", e.Type)
			}
			var has struct {
				Context struct {
					Author  *string `json:"author"`
					Capture string  `json:"capture"`
				} `json:"context"`
			}
			d, err := events.Decode(e.Raw)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(d.RawData, &has); err != nil || has.Context.Author != nil || has.Context.Capture != "otlp" {
				t.Fatalf("%v: %s", err, e.Raw)
			}
			if !bytes.Equal(e.Raw, runs[1][i].Raw) {
				t.Fatalf("%s\n%s", e.Raw, runs[1][i].Raw)
			}
		}
	})
}
