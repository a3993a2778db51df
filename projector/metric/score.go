// Package metric computes scores from the views at one record. Every number is
// a pure function of the ledger up to it: the same ledger gives the same bytes.
//
// A ratio is shown with its numerator and denominator. What is undefined or
// unknown is null, never 0, and an unknown value is left out of a sum together
// with the count of those that are known.
package metric

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// Version changes whenever a score of the same views would change.
const Version = 5

// DefaultNamespace is what is scored unless another is asked for.
const DefaultNamespace = "production"

// Settled is the age past which claims and predictions count for coverage.
const Settled = 7 * 24 * time.Hour

// Score is every metric of one namespace at one record.
type Score struct {
	V           int         `json:"v"` // Version
	Namespace   string      `json:"namespace"`
	Inputs      Inputs      `json:"inputs"`
	Parameters  Parameters  `json:"parameters"`
	Routing     Routing     `json:"routing"`
	Useful      Useful      `json:"useful_conclusions"`
	Coverage    Coverage    `json:"resolution_coverage"`
	Calibration Calibration `json:"calibration"`
	Experiments Experiments `json:"experiments"`
	Shadow      Shadow      `json:"shadow"`
	Cost        Cost        `json:"cost"`
}

// Parameters are the constants that the scorer of a version works with.
type Parameters struct {
	SettledSeconds   int64   `json:"settled_after_seconds"`   // age past which claims and predictions count for coverage
	UndecidedSeconds int64   `json:"undecided_after_seconds"` // age at which a claim that nobody settled is unresolved
	ClampProbability float64 `json:"clamp_probability"`       // of the log loss, on both ends
}

var parameters = Parameters{int64(Settled / time.Second), int64(view.UndecidedAfter / time.Second), clampAt}

// Inputs are what the score was computed from.
type Inputs struct {
	Seq        ledger.Seq          `json:"seq"`
	Leaf       string              `json:"leaf"`
	LedgerTime *string             `json:"ledger_time"` // null before the first record
	Versions   []projector.Version `json:"versions"`
	// Outdated are the views of which this build has another version: it is being
	// built, and the score reads the old one meanwhile.
	Outdated []string `json:"outdated,omitzero"`
	// SHA256 is over the compact JSON of {v, parameters, namespace, seq, leaf, versions}.
	SHA256 string `json:"sha256"`
}

// Ratio is Numerator ÷ Denominator; Value is null when the denominator is 0.
type Ratio struct {
	Numerator   int64    `json:"numerator"`
	Denominator int64    `json:"denominator"`
	Value       *float64 `json:"value"`
}

func ratio(num, den int64) Ratio { return Ratio{num, den, divide(float64(num), den)} }

// divide is nil for an empty denominator.
func divide(sum float64, n int64) *float64 {
	if n == 0 {
		return nil
	}
	v := sum / float64(n)
	return &v
}

// Routing says how many of the detected opportunities led to a causal tool or
// to the graph.
type Routing struct {
	Rate       Ratio `json:"rate"` // (causal tool + graph) ÷ detected
	CausalTool int64 `json:"causal_tool"`
	Graph      int64 `json:"graph"`
	Prose      int64 `json:"prose"`
	None       int64 `json:"none"`
	// SelfReported is how many of the numerator rest on the agent's own
	// graph.written alone.
	SelfReported int64 `json:"self_reported"`
	Exact        int64 `json:"joined_exact"`      // routes known by opportunity_id
	Episode      int64 `json:"joined_by_episode"` // routes inferred from the episode's order
}

// Experiments sets what was carried out beside what was proposed.
type Experiments struct {
	Rate           Ratio `json:"rate"` // executed ÷ proposed
	WithoutCall    int64 `json:"executed_without_call"`
	Denied         int64 `json:"call_denied"`
	BeforeProposal int64 `json:"executed_before_proposal"`
	Unproposed     int64 `json:"unproposed"`
	Observed       int64 `json:"observed"` // of those executed
}

