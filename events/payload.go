package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Payload is the decoded data of one event type. The set is closed: every
// implementation is in this package, and Unknown stands for a type that this
// build does not know.
type Payload interface {
	// Type is the wire name, such as "claim.recorded".
	Type() string
	// Common is the context block that every data carries.
	Common() *Context

	sealed()
}

// Context is the common block of every data (C8 8.2, EP). A nil field is
// unknown; it is never read as zero or as the empty string. Each payload embeds
// it, under the name that it has on the wire; its fields are read as
// p.Context.Stage, since some payloads have a field of that name too.
type Context struct {
	Author         *string  `json:"author,omitzero"`
	Component      *string  `json:"component,omitzero"`
	Capture        *string  `json:"capture,omitzero"` // live, hook, otlp or imported
	Stage          *string  `json:"stage,omitzero"`
	OpportunityID  *string  `json:"opportunity_id,omitzero"`
	SystemCommit   *string  `json:"system_commit,omitzero"`
	SourceVersions []string `json:"source_versions,omitzero"`
	ToolCallID     *string  `json:"tool_call_id,omitzero"`
	Cost           *Cost    `json:"cost,omitzero"`
}

// Common makes a payload of whatever embeds the block.
func (c *Context) Common() *Context { return c }

func (*Context) sealed() {}

// Cost is what a step is known to have cost. Nil fields are unknown.
type Cost struct {
	InputTokens  *int64   `json:"input_tokens,omitzero"`
	OutputTokens *int64   `json:"output_tokens,omitzero"`
	CachedTokens *int64   `json:"cached_tokens,omitzero"`
	ToolCalls    *int64   `json:"tool_calls,omitzero"`
	LatencyMS    *float64 `json:"latency_ms,omitzero"` // milliseconds
	CostUSD      *float64 `json:"cost_usd,omitzero"`   // US dollars
}

// Provenance says where a belief or claim comes from (C8 6.4, 7.7).
type Provenance struct {
	Origin      *string    `json:"origin,omitzero"`  // observation, reported, derived, assumption
	Channel     *string    `json:"channel,omitzero"` // operator, tool, memory, summary, other_agent
	Lineage     *Lineage   `json:"lineage,omitzero"`
	Support     *Support   `json:"support,omitzero"`
	Freshness   *Freshness `json:"freshness,omitzero"`
	Scope       *string    `json:"scope,omitzero"`
	LegacyLabel *string    `json:"legacy_label,omitzero"`
}

// Lineage names what a claim was derived from.
type Lineage struct {
	EvidenceIDs    []string `json:"evidence_ids,omitzero"`
	Parents        []string `json:"parents,omitzero"`
	SourceVersions []string `json:"source_versions,omitzero"`
}

// Support is the probability a claim was given, raw and calibrated, and the
// evidence for and against it.
type Support struct {
	Raw        *float64 `json:"raw,omitzero"`
	Calibrated *float64 `json:"calibrated,omitzero"`
	For        []string `json:"for,omitzero"`
	Against    []string `json:"against,omitzero"`
}

// Freshness dates a claim's content.
type Freshness struct {
	ObservedAt   *string `json:"observed_at,omitzero"`
	ValidTime    *string `json:"valid_time,omitzero"`
	VerifiedAt   *string `json:"verified_at,omitzero"`
	SupersededBy *string `json:"superseded_by,omitzero"`
}

// Limit is how much may be used. A nil field is a limit that nobody stated.
type Limit struct {
	Tokens    *int64   `json:"tokens,omitzero"`
	ToolCalls *int64   `json:"tool_calls,omitzero"`
	Steps     *int64   `json:"steps,omitzero"`
	Seconds   *float64 `json:"seconds,omitzero"`
	CostUSD   *float64 `json:"cost_usd,omitzero"`
	Until     *string  `json:"until,omitzero"` // RFC 3339
}

