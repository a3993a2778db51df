package projector

import (
	"context"
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/ledger"
)

// ReplayConfig says what to rebuild.
type ReplayConfig struct {
	Source      Source
	Projections []Projection
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

// Replay folds the ledger from record 1 into a scratch store, checking every
// link. Its digest must equal the live views' at the same record, and its root
// a checkpoint's of that size; comparing is the caller's.
func Replay(ctx context.Context, cfg ReplayConfig) (out Replayed, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "replay-")
	if err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	defer os.RemoveAll(dir)
	db, err := kv.Open(dir, kv.Options{NoLog: true, Logger: cfg.Logger})
	if err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	defer db.Close()
	r, err := NewRunner(Config{
		DB: db, Source: cfg.Source, Projections: cfg.Projections, CommitEvery: cfg.CommitEvery,
		Workers: cfg.Workers, Progress: cfg.Progress, Logger: cfg.Logger,
	})
	if err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	if err := r.CatchUp(ctx, cfg.To); err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	s, err := NewState(db)
	if err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	if out.Digest, err = s.Digest(); err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	l, err := s.Ledger()
	if err != nil {
		return Replayed{}, fmt.Errorf("replay: %w", err)
	}
	out.Records, out.Foreign, out.Parked = l.Records, l.Foreign, r.Status().Parked
	if cfg.Inspect != nil {
		err = cfg.Inspect(s)
	}
	return out, err
}