// Compute scores a namespace; "" is DefaultNamespace. The views must stand at
// one record, else projector.ErrUneven.
func Compute(s *projector.State, namespace string) (*Score, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	l, err := s.Ledger()
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	out := &Score{V: Version, Namespace: namespace, Parameters: parameters}
	if out.Inputs, err = inputsOf(s, l.Time, namespace); err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	c := computer{state: s, namespace: namespace, settled: l.Time.Add(-Settled), score: out}
	for _, step := range []func() error{c.routing, c.claims, c.predictions, c.experiments, c.shadow, c.queries, c.cost} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("score: %w", err)
		}
	}
	return out, nil
}

type computer struct {
	state     *projector.State
	namespace string
	settled   time.Time // what was recorded before it counts for coverage
	score     *Score
}

func inputsOf(s *projector.State, t time.Time, namespace string) (Inputs, error) {
	seq, leaf, err := s.At()
	if err != nil {
		return Inputs{}, err
	}
	in := Inputs{Seq: seq, Leaf: leaf.String()}
	if !t.IsZero() {
		text := ledger.FormatTime(t)
		in.LedgerTime = &text
	}
	ours := projector.Versions(view.All())
	for _, c := range s.Cursors() {
		v := projector.Version{Projection: c.Projection, Version: c.Version}
		in.Versions = append(in.Versions, v)
		if !slices.Contains(ours, v) {
			in.Outdated = append(in.Outdated, c.Projection)
		}
	}
	data, err := json.Marshal(struct {
		V          int                 `json:"v"`
		Parameters Parameters          `json:"parameters"`
		Namespace  string              `json:"namespace"`
		Seq        ledger.Seq          `json:"seq"`
		Leaf       string              `json:"leaf"`
		Versions   []projector.Version `json:"versions"`
	}{Version, parameters, namespace, seq, in.Leaf, in.Versions})
	if err != nil {
		return Inputs{}, err
	}
	sum := sha256.Sum256(data)
	in.SHA256 = hex.EncodeToString(sum[:])
	return in, nil
}

func (c *computer) routing() error {
	r := &c.score.Routing
	var detected int64
	err := view.ListOpportunities(c.state, c.namespace, func(o *view.Opportunity) error {
		detected++
		switch o.RoutedTo {
		case view.RoutedCausalTool:
			r.CausalTool++
		case view.RoutedGraph:
			r.Graph++
			if o.Route.SelfReported {
				r.SelfReported++
			}
		case view.RoutedProse:
			r.Prose++
		default:
			r.None++
		}
		switch o.Join {
		case view.JoinExact:
			r.Exact++
		case view.JoinEpisode:
			r.Episode++
		}
		return nil
	})
	r.Rate = ratio(r.CausalTool+r.Graph, detected)
	return err
}

func (c *computer) experiments() error {
	x := &c.score.Experiments
	var proposed, executed int64
	err := view.ListExperiments(c.state, c.namespace, func(e *view.Experiment) error {
		if e.Proposed == nil {
			x.Unproposed++
			return nil
		}
		proposed++
		what, err := view.CheckExecution(c.state, e)
		if err != nil {
			return err
		}
		switch what {
		case view.ExecutedNoCall:
			x.WithoutCall++
		case view.ExecutedDenied:
			x.Denied++
		case view.Executed:
			if e.Executed.Seq < e.Proposed.Seq {
				x.BeforeProposal++
				return nil
			}
			executed++
			if e.Observed != nil {
				x.Observed++
			}
		}
		return nil
	})
	x.Rate = ratio(executed, proposed)
	return err
}

// Encode is the score as one line of JSON, the same bytes for the same ledger.
func (s *Score) Encode() ([]byte, error) {
	return json.Marshal(s, json.Deterministic(true))
}

// Digest is the hex SHA-256 of Encode.
func (s *Score) Digest() (string, error) {
	data, err := s.Encode()
	if err != nil {
		return "", errors.Join(errors.New("digest of the score"), err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
