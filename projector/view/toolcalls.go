package view

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// ToolCall is one tool call, known by its episode and its id, as its witnesses
// told it. Only Observed says that anything happened. An import of a live call is
// among SeenBy, and nothing else.
type ToolCall struct {
	Namespace  string     `json:"namespace"`
	EpisodeID  string     `json:"episode_id,omitzero"`
	ToolCallID string     `json:"tool_call_id"`
	FirstSeq   ledger.Seq `json:"first_seq"` // the first record of it
	// Join is exact, or id where a record that names no episode was joined by the
	// call's id alone.
	Join string `json:"join"`
	// Witness is the best one, whose record counts: dispatcher, hook, otlp, agent or
	// imported.
	Witness      string `json:"witness"`
	Observed     *Call  `json:"observed,omitzero"`      // by the dispatcher, else by a hook, else in OTLP
	SelfReported *Call  `json:"self_reported,omitzero"` // by the agent
	// MessageID is the message that asked for it, by the best witness who names one.
	MessageID *string `json:"message_id,omitzero"`
	// FirstObserved is the first record by anybody but the agent; 0 without one.
	FirstObserved ledger.Seq `json:"first_observed_seq"`
	SeenBy        []Sighting `json:"seen_by"` // the first record of each witness, the best first
	Repeats       int64      `json:"repeats"` // further records of one of them; without effect
	// Elsewhere counts, at the first call of an id, the calls of it in other episodes.
	Elsewhere int64 `json:"elsewhere"`
}

// Sighting is the first record that a witness made of something.
type Sighting struct {
	Witness   string     `json:"witness"`
	Seq       ledger.Seq `json:"seq"`
	Principal string     `json:"principal"`
	MessageID *string    `json:"message_id,omitzero"` // that asked for it, by this record
}

// witnessOf says whose word a record is.
func witnessOf(r *projector.Record) string {
	return events.WitnessOf(r.Role(), r.Event.Data.Common())
}

// JoinID says that what names no episode was joined by its id alone.
const JoinID = "id"

// Call is one record of a tool call. Times, hashes and the error stand in the
// record at Seq.
type Call struct {
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	EpisodeID     string     `json:"episode_id,omitzero"` // that it names
	Tool          string     `json:"tool"`
	Target        *string    `json:"target,omitzero"`
	Status        string     `json:"status"`
	ReturnedEdges int        `json:"returned_edges"`
	Usage         Usage      `json:"usage"`
}

// Statuses of a call.
const (
	callOK      = "ok"
	callDenied  = "denied"  // the dispatcher did not let it run
	callUnknown = "unknown" // nobody saw its end
)

// charge is a call that was a message's when it had its best record so far. It is
// none any more if that record was bettered, or the call turned out to be another
// message's.
type charge struct {
	Slot string     `json:"slot"` // key of the call
	Seq  ledger.Seq `json:"seq"`  // that record
}

// toolCalls keeps calls. The first call of an id has a key without episode, so that
// records that name none find it; the same id in another episode is another call. The
// charges of a message lie in the order in which one of them is counted with it: the
// best witness's first, of equals the first.
//
//	c <namespace> <tool call>                         ToolCall
//	c <namespace> <tool call> <episode>               ToolCall
//	m <namespace> <message> <rank of witness> <seq>   charge
type toolCalls struct{}

const (
	callKind   = "c"
	chargeKind = "m"
)

func (toolCalls) Name() string { return ToolCalls }
func (toolCalls) Version() int { return 3 }

// Apply implements projector.Projection.
func (toolCalls) Apply(b *projector.Batch, r *projector.Record) error {
	d, ok := r.Event.Data.(*events.ToolCalled)
	if !ok {
		return nil
	}
	if !observer(r) && r.Role() != roleAgent {
		return ErrRole
	}
	first := key(callKind, r.Namespace, d.ToolCallID)
	slot := first
	if t, ok := projector.View[ToolCall](b, first); ok && !events.SameEpisode(t.EpisodeID, r.Event.EpisodeID) {
		slot = key(callKind, r.Namespace, d.ToolCallID, r.Event.EpisodeID)
	}
	t, ok := projector.Edit[ToolCall](b, slot)
	if !ok && slot != first {
		f, _ := projector.Edit[ToolCall](b, first)
		f.Elsewhere++
	}
	if !ok {
		t.Namespace, t.EpisodeID, t.ToolCallID = r.Namespace, r.Event.EpisodeID, d.ToolCallID
		t.FirstSeq, t.Join = r.Seq, JoinExact
		addPlace(b, r.Namespace)
	}
	t.take(r, d)
	t.charge(b, slot)
	return nil
}

// take adds a record of the call. A better witness replaces a worse one, and of one
// witness the first record counts.
func (t *ToolCall) take(r *projector.Record, d *events.ToolCalled) {
	if r.Event.EpisodeID != t.EpisodeID {
		t.Join, t.EpisodeID = JoinID, cmp.Or(t.EpisodeID, r.Event.EpisodeID)
	}
	side := &t.SelfReported
	if observer(r) {
		side = &t.Observed
		t.FirstObserved = cmp.Or(t.FirstObserved, r.Seq)
	}
	witness := witnessOf(r)
	better := *side == nil || events.WitnessRank(witness) < t.rankOf(*side)
	t.see(Sighting{witness, r.Seq, r.Principal, d.MessageID})
	if better {
		*side = newCall(r, d)
	}
}

