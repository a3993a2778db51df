package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"assay/internal/blob"
	"assay/ledger"
	"assay/resolver"
)

// ReplayResolutions folds the ledger and the blobs of dir up to to (0: the last
// record) and compares what that calls for with the resolutions and amendments
// that the ledger has. Nothing of a running resolver is read.
func ReplayResolutions(ctx context.Context, dir Dir, e Evidence, to ledger.Seq, progress func(done, total ledger.Seq)) (resolver.Replayed, error) {
	cfg, err := resolverEvidence(ctx, dir, e)
	if err != nil {
		return resolver.Replayed{}, err
	}
	cfg.To, cfg.Progress = to, progress
	return resolver.Replay(ctx, cfg)
}

func resolverEvidence(ctx context.Context, dir Dir, e Evidence) (resolver.ReplayConfig, error) {
	reg, err := LoadRegistry(dir)
	if err != nil {
		return resolver.ReplayConfig{}, err
	}
	var blobs resolver.Blobs = noBlobs{}
	switch store, err := blob.OpenExisting(dir.Blobs()); {
	case err == nil:
		blobs = store
	case !errors.Is(err, fs.ErrNotExist):
		return resolver.ReplayConfig{}, err
	}
	last, err := e.Head(ctx)
	if err != nil {
		return resolver.ReplayConfig{}, err
	}
	return resolver.ReplayConfig{Read: e.Read, Last: last, Blobs: blobs, Registry: reg}, nil
}

// noBlobs is the store of a directory in which nothing was sealed yet.
type noBlobs struct{}

func (noBlobs) Put([]byte) (string, error) { return "", blob.ErrNotFound }

func (noBlobs) Get(name string) ([]byte, error) {
	return nil, fmt.Errorf("get blob %s: %w", name, blob.ErrNotFound)
}

// WorkQuery asks for a work list.
type WorkQuery struct {
	Which     resolver.Work
	Principal string // "" asks for all
	Limit     int
}

// AskWorkList asks the running resolver of dir; ErrNotServed without one.
func AskWorkList(ctx context.Context, dir Dir, q WorkQuery) (resolver.WorkList, error) {
	var out resolver.WorkList
	values := url.Values{"which": {string(q.Which)}, "principal": {q.Principal}, "limit": {strconv.Itoa(q.Limit)}}
	for _, socket := range []string{dir.service("resolver"), dir.Socket()} {
		err := Ask(ctx, socket, "GET", "/predictions", values, &out)
		if errors.Is(err, ErrNotServed) || errors.Is(err, ErrNotFound) {
			continue // the projector alone serves the second one without it
		}
		return out, err
	}
	return out, ErrNotServed
}

// FoldWorkList makes a work list of the ledger and the blobs of dir.
func FoldWorkList(ctx context.Context, dir Dir, e Evidence, q WorkQuery, progress func(done, total ledger.Seq)) (resolver.WorkList, error) {
	cfg, err := resolverEvidence(ctx, dir, e)
	if err != nil {
		return resolver.WorkList{}, err
	}
	cfg.Progress = progress
	m, err := resolver.Fold(ctx, cfg)
	if err != nil {
		return resolver.WorkList{}, err
	}
	return m.WorkList(q.Which, q.Principal, q.Limit), nil
}

// routes serves the work lists of the running fold.
func (r *Resolver) routes(mux *http.ServeMux) {
	handle(mux, "GET /predictions", func(req *http.Request) (any, error) {
		v := req.URL.Query()
		limit, err := strconv.Atoi(v.Get("limit"))
		which := resolver.Work(v.Get("which"))
		if err != nil || limit < 1 || which != resolver.WorkOpen && which != resolver.WorkDue && which != resolver.WorkUnresolved {
			return nil, &httpError{http.StatusBadRequest, fmt.Errorf("no such work list: which=%q limit=%q", which, v.Get("limit"))}
		}
		return r.WorkList(which, v.Get("principal"), limit), nil
	})
}
