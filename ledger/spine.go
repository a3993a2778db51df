package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// bundleLevel is the level of the subtrees over BundleSize leaves.
const bundleLevel = 8

// BundleSize is over how many records a Spine keeps one hash.
const BundleSize = 1 << bundleLevel

// Spine is a Merkle tree of which only the hashes over whole bundles are kept: a
// quarter of a byte a record. With the leaves of the bundle that a record is in and
// of the last one, it proves any record, and knows the root at any size.
type Spine struct {
	tree   Tree
	levels [][]Hash // from bundleLevel on; append-only
}

// Add appends a leaf.
func (s *Spine) Add(leaf Hash) {
	s.tree.add(leaf, func(level int, n uint64, h Hash) {
		if level < bundleLevel {
			return
		}
		if level-bundleLevel == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		at := &s.levels[level-bundleLevel]
		*at = append(*at, h)
	})
}

// Tree is the tree over every leaf so far.
func (s *Spine) Tree() *Tree { return &s.tree }

// Clone is the spine as it is now. It stays so while the original grows.
func (s *Spine) Clone() *Spine {
	return &Spine{tree: *s.tree.Clone(), levels: append([][]Hash(nil), s.levels...)}
}

// Reader reads the tree's hashes. leaves gives the leaf hashes of the records first
// to last, BundleSize at most; it is asked for what the spine does not keep.
func (s *Spine) Reader(leaves func(first, last Seq) ([]Hash, error)) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		bundles := map[uint64][]Hash{}
		for i, index := range indexes {
			level, n := tlog.SplitStoredHashIndex(index)
			h, err := s.hash(level, uint64(n), bundles, leaves)
			if err != nil {
				return nil, err
			}
			out[i] = tlog.Hash(h)
		}
		return out, nil
	})
}

func (s *Spine) hash(level int, n uint64, bundles map[uint64][]Hash, leaves func(first, last Seq) ([]Hash, error)) (Hash, error) {
	if (n+1)<<level > s.tree.Size() {
		return Hash{}, fmt.Errorf("subtree %d of level %d has not passed by", n, level)
	}
	if level >= bundleLevel {
		return s.levels[level-bundleLevel][n], nil
	}
	bundle := n << level >> bundleLevel
	first := bundle << bundleLevel
	last := min(first+BundleSize, s.tree.Size())
	all, ok := bundles[bundle]
	if !ok {
		var err error
		if all, err = leaves(Seq(first)+1, Seq(last)); err != nil {
			return Hash{}, err
		}
		if uint64(len(all)) != last-first {
			return Hash{}, fmt.Errorf("%w: %d leaves of the records %d to %d", ErrCorrupt, len(all), first+1, last)
		}
		bundles[bundle] = all
	}
	var sub Tree
	from := n<<level - first
	for _, leaf := range all[from : from+1<<level] {
		sub.Append(leaf)
	}
	return sub.Root(), nil
}

// RootAt is the root at a size that the tree has passed.
func RootAt(size uint64, r tlog.HashReader) (Hash, error) {
	if size == 0 {
		return EmptyRoot, nil
	}
	h, err := tlog.TreeHash(int64(size), r)
	return Hash(h), err
}