// see notes a witness.
func (t *ToolCall) see(by Sighting) {
	if slices.ContainsFunc(t.SeenBy, func(s Sighting) bool { return s.Witness == by.Witness }) {
		t.Repeats++
		return
	}
	t.SeenBy = append(t.SeenBy, by)
	slices.SortFunc(t.SeenBy, func(a, b Sighting) int {
		return cmp.Compare(events.WitnessRank(a.Witness), events.WitnessRank(b.Witness))
	})
	t.Witness = t.SeenBy[0].Witness
	named := slices.IndexFunc(t.SeenBy, func(s Sighting) bool { return s.MessageID != nil })
	if named >= 0 {
		t.MessageID = t.SeenBy[named].MessageID
	}
}

// charge notes the call as its message's.
func (t *ToolCall) charge(b *projector.Batch, slot string) {
	if t.MessageID == nil {
		return
	}
	seq := t.Witnessed().Seq
	k := key(chargeKind, t.Namespace, *t.MessageID, strconv.Itoa(events.WitnessRank(t.Witness)), projector.SeqKey(seq))
	if _, ok := projector.View[charge](b, k); !ok {
		c, _ := projector.Edit[charge](b, k)
		*c = charge{slot, seq}
	}
}

// rankOf is the rank of the witness who made one of the call's records.
func (t *ToolCall) rankOf(c *Call) int {
	i := slices.IndexFunc(t.SeenBy, func(s Sighting) bool { return s.Seq == c.Seq })
	if i < 0 { // imported, the agent's word beside an observer's
		return events.WitnessRank(events.WitnessImported)
	}
	return events.WitnessRank(t.SeenBy[i].Witness)
}

func newCall(r *projector.Record, d *events.ToolCalled) *Call {
	return &Call{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Tool: d.Tool, Target: d.Target, Status: d.Status, ReturnedEdges: len(d.ReturnedEdges),
		Usage: normaliseUsage(d.Tokens, d.UsageConvention, d.CostUSD, d.LatencyMS, d.Context.Cost),
	}
}

// GetToolCall reads the tool call of an id in an episode, "" for one that is not
// known; kv.ErrNotFound when there is none.
func GetToolCall(s *projector.State, namespace, episodeID, toolCallID string) (*ToolCall, error) {
	t, err := projector.Load[ToolCall](s, ToolCalls, key(callKind, namespace, toolCallID))
	if err == nil && !events.SameEpisode(t.EpisodeID, episodeID) {
		t, err = projector.Load[ToolCall](s, ToolCalls, key(callKind, namespace, toolCallID, episodeID))
	}
	return t, err
}

// callsOf are the calls of an id in a namespace: one an episode.
func callsOf(s *projector.State, namespace, toolCallID string) ([]ToolCall, error) {
	first, err := projector.Load[ToolCall](s, ToolCalls, key(callKind, namespace, toolCallID))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if first.Elsewhere == 0 {
		return []ToolCall{*first}, nil
	}
	others, err := all[ToolCall](s, ToolCalls, callKind, namespace, toolCallID)
	return append([]ToolCall{*first}, others...), err
}

// FindToolCall reads the calls of an id in all namespaces.
func FindToolCall(s *projector.State, toolCallID string) (out []ToolCall, err error) {
	places, err := projector.Load[places](s, ToolCalls, placesKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, ns := range places.Namespaces {
		calls, err := callsOf(s, ns, toolCallID)
		if err != nil {
			return nil, err
		}
		for i := range calls {
			if known, err := calls[i].join(s); err != nil {
				return nil, err
			} else if !known {
				out = append(out, calls[i])
			}
		}
	}
	return out, nil
}

// join tells a live call of the import of it. An import of a call that is known
// live is no call of its own.
func (t *ToolCall) join(s *projector.State) (known bool, err error) {
	twin, err := GetToolCall(s, twinIn(t.Namespace), t.EpisodeID, t.ToolCallID)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return false, nil
	case err != nil || isApart(t.Namespace):
		return err == nil, err
	}
	t.SeenBy = append(t.SeenBy, twin.SeenBy...)
	return false, nil
}

// ListToolCalls calls fn for a namespace's calls in the order of their ids, those
// that are known from an import alone last.
func ListToolCalls(s *projector.State, namespace string, fn func(*ToolCall) error) error {
	imports, err := hasPlace(s, ToolCalls, namespace+importedMark)
	if err != nil {
		return err
	}
	return list(s, ToolCalls, func(t *ToolCall) error {
		if imports {
			if known, err := t.join(s); err != nil || known {
				return err
			}
		}
		return fn(t)
	}, callKind, namespace)
}

// Executed says that an observer saw the call run: it was not denied.
func (t *ToolCall) Executed() bool { return t.Observed != nil && !t.Observed.Denied() }

// Witnessed is the call as its best witness told it.
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

// listCharged calls fn for the calls that are to be counted as usage; ListUsage says
// which.
func listCharged(s *projector.State, namespace string, fn func(*ToolCall) error) error {
	return ListToolCalls(s, namespace, func(t *ToolCall) error {
		if t.MessageID != nil {
			seq, err := chargedTo(s, t.Namespace, *t.MessageID)
			if err != nil || seq != t.Witnessed().Seq {
				return err
			}
		}
		return fn(t)
	})
}

// chargedTo is the record of the call that a message is counted with: of its calls the
// one with the best witness, of equals the first.
func chargedTo(s *projector.State, namespace, messageID string) (seq ledger.Seq, err error) {
	err = list(s, ToolCalls, func(c *charge) error {
		t, err := projector.Load[ToolCall](s, ToolCalls, c.Slot)
		if err != nil || t.Witnessed().Seq != c.Seq || *t.MessageID != messageID {
			return err
		}
		seq = c.Seq
		return kv.ErrStop
	}, chargeKind, namespace, messageID)
	return seq, err
}
