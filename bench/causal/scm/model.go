// Package scm answers questions on all three rungs about structural causal models
// with finite noise, exactly.
//
// A node's noise picks one of its response tables; the table gives the node's value
// from its parents' values. Noise is independent between nodes, so a common cause
// that nobody observes is a node like the others, which the model calls latent.
//
// Every question is the probability of an event in two worlds that share their
// noise: a base world, and another after an intervention (Model.two). A node has the
// same value in both unless the intervention reaches it; there the noise is summed
// out of a pair of values at once. Small events are summed by going through the
// values (search.go), large ones by elimination (large.go).
package scm

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
	"assay/bench/causal/elim"
)

// Node is a variable and its mechanism.
type Node struct {
	Name    string   `json:"name"`
	Parents []string `json:"parents"`
	Tables  []Table  `json:"tables"`
}

// Table is a response function: a value for each combination of the parents' values,
// the last parent fastest. The noise picks it with probability P.
type Table struct {
	P      float64 `json:"p"`
	Values []int   `json:"table"`
}

// MaxValues is the most values that a node may have.
const MaxValues = 4096

// Model is a structural causal model. It does not change.
type Model struct {
	nodes    []node // in a causal order
	index    map[string]int
	observed []string
}

type node struct {
	name        string
	parents     []int
	parentCards []int
	card        int // values are 0 to card-1, at least two
	rows        int // combinations of the parents' values
	tables      []Table
	single      []float64 // P(value | row) at row*card + value

	pairOnce sync.Once
	pairs    []float64
}

// New makes a model. Its errors are a *causal.Fault with places in
// {"nodes": [{name, parents, tables: [{p, table}]}], "latent": [name]}.
func New(nodes []Node, latent []string) (*Model, error) {
	index := make(map[string]int, len(nodes))
	cards := make([]int, len(nodes))
	for i, v := range nodes {
		if _, twice := index[v.Name]; twice {
			return nil, causal.Badf(causal.At("nodes", i, "name"), "there are two nodes named %q", v.Name)
		}
		index[v.Name] = i
		card, err := cardOf(i, v)
		if err != nil {
			return nil, err
		}
		cards[i] = card
	}
	parents := make([][]int, len(nodes))
	for i, v := range nodes {
		for k, name := range v.Parents {
			p, ok := index[name]
			if !ok {
				return nil, causal.Badf(causal.At("nodes", i, "parents", k), "there is no node %q", name)
			}
			parents[i] = append(parents[i], p)
		}
		if k, twice := causal.Repeated(v.Parents); twice {
			return nil, causal.Badf(causal.At("nodes", i, "parents", k), "a parent is named twice")
		}
	}
	order, on, ok := causal.TopologicalOrder(len(nodes), func(v int) []int { return parents[v] })
	if !ok {
		return nil, &causal.Fault{Kind: causal.Cyclic, At: causal.At("nodes", on, "parents"), Message: "the node is its own ancestor"}
	}
	place := make([]int, len(nodes))
	for k, i := range order {
		place[i] = k
	}
	m := &Model{nodes: make([]node, len(nodes)), index: make(map[string]int, len(nodes))}
	cells := 0
	for i, v := range nodes {
		self := &m.nodes[place[i]]
		self.name, self.card, self.tables, self.rows = v.Name, cards[i], v.Tables, 1
		for _, p := range parents[i] {
			self.parents, self.parentCards = append(self.parents, place[p]), append(self.parentCards, cards[p])
			self.rows *= cards[p]
			if self.rows > len(v.Tables[0].Values) {
				break // as the check of the tables will say
			}
		}
		for k, t := range v.Tables {
			if len(t.Values) != self.rows {
				return nil, causal.Badf(causal.At("nodes", i, "tables", k, "table"), "want a value for each combination of the parents' values, not %d", len(t.Values))
			}
		}
		if cells += self.rows * self.card; cells > elim.MaxCells {
			return nil, &causal.Fault{Kind: causal.TooLarge, At: causal.At("nodes"), Message: fmt.Sprintf("the mechanisms have more than %d entries", elim.MaxCells)}
		}
		self.mix()
		m.index[v.Name] = place[i]
	}
	return m, m.hide(nodes, latent)
}

