package tiles

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"assay/internal/durable"
	"assay/ledger"
	"assay/ledger/tiles/tilestest"
)

func config(t testing.TB, to FS, l *tilestest.Log, size int) Config {
	return Config{To: to, Source: l, Checkpoint: l.Sign(t, size)}
}

func mustExport(t testing.TB, to FS, l *tilestest.Log, size int) Exported {
	t.Helper()
	done, err := export(t.Context(), config(t, to, l, size), Width)
	if err != nil {
		t.Fatalf("export %d records: %v", size, err)
	}
	return done
}

// checkExport holds the files against a plain construction of the tree: every
// subtree's root from its leaves. Partial tiles of the earlier sizes may be there
// as long as the full tile is not.
func checkExport(t testing.TB, fs fstest.MapFS, l *tilestest.Log, size int, earlier ...int) {
	t.Helper()
	have := maps.Clone(fs)
	take := func(path string, want []byte) {
		if have[path] == nil || !bytes.Equal(have[path].Data, want) {
			t.Fatalf("size %d: %s is absent or wrong", size, path)
		}
		delete(have, path)
	}
	check := func(tile Tile) {
		first, n := int(tile.First(0)), int(tile.First(1)-tile.First(0))
		var want []byte
		for i := range tile.Width {
			var tree ledger.Tree
			for j := first + i*n; j < first+(i+1)*n; j++ {
				if tile.Level == Entries {
					want, _ = AppendEntry(want, l.Bodies[j])
				}
				tree.Append(l.Leaves[j])
			}
			if root := tree.Root(); tile.Level != Entries {
				want = append(want, root[:]...)
			}
		}
		take(tile.Path(), want)
	}
	for level := Entries; level < 0 || Count(level, uint64(size)) > 0; level++ {
		for n := range Count(level, uint64(size)) / Width {
			check(Tile{level, n, Width})
		}
	}
	for _, tile := range Partial(uint64(size)) {
		check(tile)
	}
	for _, e := range earlier {
		for _, tile := range Partial(uint64(e)) {
			if full := (Tile{tile.Level, tile.N, Width}); !full.In(uint64(size)) && have[tile.Path()] != nil {
				check(tile)
			}
		}
	}
	if cp := have[CheckpointName]; cp == nil {
		t.Fatalf("size %d: no checkpoint", size)
	} else if opened, err := ledger.OpenCheckpoint(cp.Data, l.Verifier); err != nil || opened.Size != uint64(size) || opened.Root != l.Root(size) {
		t.Fatalf("size %d: checkpoint %+v %v", size, opened, err)
	}
	delete(have, CheckpointName)
	for path := range have {
		t.Errorf("size %d: %s is left over", size, path)
	}
}

func TestExport(t *testing.T) {
	l := tilestest.New(t, 70000)
	for _, size := range []int{1, 2, 255, 256, 257, 511, 512, 513, 1000, 70000} {
		fs := tilestest.NewFS()
		done, err := Export(t.Context(), config(t, fs, l, size))
		if err != nil {
			t.Fatal(err)
		}
		checkExport(t, fs.MapFS, l, size)
		want := Exported{tilestest.Origin, uint64(size), l.Root(size).String(), uint64(size), int(Files(uint64(size))) + 1, 0}
		if done != want {
			t.Errorf("size %d: %+v, want %+v", size, done, want)
		}
	}
}

