// Package table shows what the ledger and its views hold as tables for
// analysts: rows of typed columns, each with its meaning, its unit and what
// NULL means in it. It is pure; package files below it writes the tables.
//
// The columns of a view follow from its Go type, so that no member can be left
// out: a struct within it is laid out flat, its members' names behind its own
// (resolution_verdict), a list, a map or free JSON is one column of JSON, and a
// time is two columns, the text and, under the name with _ns, nanoseconds.
//
// Unknown is NULL, never 0: a pointer to nothing, a record number of 0, the
// zero time, and an empty text that its type leaves out.
package table

import (
	"fmt"
	"slices"
)

// Type is what a column holds.
type Type string

// The types of columns, and the Go type of their values; a NULL is nil.
const (
	Int  Type = "integer" // int64
	Real Type = "real"    // float64
	Bool Type = "boolean" // bool
	Text Type = "text"    // string
	JSON Type = "json"    // string, one JSON value
)

// Column is one column of a table.
type Column struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Nullable bool   `json:"nullable"`
	Unit     string `json:"unit,omitzero"` // "" for what has none: counts, shares, names
	// Null says what NULL means; "" where the column is never NULL.
	Null    string `json:"null,omitzero"`
	Meaning string `json:"meaning"`
}

// Table is the shape of one table.
type Table struct {
	Name    string   `json:"name"`
	Meaning string   `json:"meaning"` // what a row is
	Columns []Column `json:"columns"`
}

// Row is one value a column; valid until the next row.
type Row []any

// Check says whether the row fits the columns: a value of another type, or a
// NULL where none may be, is an error.
func (t *Table) Check(r Row) error {
	if len(r) != len(t.Columns) {
		return fmt.Errorf("table %s: a row of %d values, want %d", t.Name, len(r), len(t.Columns))
	}
	for i, c := range t.Columns {
		ok := false
		switch r[i].(type) {
		case nil:
			ok = c.Nullable
		case int64:
			ok = c.Type == Int
		case float64:
			ok = c.Type == Real
		case bool:
			ok = c.Type == Bool
		case string:
			ok = c.Type == Text || c.Type == JSON
		}
		if !ok {
			return fmt.Errorf("table %s: column %s: %T, want %s", t.Name, c.Name, r[i], c.Type)
		}
	}
	return nil
}

// Kinds are what can be exported: the events, the foreign messages among them,
// and every kind of view.
func Kinds() []string {
	kinds := []string{Events, Foreign}
	for _, v := range views() {
		kinds = append(kinds, v.kind)
	}
	slices.Sort(kinds[2:])
	return kinds
}

// Of is the table of a kind.
func Of(kind string) (*Table, error) {
	switch kind {
	case Events:
		return eventTable(), nil
	case Foreign:
		return foreignPlan.table(Foreign, "A stored message that the logger did not write; it is no record and has no effect."), nil
	}
	v, err := viewOf(kind)
	if err != nil {
		return nil, err
	}
	return v.table(), nil
}
