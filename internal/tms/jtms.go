package tms

import (
	"fmt"
	"slices"
)

// Justification is a reason to believe Head: that all of Ante are believed.
type Justification struct {
	Head string
	Ante []string
}

// JTMS believes what follows from the enabled assumptions. Each belief has one
// current support, which never rests on the belief itself, and which it keeps while
// that holds.
type JTMS struct {
	assumptions    map[string]bool // whether each is enabled
	contradictions []string
	rules          []Justification
	support        map[string]int // of what is in: its rule, or assumed
}

const assumed = -1

// NewJTMS makes one with no assumption enabled.
func NewJTMS(assumptions, contradictions []string, rules []Justification) *JTMS {
	j := &JTMS{map[string]bool{}, contradictions, rules, map[string]int{}}
	for _, a := range assumptions {
		j.assumptions[a] = false
	}
	j.propagate()
	return j
}

// Enable takes an assumption up; the error says that it is none.
func (j *JTMS) Enable(assumption string) error {
	if _, ok := j.assumptions[assumption]; !ok {
		return fmt.Errorf("%q is no assumption", assumption)
	}
	j.assumptions[assumption] = true
	if _, in := j.support[assumption]; !in {
		j.support[assumption] = assumed
	}
	j.propagate()
	return nil
}

// Retract lets an assumption go; the error says that it is none.
func (j *JTMS) Retract(assumption string) error {
	if _, ok := j.assumptions[assumption]; !ok {
		return fmt.Errorf("%q is no assumption", assumption)
	}
	j.assumptions[assumption] = false
	// What rests on it is out at first, and then whatever still has a reason is in.
	kept := map[string]int{}
	for again := true; again; {
		again = false
		for node, rule := range j.support {
			if _, ok := kept[node]; ok {
				continue
			}
			if rule == assumed && j.assumptions[node] || rule != assumed && j.holds(rule, kept) {
				kept[node] = rule
				again = true
			}
		}
	}
	j.support = kept
	j.propagate()
	return nil
}

func (j *JTMS) holds(rule int, in map[string]int) bool {
	return !slices.ContainsFunc(j.rules[rule].Ante, func(a string) bool { _, ok := in[a]; return !ok })
}

// propagate gives a support to all that has a reason: enabled assumptions, then by
// the first rule that holds, round by round.
func (j *JTMS) propagate() {
	for a, enabled := range j.assumptions {
		if _, in := j.support[a]; enabled && !in {
			j.support[a] = assumed
		}
	}
	for again := true; again; {
		again = false
		for i, r := range j.rules {
			if _, in := j.support[r.Head]; !in && j.holds(i, j.support) {
				j.support[r.Head] = i
				again = true
			}
		}
	}
}

// In lists what is believed, in the order of names.
func (j *JTMS) In() []string {
	in := []string{}
	for node := range j.support {
		in = append(in, node)
	}
	slices.Sort(in)
	return in
}

// AssumptionsOf lists, for what is believed and no assumption, the enabled
// assumptions under its current support, in the order of names.
func (j *JTMS) AssumptionsOf() map[string][]string {
	known := map[string][]string{}
	var under func(node string) []string
	under = func(node string) []string {
		if list, ok := known[node]; ok {
			return list
		}
		list := []string{}
		if rule := j.support[node]; rule == assumed {
			list = append(list, node)
		} else {
			for _, a := range j.rules[rule].Ante {
				list = append(list, under(a)...)
			}
			list = asSet(list)
		}
		known[node] = list
		return list
	}
	out := map[string][]string{}
	for node := range j.support {
		if _, ok := j.assumptions[node]; !ok {
			out[node] = append([]string{}, under(node)...)
		}
	}
	return out
}

// Contradicted says whether a contradiction is believed.
func (j *JTMS) Contradicted() bool {
	return slices.ContainsFunc(j.contradictions, func(c string) bool { _, in := j.support[c]; return in })
}
