// Package causal holds what the exact engines of C9's benchmark share.
//
//	elim/      sums of products of tables, by variable elimination
//	bayes/     discrete Bayesian networks: posteriors, interventions, effects; BIF
//	scm/       structural causal models with finite noise: all three rungs
//	decide/    decisions, the value of information, bounds, identified sets
//	graph/     graphs with latent causes: separation, adjustment, front door, instruments
//	identify/  estimands, witnesses that there is none, counterfactual identification
//	classes/   equivalence classes of graphs, and what experiments tell them apart
//
// and the benchmark that they answer:
//
//	world/       models drawn from seeds, and what they are called
//	item/        questions about worlds with exact answers
//	record/      the records of the benchmark, with their schemas
//	label/       which labels of the failure taxonomy a trace earns
//	set/         sets of cases: made, written, read, validated, audited
//	montecarlo/  a second opinion that reads public cases alone
//
// All but set is pure: no clock, no randomness, and sums are made in an order that
// depends on the request alone, so that a question has the same answer, to the bit,
// each time it is asked.
package causal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind says why a question has no answer.
type Kind string

// The kinds of a Fault.
const (
	Invalid         Kind = "invalid"          // the model or the question breaks a rule
	Cyclic          Kind = "cyclic"           // the arrows go round
	ZeroProbability Kind = "zero_probability" // the condition cannot happen
	TooLarge        Kind = "too_large"        // past a fixed limit
	NotIdentifiable Kind = "not_identifiable" // models that agree on all that was given answer differently
)

// Fault is the error of every engine.
type Fault struct {
	Kind Kind
	// At is the place of the fault in the model or question as docs/calc.md writes
	// them, from the outside in: "cpts", "Alarm", "rows", "0". It is empty where all
	// of it is at fault.
	At      []string
	Message string
}

func (f *Fault) Error() string {
	if len(f.At) == 0 {
		return fmt.Sprintf("%s: %s", f.Kind, f.Message)
	}
	return fmt.Sprintf("%s at %s: %s", f.Kind, strings.Join(f.At, "."), f.Message)
}

// Is makes a Fault of a kind alone match every fault of that kind.
func (f *Fault) Is(target error) bool {
	t, ok := target.(*Fault)
	return ok && t.Kind == f.Kind && t.At == nil && t.Message == ""
}

// The faults that errors.Is looks for.
var (
	ErrInvalid         = &Fault{Kind: Invalid}
	ErrCyclic          = &Fault{Kind: Cyclic}
	ErrZeroProbability = &Fault{Kind: ZeroProbability}
	ErrTooLarge        = &Fault{Kind: TooLarge}
	ErrNotIdentifiable = &Fault{Kind: NotIdentifiable}
)

// At is a place in a model or question: strings and indices.
func At(path ...any) []string {
	out := make([]string, len(path))
	for i, p := range path {
		switch p := p.(type) {
		case string:
			out[i] = p
		case int:
			out[i] = strconv.Itoa(p)
		default:
			panic(fmt.Sprintf("a place is of strings and indices, not %T", p))
		}
	}
	return out
}

// Badf is a fault of kind Invalid.
func Badf(at []string, format string, args ...any) *Fault {
	return &Fault{Invalid, at, fmt.Sprintf(format, args...)}
}

// Impossible is the fault of a condition with probability 0.
func Impossible() *Fault {
	return &Fault{ZeroProbability, nil, "the condition has probability 0"}
}

// Repeated is the place of the first name in a list that stood there before; ok is
// false where there is none.
func Repeated(names []string) (i int, ok bool) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if seen[name] {
			return i, true
		}
		seen[name] = true
	}
	return 0, false
}

// Slack is how far probabilities may be from adding to 1: what printing with six
// digits loses.
const Slack = 1e-5

// CheckDistribution is the fault of numbers that are no distribution, at the number
// that is no probability or else at the list.
func CheckDistribution(p []float64, at func(path ...any) []string) *Fault {
	total := 0.0
	for i, x := range p {
		if !(x >= 0 && x <= 1+Slack) { // sums of floats may be a little more than 1
			return Badf(at(i), "want a probability, not %v", x)
		}
		total += x
	}
	if math.Abs(total-1) > Slack {
		return Badf(at(), "the probabilities add to %v, not to 1", total)
	}
	return nil
}

// TopologicalOrder lists the nodes 0 to n-1, each right after those of its ancestors
// that are not listed yet. ok is false where the arrows go round; then on
// is a node of a cycle.
func TopologicalOrder(n int, parents func(v int) []int) (order []int, on int, ok bool) {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, n)
	order = make([]int, 0, n)
	type frame struct{ v, next int }
	var stack []frame
	for root := range n {
		if state[root] != unseen {
			continue
		}
		state[root] = open
		stack = append(stack[:0], frame{root, 0})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			ps := parents(top.v)
			if top.next == len(ps) {
				state[top.v] = done
				order = append(order, top.v)
				stack = stack[:len(stack)-1]
				continue
			}
			p := ps[top.next]
			top.next++
			switch state[p] {
			case open:
				return nil, p, false
			case unseen:
				state[p] = open
				stack = append(stack, frame{p, 0})
			}
		}
	}
	return order, 0, true
}
