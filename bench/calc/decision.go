package calc

import (
	"maps"
	"slices"

	"assay/bench/causal"
	"assay/bench/causal/decide"
)

type decisionRequest struct {
	States  []string                    `json:"states"`
	Prior   map[string]float64          `json:"prior"`
	Utility ordered[map[string]float64] `json:"utility"`
	Queries []struct {
		ID         *string                       `json:"id"`
		Cost       *float64                      `json:"cost"`
		Likelihood map[string]map[string]float64 `json:"likelihood"`
	} `json:"queries"`
}

// maxOutcomes is the most numbers P(outcome | state) that the queries of a request may
// have, also those that are left out as 0: a reply has a posterior for each outcome.
const maxOutcomes = 1 << 20

// maxUtility keeps sums of utilities finite.
const maxUtility = 1e300

// choiceReply tells a choice; its actions are in the request's order.
type choiceReply struct {
	Best    string   `json:"best_action"`
	Optimal []string `json:"optimal_actions"`
	Utility float64  `json:"utility"`
}

type outcomeReply struct {
	P         float64            `json:"p"`
	Posterior map[string]float64 `json:"posterior"`
	choiceReply
	AfterCost float64 `json:"utility_after_cost"`
}

type queryReply struct {
	ID       string                  `json:"id"`
	Outcomes map[string]outcomeReply `json:"outcomes"`
	EVSI     float64                 `json:"evsi"`
	Net      float64                 `json:"net_voi"`
	EIG      float64                 `json:"eig_bits"`
}

func decision(r *decisionRequest, c *checker) plan {
	if r.checkStates(c); c.fault != nil {
		return plan{}
	}
	problem := decide.Problem{Prior: r.perState(c, pointer("prior"), r.Prior, 0, 1+causal.Slack)}
	if f := causal.CheckDistribution(problem.Prior, func(...any) []string { return causal.At("prior") }); f != nil {
		c.engine(f, "")
	}
	if len(r.Utility.keys) == 0 {
		c.bad("/utility", "at least one action is required")
	}
	for i, action := range r.Utility.keys {
		problem.Utility = append(problem.Utility, r.perState(c, pointer("utility", action), r.Utility.values[i], -maxUtility, maxUtility))
	}
	cost := len(r.States) * len(r.Utility.keys)
	outcomes := make([][]string, len(r.Queries))
	listed := 0
	ids := map[string]bool{}
	for i := range r.Queries {
		if id := r.Queries[i].ID; id != nil {
			if ids[*id] {
				c.bad(item("/queries", i)+"/id", "there are two queries of this name")
			}
			ids[*id] = true
		}
		outcomes[i] = r.outcomes(i)
		if listed += len(outcomes[i]) * len(r.States); listed > maxOutcomes {
			c.note(TooLarge, item("/queries", i), "the limit is %d outcomes in all states", maxOutcomes)
			return plan{}
		}
		problem.Queries = append(problem.Queries, r.query(c, i, outcomes[i]))
		cost += len(outcomes[i]) * len(r.States) * (len(r.Utility.keys) + 1)
	}
	return planned(cost, func() any { return r.reply(decide.Solve(problem), outcomes) })
}

func (r *decisionRequest) checkStates(c *checker) {
	if len(r.States) == 0 {
		c.bad("/states", "at least one state is required")
	}
	if i, twice := causal.Repeated(r.States); twice {
		c.bad(item("/states", i), "there are two states of this name")
	}
}

