package view

import (
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
)

// Claim is a claim as it was recorded and where it stands now.
type Claim struct {
	Namespace            string              `json:"namespace"`
	ClaimID              string              `json:"claim_id"`
	EventID              string              `json:"event_id"`
	Seq                  ledger.Seq          `json:"seq"`
	RecordedAt           time.Time           `json:"recorded_at"`
	Principal            string              `json:"principal"`
	EpisodeID            string              `json:"episode_id,omitzero"`
	OpportunityID        *string             `json:"opportunity_id,omitzero"`
	Edge                 *events.Edge        `json:"edge,omitzero"`
	Proposition          *events.Proposition `json:"proposition,omitzero"`
	RawConfidence        *float64            `json:"raw_confidence,omitzero"`
	CalibratedConfidence *float64            `json:"calibrated_confidence,omitzero"`
	RecordedStatus       string              `json:"recorded_status"`
	EvidenceIDs          []string            `json:"evidence_ids,omitzero"`
	// EvidenceSnapshots pin what the claim was made on, by the agent's word.
	EvidenceSnapshots []events.EvidenceSnapshot `json:"evidence_snapshots,omitzero"`
	CompetingIDs      []string                  `json:"competing_ids,omitzero"`
	Assumptions       []string                  `json:"assumptions,omitzero"`
	Action            *string                   `json:"action,omitzero"`

	Status string `json:"status"` // now: hypothesis, asserted, retracted
	// AssertedSeq is the record since which the claim has been asserted
	// without a break; 0 while it is not.
	AssertedSeq ledger.Seq `json:"asserted_seq,omitzero"`
	Revisions   int64      `json:"revisions"`
	Predictions int64      `json:"predictions"`
	Outcomes    int64      `json:"outcomes"`
	Rechecks    int64      `json:"rechecks"`
	// Recheck is the latest fix.rechecked that decides: it was conclusive, and
	// somebody saw it directly.
	Recheck *Recheck `json:"recheck,omitzero"`
	Repeats int64    `json:"repeats"` // later claims of the same id
}

// Revision is one change of a claim's status.
type Revision struct {
	Seq               ledger.Seq `json:"seq"`
	RecordedAt        time.Time  `json:"recorded_at"`
	Principal         string     `json:"principal"`
	OldStatus         string     `json:"old_status"`
	NewStatus         string     `json:"new_status"`
	TriggerEvidenceID *string    `json:"trigger_evidence_id,omitzero"`
}

// Recheck is one fix.rechecked of a claim. Its writers are the resolver and the
// operator, so it never is the claiming principal's own word.
type Recheck struct {
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	Result      string     `json:"result"`
	Source      string     `json:"source"`
	Direct      bool       `json:"direct"`
	ToolCallID  *string    `json:"tool_call_id,omitzero"`
	EvidenceIDs []string   `json:"evidence_ids,omitzero"`
}

// Decides says that the recheck moves where its claim stands: what was not
// conclusive, or only reported, does not.
func (r *Recheck) Decides() bool { return r.Direct && r.Result != recheckOpen }

// Outcome is one outcome.recorded that names a claim.
type Outcome struct {
	Seq         ledger.Seq `json:"seq"`
	RecordedAt  time.Time  `json:"recorded_at"`
	Principal   string     `json:"principal"`
	What        string     `json:"what"`
	Source      string     `json:"source"`
	Direct      bool       `json:"direct"`
	ObservedAt  *string    `json:"observed_at,omitzero"`
	EvidenceIDs []string   `json:"evidence_ids,omitzero"`
}

// ClaimPrediction names a prediction made on a claim.
type ClaimPrediction struct {
	PredID string     `json:"pred_id"`
	Seq    ledger.Seq `json:"seq"`
}

// Values that decide something here.
const (
	StatusHypothesis = "hypothesis"
	StatusAsserted   = "asserted"
	StatusRetracted  = "retracted"
	RecheckHeld      = "confirmed" // result of a fix.rechecked
	recheckOpen      = "inconclusive"
	orphanNotStatus  = "status" // the revision does not start at the claim's status
)

