package scm

// maxSteps is the most values that a search may visit: elimination takes about as
// long to plan.
const maxSteps = 4096

// maxPairs is the largest table of pairs that is worked out once and kept.
const maxPairs = 4096

// steps counts the values that a search visits at most. ok is false where that is
// too many.
func (t *twin) steps() (steps float64, ok bool) {
	branches := 1.0
	for _, f := range t.mechanisms {
		if t.at[f.self] == free {
			branches *= float64(f.node.card)
		}
		if f.other != none {
			if f.node.pairCells() > maxPairs {
				return 0, false
			}
			if t.at[f.other] == free {
				branches *= float64(f.node.card)
			}
		}
		if steps += branches; steps > maxSteps {
			return 0, false
		}
	}
	return steps, true
}

// search sums over the values of all slots, parents first, and leaves out what has
// probability 0.
func (t *twin) search() float64 {
	s := searcher{t.mechanisms, make([]int, len(t.at)), t.at}
	copy(s.value, t.at)
	return s.from(0)
}

type searcher struct {
	mechanisms []mechanism
	value, at  []int
}

// from is the sum over the slots of the mechanisms from i on, given the values of
// those before.
func (s *searcher) from(i int) float64 {
	if i == len(s.mechanisms) {
		return 1
	}
	f := &s.mechanisms[i]
	card := f.node.card
	row := f.node.row(s.value, f.world)
	low, high := bounds(s.at[f.self], card)
	total := 0.0
	if f.other == none {
		single := f.node.single[row*card:]
		for x := low; x < high; x++ {
			if p := single[x]; p != 0 {
				s.value[f.self] = x
				total += float64(p * s.from(i+1))
			}
		}
		return total
	}
	pair := f.node.pair()[(row*f.node.rows+f.node.row(s.value, f.otherWorld))*card*card:]
	otherLow, otherHigh := bounds(s.at[f.other], card)
	for x := low; x < high; x++ {
		for y := otherLow; y < otherHigh; y++ {
			if p := pair[x*card+y]; p != 0 {
				s.value[f.self], s.value[f.other] = x, y
				total += float64(p * s.from(i+1))
			}
		}
	}
	return total
}

// bounds are the values that a slot can have.
func bounds(at, card int) (low, high int) {
	if at != free {
		return at, at + 1
	}
	return 0, card
}

// row is the combination of the parents' values, by the values of slots and the slots
// of nodes.
func (v *node) row(value, world []int) int {
	row := 0
	for i, p := range v.parents {
		row = row*v.parentCards[i] + value[world[p]]
	}
	return row
}
