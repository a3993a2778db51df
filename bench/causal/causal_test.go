package causal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFaultIs(t *testing.T) {
	err := fmt.Errorf("read: %w", Badf(At("rows", 3), "want %d", 1))
	if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrCyclic) {
		t.Errorf("%v is of another kind", err)
	}
	if got := err.Error(); got != "read: invalid at rows.3: want 1" {
		t.Errorf("%q", got)
	}
	if got := Impossible().Error(); got != "zero_probability: the condition has probability 0" {
		t.Errorf("%q", got)
	}
}

// Parents stand before their children, each node once; and where there is a cycle, the
// node that is named lies on one.
func TestTopologicalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "nodes")
		parents := make([][]int, n)
		for v := range n {
			parents[v] = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 2).Draw(t, "parents")
		}
		order, on, ok := TopologicalOrder(n, func(v int) []int { return parents[v] })
		if !ok {
			if !reaches(parents, on, on) {
				t.Fatalf("node %d of %v lies on no cycle", on, parents)
			}
			return
		}
		if len(order) != n {
			t.Fatalf("%v lists %d of %d nodes", order, len(order), n)
		}
		for v := range n {
			if slices.Index(order, v) < 0 {
				t.Fatalf("%v lacks %d", order, v)
			}
			for _, p := range parents[v] {
				if slices.Index(order, p) > slices.Index(order, v) {
					t.Fatalf("%v has %d before its parent %d", order, v, p)
				}
			}
		}
	})
}

// reaches says whether a is among the ancestors of v.
func reaches(parents [][]int, v, a int) bool {
	seen := make([]bool, len(parents))
	open := slices.Clone(parents[v])
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		if p == a {
			return true
		}
		if !seen[p] {
			seen[p] = true
			open = append(open, parents[p]...)
		}
	}
	return false
}