const (
	claimKind    = "c"
	revisionKind = "v"
	predictionOf = "p"
	recheckKind  = "f"
	outcomeKind  = "u"
)

func (c *Claim) introducedBy() string { return c.EventID }

type claims struct{}

func (claims) Name() string { return Claims }
func (claims) Version() int { return 4 }

// Apply implements projector.Projection.
func (claims) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.ClaimRecorded:
		recordClaim(b, r, d)
	case *events.ClaimRevised:
		reviseClaim(b, r, d)
	case *events.PredictionRecorded:
		predictOn(b, r, d)
	case *events.FixRechecked:
		return recheckClaim(b, r, d)
	case *events.OutcomeRecorded:
		return outcomeOf(b, r, d)
	case *events.EvidenceDelivered:
		return deliverContent(b, r, d)
	case *events.ExperimentObserved:
		deliver(b, r.Namespace, d.EvidenceIDs, r)
	}
	return nil
}

func recordClaim(b *projector.Batch, r *projector.Record, d *events.ClaimRecorded) {
	c, ok := projector.Edit[Claim](b, key(claimKind, r.Namespace, d.ClaimID))
	if ok {
		c.Repeats++
		return
	}
	addPlace(b, r.Namespace)
	*c = Claim{
		Namespace: r.Namespace, ClaimID: d.ClaimID, EventID: r.Event.ID, Seq: r.Seq, RecordedAt: r.RecordedAt,
		Principal: r.Principal, EpisodeID: r.Event.EpisodeID, OpportunityID: d.Context.OpportunityID,
		Edge: d.Edge, Proposition: d.Proposition,
		RawConfidence: d.RawConfidence, CalibratedConfidence: d.CalibratedConfidence,
		EvidenceIDs: d.EvidenceIDs, EvidenceSnapshots: d.EvidenceSnapshots, CompetingIDs: d.CompetingIDs, Assumptions: d.Assumptions, Action: d.Action,
		RecordedStatus: d.Status,
	}
	c.stand(d.Status, r.Seq)
}

func (c *Claim) stand(status string, at ledger.Seq) {
	switch {
	case status != StatusAsserted:
		c.AssertedSeq = 0
	case c.Status != StatusAsserted:
		c.AssertedSeq = at
	}
	c.Status = status
}

func reviseClaim(b *projector.Batch, r *projector.Record, d *events.ClaimRevised) {
	k := key(claimKind, r.Namespace, d.ClaimID)
	c, ok := projector.View[Claim](b, k)
	if !ok {
		addOrphan(b, r.Namespace, d.ClaimID, orphanUnknown, r)
		return
	}
	if c.Status != d.OldStatus {
		addOrphan(b, r.Namespace, d.ClaimID, orphanNotStatus, r)
		return
	}
	c, _ = projector.Edit[Claim](b, k)
	c.Revisions++
	c.stand(d.NewStatus, r.Seq)
	v, _ := projector.Edit[Revision](b, key(revisionKind, r.Namespace, d.ClaimID, projector.SeqKey(r.Seq)))
	*v = Revision{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		OldStatus: d.OldStatus, NewStatus: d.NewStatus, TriggerEvidenceID: d.TriggerEvidenceID,
	}
}

func predictOn(b *projector.Batch, r *projector.Record, d *events.PredictionRecorded) {
	if d.ClaimID == nil {
		return
	}
	k := key(claimKind, r.Namespace, *d.ClaimID)
	if _, ok := projector.View[Claim](b, k); !ok {
		addOrphan(b, r.Namespace, *d.ClaimID, orphanUnknown, r)
		return
	}
	c, _ := projector.Edit[Claim](b, k)
	c.Predictions++
	p, _ := projector.Edit[ClaimPrediction](b, key(predictionOf, r.Namespace, *d.ClaimID, projector.SeqKey(r.Seq)))
	*p = ClaimPrediction{PredID: d.PredID, Seq: r.Seq}
}

