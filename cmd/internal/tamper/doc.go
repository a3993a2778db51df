// Package tamper holds the test that changes every kind of stored state in every
// way there is, and names who notices: docs/threat-model.md has its table.
package tamper
