package bayes

import (
	"fmt"
	"slices"

	"assay/bench/causal"
)

// Effect is a kind of contrast between two worlds. The second state of treatment and
// outcome counts as 1, and the noise of different variables is independent.
type Effect string

// The effects. Y(x) is the outcome where the treatment is set to x, M(x) the
// mediators there.
const (
	ATE         Effect = "ate"         // E[Y(1) - Y(0)]
	ETT         Effect = "ett"         // E[Y(1) - Y(0) | X=1]
	NDE         Effect = "nde"         // E[Y(1, M(0)) - Y(0, M(0))]
	NIE         Effect = "nie"         // E[Y(0, M(1)) - Y(0, M(0))]
	Marginal    Effect = "marginal"    // P(Y=1)
	Correlation Effect = "correlation" // P(Y=1 | X=1) - P(Y=1 | X=0)
)

// Contrast asks for an effect. Treatment is not read for Marginal. Mediators are read
// for NDE and NIE; nil are all variables on a directed path from treatment to outcome.
type Contrast struct {
	Effect             Effect
	Treatment, Outcome string
	Mediators          []string
}

// EffectInference is a contrast that was checked and planned: a difference of
// probabilities that the outcome is 1.
type EffectInference struct{ plus, minus *Inference }

// PrepareEffect checks and plans a contrast. Its errors are a *causal.Fault, with
// places in {"kind", "treatment", "outcome", "mediators": [name]}, or
// causal.ErrTooLarge. Where the network does not decide the answer it is
// causal.ErrNotIdentifiable.
func (n *Network) PrepareEffect(c Contrast) (*EffectInference, error) {
	y, err := n.binary("outcome", c.Outcome)
	if err != nil {
		return nil, err
	}
	if c.Effect == Marginal {
		return n.contrast(n.about(y), nil)
	}
	x, err := n.binary("treatment", c.Treatment)
	if err != nil {
		return nil, err
	}
	if x == y {
		return nil, causal.Badf(causal.At("outcome"), "the outcome is the treatment")
	}
	switch c.Effect {
	case ATE:
		return n.contrast(n.setting(x, y, 1), n.setting(x, y, 0))
	case Correlation:
		return n.contrast(n.observing(x, y, 1), n.observing(x, y, 0))
	case ETT: // X itself is observed to be 1, its children see it set
		return n.contrast(n.observing(x, y, 1), n.treated(x, y))
	case NDE, NIE:
		m, err := n.mediators(c.Mediators, x, y)
		if err != nil {
			return nil, err
		}
		direct, fault := n.directly(m, x, y)
		if fault != nil {
			return nil, fault
		}
		to := 1 // what the treatment is on the direct paths; on the others it is the contrary
		if c.Effect == NIE {
			to = 0
		}
		mixed := n.setting(x, y, 1-to)
		for v := range n.nodes {
			if direct[v] && slices.Contains(n.nodes[v].parents, x) {
				mixed.sees[arrow{x, v}] = to
			}
		}
		return n.contrast(mixed, n.setting(x, y, 0))
	}
	return nil, causal.Badf(causal.At("kind"), "want one of %s, %s, %s, %s, %s, %s", ATE, ETT, NDE, NIE, Marginal, Correlation)
}

func (n *Network) binary(field, name string) (int, error) {
	v, ok := n.index[name]
	if !ok {
		return 0, causal.Badf(causal.At(field), "there is no variable %q", name)
	}
	if len(n.nodes[v].states) != 2 {
		return 0, causal.Badf(causal.At(field), "want a variable with two states, not %d", len(n.nodes[v].states))
	}
	return v, nil
}

func (n *Network) contrast(plus, minus *question) (*EffectInference, error) {
	var out EffectInference
	var err error
	if out.plus, err = n.prepare(*plus); err == nil && minus != nil {
		out.minus, err = n.prepare(*minus)
	}
	return &out, err
}

// about asks for y.
func (n *Network) about(y int) *question {
	q := n.ask()
	q.target = []int{y}
	q.sees = map[arrow]int{}
	return &q
}

func (n *Network) setting(x, y, to int) *question {
	q := n.about(y)
	q.do[x] = to
	return q
}

func (n *Network) observing(x, y, state int) *question {
	q := n.about(y)
	q.seen[x] = state
	return q
}

