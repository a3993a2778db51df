package genai

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"assay/events"
)

// record is one log record that is read.
type record struct {
	item
	name string
}

// readers are the log records that tell of a tool or a model, by the name of the
// event. Each gives nil where this one does not.
var readers = map[string]func(*record) events.Payload{
	"claude_code.tool_result":   (*record).claudeResult,
	"claude_code.tool_decision": (*record).claudeDecision,
	"claude_code.api_request":   (*record).claudeRequest,
	"claude_code.api_error":     (*record).claudeError,
	"codex.tool_result":         (*record).codexResult,
	"codex.tool_decision":       (*record).codexDecision,
	"codex.sse_event":           (*record).codexStream,
}

// fromLog is nil without an error for a record that tells of nothing of ours.
func fromLog(l plog.LogRecord, res *resource, cfg Config) (*events.Event, error) {
	r := &record{name: nameOf(l), item: item{
		fields: fields{own: l.Attributes(), resource: res}, trace: l.TraceID(),
	}}
	read := readers[r.name]
	if read == nil {
		return nil, nil
	}
	at := r.dated(l)
	if r.err == nil && at == nil {
		return nil, errors.New("without a time")
	}
	if r.err != nil {
		return nil, r.err
	}
	r.at = *at
	r.id = r.identity(l)
	d := read(r)
	if r.err != nil {
		return nil, r.err
	}
	if d == nil {
		return nil, nil
	}
	return r.event(d)
}

// nameOf is the record's event: by its own field, by the attribute, or as the
// body, where Claude Code has it in full.
func nameOf(l plog.LogRecord) string {
	if name := l.EventName(); readers[name] != nil {
		return name
	}
	if name := word(l.Attributes(), "event.name"); readers[name] != nil {
		return name
	}
	if l.Body().Type() == pcommon.ValueTypeStr {
		return l.Body().Str()
	}
	return ""
}

// dated is when the event was, nil if nobody says so. Codex says it in an
// attribute alone.
func (r *record) dated(l plog.LogRecord) *time.Time {
	if t := r.time("time", l.Timestamp()); t != nil {
		return t
	}
	if t, ok := events.Time(r.text("event.timestamp")); ok {
		return &t
	}
	return r.time("observed time", l.ObservedTimestamp())
}

// identity is made of all that the sender said, since a record has no id. When it
// was observed counts only where the sender dated nothing else.
func (r *record) identity(l plog.LogRecord) uuid.UUID {
	parts := []string{"otlp log", capture, r.name, l.TraceID().String(), l.SpanID().String(), events.FormatTime(r.at)}
	if l.Timestamp() == 0 {
		parts = append(parts, events.FormatTime(l.ObservedTimestamp().AsTime()))
	}
	parts = append(append(parts, said("attributes", r.own)...), "resource", r.resource.digest)
	return events.DerivedID(parts...)
}

// tool is what both programs say alike of a call that ended.
func (r *record) tool(callID string) *events.ToolCalled {
	d := &events.ToolCalled{ToolCallID: callID, EndedAt: ptr(events.FormatTime(r.at)), LatencyMS: r.amount("duration_ms")}
	tool, ok := r.text("tool_name", "name"), r.flag("success")
	if r.err == nil && (tool == nil || ok == nil) {
		r.err = errors.New("without tool_name or success")
	}
	if r.err != nil {
		return d
	}
	d.Tool, d.Status = *tool, statusOK
	if !*ok {
		d.Status = statusFailed
	}
	return d
}

func (r *record) claudeResult() events.Payload {
	d := r.tool(r.callID("tool_use_id"))
	d.Error = r.text("error_type") // error itself may quote what the tool read
	return d
}

// denied is a call that was not let run.
func (r *record) denied(callID string, by ...string) events.Payload {
	decision := r.text("decision")
	if decision == nil || !slices.Contains(by, *decision) {
		return nil
	}
	tool := r.text("tool_name")
	if tool == nil {
		r.err = errors.New("without tool_name")
		return nil
	}
	return &events.ToolCalled{ToolCallID: callID, Tool: *tool, Status: statusDenied}
}

func (r *record) claudeDecision() events.Payload { return r.denied(r.callID("tool_use_id"), "reject") }
func (r *record) codexDecision() events.Payload {
	return r.denied(r.callID("call_id"), "denied", "abort")
}

// claudeRequest counts what was written to the cache among the input, which was
// not read from it. cost_usd is Claude Code's own estimate and no charge.
func (r *record) claudeRequest() events.Payload {
	d := r.claudeUsage(statusOK)
	t := events.Tokens{Output: r.count("output_tokens"), Cached: r.count("cache_read_tokens")}
	if in, written := r.count("input_tokens"), r.count("cache_creation_tokens"); in != nil && written != nil {
		t.Input = ptr(*in + *written)
	}
	if t != (events.Tokens{}) {
		d.Tokens, d.UsageConvention = &t, ptr(excludesCached)
	}
	return d
}

func (r *record) claudeError() events.Payload {
	d := r.claudeUsage(statusFailed)
	d.Attempts = r.count("attempt")
	return d
}

func (r *record) claudeUsage(status string) *events.UsageRecorded {
	return &events.UsageRecorded{
		MessageID: r.text("request_id"), Model: r.text("model"), Status: &status,
		EndedAt: ptr(events.FormatTime(r.at)), LatencyMS: r.amount("duration_ms"),
	}
}

// codexResult leaves the output alone: it is a preview.
func (r *record) codexResult() events.Payload {
	d := r.tool(r.callID("call_id"))
	d.ArgsHash = r.hash("arguments")
	return d
}

// codexStream takes the end of a response: it names no message, so each record is
// one.
func (r *record) codexStream() events.Payload {
	if kind := r.text("event.kind"); kind == nil || *kind != "response.completed" {
		return nil
	}
	status := statusOK
	if _, _, failed := r.get("error.message"); failed {
		status = statusFailed
	}
	d := &events.UsageRecorded{Model: r.text("model"), Status: &status, EndedAt: ptr(events.FormatTime(r.at))}
	t := events.Tokens{Input: r.count("input_token_count"), Output: r.count("output_token_count"), Cached: r.count("cached_token_count")}
	if t != (events.Tokens{}) {
		d.Tokens, d.UsageConvention = &t, ptr(includesCached)
	}
	return d
}
