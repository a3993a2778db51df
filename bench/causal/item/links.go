package item

import (
	"slices"

	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// The signs of effects.
const (
	positive = "positive"
	negative = "negative"
	mixed    = "mixed" // it depends on what else is so
)

// least is how far a probability moves at least for that to be no rounding.
const least = 1e-12

// Links are the effects of a binary world's observed variables on each other: the
// direct ones with their sign, and the condition without which there is none, and those
// through others alone with the sign of the whole.
func Links(w *world.World) []record.Link {
	observed := w.Observed()
	out := []record.Link{}
	for _, v := range w.Nodes {
		if !slices.Contains(observed, v.Name) {
			continue
		}
		for _, cause := range observed {
			l := record.Link{Cause: cause, Effect: v.Name, Mediators: between(w, cause, v.Name)}
			if p := slices.Index(v.Parents, cause); p >= 0 {
				l.Direct = true
				l.Sign, l.Condition = direct(v, p)
			} else if len(l.Mediators) > 0 {
				e := effect(w, cause, v.Name, nil)
				l.Sign = sign(e > least, e < -least)
			}
			if l.Sign != "" {
				out = append(out, l)
			}
		}
	}
	return out
}

// sign is "" where there is no effect.
func sign(up, down bool) string {
	switch {
	case up && down:
		return mixed
	case up:
		return positive
	case down:
		return negative
	}
	return ""
}

// direct is the sign of a parent's effect on a node over all values of the others, and
// the values of others that each effect needs.
func direct(v scm.Node, parent int) (string, record.Values) {
	k := len(v.Parents)
	bit := func(p int) int { return 1 << (k - 1 - p) }
	var up, down bool
	needs := make([][2]bool, k) // whether there is an effect with this parent 0, and 1
	for row := range 1 << k {
		if row&bit(parent) != 0 {
			continue
		}
		moved := 0.0
		for _, t := range v.Tables {
			moved += float64(t.P * float64(t.Values[row|bit(parent)]-t.Values[row]))
		}
		up, down = up || moved > least, down || moved < -least
		if moved <= least && moved >= -least {
			continue
		}
		for p := range k {
			needs[p][row/bit(p)%2] = true
		}
	}
	var condition record.Values
	for p, with := range needs {
		if p == parent || with[0] == with[1] {
			continue
		}
		if condition == nil {
			condition = record.Values{}
		}
		condition[v.Parents[p]] = 0
		if with[1] {
			condition[v.Parents[p]] = 1
		}
	}
	return sign(up, down), condition
}

// between lists the observed variables on directed paths from one variable to another.
func between(w *world.World, from, to string) []string {
	after, before := map[string]bool{from: true}, map[string]bool{to: true}
	for _, v := range w.Nodes {
		after[v.Name] = after[v.Name] || slices.ContainsFunc(v.Parents, func(p string) bool { return after[p] })
	}
	for _, v := range slices.Backward(w.Nodes) {
		for _, p := range v.Parents {
			before[p] = before[p] || before[v.Name]
		}
	}
	var out []string
	for _, name := range w.Observed() {
		if after[name] && before[name] && name != from && name != to {
			out = append(out, name)
		}
	}
	return out
}

// links asks what causes what, under a mechanism that is shown.
func (f *Frame) links(key, topic string, w *world.World) *Item {
	it := f.start(key, topic, topic, structure, w, record.Query{Kind: record.Links})
	it.Blobs = []Blob{f.mechanism(w)}
	it.Case.Assumptions = append(it.Case.Assumptions, exact)
	it.Case.AnswerFormat = []string{"status", "edges", "confidence"}
	it.Case.Question = f.say(key,
		"Which variables have an effect on which? Give each direct effect with its sign and the condition without which there is none, and the others with their mediators.",
		"Say what acts on what: at first hand, which way and under which condition, and what acts through others, through which.")
	it.Oracle.Links = Links(w)
	it.Oracle.Formula = "the effects of the mechanism"
	return it
}
