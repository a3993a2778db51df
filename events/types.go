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
