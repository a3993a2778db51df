package view

import (
	"time"

	"assay/events"
	"assay/internal/kv"
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

// Statuses of a call.
const (
	callOK     = "ok"
	callDenied = "denied" // the dispatcher did not let it run
)

// charge is a call that says which message asked for it, by one of its witnesses.
type charge struct {
	ToolCallID string `json:"tool_call_id"`
	Observed   bool   `json:"observed"`
}

const (
	callKind   = "c"
	chargeKind = "m"
)

// toolCalls keeps each call, and those of a message in the order in which one of them
// is charged with its usage: what a dispatcher tells of first.
//
//	c <namespace> <call>                   ToolCall
//	m <namespace> <message> <0 | 1> <seq>  charge; 0 is a dispatcher's
type toolCalls struct{}

func (toolCalls) Name() string { return ToolCalls }
func (toolCalls) Version() int { return 2 }

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
		rank := "1"
		if observed {
			rank = "0"
		}
		m, _ := projector.Edit[charge](b, key(chargeKind, r.Namespace, *d.MessageID, rank, projector.SeqKey(r.Seq)))
		*m = charge{d.ToolCallID, observed}
	}
	return nil
}

func newCall(r *projector.Record, d *events.ToolCalled) *Call {
	return &Call{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Tool: d.Tool, Target: d.Target, Status: d.Status, ReturnedEdges: len(d.ReturnedEdges),
		MessageID: d.MessageID, Usage: normaliseUsage(d.Tokens, d.UsageConvention, d.CostUSD, d.LatencyMS, d.Context.Cost),
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
func (t *ToolCall) Executed() bool { return t.Observed != nil && !t.Observed.Denied() }

// Witnessed is the call as its best witness told it: the dispatcher, else the agent.
func (t *ToolCall) Witnessed() *Call {
	if t.Observed != nil {
		return t.Observed
	}
	return t.SelfReported
}

// IsCausal says whether the call was of a causal tool.
func (c *Call) IsCausal() bool { return toolRoute(c.Tool, c.ReturnedEdges) == RoutedCausalTool }

// Denied says whether the call was not let run.
func (c *Call) Denied() bool { return c.Status == callDenied }

// listCharged calls fn for the calls that are to be counted as usage; ListUsage
// says which.
func listCharged(s *projector.State, namespace string, fn func(id string, c *Call, selfReported bool) error) error {
	return ListToolCalls(s, namespace, func(t *ToolCall) error {
		call, observed := t.Witnessed(), t.Observed != nil
		if call.MessageID != nil {
			charged, err := chargedTo(s, namespace, *call.MessageID)
			if err != nil || charged != t.ToolCallID {
				return err
			}
		}
		return fn(t.ToolCallID, call, !observed)
	})
}

// chargedTo is the call that a message's usage is counted with: the first whose best
// witness says that the message asked for it, a dispatcher's before an agent's.
func chargedTo(s *projector.State, namespace, messageID string) (id string, err error) {
	err = list(s, ToolCalls, func(c *charge) error {
		if !c.Observed {
			t, err := GetToolCall(s, namespace, c.ToolCallID)
			if err != nil || t.Observed != nil {
				return err
			}
		}
		id = c.ToolCallID
		return kv.ErrStop
	}, chargeKind, namespace, messageID)
	return id, err
}
