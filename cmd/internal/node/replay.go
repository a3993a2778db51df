package node

import (
	"context"

	"github.com/rs/zerolog"

	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// Replay rebuilds every view from record 1 up to to (0: the head) in a scratch
// store, and lets inspect see them.
func Replay(ctx context.Context, e Evidence, to ledger.Seq, progress func(done, total ledger.Seq), inspect func(*projector.State) error, log zerolog.Logger) (projector.Replayed, error) {
	last, err := e.Head(ctx)
	if err != nil {
		return projector.Replayed{}, err
	}
	if to == 0 {
		to = last
	}
	return projector.Replay(ctx, projector.ReplayConfig{
		Source: e, Projections: view.All(), To: to, Inspect: inspect, Logger: log,
		Progress: func(s projector.Status) {
			if progress != nil {
				progress(s.Seq, to)
			}
		},
	})
}