// treated asks for y where x would have been 1 and is set to 0.
func (n *Network) treated(x, y int) *question {
	q := n.observing(x, y, 1)
	for v := range n.nodes {
		if slices.Contains(n.nodes[v].parents, x) {
			q.sees[arrow{x, v}] = 0
		}
	}
	return q
}

// mediators marks the variables of a list, or those between x and y.
func (n *Network) mediators(names []string, x, y int) ([]bool, error) {
	marked := make([]bool, len(n.nodes))
	if names == nil {
		after, before := n.descendants(n.only(x), nil), n.ancestors(n.only(y), nil)
		for v := range marked {
			marked[v] = after[v] && before[v] && v != x && v != y
		}
		return marked, nil
	}
	for i, name := range names {
		v, ok := n.index[name]
		switch {
		case !ok:
			return nil, causal.Badf(causal.At("mediators", i), "there is no variable %q", name)
		case v == x || v == y:
			return nil, causal.Badf(causal.At("mediators", i), "treatment and outcome are no mediators")
		case marked[v]:
			return nil, causal.Badf(causal.At("mediators", i), "a mediator is named twice")
		}
		marked[v] = true
	}
	return marked, nil
}

// directly marks the variables that the outcome takes from the world where the
// treatment is changed and the mediators are not: those that the treatment reaches
// past the mediators and that reach the outcome past them.
//
// A variable that the mediators depend on too would have to be known in both worlds
// at once, and a network does not say how one noise acts in both. Nor is an answer
// given where a path leaves the mediators and enters them again.
func (n *Network) directly(m []bool, x, y int) ([]bool, error) {
	reached, reaching := n.descendants(n.only(x), m), n.ancestors(n.only(y), m)
	fromX, toY := n.descendants(n.only(x), nil), n.ancestors(n.only(y), nil)
	used, between := make([]bool, len(n.nodes)), make([]bool, len(n.nodes))
	for v, is := range m {
		used[v] = is && toY[v]
		between[v] = used[v] && fromX[v]
	}
	entering, leaving := n.ancestors(used, nil), n.descendants(between, nil)
	direct := make([]bool, len(n.nodes))
	for v := range n.nodes {
		direct[v] = reached[v] && reaching[v] && !m[v] && v != x
		if v != x && v != y && !m[v] && entering[v] && (direct[v] || leaving[v]) {
			return nil, &causal.Fault{Kind: causal.NotIdentifiable, Message: fmt.Sprintf("mediators depend on %s, which is none", n.nodes[v].name)}
		}
	}
	return direct, nil
}

// only marks one variable.
func (n *Network) only(v int) []bool {
	marked := make([]bool, len(n.nodes))
	marked[v] = true
	return marked
}

// descendants marks variables and what they lead to, on paths that do not enter what
// is blocked.
func (n *Network) descendants(of, blocked []bool) []bool {
	marked := slices.Clone(of)
	for _, v := range n.order {
		if blocked == nil || !blocked[v] {
			marked[v] = marked[v] || slices.ContainsFunc(n.nodes[v].parents, func(p int) bool { return marked[p] })
		}
	}
	return marked
}

// ancestors marks variables and what leads to them, on paths that do not enter what is
// blocked.
func (n *Network) ancestors(of, blocked []bool) []bool {
	marked := slices.Clone(of)
	for _, v := range slices.Backward(n.order) {
		if !marked[v] {
			continue
		}
		for _, p := range n.nodes[v].parents {
			marked[p] = marked[p] || blocked == nil || !blocked[p]
		}
	}
	return marked
}

// Cost is what Run takes, in multiplications and additions.
func (inf *EffectInference) Cost() float64 {
	if inf.minus == nil {
		return inf.plus.Cost()
	}
	return inf.plus.Cost() + inf.minus.Cost()
}

// Run gives the effect. The error is causal.ErrZeroProbability.
func (inf *EffectInference) Run() (float64, error) {
	plus, _, err := inf.plus.Run()
	if err != nil {
		return 0, err
	}
	if inf.minus == nil {
		return plus.P[1], nil
	}
	minus, _, err := inf.minus.Run()
	if err != nil {
		return 0, err
	}
	return plus.P[1] - minus.P[1], nil
}

// Effect is PrepareEffect and Run at once.
func (n *Network) Effect(c Contrast) (float64, error) {
	inf, err := n.PrepareEffect(c)
	if err != nil {
		return 0, err
	}
	return inf.Run()
}
