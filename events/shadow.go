package events

// Alternative is one hypothesis of a set. Exactly one of Edge and Proposition
// is set.
type Alternative struct {
	ID          string                  `json:"id"`
	Edge        *AlternativeEdge        `json:"edge,omitzero"`
	Proposition *AlternativeProposition `json:"proposition,omitzero"`
	P           *float64                `json:"p,omitzero"` // [0, 1]
}

// AlternativeEdge is a cause of an effect.
type AlternativeEdge struct {
	Cause  string `json:"cause"`
	Effect string `json:"effect"`
}

// AlternativeProposition is a variable's value.
type AlternativeProposition struct {
	Variable string `json:"variable"`
	Value    string `json:"value"`
}

// HypothesesRecorded is what the agent held possible, with the probability
// that she gave to each and to everything that is not listed (C8 8.2).
type HypothesesRecorded struct {
	Context      `json:"context"`
	SetID        string        `json:"set_id"`
	ClaimID      *string       `json:"claim_id,omitzero"`
	QuestionID   *string       `json:"question_id,omitzero"` // such as an opportunity's id
	Alternatives []Alternative `json:"alternatives"`
	OtherP       *float64      `json:"other_p,omitzero"` // of none of the alternatives
}

// QuerySelected is a choice among queries with what each was expected to
// bring. It is an intention; only QueryExecuted is an execution.
type QuerySelected struct {
	Context  `json:"context"`
	QueryID  string        `json:"query_id"`
	SetID    *string       `json:"set_id,omitzero"`    // the hypotheses that it is to tell apart
	CostUnit *string       `json:"cost_unit,omitzero"` // of every expected cost
	Menu     []QueryOption `json:"menu"`
	Chosen   string        `json:"chosen"` // an option of the menu
}

// QueryOption is one query that could have been made.
type QueryOption struct {
	Option              string            `json:"option"`
	Tool                *string           `json:"tool,omitzero"`
	ExpectedCost        *float64          `json:"expected_cost,omitzero"`
	ExpectedInformation *float64          `json:"expected_information,omitzero"` // bits
	Predicted           []PredictedAnswer `json:"predicted,omitzero"`
}

// PredictedAnswer is an outcome that a query may have.
type PredictedAnswer struct {
	Outcome string   `json:"outcome"`
	P       *float64 `json:"p,omitzero"` // [0, 1]
}

// QueryExecuted counts only with the dispatcher's tool.called that it names.
type QueryExecuted struct {
	Context    `json:"context"`
	QueryID    string `json:"query_id"`
	ToolCallID string `json:"tool_call_id"`
	Cost       *Cost  `json:"cost,omitzero"`
}

// EvidenceDelivered is a piece of evidence that was put before the agent.
type EvidenceDelivered struct {
	Context    `json:"context"`
	EvidenceID string  `json:"evidence_id"`
	SourceID   string  `json:"source_id"`
	Version    *string `json:"version,omitzero"` // of the source
	ObservedAt *string `json:"observed_at,omitzero"`
	Scope      *string `json:"scope,omitzero"`
	SHA256     string  `json:"sha256"` // hex, of the content as it was delivered
}

// DetectorScanned counts the turns of a batch by the detector's verdict. Turns
// that are neither positive nor negative could not be judged.
type DetectorScanned struct {
	Context         `json:"context"`
	DetectorVersion string           `json:"detector_version"`
	Turns           int64            `json:"turns"`
	Positive        int64            `json:"positive"`
	Negative        int64            `json:"negative"`
	Strata          []ScannedStratum `json:"strata,omitzero"`
	// NegativeTurnIDs name the negative turns, from which the week's audit is
	// drawn. A batch with more than fit is sent as several.
	NegativeTurnIDs []string `json:"negative_turn_ids,omitzero"`
}

// ScannedStratum is the part of a batch that is of one stratum.
type ScannedStratum struct {
	Stratum  string `json:"stratum"`
	Turns    int64  `json:"turns"`
	Positive int64  `json:"positive"`
	Negative int64  `json:"negative"`
}

