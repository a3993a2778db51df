package calc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
	"assay/bench/causal/graph"
	"assay/bench/causal/identify"
)

// tooLargeToShow is why an estimand or a witness is left out.
const tooLargeToShow = "too_large"

// maxProof is the most that a witness may cost, in steps.
const maxProof = 1e8

func identifyEffect(r *struct {
	graphRequest
	Do      names `json:"do"`
	Outcome names `json:"outcome"`
	Given   names `json:"given"`
}, c *checker) plan {
	g := r.graphRequest.observed(c)
	if len(r.Outcome) == 0 {
		c.bad("/outcome", "an outcome is required")
	}
	if c.fault != nil {
		return plan{}
	}
	q := identify.Query{Do: c.nodes(g, "/do", r.Do), Outcome: c.nodes(g, "/outcome", r.Outcome), Given: c.nodes(g, "/given", r.Given)}
	c.apart(g, "/outcome", r.Outcome, q.Do)
	c.apart(g, "/given", r.Given, q.Do.Or(q.Outcome))
	return plan{identifyCost(g), func() (any, *Error) {
		e, hedge, err := identify.Identify(g, q)
		if hedge == nil {
			var out struct {
				Identifiable bool    `json:"identifiable"`
				Estimand     *string `json:"estimand"`
				unknown
			}
			out.Identifiable, out.unknown = true, because(err == nil, tooLargeToShow)
			if err == nil {
				text := e.String()
				out.Estimand = &text
			}
			return out, nil
		}
		var out struct {
			Identifiable bool              `json:"identifiable"`
			Witness      *identify.Witness `json:"witness"`
			unknown
		}
		proof := hedge.Prove(g, q)
		if proof.Cost() > maxProof {
			out.unknown = unknown{tooLargeToShow}
			return out, nil
		}
		out.Witness, err = proof.Witness()
		if errors.Is(err, causal.ErrTooLarge) {
			out.unknown = unknown{tooLargeToShow}
		} else if err != nil {
			return nil, faultOf(err, "")
		}
		return out, nil
	}}
}

// identifyCost is what it costs to find an estimand or a hedge.
func identifyCost(g *graph.Graph) float64 {
	n := float64(g.Len())
	return n * n * float64(g.Size())
}

func estimate(r *struct {
	graphRequest
	networkRequest
	Do     map[string]string `json:"do"`
	Given  map[string]string `json:"given"`
	Target names             `json:"target"`
}, c *checker) plan {
	g := r.graphRequest.observed(c)
	network := r.networkRequest.read(c)
	if len(r.Target) == 0 {
		c.bad("/target", "a target is required")
	}
	if c.fault != nil {
		return plan{}
	}
	states := make([]int, g.Len())
	for v := range states {
		list := network.States(g.Name(v))
		if list == nil {
			c.bad("/nodes", "the network has no variable %q", g.Name(v))
		}
		states[v] = len(list)
	}
	values := map[int]int{}
	q := identify.Query{Do: g.NewSet(), Outcome: c.nodes(g, "/target", r.Target), Given: g.NewSet()}
	taken := q.Outcome
	for _, part := range []struct {
		field string
		of    map[string]string
		into  graph.Set
	}{{"do", r.Do, q.Do}, {"given", r.Given, q.Given}} {
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			v, ok := g.Node(name)
			at := pointer(part.field, name)
			switch x := slices.Index(network.States(name), part.of[name]); {
			case !ok:
				c.bad(at, "there is no observed node %q", name)
			case taken.Has(v):
				c.bad(at, "a node cannot stand in two of do, given and target")
			case x < 0:
				c.bad(at, "the variable has no state %q", part.of[name])
			default:
				values[v] = x
				part.into.Add(v)
			}
		}
		taken = taken.Or(part.into)
	}
	if c.fault != nil {
		return plan{}
	}
	e, hedge, err := identify.Identify(g, q)
	switch {
	case hedge != nil:
		return planned(0, func() any { return notIdentifiable })
	case err != nil:
		c.engine(err, "")
		return plan{}
	}
	cost := identifyCost(g) + e.Cost(states)
	marginals := map[string]*bayes.Inference{}
	for _, s := range e.Marginals() {
		inf, err := network.Prepare(bayes.Query{Target: g.Names(s)})
		if err != nil { // the marginal is too large
			c.note(TooLarge, "", "%v", faultOf(err, "").Message)
			return plan{}
		}
		marginals[fmt.Sprint(g.Names(s))] = inf
		cost += inf.Cost()
	}
	return plan{cost, func() (any, *Error) {
		joint := &identify.Joint{States: states, Marginal: func(vars []int) []float64 {
			table, _, err := marginals[fmt.Sprint(g.Names(g.NewSet(vars...)))].Run()
			if err != nil {
				panic(err) // without a condition there is none
			}
			return table.P
		}}
		p, err := e.Evaluate(joint, values)
		if err != nil {
			return nil, faultOf(err, "")
		}
		value, err := keyed(inOrder(network, g.Names(q.Outcome), r.Target, p))
		if err != nil {
			return nil, faultOf(err, "")
		}
		return struct {
			Value map[string]float64 `json:"value"`
		}{value}, nil
	}}
}