// Sampling is how a model's tokens are drawn. A nil field was left to the
// provider.
type Sampling struct {
	Temperature *float64 `json:"temperature,omitzero"`
	TopP        *float64 `json:"top_p,omitzero"`
	MaxTokens   *int64   `json:"max_tokens,omitzero"`
	Seed        *string  `json:"seed,omitzero"` // decimal digits
}

// Interval is a confidence interval.
type Interval struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"` // such as 0.95
	Method *string `json:"method,omitzero"`
}

// Exclusion is a case that is left out of a run. It is counted and named.
type Exclusion struct {
	CaseID string `json:"case_id"`
	Code   string `json:"code"` // why
}

// LedgerOpened is record 1: it names the log and commits to its keys.
type LedgerOpened struct {
	Context           `json:"context"`
	Origin            string  `json:"origin"`              // C2SP checkpoint origin
	PublicKey         string  `json:"public_key"`          // note verifier key of the logger
	RecoveryKeySHA256 string  `json:"recovery_key_sha256"` // hex, of the offline recovery key's verifier string
	SchemaSHA256      string  `json:"schema_sha256"`       // hex, digest of the embedded schemas
	Software          string  `json:"software"`
	WeekZone          *string `json:"week_zone,omitzero"` // IANA zone in which weeks begin; nil is UTC
}

// LedgerKeyRotated says that the log signs with NewKey from this record on. The
// signatures are over ledger.RotationText; either the old key or the recovery
// key signs beside the new one.
type LedgerKeyRotated struct {
	Context           `json:"context"`
	OldKey            string  `json:"old_key"` // note verifier keys
	NewKey            string  `json:"new_key"`
	OldSignature      *string `json:"old_signature,omitzero"` // as in a note's signature line
	NewSignature      string  `json:"new_signature"`
	RecoveryKey       *string `json:"recovery_key,omitzero"`       // nkeys public operator key
	RecoverySignature *string `json:"recovery_signature,omitzero"` // base64, bare Ed25519
}

// LedgerRestored says that the records Size+1 to KnownSize, which Checkpoint
// signs, were lost when the ledger was restored from a backup.
type LedgerRestored struct {
	Context    `json:"context"`
	Size       uint64 `json:"size"` // records that the backup held
	KnownSize  uint64 `json:"known_size"`
	KnownRoot  string `json:"known_root"` // hex
	Checkpoint string `json:"checkpoint"` // the signed note of the known size
	AcceptedBy string `json:"accepted_by"`
}

// BlobErased says that the content of a blob was removed.
type BlobErased struct {
	Context `json:"context"`
	Ref     string `json:"ref"` // sha256: and 64 hex digits
	Reason  string `json:"reason"`
}

// LoggerStarted is written by each start of the logger that has a head to name.
type LoggerStarted struct {
	Context  `json:"context"`
	BootID   string `json:"boot_id"`
	HeadSeq  uint64 `json:"head_seq"`  // last record before this one
	HeadLeaf string `json:"head_leaf"` // hex leaf hash of that record
	Software string `json:"software"`
}

// ForeignAcknowledged is the operator's word that record Seq was written to the
// stream by somebody else; readers give that record no effect.
type ForeignAcknowledged struct {
	Context `json:"context"`
	Seq     uint64 `json:"seq"`
	SHA256  string `json:"sha256"` // hex leaf hash of the foreign message's body
}

// ClockTicked is written after ten idle seconds.
type ClockTicked struct {
	Context          `json:"context"`
	BootID           string `json:"boot_id"`
	MonotonicDeltaNS int64  `json:"monotonic_delta_ns"` // since the previous clock reading of this logger
}

// ClockStepped records that the wall clock and the monotonic clock disagree.
type ClockStepped struct {
	Context `json:"context"`
	BootID  string `json:"boot_id"`
	StepNS  int64  `json:"step_ns,string"` // wall minus monotonic advance, signed; digits in a string, since a step from 1970 is beyond 2^53
}

