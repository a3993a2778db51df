package events

// PreregistrationCommitted fixes what an experiment will be judged by, before it is
// run (C9, C8 11).
type PreregistrationCommitted struct {
	Context        `json:"context"`
	PreregID       string      `json:"prereg_id"`
	CandidateID    *string     `json:"candidate_id,omitzero"`
	CohortID       *string     `json:"cohort_id,omitzero"`
	Families       []string    `json:"families,omitzero"`      // of tasks that it is about
	Arms           []string    `json:"arms"`                   // the control first
	ConfigSHA256   *string     `json:"config_sha256,omitzero"` // hex, of how the arms are set up
	Endpoint       Endpoint    `json:"endpoint"`
	Guardrails     []Guardrail `json:"guardrails"`
	N              int64       `json:"n"` // independent clusters
	StoppingRule   string      `json:"stopping_rule"`
	AnalysisSHA256 string      `json:"analysis_sha256"` // hex, of the script
	AnalysisRef    *string     `json:"analysis_ref,omitzero"`
	Alpha          *float64    `json:"alpha,omitzero"` // two-sided
	Power          *float64    `json:"power,omitzero"`
	Confirmatory   *bool       `json:"confirmatory,omitzero"` // nil: not said
	Limit          *Limit      `json:"limit,omitzero"`        // of the whole experiment
	Rollback       *string     `json:"rollback,omitzero"`
}

// Endpoint is what decides.
type Endpoint struct {
	Metric       string  `json:"metric"`
	Better       string  `json:"better"`        // higher, lower
	UsefulEffect float64 `json:"useful_effect"` // the smallest that counts, in the metric's unit
}

// Guardrail must not get worse by more than its margin.
type Guardrail struct {
	Metric string  `json:"metric"`
	Better string  `json:"better"` // higher, lower
	Margin float64 `json:"margin"` // in the metric's unit
}

// CohortOpened is a set of worlds for one split, with the commitment to how they
// were drawn.
type CohortOpened struct {
	Context         `json:"context"`
	CohortID        string   `json:"cohort_id"`
	Split           string   `json:"split"` // as in RunStarted
	Worlds          []string `json:"worlds"`
	Structures      []string `json:"structures,omitzero"` // held out from dev
	Skins           []string `json:"skins,omitzero"`
	GeneratorCommit *string  `json:"generator_commit,omitzero"`
	SelectionSHA256 *string  `json:"selection_sha256,omitzero"` // hex, salted: seed and rule of selection
	ExposureLimit   *int64   `json:"exposure_limit,omitzero"`   // candidates that may see it
	Expires         *string  `json:"expires,omitzero"`
}

// CohortExposed says that a candidate was evaluated on a cohort: each look leaks a
// little of it.
type CohortExposed struct {
	Context     `json:"context"`
	CohortID    string  `json:"cohort_id"`
	CandidateID string  `json:"candidate_id"`
	RunID       *string `json:"run_id,omitzero"`
}

// CohortRetired ends a cohort: nothing is decided on it any more, and its cases may
// be revealed.
type CohortRetired struct {
	Context  `json:"context"`
	CohortID string  `json:"cohort_id"`
	Cause    string  `json:"cause"`            // exposure_limit, age, leakage, released, withdrawn
	ScanID   *string `json:"scan_id,omitzero"` // the leakage.scanned that found it
	Note     *string `json:"note,omitzero"`
}

// LeakageScanned says what of a cohort was found where the agent can read. Any hit
// retires the cohort.
type LeakageScanned struct {
	Context     `json:"context"`
	ScanID      string   `json:"scan_id"`
	CohortID    string   `json:"cohort_id"`
	RunID       *string  `json:"run_id,omitzero"`
	Method      *string  `json:"method,omitzero"`
	Stores      []string `json:"stores"`                // that were searched
	NotSearched []string `json:"not_searched,omitzero"` // that should have been
	Hits        int64    `json:"hits"`
	Found       []Leak   `json:"found,omitzero"`
}

// Leak is one hit.
type Leak struct {
	Kind   string  `json:"kind"` // world_id, variable, oracle_value, text
	Store  string  `json:"store"`
	SHA256 *string `json:"sha256,omitzero"` // hex, of what was found
}

// DecisionRecorded is what was decided of a candidate (C9, C8 11). Inconclusive is
// reported with its interval and is no evidence of equivalence.
type DecisionRecorded struct {
	Context        `json:"context"`
	DecisionID     string            `json:"decision_id"`
	CandidateID    string            `json:"candidate_id"`
	PreregID       *string           `json:"prereg_id,omitzero"` // nil: exploratory
	Decision       string            `json:"decision"`           // accept, reject, inconclusive
	Metric         *string           `json:"metric,omitzero"`    // the primary endpoint
	Estimate       *float64          `json:"estimate,omitzero"`  // the paired difference, in the metric's unit
	Interval       *Interval         `json:"interval,omitzero"`
	N              *int64            `json:"n,omitzero"` // independent clusters
	Guardrails     []GuardrailResult `json:"guardrails,omitzero"`
	RunIDs         []string          `json:"run_ids,omitzero"`
	CohortID       *string           `json:"cohort_id,omitzero"`
	AnalysisSHA256 *string           `json:"analysis_sha256,omitzero"` // hex, of the script that was run
	ResultRef      *string           `json:"result_ref,omitzero"`
	Reason         *string           `json:"reason,omitzero"`
}

// GuardrailResult is how one guardrail came out.
type GuardrailResult struct {
	Metric   string    `json:"metric"`
	Estimate *float64  `json:"estimate,omitzero"`
	Interval *Interval `json:"interval,omitzero"`
	Margin   *float64  `json:"margin,omitzero"`
	Held     *bool     `json:"held,omitzero"` // the interval keeps within the margin
}

// FlagChanged says that a feature flag has another value from here on.
type FlagChanged struct {
	Context      `json:"context"`
	Flag         string  `json:"flag"`
	OldValue     *string `json:"old_value,omitzero"`
	NewValue     string  `json:"new_value"`
	AppliesTo    *string `json:"applies_to,omitzero"` // a namespace; nil: everywhere
	DecisionID   *string `json:"decision_id,omitzero"`
	ConfigSHA256 *string `json:"config_sha256,omitzero"` // hex, of the whole configuration
	Reason       *string `json:"reason,omitzero"`
}

// ApprovalRequested asks for the operator's word on something that touches
// production, costs more than the budget, or cannot be rolled back.
type ApprovalRequested struct {
	Context    `json:"context"`
	ApprovalID string `json:"approval_id"`
	What       string `json:"what"`
	Why        string `json:"why"`
	Limit      *Limit `json:"limit,omitzero"`
}

// ApprovalGranted is the operator's word. Without it the answer is no.
type ApprovalGranted struct {
	Context    `json:"context"`
	ApprovalID string  `json:"approval_id"`
	Limit      *Limit  `json:"limit,omitzero"` // nil: as it was asked for
	Note       *string `json:"note,omitzero"`
}
