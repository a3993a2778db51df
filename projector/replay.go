package projector

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/ledger"
)

// ReplayConfig says what to rebuild.
type ReplayConfig struct {
	Source      Source
	Projections []Projection
	// From is the snapshot to go on from; "" begins at record 1. A projection whose
	// version the snapshot does not have begins there too.
	From string
	// To is the last record; 0 means the head at the start.
	To ledger.Seq
	// Dir is where the scratch store is made and removed again; "" means the
	// system's directory for temporary files.
	Dir         string
	CommitEvery int                // as in Config
	Workers     int                // as in Config
	Progress    func(Status)       // as in Config
	Inspect     func(*State) error // sees the rebuilt views before they are removed
	Logger      zerolog.Logger
}

// Replayed is what the ledger says from record 1.
type Replayed struct {
	Digest
	Records int64 `json:"records"`
	Foreign int64 `json:"foreign"`
	Parked  int   `json:"parked"`
}

// Replay folds the ledger from record 1, or from a snapshot, into a scratch
// store, checking every link. Its digest must equal the live views' at the same
// record, and its root a checkpoint's of that size; comparing is the caller's.
func Replay(ctx context.Context, cfg ReplayConfig) (out Replayed, err error) {
	inspect := cfg.Inspect
	cfg.Inspect = func(s *State) (err error) {
		if out.Digest, err = s.Digest(); err != nil {
			return err
		}
		l, err := s.Ledger()
		if err != nil {
			return err
		}
		out.Records, out.Foreign = l.Records, l.Foreign
		if out.Parked, err = s.CountParked(); err != nil || inspect == nil {
			return err
		}
		return inspect(s)
	}
	err = Fold(ctx, cfg)
	return out, err
}

// Fold is Replay without the digest, which costs a read of all views.
func Fold(ctx context.Context, cfg ReplayConfig) error {
	return fold(ctx, cfg, true, func(db *kv.DB) error {
		s, err := NewState(db)
		if err != nil {
			return err
		}
		return cfg.Inspect(s)
	})
}

// Walk is Fold that goes on to the record to: Inspect sees the views at cfg.To
// first, then after every every-th record behind it, and at to. What keep keeps beside
// them is brought up to each before it is shown, so that what is asked again and again
// need not be computed afresh.
func Walk(ctx context.Context, cfg ReplayConfig, to ledger.Seq, every int, keep func(*Keeping) error) error {
	return fold(ctx, cfg, false, func(db *kv.DB) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var r *Runner
		show := func() error {
			if err := r.keep(func() bool { return false }); err != nil {
				return err
			}
			s, err := NewState(db)
			if err == nil {
				err = cfg.Inspect(s)
			}
			return err
		}
		r, err := NewRunner(Config{
			DB: db, Source: cfg.Source, Projections: cfg.Projections, CommitEvery: every, Workers: cfg.Workers, Logger: cfg.Logger, Keep: keep,
			Progress: func(Status) {
				if context.Cause(ctx) == nil {
					if err := show(); err != nil {
						cancel(err)
					}
				}
			},
		})
		if err == nil {
			err = show()
		}
		if err != nil || to <= cfg.To {
			return err
		}
		err = r.CatchUp(ctx, to)
		return cmp.Or(context.Cause(ctx), err)
	})
}

// fold makes the scratch store at cfg.To and removes it after fn.
func fold(ctx context.Context, cfg ReplayConfig, scratch bool, fn func(*kv.DB) error) (err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "replay-")
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer os.RemoveAll(dir)
	store := filepath.Join(dir, snapshotStore)
	if cfg.From != "" {
		if err := CloneSnapshot(cfg.From, store); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
	}
	db, err := kv.Open(store, kv.Options{NoLog: true, Logger: cfg.Logger})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer db.Close()
	r, err := NewRunner(Config{
		DB: db, Source: cfg.Source, Projections: cfg.Projections, CommitEvery: cfg.CommitEvery,
		Workers: cfg.Workers, Progress: cfg.Progress, Logger: cfg.Logger, scratch: scratch,
	})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if err := r.disbelieve(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if err := r.CatchUp(ctx, cfg.To); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if err := fn(db); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}
