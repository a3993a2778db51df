package events

// BeliefCreated says that a belief was stored (C8 7.7, 8.2). A causal hypothesis is
// a belief with a rung. Written by a dispatcher it is what an audit of the store
// saw.
type BeliefCreated struct {
	Context       `json:"context"`
	BeliefID      string      `json:"belief_id"`
	Version       *int64      `json:"version,omitzero"`  // nil: not known, as of a store that counts none
	Rung          *string     `json:"rung,omitzero"`     // nil: no causal hypothesis
	ClaimID       *string     `json:"claim_id,omitzero"` // the claim that it stores
	ContentSHA256 string      `json:"content_sha256"`    // hex; the content itself goes by dataref
	Provenance    *Provenance `json:"provenance,omitzero"`
}

// BeliefChallenged says that something speaks against a belief. Whether it has to be
// revised is for a label to say; keeping it can be right.
type BeliefChallenged struct {
	Context         `json:"context"`
	ChallengeID     string   `json:"challenge_id"`
	BeliefID        string   `json:"belief_id"`
	Version         *int64   `json:"version,omitzero"` // nil: not known
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
	ContradictionID *string  `json:"contradiction_id,omitzero"`
	Reason          *string  `json:"reason,omitzero"`
}

// BeliefRevised says that a belief's content or metadata changed. One without a new
// version, as an audit of the store may find it, is a silent mutation.
type BeliefRevised struct {
	Context           `json:"context"`
	BeliefID          string      `json:"belief_id"`
	Change            string      `json:"change"` // content, metadata
	OldVersion        *int64      `json:"old_version,omitzero"`
	NewVersion        *int64      `json:"new_version,omitzero"` // nil: none that anybody saw
	OldContentSHA256  *string     `json:"old_content_sha256,omitzero"`
	ContentSHA256     string      `json:"content_sha256"`        // hex, after the change
	Authorised        *bool       `json:"authorised,omitzero"`   // a policy allows this edit
	ChallengeID       *string     `json:"challenge_id,omitzero"` // which challenge it answers
	TriggerEvidenceID *string     `json:"trigger_evidence_id,omitzero"`
	Provenance        *Provenance `json:"provenance,omitzero"` // after the change
	Reason            *string     `json:"reason,omitzero"`
}

// BeliefSuperseded says that another belief stands in the place of this one from now
// on.
type BeliefSuperseded struct {
	Context           `json:"context"`
	BeliefID          string  `json:"belief_id"`
	Version           *int64  `json:"version,omitzero"` // nil: not known
	SupersededBy      string  `json:"superseded_by"`    // belief id
	TriggerEvidenceID *string `json:"trigger_evidence_id,omitzero"`
	Reason            *string `json:"reason,omitzero"`
}

// LineageChanged says that what a belief tells of its own derivation changed.
type LineageChanged struct {
	Context    `json:"context"`
	BeliefID   string   `json:"belief_id"`
	Version    *int64   `json:"version,omitzero"`     // nil: not known
	OldLineage *Lineage `json:"old_lineage,omitzero"` // nil: not known
	NewLineage *Lineage `json:"new_lineage,omitzero"` // nil: not known
	Authorised *bool    `json:"authorised,omitzero"`  // a policy allows this edit
	Reason     *string  `json:"reason,omitzero"`
}

// BeliefRead says that a belief was put before the agent, and in which version.
type BeliefRead struct {
	Context             `json:"context"`
	BeliefID            string  `json:"belief_id"`
	Version             *int64  `json:"version,omitzero"`              // that was given out; nil: not known
	CurrentVersion      *int64  `json:"current_version,omitzero"`      // that the store held at that moment
	ContentSHA256       *string `json:"content_sha256,omitzero"`       // hex, as it was given out
	PendingInvalidation *bool   `json:"pending_invalidation,omitzero"` // an invalidation of it was still to be worked off
}

// BeliefTransformed is a step of consolidation. Each output tells its own lineage:
// the weakest label of a summary does not spread over its claims.
type BeliefTransformed struct {
	Context     `json:"context"`
	TransformID string         `json:"transform_id"`
	Op          string         `json:"op"`              // summarised, merged, split, copied, rewritten
	Writer      *string        `json:"writer,omitzero"` // with its version
	Inputs      []BeliefInput  `json:"inputs"`
	Outputs     []BeliefOutput `json:"outputs"` // empty: everything was dropped
}

// BeliefInput is a belief that went into a transformation.
type BeliefInput struct {
	BeliefID string `json:"belief_id"`
	Version  *int64 `json:"version,omitzero"` // nil: not known
}

// BeliefOutput is a belief that came out of a transformation.
type BeliefOutput struct {
	BeliefID      string      `json:"belief_id"`
	Version       *int64      `json:"version,omitzero"`        // nil: not known
	ContentSHA256 *string     `json:"content_sha256,omitzero"` // hex
	From          []string    `json:"from,omitzero"`           // the inputs that it rests on; nil: not recorded
	Provenance    *Provenance `json:"provenance,omitzero"`
}
