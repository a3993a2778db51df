package calc

import (
	"fmt"

	"assay/bench/causal/scm"
)

// scmRequest is a model with a question about it.
type scmRequest struct {
	Nodes []struct {
		Name    *string  `json:"name"`
		Parents []string `json:"parents"`
		Tables  []struct {
			P     *float64 `json:"p"`
			Table []int    `json:"table"`
		} `json:"tables"`
	} `json:"nodes"`
	Latent  []string       `json:"latent"`
	Rung    *float64       `json:"rung"`
	Target  map[string]int `json:"target"`
	Given   map[string]int `json:"given"`
	Do      map[string]int `json:"do"`
	Factual map[string]int `json:"factual"`
	All     bool           `json:"all"`
}

// model makes the model; nil after a fault.
func (r *scmRequest) model(c *checker) *scm.Model {
	if len(r.Nodes) == 0 {
		c.bad("/nodes", "a list of nodes is required")
	}
	nodes := make([]scm.Node, len(r.Nodes))
	for i, v := range r.Nodes {
		if v.Name == nil {
			c.bad(fmt.Sprintf("/nodes/%d/name", i), "a name is required")
			continue
		}
		nodes[i] = scm.Node{Name: *v.Name, Parents: v.Parents}
		for k, t := range v.Tables {
			p := c.number(fmt.Sprintf("/nodes/%d/tables/%d/p", i, k), t.P)
			nodes[i].Tables = append(nodes[i].Tables, scm.Table{P: p, Values: t.Table})
		}
	}
	if c.fault != nil {
		return nil
	}
	m, err := scm.New(nodes, r.Latent)
	if err != nil {
		c.engine(err, "")
		return nil
	}
	return m
}

func scmRungs(r *scmRequest, c *checker) plan {
	m := r.model(c)
	rung := int64(0)
	if r.Rung != nil || !r.All {
		rung = c.count("/rung", r.Rung, 1, 3)
	}
	if len(r.Target) == 0 {
		c.bad("/target", "a target is required")
	}
	if c.fault != nil {
		return plan{}
	}
	q := scm.Query{Target: r.Target, Given: r.Given, Do: r.Do, Factual: r.Factual}
	var one *scm.Inference
	var all *scm.RungsInference
	var err error
	cost := 0.0
	if rung > 0 {
		if one, err = m.Prepare(scm.Rung(rung), q); err == nil {
			cost += one.Cost()
		}
	}
	if r.All && err == nil {
		if all, err = m.PrepareAll(q); err == nil {
			cost += all.Cost()
		}
	}
	if err != nil {
		c.engine(err, "")
		return plan{}
	}
	return plan{cost, func() (any, *Error) {
		var out struct {
			Value *float64 `json:"value,omitzero"`
			*scm.Rungs
		}
		if one != nil {
			v, err := one.Run()
			if err != nil {
				return nil, faultOf(err, "").blame(oneMember(member{"given", len(r.Given)}, member{"factual", len(r.Factual)}))
			}
			out.Value = &v
		}
		if all != nil {
			rungs := all.Run()
			out.Rungs = &rungs
		}
		return out, nil
	}}
}
