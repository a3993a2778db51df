// Package interop holds the export of a ledger against readers of the format
// that were written by others. It is a module of its own, so that what they need
// stays out of assay's.
package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	tessera "github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/tlog"

	"assay/ledger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/fsck"
	"assay/ledger/tiles/tilestest"
)

func export(t testing.TB, l *tilestest.Log, dir string, sizes ...int) {
	t.Helper()
	disk, err := tiles.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for _, size := range sizes {
		if _, err := tiles.Export(t.Context(), tiles.Config{To: disk, Source: l, Checkpoint: l.Sign(t, size)}); err != nil {
			t.Fatal(err)
		}
	}
}

// reader checks an export as far as it can and says whether it holds.
type reader func(ctx context.Context, l *tilestest.Log, dir string) error

var readers = map[string]reader{
	"tessera fsck":     tesseraFsck,
	"tessera client":   tesseraClient,
	"torchwood client": torchwoodClient,
	"assay fsck":       assayFsck,
}

func leafHashes(bundle []byte) ([][]byte, error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, entry := range b.Entries {
		out = append(out, rfc6962.DefaultHasher.HashLeaf(entry))
	}
	return out, nil
}

// tesseraFsck has more workers than an export of a test can have bad tiles: each
// of these ends one. It takes for granted that a bundle has its entries.
func tesseraFsck(ctx context.Context, l *tilestest.Log, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return tessera.New(tilestest.Origin, l.Verifier, client.FileFetcher{Root: dir}, leafHashes, tessera.Opts{N: 16}).Check(ctx)
}

// tesseraClient reads every entry and proves it, the first, the last and one in a
// hundred by a path to the root, all by the leaf hashes in the tiles.
func tesseraClient(ctx context.Context, l *tilestest.Log, dir string) error {
	f := client.FileFetcher{Root: dir}
	cp, _, _, err := client.FetchCheckpoint(ctx, f.ReadCheckpoint, l.Verifier, tilestest.Origin)
	if err != nil {
		return err
	}
	hashes, err := client.FetchLeafHashes(ctx, f.ReadTile, 0, cp.Size, cp.Size)
	if err != nil {
		return err
	}
	prover, err := client.NewProofBuilder(ctx, cp.Size, f.ReadTile)
	if err != nil {
		return err
	}
	for i := uint64(0); i*tiles.Width < cp.Size; i++ {
		b, err := client.GetEntryBundle(ctx, f.ReadEntryBundle, i, cp.Size)
		if err != nil {
			return err
		}
		if want := min(cp.Size-i*tiles.Width, tiles.Width); uint64(len(b.Entries)) != want {
			return fmt.Errorf("bundle %d has %d entries, not %d", i, len(b.Entries), want)
		}
		for j, entry := range b.Entries {
			index := i*tiles.Width + uint64(j)
			leaf := rfc6962.DefaultHasher.HashLeaf(entry)
			if !bytes.Equal(leaf, hashes[index]) {
				return fmt.Errorf("entry %d is not the leaf in its tile", index)
			}
			if index%100 != 0 && index != cp.Size-1 {
				continue
			}
			path, err := prover.InclusionProof(ctx, index)
			if err != nil {
				return err
			}
			if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, cp.Size, leaf, path, cp.Hash); err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
		}
	}
	return nil
}

// torchwoodClient reads the export from a plain file server.
func torchwoodClient(ctx context.Context, l *tilestest.Log, dir string) error {
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	f, err := torchwood.NewTileFetcher(server.URL, torchwood.WithTilePath(torchwood.TilePath))
	if err != nil {
		return err
	}
	raw, err := f.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return err
	}
	opened, err := ledger.OpenCheckpoint(raw, l.Verifier)
	if err != nil {
		return err
	}
	c, err := torchwood.NewClient(f, torchwood.WithTimeout(20*time.Second))
	if err != nil {
		return err
	}
	tree := tlog.Tree{N: int64(opened.Size), Hash: tlog.Hash(opened.Root)}
	next := int64(0)
	for next < tree.N {
		before := next
		for i, entry := range c.Entries(ctx, tree, next) {
			if i != next || !bytes.Equal(entry, l.Bodies[i]) {
				return fmt.Errorf("entry %d after %d is another", i, next-1)
			}
			next++
		}
		if err := c.Err(); err != nil {
			return err
		}
		if next == before {
			return fmt.Errorf("no entry after %d of %d", next, tree.N)
		}
	}
	_, _, err = c.Entry(ctx, tree, tree.N/2)
	return err
}

func assayFsck(ctx context.Context, l *tilestest.Log, dir string) error {
	r, err := fsck.Check(ctx, fsck.Config{FS: os.DirFS(dir), Key: l.Key})
	if err == nil && r.Verdict != ledger.Consistent {
		err = fmt.Errorf("%s: %s", r.Verdict, *r.Finding)
	}
	return err
}

// TestSound: every reader accepts exports of all kinds of sizes, in one go and
// grown.
func TestSound(t *testing.T) {
	l := tilestest.New(t, 70000)
	for _, sizes := range [][]int{{1}, {2}, {255}, {256}, {257}, {1000}, {65536}, {70000}, {1, 255, 256, 300, 1000}, {1000, 65537, 70000}} {
		dir := filepath.Join(t.TempDir(), "export")
		export(t, l, dir, sizes...)
		for name, read := range readers {
			if err := read(t.Context(), l, dir); err != nil {
				t.Errorf("%s of %v: %v", name, sizes, err)
			}
		}
	}
}

