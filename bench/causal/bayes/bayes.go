// Package bayes answers questions about discrete Bayesian networks exactly:
// posteriors of any variables given evidence, likelihoods and interventions, the
// probability of evidence, and effects.
//
// Prepare checks a question and tells what it costs; Run works it out. Only the
// ancestors of what is asked and observed take part.
package bayes

import (
	"fmt"
	"maps"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/elim"
)

// Node is one variable with its conditional probabilities.
type Node struct {
	Name    string
	States  []string
	Parents []string
	// Rows has P(state) in the order of States, a row for each combination of the
	// parents' states, the last parent fastest.
	Rows [][]float64
}

// Network is a Bayesian network. It does not change.
type Network struct {
	nodes []node
	index map[string]int
	order []int // parents first
}

type node struct {
	name    string
	states  []string
	parents []int
	family  []int     // the parents, then the node itself
	table   []float64 // over family
}

// New makes a network. Its errors are a *causal.Fault whose places are those of the
// form {"variables": {name: states}, "cpts": {name: {parents, rows}}}.
func New(nodes []Node) (*Network, error) {
	n := &Network{nodes: make([]node, len(nodes)), index: make(map[string]int, len(nodes))}
	for i, v := range nodes {
		if _, twice := n.index[v.Name]; twice {
			return nil, causal.Badf(causal.At("variables", v.Name), "there are two variables of this name")
		}
		n.index[v.Name] = i
		if len(v.States) == 0 {
			return nil, causal.Badf(causal.At("variables", v.Name), "a variable has at least one state")
		}
		if s, twice := causal.Repeated(v.States); twice {
			return nil, causal.Badf(causal.At("variables", v.Name, s), "there are two states of this name")
		}
		n.nodes[i] = node{name: v.Name, states: slices.Clone(v.States)}
	}
	for i, v := range nodes {
		if err := n.connect(i, v); err != nil {
			return nil, err
		}
	}
	order, on, ok := causal.TopologicalOrder(len(nodes), func(v int) []int { return n.nodes[v].parents })
	if !ok {
		return nil, &causal.Fault{Kind: causal.Cyclic, At: causal.At("cpts", n.nodes[on].name, "parents"), Message: "the variable is its own ancestor"}
	}
	n.order = order
	return n, nil
}

// connect reads the parents and rows of a node.
func (n *Network) connect(i int, v Node) error {
	at := func(path ...any) []string { return append(causal.At("cpts", v.Name), causal.At(path...)...) }
	self := &n.nodes[i]
	for k, name := range v.Parents {
		p, ok := n.index[name]
		if !ok {
			return causal.Badf(at("parents", k), "there is no variable %q", name)
		}
		self.parents = append(self.parents, p)
	}
	if k, twice := causal.Repeated(v.Parents); twice {
		return causal.Badf(at("parents", k), "a parent is named twice")
	}
	rows := 1
	for _, p := range self.parents {
		if rows *= len(n.nodes[p].states); rows > len(v.Rows) {
			return causal.Badf(at("rows"), "%d rows are too few: one is needed for each combination of the parents' states", len(v.Rows))
		}
	}
	if rows != len(v.Rows) {
		return causal.Badf(at("rows"), "want %d rows, one for each combination of the parents' states, not %d", rows, len(v.Rows))
	}
	self.family = append(slices.Clone(self.parents), i)
	self.table = make([]float64, 0, rows*len(v.States))
	for r, row := range v.Rows {
		if len(row) != len(v.States) {
			return causal.Badf(at("rows", r), "want %d probabilities, one a state, not %d", len(v.States), len(row))
		}
		if fault := causal.CheckDistribution(row, func(path ...any) []string { return append(at("rows", r), causal.At(path...)...) }); fault != nil {
			return fault
		}
		self.table = append(self.table, row...)
	}
	return nil
}

// Variables lists the names, in the order in which New got them.
func (n *Network) Variables() []string {
	out := make([]string, len(n.nodes))
	for i, v := range n.nodes {
		out[i] = v.name
	}
	return out
}

// States lists the states of a variable; nil where there is none of the name.
func (n *Network) States(name string) []string {
	i, ok := n.index[name]
	if !ok {
		return nil
	}
	return slices.Clone(n.nodes[i].states)
}

