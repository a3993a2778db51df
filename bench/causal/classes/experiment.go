package classes

import (
	"math"
	"math/big"
	"math/bits"
)

// Experiment is the best targets of one intervention on the variables of a class: of
// a single node, and of any set. An intervention orients the edges between its target
// and the rest, and what follows from them; best is what leaves the fewest edges
// unoriented in the worst case over the class, of several the smallest, of these the
// first. Single is -1 where there is no node.
type Experiment struct {
	Single int
	Set    []int
}

// ExperimentCost is what BestExperiment costs at most, in steps.
func (p *PDAG) ExperimentCost() float64 {
	cost := p.SizeCost()
	c := counter{p, map[string]*big.Int{}}
	for _, component := range p.components() {
		ways, _ := c.orientations(component).Float64()
		k := float64(len(component))
		cost += float64(math.Exp2(k) * (ways + 1) * k * k * k)
	}
	return cost
}

// BestExperiment finds the best targets for a class, of which p is the essential
// graph. What an intervention orients in one component of the undirected edges tells
// nothing of another: the best set is put together from the best of each.
func (p *PDAG) BestExperiment() Experiment {
	p = p.clone()
	p.close()
	best := Experiment{Single: -1}
	if p.n > 0 {
		best.Single = 0
	}
	most := 0 // edges that the single target orients at least
	for _, component := range p.components() {
		sub := p.induced(component)
		all := len(sub.Undirected())
		chosen, least := uint(0), all
		for mask := range uint(1) << len(component) {
			worst, size := sub.worst(mask), bits.OnesCount(mask)
			if worst < least || worst == least && size < bits.OnesCount(chosen) {
				chosen, least = mask, worst
			}
			if size == 1 && all-worst > most {
				most, best.Single = all-worst, component[bits.TrailingZeros(mask)]
			}
		}
		for i, v := range component {
			if chosen>>i&1 == 1 {
				best.Set = append(best.Set, v)
			}
		}
	}
	return best
}

// induced is the part of p over some nodes, numbered anew.
func (p *PDAG) induced(nodes []int) *PDAG {
	q := &PDAG{len(nodes), make([]mark, len(nodes)*len(nodes))}
	for i, a := range nodes {
		for j, b := range nodes {
			q.marks[i*q.n+j] = p.at(a, b)
		}
	}
	return q
}

// worst counts the edges that stay unoriented after an intervention on the nodes of
// the mask, at most over what it can show.
func (p *PDAG) worst(target uint) int {
	for a := range p.n {
		for b := range p.n {
			if p.at(a, b) != undirected || target>>a&1 == target>>b&1 {
				continue
			}
			most := 0
			for _, e := range []Edge{{a, b}, {b, a}} {
				q := p.clone()
				q.orient(e[0], e[1])
				q.close()
				most = max(most, q.worst(target))
			}
			return most
		}
	}
	return len(p.Undirected())
}
