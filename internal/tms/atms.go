package tms

import (
	"cmp"
	"slices"
)

// Environment is a set of assumptions, by their index, as bits.
type Environment []uint64

func (e Environment) in(o Environment) bool {
	for i, w := range e {
		if w&^o[i] != 0 {
			return false
		}
	}
	return true
}

func (e Environment) or(o Environment) Environment {
	out := slices.Clone(e)
	for i, w := range o {
		out[i] |= w
	}
	return out
}

// ATMS knows for every node under which assumptions it holds: its label, the minimal
// consistent environments. An environment is inconsistent if a contradiction follows
// from it; the minimal ones of these are the nogoods.
type ATMS struct {
	assumptions    []string
	contradictions map[string]bool
	rules          []Justification
	uses           map[string][]int         // the rules that have a node in Ante
	labels         map[string][]Environment // of every node that was named
	nogoods        []Environment
	comparisons    int
}

// MaxEnvironments is the most environments that a label, or the nogoods, may have.
const MaxEnvironments = 4096

// MaxComparisons is the most environments that an ATMS holds others against, in all
// calls of Justify together: some seconds.
const MaxComparisons = 1_000_000_000

// NewATMS makes one without justifications. Assumptions are named once.
func NewATMS(assumptions, contradictions []string) *ATMS {
	a := &ATMS{assumptions: assumptions, contradictions: map[string]bool{}, uses: map[string][]int{}, labels: map[string][]Environment{}}
	for _, c := range contradictions {
		a.contradictions[c] = true
	}
	for i, name := range assumptions {
		e := a.empty()
		e[i/64] |= 1 << (i % 64)
		a.labels[name] = []Environment{e}
	}
	for _, name := range assumptions {
		if a.contradictions[name] {
			a.refute(a.labels[name][0])
		}
	}
	return a
}

func (a *ATMS) empty() Environment { return make(Environment, (len(a.assumptions)+63)/64) }

// Justify adds a justification and brings the labels up to date. The error is
// ErrTooLarge; the ATMS is of no use afterwards.
func (a *ATMS) Justify(j Justification) error {
	a.rules = append(a.rules, j)
	for _, name := range append([]string{j.Head}, j.Ante...) {
		if _, ok := a.labels[name]; !ok {
			a.labels[name] = nil
		}
	}
	for _, name := range asSet(j.Ante) {
		a.uses[name] = append(a.uses[name], len(a.rules)-1)
	}
	waiting := make([]bool, len(a.rules))
	for work := []int{len(a.rules) - 1}; len(work) > 0; work = work[1:] {
		r := a.rules[work[0]]
		waiting[work[0]] = false
		changed, err := a.apply(r)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		for _, next := range a.uses[r.Head] { // a nogood takes away alone: nothing follows from it
			if !waiting[next] {
				waiting[next] = true
				work = append(work, next)
			}
		}
	}
	return nil
}

// apply adds to the head's label what the antecedents' labels give together.
func (a *ATMS) apply(j Justification) (changed bool, err error) {
	together := []Environment{a.empty()}
	for _, name := range j.Ante {
		var next []Environment
		for _, e := range together {
			for _, o := range a.labels[name] {
				a.comparisons += len(next) + len(a.nogoods) + 1
				if next, _ = minimal(next, e.or(o), a.nogoods); len(next) > MaxEnvironments || a.comparisons > MaxComparisons {
					return false, ErrTooLarge
				}
			}
		}
		together = next
	}
	for _, e := range together {
		if a.contradictions[j.Head] {
			if !a.refute(e) {
				continue
			}
			changed = true
		} else {
			label, added := minimal(a.labels[j.Head], e, a.nogoods)
			if !added {
				continue
			}
			a.labels[j.Head], changed = label, true
		}
		if len(a.labels[j.Head]) > MaxEnvironments || len(a.nogoods) > MaxEnvironments {
			return false, ErrTooLarge
		}
	}
	return changed, nil
}

// minimal adds an environment to a list of minimal ones, unless it holds one of them
// or a nogood.
func minimal(list []Environment, e Environment, nogoods []Environment) (with []Environment, added bool) {
	inside := func(o Environment) bool { return o.in(e) }
	if slices.ContainsFunc(list, inside) || slices.ContainsFunc(nogoods, inside) {
		return list, false
	}
	return append(slices.DeleteFunc(slices.Clone(list), e.in), e), true
}

// refute makes an environment a nogood and takes what holds it from every label.
func (a *ATMS) refute(e Environment) (added bool) {
	if a.nogoods, added = minimal(a.nogoods, e, nil); added {
		for name, label := range a.labels {
			a.labels[name] = slices.DeleteFunc(label, e.in)
		}
	}
	return added
}

// Labels are the labels of all nodes named so far but the assumptions, small
// environments first, the names in each in the order of the assumptions.
func (a *ATMS) Labels() map[string][][]string {
	out := map[string][][]string{}
	for name, label := range a.labels {
		if !slices.Contains(a.assumptions, name) {
			out[name] = a.write(label)
		}
	}
	return out
}

// Nogoods are the minimal inconsistent environments, in the same order.
func (a *ATMS) Nogoods() [][]string { return a.write(a.nogoods) }

func (a *ATMS) write(list []Environment) [][]string {
	var places [][]int
	for _, e := range list {
		var in []int
		for i := range a.assumptions {
			if e[i/64]>>(i%64)&1 == 1 {
				in = append(in, i)
			}
		}
		places = append(places, in)
	}
	slices.SortFunc(places, func(x, y []int) int { return cmp.Or(cmp.Compare(len(x), len(y)), slices.Compare(x, y)) })
	out := [][]string{}
	for _, in := range places {
		names := []string{}
		for _, i := range in {
			names = append(names, a.assumptions[i])
		}
		out = append(out, names)
	}
	return out
}
