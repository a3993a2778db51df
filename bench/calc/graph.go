package calc

import (
	"assay/bench/causal/graph"
)

// graphRequest is a causal graph.
type graphRequest struct {
	Nodes      []string    `json:"nodes"`
	Directed   [][2]string `json:"directed"`
	Bidirected [][2]string `json:"bidirected"`
	Latent     names       `json:"latent"`
}

// read makes the graph and finds its latent nodes; g is nil after a fault.
func (r *graphRequest) read(c *checker) (g *graph.Graph, latent graph.Set) {
	if r.Nodes == nil {
		c.bad("/nodes", "a list of nodes is required")
	}
	if c.fault != nil {
		return nil, nil
	}
	g, err := graph.New(r.Nodes, r.Directed, r.Bidirected)
	if err != nil {
		c.engine(err, "")
		return nil, nil
	}
	return g, c.nodes(g, "/latent", r.Latent)
}

// observed is the graph over the observed nodes alone; nil after a fault.
func (r *graphRequest) observed(c *checker) *graph.Graph {
	g, latent := r.read(c)
	if c.fault != nil {
		return nil
	}
	if latent.Empty() {
		return g
	}
	return g.Project(g.All().Minus(latent))
}

// nodes finds the nodes that a list names.
func (c *checker) nodes(g *graph.Graph, pointer string, list names) graph.Set {
	s := g.NewSet()
	for i, name := range list {
		v, ok := g.Node(name)
		switch {
		case !ok:
			c.bad(item(pointer, i), "there is no observed node %q", name)
		case s.Has(v):
			c.bad(item(pointer, i), "a node is named twice")
		default:
			s.Add(v)
		}
	}
	return s
}

// apart checks that a list names no node that others has too.
func (c *checker) apart(g *graph.Graph, pointer string, list names, others graph.Set) {
	for i, name := range list {
		if v, ok := g.Node(name); ok && others.Has(v) {
			c.bad(item(pointer, i), "a node cannot stand in two of the lists")
		}
	}
}

func dSeparated(r *struct {
	graphRequest
	X     names `json:"x"`
	Y     names `json:"y"`
	Given names `json:"given"`
}, c *checker) plan {
	g, _ := r.graphRequest.read(c)
	if c.fault != nil {
		return plan{}
	}
	x, y, given := c.nodes(g, "/x", r.X), c.nodes(g, "/y", r.Y), c.nodes(g, "/given", r.Given)
	return planned(g.Size(), func() any {
		return struct {
			Separated bool `json:"separated"`
		}{g.Separated(x, y, given)}
	})
}

// effectOn names a treatment and an outcome, each of one node or more.
type effectOn struct {
	graphRequest
	Treatment names `json:"treatment"`
	Outcome   names `json:"outcome"`
}

// read gives the graph, treatment, outcome and latent nodes; g is nil after a fault.
func (r *effectOn) read(c *checker) (g *graph.Graph, x, y, latent graph.Set) {
	g, latent = r.graphRequest.read(c)
	if len(r.Treatment) == 0 {
		c.bad("/treatment", "a treatment is required")
	}
	if len(r.Outcome) == 0 {
		c.bad("/outcome", "an outcome is required")
	}
	if c.fault != nil {
		return nil, nil, nil, nil
	}
	x, y = c.nodes(g, "/treatment", r.Treatment), c.nodes(g, "/outcome", r.Outcome)
	c.apart(g, "/outcome", r.Outcome, x)
	return g, x, y, latent
}

// sets answers about the sets that a criterion takes: whether one is, or which are.
func (c *checker) sets(g *graph.Graph, f *graph.Family, set *names) plan {
	if set != nil {
		s := c.nodes(g, "/set", *set)
		return planned(g.Size(), func() any {
			return struct {
				Valid bool `json:"valid"`
			}{f.Valid(s)}
		})
	}
	return plan{f.Cost(), func() (any, *Error) {
		minimal, count := f.List()
		out := struct {
			Minimal [][]string `json:"minimal_sets"`
			Count   int        `json:"count"`
		}{[][]string{}, count}
		for _, s := range minimal {
			out.Minimal = append(out.Minimal, g.Names(s))
		}
		return out, nil
	}}
}

func adjustment(r *struct {
	effectOn
	Criterion string `json:"criterion"`
	Set       *names `json:"set"`
}, c *checker) plan {
	g, x, y, latent := r.effectOn.read(c)
	criterion := oneOf(c, "/criterion", r.Criterion, "backdoor", "adjustment")
	if c.fault != nil {
		return plan{}
	}
	if criterion == "backdoor" {
		return c.sets(g, g.BackDoor(x, y, latent), r.Set)
	}
	return c.sets(g, g.Adjustment(x, y, latent), r.Set)
}

func frontDoor(r *struct {
	effectOn
	Set *names `json:"set"`
}, c *checker) plan {
	g, x, y, latent := r.effectOn.read(c)
	if c.fault != nil {
		return plan{}
	}
	return c.sets(g, g.FrontDoor(x, y, latent), r.Set)
}

func instruments(r *struct{ effectOn }, c *checker) plan {
	g, _, _, latent := r.effectOn.read(c)
	if len(r.Treatment) > 1 {
		c.bad("/treatment/1", "want one node")
	}
	if len(r.Outcome) > 1 {
		c.bad("/outcome/1", "want one node")
	}
	if c.fault != nil {
		return plan{}
	}
	x, _ := g.Node(r.Treatment[0])
	y, _ := g.Node(r.Outcome[0])
	return plan{g.InstrumentsCost(x, y, latent), func() (any, *Error) {
		type instrument struct {
			I string   `json:"I"`
			Z []string `json:"Z"`
		}
		list := []instrument{}
		for _, i := range g.Instruments(x, y, latent) {
			list = append(list, instrument{g.Name(i.Node), g.Names(i.Given)})
		}
		return struct {
			Instruments []instrument `json:"instruments"`
		}{list}, nil
	}}
}
