package view

import (
	"errors"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Experiment is an intention, and what shows that it was carried out.
type Experiment struct {
	Namespace string     `json:"namespace"`
	ExpID     string     `json:"exp_id"`
	Proposed  *Proposal  `json:"proposed,omitzero"`
	Executed  *Execution `json:"executed,omitzero"`
	Observed  *Observed  `json:"observed,omitzero"`
	Repeats   int64      `json:"repeats"` // further records of any of the three
}

func (e *Experiment) introducedBy() string {
	if e.Proposed == nil {
		return ""
	}
	return e.Proposed.EventID
}

// Proposal is the agent's intention.
type Proposal struct {
	EventID       string                    `json:"event_id"`
	Seq           ledger.Seq                `json:"seq"`
	RecordedAt    time.Time                 `json:"recorded_at"`
	Principal     string                    `json:"principal"`
	EpisodeID     string                    `json:"episode_id,omitzero"`
	Discriminates []string                  `json:"discriminates"`
	Predicted     []events.PredictedOutcome `json:"predicted,omitzero"`
	Cost          *events.Cost              `json:"cost,omitzero"`
}

// Execution names the tool call that carried an experiment or a query out.
// Whether the dispatcher saw that call is asked of the tool calls: see checkCall.
type Execution struct {
	Seq           ledger.Seq `json:"seq"`
	RecordedAt    time.Time  `json:"recorded_at"`
	Principal     string     `json:"principal"`
	EpisodeID     string     `json:"episode_id,omitzero"`
	ToolCallID    string     `json:"tool_call_id"`
	CallNamespace string     `json:"call_namespace"`
}

// Observed is what the resolver saw come out.
type Observed struct {
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	Outcome     string     `json:"outcome"`
	EvidenceIDs []string   `json:"evidence_ids,omitzero"`
}

const experimentKind = "e"

type experiments struct{}

func (experiments) Name() string { return Experiments }
func (experiments) Version() int { return 2 }

// Apply implements projector.Projection.
func (experiments) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.ExperimentProposed:
		propose(b, r, d)
	case *events.ExperimentExecuted:
		if !observer(r) {
			return forbidden(r)
		}
		if e := referred(b, r, d.ExpID); e.Executed != nil {
			e.Repeats++
		} else {
			e.Executed = &Execution{r.Seq, r.RecordedAt, r.Principal, r.Event.EpisodeID, d.ToolCallID, r.Namespace}
		}
	case *events.ExperimentObserved:
		if r.Role() != roleResolver {
			return forbidden(r)
		}
		if e := referred(b, r, d.ExpID); e.Observed != nil {
			e.Repeats++
		} else {
			e.Observed = &Observed{r.Seq, r.RecordedAt, r.Principal, d.Observed, d.EvidenceIDs}
		}
	}
	return nil
}

func propose(b *projector.Batch, r *projector.Record, d *events.ExperimentProposed) {
	e, _ := projector.Edit[Experiment](b, key(experimentKind, r.Namespace, d.ExpID))
	e.Namespace, e.ExpID = r.Namespace, d.ExpID
	if e.Proposed != nil {
		e.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	e.Proposed = &Proposal{
		EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		Discriminates: d.Discriminates, Predicted: d.Predicted, Cost: d.Cost,
	}
}

// referred is the experiment that the record names. One that nobody proposed is
// kept as a fact; without a proposal it counts nowhere.
func referred(b *projector.Batch, r *projector.Record, id string) *Experiment {
	ns, reason := namespaceOf[Experiment](b, experimentKind, id, r)
	if reason != "" {
		addOrphan(b, ns, id, reason, r)
	}
	addPlace(b, ns)
	e, _ := projector.Edit[Experiment](b, key(experimentKind, ns, id))
	e.Namespace, e.ExpID = ns, id
	return e
}

// What CheckExecution can say.
const (
	NotExecuted    = "not_executed"
	Executed       = "executed"
	ExecutedNoCall = "executed_without_call" // the dispatcher recorded no such call
	ExecutedDenied = "call_denied"           // it did, and the call was denied
)

// CheckExecution says whether an experiment was carried out: only with the
// dispatcher's tool.called that its execution names.
func CheckExecution(s *projector.State, e *Experiment) (string, error) {
	if e.Executed == nil {
		return NotExecuted, nil
	}
	return checkCall(s, e.Executed)
}

// checkCall looks for the call that an execution names.
func checkCall(s *projector.State, x *Execution) (string, error) {
	t, err := GetToolCall(s, x.CallNamespace, x.EpisodeID, x.ToolCallID)
	switch {
	case errors.Is(err, kv.ErrNotFound) || err == nil && t.Observed == nil:
		return ExecutedNoCall, nil
	case err != nil:
		return "", err
	case !t.Executed():
		return ExecutedDenied, nil
	}
	return Executed, nil
}

// GetExperiment reads one experiment; kv.ErrNotFound when there is none.
func GetExperiment(s *projector.State, namespace, expID string) (*Experiment, error) {
	return projector.Load[Experiment](s, Experiments, key(experimentKind, namespace, expID))
}

// FindExperiment reads the experiments of an id in all namespaces.
func FindExperiment(s *projector.State, expID string) ([]Experiment, error) {
	return find[Experiment](s, Experiments, experimentKind, expID)
}

// ListExperiments calls fn for a namespace's experiments in the order of ids.
func ListExperiments(s *projector.State, namespace string, fn func(*Experiment) error) error {
	return list(s, Experiments, fn, experimentKind, namespace)
}
