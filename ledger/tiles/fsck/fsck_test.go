package fsck_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"assay/ledger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/fsck"
	"assay/ledger/tiles/tilestest"
)

func export(t testing.TB, to tiles.FS, l *tilestest.Log, size int) {
	t.Helper()
	if _, err := tiles.Export(t.Context(), tiles.Config{To: to, Source: l, Checkpoint: l.Sign(t, size)}); err != nil {
		t.Fatal(err)
	}
}

func check(t testing.TB, fsys fs.FS, key string) fsck.Report {
	t.Helper()
	r, err := fsck.Check(t.Context(), fsck.Config{FS: fsys, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSound(t *testing.T) {
	l := tilestest.New(t, 66000)
	for _, size := range []int{1, 2, 255, 256, 257, 600, 66000} {
		dir := tilestest.NewFS()
		export(t, dir, l, size)
		var seen uint64
		r, err := fsck.Check(t.Context(), fsck.Config{FS: dir, Key: l.Key, Progress: func(done, total uint64) {
			if done <= seen || total != uint64(size) {
				t.Fatalf("progress %d of %d after %d", done, total, seen)
			}
			seen = done
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != ledger.Consistent || r.Size != uint64(size) || r.Root != l.Root(size).String() || r.Origin != tilestest.Origin ||
			r.Files != tiles.Files(uint64(size))+1 || r.Finding != nil || r.FirstBadSeq != nil || seen != uint64(size) {
			t.Errorf("size %d: %+v", size, r)
		}
		if r := check(t, dir, ""); r.Verdict != ledger.Unanchored || len(r.Findings) != 0 || r.Finding == nil {
			t.Errorf("size %d without a key: %+v", size, r)
		}
	}
}

func TestNothing(t *testing.T) {
	l := tilestest.New(t, 1)
	if r := check(t, tilestest.NewFS(), l.Key); r.Verdict != ledger.NothingToVerify {
		t.Errorf("an empty directory: %+v", r)
	}
	zero := tilestest.NewFS()
	zero.MapFS["checkpoint"] = &fstest.MapFile{Data: l.Sign(t, 0).Raw}
	if r := check(t, zero, l.Key); r.Verdict != ledger.NothingToVerify {
		t.Errorf("a checkpoint of nothing: %+v", r)
	}
	zero.MapFS["tile/0/000.p/1"] = &fstest.MapFile{Data: make([]byte, 32)}
	if r := check(t, zero, l.Key); r.Verdict != ledger.Inconsistent {
		t.Errorf("a tile under a checkpoint of nothing: %+v", r)
	}
	if _, err := fsck.Check(t.Context(), fsck.Config{FS: os.DirFS(t.TempDir() + "/absent")}); err == nil {
		t.Error("an absent directory")
	}
	dir := tilestest.NewFS()
	export(t, dir, l, 1)
	if _, err := fsck.Check(t.Context(), fsck.Config{FS: dir, Key: "no key"}); err == nil {
		t.Error("a malformed key")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fsck.Check(ctx, fsck.Config{FS: dir, Key: l.Key}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// edit is a change of an export.
type edit func(t *testing.T, dir *tilestest.FS)

func change(name string, fn func(data []byte) []byte) edit {
	return func(t *testing.T, dir *tilestest.FS) {
		t.Helper()
		if dir.MapFS[name] == nil {
			t.Fatalf("there is no %s", name)
		}
		dir.MapFS[name] = &fstest.MapFile{Data: fn(bytes.Clone(dir.MapFS[name].Data)), Mode: 0o644}
	}
}

func put(name string, data []byte) edit {
	return func(_ *testing.T, dir *tilestest.FS) { dir.MapFS[name] = &fstest.MapFile{Data: data, Mode: 0o644} }
}

func remove(name string) edit {
	return func(_ *testing.T, dir *tilestest.FS) { delete(dir.MapFS, name) }
}

func swap(a, b string) edit {
	return func(_ *testing.T, dir *tilestest.FS) { dir.MapFS[a], dir.MapFS[b] = dir.MapFS[b], dir.MapFS[a] }
}

func flipAt(i int) func([]byte) []byte {
	return func(data []byte) []byte {
		if i < 0 {
			i += len(data)
		}
		data[i] ^= 1
		return data
	}
}

// otherDigit puts another base64 digit at i: what is decoded is a hash still.
func otherDigit(i int) func([]byte) []byte {
	return func(data []byte) []byte {
		if data[i] == 'A' {
			data[i] = 'B'
		} else {
			data[i] = 'A'
		}
		return data
	}
}

func cut(n int) func([]byte) []byte { return func(data []byte) []byte { return data[:len(data)-n] } }

// inEntry changes one body of a bundle.
func inEntry(k int, fn func(body []byte)) func([]byte) []byte {
	return func(data []byte) []byte {
		at := data
		for range k {
			at = at[2+binary.BigEndian.Uint16(at):]
		}
		fn(at[2 : 2+binary.BigEndian.Uint16(at)])
		return data
	}
}

// without takes entry k out of a bundle.
func without(k int) func([]byte) []byte {
	return func(data []byte) []byte {
		i := 0
		for range k {
			i += 2 + int(binary.BigEndian.Uint16(data[i:]))
		}
		return slices.Delete(data, i, i+2+int(binary.BigEndian.Uint16(data[i:])))
	}
}

func flipEvent(body []byte) { body[len(body)-3] ^= 1 }

// TestMutations: what is done to an export of 700 records (bundles of 256, 256
// and 188), which check finds it, and where.
func TestMutations(t *testing.T) {
	l := tilestest.New(t, 700)
	fork := l.Fork(300, 700)
	forked := tilestest.NewFS()
	export(t, forked, fork, 700)
	base := tilestest.NewFS()
	export(t, base, l, 600)
	export(t, base, l, 700)
	older := tilestest.NewFS()
	export(t, older, l, 690)
	if r := check(t, base, l.Key); r.Verdict != ledger.Consistent {
		t.Fatalf("%+v", r)
	}
	fromFork := func(names ...string) edit {
		return func(_ *testing.T, dir *tilestest.FS) {
			for _, name := range names {
				dir.MapFS[name] = forked.MapFS[name]
			}
		}
	}
	for _, c := range []struct {
		name  string
		edit  edit
		seq   ledger.Seq // first bad record, 0: none is
		kinds string     // which checks find it, in the order of the report
		file  string     // of the first finding; "": the one that was changed is not unique
	}{
		{"flip in an entry", change("tile/entries/001", inEntry(43, flipEvent)), 300, "hash chain root", "tile/0/001"},
		{"flip in the first entry", change("tile/entries/000", inEntry(0, flipEvent)), 1, "hash chain root", "tile/0/000"},
		{"flip in the last entry", change("tile/entries/002.p/188", inEntry(187, flipEvent)), 700, "hash root", "tile/0/002.p/188"},
		{"flip in a link", change("tile/entries/001", inEntry(43, func(b []byte) { b[30] ^= 1 })), 300, "hash chain root", ""},
		{"flip in a length", change("tile/entries/001", flipAt(1)), 257, "hash chain malformed root", "tile/0/001"},
		{"cut in a bundle", change("tile/entries/001", cut(1)), 512, "malformed chain root", "tile/entries/001"},
		{"bytes after a bundle", change("tile/entries/000", func(b []byte) []byte { return append(b, 0) }), 256, "malformed", "tile/entries/000"},
		{"an entry too many", change("tile/entries/000", func(b []byte) []byte { return append(b, 0, 0) }), 256, "malformed", "tile/entries/000"},
		{"an entry less", change("tile/entries/001", without(43)), 300, "", ""},
		{"an entry twice", change("tile/entries/002.p/188", func(b []byte) []byte { return append(b, b[:2+binary.BigEndian.Uint16(b)]...) }), 700, "malformed", ""},
		{"an empty bundle", put("tile/entries/001", nil), 257, "malformed chain root", "tile/entries/001"},
		{"an oversized bundle", put("tile/entries/001", make([]byte, tiles.MaxBundle+1)), 257, "malformed chain root", "tile/entries/001"},
		{"a missing bundle", remove("tile/entries/001"), 257, "missing chain root", "tile/entries/001"},
		{"a missing last bundle", remove("tile/entries/002.p/188"), 513, "missing root", "tile/entries/002.p/188"},
		{"a bundle under the next name", swap("tile/entries/001", "tile/entries/000"), 1, "hash chain hash root", ""},
		{"bundles swapped with their tiles", func(t *testing.T, dir *tilestest.FS) {
			swap("tile/entries/001", "tile/entries/000")(t, dir)
			swap("tile/0/001", "tile/0/000")(t, dir)
		}, 1, "", ""},
		{"a shorter partial bundle", func(t *testing.T, dir *tilestest.FS) {
			dir.MapFS["tile/entries/002.p/188"] = older.MapFS["tile/entries/002.p/178"]
		}, 691, "malformed root", "tile/entries/002.p/188"},
		{"flip in a level 0 tile", change("tile/0/001", flipAt(32*43+5)), 300, "hash", "tile/0/001"},
		{"flip in a partial level 0 tile", change("tile/0/002.p/188", flipAt(-1)), 700, "hash", "tile/0/002.p/188"},
		{"flip in a level 1 tile", change("tile/1/000.p/2", flipAt(33)), 257, "hash", "tile/1/000.p/2"},
		{"a cut tile", change("tile/0/001", cut(32)), 0, "malformed", "tile/0/001"},
		{"a cut partial tile", change("tile/0/002.p/188", cut(1)), 0, "malformed", "tile/0/002.p/188"},
		{"an empty tile", put("tile/1/000.p/2", nil), 0, "malformed", "tile/1/000.p/2"},
		{"an oversized tile", put("tile/0/000", make([]byte, 8193)), 0, "malformed", "tile/0/000"},
		{"a missing tile", remove("tile/0/000"), 0, "missing", "tile/0/000"},
		{"a missing level 1 tile", remove("tile/1/000.p/2"), 0, "missing", "tile/1/000.p/2"},
		{"level 0 tiles swapped", swap("tile/0/000", "tile/0/001"), 1, "hash hash", "tile/0/000"},
		{"flip in the checkpoint's size", change("checkpoint", flipAt(len(tilestest.Origin)+2)), 0, "checkpoint missing root missing", "checkpoint"},
		{"flip in the checkpoint's root", change("checkpoint", otherDigit(len(tilestest.Origin)+9)), 0, "checkpoint root", "checkpoint"},
		{"flip in the signature", change("checkpoint", flipAt(-5)), 0, "checkpoint", "checkpoint"},
		{"signed by another", put("checkpoint", tilestest.New(t, 1).SignAs(t, l.Sign(t, 700).Checkpoint).Raw), 0, "checkpoint", "checkpoint"},
		{"a missing checkpoint", remove("checkpoint"), 0, "checkpoint", "checkpoint"},
		{"an empty checkpoint", put("checkpoint", nil), 0, "checkpoint", "checkpoint"},
		{"an oversized checkpoint", put("checkpoint", make([]byte, 1<<17)), 0, "checkpoint", "checkpoint"},
		{"an older checkpoint", put("checkpoint", l.Sign(t, 690).Raw), 513, "", "tile/entries/002.p/178"},
		{"a newer checkpoint", put("checkpoint", l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 800}).Raw), 513, "", ""},
		{"a checkpoint beyond any size", put("checkpoint", l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 1 << 53}).Raw), 0, "checkpoint", "checkpoint"},
		{"a checkpoint far beyond the entries", put("checkpoint", l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 1 << 40}).Raw), 513, "", ""},
		{"a checkpoint of a fork", put("checkpoint", fork.Sign(t, 700).Raw), 1, "root", "checkpoint"},
		{"a fork under the old checkpoint", fromFork("tile/entries/001", "tile/entries/002.p/188", "tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2"), 1, "root stale stale", "checkpoint"},
		{"a bundle of a fork", fromFork("tile/entries/001"), 300, "", ""},
		{"a bundle and tile of a fork", fromFork("tile/entries/001", "tile/0/001"), 512, "chain root hash", "tile/entries/001"},
		{"a stale partial tile altered", change("tile/0/002.p/88", flipAt(40)), 0, "stale", "tile/0/002.p/88"},
		{"a stale partial tile cut", change("tile/0/002.p/88", cut(32)), 0, "stale", "tile/0/002.p/88"},
		{"a stale partial bundle altered", change("tile/entries/002.p/88", inEntry(3, flipEvent)), 516, "stale", "tile/entries/002.p/88"},
		{"a stale partial bundle too long", change("tile/entries/002.p/88", func(b []byte) []byte { return append(b, 0) }), 600, "stale", "tile/entries/002.p/88"},
		{"a wider partial tile", put("tile/0/002.p/189", make([]byte, 189*32)), 0, "extra", "tile/0/002.p/189"},
		{"a tile too many", put("tile/0/003", make([]byte, 8192)), 0, "extra", "tile/0/003"},
		{"a full tile beside the partial one", put("tile/1/000", make([]byte, 8192)), 0, "extra", "tile/1/000"},
		{"a level too many", put("tile/2/000.p/1", make([]byte, 32)), 0, "extra", "tile/2/000.p/1"},
		{"a file that is no tile", put("tile/0/0000", nil), 0, "extra", "tile/0/0000"},
		{"a hidden file", put(".checkpoint.1", nil), 0, "extra", ".checkpoint.1"},
		{"a file under a tile's name", put("index.html", nil), 0, "extra", "index.html"},
		{"a malformed state", put("unfinished", []byte("x")), 0, "malformed", "unfinished"},
		{"another log's opening", func(t *testing.T, dir *tilestest.FS) {
			other := tilestest.New(t, 5)
			clear(dir.MapFS)
			export(t, dir, other, 5)
			put("checkpoint", l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 5, Root: other.Root(5)}).Raw)(t, dir)
		}, 1, "chain", "tile/entries/000.p/5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := base.Clone()
			c.edit(t, dir)
			r := check(t, dir, l.Key)
			if r.Verdict != ledger.Inconsistent || r.Finding == nil {
				t.Fatalf("%+v", r)
			}
			var kinds []string
			for _, f := range r.Findings {
				kinds = append(kinds, string(f.Kind))
			}
			if got := strings.Join(kinds, " "); c.kinds != "" && got != c.kinds {
				t.Errorf("found by %q, want %q: %+v", got, c.kinds, r.Findings)
			}
			if c.file != "" && r.Findings[0].File != c.file {
				t.Errorf("the first finding is about %s: %s", r.Findings[0].File, *r.Finding)
			}
			switch {
			case c.seq == 0 && r.FirstBadSeq != nil:
				t.Errorf("first bad record %d: %s", *r.FirstBadSeq, *r.Finding)
			case c.seq != 0 && (r.FirstBadSeq == nil || *r.FirstBadSeq != c.seq):
				t.Errorf("first bad record is not %d: %+v", c.seq, r.Findings)
			}
			// Without the key only what the signature alone says goes unnoticed.
			unanchored := check(t, dir, "")
			signed := c.name == "signed by another" || c.name == "another log's opening"
			maybe := c.name == "flip in the signature" // it may not even be base64 then
			if (unanchored.Verdict == ledger.Unanchored) != signed && !maybe {
				t.Errorf("without a key: %+v", unanchored)
			}
		})
	}
}

