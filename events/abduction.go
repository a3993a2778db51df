package events

// AbductionStarted says that the agent entered her abduction module (C8 8.2).
type AbductionStarted struct {
	Context     `json:"context"`
	AbductionID string   `json:"abduction_id"`
	QuestionID  *string  `json:"question_id,omitzero"`  // such as an opportunity's id
	Module      *string  `json:"module,omitzero"`       // with its version
	Mode        *string  `json:"mode,omitzero"`         // brief, full
	EvidenceIDs []string `json:"evidence_ids,omitzero"` // in context when it started
}

// AbductionCompleted says that an abduction ended by itself.
type AbductionCompleted struct {
	Context     `json:"context"`
	AbductionID string   `json:"abduction_id"`
	SetID       *string  `json:"set_id,omitzero"`    // the hypotheses.recorded that came out
	ClaimIDs    []string `json:"claim_ids,omitzero"` // claims recorded from it
	Cost        *Cost    `json:"cost,omitzero"`      // of the whole abduction
}

// AbductionFailed says that an abduction ended without a result. What it cost counts
// all the same.
type AbductionFailed struct {
	Context     `json:"context"`
	AbductionID string  `json:"abduction_id"`
	Code        string  `json:"code"`
	Error       *string `json:"error,omitzero"`
	Cost        *Cost   `json:"cost,omitzero"`
}
