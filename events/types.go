package events

// Wire names of the event types. They are constants, never derived from Go names.
const (
	TypeLedgerOpened                = "ledger.opened"
	TypeForeignAcknowledged         = "ledger.foreign_acknowledged"
	TypeLedgerKeyRotated            = "ledger.key_rotated"
	TypeLedgerRestored              = "ledger.restored"
	TypeBlobErased                  = "blob.erased"
	TypeLoggerStarted               = "logger.started"
	TypeIntakeRejected              = "intake.rejected"
	TypeClockTicked                 = "clock.ticked"
	TypeClockStepped                = "clock.stepped"
	TypeClockConfirmed              = "clock.confirmed"
	TypeOpportunityDetected         = "opportunity.detected"
	TypeGateChosen                  = "gate.chosen"
	TypeClaimRecorded               = "claim.recorded"
	TypeClaimRevised                = "claim.revised"
	TypeToolCalled                  = "tool.called"
	TypeExperimentProposed          = "experiment.proposed"
	TypeExperimentExecuted          = "experiment.executed"
	TypeExperimentObserved          = "experiment.observed"
	TypePredictionRecorded          = "prediction.recorded"
	TypePredictionWithdrawn         = "prediction.withdrawn"
	TypePredictionArmed             = "prediction.armed"
	TypePredictionResolved          = "prediction.resolved"
	TypePredictionResolutionAmended = "prediction.resolution_amended"
	TypeOutcomeRecorded             = "outcome.recorded"
	TypeFixRechecked                = "fix.rechecked"
	TypeGraphWritten                = "graph.written"
	TypeTelemetrySealed             = "telemetry.sealed"
	TypeHypothesesRecorded          = "hypotheses.recorded"
	TypeQuerySelected               = "query.selected"
	TypeQueryExecuted               = "query.executed"
	TypeEvidenceDelivered           = "evidence.delivered"
	TypeDetectorScanned             = "detector.scanned"
	TypeWeekClosed                  = "week.closed"
	TypeAuditSampled                = "audit.sampled"
	TypeCanaryStarted               = "canary.started"
	TypeCanaryEnded                 = "canary.ended"
	TypeRollbackTriggered           = "rollback.triggered"
	TypeOpportunityLabelled         = "opportunity.labelled"
	TypeToolsOffered                = "tools.offered"
	TypeAbductionStarted            = "abduction.started"
	TypeAbductionCompleted          = "abduction.completed"
	TypeAbductionFailed             = "abduction.failed"
	TypeBeliefCreated               = "belief.created"
	TypeBeliefChallenged            = "belief.challenged"
	TypeBeliefRevised               = "belief.revised"
	TypeBeliefSuperseded            = "belief.superseded"
	TypeLineageChanged              = "lineage.changed"
	TypeBeliefRead                  = "belief.read"
	TypeBeliefTransformed           = "belief.transformed"
	TypeContradictionDetected       = "contradiction.detected"
	TypeContradictionOwned          = "contradiction.owned"
	TypeContradictionInvestigated   = "contradiction.investigated"
	TypeContradictionResolved       = "contradiction.resolved"
	TypeContradictionScoped         = "contradiction.scoped"
	TypeContradictionUnresolved     = "contradiction.unresolved"
	TypeFindingWritten              = "finding.written"
	TypeFindingDelivered            = "finding.delivered"
	TypeFindingWithheld             = "finding.withheld"
	TypeFindingRated                = "finding.rated"
	TypeEpisodeRecorded             = "episode.recorded"
	TypeUsageRecorded               = "usage.recorded"
	TypePriceRecorded               = "price.recorded"
	TypeRunStarted                  = "run.started"
	TypeRunFinished                 = "run.finished"
	TypeIsolationCounted            = "isolation.counted"
	TypeControlRecorded             = "control.recorded"
	TypeProbeRecorded               = "probe.recorded"
	TypeCaseCommitted               = "case.committed"
	TypeCaseRevealed                = "case.revealed"
	TypeResponseRecorded            = "response.recorded"
	TypeScoreRecorded               = "score.recorded"
	TypePreregistrationCommitted    = "preregistration.committed"
	TypeCohortOpened                = "cohort.opened"
	TypeCohortExposed               = "cohort.exposed"
	TypeCohortRetired               = "cohort.retired"
	TypeLeakageScanned              = "leakage.scanned"
	TypeDecisionRecorded            = "decision.recorded"
	TypeFlagChanged                 = "flag.changed"
	TypeApprovalRequested           = "approval.requested"
	TypeApprovalGranted             = "approval.granted"
	TypeAuditLabelled               = "audit.labelled"
)