// Parents lists the parents of a variable.
func (n *Network) Parents(name string) []string {
	i, ok := n.index[name]
	if !ok {
		return nil
	}
	out := make([]string, len(n.nodes[i].parents))
	for k, p := range n.nodes[i].parents {
		out[k] = n.nodes[p].name
	}
	return out
}

// Query asks for P(Target | do(Do), Evidence, Virtual): first Do cuts, then the rest
// conditions.
type Query struct {
	Target   []string // distinct
	Do       map[string]string
	Evidence map[string]string
	// Virtual has the likelihoods of a finding, one for each state of the variable.
	Virtual map[string][]float64
}

// Table is a distribution of Variables, the last fastest.
type Table struct {
	Variables []string
	States    [][]string
	P         []float64
}

// Inference is a query that was checked and planned.
type Inference struct {
	net  *Network
	ask  question
	plan *elim.Plan // nil where evidence contradicts the intervention
}

// question is a Query in numbers.
type question struct {
	target  []int
	do      []int // by variable: its state, or elim.Free
	seen    []int // evidence, likewise
	virtual [][]float64
	// sees holds a variable to a state in the eyes of one child only.
	sees map[arrow]int
}

type arrow struct{ from, to int }

func (n *Network) ask() question {
	free := slices.Repeat([]int{elim.Free}, len(n.nodes))
	return question{do: free, seen: slices.Clone(free), virtual: make([][]float64, len(n.nodes))}
}

// Prepare checks and plans a query. Its errors are a *causal.Fault, with places in
// {"target": [name], "do": {}, "evidence": {}, "virtual_evidence": {}}, or
// causal.ErrTooLarge.
func (n *Network) Prepare(q Query) (*Inference, error) {
	ask := n.ask()
	for i, name := range q.Target {
		v, ok := n.index[name]
		if !ok {
			return nil, causal.Badf(causal.At("target", i), "there is no variable %q", name)
		}
		ask.target = append(ask.target, v)
	}
	if i, twice := causal.Repeated(q.Target); twice {
		return nil, causal.Badf(causal.At("target", i), "a target is named twice")
	}
	if err := n.states("do", q.Do, ask.do); err != nil {
		return nil, err
	}
	if err := n.states("evidence", q.Evidence, ask.seen); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(q.Virtual)) {
		v, ok := n.index[name]
		if !ok {
			return nil, causal.Badf(causal.At("virtual_evidence", name), "there is no such variable")
		}
		likelihood := q.Virtual[name]
		if len(likelihood) != len(n.nodes[v].states) {
			return nil, causal.Badf(causal.At("virtual_evidence", name), "want %d likelihoods, one a state, not %d", len(n.nodes[v].states), len(likelihood))
		}
		for i, x := range likelihood {
			if !(x >= 0 && x <= maxLikelihood) {
				return nil, causal.Badf(causal.At("virtual_evidence", name, i), "want a likelihood, from 0 to %g", maxLikelihood)
			}
		}
		ask.virtual[v] = likelihood
	}
	return n.prepare(ask)
}

// maxLikelihood keeps products of likelihoods within what a float64 holds. Only their
// ratios matter, but for the probability of evidence.
const maxLikelihood = 1e100

// states reads a map of states into a list by variable.
func (n *Network) states(field string, given map[string]string, into []int) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v, ok := n.index[name]
		if !ok {
			return causal.Badf(causal.At(field, name), "there is no such variable")
		}
		if into[v] = slices.Index(n.nodes[v].states, given[name]); into[v] < 0 {
			return causal.Badf(causal.At(field, name), "the variable has no state %q", given[name])
		}
	}
	return nil
}

func (n *Network) prepare(ask question) (*Inference, error) {
	inf := &Inference{net: n, ask: ask}
	if n.size(ask.target) > elim.MaxCells {
		return nil, &causal.Fault{Kind: causal.TooLarge, At: causal.At("target"), Message: fmt.Sprintf("the targets have more than %d joint states", elim.MaxCells)}
	}
	for v, s := range ask.do {
		if s != elim.Free && ask.seen[v] != elim.Free && ask.seen[v] != s {
			return inf, nil
		}
	}
	var err error
	inf.plan, err = n.problem(ask).Plan()
	return inf, err
}

