package elim

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"assay/bench/causal"
)

// bruteforce sums over every joint state.
func bruteforce(p *Problem) []float64 {
	size := 1
	for _, v := range p.Keep {
		size *= p.Cards[v]
	}
	out := make([]float64, size)
	state := make([]int, len(p.Cards))
	for {
		product := 1.0
		for _, f := range p.Factors {
			i := 0
			for k, v := range f.Vars {
				s := state[v]
				if f.At != nil && f.At[k] != Free {
					s = f.At[k]
				}
				i = i*p.Cards[v] + s
			}
			product *= f.Table[i]
		}
		// A variable that no factor leaves free is not summed over.
		counted := true
		for v, s := range state {
			counted = counted && (s == 0 || freeIn(p, v))
		}
		if counted {
			i := 0
			for _, v := range p.Keep {
				i = i*p.Cards[v] + state[v]
			}
			out[i] += product
		}
		v := len(state) - 1
		for ; v >= 0; v-- {
			if state[v]++; state[v] < p.Cards[v] {
				break
			}
			state[v] = 0
		}
		if v < 0 {
			return out
		}
	}
}

func freeIn(p *Problem, v int) bool {
	for _, f := range p.Factors {
		for k, w := range f.Vars {
			if w == v && (f.At == nil || f.At[k] == Free) {
				return true
			}
		}
	}
	return false
}

// Any problem has the sum that going through all states has, and always the same bits.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{Cards: rapid.SliceOfN(rapid.IntRange(1, 3), 1, 6).Draw(t, "cards")}
		all := make([]int, len(p.Cards))
		for v := range all {
			all[v] = v
		}
		for range rapid.IntRange(0, 6).Draw(t, "factors") {
			f := Factor{Vars: rapid.Permutation(all).Draw(t, "vars")}
			f.Vars = f.Vars[:rapid.IntRange(0, min(3, len(all))).Draw(t, "arity")]
			size := 1
			for _, v := range f.Vars {
				size *= p.Cards[v]
			}
			f.Table = rapid.SliceOfN(rapid.Float64Range(0, 1), size, size).Draw(t, "table")
			if rapid.Bool().Draw(t, "held") {
				for _, v := range f.Vars {
					f.At = append(f.At, rapid.IntRange(Free, p.Cards[v]-1).Draw(t, "at"))
				}
			}
			p.Factors = append(p.Factors, f)
		}
		for _, v := range rapid.Permutation(all).Draw(t, "keep") {
			if freeIn(p, v) && rapid.Bool().Draw(t, "kept") {
				p.Keep = append(p.Keep, v)
			}
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		want, got := bruteforce(p), plan.Run()
		if len(got.Table) != len(want) {
			t.Fatalf("%d numbers, want %d", len(got.Table), len(want))
		}
		again := plan.Run()
		for i := range want {
			if math.Abs(got.Value(i)-want[i]) > 1e-9*(1+want[i]) {
				t.Fatalf("number %d: %v, want %v", i, got.Value(i), want[i])
			}
			if got.Value(i) != again.Value(i) {
				t.Fatalf("number %d: %v, then %v", i, got.Value(i), again.Value(i))
			}
		}
	})
}

// Of two orders the cheaper one is taken; neither is the cheaper one always.
func TestCheaperOrder(t *testing.T) {
	wins := [2]int{}
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		p := &Problem{}
		for v := range 30 {
			p.Cards = append(p.Cards, 2+r.IntN(5))
			if v >= 2 {
				a, b := r.IntN(v), r.IntN(v-1)
				if b >= a {
					b++
				}
				p.Factors = append(p.Factors, Factor{Vars: []int{a, b, v}})
			}
		}
		plan, err := p.Plan()
		if errors.Is(err, causal.ErrTooLarge) {
			continue
		}
		scopes, vars, node := make([][]int, len(p.Factors)), make([]int, 30), make([]int, 30)
		for i, f := range p.Factors {
			scopes[i] = p.free(f)
		}
		for v := range vars {
			vars[v], node[v] = v, v
		}
		fill := p.simulate(newPlanner(p, vars, node, scopes).order(byFill), scopes).Cost
		weight := p.simulate(newPlanner(p, vars, node, scopes).order(byWeight), scopes).Cost
		if fill > cheap && plan.Cost != min(fill, weight) {
			t.Errorf("the plan costs %v; by fill %v, by weight %v", plan.Cost, fill, weight)
		}
		switch {
		case fill < weight:
			wins[0]++
		case weight < fill:
			wins[1]++
		}
	}
	if wins[0] == 0 || wins[1] == 0 {
		t.Errorf("one order is always the cheaper one: %v", wins)
	}
}

