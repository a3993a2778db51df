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

// Type is "ledger.opened".
func (*LedgerOpened) Type() string { return TypeLedgerOpened }

// Type is "ledger.foreign_acknowledged".
func (*ForeignAcknowledged) Type() string { return TypeForeignAcknowledged }

// Type is "ledger.key_rotated".
func (*LedgerKeyRotated) Type() string { return TypeLedgerKeyRotated }

// Type is "ledger.restored".
func (*LedgerRestored) Type() string { return TypeLedgerRestored }

// Type is "blob.erased".
func (*BlobErased) Type() string { return TypeBlobErased }

// Type is "logger.started".
func (*LoggerStarted) Type() string { return TypeLoggerStarted }

// Type is "intake.rejected".
func (*IntakeRejected) Type() string { return TypeIntakeRejected }

// Type is "clock.ticked".
func (*ClockTicked) Type() string { return TypeClockTicked }

// Type is "clock.stepped".
func (*ClockStepped) Type() string { return TypeClockStepped }

// Type is "clock.confirmed".
func (*ClockConfirmed) Type() string { return TypeClockConfirmed }

// Type is "opportunity.detected".
func (*OpportunityDetected) Type() string { return TypeOpportunityDetected }

// Type is "gate.chosen".
func (*GateChosen) Type() string { return TypeGateChosen }

// Type is "claim.recorded".
func (*ClaimRecorded) Type() string { return TypeClaimRecorded }

// Type is "claim.revised".
func (*ClaimRevised) Type() string { return TypeClaimRevised }

// Type is "tool.called".
func (*ToolCalled) Type() string { return TypeToolCalled }

// Type is "experiment.proposed".
func (*ExperimentProposed) Type() string { return TypeExperimentProposed }

// Type is "experiment.executed".
func (*ExperimentExecuted) Type() string { return TypeExperimentExecuted }

// Type is "experiment.observed".
func (*ExperimentObserved) Type() string { return TypeExperimentObserved }

// Type is "prediction.recorded".
func (*PredictionRecorded) Type() string { return TypePredictionRecorded }

// Type is "prediction.withdrawn".
func (*PredictionWithdrawn) Type() string { return TypePredictionWithdrawn }

// Type is "prediction.armed".
func (*PredictionArmed) Type() string { return TypePredictionArmed }

// Type is "prediction.resolved".
func (*PredictionResolved) Type() string { return TypePredictionResolved }

// Type is "prediction.resolution_amended".
func (*PredictionResolutionAmended) Type() string { return TypePredictionResolutionAmended }

// Type is "outcome.recorded".
func (*OutcomeRecorded) Type() string { return TypeOutcomeRecorded }

// Type is "fix.rechecked".
func (*FixRechecked) Type() string { return TypeFixRechecked }

// Type is "graph.written".
func (*GraphWritten) Type() string { return TypeGraphWritten }

// Type is "telemetry.sealed".
func (*TelemetrySealed) Type() string { return TypeTelemetrySealed }

// Type is "hypotheses.recorded".
func (*HypothesesRecorded) Type() string { return TypeHypothesesRecorded }

// Type is "query.selected".
func (*QuerySelected) Type() string { return TypeQuerySelected }

// Type is "query.executed".
func (*QueryExecuted) Type() string { return TypeQueryExecuted }

// Type is "evidence.delivered".
func (*EvidenceDelivered) Type() string { return TypeEvidenceDelivered }

// Type is "detector.scanned".
func (*DetectorScanned) Type() string { return TypeDetectorScanned }

// Type is "week.closed".
func (*WeekClosed) Type() string { return TypeWeekClosed }

// Type is "audit.sampled".
func (*AuditSampled) Type() string { return TypeAuditSampled }

// Type is "canary.started".
func (*CanaryStarted) Type() string { return TypeCanaryStarted }

// Type is "canary.ended".
func (*CanaryEnded) Type() string { return TypeCanaryEnded }

// Type is "rollback.triggered".
func (*RollbackTriggered) Type() string { return TypeRollbackTriggered }

// Type is the wire name that the event came with.
func (u *Unknown) Type() string { return u.TypeName }

// Common is the context block.
func (p *LedgerOpened) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ForeignAcknowledged) Common() *Context { return &p.Context }

// Common is the context block.
func (p *LedgerKeyRotated) Common() *Context { return &p.Context }

// Common is the context block.
func (p *LedgerRestored) Common() *Context { return &p.Context }

