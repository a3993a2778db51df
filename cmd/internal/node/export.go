package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/fsck"
)

// tilesEvidence is a directory that Export wrote. Its checkpoint says only how
// many records to read: who signed it, and what they are, is for the reader to
// check.
type tilesEvidence struct {
	dir  string
	size uint64
}

func openTiles(dir string) (Evidence, error) {
	cp, err := tiles.ReadCheckpoint(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return tilesEvidence{dir, cp.Size}, nil
}

func (e tilesEvidence) Origin() string { return "the export in " + e.dir }
func (e tilesEvidence) Close() error   { return nil }

func (e tilesEvidence) Head(context.Context) (ledger.Seq, error) { return ledger.Seq(e.size), nil }

func (e tilesEvidence) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return tiles.ReadRecords(ctx, os.DirFS(e.dir), e.size, from, to, fn)
}

// treeOf reads the tree of an export whose checkpoint is of the same root as cp;
// nil if the evidence has none.
func treeOf(e Evidence, cp ledger.SignedCheckpoint) *tiles.Reader {
	t, ok := e.(tilesEvidence)
	if !ok {
		return nil
	}
	r, err := tiles.OpenReader(os.DirFS(t.dir))
	if err != nil || r.Checkpoint().Size != cp.Size || r.Checkpoint().Root != cp.Root {
		return nil
	}
	return r
}

// ErrNoCheckpoint means that there is no checkpoint, or no key to open one with.
var ErrNoCheckpoint = errors.New("there is no checkpoint signed by a known key")

// Exported is what an export did, and where.
type Exported struct {
	Dir string `json:"dir"`
	tiles.Exported
}

// NewestCheckpoint is the largest checkpoint that the key signed: that of
// c.Checkpoint, or of those in DIR. Without one, or without a key, it is
// ErrNoCheckpoint.
func NewestCheckpoint(c AnchorConfig) (cp ledger.SignedCheckpoint, err error) {
	key, err := LoadKey(c)
	if err != nil {
		return cp, err
	}
	if key == nil {
		return cp, fmt.Errorf("%s: %w", c.Dir, ErrNoCheckpoint)
	}
	if c.Checkpoint != "" {
		if cp, err = ReadCheckpoint(c.Checkpoint); err == nil {
			_, err = ledger.OpenCheckpoint(cp.Raw, key)
		}
		return cp, err
	}
	all, err := logger.ReadCheckpoints(c.Dir.Logger()) // the largest first
	for _, cp := range all {
		// One that is broken or forged is for verify to complain about.
		if _, err := ledger.OpenCheckpoint(cp.Raw, key); err == nil {
			return cp, nil
		}
	}
	return cp, errors.Join(fmt.Errorf("%s: %w", c.Dir.Logger().Checkpoints(), ErrNoCheckpoint), err)
}

// Export writes the records that the checkpoint signs to dir, or adds those that
// are not there yet.
func Export(ctx context.Context, e Evidence, cp ledger.SignedCheckpoint, dir string, progress func(done, total uint64)) (out Exported, err error) {
	disk, err := tiles.OpenDisk(dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	out.Dir = dir
	out.Exported, err = tiles.Export(ctx, tiles.Config{To: disk, Source: e, Checkpoint: cp, Progress: progress})
	return out, err
}

// Fsck checks the export in dir against the key of c, if there is one, and what
// c remembers.
func Fsck(ctx context.Context, c AnchorConfig, dir string, progress func(done, total uint64)) (fsck.Report, error) {
	key, err := loadKey(c)
	if err != nil {
		return fsck.Report{}, err
	}
	cfg := fsck.Config{FS: os.DirFS(dir), Key: key, Progress: progress}
	if c.Pin != nil {
		cfg.Heads = []ledger.Checkpoint{*c.Pin.Head()}
	}
	return fsck.Check(ctx, cfg)
}