// outcomes lists what a query may say, in some state.
func (r *decisionRequest) outcomes(i int) []string {
	named := map[string]bool{}
	for _, likelihood := range r.Queries[i].Likelihood {
		for outcome := range likelihood {
			named[outcome] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// perState reads a number for each state.
func (r *decisionRequest) perState(c *checker, at string, given map[string]float64, low, high float64) []float64 {
	out := make([]float64, len(r.States))
	for i, s := range r.States {
		x, ok := given[s]
		switch {
		case !ok:
			c.bad(at, "there is no number for state %q", s)
		case !(x >= low && x <= high):
			c.bad(at+pointer(s), "want a number from %g to %g", low, high)
		}
		out[i] = x
	}
	if len(given) > len(r.States) {
		c.bad(at, "there are %d numbers for %d states", len(given), len(r.States))
	}
	return out
}

// query reads a query with these outcomes.
func (r *decisionRequest) query(c *checker, i int, outcomes []string) (q decide.Query) {
	given, at := r.Queries[i], item("/queries", i)
	if given.ID == nil {
		c.bad(at+"/id", "a name is required")
	}
	q.Cost = c.within(at+"/cost", given.Cost, -maxUtility, maxUtility)
	if len(given.Likelihood) > len(r.States) {
		c.bad(at+"/likelihood", "there are likelihoods of %d states, and %d states", len(given.Likelihood), len(r.States))
	}
	for _, s := range r.States {
		likelihood, ok := given.Likelihood[s]
		if !ok {
			c.bad(at+"/likelihood", "there is no likelihood in state %q", s)
		}
		row := make([]float64, len(outcomes))
		for k, outcome := range outcomes {
			row[k] = likelihood[outcome]
		}
		f := causal.CheckDistribution(row, func(path ...any) []string {
			if len(path) == 0 {
				return causal.At("likelihood", s)
			}
			return causal.At("likelihood", s, outcomes[path[0].(int)])
		})
		if f != nil {
			c.engine(f, at)
		}
		q.Likelihood = append(q.Likelihood, row)
	}
	return q
}

func (r *decisionRequest) reply(report decide.Report, outcomes [][]string) any {
	out := struct {
		choiceReply
		Expected map[string]float64 `json:"expected_utility"`
		EVPI     float64            `json:"evpi"`
		Queries  []queryReply       `json:"queries"`
	}{r.choice(report.Choice), map[string]float64{}, report.EVPI, make([]queryReply, 0, len(r.Queries))}
	for a, action := range r.Utility.keys {
		out.Expected[action] = report.Expected[a]
	}
	for i, v := range report.Queries {
		q := queryReply{*r.Queries[i].ID, map[string]outcomeReply{}, v.EVSI, v.Net, v.EIG}
		for k, o := range v.Outcomes {
			if o.P == 0 {
				continue
			}
			posterior := map[string]float64{}
			for s, state := range r.States {
				posterior[state] = o.Posterior[s]
			}
			q.Outcomes[outcomes[i][k]] = outcomeReply{o.P, posterior, r.choice(o.Choice), o.Utility - *r.Queries[i].Cost}
		}
		out.Queries = append(out.Queries, q)
	}
	return out
}

func (r *decisionRequest) choice(choice decide.Choice) choiceReply {
	out := choiceReply{Utility: choice.Utility}
	for _, a := range choice.Optimal {
		out.Optimal = append(out.Optimal, r.Utility.keys[a])
	}
	out.Best = out.Optimal[0]
	return out
}

func bounds(r *struct {
	Quantity     decide.Quantity    `json:"quantity"`
	Joint        map[string]float64 `json:"joint"`
	Experimental *struct {
		Do1 *float64 `json:"y_do1"`
		Do0 *float64 `json:"y_do0"`
	} `json:"experimental"`
	Monotonic bool `json:"monotonic"`
}, c *checker) plan {
	quantity := oneOf(c, "/quantity", r.Quantity, decide.PN, decide.PS, decide.PNS)
	k := decide.Knowledge{Monotonic: r.Monotonic}
	if r.Joint != nil {
		k.Joint = readJoint(c, r.Joint)
	}
	if r.Experimental != nil {
		k.Experiment = &decide.Experiment{
			Do1: c.within("/experimental/y_do1", r.Experimental.Do1, 0, 1),
			Do0: c.within("/experimental/y_do0", r.Experimental.Do0, 0, 1),
		}
	}
	if c.fault != nil {
		return plan{}
	}
	interval, err := decide.Bounds(quantity, k)
	if err != nil {
		c.fault = faultOf(err, "").blame("/joint")
		return plan{}
	}
	return planned(0, func() any {
		return struct {
			Low   float64 `json:"low"`
			High  float64 `json:"high"`
			Tight bool    `json:"tight"` // always: some model has each value of the interval
		}{interval.Low, interval.High, true}
	})
}

// readJoint reads a distribution of two binary variables, by their values "xy". What
// is left out has probability 0, as the sum must show.
func readJoint(c *checker, given map[string]float64) *decide.Joint {
	var joint decide.Joint
	var all []float64
	for _, key := range slices.Sorted(maps.Keys(given)) {
		i := slices.Index([]string{"00", "01", "10", "11"}, key)
		if i < 0 {
			c.bad(pointer("joint", key), "want 00, 01, 10 or 11: the values of X and Y")
			continue
		}
		joint[i/2][i%2] = c.within(pointer("joint", key), new(given[key]), 0, 1+causal.Slack)
		all = append(all, given[key])
	}
	if f := causal.CheckDistribution(all, func(...any) []string { return causal.At("joint") }); f != nil {
		c.engine(f, "")
	}
	return &joint
}
