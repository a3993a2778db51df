// Package genai makes events of what OpenTelemetry says of an agent's work:
// spans of the GenAI semantic conventions and the log records that Claude Code
// and Codex send. It is pure: the same spans give the same bytes, ids included,
// so that an exporter's repetition is the ledger's first receipt.
//
//	execute_tool                                    tool.called
//	chat, generate_content, text_completion,
//	embeddings                                      usage.recorded
//	invoke_agent without a parent                   episode.recorded
//	claude_code.tool_result, codex.tool_result      tool.called
//	claude_code.tool_decision, codex.tool_decision  tool.called, if it was denied
//	claude_code.api_request, .api_error             usage.recorded
//	codex.sse_event of response.completed           usage.recorded
//
// An episode is the conversation, else the session, else the trace. What a span
// does not say is null, never zero, and no text that a user or a model wrote is
// taken over. Nothing here names a principal or a namespace: those are the
// caller's.
package genai

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/events"
	"assay/internal/otlp"
	"assay/schema"
)

// capture is how the events were captured (context.capture).
const capture = "otlp"

// Config says for whom events are made.
type Config struct {
	// Role is the writer's; events that it may never write are withheld. "" is any.
	Role schema.Role
	// Max is how many events are wanted at most: reading ends after one more. 0 is no
	// bound.
	Max int
}

// Event is an event and its bytes, which satisfy the schema.
type Event struct {
	*events.Event
	Raw []byte
}

// Reading is what spans or log records came to, each of them counted once.
type Reading struct {
	Events []Event
	Passed int64 // items that tell of neither tool, model nor agent
	// Withheld counts by type the events that the role may not write.
	Withheld map[string]int64
	Rejected int64 // items that no event can be made of
	Why      error // of the first that was rejected
}

// Notice says in a line what was rejected and withheld; "" is nothing.
func (r *Reading) Notice() string {
	var parts []string
	if r.Why != nil {
		parts = append(parts, fmt.Sprintf("first rejected: %v", r.Why))
	}
	for _, typ := range slices.Sorted(maps.Keys(r.Withheld)) {
		parts = append(parts, fmt.Sprintf("%d left out: this role may not write %s", r.Withheld[typ], typ))
	}
	return strings.ToValidUTF8(strings.Join(parts, "; "), "\ufffd")
}

// add takes up what one item came to: an event, nothing, or an error.
func (r *Reading) add(cfg Config, e *events.Event, err error) {
	if err == nil && e != nil {
		if cfg.Role != "" && !schema.MayWrite(cfg.Role, e.Type, widest) {
			if r.Withheld == nil {
				r.Withheld = map[string]int64{}
			}
			r.Withheld[e.Type]++
			return
		}
		var raw []byte
		if raw, err = encode(e); err == nil {
			r.Events = append(r.Events, Event{e, raw})
			return
		}
	}
	if err != nil {
		r.Rejected++
		if r.Why == nil {
			r.Why = err
		}
		return
	}
	r.Passed++
}

func (r *Reading) over(cfg Config) bool { return cfg.Max > 0 && len(r.Events) > cfg.Max }

// widest is the namespace in which a role may write most; the logger knows the
// one that counts.
const widest = "sandbox"

func encode(e *events.Event) ([]byte, error) {
	raw, err := events.Encode(e)
	if err != nil {
		return nil, err
	}
	if _, fault := schema.Check(raw); fault != nil {
		return nil, fault
	}
	return raw, nil
}

// Spans reads the spans of an export request.
func Spans(td ptrace.Traces, cfg Config) Reading {
	var r Reading
	for _, rs := range td.ResourceSpans().All() {
		shared := resourceOf(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				e, err := fromSpan(s, shared, cfg)
				if err != nil {
					err = fmt.Errorf("span %s of trace %s: %w", s.SpanID(), s.TraceID(), err)
				}
				if r.add(cfg, e, err); r.over(cfg) {
					return r
				}
			}
		}
	}
	return r
}

// Logs reads the log records of an export request.
func Logs(ld plog.Logs, cfg Config) Reading {
	var r Reading
	for _, rl := range ld.ResourceLogs().All() {
		shared := resourceOf(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			for i, l := range sl.LogRecords().All() {
				e, err := fromLog(l, shared, cfg)
				if err != nil {
					err = fmt.Errorf("log record %d of its scope: %w", i+1, err)
				}
				if r.add(cfg, e, err); r.over(cfg) {
					return r
				}
			}
		}
	}
	return r
}

