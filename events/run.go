package events

// RunStarted is the manifest of a run, written before its first case (C9
// run_manifest, C8 4.1). A run is one arm.
type RunStarted struct {
	Context         `json:"context"`
	RunID           string      `json:"run_id"`
	Arm             string      `json:"arm"`
	Split           string      `json:"split"`         // dev, validation, final, canary
	Mode            *string     `json:"mode,omitzero"` // component, end_to_end
	CohortID        *string     `json:"cohort_id,omitzero"`
	CandidateID     *string     `json:"candidate_id,omitzero"`
	PreregID        *string     `json:"prereg_id,omitzero"`
	BenchVersion    *string     `json:"bench_version,omitzero"`
	GeneratorCommit *string     `json:"generator_commit,omitzero"`
	HarnessCommit   *string     `json:"harness_commit,omitzero"`
	SubjectCommit   *string     `json:"subject_commit,omitzero"`
	HarnessSHA256   *string     `json:"harness_sha256,omitzero"`
	ScorerSHA256    *string     `json:"scorer_sha256,omitzero"`
	ConfigSHA256    *string     `json:"config_sha256,omitzero"`   // of flags and prompts
	SnapshotSHA256  *string     `json:"snapshot_sha256,omitzero"` // of the state that it starts from
	Provider        *string     `json:"provider,omitzero"`
	Model           *string     `json:"model,omitzero"`
	ModelVersion    *string     `json:"model_version,omitzero"`
	Client          *string     `json:"client,omitzero"`
	ClientVersion   *string     `json:"client_version,omitzero"`
	IsolationFlags  []string    `json:"isolation_flags,omitzero"` // what keeps a baseline free of the installation
	Sampling        *Sampling   `json:"sampling,omitzero"`
	Budget          *Limit      `json:"budget,omitzero"` // of each case
	Cases           *int64      `json:"cases,omitzero"`
	Repetitions     *int64      `json:"repetitions,omitzero"`
	PriceIDs        []string    `json:"price_ids,omitzero"`  // that its cost is reckoned by
	Exclusions      []Exclusion `json:"exclusions,omitzero"` // nil: not known; empty: none
	ManifestRef     *string     `json:"manifest_ref,omitzero"`
}

// RunFinished says how a run ended. Every planned case is in one of the counts; none
// is dropped.
type RunFinished struct {
	Context          `json:"context"`
	RunID            string      `json:"run_id"`
	Status           string      `json:"status"` // completed, failed, aborted, out_of_budget
	Answered         *int64      `json:"answered,omitzero"`
	ProtocolFailures *int64      `json:"protocol_failures,omitzero"` // answers that were malformed or none
	HarnessFailures  *int64      `json:"harness_failures,omitzero"`
	Exclusions       []Exclusion `json:"exclusions,omitzero"` // nil: not known; empty: none
	Cost             *Cost       `json:"cost,omitzero"`       // of the whole run
	Error            *string     `json:"error,omitzero"`
}

// IsolationCounted counts the rows of production's memory before or after a run. Any
// difference fails the run.
type IsolationCounted struct {
	Context `json:"context"`
	RunID   string       `json:"run_id"`
	Phase   string       `json:"phase"` // before, after
	Store   *string      `json:"store,omitzero"`
	Tables  []TableCount `json:"tables"`
}

// TableCount is one table of the store.
type TableCount struct {
	Table  string  `json:"table"`
	Rows   int64   `json:"rows"`
	SHA256 *string `json:"sha256,omitzero"` // hex, of its content
}

// ControlRecorded is one case of the control matrix, with what each of the four
// stages gave out (C9). No case is dropped: a crash is an outcome.
type ControlRecorded struct {
	Context       `json:"context"`
	RunID         string       `json:"run_id"`
	Condition     string       `json:"condition"` // C0 to C5
	Variant       *string      `json:"variant,omitzero"`
	CaseID        string       `json:"case_id"`
	Tag           string       `json:"tag"` // direct, two_hop, three_hop (or more), alias, negative_polarity, conditional, reversed_query, unsupported
	Lookup        *StageOutput `json:"lookup,omitzero"`
	Response      *StageOutput `json:"response,omitzero"`
	Parsed        *StageOutput `json:"parsed,omitzero"`
	Scored        *StageOutput `json:"scored,omitzero"`   // nil: the case did not get so far
	Expected      *string      `json:"expected,omitzero"` // hit, miss; nil: that is the question
	Outcome       string       `json:"outcome"`           // hit, miss, crash, timeout, unparseable
	GraphSHA256   *string      `json:"graph_sha256,omitzero"`
	QuerySHA256   *string      `json:"query_sha256,omitzero"`
	HarnessSHA256 *string      `json:"harness_sha256,omitzero"`
	ScorerSHA256  *string      `json:"scorer_sha256,omitzero"`
}

// StageOutput is what one stage gave out.
type StageOutput struct {
	SHA256   *string `json:"sha256,omitzero"`   // hex, of the output
	Ref      *string `json:"ref,omitzero"`      // the output itself
	Expected *bool   `json:"expected,omitzero"` // it is what the case calls for
}

// ProbeRecorded is a probe of one way in which the instrument can fail (C9,
// instrument audit).
type ProbeRecorded struct {
	Context      `json:"context"`
	RunID        *string `json:"run_id,omitzero"`
	ProbeID      string  `json:"probe_id"`
	Failure      *string `json:"failure,omitzero"` // never_acquired, extraction_lost, query_failed, misreasoned, bypassed, scorer_wrong
	CaseID       *string `json:"case_id,omitzero"`
	Result       string  `json:"result"`          // implicated, cleared, inconclusive
	N            *int64  `json:"n,omitzero"`      // of how many cases
	Failed       *int64  `json:"failed,omitzero"` // of them
	OutputSHA256 *string `json:"output_sha256,omitzero"`
	OutputRef    *string `json:"output_ref,omitzero"`
	Summary      *string `json:"summary,omitzero"`
}
