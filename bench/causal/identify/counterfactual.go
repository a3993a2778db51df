package identify

import (
	"fmt"
	"slices"
	"strings"

	"assay/bench/causal/graph"
)

// Atom says that a variable has a value in the world in which Do was done; Do is
// empty in the actual world. Values are numbers from 0. A variable may have more of
// them than are named.
type Atom struct {
	Var, Value int
	Do         map[int]int
}

// Available says which distributions are known.
type Available string

// The distributions that are known.
const (
	Observations  Available = "observations"  // P(V)
	Interventions Available = "interventions" // P(V | do z) for every z, also for none
)

// Verdict is what is known of P(gamma | delta).
type Verdict string

// The verdicts.
const (
	Identifiable    Verdict = "identifiable"
	NotIdentifiable Verdict = "not_identifiable"
	Undefined       Verdict = "undefined" // delta is impossible in every model
)

// Counterfactual says whether P(gamma | delta) is a function of what is available in
// every model of the graph, whatever the ranges of its variables. constant is 0 or 1
// where the answer is that in every model, else nil.
//
// It follows Correa, Lee and Bareinboim (2021): the event and its ancestors in each
// world are written as one product over c-components of responses V_pa. What P(delta)
// has in common with it cancels. The rest is identifiable if and only if no
// c-component has two responses of one variable, responses to two values of one
// parent, or one to another value of a member than it has, and each follows from
// what is available.
func Counterfactual(g *graph.Graph, gamma, delta []Atom, available Available) (v Verdict, constant *float64) {
	known := func(x float64) (Verdict, *float64) { return Identifiable, &x }
	condition, ok := unfold(g, delta, nil)
	if !ok {
		return Undefined, nil
	}
	both, ok := unfold(g, slices.Concat(delta, gamma), nil) // in this order, for equal formulas
	if !ok {
		return known(0)
	}
	if follows(g, gamma, delta) {
		return known(1)
	}
	over, under := both.groups(), condition.groups()
	for key := range over {
		if _, common := under[key]; common {
			delete(over, key)
			delete(under, key)
		}
	}
	for _, groups := range []map[string][]factor{over, under} {
		for _, group := range groups {
			for _, f := range group {
				if !f.consistent() || available == Observations && !f.observable(g) {
					return NotIdentifiable, nil
				}
			}
		}
	}
	return Identifiable, nil
}

// follows says whether gamma holds wherever delta does.
func follows(g *graph.Graph, gamma, delta []Atom) bool {
	u, _ := unfold(g, delta, gamma)
	for _, a := range gamma {
		if x, ok := u.valueOf(a); !ok || x != value(a.Value) {
			return false
		}
	}
	return true
}

// value is a value of a variable: a number from 0, or below 0 one that is summed
// over, by the response that has it.
type value int

func summed(response int) value { return value(-1 - response) }
func (x value) response() int   { return int(-1 - x) }
func (x value) isSummed() bool  { return x < 0 }

// response is what a variable's mechanism gives for values of its parents. Worlds
// in which the parents have the same values share it.
type response struct {
	variable int
	parents  []value // in the order of the graph's parents
	value    value
	asked    bool // an atom says what it is
}

// unfolded is an event as responses.
type unfolded struct {
	g         *graph.Graph
	responses []response
	worlds    map[string]map[int]int // the response of each variable in a world, by the key of its Do
}

func worldKey(do map[int]int) string { return fmt.Sprint(do) } // maps print in the order of their keys

// unfold writes atoms and their ancestors as responses, likewise those of asides,
// whose values it does not take as given. A value that no atom fixes is one of its
// own: nothing is equal but what the atoms force to be. ok is false where they
// contradict each other, that is, in every model.
func unfold(g *graph.Graph, atoms, asides []Atom) (u *unfolded, ok bool) {
	u = &unfolded{g: g, worlds: map[string]map[int]int{}}
	type world struct {
		do     map[int]int
		needed graph.Set
	}
	worlds, keys := map[string]*world{}, []string{}
	fixed := map[string]map[int]int{} // by world and variable
	for i, a := range slices.Concat(atoms, asides) {
		isAtom := i < len(atoms)
		if done, ok := a.Do[a.Var]; ok {
			if isAtom && done != a.Value {
				return nil, false
			}
			continue
		}
		key := worldKey(a.Do)
		if worlds[key] == nil {
			worlds[key], fixed[key] = &world{a.Do, g.NewSet()}, map[int]int{}
			u.worlds[key] = map[int]int{}
			keys = append(keys, key)
		}
		free := g.All()
		for v := range a.Do {
			free.Remove(v)
		}
		worlds[key].needed = worlds[key].needed.Or(g.AncestorsIn(g.NewSet(a.Var), free))
		if isAtom {
			if x, ok := fixed[key][a.Var]; ok && x != a.Value {
				return nil, false
			}
			fixed[key][a.Var] = a.Value
		}
	}
	for _, v := range g.Order() {
		index := map[string]int{}
		for _, key := range keys {
			w := worlds[key]
			if !w.needed.Has(v) {
				continue
			}
			parents := make([]value, len(g.Parents(v)))
			for i, p := range g.Parents(v) {
				if x, ok := w.do[p]; ok {
					parents[i] = value(x)
				} else {
					parents[i] = u.responses[u.worlds[key][p]].value
				}
			}
			at, ok := index[fmt.Sprint(parents)]
			if !ok {
				at = len(u.responses)
				index[fmt.Sprint(parents)] = at
				u.responses = append(u.responses, response{variable: v, parents: parents, value: summed(at)})
			}
			u.worlds[key][v] = at
			if x, ok := fixed[key][v]; ok {
				r := &u.responses[at]
				if r.asked && r.value != value(x) {
					return nil, false
				}
				r.asked, r.value = true, value(x)
			}
		}
	}
	return u, true
}

