package events

// CaseCommitted commits to a case before anybody has seen it (C9, C8 4.1). The ids
// are random: an agent that sees them learns nothing from them.
type CaseCommitted struct {
	Context      `json:"context"`
	CaseID       string   `json:"case_id"`
	WorldID      *string  `json:"world_id,omitzero"` // cases of one world are one cluster
	CohortID     string   `json:"cohort_id"`
	Split        string   `json:"split"`         // as in RunStarted
	PublicSHA256 string   `json:"public_sha256"` // hex, of what the agent is given
	OracleSHA256 string   `json:"oracle_sha256"` // hex SHA-256(salt ‖ the hash that oracle_ref will name), 64 bytes in all
	Tags         []string `json:"tags,omitzero"`
}

// CaseRevealed opens a committed case: the ledger alone shows whether it is what
// was committed. Of a cohort that is not retired this is a breach, except for split
// dev; projections flag it.
type CaseRevealed struct {
	Context   `json:"context"`
	CaseID    string  `json:"case_id"`
	Salt      string  `json:"salt"` // hex, 32 bytes
	OracleRef string  `json:"oracle_ref"`
	PublicRef *string `json:"public_ref,omitzero"`
}

// ResponseRecorded is what came back for a case at a stage (C8 6.4, C9
// agent_response). A malformed answer is a failure of protocol and is kept, never an
// abstention.
type ResponseRecorded struct {
	Context        `json:"context"`
	RunID          string    `json:"run_id"`
	CaseID         string    `json:"case_id"`
	Stage          *int64    `json:"stage,omitzero"`         // from 1
	RunIndex       *int64    `json:"run_index,omitzero"`     // of the repetition, from 0
	Status         string    `json:"status"`                 // parsed, malformed, empty, timeout, crash
	SchemaValid    *bool     `json:"schema_valid,omitzero"`  // it is what the answer format asks for
	PromptSHA256   *string   `json:"prompt_sha256,omitzero"` // hex, of all that the model was sent
	RawRef         *string   `json:"raw_ref,omitzero"`
	RawSHA256      *string   `json:"raw_sha256,omitzero"`    // hex, of the text as it came
	ParsedRef      *string   `json:"parsed_ref,omitzero"`    // all that was parsed; Answer has what is scored
	Answer         *Answer   `json:"answer,omitzero"`        // nil: nothing could be parsed
	DeliveredIDs   []string  `json:"delivered_ids,omitzero"` // evidence put before the agent up to here
	Provider       *string   `json:"provider,omitzero"`
	Model          *string   `json:"model,omitzero"`
	ModelVersion   *string   `json:"model_version,omitzero"`
	Sampling       *Sampling `json:"sampling,omitzero"`
	Limits         *Limit    `json:"limits,omitzero"`
	HarnessCommit  *string   `json:"harness_commit,omitzero"`
	SnapshotSHA256 *string   `json:"snapshot_sha256,omitzero"` // hex, of the ledger that the agent worked on
	Attempts       *int64    `json:"attempts,omitzero"`        // retries included
	ElapsedMS      *float64  `json:"elapsed_ms,omitzero"`      // milliseconds
	Cost           *Cost     `json:"cost,omitzero"`
}

// Answer is a response as the harness parsed it.
type Answer struct {
	Kind         string        `json:"kind"`            // answer, not_identifiable, abstain, need_info, request
	Action       *string       `json:"action,omitzero"` // as in GateChosen
	Value        *float64      `json:"value,omitzero"`
	Label        *string       `json:"label,omitzero"`
	Confidence   *float64      `json:"confidence,omitzero"`
	QueryID      *string       `json:"query_id,omitzero"`
	ExperimentID *string       `json:"experiment_id,omitzero"`
	Distribution []AnswerShare `json:"distribution,omitzero"`
	EvidenceIDs  []string      `json:"evidence_ids,omitzero"`
}

// AnswerShare is the probability that an answer gives a hypothesis.
type AnswerShare struct {
	Hypothesis string  `json:"hypothesis"`
	P          float64 `json:"p"` // [0, 1]
}

// ScoreRecorded is what a scorer made of one response (C9, C8 7).
type ScoreRecorded struct {
	Context      `json:"context"`
	RunID        string       `json:"run_id"`
	CaseID       string       `json:"case_id"`
	Stage        *int64       `json:"stage,omitzero"`
	RunIndex     *int64       `json:"run_index,omitzero"`
	ResponseSeq  *uint64      `json:"response_seq,omitzero"` // the response.recorded that was scored
	Scorer       string       `json:"scorer"`                // with its version
	ScorerSHA256 string       `json:"scorer_sha256"`
	Outcome      *string      `json:"outcome,omitzero"` // in the scorer's words
	Labels       []string     `json:"labels,omitzero"`  // of the failure taxonomy
	Values       []ScoreValue `json:"values"`
	Exclusion    *string      `json:"exclusion,omitzero"` // why the case is left out; it is counted
}

// ScoreValue is one value of a score.
type ScoreValue struct {
	Metric string   `json:"metric"`
	Value  *float64 `json:"value,omitzero"` // nil: it does not apply
}
