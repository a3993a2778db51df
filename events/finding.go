package events

// FindingWritten is a durable conclusion that later episodes may be given (EP,
// semantic finding contract).
type FindingWritten struct {
	Context         `json:"context"`
	FindingID       string   `json:"finding_id"`
	Claim           string   `json:"claim"`
	Anchors         []string `json:"anchors"`               // files or symbols
	Evidence        string   `json:"evidence"`              // the observation that established it
	Applicability   string   `json:"applicability"`         // when to use it
	ConfidenceLabel string   `json:"confidence_label"`      // verified, probable, speculative
	Scope           string   `json:"scope"`                 // project, organization, global
	Invalidators    []string `json:"invalidators"`          // what calls for a new look
	ClaimSHA256     *string  `json:"claim_sha256,omitzero"` // hex, of the claim in its normal form: equal ones are one finding
	EvidenceIDs     []string `json:"evidence_ids,omitzero"`
}

// FindingDelivered says that a finding was put into the agent's context.
type FindingDelivered struct {
	Context     `json:"context"`
	FindingID   string   `json:"finding_id"`
	InjectionID string   `json:"injection_id"`
	SessionID   *string  `json:"session_id,omitzero"`
	TurnID      *string  `json:"turn_id,omitzero"`
	Tokens      *int64   `json:"tokens,omitzero"` // that it took
	Score       *float64 `json:"score,omitzero"`  // expected worth by which it was chosen
}

// FindingWithheld says that a finding was a candidate and was not delivered. What a
// holdout would have taken are shadow tokens.
type FindingWithheld struct {
	Context      `json:"context"`
	FindingID    string   `json:"finding_id"`
	Cause        string   `json:"cause"` // holdout, quarantined, cooldown, session_gate, score, stale, budget
	SessionID    *string  `json:"session_id,omitzero"`
	TurnID       *string  `json:"turn_id,omitzero"`
	ShadowTokens *int64   `json:"shadow_tokens,omitzero"` // that it would have taken
	Score        *float64 `json:"score,omitzero"`         // as in FindingDelivered
}

// FindingRated says that a finding helped or harmed. Two harmful ratings quarantine
// it from delivery, and it stays in the record.
type FindingRated struct {
	Context     `json:"context"`
	FindingID   string  `json:"finding_id"`
	InjectionID *string `json:"injection_id,omitzero"` // the delivery that is rated; nil: the finding as such
	Rating      string  `json:"rating"`                // helpful, harmful
	Rater       *string `json:"rater,omitzero"`
	Note        *string `json:"note,omitzero"`
}

// EpisodeRecorded is what is known of one episode (EP, episode schema 2). The
// episode's id is the envelope's, the tool call's the context's. Nil is unknown and
// is never turned into zero.
type EpisodeRecorded struct {
	Context             `json:"context"`
	SessionID           *string  `json:"session_id,omitzero"`
	TurnID              *string  `json:"turn_id,omitzero"`
	InjectionID         *string  `json:"injection_id,omitzero"`
	Join                *string  `json:"join,omitzero"` // tool_call is exact; episode and anchor are fallbacks
	Client              *string  `json:"client,omitzero"`
	ClientVersion       *string  `json:"client_version,omitzero"`
	Model               *string  `json:"model,omitzero"`
	ModelVersion        *string  `json:"model_version,omitzero"`
	RunID               *string  `json:"run_id,omitzero"`
	TaskID              *string  `json:"task_id,omitzero"`
	PairID              *string  `json:"pair_id,omitzero"` // task and repetition
	Arm                 *string  `json:"arm,omitzero"`
	FindingIDs          []string `json:"finding_ids,omitzero"`        // delivered
	ShadowFindingIDs    []string `json:"shadow_finding_ids,omitzero"` // candidates of a holdout
	DeliveredTokens     *int64   `json:"delivered_tokens,omitzero"`
	ShadowTokens        *int64   `json:"shadow_tokens,omitzero"`
	Success             *bool    `json:"success,omitzero"`    // the task ended well
	Correct             *bool    `json:"correct,omitzero"`    // the task's grader found it correct
	LatencyMS           *float64 `json:"latency_ms,omitzero"` // milliseconds
	CostUSD             *float64 `json:"cost_usd,omitzero"`   // US dollars
	UncachedInputTokens *int64   `json:"uncached_input_tokens,omitzero"`
	CachedInputTokens   *int64   `json:"cached_input_tokens,omitzero"`
	OutputTokens        *int64   `json:"output_tokens,omitzero"`
	TotalTokens         *int64   `json:"total_tokens,omitzero"`
}
