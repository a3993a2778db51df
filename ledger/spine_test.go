package ledger

import (
	"encoding/binary"
	"errors"
	"testing"
)

func TestSpine(t *testing.T) {
	const n = 5*BundleSize + 77
	var s Spine
	var all []Hash
	roots := []Hash{EmptyRoot}
	for i := range uint64(n) {
		leaf := Leaf(binary.BigEndian.AppendUint64(nil, i))
		all = append(all, leaf)
		s.Add(leaf)
		roots = append(roots, s.Tree().Root())
	}
	asked := 0
	old := s.Clone()
	r := old.Reader(func(first, last Seq) ([]Hash, error) {
		asked++
		if last-first >= BundleSize {
			t.Fatalf("asked for the leaves %d to %d", first, last)
		}
		return all[first-1 : last], nil
	})
	for range 3 * BundleSize { // the clone stays as it is
		s.Add(Hash{})
	}
	for size := range uint64(n + 1) {
		if got, err := RootAt(size, r); err != nil || got != roots[size] {
			t.Fatalf("root at %d: %v %v, want %v", size, got, err, roots[size])
		}
	}
	for _, size := range []uint64{1, 255, 256, 257, 1000, n} {
		for _, i := range []uint64{0, 1, 255, 256, 700, n - 1} {
			if i >= size {
				continue
			}
			asked = 0
			path, err := ProveInclusion(Index(i), size, r)
			if err == nil {
				err = CheckInclusion(path, Index(i), all[i], size, roots[size])
			}
			if err != nil || asked > 2 {
				t.Errorf("record %d in %d: %v, %d bundles", i, size, err, asked)
			}
		}
	}
	if _, err := RootAt(n+1, r); err == nil {
		t.Error("the clone knows a root beyond its size")
	}
	short := old.Reader(func(first, last Seq) ([]Hash, error) { return all[first : last-1], nil })
	if _, err := RootAt(255, short); !errors.Is(err, ErrCorrupt) {
		t.Errorf("too few leaves: %v", err)
	}
}
