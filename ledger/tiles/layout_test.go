package tiles

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/ledger"
)

func TestPath(t *testing.T) {
	for want, tile := range map[string]Tile{
		"tile/0/000":                    {0, 0, 256},
		"tile/0/x001/x234/067":          {0, 1234067, 256}, // the example of the specification
		"tile/3/999":                    {3, 999, 256},
		"tile/3/x001/000":               {3, 1000, 256},
		"tile/1/000.p/1":                {1, 0, 1},
		"tile/63/x001/002.p/255":        {63, 1002, 255},
		"tile/entries/000.p/7":          {Entries, 0, 7},
		"tile/entries/x034/x359/738":    {Entries, 34359738, 256},
		"tile/0/x999/x999/x999/999.p/9": {0, 999999999999, 9},
	} {
		if got := tile.Path(); got != want {
			t.Errorf("%+v: %s, want %s", tile, got, want)
		}
		if got, err := ParsePath(want); err != nil || got != tile {
			t.Errorf("%s: %+v %v", want, got, err)
		}
	}
}

func TestParsePathRefuses(t *testing.T) {
	for _, path := range []string{
		"", "checkpoint", "tile", "tile/", "tile/0", "tile/0/", "tile//000", "/tile/0/000", "tile/0/000/", "./tile/0/000",
		"tile/-1/000", "tile/+1/000", "tile/01/000", "tile/64/000", "tile/data/000", "tile/Entries/000", "tile/8/0/000",
		"tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/1000", "tile/0/x001", "tile/0/001/002", "tile/0/x000/001", "tile/0/xx01/002",
		"tile/0/x01/002", "tile/0/+01", "tile/0/-01", "tile/0/ 01", "tile/0/1_0", "tile/0/x001/x002", "tile/0/000.p", "tile/0/000.p/",
		"tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/+1", "tile/0/000.p/1/", "tile/0/000.p/1.p/2", "tile/0/000.P/1",
		"tile/0/x999/x999/x999/x999/x999/x999/999", "tile/0/٣٠٠", strings.Repeat("tile/", 1000),
	} {
		if got, err := ParsePath(path); !errors.Is(err, ErrPath) {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
	}
}

// TestSpecificationExample: "a tree of size 70,000 will be represented by 273
// full level 0 tiles, one partial level 0 tile of width 112, one full level 1
// tile, one partial level 1 tile of width 17, and one partial level 2 tile of
// width 1"; and of 256 "by a full level 0 tile and a partial level 1 tile of width 1".
func TestSpecificationExample(t *testing.T) {
	want := []Tile{{Entries, 273, 112}, {0, 273, 112}, {1, 1, 17}, {2, 0, 1}}
	if got := Partial(70000); !slices.Equal(got, want) {
		t.Errorf("70000: %v", got)
	}
	if got := Files(70000); got != 274+274+2+1 {
		t.Errorf("70000: %d files", got)
	}
	if got := Partial(256); !slices.Equal(got, []Tile{{1, 0, 1}}) {
		t.Errorf("256: %v", got)
	}
	if got := Partial(0); len(got) != 0 || Files(0) != 0 {
		t.Errorf("0: %v", got)
	}
	for path, in := range map[string]bool{
		"tile/0/000": true, "tile/0/272": true, "tile/0/273": false, "tile/0/273.p/112": true, "tile/0/273.p/111": false, "tile/0/000.p/112": false,
		"tile/0/274.p/1": false, "tile/1/000": true, "tile/1/001": false, "tile/1/001.p/17": true, "tile/2/000.p/1": true, "tile/3/000.p/1": false,
		"tile/entries/273.p/112": true, "tile/entries/273": false, "tile/60/000.p/1": false,
	} {
		tile, err := ParsePath(path)
		if err != nil || tile.In(70000) != in {
			t.Errorf("%s in 70000: %v, %v", path, tile.In(70000), err)
		}
	}
}

// TestInAgreesWithFiles: of all paths near the right edge, those that In accepts
// are as many as Files counts.
func TestInAgreesWithFiles(t *testing.T) {
	for _, size := range []uint64{1, 2, 255, 256, 257, 511, 512, 70000} {
		n := uint64(0)
		for level := Entries; level <= 8; level++ {
			for index := range uint64(300) {
				for width := 1; width <= Width; width++ {
					if (Tile{level, index, width}).In(size) {
						n++
					}
				}
			}
		}
		if n != Files(size) {
			t.Errorf("size %d: %d paths, %d files", size, n, Files(size))
		}
	}
}

func FuzzTilePath(f *testing.F) {
	for _, s := range []string{"tile/0/000", "tile/entries/x001/x234/067.p/9", "tile/63/999.p/255", "tile/0/x999/x999/x999/x999/x999/999", "tile/00/000", "checkpoint"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := ParsePath(path)
		if err != nil {
			if !errors.Is(err, ErrPath) {
				t.Fatal(err)
			}
			return
		}
		if tile.Path() != path || tile.Width < 1 || tile.Width > Width || tile.Level < Entries || tile.Level > maxLevel {
			t.Fatalf("%q: %+v", path, tile)
		}
	})
}

