package tiles

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// Width is the number of hashes in a full tile, and of entries in a full bundle.
	Width = 256
	// Entries is the Level of a bundle.
	Entries = -1
	// CheckpointName is where an export keeps its checkpoint.
	CheckpointName = "checkpoint"
	// UnfinishedName is where an export that is under way keeps its state.
	UnfinishedName = "unfinished"

	// height is the number of tree levels that a tile spans: 2^height = Width.
	height = 8
	// maxLevel is the highest level that the format can name.
	maxLevel = 63
	// maxElements bounds the path of a tile: 18 digits hold every index of a
	// tree whose size fits in 63 bits.
	maxElements = 6
)

// ErrPath means that a path names no tile and no bundle.
var ErrPath = errors.New("not the path of a tile")

// Tile names a tile of hashes, or a bundle of entries.
type Tile struct {
	Level int    // from 0, or Entries
	N     uint64 // from 0 within its level
	Width int    // hashes or entries in it, 1 to Width
}

// Path is where an export keeps the tile.
func (t Tile) Path() string {
	if t.Width == Width {
		return t.full()
	}
	return t.Partials() + "/" + strconv.Itoa(t.Width)
}

// Partials is the directory of the partial tiles that come before the full
// tile t.
func (t Tile) Partials() string { return t.full() + ".p" }

func (t Tile) full() string {
	level := "entries"
	if t.Level != Entries {
		level = strconv.Itoa(t.Level)
	}
	n := fmt.Sprintf("%03d", t.N%1000)
	for rest := t.N / 1000; rest > 0; rest /= 1000 {
		n = fmt.Sprintf("x%03d/%s", rest%1000, n)
	}
	return "tile/" + level + "/" + n
}

// ParsePath reads what Path writes, and nothing else; otherwise ErrPath.
func ParsePath(path string) (Tile, error) {
	bad := fmt.Errorf("%w: %.80q", ErrPath, path)
	rest, ok := strings.CutPrefix(path, "tile/")
	level, rest, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return Tile{}, bad
	}
	t := Tile{Level: Entries, Width: Width}
	var err error
	if level != "entries" {
		if t.Level, err = strconv.Atoi(level); err != nil || t.Level < 0 || t.Level > maxLevel {
			return Tile{}, bad
		}
	}
	if index, width, ok := strings.Cut(rest, ".p/"); ok {
		if t.Width, err = strconv.Atoi(width); err != nil || t.Width < 1 || t.Width >= Width {
			return Tile{}, bad
		}
		rest = index
	}
	elements := strings.Split(rest, "/")
	if len(elements) > maxElements {
		return Tile{}, bad
	}
	for _, e := range elements {
		n, err := strconv.ParseUint(strings.TrimPrefix(e, "x"), 10, 64)
		if err != nil || n > 999 {
			return Tile{}, bad
		}
		t.N = 1000*t.N + n
	}
	// One tile has one path: signs, zeroes and misplaced x end here.
	if t.Path() != path {
		return Tile{}, bad
	}
	return t, nil
}

// Count is the number of hashes that a tree of size leaves has at the level of
// tiles: one for each 256^level leaves.
func Count(level int, size uint64) uint64 {
	return size >> (height * uint(max(level, 0)))
}

// In says whether a tree of size leaves has the tile: every full one, and of
// each level the last one if it is partial.
func (t Tile) In(size uint64) bool {
	count := Count(t.Level, size)
	if t.N < count/Width {
		return t.Width == Width
	}
	return t.N == count/Width && t.Width < Width && uint64(t.Width) == count%Width
}

// First is the index of the first leaf below hash i of the tile.
func (t Tile) First(i int) uint64 {
	return (t.N*Width + uint64(i)) << (height * uint(max(t.Level, 0)))
}

// Partial lists the partial tiles of a tree of size leaves, its partial bundle
// first: at most one a level.
func Partial(size uint64) []Tile {
	var out []Tile
	for level := Entries; level < 0 || Count(level, size) > 0; level++ {
		count := Count(level, size)
		if w := int(count % Width); w > 0 {
			out = append(out, Tile{Level: level, N: count / Width, Width: w})
		}
	}
	return out
}

// Files is the number of tiles and bundles of a tree of size leaves.
func Files(size uint64) (n uint64) {
	for level := Entries; level < 0 || Count(level, size) > 0; level++ {
		n += (Count(level, size) + Width - 1) / Width
	}
	return n
}