// TestAnyFlipIsFound: one bit anywhere.
func TestAnyFlipIsFound(t *testing.T) {
	l := tilestest.New(t, 300)
	base := tilestest.NewFS()
	export(t, base, l, 300)
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names(base)).Draw(rt, "file")
		at := rapid.IntRange(0, len(base.MapFS[name].Data)-1).Draw(rt, "byte")
		dir := base.Clone()
		change(name, func(data []byte) []byte {
			data[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			return data
		})(t, dir)
		r := check(t, dir, l.Key)
		if r.Verdict != ledger.Inconsistent {
			rt.Fatalf("byte %d of %s: %+v", at, name, r)
		}
		bundle, err := tiles.ParsePath(name)
		if err != nil || bundle.Level != tiles.Entries {
			return
		}
		// In a bundle it is the very record, or the length before it.
		want := ledger.Seq(bundle.First(0))
		for rest := base.MapFS[name].Data; at >= 0; want++ {
			n := 2 + int(binary.BigEndian.Uint16(rest))
			rest, at = rest[n:], at-n
		}
		if r.FirstBadSeq == nil || *r.FirstBadSeq != want {
			rt.Fatalf("record %d was altered: %+v", want, r.Findings)
		}
	})
}

func names(dir *tilestest.FS) (out []string) {
	for name := range dir.MapFS {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestCutOffExportsAreSound: at any crash of an incremental export the checkpoint
// in place, old or new, still has all its files, and when the export has gone on
// nothing is left over.
func TestCutOffExportsAreSound(t *testing.T) {
	l := tilestest.New(t, 600)
	for _, old := range []int{0, 300, 520} {
		base := tilestest.NewFS()
		if old > 0 {
			export(t, base, l, old)
		}
		count := base.Clone()
		export(t, count, l, 600)
		unchecked := false
		for _, fault := range tilestest.Faults() {
			for at := 1; at <= count.Ops; at++ {
				dir := base.Clone()
				dir.At, dir.Fault = at, fault
				cfg := tiles.Config{To: dir, Source: l, Checkpoint: l.Sign(t, 600)}
				if _, err := tiles.Export(t.Context(), cfg); !errors.Is(err, fault.Err) {
					t.Fatalf("write %d %s: %v", at, fault.Name, err)
				}
				dir.Recover()
				if r := check(t, dir, l.Key); dir.MapFS["checkpoint"] != nil {
					unchecked = unchecked || r.Unchecked > 0
					if r.Verdict != ledger.Consistent || r.Size != uint64(old) && r.Size != 600 {
						t.Fatalf("%d: write %d %s: %+v", old, at, fault.Name, r)
					}
				} else if old > 0 || r.Verdict == ledger.Consistent {
					t.Fatalf("%d: write %d %s: %+v", old, at, fault.Name, r)
				}
				export(t, dir, l, 600)
				if r := check(t, dir, l.Key); r.Verdict != ledger.Consistent || r.Size != 600 || r.Unfinished != nil {
					t.Fatalf("%d: write %d %s and again: %+v", old, at, fault.Name, r)
				}
			}
		}
		if old > 0 && !unchecked {
			t.Error("no crash left files of the export to come")
		}
	}
}

// TestHeads: what was trusted before must be what the export goes on from.
func TestHeads(t *testing.T) {
	l := tilestest.New(t, 700)
	dir := tilestest.NewFS()
	export(t, dir, l, 600)
	for _, c := range []struct {
		name string
		head ledger.SignedCheckpoint
		seq  ledger.Seq
	}{
		{"older", l.Sign(t, 300), 0}, {"the same", l.Sign(t, 600), 0}, {"newer", l.Sign(t, 700), 601}, {"of a fork", l.Fork(200, 300).Sign(t, 300), 1},
	} {
		r, err := fsck.Check(t.Context(), fsck.Config{FS: dir, Key: l.Key, Heads: []ledger.Checkpoint{c.head.Checkpoint}})
		if err != nil || (r.Verdict == ledger.Consistent) != (c.seq == 0) || c.seq != 0 && *r.FirstBadSeq != c.seq {
			t.Errorf("%s: %+v %v", c.name, r, err)
		}
	}
}

// TestRotation: the checkpoint is signed by the key in force at its size, whichever
// of the log's keys is pinned.
func TestRotation(t *testing.T) {
	l := tilestest.New(t, 300)
	first := l.Key
	before := tilestest.NewFS()
	export(t, before, l, 300)
	l.Rotate(t)
	for range 100 {
		l.Add(`{"type":"clock.ticked"}`)
	}
	after := before.Clone()
	export(t, after, l, 401)
	for _, key := range []string{first, l.Key} {
		if r := check(t, after, key); r.Verdict != ledger.Consistent || len(r.Keys) != 2 || r.Keys[1].From != 301 {
			t.Errorf("%+v", r)
		}
	}
	if r := check(t, before, l.Key); r.Verdict != ledger.Inconsistent {
		t.Errorf("a key that is not in force yet: %+v", r)
	}
	old := tilestest.New(t, 1)
	if r := check(t, after, old.Key); r.Verdict != ledger.Inconsistent {
		t.Errorf("a key that never was in force: %+v", r)
	}
	// Whoever still has the old key cannot sign for the new one.
	put("checkpoint", l.SignWith(t, 0, 401).Raw)(t, after)
	if r := check(t, after, first); r.Verdict != ledger.Inconsistent || r.Findings[0].Kind != fsck.Checkpoint {
		t.Errorf("signed by the old key: %+v", r)
	}
}

func TestForeignMessages(t *testing.T) {
	l := tilestest.New(t, 299)
	l.AddRaw([]byte("somebody else's"))
	l.Add(`{"type":"clock.ticked"}`)
	dir := tilestest.NewFS()
	export(t, dir, l, 301)
	if r := check(t, dir, l.Key); r.Verdict != ledger.Inconsistent || *r.FirstBadSeq != 300 {
		t.Errorf("%+v", r)
	}
}

// TestNotRegularFiles: a pipe is not waited for, a link not followed.
func TestNotRegularFiles(t *testing.T) {
	l := tilestest.New(t, 300)
	for _, name := range []string{"checkpoint", "tile/0/000", "tile/entries/001.p/44", "tile/entries/001.p/3", "unfinished"} {
		for kind, replace := range map[string]func(path string) error{
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
			"link": func(path string) error {
				if err := os.Rename(path, path+"-"); err == nil {
					return os.Symlink(filepath.Base(path)+"-", path)
				}
				return os.Symlink("44", path)
			},
		} {
			if kind == "directory" && (strings.HasSuffix(name, "/3") || name == "unfinished") {
				continue // an empty directory is no file
			}
			dir := filepath.Join(t.TempDir(), "export")
			disk, err := tiles.OpenDisk(dir)
			if err != nil {
				t.Fatal(err)
			}
			export(t, disk, l, 300)
			if err := disk.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if kind != "link" {
				_ = os.Remove(path)
			}
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			r, err := fsck.Check(ctx, fsck.Config{FS: os.DirFS(dir), Key: l.Key})
			cancel()
			if err != nil || r.Verdict != ledger.Inconsistent {
				t.Errorf("%s is a %s: %+v %v", name, kind, r, err)
			}
		}
	}
}

// TestManyFindings: a checkpoint that claims more than there is ends the check
// and not the memory.
func TestManyFindings(t *testing.T) {
	l := tilestest.New(t, 1)
	dir := tilestest.NewFS()
	export(t, dir, l, 1)
	dir.MapFS["checkpoint"] = &fstest.MapFile{Data: l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 1<<53 - 1}).Raw}
	r := check(t, dir, l.Key)
	if r.Verdict != ledger.Inconsistent || len(r.Findings) > 110 || r.MoreFindings == 0 || *r.FirstBadSeq != 1 {
		t.Errorf("%d findings and %d, first %v", len(r.Findings), r.MoreFindings, r.FirstBadSeq)
	}
}
