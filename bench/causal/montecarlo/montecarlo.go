// Package montecarlo answers public cases by simulation. It is the second opinion of
// the exact engines and shares no code with them: it reads nothing but the bytes that
// agents get.
//
// 64 draws go through a model at once, one bit each. A draw of the noise is used in
// every world that a question is about, before and after an intervention, and by all
// questions about one model.
package montecarlo

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"

	"github.com/go-json-experiment/json"
)

// publicCase is what of a case is read.
type publicCase struct {
	CaseID string `json:"case_id"`
	Rung   string `json:"rung"`
	Query  struct {
		Kind      string         `json:"kind"`
		Target    map[string]int `json:"target"`
		Given     map[string]int `json:"given"`
		Do        map[string]int `json:"do"`
		Factual   map[string]int `json:"factual"`
		Effect    string         `json:"effect"`
		Treatment string         `json:"treatment"`
		Outcome   string         `json:"outcome"`
	} `json:"query"`
	Evidence []struct {
		Kind string `json:"kind"`
		Ref  string `json:"ref"`
	} `json:"evidence"`
}

// Estimate is what a simulation says of a case. Of N draws that have what the question
// conditions on, Plus had what it asks for; of an effect, Plus were moved up and Minus
// down.
type Estimate struct {
	CaseID         string
	Effect         bool
	N, Plus, Minus int64
}

// Value is the estimate; NaN of no draws.
func (e Estimate) Value() float64 { return float64(e.Plus-e.Minus) / float64(e.N) }

// Run simulates the cases that ask for a number under one mechanism, which is a blob.
// Cases that ask for something else are left out.
func Run(mechanism []byte, lines [][]byte, draws int) ([]Estimate, error) {
	m, err := parse(mechanism)
	if err != nil {
		return nil, err
	}
	var questions []*question
	for _, line := range lines {
		var c publicCase
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, err
		}
		q, err := m.question(c)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.CaseID, err)
		}
		if q != nil {
			questions = append(questions, q)
		}
	}
	h := fnv.New64a()
	h.Write(mechanism)
	noise := source(h.Sum64())
	s := newState(m)
	for left := draws; left > 0; left -= block * 64 {
		s.draw(&noise)
		s.last(left)
		for _, q := range questions {
			q.count(s)
		}
	}
	out := make([]Estimate, len(questions))
	for i, q := range questions {
		out[i] = q.Estimate
	}
	return out, nil
}

// Mechanism is the ref of the model that a case shows; "" where it asks for no number
// or shows none.
func Mechanism(line []byte) (string, error) {
	var c publicCase
	if err := json.Unmarshal(line, &c); err != nil {
		return "", err
	}
	if c.Query.Kind != "probability" && c.Query.Kind != "effect" {
		return "", nil
	}
	for _, e := range c.Evidence {
		if e.Kind == "mechanism" {
			return e.Ref, nil
		}
	}
	return "", nil
}

// variable of a model, which stands after its parents.
type variable struct {
	parents []int
	rows    int
	values  int
	chance  []float64 // of each table
	tables  [][]int
}

type model struct {
	vars  []variable
	place map[string]int
}

