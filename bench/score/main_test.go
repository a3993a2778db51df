package main

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestRows runs each row small: the figures mean nothing, but each must have done its
// work.
func TestRows(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--records", "2000", "--rounds", "1", "--json", "--dir", t.TempDir()}, &out); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	rows := map[string]Row{}
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	for _, name := range []string{
		"fold", "first keeping", "bare scan", "score, first", "score, warm", "score, changed",
		"metrics, first", "metrics, warm", "metrics, changed", "report, first", "report, warm", "report, changed", "keeping",
	} {
		if row, ok := rows[name]; !ok || row.Max <= 0 {
			t.Errorf("%s: %+v", name, row)
		}
	}
	if len(r.Rows) != 13+slowest || r.ViewsMiB <= 0 || r.KeptMiB <= 0 {
		t.Errorf("%d rows, %.3f MiB of views, %.3f MiB kept", len(r.Rows), r.ViewsMiB, r.KeptMiB)
	}
}
