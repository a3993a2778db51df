package scm

import (
	"fmt"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/elim"
)

// eliminate plans the sum over all slots by elimination.
func (t *twin) eliminate() (*sum, error) {
	p := &elim.Problem{Cards: t.cards}
	cost, cells := 0.0, 0.0
	for _, f := range t.mechanisms {
		p.Factors = append(p.Factors, t.factor(f))
		if f.other != none {
			size := t.size(p.Factors[len(p.Factors)-1].Vars)
			cost += size + float64(t.combinations(f)*float64(len(f.node.tables)))
			cells += size
		}
	}
	if cells > elim.MaxCells {
		return nil, &causal.Fault{Kind: causal.TooLarge, Message: fmt.Sprintf("the mechanisms in two worlds have %.3g entries, the limit is %d", cells, elim.MaxCells)}
	}
	plan, err := p.Plan()
	if err != nil {
		return nil, err
	}
	return &sum{cost + plan.Cost, func() (float64, int) {
		for i, f := range t.mechanisms {
			if f.other != none {
				p.Factors[i].Table = t.pairs(f, p.Factors[i].Vars)
			}
		}
		r := plan.Run()
		return r.Table[0], r.Exp
	}}, nil
}

// factor is a mechanism as a factor over slots. That of a pair is over its free
// slots alone, and gets its table when the sum is run.
func (t *twin) factor(f mechanism) elim.Factor {
	if f.other != none {
		return elim.Factor{Vars: t.scope(f)}
	}
	vars := append(f.parents(f.world), f.self)
	at := make([]int, len(vars))
	for i, slot := range vars {
		at[i] = t.at[slot]
	}
	return elim.Factor{Vars: vars, At: at, Table: f.node.single}
}

// parents lists the slots of the parents in a world.
func (f mechanism) parents(world []int) []int {
	out := make([]int, len(f.node.parents))
	for i, p := range f.node.parents {
		out[i] = world[p]
	}
	return out
}

// scope lists the free slots of a pair, those of the parents first, each once.
func (t *twin) scope(f mechanism) []int {
	var out []int
	for _, slot := range slices.Concat(f.parents(f.world), f.parents(f.otherWorld), []int{f.self, f.other}) {
		if t.at[slot] == free && !slices.Contains(out, slot) {
			out = append(out, slot)
		}
	}
	return out
}

func (t *twin) size(slots []int) float64 {
	size := 1.0
	for _, slot := range slots {
		size *= float64(t.cards[slot])
	}
	return size
}

// combinations counts the values of the parents of a pair.
func (t *twin) combinations(f mechanism) float64 {
	size := t.size(t.scope(f))
	for _, slot := range []int{f.self, f.other} {
		if t.at[slot] == free {
			size /= float64(t.cards[slot])
		}
	}
	return size
}

// pairs is the table of a pair over scope: for each combination of the parents'
// values, the probability of the noise that gives both values.
func (t *twin) pairs(f mechanism, scope []int) []float64 {
	out := make([]float64, int(t.size(scope)))
	value := slices.Clone(t.at)
	parents := slices.DeleteFunc(slices.Clone(scope), func(slot int) bool { return slot == f.self || slot == f.other })
	for _, slot := range parents {
		value[slot] = 0
	}
	block := len(out) / int(t.combinations(f))
	for k := 0; ; k++ {
		row, otherRow := f.node.row(value, f.world), f.node.row(value, f.otherWorld)
		for _, table := range f.node.tables {
			x, y := table.Values[row], table.Values[otherRow]
			i := k
			switch {
			case t.at[f.self] == free:
				i = i*f.node.card + x
			case t.at[f.self] != x:
				continue
			}
			switch {
			case t.at[f.other] == free:
				i = i*f.node.card + y
			case t.at[f.other] != y:
				continue
			}
			out[i] += table.P
		}
		if (k+1)*block == len(out) {
			return out
		}
		for i := len(parents) - 1; ; i-- { // the next combination
			slot := parents[i]
			if value[slot]++; value[slot] < t.cards[slot] {
				break
			}
			value[slot] = 0
		}
	}
}