// ClockConfirmed is the operator's word that the time after a step is right.
type ClockConfirmed struct {
	Context    `json:"context"`
	SteppedSeq uint64  `json:"stepped_seq"` // seq of the clock.stepped that it answers
	Note       *string `json:"note,omitzero"`
}

// IntakeRejected records that an intake message was refused, or, with Count
// above one, how many were refused for the same reason within a second.
type IntakeRejected struct {
	Context   `json:"context"`
	Principal string  `json:"principal"`
	Code      string  `json:"code"`
	Pointer   *string `json:"pointer,omitzero"`  // JSON Pointer into the refused event
	EventID   *string `json:"event_id,omitzero"` // only if it was a UUID
	HMAC      *string `json:"hmac,omitzero"`     // hex HMAC-SHA-256 of the raw bytes; nil in a counted record
	Size      int64   `json:"size"`              // bytes, summed over Count
	Count     int64   `json:"count"`
}

// OpportunityDetected is the detector's independent denominator (C9, C8 8.2).
type OpportunityDetected struct {
	Context         `json:"context"`
	OpportunityID   string   `json:"opportunity_id"`
	Kind            string   `json:"kind"` // why, what_if, which_fix, root_cause, will_x_help, gap
	Component       string   `json:"component"`
	DetectorVersion string   `json:"detector_version"`
	TextSpanHash    string   `json:"text_span_hash"` // hex SHA-256
	Score           *float64 `json:"score,omitzero"` // [0, 1]
}

// GateChosen is the action that the agent's gate chose (C8 8.2, E1).
type GateChosen struct {
	Context      `json:"context"`
	Action       string   `json:"action"` // KNOW, RETRIEVE, INFER, ASK, TEST, ABSTAIN
	OfferedTools []string `json:"offered_tools,omitzero"`
	Reason       *string  `json:"reason,omitzero"`
}

// Edge is a causal claim about two variables.
type Edge struct {
	Rung      string   `json:"rung"` // observation, intervention, counterfactual
	Cause     string   `json:"cause"`
	Effect    string   `json:"effect"`
	Polarity  *string  `json:"polarity,omitzero"` // positive, negative, none, unknown
	Condition *string  `json:"condition,omitzero"`
	Mediators []string `json:"mediators,omitzero"`
}

// Proposition is a claim that a variable has a value.
type Proposition struct {
	Variable  string  `json:"variable"`
	Value     string  `json:"value"`
	Scope     *string `json:"scope,omitzero"`
	ValidTime *string `json:"valid_time,omitzero"`
}

// EvidenceSnapshot pins the content of a piece of evidence at claim time.
type EvidenceSnapshot struct {
	EvidenceID string `json:"evidence_id"`
	SHA256     string `json:"sha256"`
}

// ClaimRecorded is a claim as it stood before its outcome was known. Exactly
// one of Edge and Proposition is set.
type ClaimRecorded struct {
	Context              `json:"context"`
	ClaimID              string             `json:"claim_id"`
	Edge                 *Edge              `json:"edge,omitzero"`
	Proposition          *Proposition       `json:"proposition,omitzero"`
	RawConfidence        *float64           `json:"raw_confidence,omitzero"`
	CalibratedConfidence *float64           `json:"calibrated_confidence,omitzero"`
	Status               string             `json:"status"` // hypothesis, asserted, retracted
	EvidenceIDs          []string           `json:"evidence_ids,omitzero"`
	EvidenceSnapshots    []EvidenceSnapshot `json:"evidence_snapshots,omitzero"`
	CompetingIDs         []string           `json:"competing_ids,omitzero"`
	Assumptions          []string           `json:"assumptions,omitzero"`
	Action               *string            `json:"action,omitzero"` // as in GateChosen
	Provenance           *Provenance        `json:"provenance,omitzero"`
}

