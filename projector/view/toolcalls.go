package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// ToolCall is one tool call as its two possible witnesses told it. Only
// Observed says that anything happened.
type ToolCall struct {
	Namespace    string `json:"namespace"`
	ToolCallID   string `json:"tool_call_id"`
	Observed     *Call  `json:"observed,omitzero"`      // by the dispatcher
	SelfReported *Call  `json:"self_reported,omitzero"` // by the agent
	Repeats      int64  `json:"repeats"`                // further records of either side; without effect
}

// Call is one side's record of a tool call. Times, hashes and the error stand in
// the record at Seq.
type Call struct {
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	EpisodeID     string     `json:"episode_id,omitzero"`
	Tool          string     `json:"tool"`
	Target        *string    `json:"target,omitzero"`
	Status        string     `json:"status"`
	ReturnedEdges int        `json:"returned_edges"`
	MessageID     *string    `json:"message_id,omitzero"`
	Usage         Usage      `json:"usage"`
}

// Usage is what a call cost, with tokens normalised by usage_convention so that
// cached input is neither counted twice nor lost. Nil is unknown.
type Usage struct {
	InputTokens    *int64   `json:"input_tokens,omitzero"`    // all input, cached included
	CachedTokens   *int64   `json:"cached_tokens,omitzero"`   // the cached part of it
	UncachedTokens *int64   `json:"uncached_tokens,omitzero"` // the rest
	OutputTokens   *int64   `json:"output_tokens,omitzero"`
	CostUSD        *float64 `json:"cost_usd,omitzero"`
	LatencyMS      *float64 `json:"latency_ms,omitzero"`
	// Inconsistent means more cached than input tokens under a convention in
	// which input includes them; the input is then unknown.
	Inconsistent bool `json:"inconsistent,omitzero"`
}

// Conventions of tool.called's usage_convention.
const (
	inputIncludesCached = "input_includes_cached"
	inputExcludesCached = "input_excludes_cached"
)

// callDenied is the status of a call that the dispatcher did not let run.
const callDenied = "denied"

// normaliseUsage reads the call's own fields, and field by field the context's
// cost block where they are absent.
func normaliseUsage(d *events.ToolCalled) Usage {
	var t events.Tokens
	if d.Tokens != nil {
		t = *d.Tokens
	}
	u := Usage{CostUSD: d.CostUSD, LatencyMS: d.LatencyMS}
	if c := d.Context.Cost; c != nil {
		t.Input, t.Output, t.Cached = or(t.Input, c.InputTokens), or(t.Output, c.OutputTokens), or(t.Cached, c.CachedTokens)
		u.CostUSD, u.LatencyMS = or(u.CostUSD, c.CostUSD), or(u.LatencyMS, c.LatencyMS)
	}
	u.OutputTokens, u.CachedTokens = t.Output, t.Cached
	convention := deref(d.UsageConvention)
	if convention == "" && t.Cached != nil && *t.Cached == 0 {
		convention = inputIncludesCached // nothing cached: both conventions agree
	}
	switch {
	case t.Input == nil:
	case convention == inputExcludesCached:
		u.UncachedTokens = t.Input
		if t.Cached != nil {
			sum := *t.Input + *t.Cached
			u.InputTokens = &sum
		}
	case convention == inputIncludesCached && t.Cached != nil && *t.Cached > *t.Input:
		u.Inconsistent = true
	case convention == inputIncludesCached:
		u.InputTokens = t.Input
		if t.Cached != nil {
			rest := *t.Input - *t.Cached
			u.UncachedTokens = &rest
		}
	}
	return u
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// charge says which call a message's usage is counted with.
type charge struct {
	ToolCallID string `json:"tool_call_id"`
	Observed   bool   `json:"observed"`
}

const (
	callKind   = "c"
	chargeKind = "m"
)

type toolCalls struct{}

func (toolCalls) Name() string { return ToolCalls }
func (toolCalls) Version() int { return 1 }

// Apply implements projector.Projection.
func (toolCalls) Apply(b *projector.Batch, r *projector.Record) error {
	d, ok := r.Event.Data.(*events.ToolCalled)
	if !ok {
		return nil
	}
	observed := observer(r)
	if !observed && r.Role() != roleAgent {
		return ErrRole
	}
	t, ok := projector.Edit[ToolCall](b, key(callKind, r.Namespace, d.ToolCallID))
	if !ok {
		t.Namespace, t.ToolCallID = r.Namespace, d.ToolCallID
		addPlace(b, r.Namespace)
	}
	side := &t.SelfReported
	if observed {
		side = &t.Observed
	}
	if *side != nil {
		t.Repeats++
		return nil
	}
	*side = newCall(r, d)
	if d.MessageID != nil {
		m, taken := projector.Edit[charge](b, key(chargeKind, r.Namespace, *d.MessageID))
		if !taken || observed && !m.Observed {
			*m = charge{d.ToolCallID, observed}
		}
	}
	return nil
}

func newCall(r *projector.Record, d *events.ToolCalled) *Call {
	return &Call{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Tool: d.Tool, Target: d.Target, Status: d.Status, ReturnedEdges: len(d.ReturnedEdges),
		MessageID: d.MessageID, Usage: normaliseUsage(d),
	}
}

// GetToolCall reads one tool call; kv.ErrNotFound when there is none.
func GetToolCall(s *projector.State, namespace, toolCallID string) (*ToolCall, error) {
	return projector.Load[ToolCall](s, ToolCalls, key(callKind, namespace, toolCallID))
}

// FindToolCall reads the calls of an id in all namespaces.
func FindToolCall(s *projector.State, toolCallID string) ([]ToolCall, error) {
	return find[ToolCall](s, ToolCalls, callKind, toolCallID)
}

// ListToolCalls calls fn for a namespace's calls in the order of their ids.
func ListToolCalls(s *projector.State, namespace string, fn func(*ToolCall) error) error {
	return list(s, ToolCalls, fn, callKind, namespace)
}

// Executed says that the dispatcher saw the call run: it was not denied.
func (t *ToolCall) Executed() bool { return t.Observed != nil && t.Observed.Status != callDenied }

// ListUsage calls fn for everything that is to be counted as usage: a call by
// its dispatcher's record or, without one, by the agent's, and of the calls
// that name one message id only the first, the dispatcher's before the agent's.
func ListUsage(s *projector.State, namespace string, fn func(c *Call, selfReported bool) error) error {
	return ListToolCalls(s, namespace, func(t *ToolCall) error {
		call, observed := t.Observed, true
		if call == nil {
			call, observed = t.SelfReported, false
		}
		if call.MessageID != nil {
			m, err := projector.Load[charge](s, ToolCalls, key(chargeKind, namespace, *call.MessageID))
			if err != nil {
				return err
			}
			if *m != (charge{t.ToolCallID, observed}) && !(m.ToolCallID == t.ToolCallID && observed) {
				return nil
			}
		}
		return fn(call, !observed)
	})
}
