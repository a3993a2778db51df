package calc

import (
	"fmt"

	"assay/internal/tms"
)

// modelCost is what a model costs for each of its rules, apart from the search.
const modelCost = 100

// maxListed is the most beliefs, assumptions and environments that a reply lists, all
// steps together.
const maxListed = 1 << 20

func tooMuchToList(step int) *Error {
	return &Error{TooLarge, item("/steps", step), fmt.Sprintf("a reply lists at most %d beliefs, assumptions and environments", maxListed)}
}

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
	return plan{modelCost * float64(len(r.Steps)) * float64(len(r.Steps)), func() (any, *Error) {
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
				return nil, &Error{TooLarge, item("/steps", i), fmt.Sprintf("it takes more than %d visits of rules", tms.MaxVisits)}
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
		listed := 0
		for i, s := range r.Steps {
			change := j.Enable
			if s.Op == "retract" {
				change = j.Retract
			}
			if err := change(s.Node); err != nil {
				panic(err) // that each is an assumption was checked
			}
			in, under := j.In(), j.AssumptionsOf()
			listed += len(in)
			for _, list := range under {
				listed += len(list)
			}
			if listed > maxListed {
				return nil, tooMuchToList(i)
			}
			out.In, out.Assumptions = append(out.In, in), append(out.Assumptions, under)
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
		listed := 0
		for i, rule := range rules {
			if err := a.Justify(rule); err != nil {
				return nil, &Error{TooLarge, item("/steps", i), fmt.Sprintf("a label has more than %d environments, or takes more than %d comparisons", tms.MaxEnvironments, tms.MaxComparisons)}
			}
			labels, nogoods := a.Labels(), a.Nogoods()
			listed += len(nogoods)
			for _, label := range labels {
				listed += len(label)
			}
			if listed > maxListed {
				return nil, tooMuchToList(i)
			}
			out.Labels, out.Nogoods = append(out.Labels, labels), append(out.Nogoods, nogoods)
		}
		return out, nil
	}}
}