// ClaimRevised moves a claim from one status to another (C9 model_revision).
type ClaimRevised struct {
	Context           `json:"context"`
	ClaimID           string  `json:"claim_id"`
	OldStatus         string  `json:"old_status"`
	NewStatus         string  `json:"new_status"`
	TriggerEvidenceID *string `json:"trigger_evidence_id,omitzero"`
}

// Tokens counts a model call's tokens; how Cached relates to Input is said by
// the event's usage_convention.
type Tokens struct {
	Input  *int64 `json:"input,omitzero"`
	Output *int64 `json:"output,omitzero"`
	Cached *int64 `json:"cached,omitzero"`
}

// ReturnedEdge is an edge that a causal tool gave back.
type ReturnedEdge struct {
	Cause  string `json:"cause"`
	Effect string `json:"effect"`
}

// ToolCalled is a tool call as the dispatcher saw it; written by an agent it
// is a self-report and flagged as such.
type ToolCalled struct {
	Context         `json:"context"`
	ToolCallID      string         `json:"tool_call_id"`
	Tool            string         `json:"tool"`
	Target          *string        `json:"target,omitzero"`
	Status          string         `json:"status"` // ok, failed, denied, timeout, unknown where nobody saw its end
	StartedAt       *string        `json:"started_at,omitzero"`
	EndedAt         *string        `json:"ended_at,omitzero"`
	ArgsHash        *string        `json:"args_hash,omitzero"`
	ResultHash      *string        `json:"result_hash,omitzero"`
	ReturnedEdges   []ReturnedEdge `json:"returned_edges,omitzero"`
	Tokens          *Tokens        `json:"tokens,omitzero"`
	LatencyMS       *float64       `json:"latency_ms,omitzero"`
	CostUSD         *float64       `json:"cost_usd,omitzero"`
	UsageConvention *string        `json:"usage_convention,omitzero"` // input_includes_cached, input_excludes_cached
	MessageID       *string        `json:"message_id,omitzero"`       // usage is counted once per message id
	Error           *string        `json:"error,omitzero"`
}

// ExperimentProposed is an intention; only ExperimentExecuted is an execution.
type ExperimentProposed struct {
	Context       `json:"context"`
	ExpID         string             `json:"exp_id"`
	Discriminates []string           `json:"discriminates"` // claim ids
	Predicted     []PredictedOutcome `json:"predicted,omitzero"`
	Cost          *Cost              `json:"cost,omitzero"` // estimated
}

// PredictedOutcome is what one claim says that an experiment will show.
type PredictedOutcome struct {
	ClaimID string `json:"claim_id"`
	Outcome string `json:"outcome"`
}

// ExperimentExecuted counts only with the dispatcher's tool.called it names.
type ExperimentExecuted struct {
	Context    `json:"context"`
	ExpID      string `json:"exp_id"`
	ToolCallID string `json:"tool_call_id"`
}

// ExperimentObserved is what the resolver saw come out of an experiment.
type ExperimentObserved struct {
	Context     `json:"context"`
	ExpID       string   `json:"exp_id"`
	Observed    string   `json:"observed"`
	EvidenceIDs []string `json:"evidence_ids,omitzero"`
}

// PredictionRecorded is a promise with a criterion that telemetry can settle.
type PredictionRecorded struct {
	Context         `json:"context"`
	PredID          string         `json:"pred_id"`
	ClaimID         *string        `json:"claim_id,omitzero"`
	Action          *string        `json:"action,omitzero"` // what the agent means to do, in words
	PredictedEffect string         `json:"predicted_effect"`
	P               float64        `json:"p"`         // [0, 1]
	Criterion       jsontext.Value `json:"criterion"` // resolver/criterion parses it
}

// PredictionWithdrawn has no effect once the window has opened.
type PredictionWithdrawn struct {
	Context `json:"context"`
	PredID  string  `json:"pred_id"`
	Reason  *string `json:"reason,omitzero"`
}

