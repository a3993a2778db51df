package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// FoldConfig says where to fold the ledger to.
type FoldConfig struct {
	Evidence Evidence
	// Snapshots is the directory of snapshots, of which the nearest is folded on
	// from; "" begins at record 1.
	Snapshots string
	To        ledger.Seq // 0 is the head
	Progress  func(done, total ledger.Seq)
	Log       zerolog.Logger
}

// replay is the configuration of a replay by c, and the snapshot that it goes
// on from; nil when there is none.
func (c *FoldConfig) replay(ctx context.Context) (projector.ReplayConfig, *projector.SnapshotInfo, error) {
	cfg := projector.ReplayConfig{
		Source: c.Evidence, Projections: view.All(), To: c.To, Logger: c.Log,
		Progress: func(s projector.Status) {
			if c.Progress != nil {
				c.Progress(s.Seq, c.To)
			}
		},
	}
	if c.Snapshots == "" {
		return cfg, nil, nil
	}
	near, err := nearest(ctx, c.Snapshots, c.To)
	if near != nil {
		cfg.From = near.Path
	}
	return cfg, near, err
}

// nearest is the last snapshot at or before a record that this build's views can
// go on from, verified; nil when there is none. They may be another user's, and one
// that somebody else goes on reading is left for an older one: snapshots only
// save time.
func nearest(ctx context.Context, dir string, to ledger.Seq) (*projector.SnapshotInfo, error) {
	list, err := projector.ListSnapshots(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ours := projector.Versions(view.All())
	for _, s := range slices.Backward(list) {
		if s.Problem != "" || s.Manifest.Seq > to || !slices.Equal(s.Manifest.Versions, ours) {
			continue
		}
		err := kv.Wait(ctx, func() error {
			_, err := projector.VerifySnapshot(s.Path)
			return err
		})
		switch {
		case errors.Is(err, kv.ErrLocked) && ctx.Err() == nil:
			continue
		case err != nil:
			return nil, fmt.Errorf("%w; --replay begins at record 1 instead", err)
		}
		return &s, nil
	}
	return nil, nil
}

// Replay rebuilds every view in a scratch store and lets inspect, if set, see
// them.
func Replay(ctx context.Context, c FoldConfig, inspect func(*projector.State) error) (projector.Replayed, error) {
	if c.To == 0 {
		var err error
		if c.To, err = c.Evidence.Head(ctx); err != nil {
			return projector.Replayed{}, err
		}
	}
	cfg, _, err := c.replay(ctx)
	if err != nil {
		return projector.Replayed{}, err
	}
	cfg.Inspect = inspect
	return projector.Replay(ctx, cfg)
}

// ReplayThrough is Replay to each of several records, in ascending order, in one
// pass. It calls fn at each.
func ReplayThrough(ctx context.Context, c FoldConfig, at []ledger.Seq, fn func(projector.Replayed) error) error {
	if len(at) == 0 {
		return nil
	}
	c.To = at[len(at)-1]
	cfg, _, err := c.replay(ctx)
	if err != nil {
		return err
	}
	return projector.ReplayThrough(ctx, cfg, at, fn)
}
