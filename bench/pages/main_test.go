package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestPages asks for each page of a small ledger: the figures mean nothing, but each
// page must be there.
func TestPages(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--records", "3000", "--rounds", "1", "--json", "--dir", t.TempDir()}, &out)
	if err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Records < 3000 || len(r.Rows) != 25 {
		t.Fatalf("%d records, %d rows", r.Records, len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.First <= 0 || row.Median <= 0 || row.Max < row.Median || row.Bytes == 0 {
			t.Errorf("%+v", row)
		}
	}
}

func TestATargetIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		took []float64
		want Row
	}{
		"in time":           {[]float64{100, 3, 1, 2}, Row{First: 100, Median: 2, Max: 3, Met: true}},
		"late at first":     {[]float64{100.1, 3, 1, 2}, Row{First: 100.1, Median: 2, Max: 3}},
		"late later, once":  {[]float64{1, 1, 101, 2}, Row{First: 1, Median: 2, Max: 101}},
		"asked for but two": {[]float64{5, 4}, Row{First: 5, Median: 4, Max: 4, Met: true}},
	} {
		var r Row
		if r.judge(tt.took); r != tt.want {
			t.Errorf("%s: %+v, want %+v", name, r, tt.want)
		}
	}
}