// PredictionArmed pins the signal registry and names the window.
type PredictionArmed struct {
	Context        `json:"context"`
	PredID         string `json:"pred_id"`
	RegistrySHA256 string `json:"registry_sha256"`
	WindowOpen     string `json:"window_open"` // RFC 3339, UTC; the window is [open, end)
	WindowEnd      string `json:"window_end"`
	CutSeq         uint64 `json:"cut_seq"`
}

// ResolutionEvidence names what a verdict rests on: sealed segments, or the
// records of reports where telemetry left the prediction unknown.
type ResolutionEvidence struct {
	Refs     []string `json:"refs"`   // hex SHA-256 of sealed segments, in ledger order
	Digest   string   `json:"digest"` // hex SHA-256 over the samples or reports used, canonical
	Summary  string   `json:"summary"`
	Outcomes []uint64 `json:"outcomes,omitzero"` // records of the reports used; nil where telemetry decided
}

// Attribution is separate from the verdict and never moves a root-cause claim.
// Beside its kind stands what was looked at; null is what was not.
type Attribution struct {
	Kind     string    `json:"kind"`             // temporal_only, confounded, above_base_rate, controlled
	Others   []uint64  `json:"others,omitzero"`  // records of other actions on the target in the window
	Placebo  *Placebo  `json:"placebo,omitzero"` // the same criterion without an action
	Controls *Controls `json:"controls,omitzero"`
}

// Placebo is how often a criterion came true over earlier telemetry without an
// action on the target.
type Placebo struct {
	Windows   int64    `json:"windows"`        // with a known outcome
	Confirmed int64    `json:"confirmed"`      // of them
	Episodes  int64    `json:"episodes"`       // symptomatic ones that the windows began in
	K         *float64 `json:"k,omitzero"`     // of the episodes, each counted by its share of confirmed windows
	Upper     *float64 `json:"upper,omitzero"` // Wilson's upper 95 % bound of K ÷ Episodes
}

// Controls are the untouched peers of a treated series.
type Controls struct {
	N       int64  `json:"n"`
	Changed *int64 `json:"changed,omitzero"` // that changed as the treated series did; null when one is not known
}

// ResolverIdentity names who resolved.
type ResolverIdentity struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // telemetry, operator, sandbox
	Key  string `json:"key"`  // the resolver's public nkey
}

// PredictionResolved closes a prediction. Every field derives from the ledger
// prefix up to CutSeq and the segments that Evidence names.
type PredictionResolved struct {
	Context         `json:"context"`
	PredID          string             `json:"pred_id"`
	Verdict         string             `json:"verdict"` // confirmed, refuted, void, unresolved
	Reason          *string            `json:"reason,omitzero"`
	Pointer         *string            `json:"pointer,omitzero"` // into the criterion, for void(invalid)
	Evidence        ResolutionEvidence `json:"evidence"`
	CutSeq          uint64             `json:"cut_seq"`
	Engine          string             `json:"engine"`
	CriterionSHA256 string             `json:"criterion_sha256"`
	RegistrySHA256  string             `json:"registry_sha256"`
	Foreknowledge   string             `json:"foreknowledge"` // none, known, knowable, window_open
	Scorable        bool               `json:"scorable"`
	Attribution     Attribution        `json:"attribution"`
	Resolver        ResolverIdentity   `json:"resolver"`
}

// PredictionResolutionAmended replaces an earlier resolution or amendment because
// telemetry came late or was corrected, or an operator reported.
type PredictionResolutionAmended struct {
	Context         `json:"context"`
	PredID          string             `json:"pred_id"`
	Supersedes      string             `json:"supersedes"` // event id of the resolution or amendment
	Cause           string             `json:"cause"`      // late_telemetry, corrected_telemetry, engine, operator_report
	Verdict         string             `json:"verdict"`
	Reason          *string            `json:"reason,omitzero"`
	Evidence        ResolutionEvidence `json:"evidence"`
	CutSeq          uint64             `json:"cut_seq"`
	Engine          string             `json:"engine"`
	CriterionSHA256 string             `json:"criterion_sha256"`
	RegistrySHA256  string             `json:"registry_sha256"`
	Foreknowledge   string             `json:"foreknowledge"`
	Scorable        bool               `json:"scorable"`
	Attribution     Attribution        `json:"attribution"`
	Resolver        ResolverIdentity   `json:"resolver"`
}

