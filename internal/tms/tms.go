// Package tms keeps beliefs consistent with their reasons: truth maintenance with
// justifications (JTMS), with assumptions (ATMS), and with reasons that hold by
// default (Program).
package tms

import (
	"errors"
	"slices"
)

// Rule is a reason to believe Head: that all of Pos are believed and none of Neg is.
type Rule struct {
	Head     string
	Pos, Neg []string
}

func (r Rule) equal(o Rule) bool {
	return r.Head == o.Head && sameSet(r.Pos, o.Pos) && sameSet(r.Neg, o.Neg)
}

func sameSet(a, b []string) bool { return slices.Equal(asSet(a), asSet(b)) }

func asSet(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// Program is rules; what is believed is a stable model: exactly what follows from the
// rules once those are dropped that a belief defeats. Nothing supports itself.
type Program struct {
	rules  []Rule
	visits int
}

// Add adds a rule. A rule may be there several times.
func (p *Program) Add(r Rule) { p.rules = append(p.rules, r) }

// Remove takes one equal rule away, in whatever order that lists its parts; ok is
// false if there is none.
func (p *Program) Remove(r Rule) (ok bool) {
	i := slices.IndexFunc(p.rules, r.equal)
	if i < 0 {
		return false
	}
	p.rules = slices.Delete(p.rules, i, i+1)
	return true
}

// MaxVisits is the most rules that a Program goes through in search of models, in all
// calls of Model together: some seconds. Most are for guesses: a belief that defeats, by
// way of others or itself, what supports it has to be guessed.
const MaxVisits = 100_000_000

// ErrTooLarge is the error of a Program that takes more than MaxVisits, and of an ATMS
// with more than MaxEnvironments or MaxComparisons.
var ErrTooLarge = errors.New("truth maintenance: too large")

// Model finds a stable model, in the order of names; ok is false if there is none.
// The error is ErrTooLarge.
func (p *Program) Model() (model []string, ok bool, err error) {
	model = []string{}
	for _, part := range apart(p.rules) {
		s := compile(part)
		s.visits = &p.visits
		in, ok := s.search(make([]guess, len(s.names)))
		if s.spent() {
			return nil, false, ErrTooLarge
		}
		if !ok {
			return nil, false, nil
		}
		for a, name := range s.names {
			if in[a] {
				model = append(model, name)
			}
		}
	}
	slices.Sort(model)
	return model, true, nil
}

// apart divides rules into those that have nothing to do with each other, so that a
// guess about some is not made again for each about others.
func apart(rules []Rule) (parts [][]Rule) {
	leader := map[string]string{}
	var find func(name string) string
	find = func(name string) string {
		if l, ok := leader[name]; ok && l != name {
			leader[name] = find(l)
			return leader[name]
		}
		return name
	}
	for _, r := range rules {
		for _, name := range slices.Concat(r.Pos, r.Neg) {
			leader[find(name)] = find(r.Head)
		}
	}
	place := map[string]int{}
	for _, r := range rules {
		at, ok := place[find(r.Head)]
		if !ok {
			at = len(parts)
			place[find(r.Head)] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], r)
	}
	return parts
}

// guess is what a search supposes of an atom.
type guess uint8

const (
	unknown guess = iota
	isIn
	isOut
)

// solver is rules in numbers.
type solver struct {
	names  []string // sorted
	rules  []numbered
	uses   [][]int // the rules that have an atom in Pos, once for each time
	visits *int    // of the program
}

// spent says that a search is given up.
func (s *solver) spent() bool { return *s.visits > MaxVisits }

type numbered struct {
	head     int
	pos, neg []int
}

func compile(rules []Rule) *solver {
	s := &solver{}
	for _, r := range rules {
		s.names = append(append(append(s.names, r.Head), r.Pos...), r.Neg...)
	}
	s.names = asSet(s.names)
	number := func(names []string) (out []int) {
		for _, name := range names {
			at, _ := slices.BinarySearch(s.names, name)
			out = append(out, at)
		}
		return out
	}
	s.uses = make([][]int, len(s.names))
	for i, r := range rules {
		s.rules = append(s.rules, numbered{number([]string{r.Head})[0], number(r.Pos), number(r.Neg)})
		for _, a := range s.rules[i].pos {
			s.uses[a] = append(s.uses[a], i)
		}
	}
	return s
}

// derive is what follows from the rules none of whose Neg is defeated.
func (s *solver) derive(defeated func(atom int) bool) []bool {
	*s.visits += len(s.rules)
	in := make([]bool, len(s.names))
	missing := make([]int, len(s.rules))
	var ready []int
	for i, r := range s.rules {
		missing[i] = len(r.pos)
		if missing[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		r := s.rules[ready[len(ready)-1]]
		ready = ready[:len(ready)-1]
		if in[r.head] || slices.ContainsFunc(r.neg, defeated) {
			continue
		}
		in[r.head] = true
		for _, i := range s.uses[r.head] {
			if missing[i]--; missing[i] == 0 {
				ready = append(ready, i)
			}
		}
	}
	return in
}

// search finds a stable model that agrees with the guesses. What follows although
// all that may be in defeats is in (low), what does not follow even if only that
// defeats that must be in is out (high); between them something is guessed.
func (s *solver) search(open []guess) (in []bool, ok bool) {
	low := make([]bool, len(s.names))
	var high []bool
	for {
		if s.spent() {
			return nil, false
		}
		high = s.derive(func(a int) bool { return low[a] || open[a] == isIn })
		next := s.derive(func(a int) bool { return high[a] && open[a] != isOut })
		if slices.Equal(next, low) {
			break
		}
		low = next
	}
	for a, g := range open {
		if g == isIn && !high[a] || g == isOut && low[a] {
			return nil, false
		}
	}
	// Only defeats matter: once they are settled, the rest follows.
	for _, r := range s.rules {
		for _, a := range r.neg {
			if open[a] != unknown || high[a] == low[a] {
				continue
			}
			for _, g := range []guess{isOut, isIn} {
				with := slices.Clone(open)
				with[a] = g
				if in, ok := s.search(with); ok {
					return in, true
				}
			}
			return nil, false
		}
	}
	in = s.derive(func(a int) bool { return open[a] == isIn || open[a] == unknown && low[a] })
	for a, g := range open {
		if (g == isIn) != in[a] && g != unknown {
			return nil, false
		}
	}
	return in, true
}
