package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/kv"
)

// Span is a time with a name, such as a closed week: [Start, End).
type Span struct {
	Name       string
	Start, End time.Time
}

// PruneConfig says which snapshots stay.
type PruneConfig struct {
	Dir string
	// Keep is how many of the latest stay.
	Keep int
	// Spans each keep the latest snapshot whose ledger time is within.
	Spans []Span
	// DryRun removes nothing.
	DryRun bool
}

// Pruned is what became of one snapshot.
type Pruned struct {
	SnapshotInfo
	Removed bool `json:"removed"`
	// Why it stays, or is removed.
	Why string `json:"why"`
}

// PruneSnapshots removes the snapshots that nothing keeps, in the order of
// records. One that somebody has open stays, and so does one whose manifest
// cannot be read, except of the format before this one: nothing that this build
// does could use that. What an interrupted Snapshot or removal left goes too, so
// no Snapshot may be under way.
func PruneSnapshots(cfg PruneConfig) ([]Pruned, error) {
	list, err := ListSnapshots(cfg.Dir)
	if err != nil {
		return nil, err
	}
	out := planPrune(list, cfg.Keep, cfg.Spans)
	if cfg.DryRun {
		return out, nil
	}
	if err := removeUnfinished(cfg.Dir); err != nil {
		return nil, fmt.Errorf("remove what is unfinished: %w", err)
	}
	for i := range out {
		p := &out[i]
		if !p.Removed {
			continue
		}
		err := removeSnapshot(cfg.Dir, p.Path)
		if errors.Is(err, kv.ErrLocked) {
			p.Removed, p.Why = false, "somebody reads it"
		} else if err != nil {
			return out, fmt.Errorf("remove snapshot: %w", err)
		}
	}
	return out, nil
}

// removeUnfinished makes room for the names that removeSnapshot gives.
func removeUnfinished(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, n.Name())))
		}
	}
	return err
}

func planPrune(list []SnapshotInfo, keep int, spans []Span) []Pruned {
	out := make([]Pruned, 0, len(list))
	for _, s := range list {
		p := Pruned{SnapshotInfo: s, Removed: true, Why: "neither among the latest nor the last of a closed week"}
		switch {
		case s.Problem != "" && s.Manifest.V != 0 && s.Manifest.V < snapshotVersion:
			p.Why = "of a format that is no longer read"
		case s.Problem != "":
			p.Removed, p.Why = false, "cannot be read: "+s.Problem
		}
		out = append(out, p)
	}
	latest := 0
	spans = slices.Clone(spans)
	for i := range slices.Backward(out) {
		p := &out[i]
		if p.Problem != "" {
			continue
		}
		if latest < keep {
			p.Removed, p.Why = false, "among the latest"
			latest++
		}
		at, err := time.Parse(time.RFC3339Nano, deref(p.Manifest.LedgerTime))
		if err != nil {
			continue
		}
		n := slices.IndexFunc(spans, func(s Span) bool { return !at.Before(s.Start) && at.Before(s.End) })
		if n < 0 {
			continue
		}
		if p.Removed {
			p.Removed, p.Why = false, "the last of "+spans[n].Name
		}
		spans = slices.Delete(spans, n, n+1)
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// removeSnapshot takes a snapshot's name away while nobody reads it, so that
// nobody can begin to, and then its files.
func removeSnapshot(dir, path string) error {
	release, err := kv.Hold(filepath.Join(path, snapshotStore))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(path) // there is nothing in it that could be read
	}
	if err != nil {
		return err
	}
	gone := filepath.Join(dir, unfinished+filepath.Base(path))
	err = os.Rename(path, gone)
	return errors.Join(err, release(), os.RemoveAll(gone))
}
