package resolver

import (
	"testing"

	"pgregory.net/rapid"
)

// A table finds what a map finds, and numbers keys in the order of their coming,
// over all its growing.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb table[uint16, int]
		want, order := make(map[uint16]int), []uint16(nil)
		for i, key := range rapid.SliceOfN(rapid.Uint16(), 0, 3*tableChunk).Draw(t, "keys") {
			if _, ok := want[key]; !ok {
				order = append(order, key)
			}
			want[key] = i
			if n := tb.put(key, i); tb.at(n).key != key {
				t.Fatalf("%d is put as number %d, which is %d", key, n, tb.at(n).key)
			}
		}
		if tb.len() != len(order) {
			t.Fatalf("%d keys, want %d", tb.len(), len(order))
		}
		for n, key := range order {
			if e := tb.at(n); e.key != key || e.value != want[key] {
				t.Fatalf("number %d is %d with %d, want %d with %d", n, e.key, e.value, key, want[key])
			}
		}
		for range 100 {
			key := rapid.Uint16().Draw(t, "asked")
			n, ok := tb.find(key)
			if _, there := want[key]; ok != there || ok && order[n] != key {
				t.Fatalf("%d: found %v as number %d, want %v", key, ok, n, there)
			}
		}
	})
}