// registry says how the data of each type and version that was ever written
// is read. An old version stays here for ever: its constructor decodes the old
// shape and returns the current one, and the stored bytes are not touched.
var registry = map[typeVersion]constructor{
	{TypeLedgerOpened, 1}:                decodeAs[LedgerOpened],
	{TypeForeignAcknowledged, 1}:         decodeAs[ForeignAcknowledged],
	{TypeLedgerKeyRotated, 1}:            decodeAs[LedgerKeyRotated],
	{TypeLedgerRestored, 1}:              decodeAs[LedgerRestored],
	{TypeBlobErased, 1}:                  decodeAs[BlobErased],
	{TypeLoggerStarted, 1}:               decodeAs[LoggerStarted],
	{TypeIntakeRejected, 1}:              decodeAs[IntakeRejected],
	{TypeClockTicked, 1}:                 decodeAs[ClockTicked],
	{TypeClockStepped, 1}:                decodeAs[ClockStepped],
	{TypeClockConfirmed, 1}:              decodeAs[ClockConfirmed],
	{TypeOpportunityDetected, 1}:         decodeAs[OpportunityDetected],
	{TypeGateChosen, 1}:                  decodeAs[GateChosen],
	{TypeClaimRecorded, 1}:               decodeAs[ClaimRecorded],
	{TypeClaimRevised, 1}:                decodeAs[ClaimRevised],
	{TypeToolCalled, 1}:                  decodeAs[ToolCalled],
	{TypeExperimentProposed, 1}:          decodeAs[ExperimentProposed],
	{TypeExperimentExecuted, 1}:          decodeAs[ExperimentExecuted],
	{TypeExperimentObserved, 1}:          decodeAs[ExperimentObserved],
	{TypePredictionRecorded, 1}:          decodeAs[PredictionRecorded],
	{TypePredictionWithdrawn, 1}:         decodeAs[PredictionWithdrawn],
	{TypePredictionArmed, 1}:             decodeAs[PredictionArmed],
	{TypePredictionResolved, 1}:          decodeAs[PredictionResolved],
	{TypePredictionResolutionAmended, 1}: decodeAs[PredictionResolutionAmended],
	{TypeOutcomeRecorded, 1}:             decodeAs[OutcomeRecorded],
	{TypeFixRechecked, 1}:                decodeAs[FixRechecked],
	{TypeGraphWritten, 1}:                decodeAs[GraphWritten],
	{TypeTelemetrySealed, 1}:             decodeAs[TelemetrySealed],
	{TypeHypothesesRecorded, 1}:          decodeAs[HypothesesRecorded],
	{TypeQuerySelected, 1}:               decodeAs[QuerySelected],
	{TypeQueryExecuted, 1}:               decodeAs[QueryExecuted],
	{TypeEvidenceDelivered, 1}:           decodeAs[EvidenceDelivered],
	{TypeDetectorScanned, 1}:             decodeAs[DetectorScanned],
	{TypeWeekClosed, 1}:                  decodeAs[WeekClosed],
	{TypeAuditSampled, 1}:                decodeAs[AuditSampled],
	{TypeCanaryStarted, 1}:               decodeAs[CanaryStarted],
	{TypeCanaryEnded, 1}:                 decodeAs[CanaryEnded],
	{TypeRollbackTriggered, 1}:           decodeAs[RollbackTriggered],
	{TypeOpportunityLabelled, 1}:         decodeAs[OpportunityLabelled],
	{TypeToolsOffered, 1}:                decodeAs[ToolsOffered],
	{TypeAbductionStarted, 1}:            decodeAs[AbductionStarted],
	{TypeAbductionCompleted, 1}:          decodeAs[AbductionCompleted],
	{TypeAbductionFailed, 1}:             decodeAs[AbductionFailed],
	{TypeBeliefCreated, 1}:               decodeAs[BeliefCreated],
	{TypeBeliefChallenged, 1}:            decodeAs[BeliefChallenged],
	{TypeBeliefRevised, 1}:               decodeAs[BeliefRevised],
	{TypeBeliefSuperseded, 1}:            decodeAs[BeliefSuperseded],
	{TypeLineageChanged, 1}:              decodeAs[LineageChanged],
	{TypeBeliefRead, 1}:                  decodeAs[BeliefRead],
	{TypeBeliefTransformed, 1}:           decodeAs[BeliefTransformed],
	{TypeContradictionDetected, 1}:       decodeAs[ContradictionDetected],
	{TypeContradictionOwned, 1}:          decodeAs[ContradictionOwned],
	{TypeContradictionInvestigated, 1}:   decodeAs[ContradictionInvestigated],
	{TypeContradictionResolved, 1}:       decodeAs[ContradictionResolved],
	{TypeContradictionScoped, 1}:         decodeAs[ContradictionScoped],
	{TypeContradictionUnresolved, 1}:     decodeAs[ContradictionUnresolved],
	{TypeFindingWritten, 1}:              decodeAs[FindingWritten],
	{TypeFindingDelivered, 1}:            decodeAs[FindingDelivered],
	{TypeFindingWithheld, 1}:             decodeAs[FindingWithheld],
	{TypeFindingRated, 1}:                decodeAs[FindingRated],
	{TypeEpisodeRecorded, 1}:             decodeAs[EpisodeRecorded],
	{TypeUsageRecorded, 1}:               decodeAs[UsageRecorded],
	{TypePriceRecorded, 1}:               decodeAs[PriceRecorded],
	{TypeRunStarted, 1}:                  decodeAs[RunStarted],
	{TypeRunFinished, 1}:                 decodeAs[RunFinished],
	{TypeIsolationCounted, 1}:            decodeAs[IsolationCounted],
	{TypeControlRecorded, 1}:             decodeAs[ControlRecorded],
	{TypeProbeRecorded, 1}:               decodeAs[ProbeRecorded],
	{TypeCaseCommitted, 1}:               decodeAs[CaseCommitted],
	{TypeCaseRevealed, 1}:                decodeAs[CaseRevealed],
	{TypeResponseRecorded, 1}:            decodeAs[ResponseRecorded],
	{TypeScoreRecorded, 1}:               decodeAs[ScoreRecorded],
	{TypePreregistrationCommitted, 1}:    decodeAs[PreregistrationCommitted],
	{TypeCohortOpened, 1}:                decodeAs[CohortOpened],
	{TypeCohortExposed, 1}:               decodeAs[CohortExposed],
	{TypeCohortRetired, 1}:               decodeAs[CohortRetired],
	{TypeLeakageScanned, 1}:              decodeAs[LeakageScanned],
	{TypeDecisionRecorded, 1}:            decodeAs[DecisionRecorded],
	{TypeFlagChanged, 1}:                 decodeAs[FlagChanged],
	{TypeApprovalRequested, 1}:           decodeAs[ApprovalRequested],
	{TypeApprovalGranted, 1}:             decodeAs[ApprovalGranted],
	{TypeAuditLabelled, 1}:               decodeAs[AuditLabelled],
}

