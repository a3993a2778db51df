package events

// ContradictionDetected names two things that do not fit together (C8). It is a
// candidate: whether the conflict is genuine is for a label to say.
type ContradictionDetected struct {
	Context         `json:"context"`
	ContradictionID string            `json:"contradiction_id"`
	Left            ContradictionSide `json:"left"`
	Right           ContradictionSide `json:"right"`
	Variable        *string           `json:"variable,omitzero"`   // what both speak of
	Scope           *string           `json:"scope,omitzero"`      // that both share
	ValidTime       *string           `json:"valid_time,omitzero"` // that both share
	Detector        *string           `json:"detector,omitzero"`   // with its version
	Score           *float64          `json:"score,omitzero"`
}

// ContradictionSide is one of the two that conflict.
type ContradictionSide struct {
	Kind          string  `json:"kind"` // belief, claim, evidence, edge
	ID            string  `json:"id"`
	Version       *string `json:"version,omitzero"`
	ContentSHA256 *string `json:"content_sha256,omitzero"` // hex
}

// ContradictionOwned says who took a contradiction on, what is to happen next, and
// when it is looked at again.
type ContradictionOwned struct {
	Context         `json:"context"`
	ContradictionID string  `json:"contradiction_id"`
	Owner           string  `json:"owner"`
	Priority        *string `json:"priority,omitzero"` // low, normal, high
	NextAction      *string `json:"next_action,omitzero"`
	RevisitBy       *string `json:"revisit_by,omitzero"`
}

// ContradictionInvestigated says what was looked at.
type ContradictionInvestigated struct {
	Context         `json:"context"`
	ContradictionID string   `json:"contradiction_id"`
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
	QueryIDs        []string `json:"query_ids,omitzero"`
	Finding         *string  `json:"finding,omitzero"`
	NextAction      *string  `json:"next_action,omitzero"`
}

// ContradictionResolved says which side holds. It is verified only by evidence that
// a dispatcher delivered, or of a resolver or operator; projections see to that.
type ContradictionResolved struct {
	Context         `json:"context"`
	ContradictionID string   `json:"contradiction_id"`
	Resolution      string   `json:"resolution"` // left_holds, right_holds, neither_holds, no_conflict
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
	BeliefIDs       []string `json:"belief_ids,omitzero"` // revised or superseded by it
	Reason          *string  `json:"reason,omitzero"`
}

// ContradictionScoped says that both sides hold, each within a scope of its own.
type ContradictionScoped struct {
	Context         `json:"context"`
	ContradictionID string   `json:"contradiction_id"`
	LeftScope       string   `json:"left_scope"`
	RightScope      string   `json:"right_scope"`
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
	Reason          *string  `json:"reason,omitzero"`
}

// ContradictionUnresolved says that a contradiction stays open. One that expired is
// unresolved, never resolved.
type ContradictionUnresolved struct {
	Context         `json:"context"`
	ContradictionID string   `json:"contradiction_id"`
	Cause           string   `json:"cause"` // expired, evidence_unavailable, evidence_insufficient, deferred
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
	RevisitBy       *string  `json:"revisit_by,omitzero"` // nil: no date was set
	Reason          *string  `json:"reason,omitzero"`
}