func parse(blob []byte) (*model, error) {
	var in struct {
		Nodes []struct {
			Name    string   `json:"name"`
			Parents []string `json:"parents"`
			Tables  []struct {
				P     float64 `json:"p"`
				Table []int   `json:"table"`
			} `json:"tables"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(blob, &in); err != nil {
		return nil, err
	}
	m := &model{place: map[string]int{}}
	for len(m.vars) < len(in.Nodes) {
		before := len(m.vars)
	next:
		for _, n := range in.Nodes {
			if _, done := m.place[n.Name]; done {
				continue
			}
			v := variable{rows: 1, values: 2}
			for _, p := range n.Parents {
				i, ok := m.place[p]
				if !ok {
					continue next // its turn comes when its parents are there
				}
				v.parents = append(v.parents, i)
				v.rows *= m.vars[i].values
			}
			if len(n.Tables) == 0 {
				return nil, fmt.Errorf("%s: no table", n.Name)
			}
			for _, t := range n.Tables {
				v.chance, v.tables = append(v.chance, t.P), append(v.tables, t.Table)
				if len(t.Table) != v.rows {
					return nil, fmt.Errorf("%s: a table of %d values for %d rows", n.Name, len(t.Table), v.rows)
				}
				for _, x := range t.Table {
					v.values = max(v.values, x+1)
				}
			}
			m.place[n.Name] = len(m.vars)
			m.vars = append(m.vars, v)
		}
		if len(m.vars) == before {
			return nil, fmt.Errorf("the parents of some of %d variables never come", len(in.Nodes)-before)
		}
	}
	return m, nil
}

// block is how many words of 64 draws are worked on at a time.
const block = 32

type words [block]uint64

// world has for each variable a mask for each value but 0.
type world [][]words

// state is a block of draws: which table each variable uses.
type state struct {
	m     *model
	noise [][]words // a mask for each table
	// digits are, for each table, the binary digits of its probability among those that
	// are left.
	digits [][]uint64
	valid  words // draws that count
	rows   []words
}

func newState(m *model) *state {
	s := &state{m: m}
	most := 0
	for _, v := range m.vars {
		s.noise = append(s.noise, make([]words, len(v.tables)))
		s.digits = append(s.digits, v.digits())
		most = max(most, v.rows)
	}
	s.rows = make([]words, most)
	return s
}

func (m *model) world() world {
	w := make(world, len(m.vars))
	for i, v := range m.vars {
		w[i] = make([]words, v.values-1)
	}
	return w
}

// source is splitmix64.
type source uint64

func (s *source) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// among picks each bit of a mask with a probability, which has the binary digits of
// digits: a bit is picked once its own random number is the first to be below.
func (s *source) among(mask, digits uint64) uint64 {
	picked := uint64(0)
	for mask != 0 && digits != 0 {
		r := s.next()
		if digits>>63 == 1 {
			picked |= mask &^ r
			mask &= r
		} else {
			mask &^= r
		}
		digits <<= 1
	}
	return picked
}

func (v *variable) digits() []uint64 {
	left := 1.0
	out := make([]uint64, len(v.chance))
	for t, p := range v.chance {
		if share := p / left; share < 1 {
			out[t] = uint64(math.Ldexp(share, 64))
		} else {
			out[t] = math.MaxUint64
		}
		left = max(left-p, 0)
	}
	return out
}

func (s *state) draw(noise *source) {
	for i, v := range s.m.vars {
		last := len(v.tables) - 1
		for w := range block {
			rest := ^uint64(0)
			for t := range last {
				picked := noise.among(rest, s.digits[i][t])
				s.noise[i][t][w] = picked
				rest &^= picked
			}
			s.noise[i][last][w] = rest
		}
	}
}

// last says how many draws are still to be counted.
func (s *state) last(left int) {
	for w := range s.valid {
		switch n := left - 64*w; {
		case n >= 64:
			s.valid[w] = ^uint64(0)
		case n > 0:
			s.valid[w] = 1<<n - 1
		default:
			s.valid[w] = 0
		}
	}
}

// solve works a world out: do holds variables at values, keep takes those of another
// world.
func (s *state) solve(into world, do map[int]int, keep map[int]bool, from world) {
	for i, v := range s.m.vars {
		if x, held := do[i]; held {
			for k := range into[i] {
				into[i][k] = words{}
				if k+1 == x {
					for w := range block {
						into[i][k][w] = ^uint64(0)
					}
				}
			}
			continue
		}
		if keep[i] {
			copy(into[i], from[i])
			continue
		}
		for row := range v.rows {
			rest := row
			is := &s.rows[row]
			for w := range block {
				is[w] = ^uint64(0)
			}
			for p := len(v.parents) - 1; p >= 0; p-- {
				q := v.parents[p]
				x := rest % s.m.vars[q].values
				rest /= s.m.vars[q].values
				and(is, into[q], x)
			}
		}
		for k := range into[i] {
			into[i][k] = words{}
		}
		for t, table := range v.tables {
			for row, x := range table {
				if x > 0 {
					mask := &into[i][x-1]
					for w := range block {
						mask[w] |= s.noise[i][t][w] & s.rows[row][w]
					}
				}
			}
		}
	}
}

// and keeps the draws in which a variable has a value.
func and(mask *words, values []words, x int) {
	if x > 0 {
		for w := range block {
			mask[w] &= values[x-1][w]
		}
		return
	}
	for k := range values {
		for w := range block {
			mask[w] &^= values[k][w]
		}
	}
}

// question is a case on the way to its estimate.
type question struct {
	Estimate
	count func(s *state)
}

// question reads a case; nil where it asks for no number.
func (m *model) question(c publicCase) (*question, error) {
	q := &question{Estimate: Estimate{CaseID: c.CaseID}}
	switch c.Query.Kind {
	case "probability":
		return q, m.probability(q, c)
	case "effect":
		q.Effect = true
		return q, m.effect(q, c)
	}
	return nil, nil
}

func (m *model) values(named map[string]int) (map[int]int, error) {
	out := map[int]int{}
	for name, x := range named {
		i, ok := m.place[name]
		if !ok || x < 0 || x >= m.vars[i].values {
			return nil, fmt.Errorf("there is no variable %q with a value %d", name, x)
		}
		out[i] = x
	}
	return out, nil
}

func (m *model) probability(q *question, c publicCase) error {
	var sets [4]map[int]int
	for i, named := range []map[string]int{c.Query.Target, c.Query.Given, c.Query.Do, c.Query.Factual} {
		var err error
		if sets[i], err = m.values(named); err != nil {
			return err
		}
	}
	target, given, do, factual := sets[0], sets[1], sets[2], sets[3]
	before, after := m.world(), m.world()
	q.count = func(s *state) {
		s.solve(after, do, nil, nil)
		n := s.valid
		if c.Rung == "counterfactual" {
			s.solve(before, nil, nil, nil)
			for i, x := range factual {
				and(&n, before[i], x)
			}
		}
		for i, x := range given {
			and(&n, after[i], x)
		}
		q.N += ones(&n)
		for i, x := range target {
			and(&n, after[i], x)
		}
		q.Plus += ones(&n)
	}
	return nil
}

func (m *model) effect(q *question, c publicCase) error {
	x, okX := m.place[c.Query.Treatment]
	y, okY := m.place[c.Query.Outcome]
	if !okX || !okY {
		return fmt.Errorf("there is no %q or no %q", c.Query.Treatment, c.Query.Outcome)
	}
	between := m.between(x, y)
	plain, zero, one, mixed := m.world(), m.world(), m.world(), m.world()
	q.count = func(s *state) {
		s.solve(zero, map[int]int{x: 0}, nil, nil)
		s.solve(one, map[int]int{x: 1}, nil, nil)
		n, other := s.valid, one
		switch c.Query.Effect {
		case "ett":
			s.solve(plain, nil, nil, nil)
			and(&n, plain[x], 1)
		case "nde":
			s.solve(mixed, map[int]int{x: 1}, between, zero)
			other = mixed
		case "nie":
			s.solve(mixed, map[int]int{x: 0}, between, one)
			other = mixed
		}
		q.N += ones(&n)
		plus, minus := n, n
		and(&plus, other[y], 1)
		and(&plus, zero[y], 0)
		and(&minus, other[y], 0)
		and(&minus, zero[y], 1)
		q.Plus += ones(&plus)
		q.Minus += ones(&minus)
	}
	return nil
}

// between marks the variables on directed paths from x to y.
func (m *model) between(x, y int) map[int]bool {
	after := map[int]bool{x: true}
	for i, v := range m.vars {
		for _, p := range v.parents {
			after[i] = after[i] || after[p]
		}
	}
	before := map[int]bool{y: true}
	for i := len(m.vars) - 1; i >= 0; i-- {
		if before[i] {
			for _, p := range m.vars[i].parents {
				before[p] = true
			}
		}
	}
	out := map[int]bool{}
	for i := range m.vars {
		if after[i] && before[i] && i != x && i != y {
			out[i] = true
		}
	}
	return out
}

func ones(mask *words) int64 {
	n := 0
	for _, w := range mask {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}
