// Package criterion parses, lints and evaluates the small declarative criteria
// that predictions carry, against the operator's registry of signals. It is
// pure: no clock, network or storage.
//
// A criterion is evaluated by range. The interval that a reducer could take,
// given the samples that are in and the ticks that are missing, is compared
// with the clause: all of it passes gives True, none of it False, and anything
// else Unknown. So one sample can decide early (a witness), while the absence
// of something is only ever shown under coverage.
//
// Several clauses are combined by Kleene's AND or OR, each held to its own
// signal's entry in the registry. A baseline, the same evaluation before the
// action, must show that the sensor sees the symptom before anything is
// confirmed. Controls and placebos never move a verdict: Attribute says how far
// it can be laid to the action.
//
// Parse accepts what the schema accepts, Lint names what the registry and the
// caps forbid, Evaluate judges, Explain says why. Products are rounded before
// they are added to anything, so that every processor comes to the same bits.
package criterion
