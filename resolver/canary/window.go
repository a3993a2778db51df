package canary

import (
	"cmp"
	"slices"
	"time"

	"assay/ledger"
)

// window is what counts for one criterion: values in ledger order, of which the
// old ones leave at the front. N and Bad are kept as they come and go, so that a
// value costs the same however many there are.
type window struct {
	Values []value `json:"values"`
	N      int64   `json:"n"`   // values that count
	Bad    int64   `json:"bad"` // of N
}

// value is a verdict, a recheck or a latency.
type value struct {
	Seq ledger.Seq `json:"seq"`
	At  time.Time  `json:"at"` // ledger time
	// Bad is refuted, not held, or a latency over the limit.
	Bad  bool    `json:"bad,omitzero"`
	MS   float64 `json:"ms,omitzero"`   // of a latency
	Gone bool    `json:"gone,omitzero"` // a later one took its place
}

func (w *window) add(v value) {
	w.Values = append(w.Values, v)
	w.count(v, 1)
}

func (w *window) count(v value, by int64) {
	w.N += by
	if v.Bad {
		w.Bad += by
	}
}

// remove takes the value of a record out, if it is still there.
func (w *window) remove(seq ledger.Seq) {
	i, ok := slices.BinarySearchFunc(w.Values, seq, func(v value, seq ledger.Seq) int { return cmp.Compare(v.Seq, seq) })
	if ok && !w.Values[i].Gone {
		w.Values[i].Gone = true
		w.count(w.Values[i], -1)
	}
}

// expire lets go of the values up to since.
func (w *window) expire(since time.Time) {
	n := 0
	for ; n < len(w.Values) && !w.Values[n].At.After(since); n++ {
		if !w.Values[n].Gone {
			w.count(w.Values[n], -1)
		}
	}
	w.Values = w.Values[n:]
}

// seqs are the records of the values that count.
func (w *window) seqs() (out []ledger.Seq) {
	for _, v := range w.Values {
		if !v.Gone {
			out = append(out, v.Seq)
		}
	}
	return out
}

// latencies are those that count, from the least on.
func (w *window) latencies() (out []float64) {
	for _, v := range w.Values {
		if !v.Gone {
			out = append(out, v.MS)
		}
	}
	slices.Sort(out)
	return out
}
