package genai

import (
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"assay/events"
)

// Values of gen_ai.operation.name.
const (
	opTool  = "execute_tool"
	opAgent = "invoke_agent"
)

// inference are the operations that call a model.
var inference = map[string]bool{"chat": true, "generate_content": true, "text_completion": true, "embeddings": true}

// Statuses of a call.
const (
	statusOK      = "ok"
	statusFailed  = "failed"
	statusDenied  = "denied"
	statusTimeout = "timeout"
)

// Conventions of usage_convention.
const (
	includesCached = "input_includes_cached"
	excludesCached = "input_excludes_cached"
)

// span is one span that is read.
type span struct {
	item
	s          ptrace.Span
	start, end *time.Time // nil: unknown
}

// fromSpan is nil without an error for a span that tells of nothing of ours.
func fromSpan(s ptrace.Span, res *resource, cfg Config) (*events.Event, error) {
	name := word(s.Attributes(), "gen_ai.operation.name")
	root := s.ParentSpanID().IsEmpty()
	if name != opTool && !inference[name] && (name != opAgent || !root) {
		return nil, nil
	}
	if s.TraceID().IsEmpty() || s.SpanID().IsEmpty() {
		return nil, errors.New("without trace or span id")
	}
	r := &span{s: s, item: item{
		fields: fields{own: s.Attributes(), resource: res}, trace: s.TraceID(),
	}}
	r.start, r.end = r.time("start", s.StartTimestamp()), r.time("end", s.EndTimestamp())
	switch {
	case r.err != nil:
		return nil, r.err
	case r.end != nil:
		r.at = *r.end
	case r.start != nil:
		r.at = *r.start
	default:
		return nil, errors.New("without a time")
	}
	if r.start != nil && r.end != nil && r.end.Before(*r.start) {
		return nil, errors.New("it ends before it starts")
	}
	r.id = events.DerivedID("otlp span", capture, s.TraceID().String(), s.SpanID().String())
	switch name {
	case opTool:
		return r.toolCalled()
	case opAgent:
		return r.episode()
	}
	return r.usageRecorded()
}

func format(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return ptr(events.FormatTime(*t))
}

func (r *span) latency() *float64 {
	if r.start == nil || r.end == nil {
		return nil
	}
	return ptr(float64(r.end.Sub(*r.start)) / float64(time.Millisecond))
}

// outcome is how the span ended, and the low-cardinality name of its error.
func (r *span) outcome() (status string, kind *string) {
	kind = r.text("error.type")
	switch {
	case kind != nil && *kind == statusTimeout:
		return statusTimeout, kind
	case kind != nil || r.s.Status().Code() == ptrace.StatusCodeError:
		return statusFailed, kind
	}
	return statusOK, nil
}

func (r *span) toolCalled() (*events.Event, error) {
	tool := r.text("gen_ai.tool.name")
	if tool == nil && r.err == nil {
		return nil, errors.New("without gen_ai.tool.name")
	}
	status, kind := r.outcome()
	d := &events.ToolCalled{
		ToolCallID: r.callID("gen_ai.tool.call.id"), Status: status, Error: kind,
		StartedAt: format(r.start), EndedAt: format(r.end), LatencyMS: r.latency(),
		ArgsHash: r.hash("gen_ai.tool.call.arguments"), ResultHash: r.hash("gen_ai.tool.call.result"),
	}
	if tool != nil {
		d.Tool = *tool
	}
	return r.event(d)
}

// used is what gen_ai.usage.* says. The conventions of today have the cached
// tokens among the input; of what bears an older name nobody can know.
func (r *span) used() (t *events.Tokens, convention *string) {
	in := r.count("gen_ai.usage.input_tokens")
	cached := r.count("gen_ai.usage.cache_read.input_tokens")
	if in != nil {
		convention = ptr(includesCached)
	} else {
		in = r.count("gen_ai.usage.prompt_tokens")
	}
	if cached == nil {
		if cached = r.count("gen_ai.usage.cache_read_input_tokens"); cached != nil {
			convention = nil
		}
	}
	t = &events.Tokens{Input: in, Cached: cached, Output: r.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")}
	if *t == (events.Tokens{}) {
		return nil, nil
	}
	return t, convention
}

func (r *span) model() *string { return r.text("gen_ai.response.model", "gen_ai.request.model") }

func (r *span) usageRecorded() (*events.Event, error) {
	status, _ := r.outcome()
	d := &events.UsageRecorded{
		MessageID: r.text("gen_ai.response.id"), Provider: r.text("gen_ai.provider.name", "gen_ai.system"), Model: r.model(),
		Status: &status, StartedAt: format(r.start), EndedAt: format(r.end), LatencyMS: r.latency(),
	}
	d.Tokens, d.UsageConvention = r.used()
	return r.event(d)
}

// episode is the report of an agent's run. Whether its task ended well no span
// says; and where it is one turn of a conversation, its numbers are not those of
// the episode.
func (r *span) episode() (*events.Event, error) {
	d := &events.EpisodeRecorded{
		SessionID: r.conversation(), TurnID: ptr(r.trace.String()), Client: r.text("service.name"), ClientVersion: r.text("service.version"),
		Model: r.model(),
	}
	if d.SessionID == nil {
		d.LatencyMS = r.latency()
		if t, how := r.used(); t != nil {
			d.OutputTokens, d.CachedInputTokens = t.Output, t.Cached
			if how != nil && t.Input != nil && t.Cached != nil && *t.Cached <= *t.Input {
				d.UncachedInputTokens = ptr(*t.Input - *t.Cached)
			}
			if how != nil && t.Input != nil && t.Output != nil {
				d.TotalTokens = ptr(*t.Input + *t.Output)
			}
		}
	}
	return r.event(d)
}
