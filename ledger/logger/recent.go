package logger

import "bytes"

// recentIDs is half of how many ids of a principal are remembered.
const recentIDs = 4096

// recent knows every id of a principal above its floor that is built or indexed.
// Most ids are UUIDv7 and grow with time, though not one by one: a new one is
// nearly always above the floor and not among these, which spares the index a
// search for each new event.
type recent struct {
	floor, oldTop, top [16]byte // top is the largest of young, oldTop of old
	old, young         map[[16]byte]struct{}
}

// newRecent starts from the largest id in the index.
func newRecent(largest [16]byte) *recent {
	return &recent{floor: largest, oldTop: largest, top: largest, young: make(map[[16]byte]struct{})}
}

// isNew reports whether the principal certainly never used the id, and remembers
// it from then on. If it does not, the index knows.
func (r *recent) isNew(id [16]byte) bool {
	if bytes.Compare(id[:], r.floor[:]) <= 0 {
		return false
	}
	if _, ok := r.young[id]; ok {
		return false
	}
	if _, ok := r.old[id]; ok {
		return false
	}
	if len(r.young) == recentIDs {
		r.floor, r.oldTop = r.oldTop, r.top
		r.old, r.young = r.young, make(map[[16]byte]struct{}, recentIDs)
		if bytes.Compare(id[:], r.floor[:]) <= 0 {
			return false
		}
	}
	r.young[id] = struct{}{}
	if bytes.Compare(id[:], r.top[:]) > 0 {
		r.top = id
	}
	return true
}
