package item

import (
	"maps"
	"math"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/decide"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/bench/causal/world"
)

// Look is what was seen of an episode: as it went, or with Do forced in it.
type Look struct{ Do, Seen record.Values }

// Judge is what looks at one episode say about hypotheses, which are the values of a
// variable of the model, and with it what each experiment would tell next and each
// action lose: whatever was delivered, in whichever order, the experiments that were
// made included. It does not fill in True, Delivered and Descendants. The errors are
// causal.ErrZeroProbability, and a *causal.Fault of a model, a name or a value that is
// none.
func Judge(m record.Mechanism, cause string, hypotheses []string, looks []Look, experiments []record.Experiment, actions []record.Action) (*record.Live, error) {
	j, err := newJudge(m)
	if err != nil {
		return nil, err
	}
	h, ok := j.place[cause]
	if !ok || j.cards[h] != len(hypotheses) {
		return nil, causal.Badf(causal.At("cause"), "want a variable with a value for each of %d hypotheses", len(hypotheses))
	}
	masses, err := j.masses(h, looks)
	if err != nil {
		return nil, err
	}
	posterior, err := decide.Update(masses, slices.Repeat([]float64{1}, len(masses)))
	if err != nil {
		return nil, err
	}
	live := &record.Live{Cause: cause, Delivered: record.Values{}, Posterior: map[string]float64{}, IdentifiedSet: []string{}, Descendants: []string{}}
	for h, p := range posterior {
		live.Posterior[hypotheses[h]] = p
	}
	for _, h := range decide.IdentifiedSet(posterior) {
		live.IdentifiedSet = append(live.IdentifiedSet, hypotheses[h])
	}
	menu, err := j.menu(h, masses, looks, experiments)
	if err != nil {
		return nil, err
	}
	if err := tells(live, posterior, menu, experiments); err != nil {
		return nil, err
	}
	return live, losses(live, hypotheses, posterior, menu, experiments, actions)
}

// losses fills in what each action loses, and what each experiment of a menu saves.
func losses(live *record.Live, hypotheses []string, posterior []float64, menu [][][]float64, experiments []record.Experiment, actions []record.Action) error {
	if len(actions) == 0 {
		return nil
	}
	loss := make([][]float64, len(actions))
	live.ExpectedLoss, live.Regret = map[string]float64{}, map[string]float64{}
	for a, action := range actions {
		expected := 0.0
		for h, name := range hypotheses {
			x, ok := action.Loss[name]
			if !ok {
				return causal.Badf(causal.At("actions", a, "loss", name), "what the action loses is required")
			}
			loss[a] = append(loss[a], x)
			expected += float64(posterior[h] * x)
		}
		live.ExpectedLoss[action.ID] = expected
	}
	regret, err := decide.Regret(posterior, loss)
	if err != nil {
		return err
	}
	for a, action := range actions {
		live.Regret[action.ID] = regret[a]
	}
	if len(menu) == 0 {
		return nil
	}
	p := decide.Problem{Prior: posterior}
	for _, l := range loss {
		gain := make([]float64, len(l))
		for h, x := range l {
			gain[h] = -x
		}
		p.Utility = append(p.Utility, gain)
	}
	for i, likelihood := range menu {
		p.Queries = append(p.Queries, decide.Query{Cost: experiments[i].Cost, Likelihood: likelihood})
	}
	live.NetValue = map[string]float64{}
	for i, v := range decide.Solve(p).Queries {
		live.NetValue[experiments[i].ID] = v.Net
	}
	return nil
}

// judge works the probability of looks out by going through the values of the
// variables, in all worlds at once, with one noise.
type judge struct {
	nodes []scm.Node
	place map[string]int
	cards []int
	order []int // causes first
}

func newJudge(m record.Mechanism) (*judge, error) {
	model, err := scm.New(m.Nodes, m.Latent)
	if err != nil {
		return nil, err
	}
	j := &judge{nodes: m.Nodes, place: map[string]int{}, cards: make([]int, len(m.Nodes))}
	for i, v := range m.Nodes {
		j.place[v.Name], j.cards[i] = i, model.Values(v.Name)
	}
	j.order, _, _ = causal.TopologicalOrder(len(m.Nodes), j.parents) // New refused what goes round
	return j, nil
}

func (j *judge) parents(v int) []int {
	out := make([]int, len(j.nodes[v].Parents))
	for i, p := range j.nodes[v].Parents {
		out[i] = j.place[p]
	}
	return out
}

// row is the combination of the values of a node's parents.
func (j *judge) row(node *scm.Node, value []int) int {
	row := 0
	for _, p := range node.Parents {
		row = row*j.cards[j.place[p]] + value[j.place[p]]
	}
	return row
}