// The wire name of each payload, under Payload.Type.

func (*LedgerOpened) Type() string                { return TypeLedgerOpened }
func (*ForeignAcknowledged) Type() string         { return TypeForeignAcknowledged }
func (*LedgerKeyRotated) Type() string            { return TypeLedgerKeyRotated }
func (*LedgerRestored) Type() string              { return TypeLedgerRestored }
func (*BlobErased) Type() string                  { return TypeBlobErased }
func (*LoggerStarted) Type() string               { return TypeLoggerStarted }
func (*IntakeRejected) Type() string              { return TypeIntakeRejected }
func (*ClockTicked) Type() string                 { return TypeClockTicked }
func (*ClockStepped) Type() string                { return TypeClockStepped }
func (*ClockConfirmed) Type() string              { return TypeClockConfirmed }
func (*OpportunityDetected) Type() string         { return TypeOpportunityDetected }
func (*GateChosen) Type() string                  { return TypeGateChosen }
func (*ClaimRecorded) Type() string               { return TypeClaimRecorded }
func (*ClaimRevised) Type() string                { return TypeClaimRevised }
func (*ToolCalled) Type() string                  { return TypeToolCalled }
func (*ExperimentProposed) Type() string          { return TypeExperimentProposed }
func (*ExperimentExecuted) Type() string          { return TypeExperimentExecuted }
func (*ExperimentObserved) Type() string          { return TypeExperimentObserved }
func (*PredictionRecorded) Type() string          { return TypePredictionRecorded }
func (*PredictionWithdrawn) Type() string         { return TypePredictionWithdrawn }
func (*PredictionArmed) Type() string             { return TypePredictionArmed }
func (*PredictionResolved) Type() string          { return TypePredictionResolved }
func (*PredictionResolutionAmended) Type() string { return TypePredictionResolutionAmended }
func (*OutcomeRecorded) Type() string             { return TypeOutcomeRecorded }
func (*FixRechecked) Type() string                { return TypeFixRechecked }
func (*GraphWritten) Type() string                { return TypeGraphWritten }
func (*TelemetrySealed) Type() string             { return TypeTelemetrySealed }
func (*HypothesesRecorded) Type() string          { return TypeHypothesesRecorded }
func (*QuerySelected) Type() string               { return TypeQuerySelected }
func (*QueryExecuted) Type() string               { return TypeQueryExecuted }
func (*EvidenceDelivered) Type() string           { return TypeEvidenceDelivered }
func (*DetectorScanned) Type() string             { return TypeDetectorScanned }
func (*WeekClosed) Type() string                  { return TypeWeekClosed }
func (*AuditSampled) Type() string                { return TypeAuditSampled }
func (*CanaryStarted) Type() string               { return TypeCanaryStarted }
func (*CanaryEnded) Type() string                 { return TypeCanaryEnded }
func (*RollbackTriggered) Type() string           { return TypeRollbackTriggered }
func (*OpportunityLabelled) Type() string         { return TypeOpportunityLabelled }
func (*ToolsOffered) Type() string                { return TypeToolsOffered }
func (*AbductionStarted) Type() string            { return TypeAbductionStarted }
func (*AbductionCompleted) Type() string          { return TypeAbductionCompleted }
func (*AbductionFailed) Type() string             { return TypeAbductionFailed }
func (*BeliefCreated) Type() string               { return TypeBeliefCreated }
func (*BeliefChallenged) Type() string            { return TypeBeliefChallenged }
func (*BeliefRevised) Type() string               { return TypeBeliefRevised }
func (*BeliefSuperseded) Type() string            { return TypeBeliefSuperseded }
func (*LineageChanged) Type() string              { return TypeLineageChanged }
func (*BeliefRead) Type() string                  { return TypeBeliefRead }
func (*BeliefTransformed) Type() string           { return TypeBeliefTransformed }
func (*ContradictionDetected) Type() string       { return TypeContradictionDetected }
func (*ContradictionOwned) Type() string          { return TypeContradictionOwned }
func (*ContradictionInvestigated) Type() string   { return TypeContradictionInvestigated }
func (*ContradictionResolved) Type() string       { return TypeContradictionResolved }
func (*ContradictionScoped) Type() string         { return TypeContradictionScoped }
func (*ContradictionUnresolved) Type() string     { return TypeContradictionUnresolved }
func (*FindingWritten) Type() string              { return TypeFindingWritten }
func (*FindingDelivered) Type() string            { return TypeFindingDelivered }
func (*FindingWithheld) Type() string             { return TypeFindingWithheld }
func (*FindingRated) Type() string                { return TypeFindingRated }
func (*EpisodeRecorded) Type() string             { return TypeEpisodeRecorded }
func (*UsageRecorded) Type() string               { return TypeUsageRecorded }
func (*PriceRecorded) Type() string               { return TypePriceRecorded }
func (*RunStarted) Type() string                  { return TypeRunStarted }
func (*RunFinished) Type() string                 { return TypeRunFinished }
func (*IsolationCounted) Type() string            { return TypeIsolationCounted }
func (*ControlRecorded) Type() string             { return TypeControlRecorded }
func (*ProbeRecorded) Type() string               { return TypeProbeRecorded }
func (*CaseCommitted) Type() string               { return TypeCaseCommitted }
func (*CaseRevealed) Type() string                { return TypeCaseRevealed }
func (*ResponseRecorded) Type() string            { return TypeResponseRecorded }
func (*ScoreRecorded) Type() string               { return TypeScoreRecorded }
func (*PreregistrationCommitted) Type() string    { return TypePreregistrationCommitted }
func (*CohortOpened) Type() string                { return TypeCohortOpened }
func (*CohortExposed) Type() string               { return TypeCohortExposed }
func (*CohortRetired) Type() string               { return TypeCohortRetired }
func (*LeakageScanned) Type() string              { return TypeLeakageScanned }
func (*DecisionRecorded) Type() string            { return TypeDecisionRecorded }
func (*FlagChanged) Type() string                 { return TypeFlagChanged }
func (*ApprovalRequested) Type() string           { return TypeApprovalRequested }
func (*ApprovalGranted) Type() string             { return TypeApprovalGranted }
func (*AuditLabelled) Type() string               { return TypeAuditLabelled }