// chain has a factor between every two neighbours.
func chain(n, card int) *Problem {
	p := &Problem{}
	table := make([]float64, card*card)
	for i := range table {
		table[i] = 1 / float64(card)
	}
	for v := range n {
		p.Cards = append(p.Cards, card)
		if v > 0 {
			p.Factors = append(p.Factors, Factor{Vars: []int{v - 1, v}, Table: table})
		}
	}
	return p
}

// A chain takes a step a variable, whatever its length: no table is over more than
// three variables.
func TestChainIsLinear(t *testing.T) {
	plan, err := chain(MaxVariables, 4).Plan()
	if err != nil || plan.Cost > MaxVariables*100 {
		t.Fatalf("the plan costs %v, %v", plan.Cost, err)
	}
	// Each sum over four neighbours of 1/4 is 1, and the last variable has four states.
	if got := plan.Run(); math.Abs(got.Value(0)-4) > 1e-9 {
		t.Errorf("%v, want 4", got.Value(0))
	}
}

// Numbers that are too small for a float64 alone are kept with their exponent.
// A chain has width 1, a ring 2, a grid of three columns 3.
func TestWidth(t *testing.T) {
	const n = 12
	for name, tc := range map[string]struct {
		edges func(v int) []int
		want  int
	}{
		"chain": {func(v int) []int { return []int{v + 1} }, 1},
		"ring":  {func(v int) []int { return []int{(v + 1) % n} }, 2},
		"grid": {func(v int) []int {
			if v%3 == 2 {
				return []int{v + 3}
			}
			return []int{v + 1, v + 3}
		}, 3},
	} {
		p := &Problem{Cards: make([]int, n)}
		for v := range n {
			p.Cards[v] = 2
			for _, w := range tc.edges(v) {
				if w < n {
					p.Factors = append(p.Factors, Factor{Vars: []int{v, w}, Table: []float64{1, 1, 1, 1}})
				}
			}
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Width(); got != tc.want {
			t.Errorf("%s: width %d, want %d", name, got, tc.want)
		}
	}
}

func TestSmallNumbers(t *testing.T) {
	p := &Problem{Cards: []int{2}}
	for range 40 {
		p.Factors = append(p.Factors, Factor{Vars: []int{0}, Table: []float64{1e-100, 3e-100}})
	}
	p.Keep = []int{0}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	got := plan.Run()
	if ratio := got.Table[1] / got.Table[0]; math.Abs(ratio/math.Pow(3, 40)-1) > 1e-12 {
		t.Errorf("ratio %v, want 3^40", ratio)
	}
	if e := float64(got.Exp) + math.Log2(got.Table[0]); math.Abs(e+4000*math.Log2(10)) > 1e-6 {
		t.Errorf("2^%v, want 10^-4000", e)
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := chain(MaxVariables+1, 2).Plan(); !errors.Is(err, causal.ErrTooLarge) {
		t.Errorf("too many variables: %v", err)
	}
	// Every two of 30 variables meet: the first sum is over all of them.
	p := &Problem{}
	for v := range 30 {
		p.Cards = append(p.Cards, 2)
		for w := range v {
			p.Factors = append(p.Factors, Factor{Vars: []int{w, v}, Table: []float64{1, 2, 3, 4}})
		}
	}
	if _, err := p.Plan(); !errors.Is(err, causal.ErrTooLarge) {
		t.Errorf("a clique of 30: %v", err)
	}
	p.Cards = p.Cards[:12]
	p.Factors = p.Factors[:12*11/2]
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	// The first sum has 2^12 terms, of 11 factors.
	if plan.Cost < 1<<12 || plan.Cost > 12*11*(1<<12) {
		t.Errorf("a clique of 12 costs %v", plan.Cost)
	}
	if want, got := bruteforce(p)[0], plan.Run().Value(0); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}