// TestAnySplitGivesTheSameFiles: whatever the sizes on the way, the directory is
// that of an export in one go, but for partial tiles of earlier checkpoints whose
// full tile is still to come.
func TestAnySplitGivesTheSameFiles(t *testing.T) {
	l := tilestest.New(t, 1500)
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfNDistinct(rapid.OneOf(rapid.IntRange(1, 1500), rapid.SampledFrom([]int{255, 256, 257, 512, 1024})), 1, 5, rapid.ID).Draw(rt, "sizes")
		slices.Sort(sizes)
		fs := tilestest.NewFS()
		for i, size := range sizes {
			done := mustExport(t, fs, l, size)
			before := 0
			if i > 0 {
				before = sizes[i-1]
			}
			if done.ResumedFrom != uint64(before) || done.Added != uint64(size-before) {
				rt.Fatalf("%v: %+v", sizes, done)
			}
			checkExport(t, fs.MapFS, l, size, sizes[:i]...)
		}
		whole := tilestest.NewFS()
		last := sizes[len(sizes)-1]
		mustExport(t, whole, l, last)
		for path, file := range whole.MapFS {
			// Ed25519 signatures are deterministic.
			if got := fs.MapFS[path]; got == nil || !bytes.Equal(got.Data, file.Data) {
				rt.Fatalf("%v: %s differs", sizes, path)
			}
		}
	})
}

// TestAgainChangesNothing: an export of what is there writes nothing, and takes a
// checkpoint that has more signatures.
func TestAgainChangesNothing(t *testing.T) {
	l := tilestest.New(t, 300)
	fs := tilestest.NewFS()
	mustExport(t, fs, l, 300)
	fs.Ops = 0
	if done := mustExport(t, fs, l, 300); done.Added != 0 || done.FilesWritten != 0 || done.ResumedFrom != 300 || fs.Ops != 0 {
		t.Errorf("%+v, %d operations", done, fs.Ops)
	}
	cfg := config(t, fs, l, 300)
	cfg.Checkpoint.Raw = append(bytes.Clone(cfg.Checkpoint.Raw), "— witness.example/w YWJjZGVmZ2hpamtsbW5vcA==\n"...)
	done, err := Export(t.Context(), cfg)
	if err != nil || done.FilesWritten != 1 || !bytes.Equal(fs.MapFS[CheckpointName].Data, cfg.Checkpoint.Raw) {
		t.Errorf("%+v %v", done, err)
	}
}