func recheckClaim(b *projector.Batch, r *projector.Record, d *events.FixRechecked) error {
	if r.Role() != roleResolver && r.Role() != roleOperator {
		return forbidden(r)
	}
	ns, reason := namespaceOf[Claim](b, claimKind, d.ClaimID, r)
	deliver(b, ns, d.EvidenceIDs, r)
	if reason != "" {
		addOrphan(b, ns, d.ClaimID, reason, r)
		return nil
	}
	c, _ := projector.Edit[Claim](b, key(claimKind, ns, d.ClaimID))
	c.Rechecks++
	f, _ := projector.Edit[Recheck](b, key(recheckKind, ns, d.ClaimID, projector.SeqKey(r.Seq)))
	*f = Recheck{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, Result: d.Result, Source: d.Source,
		Direct: d.Direct, ToolCallID: d.ToolCallID, EvidenceIDs: d.EvidenceIDs,
	}
	if f.Decides() {
		latest := *f
		c.Recheck = &latest
	}
	return nil
}

func outcomeOf(b *projector.Batch, r *projector.Record, d *events.OutcomeRecorded) error {
	if r.Role() != roleResolver && r.Role() != roleOperator {
		return forbidden(r)
	}
	if d.ClaimID == nil {
		deliver(b, r.Namespace, d.EvidenceIDs, r)
		return nil
	}
	ns, reason := namespaceOf[Claim](b, claimKind, *d.ClaimID, r)
	deliver(b, ns, d.EvidenceIDs, r)
	if reason != "" {
		addOrphan(b, ns, *d.ClaimID, reason, r)
		return nil
	}
	c, _ := projector.Edit[Claim](b, key(claimKind, ns, *d.ClaimID))
	c.Outcomes++
	o, _ := projector.Edit[Outcome](b, key(outcomeKind, ns, *d.ClaimID, projector.SeqKey(r.Seq)))
	*o = Outcome{
		Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, What: d.What, Source: d.Source,
		Direct: d.Direct, ObservedAt: d.ObservedAt, EvidenceIDs: d.EvidenceIDs,
	}
	return nil
}

// GetClaim reads one claim; kv.ErrNotFound when there is none.
func GetClaim(s *projector.State, namespace, claimID string) (*Claim, error) {
	return projector.Load[Claim](s, Claims, key(claimKind, namespace, claimID))
}

// FindClaim reads the claims of an id in all namespaces.
func FindClaim(s *projector.State, claimID string) ([]Claim, error) {
	return find[Claim](s, Claims, claimKind, claimID)
}

// ListClaims calls fn for a namespace's claims in the order of their ids.
func ListClaims(s *projector.State, namespace string, fn func(*Claim) error) error {
	return list(s, Claims, fn, claimKind, namespace)
}

// ClaimHistory is everything that happened to one claim, each list in order.
type ClaimHistory struct {
	Revisions   []Revision        `json:"revisions"`
	Predictions []ClaimPrediction `json:"predictions"`
	Rechecks    []Recheck         `json:"rechecks"`
	Outcomes    []Outcome         `json:"outcomes"`
	Undelivered []string          `json:"undelivered_evidence"`
}

// GetClaimHistory reads what happened to a claim.
func GetClaimHistory(s *projector.State, c *Claim) (h ClaimHistory, err error) {
	if h.Revisions, err = collect[Revision](s, revisionKind, c); err != nil {
		return h, err
	}
	if h.Predictions, err = collect[ClaimPrediction](s, predictionOf, c); err != nil {
		return h, err
	}
	if h.Rechecks, err = collect[Recheck](s, recheckKind, c); err != nil {
		return h, err
	}
	if h.Outcomes, err = collect[Outcome](s, outcomeKind, c); err != nil {
		return h, err
	}
	h.Undelivered, err = UndeliveredEvidence(s, c)
	return h, err
}

// PredictionsOf are the predictions made on a claim, in order.
func PredictionsOf(s *projector.State, c *Claim) ([]ClaimPrediction, error) {
	return collect[ClaimPrediction](s, predictionOf, c)
}

func collect[T any](s *projector.State, kind string, c *Claim) (out []T, err error) {
	err = list(s, Claims, func(v *T) error { out = append(out, *v); return nil }, kind, c.Namespace, c.ClaimID)
	return out, err
}
