package calc

import (
	"fmt"

	"assay/internal/tms"
)

func programModels(r *struct {
	Steps []struct {
		Op   string `json:"op"`
		Rule *struct {
			Head *string `json:"head"`
			Pos  names   `json:"pos"`
			Neg  names   `json:"neg"`
		} `json:"rule"`
	} `json:"steps"`
}, c *checker) plan {
	if r.Steps == nil {
		c.bad("/steps", "a list of steps is required")
	}
	for i, s := range r.Steps {
		at := item("/steps", i)
		oneOf(c, at+"/op", s.Op, "add", "remove")
		if s.Rule == nil || s.Rule.Head == nil {
			c.bad(at+"/rule", "a rule with a head is required")
		}
	}
	return plan{float64(len(r.Steps) * len(r.Steps)), func() (any, *Error) {
		var p tms.Program
		in := []*[]string{}
		for i, s := range r.Steps {
			rule := tms.Rule{Head: *s.Rule.Head, Pos: s.Rule.Pos, Neg: s.Rule.Neg}
			if s.Op == "add" {
				p.Add(rule)
			} else if !p.Remove(rule) {
				return nil, &Error{BadRequest, item("/steps", i) + "/rule", "there is no such rule"}
			}
			model, ok, err := p.Model()
			if err != nil {
				return nil, &Error{TooLarge, item("/steps", i), fmt.Sprintf("it takes more than %d guesses", tms.MaxGuesses)}
			}
			in = append(in, known(model, ok))
		}
		return struct {
			In []*[]string `json:"in"`
		}{in}, nil
	}}
}

// justification is a reason to believe its head.
type justification struct {
	Head *string `json:"head"`
	Ante names   `json:"ante"`
}

func (j justification) read(c *checker, pointer string) tms.Justification {
	if j.Head == nil {
		c.bad(pointer+"/head", "a head is required")
		return tms.Justification{}
	}
	return tms.Justification{Head: *j.Head, Ante: j.Ante}
}

func currentSupports(r *struct {
	Assumptions    names           `json:"assumptions"`
	Contradiction  names           `json:"contradiction"`
	Justifications []justification `json:"justifications"`
	Steps          []struct {
		Op   string `json:"op"`
		Node string `json:"node"`
	} `json:"steps"`
}, c *checker) plan {
	find := c.finder("/assumptions", r.Assumptions)
	var rules []tms.Justification
	for i, j := range r.Justifications {
		rules = append(rules, j.read(c, item("/justifications", i)))
	}
	if r.Steps == nil {
		c.bad("/steps", "a list of steps is required")
	}
	for i, s := range r.Steps {
		oneOf(c, item("/steps", i)+"/op", s.Op, "enable", "retract")
		find(item("/steps", i)+"/node", s.Node)
	}
	cost := float64(len(r.Steps)+1) * float64(len(rules)+1) * float64(len(rules)+len(r.Assumptions))
	return plan{cost, func() (any, *Error) {
		j := tms.NewJTMS(r.Assumptions, r.Contradiction, rules)
		out := struct {
			In           [][]string            `json:"in"`
			Assumptions  []map[string][]string `json:"assumptions_of"`
			Contradicted []bool                `json:"contradiction_signalled"`
		}{[][]string{}, []map[string][]string{}, []bool{}}
		for _, s := range r.Steps {
			change := j.Enable
			if s.Op == "retract" {
				change = j.Retract
			}
			if err := change(s.Node); err != nil {
				panic(err) // that each is an assumption was checked
			}
			out.In = append(out.In, j.In())
			out.Assumptions = append(out.Assumptions, j.AssumptionsOf())
			out.Contradicted = append(out.Contradicted, j.Contradicted())
		}
		return out, nil
	}}
}

func assumptionLabels(r *struct {
	Assumptions   names `json:"assumptions"`
	Contradiction names `json:"contradiction"`
	Steps         []struct {
		Op string `json:"op"`
		justification
	} `json:"steps"`
}, c *checker) plan {
	c.finder("/assumptions", r.Assumptions)
	if r.Steps == nil {
		c.bad("/steps", "a list of steps is required")
	}
	rules := make([]tms.Justification, len(r.Steps))
	for i, s := range r.Steps {
		oneOf(c, item("/steps", i)+"/op", s.Op, "justify")
		rules[i] = s.justification.read(c, item("/steps", i))
	}
	return plan{float64(len(rules) * len(rules)), func() (any, *Error) {
		a := tms.NewATMS(r.Assumptions, r.Contradiction)
		out := struct {
			Labels  []map[string][][]string `json:"labels"`
			Nogoods [][][]string            `json:"nogoods"`
		}{[]map[string][][]string{}, [][][]string{}}
		for i, rule := range rules {
			if err := a.Justify(rule); err != nil {
				return nil, &Error{TooLarge, item("/steps", i), fmt.Sprintf("a label has more than %d environments", tms.MaxEnvironments)}
			}
			out.Labels = append(out.Labels, a.Labels())
			out.Nogoods = append(out.Nogoods, a.Nogoods())
		}
		return out, nil
	}}
}
