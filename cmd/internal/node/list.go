package node

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/kv"
	"assay/projector"
	"assay/projector/view"
)

// Listed is what the views hold of one kind.
type Listed struct {
	Items []jsontext.Value `json:"items"`
	// More says that there are others beyond the limit.
	More bool `json:"more"`
}

// List reads up to limit things of a kind (view.Kinds) in a namespace; blobs
// come with their state in the store of dir.
func List(dir Dir, s *projector.State, kind, namespace string, limit int) (Listed, error) {
	out := Listed{Items: []jsontext.Value{}}
	fn := func(v any) error {
		if len(out.Items) == limit {
			out.More = true
			return kv.ErrStop
		}
		raw, err := json.Marshal(v, json.Deterministic(true))
		out.Items = append(out.Items, raw)
		return err
	}
	var err error
	if kind == view.Blobs {
		if fn, err = withState(dir, fn); err != nil {
			return out, err
		}
	}
	err = view.List(s, kind, namespace, fn)
	if out.More {
		err = nil // a merged listing passes the stop on
	}
	return out, err
}