// valueOf is the value of an atom's variable in its world; ok is false if it is
// none of the event's.
func (u *unfolded) valueOf(a Atom) (x value, ok bool) {
	if done, ok := a.Do[a.Var]; ok {
		return value(done), true
	}
	at, ok := u.worlds[worldKey(a.Do)][a.Var]
	if !ok {
		return 0, false
	}
	return u.responses[at].value, true
}

// factor is the responses of one c-component.
type factor struct {
	g         *graph.Graph
	variables graph.Set
	responses []response
}

// groups are the factors of the event, those that share a summed value together. The
// key of a group is its formula: equal for equal functions of what the atoms say.
func (u *unfolded) groups() map[string][]factor {
	needed := make([]bool, len(u.responses))
	variables := u.g.NewSet()
	var need func(at int)
	need = func(at int) {
		if needed[at] {
			return
		}
		needed[at] = true
		variables.Add(u.responses[at].variable)
		for _, x := range u.responses[at].parents {
			if x.isSummed() {
				need(x.response())
			}
		}
	}
	for at, r := range u.responses {
		if r.asked {
			need(at)
		}
	}
	districts := u.g.Districts(variables)
	factors := make([]factor, len(districts))
	joined := make([]int, len(districts)) // the group of each factor, by its first factor
	of := make([]int, len(u.responses))
	for i, d := range districts {
		factors[i] = factor{u.g, d, nil}
		joined[i] = i
		for at, r := range u.responses {
			if needed[at] && d.Has(r.variable) {
				factors[i].responses = append(factors[i].responses, r)
				of[at] = i
			}
		}
	}
	for i, f := range factors {
		for _, r := range f.responses {
			for _, x := range r.parents {
				if x.isSummed() {
					from, to := joined[of[x.response()]], joined[i]
					for k := range joined {
						if joined[k] == from {
							joined[k] = to
						}
					}
				}
			}
		}
	}
	members := map[int][]factor{}
	for i, f := range factors {
		members[joined[i]] = append(members[joined[i]], f)
	}
	out := map[string][]factor{}
	for _, group := range members {
		out[formula(group)] = group
	}
	return out
}

// formula writes a group with its summed values numbered in the order of their
// responses, which is that of the graph.
func formula(group []factor) string {
	var all []response
	for _, f := range group {
		all = append(all, f.responses...)
	}
	var b strings.Builder
	names := map[value]int{}
	name := func(x value) string {
		if !x.isSummed() {
			return fmt.Sprint(int(x))
		}
		if _, ok := names[x]; !ok {
			names[x] = len(names)
		}
		return fmt.Sprint("s", names[x])
	}
	for _, r := range all {
		fmt.Fprint(&b, r.variable, "(")
		for _, x := range r.parents {
			b.WriteString(name(x) + ",")
		}
		b.WriteString(")=" + name(r.value) + ";")
	}
	return b.String()
}

// consistent says whether one intervention shows all of the factor at once.
func (f factor) consistent() bool {
	of := map[int]value{}
	for _, r := range f.responses {
		if _, twice := of[r.variable]; twice {
			return false
		}
		of[r.variable] = r.value
	}
	for _, r := range f.responses {
		for i, p := range f.g.Parents(r.variable) {
			if x, ok := of[p]; ok && x != r.parents[i] {
				return false
			}
			of[p] = r.parents[i] // a parent outside has one value for all
		}
	}
	return true
}

// observable says whether P(V) gives the factor, if it is consistent.
func (f factor) observable(g *graph.Graph) bool {
	_, hedge, _ := Identify(g, Query{g.All().Minus(f.variables), f.variables, g.NewSet()})
	return hedge == nil
}
