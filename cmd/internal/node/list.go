package node

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// Listed is what the views hold of one kind.
type Listed struct {
	Items []jsontext.Value `json:"items"`
	// More says that there are others beyond the limit.
	More bool `json:"more"`
}

// ListQuery is what List is asked for.
type ListQuery struct {
	Kind      string // one of view.Kinds
	Namespace string
	Limit     int
	Graph     view.GraphQuery // for the kinds that view.ListAsOf lists
}

// Values is the query as List's socket takes it.
func (q ListQuery) Values() url.Values {
	return url.Values{
		"kind": {q.Kind}, "namespace": {q.Namespace}, "limit": {strconv.Itoa(q.Limit)},
		"at": {strconv.FormatUint(uint64(q.Graph.At), 10)}, "cause": {q.Graph.Cause}, "effect": {q.Graph.Effect},
	}
}

// parseListQuery reads what Values wrote.
func parseListQuery(r *http.Request) (ListQuery, error) {
	q := ListQuery{
		Kind: r.FormValue("kind"), Namespace: r.FormValue("namespace"),
		Graph: view.GraphQuery{Cause: r.FormValue("cause"), Effect: r.FormValue("effect")},
	}
	var err error
	if q.Limit, err = strconv.Atoi(r.FormValue("limit")); err != nil {
		return q, &httpError{http.StatusBadRequest, fmt.Errorf("limit: %w", err)}
	}
	at, err := strconv.ParseUint(r.FormValue("at"), 10, 64)
	if err != nil {
		return q, &httpError{http.StatusBadRequest, fmt.Errorf("at: %w", err)}
	}
	q.Graph.At = ledger.Seq(at)
	return q, nil
}

// List reads what is asked for; blobs come with their state in the store of dir.
func List(dir Dir, s *projector.State, q ListQuery) (Listed, error) {
	out := Listed{Items: []jsontext.Value{}}
	fn := func(v any) error {
		if len(out.Items) == q.Limit {
			out.More = true
			return kv.ErrStop
		}
		raw, err := json.Marshal(v, json.Deterministic(true))
		out.Items = append(out.Items, raw)
		return err
	}
	var err error
	if q.Kind == view.Blobs {
		if fn, err = withState(dir, fn); err != nil {
			return out, err
		}
	}
	if q.Graph == (view.GraphQuery{}) {
		err = view.List(s, q.Kind, q.Namespace, fn)
	} else {
		err = view.ListAsOf(s, q.Kind, q.Namespace, q.Graph, fn)
	}
	if out.More {
		err = nil // a merged listing passes the stop on
	}
	return out, err
}
