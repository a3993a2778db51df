package calc

import (
	"math/big"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/causal/classes"
)

// maxNumbered is the most nodes of a numbered graph.
const maxNumbered = 1000

// numbered turns edges between nodes from 1 into edges between nodes from 0, or back.
func numbered(edges []classes.Edge, shift int) []classes.Edge {
	out := make([]classes.Edge, len(edges))
	for i, e := range edges {
		out[i] = classes.Edge{e[0] + shift, e[1] + shift}
	}
	return out
}

// exactly is a count of any size as a number.
func exactly(n *big.Int) jsontext.Value { return jsontext.Value(n.String()) }

func essentialGraph(r *struct {
	N       *float64       `json:"n"`
	DAG     []classes.Edge `json:"dag"`
	Targets [][]int        `json:"intervention_targets"`
}, c *checker) plan {
	n := int(c.capped("/n", r.N, 0, maxNumbered))
	targets := make([][]int, len(r.Targets))
	for i, target := range r.Targets {
		for k, v := range target {
			if v < 1 || v > n {
				c.bad(item(item("/intervention_targets", i), k), "there is no such node")
			}
			targets[i] = append(targets[i], v-1)
		}
	}
	if c.fault != nil {
		return plan{}
	}
	dag, err := classes.NewDAG(n, "dag", numbered(r.DAG, -1))
	if err != nil {
		c.engine(err, "")
		return plan{}
	}
	return plan{dag.SizeCost(), func() (any, *Error) {
		p := classes.Essential(dag, targets)
		return struct {
			Directed   []classes.Edge `json:"directed"`
			Undirected []classes.Edge `json:"undirected"`
			Size       jsontext.Value `json:"class_size"`
		}{numbered(p.Directed(), 1), numbered(p.Undirected(), 1), exactly(p.Size())}, nil
	}}
}

// pdagRequest is a graph with directed and undirected edges.
type pdagRequest struct {
	N          *float64       `json:"n"`
	Directed   []classes.Edge `json:"directed"`
	Undirected []classes.Edge `json:"undirected"`
}

// read makes the graph; nil after a fault.
func (r *pdagRequest) read(c *checker) *classes.PDAG {
	n := c.capped("/n", r.N, 0, maxNumbered)
	if c.fault != nil {
		return nil
	}
	p, err := classes.NewPDAG(int(n), numbered(r.Directed, -1), numbered(r.Undirected, -1))
	if err != nil {
		c.engine(err, "")
		return nil
	}
	return p
}

func extensions(r *pdagRequest, c *checker) plan {
	p := r.read(c)
	if c.fault != nil {
		return plan{}
	}
	return plan{p.ExtendCost(), func() (any, *Error) {
		all := [][]classes.Edge{}
		for arrows := range p.Extensions() {
			all = append(all, numbered(arrows, 1))
		}
		return struct {
			All [][]classes.Edge `json:"all_extensions"`
		}{all}, nil
	}}
}

func experimentTarget(r *pdagRequest, c *checker) plan {
	p := r.read(c)
	if c.fault != nil {
		return plan{}
	}
	return plan{p.ExperimentCost(), func() (any, *Error) {
		if !p.Extendable() {
			return nil, &Error{BadRequest, "", "no DAG has this graph as its class"}
		}
		best := p.BestExperiment()
		out := struct {
			Single []int `json:"optimal_single_target"`
			Set    []int `json:"optimal_any_size_target"`
		}{[]int{}, []int{}}
		if best.Single >= 0 {
			out.Single = append(out.Single, best.Single+1)
		}
		for _, v := range best.Set {
			out.Set = append(out.Set, v+1)
		}
		return out, nil
	}}
}

// independence is [a, b, [given…]].
type independence struct {
	a, b  string
	given names
}

