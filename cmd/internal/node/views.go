package node

import (
	"context"
	"errors"
	"net/url"

	"assay/projector"
)

// AskViews asks the running projector, or reads the views when none runs.
func AskViews[T any](ctx context.Context, dir Dir, path string, query url.Values, read func(*projector.State) (T, error)) (out T, err error) {
	err = Ask(ctx, dir.Socket(), "GET", path, query, &out)
	if errors.Is(err, ErrNotServed) {
		err = OpenViews(dir, func(s *projector.State) (err error) {
			out, err = read(s)
			return err
		})
	}
	return out, err
}