// OutcomeRecorded is what happened, from a source other than the agent's word.
type OutcomeRecorded struct {
	Context     `json:"context"`
	What        string   `json:"what"`
	Source      string   `json:"source"` // instrument, record, operator_report, sandbox
	Direct      bool     `json:"direct"` // seen directly, or reported
	ClaimID     *string  `json:"claim_id,omitzero"`
	ObservedAt  *string  `json:"observed_at,omitzero"`
	EvidenceIDs []string `json:"evidence_ids,omitzero"`
	// PredPrincipal, PredID and Verdict, all three or none, say what the outcome
	// means for a prediction: confirmed or refuted.
	PredID        *string `json:"pred_id,omitzero"`
	PredPrincipal *string `json:"pred_principal,omitzero"`
	Verdict       *string `json:"verdict,omitzero"`
}

// FixRechecked says whether a fix held when it was checked again.
type FixRechecked struct {
	Context     `json:"context"`
	ClaimID     string   `json:"claim_id"`
	Result      string   `json:"result"` // confirmed, not_confirmed, inconclusive
	Source      string   `json:"source"` // as in OutcomeRecorded
	Direct      bool     `json:"direct"`
	ToolCallID  *string  `json:"tool_call_id,omitzero"` // the fix
	EvidenceIDs []string `json:"evidence_ids,omitzero"`
}

// GraphWritten is one write to the agent's causal graph (C9, P5).
type GraphWritten struct {
	Context       `json:"context"`
	Op            string      `json:"op"` // add, update, remove
	Cause         string      `json:"cause"`
	Effect        string      `json:"effect"`
	RelationKind  *string     `json:"relation_kind,omitzero"`
	Polarity      *string     `json:"polarity,omitzero"`
	Condition     *string     `json:"condition,omitzero"`
	Status        *string     `json:"status,omitzero"`
	SourceID      *string     `json:"source_id,omitzero"`
	ObservedAt    *string     `json:"observed_at,omitzero"`
	Scope         *string     `json:"scope,omitzero"`
	ContraryIDs   []string    `json:"contrary_ids,omitzero"`
	SourceClaimID *string     `json:"source_claim_id,omitzero"`
	EdgeID        *string     `json:"edge_id,omitzero"`
	Provenance    *Provenance `json:"provenance,omitzero"`
}

// TelemetrySealed names a sealed segment of one source's samples.
type TelemetrySealed struct {
	Context   `json:"context"`
	Source    string  `json:"source"`
	Start     string  `json:"start"`     // RFC 3339, event time of the segment's start
	End       string  `json:"end"`       // event time of its end, exclusive
	First     uint64  `json:"first"`     // first buffer sequence
	Last      uint64  `json:"last"`      // last buffer sequence
	Watermark string  `json:"watermark"` // no later sample is expected below this event time
	SHA256    string  `json:"sha256"`    // hex, of the segment blob
	Samples   int64   `json:"samples"`
	Earliest  *string `json:"earliest,omitzero"` // event time of its first sample; null is unknown
}

// Unknown keeps the data of a type that this build does not know.
type Unknown struct {
	TypeName string
	Data     jsontext.Value
}

// Type is the wire name that the event came with.
func (u *Unknown) Type() string { return u.TypeName }

// Common is empty: nothing is known of an unknown type's data.
func (*Unknown) Common() *Context { return &Context{} }

func (*Unknown) sealed() {}

// Time parses an RFC 3339 time of a payload; ok is false when it is absent.
func Time(s *string) (t time.Time, ok bool) {
	if s == nil {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	return t, err == nil
}
