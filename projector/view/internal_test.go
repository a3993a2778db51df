package view

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKeysAreInjective: identifiers are the agent's, and must not reach into
// another's keys.
func TestKeysAreInjective(t *testing.T) {
	part := rapid.StringOfN(rapid.RuneFrom([]rune{'a', 0, 1, 2}), 0, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(part, 1, 3).Draw(t, "a")
		b := rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		if (key(a...) == key(b...)) != slices.Equal(a, b) {
			t.Fatalf("%q and %q", key(a...), key(b...))
		}
		if got := unescaper.Replace(key(a[0])); got != a[0] {
			t.Fatalf("%q is read as %q", a[0], got)
		}
		under := len(b) > len(a) && slices.Equal(a, b[:len(a)])
		if strings.HasPrefix(key(b...), prefix(a...)) != under {
			t.Fatalf("prefix %q of %q", prefix(a...), key(b...))
		}
	})
}

// TestSourceSequence compares with a set of everything that was seen.
func TestSourceSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Uint64Range(0, 40), 1, 60).Draw(t, "numbers")
		var s SourceSequence
		seen := map[uint64]bool{}
		repeats, late, top := int64(0), int64(0), uint64(0)
		for i, n := range numbers {
			s.take(n)
			switch {
			case seen[n]:
				repeats++
			case i > 0 && n < top:
				late++
			}
			seen[n], top = true, max(top, n)
		}
		var missing []uint64
		for n := slices.Min(numbers); n <= top; n++ {
			if !seen[n] {
				missing = append(missing, n)
			}
		}
		var got []uint64
		for _, r := range s.Missing {
			for n := r.From; n <= r.To; n++ {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, missing) || s.Repeats != repeats || s.Late != late || s.Last != top {
			t.Fatalf("%+v; want missing %v, repeats %d, late %d", s, missing, repeats, late)
		}
	})
}