// relevant marks what takes part: the ancestors, after the interventions, of what is
// asked and observed.
func (n *Network) relevant(ask question) []bool {
	marked := make([]bool, len(n.nodes))
	var open []int
	mark := func(v int) {
		if !marked[v] {
			marked[v] = true
			open = append(open, v)
		}
	}
	for _, v := range ask.target {
		mark(v)
	}
	for v := range n.nodes {
		if ask.seen[v] != elim.Free || ask.virtual[v] != nil {
			mark(v)
		}
	}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		if ask.do[v] != elim.Free {
			continue
		}
		for _, p := range n.nodes[v].parents {
			if _, held := ask.sees[arrow{p, v}]; !held {
				mark(p)
			}
		}
	}
	return marked
}

// problem is the sum that answers a question, with the table of the targets that
// are neither observed nor set.
func (n *Network) problem(ask question) *elim.Problem {
	p := &elim.Problem{Cards: make([]int, len(n.nodes))}
	marked := n.relevant(ask)
	for v, self := range n.nodes {
		p.Cards[v] = len(self.states)
		if !marked[v] {
			continue
		}
		if ask.do[v] == elim.Free {
			at := make([]int, len(self.family))
			for i, w := range self.family {
				at[i] = ask.fixed(w)
				if s, held := ask.sees[arrow{w, v}]; held {
					at[i] = s
				}
			}
			p.Factors = append(p.Factors, elim.Factor{Vars: self.family, At: at, Table: self.table})
		}
		if ask.virtual[v] != nil {
			p.Factors = append(p.Factors, elim.Factor{Vars: []int{v}, At: []int{ask.fixed(v)}, Table: ask.virtual[v]})
		}
	}
	for _, v := range ask.target {
		if ask.fixed(v) == elim.Free {
			p.Keep = append(p.Keep, v)
		}
	}
	return p
}

// fixed is the state of a variable that is observed or set, or elim.Free.
func (a question) fixed(v int) int {
	if a.do[v] != elim.Free {
		return a.do[v]
	}
	return a.seen[v]
}

// Cost is what Run takes, in multiplications and additions.
func (inf *Inference) Cost() float64 {
	if inf.plan == nil {
		return 0
	}
	return inf.plan.Cost + inf.Size()
}

// Size is the number of joint states of the targets.
func (inf *Inference) Size() float64 { return inf.net.size(inf.ask.target) }

// size is the number of joint states of variables.
func (n *Network) size(variables []int) float64 {
	size := 1.0
	for _, v := range variables {
		size *= float64(len(n.nodes[v].states))
	}
	return size
}

// Run gives the distribution of the targets, and the probability of the evidence
// (with likelihoods: of the finding). The error is causal.ErrZeroProbability.
func (inf *Inference) Run() (Table, float64, error) {
	if inf.plan == nil {
		return Table{}, 0, causal.Impossible()
	}
	free := inf.plan.Run()
	total := 0.0
	for _, x := range free.Table {
		total += x
	}
	if total == 0 {
		return Table{}, 0, causal.Impossible()
	}
	for i := range free.Table {
		free.Table[i] /= total
	}
	return inf.table(free.Table), elim.Result{Table: []float64{total}, Exp: free.Exp}.Value(0), nil
}

// table spreads a distribution of the free targets over all of them.
func (inf *Inference) table(free []float64) Table {
	out := Table{P: []float64{1}}
	size, at := 1, 0
	strides := make([]int, len(inf.ask.target))
	for i, v := range slices.Backward(inf.ask.target) {
		if s := inf.ask.fixed(v); s != elim.Free {
			at += s * size
		} else {
			strides[i] = size
		}
		size *= len(inf.net.nodes[v].states)
	}
	out.P = make([]float64, size)
	for k, p := range free {
		i := at
		for j, v := range slices.Backward(inf.ask.target) {
			if strides[j] > 0 {
				card := len(inf.net.nodes[v].states)
				i += k % card * strides[j]
				k /= card
			}
		}
		out.P[i] = p
	}
	for _, v := range inf.ask.target {
		out.Variables = append(out.Variables, inf.net.nodes[v].name)
		out.States = append(out.States, slices.Clone(inf.net.nodes[v].states))
	}
	return out
}

// Posterior is Prepare and Run at once.
func (n *Network) Posterior(q Query) (Table, error) {
	inf, err := n.Prepare(q)
	if err != nil {
		return Table{}, err
	}
	t, _, err := inf.Run()
	return t, err
}

// Joint is the distribution of variables.
func (n *Network) Joint(variables ...string) (Table, error) {
	return n.Posterior(Query{Target: variables})
}
