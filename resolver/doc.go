// Package resolver closes predictions by what independent telemetry says.
//
// A Machine folds the ledger, record by record, into armed and resolved
// predictions, and into the amendments that late telemetry and reports bring
// about. It has no clock: time is the ledger's (the running maximum of
// recorded_at) and each source's watermark. Evidence is what telemetry.sealed
// records name by hash, so that a resolution is a function of a ledger prefix
// and of named blobs, and a restart makes the same bytes again.
//
// A Sealer cuts the telemetry buffer into those segments. A Service reads the
// ledger up to its last checkpoint, feeds both, and publishes what comes out. Replay
// folds a ledger again and compares what comes out with what is stored.
package resolver
