package scm

// event is a condition on two worlds with the same noise.
type event struct {
	baseDo, baseSeen values // set, and observed, in the base world
	do, seen         values // in the other one
	// carry marks nodes that take in the other world the value of the base world, unless
	// they are set there. nil marks none.
	carry []bool
}

// twin is what the probability of an event is summed over: copies of nodes, each
// with its value or free, and the mechanisms that bind them.
type twin struct {
	cards      []int // of the slots
	at         []int // the value of a slot, or free
	mechanisms []mechanism
}

// mechanism says how the noise of a node gives the values of its slots from those
// of its parents' slots. A node has one slot, or two in two worlds.
type mechanism struct {
	node        *node
	self, other int // slots; other is none where there is one slot
	// world has the slots of all nodes where self is, otherWorld where other is.
	world, otherWorld []int
}

const none = -1

// two finds the copies that an event is about: those of what is observed, and of its
// ancestors. ok is false where the event is impossible by what it says alone.
func (m *Model) two(e event) (t twin, ok bool) {
	n := len(m.nodes)
	marks := make([]bool, 3*n)
	split, needBase, needOther := marks[:n], marks[n:2*n], marks[2*n:]
	for v := range m.nodes {
		split[v] = m.splits(e, v, split)
	}
	for v := n - 1; v >= 0; v-- { // children first
		needBase[v] = needBase[v] || e.baseSeen[v] != free
		needOther[v] = needOther[v] || e.seen[v] != free
		if !split[v] {
			needBase[v], needOther[v] = needBase[v] || needOther[v], false
		}
		for _, p := range m.nodes[v].parents {
			needBase[p] = needBase[p] || needBase[v] && e.baseDo[v] == free
			needOther[p] = needOther[p] || needOther[v] && e.do[v] == free
		}
	}
	return m.copies(e, split, needBase, needOther)
}

// splits says whether a node can differ between the worlds; split tells it of the
// nodes before.
func (m *Model) splits(e event, v int, split []bool) bool {
	switch {
	case e.do[v] != free:
		return e.do[v] != e.baseDo[v]
	case e.carry != nil && e.carry[v]:
		return false
	case e.baseDo[v] != free:
		return true
	}
	for _, p := range m.nodes[v].parents {
		if split[p] {
			return true
		}
	}
	return false
}

// copies makes the slots and mechanisms of a twin.
func (m *Model) copies(e event, split, needBase, needOther []bool) (t twin, ok bool) {
	n := len(m.nodes)
	room := make([]int, 6*n) // one allocation: most questions are small
	base, other := room[:n:n], room[n:2*n:2*n]
	t.cards, t.at = room[2*n:2*n:4*n], room[4*n:4*n:6*n]
	ok = true
	add := func(v, do, seen int) int {
		switch {
		case do == free:
			do = seen
		case seen != free && seen != do:
			ok = false
		}
		t.cards, t.at = append(t.cards, m.nodes[v].card), append(t.at, do)
		return len(t.at) - 1
	}
	t.mechanisms = make([]mechanism, 0, n)
	bind := func(v, self, second int, world, otherWorld []int) {
		t.mechanisms = append(t.mechanisms, mechanism{&m.nodes[v], self, second, world, otherWorld})
	}
	for v := range m.nodes {
		base[v], other[v] = none, none
		if !split[v] {
			if !needBase[v] {
				continue
			}
			seen := e.baseSeen[v]
			if seen == free {
				seen = e.seen[v]
			} else if e.seen[v] != free && e.seen[v] != seen {
				return t, false
			}
			base[v] = add(v, e.baseDo[v], seen)
			other[v] = base[v]
			if e.baseDo[v] == free {
				bind(v, base[v], none, base, nil)
			}
			continue
		}
		if needBase[v] {
			base[v] = add(v, e.baseDo[v], e.baseSeen[v])
		}
		if needOther[v] {
			other[v] = add(v, e.do[v], e.seen[v])
		}
		runs, runsOther := needBase[v] && e.baseDo[v] == free, needOther[v] && e.do[v] == free
		switch {
		case runs && runsOther:
			bind(v, base[v], other[v], base, other)
		case runs:
			bind(v, base[v], none, base, nil)
		case runsOther:
			bind(v, other[v], none, other, nil)
		}
	}
	return t, ok
}

// sum is the probability of an event, planned.
type sum struct {
	cost float64
	// run gives it as a number times 2^exp.
	run func() (p float64, exp int)
}

var impossible = &sum{run: func() (float64, int) { return 0, 0 }}

// sum plans the probability of an event. The error is causal.ErrTooLarge.
func (m *Model) sum(e event) (*sum, error) {
	t, ok := m.two(e)
	if !ok {
		return impossible, nil
	}
	if steps, ok := t.steps(); ok {
		return &sum{steps, func() (float64, int) { return t.search(), 0 }}, nil
	}
	return t.eliminate()
}
