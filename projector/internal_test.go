package projector

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyFilterForgetsNothing: a false no would lose state.
func TestKeyFilterForgetsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newKeyFilter()
		keys := rapid.SliceOf(rapid.String()).Draw(t, "keys")
		for i, k := range keys {
			f.add(k)
			for _, have := range keys[:i+1] {
				if !f.mayHave(have) {
					t.Fatalf("%q was added", have)
				}
			}
		}
	})
	f, no := newKeyFilter(), 0
	const n = 200_000 // over several blocks
	for i := range n {
		f.add(fmt.Sprint("in", i))
	}
	for i := range n {
		if !f.mayHave(fmt.Sprint("in", i)) {
			t.Fatal("lost", i)
		}
		if !f.mayHave(fmt.Sprint("out", i)) {
			no++
		}
	}
	if no < n*999/1000 {
		t.Errorf("only %d of %d absent keys are known to be absent", no, n)
	}
}
