package scm

import "fmt"

// Thousandths is a probability k/1000. Generated mechanisms are made of them, so that
// their probabilities are quotients of whole numbers, the same on any machine.
type Thousandths int

func (k Thousandths) check() {
	if k < 0 || k > 1000 {
		panic(fmt.Sprintf("scm: %d/1000 is no probability", int(k)))
	}
}

// MaxCauses is the most causes of NoisyOr and And: the products of their probabilities
// stay whole numbers.
const MaxCauses = 5

// NoisyOr is a node that is 1 where a cause that is 1 gets through, each
// independently with its strength, or the leak does. There are at most 2^k + 1
// tables: one for each set of causes that get through, and constant 1 for the leak.
// (One threshold for all causes would have the same observed distribution, but other
// counterfactuals.)
func NoisyOr(strengths []Thousandths, leak Thousandths) []Table {
	k := checkCauses(strengths)
	leak.check()
	denominator := int64(1000)
	for range strengths {
		denominator *= 1000
	}
	var out []Table
	for through := range 1 << k { // bit i: cause i gets through
		weight := int64(1000 - leak)
		for i, s := range strengths {
			if through>>i&1 == 1 {
				weight *= int64(s)
			} else {
				weight *= int64(1000 - s)
			}
		}
		if weight > 0 {
			out = append(out, Table{float64(weight) / float64(denominator), response(k, func(causes int) bool { return causes&through != 0 })})
		}
	}
	if leak > 0 {
		out = append(out, Table{float64(leak) / 1000, response(k, func(int) bool { return true })})
	}
	return out
}

// And is a node that is 1 where all k causes are, unless it fails: then it is 0.
func And(k int, works Thousandths) []Table {
	works.check()
	if k < 0 || k > MaxCauses {
		panic(fmt.Sprintf("scm: %d causes are too many", k))
	}
	all := 1<<k - 1
	var out []Table
	if works > 0 {
		out = append(out, Table{float64(works) / 1000, response(k, func(causes int) bool { return causes == all })})
	}
	if works < 1000 {
		out = append(out, Table{float64(1000-works) / 1000, response(k, func(int) bool { return false })})
	}
	return out
}

// Root is a node without parents that is 1 with probability p.
func Root(p Thousandths) []Table {
	p.check()
	return Mixture([]Thousandths{1000 - p, p}, [][]int{{0}, {1}})
}

// Mixture is a node whose noise picks tables with weights that add to 1000. Tables of
// weight 0 are left out.
func Mixture(weights []Thousandths, tables [][]int) []Table {
	total := Thousandths(0)
	var out []Table
	for i, w := range weights {
		w.check()
		if total += w; w > 0 {
			out = append(out, Table{float64(w) / 1000, tables[i]})
		}
	}
	if total != 1000 {
		panic(fmt.Sprintf("scm: the weights add to %d, not to 1000", total))
	}
	return out
}

func checkCauses(strengths []Thousandths) (k int) {
	if len(strengths) > MaxCauses {
		panic(fmt.Sprintf("scm: %d causes are too many", len(strengths)))
	}
	for _, s := range strengths {
		s.check()
	}
	return len(strengths)
}

// response is a table over k binary parents; one tells it which are 1, the i-th as
// bit i.
func response(k int, one func(causes int) bool) []int {
	out := make([]int, 1<<k)
	for row := range out {
		causes := 0
		for i := range k {
			if row>>(k-1-i)&1 == 1 {
				causes |= 1 << i
			}
		}
		if one(causes) {
			out[row] = 1
		}
	}
	return out
}
