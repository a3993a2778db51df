package projector

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"assay/internal/kv"
)

// ViewDiff is what one projection holds otherwise in two states.
type ViewDiff struct {
	Projection string `json:"projection"`
	// VersionA and VersionB are null where the projection is absent. Keys are
	// compared only of one version: two keep their state each in a form of its own.
	VersionA *int  `json:"version_a"`
	VersionB *int  `json:"version_b"`
	Added    int64 `json:"added"`   // keys of B alone
	Removed  int64 `json:"removed"` // keys of A alone
	Changed  int64 `json:"changed"`
	// Keys are the first of them, in order.
	Keys []KeyDiff `json:"keys"`
}

// Equal says that the projection is the same in both.
func (d *ViewDiff) Equal() bool {
	return d.VersionA != nil && d.VersionB != nil && *d.VersionA == *d.VersionB && d.Added+d.Removed+d.Changed == 0
}

// KeyDiff is a key that differs.
type KeyDiff struct {
	Key  string `json:"key"`
	What string `json:"what"` // added, removed or changed
}

// DiffStates compares two states byte by byte and names up to keys keys of each
// projection that differ.
func DiffStates(a, b *State, keys int) ([]ViewDiff, error) {
	var out []ViewDiff
	names := make(map[string]bool)
	for _, c := range append(a.Cursors(), b.Cursors()...) {
		if names[c.Projection] {
			continue
		}
		names[c.Projection] = true
		d := ViewDiff{Projection: c.Projection, VersionA: a.version(c.Projection), VersionB: b.version(c.Projection), Keys: []KeyDiff{}}
		if d.VersionA != nil && d.VersionB != nil && *d.VersionA == *d.VersionB {
			if err := d.compare(a, b, stateOf(c.Projection, *d.VersionA), keys); err != nil {
				return nil, err
			}
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b ViewDiff) int { return cmp.Compare(a.Projection, b.Projection) })
	return out, nil
}

func (s *State) version(projection string) *int {
	for _, c := range s.cursors {
		if c.Projection == projection {
			return &c.Version
		}
	}
	return nil
}

// compare merges the keys of both.
func (d *ViewDiff) compare(a, b *State, state string, keys int) error {
	var errA, errB error
	nextA, stopA := iter.Pull2(entries(a.r, state, &errA))
	defer stopA()
	nextB, stopB := iter.Pull2(entries(b.r, state, &errB))
	defer stopB()
	note := func(key []byte, what string, n *int64) {
		*n++
		if len(d.Keys) < keys {
			d.Keys = append(d.Keys, KeyDiff{string(key[len(state):]), what})
		}
	}
	keyA, valueA, okA := nextA()
	keyB, valueB, okB := nextB()
	for okA || okB {
		order := bytes.Compare(keyA, keyB)
		switch {
		case !okB || okA && order < 0:
			note(keyA, "removed", &d.Removed)
			keyA, valueA, okA = nextA()
			continue
		case !okA || order > 0:
			note(keyB, "added", &d.Added)
			keyB, valueB, okB = nextB()
			continue
		case !bytes.Equal(valueA, valueB):
			note(keyA, "changed", &d.Changed)
		}
		keyA, valueA, okA = nextA()
		keyB, valueB, okB = nextB()
	}
	return cmp.Or(errA, errB)
}

// entries are the key-values with a prefix, each valid until the next is asked
// for. What ended them early is in err.
func entries(r kv.Reader, prefix string, err *error) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		*err = r.Scan([]byte(prefix), nil, func(k, v []byte) error {
			if !yield(k, v) {
				return kv.ErrStop
			}
			return nil
		})
	}
}
