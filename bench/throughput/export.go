package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/fsck"
)

func exportDir(dir string) string { return filepath.Join(dir, "export") }

// export writes the ledger up to its newest checkpoint as `assay export` does.
func (h *house) export(ctx context.Context) (err error) {
	nc, s, _, err := openReading(h.dir)
	if err != nil {
		return err
	}
	defer nc.Close()
	files := logger.Files(filepath.Join(h.dir, "logger"))
	checkpoints, err := logger.ReadCheckpoints(files) // the largest first
	if err != nil {
		return err
	}
	disk, err := tiles.OpenDisk(exportDir(h.dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	_, err = tiles.Export(ctx, tiles.Config{To: disk, Source: s, Checkpoint: checkpoints[0]})
	return err
}

// readSHA256 hashes the bundles of the export and does nothing else.
func readSHA256(_ context.Context, dir string) (int, error) {
	root := os.DirFS(exportDir(dir))
	cp, err := tiles.ReadCheckpoint(root)
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	for n := uint64(0); n*tiles.Width < cp.Size; n++ {
		t := tiles.Tile{Level: tiles.Entries, N: n, Width: int(min(cp.Size-n*tiles.Width, tiles.Width))}
		if err := hashFile(h, root, t.Path()); err != nil {
			return 0, err
		}
	}
	return int(cp.Size), nil
}

func hashFile(h hash.Hash, root fs.FS, name string) error {
	raw, err := tiles.ReadFile(root, name, tiles.MaxBundle)
	if err == nil {
		_, err = h.Write(raw)
	}
	return err
}

// readFsck checks the export as `assay fsck` does.
func readFsck(ctx context.Context, dir string) (int, error) {
	key, _, err := logger.LoadVerifier(logger.Files(filepath.Join(dir, "logger")))
	if err != nil {
		return 0, err
	}
	r, err := fsck.Check(ctx, fsck.Config{FS: os.DirFS(exportDir(dir)), Key: key})
	if err == nil && r.Verdict != ledger.Consistent {
		err = fmt.Errorf("fsck: %s at %d records", r.Verdict, r.Size)
	}
	return int(r.Size), err
}
