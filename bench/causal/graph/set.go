package graph

import (
	"iter"
	"math/bits"
	"slices"
)

// Set is a set of nodes of one graph. Sets of different graphs do not mix.
type Set []uint64

func newSet(n int) Set { return make(Set, (n+63)/64) }

// Has says whether v is a member.
func (s Set) Has(v int) bool { return s[v/64]>>(v%64)&1 == 1 }

// Add makes v a member.
func (s Set) Add(v int) { s[v/64] |= 1 << (v % 64) }

// Remove takes v out.
func (s Set) Remove(v int) { s[v/64] &^= 1 << (v % 64) }

// Clone is a copy that shares nothing.
func (s Set) Clone() Set { return slices.Clone(s) }

func (s Set) with(other Set, op func(a, b uint64) uint64) Set {
	out := make(Set, len(s))
	for i := range s {
		out[i] = op(s[i], other[i])
	}
	return out
}

// Or is the union.
func (s Set) Or(t Set) Set { return s.with(t, func(a, b uint64) uint64 { return a | b }) }

// And is the intersection.
func (s Set) And(t Set) Set { return s.with(t, func(a, b uint64) uint64 { return a & b }) }

// Minus is s without the members of t.
func (s Set) Minus(t Set) Set { return s.with(t, func(a, b uint64) uint64 { return a &^ b }) }

// Empty says whether there is no member.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Len counts the members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// In says whether every member is one of t.
func (s Set) In(t Set) bool {
	for i, w := range s {
		if w&^t[i] != 0 {
			return false
		}
	}
	return true
}

// Meets says whether there is a common member.
func (s Set) Meets(t Set) bool {
	for i, w := range s {
		if w&t[i] != 0 {
			return true
		}
	}
	return false
}

// Equal says whether the members are the same.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// All yields the members in the graph's node order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
