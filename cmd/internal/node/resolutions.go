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

// maxWorkPage is how many predictions a resolver lists at a time: it evaluates each,
// and folds nothing meanwhile.
const maxWorkPage = 1000

// AskWorkList asks the running resolver of dir, page by page; ErrNotServed without
// one. Of several pages the list names the first one's record: what it says of a
// prediction was so there or later.
func AskWorkList(ctx context.Context, dir Dir, q resolver.WorkQuery) (resolver.WorkList, error) {
	page, limit := q, q.Limit
	page.Limit = min(limit, maxWorkPage)
	out, err := askWorkPage(ctx, dir, page)
	for err == nil && out.More && len(out.Items) < limit {
		page.After, page.Limit = out.Items[len(out.Items)-1].Seq, min(limit-len(out.Items), maxWorkPage)
		var next resolver.WorkList
		next, err = askWorkPage(ctx, dir, page)
		out.Items, out.More = append(out.Items, next.Items...), next.More
	}
	return out, err
}

func askWorkPage(ctx context.Context, dir Dir, q resolver.WorkQuery) (out resolver.WorkList, err error) {
	values := url.Values{
		"which": {string(q.Which)}, "principal": {q.Principal},
		"after": {strconv.FormatUint(uint64(q.After), 10)}, "limit": {strconv.Itoa(q.Limit)},
	}
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
func FoldWorkList(ctx context.Context, dir Dir, e Evidence, q resolver.WorkQuery, progress func(done, total ledger.Seq)) (resolver.WorkList, error) {
	cfg, err := resolverEvidence(ctx, dir, e)
	if err != nil {
		return resolver.WorkList{}, err
	}
	cfg.Progress = progress
	m, err := resolver.Fold(ctx, cfg)
	if err != nil {
		return resolver.WorkList{}, err
	}
	return m.WorkList(q), nil
}

// routes serves the work lists of the running fold.
func (r *Resolver) routes(mux *http.ServeMux) {
	handle(mux, "GET /predictions", func(req *http.Request) (any, error) {
		q, err := workQuery(req.URL.Query())
		if err != nil {
			return nil, badRequest{err}
		}
		return r.WorkList(q), nil
	})
}

func workQuery(v url.Values) (q resolver.WorkQuery, err error) {
	q = resolver.WorkQuery{Which: resolver.Work(v.Get("which")), Principal: v.Get("principal")}
	if q.Which != resolver.WorkOpen && q.Which != resolver.WorkDue && q.Which != resolver.WorkUnresolved {
		return q, fmt.Errorf("no such work list: which=%q", q.Which)
	}
	if q.Limit, err = limitOf(v, 1, maxWorkPage); err != nil {
		return q, fmt.Errorf("%w predictions, and the next page with after=SEQ of the last one", err)
	}
	after, err := strconv.ParseUint(v.Get("after"), 10, 64)
	if err != nil {
		return q, fmt.Errorf("after=%q: want the record behind which the page begins, or 0", v.Get("after"))
	}
	q.After = ledger.Seq(after)
	return q, nil
}