func TestExportRefuses(t *testing.T) {
	l := tilestest.New(t, 900)
	fork := l.Fork(400, 900)
	other := tilestest.New(t, 900)
	otherOrigin := func(raw []byte) []byte {
		return bytes.Replace(raw, []byte(tilestest.Origin), []byte("example.com/other"), 1)
	}
	altered := *l
	altered.Bodies = slices.Clone(l.Bodies)
	altered.Bodies[699] = bytes.Replace(l.Bodies[699], []byte(`"700"`), []byte(`"7OO"`), 1)
	short := *l
	short.Bodies = l.Bodies[:800]
	gap := *l
	base := tilestest.NewFS()
	mustExport(t, base, l, 600)
	for _, c := range []struct {
		name  string
		fs    func(fs *tilestest.FS)
		size  int
		from  *tilestest.Log
		sign  *tilestest.Log
		gap   bool
		err   error
		names string
	}{
		{name: "newer", size: 599, err: ErrNewer},
		{name: "fork at the same size", size: 600, from: fork, sign: fork, err: ErrFork},
		{name: "fork before the end", size: 900, from: fork, sign: fork, err: ErrFork},
		{name: "a newer checkpoint on the old history, the records of a fork", size: 900, from: fork, err: ErrFork},
		{name: "another log of the same name", size: 900, from: other, sign: other, err: ErrFork},
		{name: "another origin", fs: func(fs *tilestest.FS) {
			fs.MapFS[CheckpointName] = &fstest.MapFile{Data: otherOrigin(fs.MapFS[CheckpointName].Data)}
		}, size: 900, err: ErrOtherLog},
		{name: "another origin's unfinished export", fs: func(fs *tilestest.FS) {
			clear(fs.MapFS)
			fs.MapFS[UnfinishedName] = &fstest.MapFile{Data: unfinished{origin: "example.com/other", to: 900}.encode()}
		}, size: 900, err: ErrOtherLog},
		{name: "a larger unfinished export", fs: func(fs *tilestest.FS) {
			fs.MapFS[UnfinishedName] = &fstest.MapFile{Data: unfinished{origin: tilestest.Origin, from: 600, to: 800}.encode()}
		}, size: 700, err: ErrNewer},
		{name: "malformed state", fs: func(fs *tilestest.FS) {
			fs.MapFS[UnfinishedName] = &fstest.MapFile{Data: []byte("x")}
		}, size: 700, err: ErrDamaged},
		{name: "not an export", fs: func(fs *tilestest.FS) { delete(fs.MapFS, CheckpointName) }, size: 900, err: ErrNotExport},
		{name: "altered level 0 tile", fs: flip("tile/0/001"), size: 900, err: ErrDamaged},
		{name: "altered partial tile", fs: flip("tile/0/002.p/88"), size: 900, err: ErrDamaged},
		{name: "altered level 1 tile", fs: flip("tile/1/000.p/2"), size: 900, err: ErrDamaged},
		{name: "absent tile", fs: func(fs *tilestest.FS) { delete(fs.MapFS, "tile/0/000") }, size: 900, err: ErrDamaged},
		{name: "altered root", fs: func(fs *tilestest.FS) {
			forged := l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: 600, Root: l.Root(599)})
			fs.MapFS[CheckpointName] = &fstest.MapFile{Data: forged.Raw}
		}, size: 900, err: ErrDamaged},
		{name: "malformed checkpoint", fs: func(fs *tilestest.FS) {
			fs.MapFS[CheckpointName] = &fstest.MapFile{Data: []byte(tilestest.Origin + "\n600\n")}
		}, size: 900, err: ErrDamaged},
		{name: "an altered record", size: 900, from: &altered, err: ErrRoot, names: "record 701 does not name the hash of record 700"},
		{name: "a cut tail", size: 900, from: &short, err: ErrRoot, names: "it ends at record 800"},
		{name: "a lost record", size: 900, gap: true, err: ErrRoot, names: "record 650 is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := base.Clone()
			if c.fs != nil {
				c.fs(fs)
			}
			cfg := config(t, fs, l, c.size)
			if c.sign != nil {
				cfg = config(t, fs, c.sign, c.size)
			}
			if c.from != nil {
				cfg.Source = c.from
			}
			if c.gap {
				cfg.Source = lossy{&gap}
			}
			before := maps.Clone(fs.MapFS)
			_, err := export(t.Context(), cfg, Width)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.names) {
				t.Fatalf("%v, want %v with %q", err, c.err, c.names)
			}
			for path, file := range before {
				if path != UnfinishedName && (fs.MapFS[path] == nil || !bytes.Equal(fs.MapFS[path].Data, file.Data)) {
					t.Errorf("%s was touched", path)
				}
			}
			// The good ledger still gets its export, where the directory was not at fault.
			if c.fs == nil {
				mustExport(t, fs, l, 900)
				checkExport(t, fs.MapFS, l, 900, 600)
			}
		})
	}
	for _, size := range []uint64{0, ledger.MaxSize + 1} {
		cfg := config(t, tilestest.NewFS(), l, 1)
		cfg.Checkpoint = l.SignAs(t, ledger.Checkpoint{Origin: tilestest.Origin, Size: size, Root: ledger.EmptyRoot})
		if _, err := Export(t.Context(), cfg); err == nil {
			t.Errorf("size %d was exported", size)
		}
	}
}

func flip(name string) func(fs *tilestest.FS) {
	return func(fs *tilestest.FS) {
		data := bytes.Clone(fs.MapFS[name].Data)
		data[len(data)/2] ^= 1
		fs.MapFS[name] = &fstest.MapFile{Data: data}
	}
}

// lossy is a stream that lost record 650.
type lossy struct{ *tilestest.Log }

func (s lossy) Read(ctx ctx, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return s.Log.Read(ctx, from, to, func(seq ledger.Seq, body []byte) error {
		if seq == 650 {
			return nil
		}
		return fn(seq, body)
	})
}

