package ledger

import (
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize is the largest tree that proofs and checkpoints are made of and
// checked for: JSON numbers are exact up to it, and no size or index computed
// from it overflows.
const MaxSize = 1<<53 - 1

var (
	// ErrBadProof means that a proof does not prove what it should.
	ErrBadProof = errors.New("the proof does not hold")
	// ErrSize means that there can be no proof for these sizes: of or from the
	// empty tree, beyond MaxSize, of a leaf that the tree does not have, or from
	// a larger tree to a smaller one.
	ErrSize = errors.New("no proof for this size")
)

// ProveInclusion makes the RFC 6962 2.1.1 path of leaf i in the tree of the
// given size, the leaf's sibling first. r has the hashes by their
// tlog.StoredHashIndex. Sizes out of bounds are ErrSize.
func ProveInclusion(i Index, size uint64, r tlog.HashReader) ([]Hash, error) {
	if err := checkInclusionSize(i, size); err != nil {
		return nil, err
	}
	path, err := tlog.ProveRecord(int64(size), int64(i), r)
	return fromTlog(path), err
}

// ProveConsistency makes the RFC 6962 2.1.2 proof that the tree of size old is
// a prefix of the tree of the given size. Sizes out of bounds are ErrSize.
func ProveConsistency(old, size uint64, r tlog.HashReader) ([]Hash, error) {
	if err := checkConsistencySize(old, size); err != nil {
		return nil, err
	}
	path, err := tlog.ProveTree(int64(size), int64(old), r)
	return fromTlog(path), err
}

// CheckInclusion checks that leaf stands at i in the tree of this size and root:
// ErrBadProof if the path does not lead there, ErrSize if no path can.
func CheckInclusion(path []Hash, i Index, leaf Hash, size uint64, root Hash) error {
	if err := checkInclusionSize(i, size); err != nil {
		return err
	}
	err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), size, leaf[:], slicesOf(path), root[:])
	if err != nil {
		return fmt.Errorf("%w: leaf %d in the tree of size %d: %w", ErrBadProof, i, size, err)
	}
	return nil
}

// CheckConsistency checks that the tree that old commits to is a prefix of the
// one that next commits to: ErrBadProof or ErrSize. An empty proof is good only
// for two equal trees, and none is good for the empty one.
func CheckConsistency(path []Hash, old, next Checkpoint) error {
	if err := checkConsistencySize(old.Size, next.Size); err != nil {
		return err
	}
	if old.Origin != next.Origin {
		return fmt.Errorf("%w: checkpoints of two logs, %q and %q", ErrBadProof, old.Origin, next.Origin)
	}
	err := proof.VerifyConsistency(rfc6962.DefaultHasher, old.Size, next.Size, slicesOf(path), old.Root[:], next.Root[:])
	if err != nil {
		return fmt.Errorf("%w: size %d to size %d: %w", ErrBadProof, old.Size, next.Size, err)
	}
	return nil
}

func checkInclusionSize(i Index, size uint64) error {
	switch {
	case size == 0 || size > MaxSize:
		return fmt.Errorf("%w: size %d", ErrSize, size)
	case uint64(i) >= size:
		return fmt.Errorf("%w: leaf %d in a tree of size %d", ErrSize, i, size)
	}
	return nil
}

func checkConsistencySize(old, size uint64) error {
	switch {
	case old == 0 || size == 0 || size > MaxSize:
		return fmt.Errorf("%w: from size %d to size %d", ErrSize, old, size)
	case old > size:
		return fmt.Errorf("%w: the tree shrank from %d to %d", ErrSize, old, size)
	}
	return nil
}

func fromTlog(hs []tlog.Hash) []Hash {
	out := make([]Hash, len(hs))
	for i, h := range hs {
		out[i] = Hash(h)
	}
	return out
}

func slicesOf(hs []Hash) [][]byte {
	out := make([][]byte, len(hs))
	for i := range hs {
		out[i] = hs[i][:]
	}
	return out
}

// WantInclusion lists the tlog.StoredHashIndex of the hashes that
// ProveInclusion will ask for.
func WantInclusion(i Index, size uint64) ([]int64, error) {
	var w wanted
	_, err := ProveInclusion(i, size, &w)
	return w.indexes, w.ignore(err)
}

// WantConsistency lists the tlog.StoredHashIndex of the hashes that
// ProveConsistency will ask for.
func WantConsistency(old, size uint64) ([]int64, error) {
	var w wanted
	_, err := ProveConsistency(old, size, &w)
	return w.indexes, w.ignore(err)
}

// wanted notes what is asked of it and has nothing.
type wanted struct{ indexes []int64 }

var errOnlyAsking = errors.New("only asking")

func (w *wanted) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	w.indexes = append(w.indexes, indexes...)
	return nil, errOnlyAsking
}

func (w *wanted) ignore(err error) error {
	if errors.Is(err, errOnlyAsking) {
		return nil
	}
	return err
}

// Collector keeps the few interior hashes that proofs need while the leaves
// pass by once, in order: a proof over any number of records costs one read and
// constant memory. Afterwards it is a tlog.HashReader of those hashes.
type Collector struct {
	tree Tree
	have map[int64]*Hash // by tlog.StoredHashIndex; nil until it has passed by
}

// NewCollector starts behind the leaves of from, nil for the first one. wanted
// are hashes of subtrees that are complete in from, as its peaks, or come later.
func NewCollector(from *Tree, wanted []int64) *Collector {
	c := &Collector{have: make(map[int64]*Hash, len(wanted))}
	for _, i := range wanted {
		c.have[i] = nil
	}
	if from != nil {
		c.tree = *from.Clone()
		from.eachPeak(c.pass)
	}
	return c
}

// Add takes the next leaf.
func (c *Collector) Add(leaf Hash) { c.tree.add(leaf, c.pass) }

// Tree is the tree over every leaf so far.
func (c *Collector) Tree() *Tree { return &c.tree }

func (c *Collector) pass(level int, n uint64, h Hash) {
	i := tlog.StoredHashIndex(level, int64(n))
	if _, ok := c.have[i]; ok {
		c.have[i] = &h
	}
}

// ReadHashes implements tlog.HashReader for what was wanted and has passed by.
func (c *Collector) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		h := c.have[index]
		if h == nil {
			level, n := tlog.SplitStoredHashIndex(index)
			return nil, fmt.Errorf("subtree %d of level %d has not passed by", n, level)
		}
		out[i] = tlog.Hash(*h)
	}
	return out, nil
}
