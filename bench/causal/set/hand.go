package set

import (
	_ "embed"
	"fmt"
	"math"

	"assay/bench/causal/bayes"
	"assay/bench/causal/item"
	"assay/bench/causal/record"
	"assay/bench/causal/scm"
	"assay/internal/versioned"
)

//go:embed testdata/hand.json
var handFile []byte

// handCase is an answer that was worked out on paper before it was asked for.
type handCase struct {
	Name       string             `json:"name"`
	Derivation string             `json:"derivation"`
	Model      string             `json:"model"`
	Rung       int                `json:"rung,omitzero"`
	Query      record.Query       `json:"query"`
	Want       float64            `json:"want"`
	Hypotheses []string           `json:"hypotheses,omitempty"`
	Experiment *record.Experiment `json:"experiment,omitzero"`
	Actions    []record.Action    `json:"actions,omitempty"`
	Of         string             `json:"of,omitzero"` // what of the decision is wanted
	Joint      bool               `json:"joint,omitzero"`
	Directed   [][2]string        `json:"directed,omitempty"`
	Bidirected [][2]string        `json:"bidirected,omitempty"`
}

// handExact is how near the engine comes to a hand case.
const handExact = 1e-12

func hands() (models map[string]record.Mechanism, cases []handCase, err error) {
	var file struct {
		V      int                         `json:"v"`
		Models map[string]record.Mechanism `json:"models"`
		Cases  []handCase                  `json:"cases"`
	}
	err = versioned.Decode(handFile, 1, &file)
	return file.Models, file.Cases, err
}

func handCases() Check {
	c := Check{Name: "Hand cases", Method: "answers with derivations, written down before"}
	models, cases, err := hands()
	if err != nil {
		c.fault("%v", err)
	}
	right := 0
	for _, h := range cases {
		c.N++
		m, ok := models[h.Model]
		if !ok {
			c.fault("%s: there is no model %q", h.Name, h.Model)
			continue
		}
		got, err := h.answer(m)
		if err != nil || !(math.Abs(got-h.Want) <= handExact) {
			c.fault("%s: %v, want %v: %v", h.Name, got, h.Want, err)
			continue
		}
		right++
	}
	return c.end(20, "%d/%d", right, len(cases))
}

func (h handCase) answer(m record.Mechanism) (float64, error) {
	model, err := scm.New(m.Nodes, m.Latent)
	if err != nil {
		return 0, err
	}
	switch {
	case h.Query.Kind == record.Effect:
		return model.Effect(bayes.Contrast{Effect: bayes.Effect(h.Query.Effect), Treatment: h.Query.Treatment, Outcome: h.Query.Outcome})
	case h.Joint:
		j, _, err := observed(m, model)
		if err != nil {
			return 0, err
		}
		j.Directed, j.Bidirected = h.Directed, h.Bidirected
		v, _, ok := item.Identify(j, h.Query)
		if !ok {
			return math.NaN(), nil
		}
		return v, nil
	case h.Hypotheses != nil:
		return h.decision(m)
	}
	return model.Ask(scm.Rung(h.Rung), h.Query.SCM())
}

// decision is what is wanted of the state of things after what is given.
func (h handCase) decision(m record.Mechanism) (float64, error) {
	var menu []record.Experiment
	if h.Experiment != nil {
		menu = append(menu, *h.Experiment)
	}
	live, err := item.Judge(m, h.Query.Treatment, h.Hypotheses, []item.Look{{Seen: h.Query.Given}}, menu, h.Actions)
	if err != nil {
		return 0, err
	}
	switch h.Of {
	case "identified":
		return float64(len(live.IdentifiedSet)), nil
	case "eig":
		return live.EIGBits[h.Experiment.ID], nil
	case "loss":
		return live.ExpectedLoss[h.Actions[0].ID], nil
	case "regret":
		return live.Regret[h.Actions[0].ID], nil
	}
	return 0, fmt.Errorf("what is %q of a decision?", h.Of)
}