// ErrFormat means that bytes are no export of OTLP.
var ErrFormat = errors.New("not an export of OTLP")

// maxMessages is how many messages an export in a file has at most: resources, spans,
// attributes and all else that has fields. Decoded, they take some hundred bytes each.
const maxMessages = 1 << 20

// JSON reads one export of spans or log records. One of metrics comes to nothing. What
// is more than may be held in memory is otlp.ErrTooMany beside ErrFormat.
func JSON(raw []byte, cfg Config) (Reading, error) {
	var has struct {
		Spans   jsontext.Value `json:"resourceSpans"`
		Logs    jsontext.Value `json:"resourceLogs"`
		Metrics jsontext.Value `json:"resourceMetrics"`
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return Reading{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	switch {
	case has.Spans != nil:
		return readSpans(otlp.InJSON, raw, cfg)
	case has.Logs != nil:
		return readLogs(otlp.InJSON, raw, cfg)
	case has.Metrics != nil:
		return Reading{}, nil
	}
	return Reading{}, fmt.Errorf("%w: neither resourceSpans nor resourceLogs nor resourceMetrics", ErrFormat)
}

// Proto is JSON for protobuf. No byte there says of what an export is, but one that
// holds any item cannot be decoded as of another kind, or comes to nothing.
func Proto(raw []byte, cfg Config) (Reading, error) {
	r, err := readSpans(otlp.InProtobuf, raw, cfg)
	if err == nil || errors.Is(err, otlp.ErrTooMany) {
		return r, err
	}
	if r, err = readLogs(otlp.InProtobuf, raw, cfg); err == nil || errors.Is(err, otlp.ErrTooMany) {
		return r, err
	}
	if err = otlp.InProtobuf.Unmarshal(otlp.MetricsSignal, raw, maxMessages, pmetricotlp.NewExportRequest()); err != nil {
		return Reading{}, fmt.Errorf("%w: neither spans nor log records nor metrics: %w", ErrFormat, err)
	}
	return Reading{}, nil
}

func readSpans(c otlp.Codec, raw []byte, cfg Config) (Reading, error) {
	req := ptraceotlp.NewExportRequest()
	if err := c.Unmarshal(otlp.TracesSignal, raw, maxMessages, req); err != nil {
		return Reading{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return Spans(req.Traces(), cfg), nil
}

func readLogs(c otlp.Codec, raw []byte, cfg Config) (Reading, error) {
	req := plogotlp.NewExportRequest()
	if err := c.Unmarshal(otlp.LogsSignal, raw, maxMessages, req); err != nil {
		return Reading{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return Logs(req.Logs(), cfg), nil
}

// item is what spans and log records have in common.
type item struct {
	fields
	id    uuid.UUID
	trace pcommon.TraceID
	at    time.Time // when it ended, or was logged
}

// event makes an event of a payload. The caller has filled in all but the context.
func (it *item) event(data events.Payload) (*events.Event, error) {
	c := data.Common()
	c.Component = it.text("gen_ai.agent.name", "service.name")
	c.Capture = ptr(capture)
	source := "urn:otlp"
	if service := it.text("service.name"); service != nil {
		source += ":" + url.PathEscape(*service)
	}
	episode := it.conversation()
	if it.err != nil {
		return nil, it.err
	}
	typ := data.Type()
	version, _ := schema.Version(typ) // each is one of ours
	e := &events.Event{
		ID: it.id.String(), Source: source, Type: typ, Time: events.FormatTime(it.at),
		DataSchema: events.DataSchema(typ, version), Version: version, Data: data,
		CorrelationID: it.trace.String(),
	}
	if e.EpisodeID = it.trace.String(); episode != nil {
		e.EpisodeID = *episode
	}
	return e, nil
}

// conversation is what the conversation or session of the item's source is called in
// the ledger.
func (it *item) conversation() *string {
	id := it.text("gen_ai.conversation.id", "conversation.id", "session.id")
	if id != nil {
		id = ptr(events.Identifier(*id))
	}
	return id
}

// callID is what the tool call's id by the source is in the ledger, else one that follows from the item.
func (it *item) callID(names ...string) string {
	if id := it.text(names...); id != nil {
		return events.Identifier(*id)
	}
	return "otlp:" + it.id.String()
}

func ptr[T any](v T) *T { return &v }
