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
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// Version changes whenever a score of the same views would change.
const Version = 8

// DefaultNamespace is what is scored unless another is asked for.
const DefaultNamespace = "production"

// Settled is the age past which claims and predictions count for coverage.
const Settled = 7 * 24 * time.Hour

// Score is every metric of one namespace at one record.
type Score struct {
	V          int        `json:"v"` // Version
	Namespace  string     `json:"namespace"`
	Inputs     Inputs     `json:"inputs"`
	Parameters Parameters `json:"parameters"`
	// Imported counts what is in no figure because its record was imported:
	// opportunities, claims, predictions, experiments, sets, queries and usages.
	Imported    int64       `json:"imported"`
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

func (r *Ratio) settle() { r.Value = divide(float64(r.Numerator), r.Denominator) }

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

func (c *computer) routing(o *view.Opportunity) error {
	if ok, err := c.counts(o.Seq); !ok {
		return err
	}
	r := &c.Routing
	r.Rate.Denominator++
	if followed, err := c.followed(o); !followed {
		count(&r.None, err == nil)
		return err
	}
	switch o.RoutedTo {
	case view.RoutedCausalTool:
		r.CausalTool++
		r.Rate.Numerator++
	case view.RoutedGraph:
		r.Graph++
		r.Rate.Numerator++
		count(&r.SelfReported, o.Route.SelfReported)
	case view.RoutedProse:
		r.Prose++
	}
	switch o.Join {
	case view.JoinExact:
		r.Exact++
	case view.JoinEpisode:
		r.Episode++
	}
	return nil
}

func (c *computer) experiment(e *view.Experiment) error {
	x := &c.Experiments
	if ok, err := c.counts(firstOf(e)); !ok {
		return err
	}
	if e.Proposed == nil {
		x.Unproposed++
		return nil
	}
	x.Rate.Denominator++
	what, err := c.executionOf(e)
	switch {
	case err != nil:
		return err
	case what == view.ExecutedNoCall:
		x.WithoutCall++
	case what == view.ExecutedDenied:
		x.Denied++
	case what == executedBefore:
		x.BeforeProposal++
	case what == view.Executed:
		x.Rate.Numerator++
		return c.observed(e)
	}
	return nil
}

func (c *computer) observed(e *view.Experiment) error {
	if e.Observed == nil {
		return nil
	}
	imported, err := c.isImported(e.Observed.Seq)
	count(&c.Experiments.Observed, !imported && err == nil)
	return err
}

// firstOf is the record that brings an experiment up.
func firstOf(e *view.Experiment) ledger.Seq {
	switch {
	case e.Proposed != nil:
		return e.Proposed.Seq
	case e.Executed != nil:
		return e.Executed.Seq
	}
	return e.Observed.Seq
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
