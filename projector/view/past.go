package view

import (
	"assay/ledger"
	"assay/projector"
)

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
