package events

// AuditLabelled is what a rater found in one case of a sample (C9 edge census, C8
// 8.2, 13). Nil is what was not asked, or could not be told.
type AuditLabelled struct {
	Context             `json:"context"`
	SampleSeq           *uint64    `json:"sample_seq,omitzero"` // the audit.sampled record that drew it
	Stratum             *string    `json:"stratum,omitzero"`
	Kind                string     `json:"kind"` // claim, prediction, turn, opportunity, contradiction, challenge, belief, edge, transform
	ID                  string     `json:"id"`
	Eligible            *bool      `json:"eligible,omitzero"`             // there was an opportunity
	AbductionWarranted  *bool      `json:"abduction_warranted,omitzero"`  // an abduction was called for
	ContradictionValid  *bool      `json:"contradiction_valid,omitzero"`  // the conflict is genuine
	DispositionCorrect  *bool      `json:"disposition_correct,omitzero"`  // it was closed, scoped or left open rightly
	RevisionRequired    *bool      `json:"revision_required,omitzero"`    // the challenge called for a revision
	RevisionCorrect     *bool      `json:"revision_correct,omitzero"`     // what followed was right; to keep a belief can be
	CommitmentSupported *bool      `json:"commitment_supported,omitzero"` // the evidence at the time bears what was asserted
	LineagePreserved    *bool      `json:"lineage_preserved,omitzero"`    // the derivation survived the step
	Edge                *EdgeLabel `json:"edge,omitzero"`
	Rater               string     `json:"rater"`
	Blind               bool       `json:"blind"` // the rater saw neither the other's labels nor the system's verdict
	RubricVersion       string     `json:"rubric_version"`
	Note                *string    `json:"note,omitzero"`
}

// EdgeLabel is an edge held against its source (C9, edge semantics census).
type EdgeLabel struct {
	RelationKind    *string `json:"relation_kind,omitzero"`    // causal_claim, correlation, dependency, chronology, part_of, other
	Direction       *string `json:"direction,omitzero"`        // right, reversed, undirected (in the source)
	Mechanism       *string `json:"mechanism,omitzero"`        // asserted, inferred (by the extractor), tested
	KeepsSource     *bool   `json:"keeps_source,omitzero"`     // the source is named
	KeepsTime       *bool   `json:"keeps_time,omitzero"`       // the time is kept
	KeepsScope      *bool   `json:"keeps_scope,omitzero"`      // scope and conditions are kept
	KeepsConfidence *bool   `json:"keeps_confidence,omitzero"` // the confidence is kept
	KeepsContrary   *bool   `json:"keeps_contrary,omitzero"`   // contrary evidence is kept
}
