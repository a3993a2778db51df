package logger

import (
	"testing"

	"assay/ledger"
)

func TestLeafRing(t *testing.T) {
	leaf := func(size uint64) ledger.Hash {
		return ledger.Leaf([]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	}
	var r leafRing
	if r.copy(0, 0) != nil {
		t.Fatal("leaves from nothing")
	}
	fill := func(from, to uint64) {
		for i := from; i < to; i++ {
			r.add(ledger.Seq(i+1), leaf(i))
		}
	}
	check := func(from, to uint64, held bool) {
		t.Helper()
		got := r.copy(from, to)
		if (got != nil) != held {
			t.Fatalf("leaves %d to %d: %v, want %v", from, to, got != nil, held)
		}
		for i := range got {
			if got[i] != leaf(from+uint64(i)) {
				t.Fatalf("leaf %d is another", from+uint64(i))
			}
		}
	}
	fill(10, 20)
	check(10, 20, true)
	check(9, 20, false)
	check(15, 21, false)
	fill(20, recentLeaves+30)
	check(29, recentLeaves+30, false)
	check(30, recentLeaves+30, true)
	fill(recentLeaves+40, recentLeaves+50) // somebody else wrote between
	check(recentLeaves+30, recentLeaves+50, false)
	check(recentLeaves+40, recentLeaves+50, true)
}

// TestKeptFrontiers: a frontier stays for every checkpoint that does, however
// often the process starts anew.
func TestKeptFrontiers(t *testing.T) {
	dir := t.TempDir()
	tree := &ledger.Tree{}
	var sizes []uint64
	x, err := openIndex(dir, &Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := uint64(0)
	for i := range 200 {
		for range 97 {
			tree.Append(ledger.Leaf([]byte{byte(i)}))
		}
		if i%50 == 49 {
			if err := x.close(); err != nil {
				t.Fatal(err)
			}
			if x, err = openIndex(dir, &Config{}); err != nil {
				t.Fatal(err)
			}
		}
		size := tree.Size()
		if err := x.putSigned(position{seq: ledger.Seq(size)}, tree, before); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
		before = size
	}
	var want []uint64
	for i, size := range sizes {
		if i >= len(sizes)-keepFrontiers || ledger.KeepCheckpoint(size, sizes[i+1]) {
			want = append(want, size)
		}
	}
	for _, size := range want {
		_, got, err := x.frontierUpTo(size)
		if err != nil || got.Size() != size {
			t.Fatalf("frontier of size %d: %d %v", size, got.Size(), err)
		}
	}
	n := 0
	if err := x.db.Scan([]byte{'f'}, nil, func(_, _ []byte) error { n++; return nil }); err != nil || n != len(want) {
		t.Fatalf("%d frontiers, want %d: %v", n, len(want), err)
	}
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
}
