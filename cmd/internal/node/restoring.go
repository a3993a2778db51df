package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/internal/versioned"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// restoring is the content of the file that logger.Files.Restoring names: how
// far a restore came.
//
//	{"v":1,"loss":{"Size":…,"KnownSize":…,"KnownRoot":…,"Checkpoint":…,"AcceptedBy":…},"aside":false}
type restoring struct {
	V    int          `json:"v"`
	Loss *logger.Loss `json:"loss"` // null when nothing is lost
	// Aside: the checkpoints of lost records are in lost/.
	Aside bool `json:"aside"`
}

const restoringVersion = 1

// restoring reads it; nil when no restore is under way.
func (d Dir) restoring() (*restoring, error) {
	path := d.Logger().Restoring()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m restoring
	if err := versioned.Decode(raw, restoringVersion, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &m, nil
}

// mark keeps the logger from starting.
func (r *restore) mark(aside bool) error {
	raw, err := json.Marshal(restoring{restoringVersion, r.loss, aside}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(r.Dir.Logger().Restoring(), append(raw, '\n'), 0o600)
}

// unmark lets it start.
func (r *restore) unmark(context.Context, *stream.Stream) error {
	if err := os.Remove(r.Dir.Logger().Restoring()); err != nil {
		return err
	}
	return durable.SyncDir(string(r.Dir.Logger()))
}