func bundleOf(t testing.TB, bodies ...string) []byte {
	t.Helper()
	var out []byte
	var err error
	for _, b := range bodies {
		if out, err = AppendEntry(out, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestBundleBytesAreFrozen(t *testing.T) {
	long := strings.Repeat("x", 0x102)
	if got, want := bundleOf(t, "ab", "", long), "\x00\x02ab\x00\x00\x01\x02"+long; string(got) != want {
		t.Errorf("%q", got)
	}
	if _, err := AppendEntry(nil, make([]byte, ledger.MaxRecord)); err != nil {
		t.Error(err)
	}
	if out, err := AppendEntry([]byte("x"), make([]byte, ledger.MaxRecord+1)); !errors.Is(err, ErrTooLong) || string(out) != "x" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func TestBundleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 20).Draw(t, "bodies")
		var raw []byte
		for _, b := range bodies {
			raw, _ = AppendEntry(raw, b)
		}
		n := 0
		if err := ReadBundle(raw, len(bodies), func(i int, body []byte) error {
			if !bytes.Equal(body, bodies[i]) {
				return fmt.Errorf("entry %d is %q", i, body)
			}
			n++
			return nil
		}); err != nil || n != len(bodies) {
			t.Fatalf("%d of %d: %v", n, len(bodies), err)
		}
		// Neither a byte less or more, nor another number of entries.
		for _, c := range []struct {
			raw   []byte
			width int
		}{{append(slices.Clone(raw), 0), len(bodies)}, {raw[:max(len(raw)-1, 0)], len(bodies)}, {raw, len(bodies) + 1}, {raw, len(bodies) - 1}} {
			if c.width < 0 || len(c.raw) == len(raw) && c.width == len(bodies) {
				continue
			}
			if err := ReadBundle(c.raw, c.width, func(int, []byte) error { return nil }); !errors.Is(err, ErrBundle) {
				t.Fatalf("%d bytes as %d entries: %v", len(c.raw), c.width, err)
			}
		}
	})
	stop := errors.New("stop")
	if err := ReadBundle(bundleOf(t, "a", "b"), 2, func(int, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func FuzzBundle(f *testing.F) {
	f.Add([]byte("\x00\x02ab\x00\x00"), 2)
	f.Add([]byte("\x00\x02ab\x00"), 2)
	f.Add([]byte("\xff\xff"), 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, raw []byte, width int) {
		width &= 0x1ff
		var again []byte
		n := 0
		err := ReadBundle(raw, width, func(i int, body []byte) (err error) {
			if i != n {
				t.Fatalf("entry %d after %d", i, n)
			}
			n++
			again, err = AppendEntry(again, body)
			return err
		})
		switch {
		case err == nil && (n != width || !bytes.Equal(again, raw)):
			t.Fatalf("%d entries of %d give %q", n, width, again)
		case err != nil && !errors.Is(err, ErrBundle):
			t.Fatal(err)
		case !bytes.HasPrefix(raw, again):
			t.Fatalf("%q is not the beginning of %q", again, raw)
		}
	})
}

func FuzzUnfinished(f *testing.F) {
	f.Add(unfinished{origin: "example.com/log", from: 3, to: 700, at: 512}.encode())
	f.Add([]byte("assay unfinished export 1\n\nfrom 0 to 0\nsynced 0\n\n"))
	f.Add([]byte("assay unfinished export 2\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		u, err := parseUnfinished(raw)
		if err == nil && !bytes.Equal(u.encode(), raw) {
			t.Fatalf("%q is %+v", raw, u)
		}
	})
}
