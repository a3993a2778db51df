package calc

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"assay/bench/causal"
	"assay/bench/causal/bayes"
)

// networkRequest names a network: inline, or a file in the Bayesian Interchange
// Format.
type networkRequest struct {
	Network *struct {
		Variables map[string][]string `json:"variables"`
		CPTs      map[string]struct {
			Parents []string    `json:"parents"`
			Rows    [][]float64 `json:"rows"`
		} `json:"cpts"`
	} `json:"network"`
	BIF *string `json:"bif"`
}

// read makes the network; nil after a fault. The order in which a request lists
// variables makes no difference.
func (r *networkRequest) read(c *checker) *bayes.Network {
	switch {
	case r.Network != nil && r.BIF != nil:
		c.bad("/bif", "want either network or bif")
		return nil
	case r.BIF != nil:
		return readBIF(c, *r.BIF)
	case r.Network == nil:
		c.bad("/network", "a network is required")
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Network.CPTs)) {
		if _, ok := r.Network.Variables[name]; !ok {
			c.bad(pointer("network", "cpts", name), "there is no such variable")
			return nil
		}
	}
	var nodes []bayes.Node
	for _, name := range slices.Sorted(maps.Keys(r.Network.Variables)) {
		cpt, ok := r.Network.CPTs[name]
		if !ok {
			c.bad(pointer("network", "cpts"), "there are no probabilities of %q", name)
			return nil
		}
		nodes = append(nodes, bayes.Node{Name: name, States: r.Network.Variables[name], Parents: cpt.Parents, Rows: cpt.Rows})
	}
	network, err := bayes.New(nodes)
	if err != nil {
		c.engine(err, "/network")
		return nil
	}
	return network
}

// maxBIF is the longest file that is read, in bytes.
const maxBIF = 16 << 20

func readBIF(c *checker, path string) *bayes.Network {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		c.bad("/bif", "%v", err)
		return nil
	case !info.Mode().IsRegular():
		c.bad("/bif", "%s is no file", path)
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		c.bad("/bif", "%v", err)
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBIF+1))
	switch {
	case err != nil:
		c.bad("/bif", "%v", err)
		return nil
	case len(text) > maxBIF:
		c.note(TooLarge, "/bif", "a file may have %d bytes", maxBIF)
		return nil
	}
	network, err := bayes.ParseBIF(string(text))
	if err != nil {
		c.engine(err, "/bif")
		return nil
	}
	return network
}

// conditions are what a question about a network is asked under.
type conditions struct {
	Do       map[string]string    `json:"do"`
	Evidence map[string]string    `json:"evidence"`
	Virtual  map[string][]float64 `json:"virtual_evidence"`
}

func (q conditions) of(target []string) bayes.Query {
	return bayes.Query{Target: target, Do: q.Do, Evidence: q.Evidence, Virtual: q.Virtual}
}

func posterior(r *struct {
	networkRequest
	conditions
	Target names `json:"target"`
}, c *checker) plan {
	network := r.networkRequest.read(c)
	if len(r.Target) == 0 {
		c.bad("/target", "a target is required")
	}
	if c.fault != nil {
		return plan{}
	}
	inf, err := network.Prepare(r.conditions.of(r.Target))
	if err != nil {
		c.engine(err, "")
		return plan{}
	}
	if inf.Size() > maxStates {
		c.note(TooLarge, "/target", "the limit is %d joint states", maxStates)
	}
	return plan{inf.Cost(), func() (any, *Error) {
		table, _, err := inf.Run()
		if err != nil {
			return nil, faultOf(err, "").blame(oneMember(member{"evidence", len(r.Evidence)}, member{"virtual_evidence", len(r.Virtual)}))
		}
		value, err := keyed(table)
		if err != nil {
			return nil, faultOf(err, "")
		}
		return struct {
			Value map[string]float64 `json:"value"`
		}{value}, nil
	}}
}

// maxStates is the most joint states that a reply lists.
const maxStates = 1 << 20

// keyed is a distribution by joint state: the states of the variables, joined with
// commas.
func keyed(t bayes.Table) (map[string]float64, error) {
	out := make(map[string]float64, len(t.P))
	state := make([]int, len(t.States))
	parts := make([]string, len(t.States))
	for _, p := range t.P {
		for i, s := range state {
			parts[i] = t.States[i][s]
		}
		key := strings.Join(parts, ",")
		if _, twice := out[key]; twice {
			return nil, causal.Badf(causal.At("target"), "two joint states are both written %q: their names have commas", key)
		}
		out[key] = p
		for i := len(state) - 1; i >= 0; i-- {
			if state[i]++; state[i] < len(t.States[i]) {
				break
			}
			state[i] = 0
		}
	}
	return out, nil
}

// valueReply is a number.
type valueReply struct {
	Value float64 `json:"value"`
}

func evidenceProbability(r *struct {
	networkRequest
	conditions
}, c *checker) plan {
	network := r.networkRequest.read(c)
	if c.fault != nil {
		return plan{}
	}
	inf, err := network.Prepare(r.conditions.of(nil))
	if err != nil {
		c.engine(err, "")
		return plan{}
	}
	return plan{inf.Cost(), func() (any, *Error) {
		_, p, err := inf.Run()
		if err != nil && !errors.Is(err, causal.ErrZeroProbability) {
			return nil, faultOf(err, "")
		}
		return valueReply{p}, nil
	}}
}

func effect(r *struct {
	networkRequest
	Kind      bayes.Effect `json:"kind"`
	Treatment string       `json:"treatment"`
	Outcome   string       `json:"outcome"`
	Mediators *names       `json:"mediators"`
}, c *checker) plan {
	network := r.networkRequest.read(c)
	if c.fault != nil {
		return plan{}
	}
	contrast := bayes.Contrast{Effect: r.Kind, Treatment: r.Treatment, Outcome: r.Outcome}
	if r.Mediators != nil {
		contrast.Mediators = append([]string{}, *r.Mediators...)
	}
	inf, err := network.PrepareEffect(contrast)
	switch {
	case errors.Is(err, causal.ErrNotIdentifiable):
		return planned(0, func() any { return notIdentifiable })
	case err != nil:
		c.engine(err, "")
		return plan{}
	}
	return plan{inf.Cost(), func() (any, *Error) {
		v, err := inf.Run()
		if err != nil {
			return nil, faultOf(err, "").blame("/treatment")
		}
		return valueReply{v}, nil
	}}
}