// TestForeignMessages: what the logger chained over is exported as it is.
func TestForeignMessages(t *testing.T) {
	l := tilestest.New(t, 10)
	l.AddRaw([]byte("somebody else's"))
	l.AddRaw(nil)
	for range 300 {
		l.Add(`{}`)
	}
	fs := tilestest.NewFS()
	mustExport(t, fs, l, 250)
	mustExport(t, fs, l, 312)
	checkExport(t, fs.MapFS, l, 312, 250)
	l.AddRaw(make([]byte, ledger.MaxRecord+1))
	if _, err := export(t.Context(), config(t, fs, l, 313), Width); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}

// TestExportCrashes lets every write of a first and of an incremental export
// fail in every way, and then runs it again, also towards a later checkpoint.
func TestExportCrashes(t *testing.T) {
	l := tilestest.New(t, 800)
	// Of 300 records to 600 the level 1 tile stays partial and grows; of 520
	// to 600 it stays as it is and the checkpoint in place needs it.
	for _, c := range []struct{ old, size, next int }{{0, 600, 800}, {300, 600, 800}, {520, 600, 601}, {256, 512, 513}} {
		base := tilestest.NewFS()
		if c.old > 0 {
			mustExport(t, base, l, c.old)
		}
		count := base.Clone()
		mustExport(t, count, l, c.size)
		for _, fault := range tilestest.Faults() {
			for at := 1; at <= count.Ops; at++ {
				fs := base.Clone()
				fs.At, fs.Fault = at, fault
				_, err := export(t.Context(), config(t, fs, l, c.size), Width)
				if err == nil || !errors.Is(err, fault.Err) {
					t.Fatalf("%d to %d: write %d %s: %v", c.old, c.size, at, fault.Name, err)
				}
				fs.Recover()
				label := fmt.Sprintf("%d to %d: write %d of %d %s", c.old, c.size, at, count.Ops, fault.Name)
				checkWhole(t, fs, l, c.old, c.size, label)
				later := fs.Clone()
				mustExport(t, fs, l, c.size)
				checkExport(t, fs.MapFS, l, c.size, c.old)
				mustExport(t, later, l, c.next)
				checkExport(t, later.MapFS, l, c.next, c.old, c.size)
				if t.Failed() {
					t.Fatal(label)
				}
			}
		}
	}
}

// checkWhole: after any failure the checkpoint in place, the old one or the new,
// has all its files.
func checkWhole(t *testing.T, fs *tilestest.FS, l *tilestest.Log, old, size int, label string) {
	t.Helper()
	at := old
	if file := fs.MapFS[CheckpointName]; file != nil {
		cp, err := ledger.OpenCheckpoint(file.Data, l.Verifier)
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		at = int(cp.Size)
	}
	if at != old && at != size {
		t.Fatalf("%s: a checkpoint of %d records", label, at)
	}
	if at == 0 {
		return
	}
	r, err := OpenReader(fs)
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
	for _, seq := range []int{1, at / 2, at - 1, at} {
		if body, err := r.Record(ledger.Seq(max(seq, 1))); err != nil || !bytes.Equal(body, l.Bodies[max(seq, 1)-1]) {
			t.Fatalf("%s: record %d: %v", label, seq, err)
		}
	}
}

// TestCutOffExportGoesOn: what was synced is not read again.
func TestCutOffExportGoesOn(t *testing.T) {
	l := tilestest.New(t, 2000)
	fs := tilestest.NewFS()
	stop := errors.New("stop")
	cfg := config(t, fs, l, 2000)
	cfg.Source = stopping{l, 1500, stop}
	if _, err := export(t.Context(), cfg, Width); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	fs.Fault.PowerLoss = true
	fs.Recover()
	again := fs.Clone()
	if done := mustExport(t, fs, l, 2000); done.ResumedFrom != 1280 || done.Added != 2000 {
		t.Errorf("%+v", done)
	}
	checkExport(t, fs.MapFS, l, 2000)

	// A synced tile that is not what the state says: from the start.
	flip("tile/0/004")(again)
	if done := mustExport(t, again, l, 2000); done.ResumedFrom != 0 {
		t.Errorf("%+v", done)
	}
	checkExport(t, again.MapFS, l, 2000)
}