// Common is the context block.
func (p *BlobErased) Common() *Context { return &p.Context }

// Common is the context block.
func (p *LoggerStarted) Common() *Context { return &p.Context }

// Common is the context block.
func (p *IntakeRejected) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ClockTicked) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ClockStepped) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ClockConfirmed) Common() *Context { return &p.Context }

// Common is the context block.
func (p *OpportunityDetected) Common() *Context { return &p.Context }

// Common is the context block.
func (p *GateChosen) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ClaimRecorded) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ClaimRevised) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ToolCalled) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ExperimentProposed) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ExperimentExecuted) Common() *Context { return &p.Context }

// Common is the context block.
func (p *ExperimentObserved) Common() *Context { return &p.Context }

// Common is the context block.
func (p *PredictionRecorded) Common() *Context { return &p.Context }

// Common is the context block.
func (p *PredictionWithdrawn) Common() *Context { return &p.Context }

// Common is the context block.
func (p *PredictionArmed) Common() *Context { return &p.Context }

// Common is the context block.
func (p *PredictionResolved) Common() *Context { return &p.Context }

// Common is the context block.
func (p *PredictionResolutionAmended) Common() *Context { return &p.Context }

// Common is the context block.
func (p *OutcomeRecorded) Common() *Context { return &p.Context }

// Common is the context block.
func (p *FixRechecked) Common() *Context { return &p.Context }

// Common is the context block.
func (p *GraphWritten) Common() *Context { return &p.Context }

// Common is the context block.
func (p *TelemetrySealed) Common() *Context { return &p.Context }

// Common is the context block.
func (p *HypothesesRecorded) Common() *Context { return &p.Context }

// Common is the context block.
func (p *QuerySelected) Common() *Context { return &p.Context }

// Common is the context block.
func (p *QueryExecuted) Common() *Context { return &p.Context }

// Common is the context block.
func (p *EvidenceDelivered) Common() *Context { return &p.Context }

// Common is the context block.
func (p *DetectorScanned) Common() *Context { return &p.Context }

// Common is the context block.
func (p *WeekClosed) Common() *Context { return &p.Context }

// Common is the context block.
func (p *AuditSampled) Common() *Context { return &p.Context }

// Common is the context block.
func (p *CanaryStarted) Common() *Context { return &p.Context }

// Common is the context block.
func (p *CanaryEnded) Common() *Context { return &p.Context }

// Common is the context block.
func (p *RollbackTriggered) Common() *Context { return &p.Context }

// Common is empty: nothing is known of an unknown type's data.
func (*Unknown) Common() *Context { return &Context{} }

func (*LedgerOpened) sealed()                {}
func (*ForeignAcknowledged) sealed()         {}
func (*LedgerKeyRotated) sealed()            {}
func (*LedgerRestored) sealed()              {}
func (*BlobErased) sealed()                  {}
func (*LoggerStarted) sealed()               {}
func (*IntakeRejected) sealed()              {}
func (*ClockTicked) sealed()                 {}
func (*ClockStepped) sealed()                {}
func (*ClockConfirmed) sealed()              {}
func (*OpportunityDetected) sealed()         {}
func (*GateChosen) sealed()                  {}
func (*ClaimRecorded) sealed()               {}
func (*ClaimRevised) sealed()                {}
func (*ToolCalled) sealed()                  {}
func (*ExperimentProposed) sealed()          {}
func (*ExperimentExecuted) sealed()          {}
func (*ExperimentObserved) sealed()          {}
func (*PredictionRecorded) sealed()          {}
func (*PredictionWithdrawn) sealed()         {}
func (*PredictionArmed) sealed()             {}
func (*PredictionResolved) sealed()          {}
func (*PredictionResolutionAmended) sealed() {}
func (*OutcomeRecorded) sealed()             {}
func (*FixRechecked) sealed()                {}
func (*GraphWritten) sealed()                {}
func (*TelemetrySealed) sealed()             {}
func (*HypothesesRecorded) sealed()          {}
func (*QuerySelected) sealed()               {}
func (*QueryExecuted) sealed()               {}
func (*EvidenceDelivered) sealed()           {}
func (*DetectorScanned) sealed()             {}
func (*WeekClosed) sealed()                  {}
func (*AuditSampled) sealed()                {}
func (*CanaryStarted) sealed()               {}
func (*CanaryEnded) sealed()                 {}
func (*RollbackTriggered) sealed()           {}
func (*Unknown) sealed()                     {}
