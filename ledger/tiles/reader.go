package tiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"assay/ledger"
)

// ErrNoRecord means that an export does not hold a record: its checkpoint signs
// fewer.
var ErrNoRecord = errors.New("the export has no such record")

// ReadCheckpoint reads the checkpoint of an export without checking who signed
// it; ledger.ErrBadCheckpoint if it is none.
func ReadCheckpoint(fsys fs.FS) (ledger.SignedCheckpoint, error) {
	raw, err := ReadFile(fsys, CheckpointName, maxCheckpoint)
	if err != nil {
		return ledger.SignedCheckpoint{}, err
	}
	return ledger.ParseCheckpoint(raw)
}

// Reader reads what the checkpoint of an export commits to. What it returns is
// proven to be that; who signed the checkpoint is for the caller to check. It
// may be used by several goroutines at once.
type Reader struct {
	fsys   fs.FS
	cp     ledger.SignedCheckpoint
	hashes tlog.HashReader
}

// OpenReader opens an export; errors are those of ReadCheckpoint.
func OpenReader(fsys fs.FS) (*Reader, error) {
	cp, err := ReadCheckpoint(fsys)
	if err != nil {
		return nil, err
	}
	tree := tlog.Tree{N: int64(cp.Size), Hash: tlog.Hash(cp.Root)}
	return &Reader{fsys: fsys, cp: cp, hashes: tlog.TileHashReader(tree, tileReader{fsys})}, nil
}

// Checkpoint is that of the export.
func (r *Reader) Checkpoint() ledger.SignedCheckpoint { return r.cp }

// ReadHashes implements tlog.HashReader for the checkpoint's tree.
func (r *Reader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if r.cp.Size == 0 {
		return nil, ErrNoRecord
	}
	return r.hashes.ReadHashes(indexes)
}

// Record reads a record's body; ErrNoRecord beyond the checkpoint, ErrDamaged
// if it is not what the checkpoint signs.
func (r *Reader) Record(seq ledger.Seq) ([]byte, error) {
	if seq == 0 || uint64(seq) > r.cp.Size {
		return nil, fmt.Errorf("%w: %d of %d", ErrNoRecord, seq, r.cp.Size)
	}
	index := uint64(seq.Index())
	var body []byte
	err := readBundle(r.fsys, index/Width, r.cp.Size, func(i int, b []byte) error {
		if uint64(i) == index%Width {
			body = b
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	signed, err := r.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(index))})
	if err != nil {
		return nil, fmt.Errorf("%w: hash of record %d: %w", ErrDamaged, seq, err)
	}
	if leaf := ledger.Leaf(body); leaf != ledger.Hash(signed[0]) {
		return nil, fmt.Errorf("%w: record %d hashes to %s, signed is %s", ErrDamaged, seq, leaf, ledger.Hash(signed[0]))
	}
	return body, nil
}

// ReadRecords calls fn for the records from from to to (0: the last) of an
// export of size records, as its bundles have them: nothing is checked but the
// form. Bodies belong to fn. An error of fn ends the read and is returned.
func ReadRecords(ctx context.Context, fsys fs.FS, size uint64, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error {
	if to == 0 || uint64(to) > size {
		to = ledger.Seq(size)
	}
	from = max(from, 1)
	for n := uint64(from.Index()) / Width; n*Width < uint64(to); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := readBundle(fsys, n, size, func(i int, body []byte) error {
			seq := ledger.Seq(n*Width) + ledger.Seq(i) + 1
			if seq < from || seq > to {
				return nil
			}
			return fn(seq, body)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readBundle reads bundle n of an export of size records.
func readBundle(fsys fs.FS, n, size uint64, fn func(i int, body []byte) error) error {
	t := Tile{Level: Entries, N: n, Width: int(min(size-n*Width, Width))}
	raw, err := ReadFile(fsys, t.Path(), MaxBundle)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	err = ReadBundle(raw, t.Width, fn)
	if errors.Is(err, ErrBundle) {
		err = fmt.Errorf("%w: %s: %w", ErrDamaged, t.Path(), err)
	}
	return err
}

// tileReader implements tlog.TileReader.
type tileReader struct{ fsys fs.FS }

func (r tileReader) Height() int { return height }

func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		raw, err := readTile(r.fsys, Tile{Level: t.L, N: uint64(t.N), Width: t.W})
		if err != nil {
			return nil, err
		}
		out[i] = raw
	}
	return out, nil
}

func (r tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