type stopping struct {
	*tilestest.Log
	at  ledger.Seq
	err error
}

func (s stopping) Read(ctx ctx, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	if err := s.Log.Read(ctx, from, min(to, s.at), fn); err != nil {
		return err
	}
	return s.err
}

func TestDisk(t *testing.T) {
	dir := t.TempDir() + "/new"
	l := tilestest.New(t, 700)
	d, err := OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDisk(dir); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second export: %v", err)
	}
	mustExport(t, d, l, 300)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// The temporary file of a write that was killed.
	if err := os.WriteFile(dir+"/.checkpoint.123", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenDisk(dir); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mustExport(t, d, l, 700)
	files := fstest.MapFS{}
	for _, path := range listFiles(t, dir) {
		raw, err := os.ReadFile(dir + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = &fstest.MapFile{Data: raw}
	}
	checkExport(t, files, l, 700, 300)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := OpenDisk(dir + "/checkpoint"); err == nil {
		t.Error("a file was opened as a directory")
	}
}

func TestReader(t *testing.T) {
	l := tilestest.New(t, 70000)
	fs := tilestest.NewFS()
	mustExport(t, fs, l, 70000)
	r, err := OpenReader(fs)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int{1, 2, 256, 257, 65536, 65537, 69888, 69889, 70000} {
		if body, err := r.Record(ledger.Seq(seq)); err != nil || !bytes.Equal(body, l.Bodies[seq-1]) {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	for _, seq := range []ledger.Seq{0, 70001, 1 << 60} {
		if _, err := r.Record(seq); !errors.Is(err, ErrNoRecord) {
			t.Errorf("record %d: %v", seq, err)
		}
	}
	for _, name := range []string{"tile/entries/003", "tile/0/003", "tile/1/000", "tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"} {
		bad := fs.Clone()
		flip(name)(bad)
		r, err := OpenReader(bad)
		if err != nil {
			t.Fatal(err)
		}
		// Entries differ in the middle of the bundle; every tile is on the way.
		for seq := ledger.Seq(3*256 + 1); seq <= 4*256; seq++ {
			if _, err = r.Record(seq); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s altered: %v", name, err)
		}
	}
	bad := fs.Clone()
	bad.MapFS[CheckpointName] = &fstest.MapFile{Data: fs.MapFS[CheckpointName].Data[1:20]}
	if _, err := OpenReader(bad); !errors.Is(err, ledger.ErrBadCheckpoint) {
		t.Error(err)
	}
}

func TestReadRecords(t *testing.T) {
	l := tilestest.New(t, 600)
	fs := tilestest.NewFS()
	mustExport(t, fs, l, 600)
	for _, c := range []struct{ from, to, first, last int }{
		{0, 0, 1, 600}, {1, 1, 1, 1}, {256, 257, 256, 257}, {599, 9999, 599, 600}, {600, 0, 600, 600}, {601, 0, 0, 0}, {9, 8, 0, 0},
	} {
		first, last := 0, 0
		err := ReadRecords(t.Context(), fs, 600, ledger.Seq(c.from), ledger.Seq(c.to), func(seq ledger.Seq, body []byte) error {
			if first == 0 {
				first, last = int(seq), int(seq)-1
			}
			if last++; int(seq) != last || !bytes.Equal(body, l.Bodies[seq-1]) {
				return fmt.Errorf("record %d after %d", seq, last-1)
			}
			return nil
		})
		if err != nil || first != c.first || last != c.last {
			t.Errorf("%d to %d: %d to %d, %v", c.from, c.to, first, last, err)
		}
	}
	delete(fs.MapFS, "tile/entries/001")
	if err := ReadRecords(t.Context(), fs, 600, 1, 0, func(ledger.Seq, []byte) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}
