package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Scan is a batch of turns that a detector looked at.
type Scan struct {
	Namespace       string                  `json:"namespace"`
	Seq             ledger.Seq              `json:"seq"`
	RecordedAt      time.Time               `json:"recorded_at"`
	Principal       string                  `json:"principal"`
	DetectorVersion string                  `json:"detector_version"`
	Turns           int64                   `json:"turns"`
	Positive        int64                   `json:"positive"`
	Negative        int64                   `json:"negative"`
	Strata          []events.ScannedStratum `json:"strata,omitzero"`
	NegativeTurnIDs []string                `json:"negative_turn_ids,omitzero"`
	// Inconsistent flags counts that contradict each other: more verdicts than
	// turns, or more ids than negative turns.
	Inconsistent bool `json:"inconsistent"`
}

const scanKind = "s"

type scans struct{}

func (scans) Name() string { return Scans }
func (scans) Version() int { return 2 }

// Apply implements projector.Projection.
func (scans) Apply(b *projector.Batch, r *projector.Record) error {
	d, ok := r.Event.Data.(*events.DetectorScanned)
	if !ok {
		return nil
	}
	if r.Role() != roleDetector {
		return forbidden(r)
	}
	s, _ := projector.Edit[Scan](b, key(scanKind, r.Namespace, projector.SeqKey(r.Seq)))
	*s = Scan{
		Namespace: r.Namespace, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, DetectorVersion: d.DetectorVersion,
		Turns: d.Turns, Positive: d.Positive, Negative: d.Negative, Strata: d.Strata, NegativeTurnIDs: d.NegativeTurnIDs,
		Inconsistent: d.Positive+d.Negative > d.Turns || int64(len(d.NegativeTurnIDs)) > d.Negative,
	}
	return nil
}

// ListScans calls fn for a namespace's scans in the order of records.
func ListScans(s *projector.State, namespace string, fn func(*Scan) error) error {
	return list(s, Scans, fn, scanKind, namespace)
}
