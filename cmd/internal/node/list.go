package node

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// MaxListed is how many items List is asked for at most: a service has an answer
// in memory before it gives it. An export writes all of a kind, row by row.
const MaxListed = 10_000

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
	Limit     int             // from 1 to MaxListed
	Graph     view.GraphQuery // for the kinds that view.ListAsOf lists
}

// Values is the query as List's socket takes it.
func (q ListQuery) Values() url.Values {
	return url.Values{
		"kind": {q.Kind}, "namespace": {q.Namespace}, "limit": {strconv.Itoa(q.Limit)},
		"at": {strconv.FormatUint(uint64(q.Graph.At), 10)}, "cause": {q.Graph.Cause}, "effect": {q.Graph.Effect},
	}
}

// listQuery reads what Values wrote.
func listQuery(v url.Values) (q ListQuery, err error) {
	q = ListQuery{Kind: v.Get("kind"), Namespace: v.Get("namespace"), Graph: view.GraphQuery{Cause: v.Get("cause"), Effect: v.Get("effect")}}
	if q.Limit, err = limitOf(v, 1, MaxListed); err != nil {
		return q, err
	}
	at, err := strconv.ParseUint(v.Get("at"), 10, 64)
	if err != nil {
		return q, fmt.Errorf("at=%q: want a record, or 0", v.Get("at"))
	}
	q.Graph.At = ledger.Seq(at)
	return q, nil
}

// limitOf reads the member limit, which is from least to most.
func limitOf(v url.Values, least, most int) (int, error) {
	n, err := strconv.Atoi(v.Get("limit"))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("limit=%q: want %d to %d", v.Get("limit"), least, most)
	}
	return n, nil
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
	if errors.Is(err, kv.ErrStop) {
		err = nil // a merged listing passes it on
	}
	return out, err
}
