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
// This version evaluates criteria of one clause, without a baseline and
// without controls. What it does not evaluate it refuses in Lint, by name.
package criterion
