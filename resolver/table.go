package resolver

import "hash/maphash"

// table numbers keys from 0 in the order in which they come and keeps a value
// with each. Nothing is ever taken out. It holds an entry in its own bytes and 5
// to 11 more, and growing copies but those; a map would hold half as much again
// and could not be written in order.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	chunks [][]entry[K, V]
	slots  []uint32 // where the hash of a key leads: its number + 1; 0 is free
	n      int
}

// entry has its key last, so that a value of no size takes none.
type entry[K comparable, V any] struct {
	value V
	key   K
}

// tableChunk is how many entries are allocated at once.
const tableChunk = 1024

func (t *table[K, V]) len() int { return t.n }

func (t *table[K, V]) at(n int) *entry[K, V] { return &t.chunks[n/tableChunk][n%tableChunk] }

// slot is where key is, or where it belongs.
func (t *table[K, V]) slot(key K) *uint32 {
	mask := len(t.slots) - 1
	for i := int(maphash.Comparable(t.seed, key)) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; *s == 0 || t.at(int(*s-1)).key == key {
			return s
		}
	}
}

// find is the number of a key; false if it never came.
func (t *table[K, V]) find(key K) (n int, ok bool) {
	if t.n == 0 {
		return 0, false
	}
	s := *t.slot(key)
	return int(s) - 1, s != 0
}

// put keeps the value with the key, in place of what it had, and returns the
// key's number.
func (t *table[K, V]) put(key K, value V) int {
	if 4*(t.n+1) > 3*len(t.slots) {
		t.grow()
	}
	s := t.slot(key)
	if *s != 0 {
		t.at(int(*s - 1)).value = value
		return int(*s - 1)
	}
	if t.n%tableChunk == 0 {
		t.chunks = append(t.chunks, make([]entry[K, V], 0, tableChunk))
	}
	last := &t.chunks[len(t.chunks)-1]
	*last = append(*last, entry[K, V]{value, key})
	t.n++
	*s = uint32(t.n)
	return t.n - 1
}

func (t *table[K, V]) grow() {
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
	}
	t.slots = make([]uint32, max(16, 2*len(t.slots)))
	for n := range t.n {
		*t.slot(t.at(n).key) = uint32(n + 1)
	}
}