func (i *independence) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var parts [3]jsontext.Value
	if err := json.UnmarshalDecode(dec, &parts); err != nil {
		return err
	}
	for k, into := range []any{&i.a, &i.b, &i.given} {
		if err := json.Unmarshal(parts[k], into); err != nil {
			return err
		}
	}
	return nil
}

// independencies are all independencies of some variables.
type independencies struct {
	Variables   []string       `json:"variables"`
	Independent []independence `json:"independent"`
}

// read makes the class; p is nil after a fault.
func (r *independencies) read(c *checker) (p *classes.PDAG, vStructures [][3]int, size *big.Int) {
	find := c.finder("/variables", r.Variables)
	if len(r.Variables) > maxNumbered {
		c.note(TooLarge, "/variables", "the limit is %d variables", maxNumbered)
	}
	var list []classes.Independence
	for k, i := range r.Independent {
		at := item("/independent", k)
		one := classes.Independence{A: find(item(at, 0), i.a), B: find(item(at, 1), i.b)}
		if i.a == i.b {
			c.bad(item(at, 1), "a variable is not independent of itself")
		}
		for n, name := range i.given {
			if name == i.a || name == i.b {
				c.bad(item(item(at, 2), n), "the condition names one of the two")
			}
			one.Given = append(one.Given, find(item(item(at, 2), n), name))
		}
		list = append(list, one)
	}
	if c.fault != nil {
		return nil, nil, nil
	}
	return classes.FromIndependencies(len(r.Variables), list)
}

// finder checks a list of distinct names and finds the place of one in it.
func (c *checker) finder(pointer string, list []string) func(pointer, name string) int {
	index := map[string]int{}
	for i, name := range list {
		if _, twice := index[name]; twice {
			c.bad(item(pointer, i), "a name stands twice")
		}
		index[name] = i
	}
	return func(pointer, name string) int {
		i, ok := index[name]
		if !ok {
			c.bad(pointer, "there is no variable %q", name)
		}
		return i
	}
}

func cpdagFromIndependencies(r *independencies, c *checker) plan {
	p, vStructures, size := r.read(c)
	if c.fault != nil {
		return plan{}
	}
	return planned(0, func() any {
		name := func(edges []classes.Edge) [][]string {
			out := [][]string{}
			for _, e := range edges {
				out = append(out, []string{r.Variables[e[0]], r.Variables[e[1]]})
			}
			return out
		}
		colliders := [][]string{}
		for _, v := range vStructures {
			colliders = append(colliders, []string{r.Variables[v[0]], r.Variables[v[1]], r.Variables[v[2]]})
		}
		directed, undirected := name(p.Directed()), name(p.Undirected())
		return struct {
			Skeleton   [][]string     `json:"skeleton"`
			Colliders  [][]string     `json:"v_structures"`
			Size       jsontext.Value `json:"mec_size"`
			Directed   [][]string     `json:"directed"`
			Undirected [][]string     `json:"undirected"`
		}{slices.Concat(directed, undirected), colliders, exactly(size), directed, undirected}
	})
}

func mecRelation(r *struct {
	independencies
	Relation classes.Relation `json:"relation"`
	X        string           `json:"x"`
	Y        string           `json:"y"`
}, c *checker) plan {
	relation := oneOf(c, "/relation", r.Relation, classes.DirectlyCauses, classes.CausesViaAnother, classes.IndirectCause, classes.HasCommonCause, classes.HasCommonEffect)
	find := c.finder("/variables", r.Variables)
	x, y := find("/x", r.X), find("/y", r.Y)
	if c.fault == nil && x == y {
		c.bad("/y", "want two variables")
	}
	p, _, size := r.independencies.read(c)
	if c.fault != nil {
		return plan{}
	}
	if size.Sign() == 0 {
		c.bad("/independent", "no DAG has these independencies, and no others")
	}
	members, _ := size.Float64()
	return plan{(members + 1) * p.SizeCost(), func() (any, *Error) {
		return struct {
			Value bool `json:"value"`
		}{p.Always(relation, x, y)}, nil
	}}
}
