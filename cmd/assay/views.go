package main

import (
	"net/url"

	"assay/cmd/internal/node"
	"assay/projector"
)

// ofViews asks the running projector, or reads the views when none runs.
func ofViews[T any](a *app, path string, query url.Values, read func(*projector.State) (T, error)) (out T, err error) {
	if err := a.dir.Check(); err != nil {
		return out, err
	}
	return node.AskViews(a.ctx, a.dir, path, query, read)
}