// TestCodecsAgree: paths, tiles and bundles are what the other libraries make of them.
func TestCodecsAgree(t *testing.T) {
	for _, n := range []int64{0, 1, 999, 1000, 1234067, 1 << 40} {
		for _, w := range []int{1, 17, 255, 256} {
			for level := -1; level < 6; level++ {
				ours := tiles.Tile{Level: level, N: uint64(n), Width: w}
				theirs := tlog.Tile{H: torchwood.TileHeight, L: level, N: n, W: w}
				if ours.Path() != torchwood.TilePath(theirs) {
					t.Errorf("%s, %s", ours.Path(), torchwood.TilePath(theirs))
				}
				if parsed, err := torchwood.ParseTilePath(ours.Path()); err != nil || parsed != theirs {
					t.Errorf("%s: %+v %v", ours.Path(), parsed, err)
				}
			}
		}
	}
	for _, n := range []int{0, 1, 255, 256, ledger.MaxRecord} {
		body := bytes.Repeat([]byte("x"), n)
		ours, err := tiles.AppendEntry(nil, body)
		theirs, err2 := torchwood.AppendTileEntry(nil, body)
		if err != nil || err2 != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("entry of %d bytes: %v, %v", n, err, err2)
		}
	}
}

// mutation is a change of one file; it gets the content and gives the new one,
// nil to remove the file.
type mutation struct {
	name, file string
	change     func(raw []byte) []byte
}

func flipAt(part int) func([]byte) []byte {
	return func(raw []byte) []byte {
		raw[(len(raw)-1)*part/4] ^= 1
		return raw
	}
}

func gone([]byte) []byte       { return nil }
func emptied([]byte) []byte    { return []byte{} }
func cut(raw []byte) []byte    { return raw[:len(raw)-1] }
func halved(raw []byte) []byte { return raw[:len(raw)/2] }
func zeroed(raw []byte) []byte { return make([]byte, len(raw)) }
func swapped(raw []byte) []byte { // the first two entries or hashes
	n := 32
	m := 32
	if len(raw) > 100 && raw[0] == 0 && raw[2] == '{' {
		n = 2 + int(binary.BigEndian.Uint16(raw))
		m = 2 + int(binary.BigEndian.Uint16(raw[n:]))
	}
	return slices.Concat(raw[n:n+m], raw[:n], raw[n+m:])
}

// TestMutations: no reader accepts an export after any of these. Each changes
// something that the checkpoint commits to.
func TestMutations(t *testing.T) {
	l := tilestest.New(t, 1000)
	good := filepath.Join(t.TempDir(), "good")
	export(t, l, good, 1000)
	var mutations []mutation
	tileFiles := []string{"tile/0/000", "tile/0/002", "tile/0/003.p/232", "tile/1/000.p/3"}
	bundles := []string{"tile/entries/000", "tile/entries/002", "tile/entries/003.p/232"}
	for _, file := range append(slices.Clone(tileFiles), bundles...) {
		for part := range 5 {
			mutations = append(mutations, mutation{fmt.Sprintf("flip %d/4", part), file, flipAt(part)})
		}
		mutations = append(mutations,
			mutation{"delete", file, gone}, mutation{"empty", file, emptied}, mutation{"cut", file, cut}, mutation{"half", file, halved},
			mutation{"zero", file, zeroed}, mutation{"swap", file, swapped})
	}
	for part := range 5 {
		mutations = append(mutations, mutation{fmt.Sprintf("flip %d/4", part), "checkpoint", flipAt(part)})
	}
	mutations = append(mutations, mutation{"delete", "checkpoint", gone}, mutation{"empty", "checkpoint", emptied}, mutation{"half", "checkpoint", halved},
		mutation{"an older one of more records", "checkpoint", func([]byte) []byte {
			return l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 1001, Root: l.Root(1000)}).Raw
		}},
		mutation{"of a fork", "checkpoint", func([]byte) []byte { return l.Fork(500, 1000).Sign(t, 1000).Raw }})
	other := func(file string) []byte {
		raw, err := os.ReadFile(filepath.Join(good, file))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	mutations = append(mutations,
		mutation{"another bundle", "tile/entries/000", func([]byte) []byte { return other("tile/entries/001") }},
		mutation{"another tile", "tile/0/000", func([]byte) []byte { return other("tile/0/001") }},
		mutation{"a bundle for a tile", "tile/0/000", func([]byte) []byte { return other("tile/entries/000") }})
	for _, m := range mutations {
		t.Run(m.name+" "+m.file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "export")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, m.file)
			raw := m.change(other(m.file))
			err := os.WriteFile(path, raw, 0o644)
			if raw == nil {
				err = errors.Join(err, os.Remove(path))
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, read := range readers {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if err := read(ctx, l, dir); err == nil || ctx.Err() != nil {
					t.Errorf("%s: %v", name, err)
				}
				cancel()
			}
		})
	}
}
