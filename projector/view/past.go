package view

import (
	"assay/ledger"
	"assay/projector"
)

// PromisesOf are the predictions made on a claim with what became of each, but for
// those whose id another prediction had first.
func PromisesOf(s *projector.State, c *Claim) ([]Prediction, error) { return promisesOf(s, c) }

// RevisionsOf are the changes of a claim's status, in order.
func RevisionsOf(s *projector.State, c *Claim) ([]Revision, error) {
	if c.Revisions == 0 {
		return nil, nil
	}
	return collect[Revision](s, revisionKind, c)
}

// RechecksOf are the rechecks of a claim that decide, in order.
func RechecksOf(s *projector.State, c *Claim) (out []Recheck, err error) {
	if c.Recheck == nil {
		return nil, nil
	}
	all, err := collect[Recheck](s, recheckKind, c)
	for _, r := range all {
		if r.Decides() {
			out = append(out, r)
		}
	}
	return out, err
}

// StatusBefore is where a claim stood just before a record, by its revisions; ""
// before it was recorded.
func (c *Claim) StatusBefore(seq ledger.Seq, revisions []Revision) string {
	if seq <= c.Seq {
		return ""
	}
	status := c.RecordedStatus
	for _, r := range revisions {
		if r.Seq < seq {
			status = r.NewStatus
		}
	}
	return status
}

// HypothesesBefore is the latest set of hypotheses before a claim that names it, or
// what it answers, or is of its episode; nil when there is none.
func HypothesesBefore(s *projector.State, c *Claim) (*HypothesisSet, error) {
	p, err := projector.Load[capture](s, Shadow, key(captureKind, c.Namespace, c.ClaimID))
	if err != nil || p.SetID == "" {
		return nil, err
	}
	return projector.Load[HypothesisSet](s, Shadow, key(setKind, c.Namespace, p.SetID))
}

// Values that metrics go by.
const (
	BeliefUnknown   = statusUnknown // of a belief that nobody recorded
	RatedHarmful    = ratingHarmful
	WithheldHoldout = causeHoldout
)