// inOrder is a distribution over variables as one over the same variables in another
// order.
func inOrder(network *bayes.Network, from, to []string, p []float64) bayes.Table {
	out := bayes.Table{Variables: to, P: make([]float64, len(p))}
	stride := map[string]int{}
	n := 1
	for _, name := range slices.Backward(to) {
		stride[name] = n
		n *= len(network.States(name))
	}
	for _, name := range to {
		out.States = append(out.States, network.States(name))
	}
	for i, x := range p {
		at, left := 0, i
		for _, name := range slices.Backward(from) {
			k := len(network.States(name))
			at += left % k * stride[name]
			left /= k
		}
		out.P[at] = x
	}
	return out
}

// atomRequest says that a variable has a value in the world after do.
type atomRequest struct {
	Var   string                    `json:"var"`
	Value jsontext.Value            `json:"value"`
	Do    map[string]jsontext.Value `json:"do"`
}

func identifyCounterfactual(r *struct {
	graphRequest
	Gamma     []atomRequest `json:"gamma"`
	Delta     []atomRequest `json:"delta"`
	Available string        `json:"available"`
}, c *checker) plan {
	g := r.graphRequest.observed(c)
	available := identify.Interventions
	if oneOf(c, "/available", r.Available, "observations", "interventions", "both") == "observations" {
		available = identify.Observations
	}
	if r.Gamma == nil {
		c.bad("/gamma", "a list of events is required")
	}
	if c.fault != nil {
		return plan{}
	}
	numbers := map[string]int{} // of values, which are numbers or texts
	value := func(pointer string, v jsontext.Value) int {
		key, ok := label(v)
		if !ok {
			c.bad(pointer, "want a number or a text")
		}
		if _, known := numbers[key]; !known {
			numbers[key] = len(numbers)
		}
		return numbers[key]
	}
	read := func(pointer string, list []atomRequest) (out []identify.Atom) {
		for i, a := range list {
			at := item(pointer, i)
			v, ok := g.Node(a.Var)
			if !ok {
				c.bad(at+"/var", "there is no observed node %q", a.Var)
			}
			atom := identify.Atom{Var: v, Value: value(at+"/value", a.Value), Do: map[int]int{}}
			for _, name := range slices.Sorted(maps.Keys(a.Do)) {
				below := at + "/do/" + pointerEscape.Replace(name)
				w, ok := g.Node(name)
				if !ok {
					c.bad(below, "there is no observed node %q", name)
				}
				atom.Do[w] = value(below, a.Do[name])
			}
			out = append(out, atom)
		}
		return out
	}
	gamma, delta := read("/gamma", r.Gamma), read("/delta", r.Delta)
	atoms := float64(len(gamma) + len(delta))
	return plan{(atoms + 1) * (atoms + 1) * identifyCost(g), func() (any, *Error) {
		verdict, constant := identify.Counterfactual(g, gamma, delta, available)
		return struct {
			Result identify.Verdict `json:"result"`
			Value  *float64         `json:"value,omitzero"`
		}{verdict, constant}, nil
	}}
}