// cardOf checks the tables of a node by themselves, and counts its values.
func cardOf(i int, v Node) (int, error) {
	if len(v.Tables) == 0 {
		return 0, causal.Badf(causal.At("nodes", i, "tables"), "a node has at least one table")
	}
	p := make([]float64, len(v.Tables))
	card := 2
	for k, t := range v.Tables {
		p[k] = t.P
		for r, x := range t.Values {
			switch {
			case x < 0:
				return 0, causal.Badf(causal.At("nodes", i, "tables", k, "table", r), "values are whole numbers from 0")
			case x >= MaxValues:
				return 0, &causal.Fault{Kind: causal.TooLarge, At: causal.At("nodes", i, "tables", k, "table", r), Message: fmt.Sprintf("a node has at most %d values", MaxValues)}
			}
			card = max(card, x+1)
		}
	}
	fault := causal.CheckDistribution(p, func(path ...any) []string {
		if len(path) == 0 {
			return causal.At("nodes", i, "tables")
		}
		return causal.At("nodes", i, "tables", path[0], "p")
	})
	if fault != nil {
		return 0, fault
	}
	return card, nil
}

func (m *Model) hide(nodes []Node, latent []string) error {
	hidden := map[string]bool{}
	for i, name := range latent {
		if _, ok := m.index[name]; !ok {
			return causal.Badf(causal.At("latent", i), "there is no node %q", name)
		}
		if hidden[name] {
			return causal.Badf(causal.At("latent", i), "a node is named twice")
		}
		hidden[name] = true
	}
	for _, v := range nodes {
		if !hidden[v.Name] {
			m.observed = append(m.observed, v.Name)
		}
	}
	return nil
}

// mix sums the noise out of the tables.
func (v *node) mix() {
	v.single = make([]float64, v.rows*v.card)
	for _, t := range v.tables {
		for r, x := range t.Values {
			v.single[r*v.card+x] += t.P
		}
	}
}

// pairCells is how many numbers pair holds.
func (v *node) pairCells() float64 {
	n := float64(v.rows) * float64(v.card)
	return n * n
}

// pair is P(a, b | r, s), the values that one noise gives in two rows, at
// ((r*rows + s)*card + a)*card + b.
func (v *node) pair() []float64 {
	v.pairOnce.Do(func() {
		v.pairs = make([]float64, int(v.pairCells()))
		for _, t := range v.tables {
			for r, a := range t.Values {
				for s, b := range t.Values {
					v.pairs[((r*v.rows+s)*v.card+a)*v.card+b] += t.P
				}
			}
		}
	})
	return v.pairs
}

// Observed lists the names of the nodes that are not latent, in the order in which
// New got them.
func (m *Model) Observed() []string { return slices.Clone(m.observed) }

// Values is the number of values of a node; 0 where there is none of the name.
func (m *Model) Values(name string) int {
	v, ok := m.index[name]
	if !ok {
		return 0
	}
	return m.nodes[v].card
}

// Network is the model without its noise: the network that answers as the model does
// on the first two rungs, with the values written as numbers.
func (m *Model) Network() *bayes.Network {
	nodes := make([]bayes.Node, len(m.nodes))
	for i := range m.nodes {
		v := &m.nodes[i]
		nodes[i].Name = v.name
		for x := range v.card {
			nodes[i].States = append(nodes[i].States, strconv.Itoa(x))
		}
		for _, p := range v.parents {
			nodes[i].Parents = append(nodes[i].Parents, m.nodes[p].name)
		}
		nodes[i].Rows = slices.Collect(slices.Chunk(v.single, v.card))
	}
	network, err := bayes.New(nodes)
	if err != nil {
		panic(err) // New checked it all
	}
	return network
}