// WeekClosed is the first record behind the end of a week that held a record.
// Nobody knows its leaf before the week is over, so it seeds the audit sample.
type WeekClosed struct {
	Context `json:"context"`
	Week    string `json:"week"`  // ISO 8601, such as 2026-W48
	Zone    string `json:"zone"`  // IANA
	Start   string `json:"start"` // RFC 3339, UTC; the week is [start, end)
	End     string `json:"end"`
}

// AuditSampled is what is to be labelled of a week.
type AuditSampled struct {
	Context   `json:"context"`
	Week      string         `json:"week"`
	Namespace string         `json:"namespace"`
	Set       *string        `json:"set,omitzero"` // detector, abduction, edges, contradictions, challenges, lineage; nil: outcomes
	Method    string         `json:"method"`       // which rules made strata and order
	Seed      string         `json:"seed"`         // hex leaf of the week.closed record
	ClosedSeq uint64         `json:"closed_seq"`   // that record
	Strata    []AuditStratum `json:"strata"`
}

// AuditStratum is one stratum with what was drawn from it, in that order.
type AuditStratum struct {
	Stratum    string      `json:"stratum"` // apparent_success, unresolved, detector_negative, detected, edge, contradiction, challenge, transform, lineage_change
	Population int64       `json:"population"`
	Unlisted   int64       `json:"unlisted"` // of the population, without an identifier and never drawn
	Wanted     int64       `json:"wanted"`
	Cases      []AuditCase `json:"cases"`
}

// AuditCase is one drawn case.
type AuditCase struct {
	Kind string `json:"kind"` // claim, prediction, turn, opportunity, contradiction, challenge, belief, edge, transform
	ID   string `json:"id"`
	Seq  uint64 `json:"seq"` // the record that introduced it
}

// CanaryStarted bounds a rollout: what it may do, how often a week, and which
// criteria end it (C9, bounded canary).
type CanaryStarted struct {
	Context    `json:"context"`
	CanaryID   string            `json:"canary_id"`
	Policy     string            `json:"policy"` // what is rolled out, with its version
	Actions    []CanaryAction    `json:"actions"`
	CapPerWeek int64             `json:"cap_per_week"` // actions between two week.closed
	Criteria   []CanaryCriterion `json:"criteria"`
}

// CanaryAction is a tool call that may occur; a nil target means any. One that
// is not reversible is named to be forbidden.
type CanaryAction struct {
	Tool       string  `json:"tool"`
	Target     *string `json:"target,omitzero"`
	Reversible bool    `json:"reversible"`
}

// CanaryCriterion is a reason to roll back; resolver/canary defines the
// metrics and says which fields each needs.
type CanaryCriterion struct {
	Metric    string   `json:"metric"`
	Threshold *float64 `json:"threshold,omitzero"`
	Baseline  *float64 `json:"baseline,omitzero"`
	MinN      *int64   `json:"min_n,omitzero"`
	WindowS   *int64   `json:"window_s,omitzero"` // seconds of ledger time
	Tool      *string  `json:"tool,omitzero"`     // nil: every tool
}

// CanaryEnded ends a canary by the operator's word.
type CanaryEnded struct {
	Context  `json:"context"`
	CanaryID string `json:"canary_id"`
	Reason   string `json:"reason"`
}

// RollbackTriggered says that a canary is to be rolled back, and why. Every
// field of a resolver's derives from the ledger up to CutSeq.
type RollbackTriggered struct {
	Context      `json:"context"`
	CanaryID     string            `json:"canary_id"`
	Rule         string            `json:"rule"`
	Reason       string            `json:"reason"`
	Value        *float64          `json:"value,omitzero"`
	Baseline     *float64          `json:"baseline,omitzero"`
	Threshold    *float64          `json:"threshold,omitzero"`
	N            *int64            `json:"n,omitzero"`
	CutSeq       *uint64           `json:"cut_seq,omitzero"`
	EvidenceSeqs []uint64          `json:"evidence_seqs,omitzero"`
	Resolver     *ResolverIdentity `json:"resolver,omitzero"`
}
