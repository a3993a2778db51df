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
	err = node.Ask(a.ctx, a.dir.Socket(), "GET", path, query, &out)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			out, err = read(s)
			return err
		})
	}
	return out, err
}
