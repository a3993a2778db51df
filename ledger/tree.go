package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
)

// ErrBadFrontier means that stored frontier bytes do not fit their size.
var ErrBadFrontier = errors.New("malformed Merkle frontier")

// EmptyRoot is the root of the tree without leaves: SHA-256 of nothing (RFC 6962 2.1).
var EmptyRoot = Hash(sha256.Sum256(nil))

// Tree is the right edge of an RFC 6962 Merkle tree: enough to append leaves
// and to compute the root, in space logarithmic in the size. The zero value is
// the empty tree.
type Tree struct {
	size uint64
	// peaks are the roots of the perfect subtrees that make up the tree, the
	// largest first: one for each set bit of size.
	peaks []Hash
}

// node is the RFC 6962 interior hash SHA-256(0x01 ‖ left ‖ right).
func node(left, right Hash) Hash {
	var buf [1 + 2*sha256.Size]byte
	buf[0] = 1
	copy(buf[1:], left[:])
	copy(buf[1+sha256.Size:], right[:])
	return sha256.Sum256(buf[:])
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Append adds a leaf.
func (t *Tree) Append(leaf Hash) { t.add(leaf, nil) }

// add appends a leaf and tells done, unless it is nil, every perfect subtree
// that the leaf completes, from the leaf itself on: level and number within it.
func (t *Tree) add(h Hash, done func(level int, n uint64, h Hash)) {
	n := t.size
	if done != nil {
		done(0, n, h)
	}
	for level := range bits.TrailingZeros64(^t.size) {
		last := len(t.peaks) - 1
		h = node(t.peaks[last], h)
		t.peaks = t.peaks[:last]
		n >>= 1
		if done != nil {
			done(level+1, n, h)
		}
	}
	t.peaks = append(t.peaks, h)
	t.size++
}

// eachPeak calls fn for the perfect subtrees that make up the tree, the largest
// first.
func (t *Tree) eachPeak(fn func(level int, n uint64, h Hash)) {
	start := uint64(0)
	for _, p := range t.peaks {
		level := bits.Len64(t.size-start) - 1
		fn(level, start>>level, p)
		start += 1 << level
	}
}

// Root is the tree head; EmptyRoot when there are no leaves.
func (t *Tree) Root() Hash {
	if t.size == 0 {
		return EmptyRoot
	}
	root := t.peaks[len(t.peaks)-1]
	for i := len(t.peaks) - 2; i >= 0; i-- {
		root = node(t.peaks[i], root)
	}
	return root
}

// Clone is an independent copy.
func (t *Tree) Clone() *Tree {
	return &Tree{size: t.size, peaks: append([]Hash(nil), t.peaks...)}
}

// EncodeFrontier returns the peaks' bytes, the largest subtree first.
func (t *Tree) EncodeFrontier() []byte {
	out := make([]byte, 0, len(t.peaks)*sha256.Size)
	for _, p := range t.peaks {
		out = append(out, p[:]...)
	}
	return out
}

// DecodeFrontier restores the tree that EncodeFrontier was called on.
func DecodeFrontier(size uint64, peaks []byte) (*Tree, error) {
	if len(peaks) != bits.OnesCount64(size)*sha256.Size {
		return nil, fmt.Errorf("%w: size %d with %d bytes", ErrBadFrontier, size, len(peaks))
	}
	t := &Tree{size: size}
	for len(peaks) > 0 {
		t.peaks = append(t.peaks, Hash(peaks[:sha256.Size]))
		peaks = peaks[sha256.Size:]
	}
	return t, nil
}