// menu is the likelihood of what each experiment may show next, 0 or 1, by hypothesis.
func (j *judge) menu(h int, masses []float64, looks []Look, experiments []record.Experiment) ([][][]float64, error) {
	var menu [][][]float64
	for _, e := range experiments {
		with, err := j.masses(h, append(slices.Clone(looks), Look{e.Do, record.Values{e.Observe: 1}}))
		if err != nil {
			return nil, err
		}
		likelihood := make([][]float64, len(masses))
		for h := range likelihood {
			likelihood[h] = []float64{1, 0}
			if masses[h] > 0 {
				one := min(with[h]/masses[h], 1) // rounded, it may be a little more
				likelihood[h] = []float64{1 - one, one}
			}
		}
		menu = append(menu, likelihood)
	}
	return menu, nil
}

// tells fills in how much each experiment of a menu tells.
func tells(live *record.Live, posterior []float64, menu [][][]float64, experiments []record.Experiment) error {
	if len(menu) == 0 {
		return nil
	}
	regret, err := decide.InformationRegret(posterior, menu)
	if err != nil {
		return err
	}
	live.EIGBits, live.InformationRegret = map[string]float64{}, map[string]float64{}
	for i, e := range experiments {
		live.EIGBits[e.ID] = billionths(decide.EIG(posterior, menu[i]))
		live.InformationRegret[e.ID] = billionths(regret[i])
	}
	return nil
}

// billionths rounds what logarithms gave: their last bits differ between machines.
func billionths(x float64) float64 { return math.Round(x*1e9) / 1e9 }

// masses are the probabilities that all looks are as they are and that h has a value,
// by that value.
func (j *judge) masses(h int, looks []Look) ([]float64, error) {
	s := search{judge: j, h: h, out: make([]float64, j.cards[h])}
	s.worlds = append(s.worlds, sight{map[int]int{}, map[int]int{}, make([]int, len(j.nodes))}) // as it went
	for i, look := range looks {
		do, err := j.read(look.Do, "looks", i, "do")
		if err != nil {
			return nil, err
		}
		seen, err := j.read(look.Seen, "looks", i, "seen")
		if err != nil {
			return nil, err
		}
		s.worlds = append(s.worlds, sight{do, seen, make([]int, len(j.nodes))})
	}
	s.from(0, 1)
	return s.out, nil
}

func (j *judge) read(values record.Values, path ...any) (map[int]int, error) {
	out := map[int]int{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, ok := j.place[name]
		x := values[name]
		if !ok || x < 0 || x >= j.cards[v] {
			return nil, causal.Badf(causal.At(append(path, name)...), "there is no such variable or value")
		}
		out[v] = x
	}
	return out, nil
}

// sight is one world: what is forced, what is seen, and each variable's value.
type sight struct {
	do, seen map[int]int
	value    []int
}

type search struct {
	*judge
	h      int
	worlds []sight
	out    []float64
}

// from adds what the variables from the i-th on can be, given those before, which are
// as they are with probability p.
func (s *search) from(i int, p float64) {
	if i == len(s.order) {
		s.out[s.worlds[0].value[s.h]] += p
		return
	}
	v := s.order[i]
	node := &s.nodes[v]
	rows := make([]int, len(s.worlds))
	for w := range s.worlds {
		rows[w] = s.row(node, s.worlds[w].value)
	}
	// Noise that gives the same values in all worlds is one branch.
	var branches [][]int
	var chances []float64
	for _, t := range node.Tables {
		values := make([]int, len(s.worlds))
		possible := t.P > 0
		for w := range s.worlds {
			values[w] = t.Values[rows[w]]
			if x, forced := s.worlds[w].do[v]; forced {
				values[w] = x
			}
			x, seen := s.worlds[w].seen[v]
			possible = possible && (!seen || x == values[w])
		}
		if !possible {
			continue
		}
		k := slices.IndexFunc(branches, func(b []int) bool { return slices.Equal(b, values) })
		if k < 0 {
			k, branches, chances = len(branches), append(branches, values), append(chances, 0)
		}
		chances[k] += t.P
	}
	for k, values := range branches {
		for w := range s.worlds {
			s.worlds[w].value[v] = values[w]
		}
		s.from(i+1, p*chances[k])
	}
}

// Perform is what an experiment shows in an episode: the same noise, solved with Do
// forced. The error is a *causal.Fault of a model, an episode, or a name or a value
// that is none.
func Perform(m record.Mechanism, e world.Episode, x record.Experiment) (int, error) {
	j, err := newJudge(m)
	if err != nil {
		return 0, err
	}
	observed, ok := j.place[x.Observe]
	if !ok {
		return 0, causal.Badf(causal.At("observe"), "there is no variable %q", x.Observe)
	}
	do, err := j.read(x.Do, "do")
	if err != nil {
		return 0, err
	}
	value := make([]int, len(j.nodes))
	for _, v := range j.order {
		if forced, ok := do[v]; ok {
			value[v] = forced
			continue
		}
		node := &j.nodes[v]
		noise, ok := e.Noise[node.Name]
		if !ok || noise < 0 || noise >= len(node.Tables) {
			return 0, causal.Badf(causal.At("noise", node.Name), "the episode uses no table of this variable")
		}
		value[v] = node.Tables[noise].Values[j.row(node, value)]
	}
	return value[observed], nil
}
