package tiles

import (
	"fmt"
	"io/fs"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"assay/ledger"
)

// frontier is what an export must know of the tree so far to go on with it: for
// each level the hashes that do not fill a tile yet, as the partial tile holds
// them.
type frontier struct {
	size    uint64
	pending [][]byte // by level
	last    ledger.Hash
}

// add appends a leaf and hands out each tile that it fills.
func (f *frontier) add(leaf ledger.Hash, full func(t Tile, hashes []byte) error) error {
	hash := leaf
	f.last = leaf
	f.size++
	for level := 0; ; level++ {
		if level == len(f.pending) {
			f.pending = append(f.pending, make([]byte, 0, Width*len(hash)))
		}
		p := append(f.pending[level], hash[:]...)
		f.pending[level] = p
		if len(p) < Width*len(hash) {
			return nil
		}
		if err := full(Tile{Level: level, N: Count(level, f.size)/Width - 1, Width: Width}, p); err != nil {
			return err
		}
		hash = subtree(p)
		f.pending[level] = p[:0]
	}
}

// root is that of the tree so far.
func (f *frontier) root() ledger.Hash {
	var peaks []byte
	for level := len(f.pending) - 1; level >= 0; level-- {
		rest := f.pending[level]
		for len(rest) > 0 {
			n := 1 << (bits.Len(uint(len(rest)/tlog.HashSize)) - 1) * tlog.HashSize
			h := subtree(rest[:n])
			peaks, rest = append(peaks, h[:]...), rest[n:]
		}
	}
	t, err := ledger.DecodeFrontier(f.size, peaks)
	if err != nil {
		panic(err) // add keeps as many hashes as the size has bits
	}
	return t.Root()
}

// subtree is the root over a power of two of hashes.
func subtree(hashes []byte) ledger.Hash {
	var level [Width]tlog.Hash
	n := len(hashes) / tlog.HashSize
	for i := range n {
		level[i] = tlog.Hash(hashes[i*tlog.HashSize:])
	}
	for ; n > 1; n /= 2 {
		for i := range n / 2 {
			level[i] = tlog.NodeHash(level[2*i], level[2*i+1])
		}
	}
	return ledger.Hash(level[0])
}

// loadFrontier computes the frontier of the first size leaves, a multiple of
// Width, from the full tiles below it: at most 255 of each level.
func loadFrontier(fsys fs.FS, size uint64) (*frontier, error) {
	f := &frontier{size: size}
	for level := 0; Count(level, size) > 0; level++ {
		count := Count(level, size)
		f.pending = append(f.pending, make([]byte, 0, Width*tlog.HashSize))
		for i := count - count%Width; level > 0 && i < count; i++ {
			hashes, err := readTile(fsys, Tile{Level: level - 1, N: i, Width: Width})
			if err != nil {
				return nil, err
			}
			h := subtree(hashes)
			f.pending[level] = append(f.pending[level], h[:]...)
		}
	}
	if size > 0 {
		hashes, err := readTile(fsys, Tile{N: size/Width - 1, Width: Width})
		if err != nil {
			return nil, err
		}
		f.last = ledger.Hash(hashes[(Width-1)*tlog.HashSize:])
	}
	return f, nil
}

// readTile reads a tile of hashes; ErrDamaged if it is not there whole.
func readTile(fsys fs.FS, t Tile) ([]byte, error) {
	raw, err := ReadFile(fsys, t.Path(), t.Width*tlog.HashSize)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(raw) != t.Width*tlog.HashSize {
		return nil, fmt.Errorf("%w: %s has %d bytes, want %d", ErrDamaged, t.Path(), len(raw), t.Width*tlog.HashSize)
	}
	return raw, nil
}

func (f *frontier) clone() *frontier {
	c := &frontier{size: f.size, last: f.last}
	for _, p := range f.pending {
		c.pending = append(c.pending, append(make([]byte, 0, cap(p)), p...))
	}
	return c
}
