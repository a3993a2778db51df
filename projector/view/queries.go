package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Query is a choice of query, and what shows that it was made.
type Query struct {
	Namespace string          `json:"namespace"`
	QueryID   string          `json:"query_id"`
	Selected  *Selection      `json:"selected,omitzero"`
	Executed  *QueryExecution `json:"executed,omitzero"`
	Repeats   int64           `json:"repeats"` // further records of either
}

func (q *Query) introducedBy() string {
	if q.Selected == nil {
		return ""
	}
	return q.Selected.EventID
}

// Selection is the agent's intention with her estimates.
type Selection struct {
	EventID    string               `json:"event_id"`
	Seq        ledger.Seq           `json:"seq"`
	RecordedAt time.Time            `json:"recorded_at"`
	Principal  string               `json:"principal"`
	EpisodeID  string               `json:"episode_id,omitzero"`
	SetID      *string              `json:"set_id,omitzero"`
	CostUnit   *string              `json:"cost_unit,omitzero"`
	Menu       []events.QueryOption `json:"menu"`
	Chosen     string               `json:"chosen"`
	// Unlisted flags a choice that is not on the menu.
	Unlisted bool `json:"unlisted"`
}

// QueryExecution names the tool call that made the query. Whether the
// dispatcher saw that call is asked of the tool calls: see CheckQuery.
type QueryExecution struct {
	Execution
	Cost *events.Cost `json:"cost,omitzero"`
}

const queryKind = "q"

type queries struct{}

func (queries) Name() string { return Queries }
func (queries) Version() int { return 2 }

// Apply implements projector.Projection.
func (queries) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.QuerySelected:
		selectQuery(b, r, d)
	case *events.QueryExecuted:
		if !observer(r) {
			return forbidden(r)
		}
		executeQuery(b, r, d)
	}
	return nil
}

func selectQuery(b *projector.Batch, r *projector.Record, d *events.QuerySelected) {
	q, _ := projector.Edit[Query](b, key(queryKind, r.Namespace, d.QueryID))
	q.Namespace, q.QueryID = r.Namespace, d.QueryID
	if q.Selected != nil {
		q.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	q.Selected = &Selection{
		EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, EpisodeID: r.Event.EpisodeID,
		SetID: d.SetID, CostUnit: d.CostUnit, Menu: d.Menu, Chosen: d.Chosen, Unlisted: true,
	}
	for _, o := range d.Menu {
		if o.Option == d.Chosen {
			q.Selected.Unlisted = false
		}
	}
}

// executeQuery keeps the execution of a query that nobody selected as a fact;
// it counts nowhere.
func executeQuery(b *projector.Batch, r *projector.Record, d *events.QueryExecuted) {
	ns, reason := namespaceOf[Query](b, queryKind, d.QueryID, r)
	if reason != "" {
		addOrphan(b, ns, d.QueryID, reason, r)
	}
	addPlace(b, ns)
	q, _ := projector.Edit[Query](b, key(queryKind, ns, d.QueryID))
	q.Namespace, q.QueryID = ns, d.QueryID
	if q.Executed != nil {
		q.Repeats++
		return
	}
	q.Executed = &QueryExecution{Execution{r.Seq, r.RecordedAt, r.Principal, r.Event.EpisodeID, d.ToolCallID, r.Namespace}, d.Cost}
}

// CheckQuery says whether a query was made: only with the dispatcher's
// tool.called that its execution names. The answers are CheckExecution's.
func CheckQuery(s *projector.State, q *Query) (string, error) {
	if q.Executed == nil {
		return NotExecuted, nil
	}
	return checkCall(s, &q.Executed.Execution)
}

// FindQuery reads the queries of an id in all namespaces.
func FindQuery(s *projector.State, queryID string) ([]Query, error) {
	return find[Query](s, Queries, queryKind, queryID)
}

// ListQueries calls fn for a namespace's queries in the order of their ids.
func ListQueries(s *projector.State, namespace string, fn func(*Query) error) error {
	return list(s, Queries, fn, queryKind, namespace)
}
