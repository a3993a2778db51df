package events

// OpportunityLabelled is a rater's word on one turn or on one detected opportunity,
// from which the detector's precision and recall are counted (C9, C8 8.2).
type OpportunityLabelled struct {
	Context         `json:"context"`
	Kind            string  `json:"kind"` // opportunity, turn
	ID              string  `json:"id"`
	Stratum         *string `json:"stratum,omitzero"`          // of the sample that it was drawn for
	Eligible        *bool   `json:"eligible,omitzero"`         // nil: the rater could not tell
	OpportunityKind *string `json:"opportunity_kind,omitzero"` // as in OpportunityDetected
	Rater           string  `json:"rater"`
	Blind           bool    `json:"blind"` // the rater did not see the detector's verdict
	RubricVersion   string  `json:"rubric_version"`
	SampleSeq       *uint64 `json:"sample_seq,omitzero"` // the audit.sampled record that drew it
	Note            *string `json:"note,omitzero"`
}

// ToolsOffered is the list of tools that a turn really offered. What an agent lists
// in GateChosen is her own report of it.
type ToolsOffered struct {
	Context         `json:"context"`
	TurnID          *string  `json:"turn_id,omitzero"`
	Tools           []string `json:"tools"`                     // empty: none was offered
	Withheld        []string `json:"withheld,omitzero"`         // what the configuration has and this turn did not offer
	CatalogueSHA256 *string  `json:"catalogue_sha256,omitzero"` // hex, of the definitions as they were sent
}
