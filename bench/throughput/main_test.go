package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestMain(m *testing.M) {
	// The reading sides run this very program again.
	if len(os.Args) > 1 && os.Args[1] == readCommand {
		exit(readMain(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// TestRows runs each row small: the figures mean nothing, but both sides must
// have done their work.
func TestRows(t *testing.T) {
	for _, name := range []string{"append", "ack", "verify", "replay", "fsck"} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), []string{"--records", "2000", "--rounds", "2", "--acks", "5", "--message", "100", "--only", name, "--json", "--dir", t.TempDir()}, &out)
			if err != nil {
				t.Fatal(err)
			}
			var r Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Rows) != 1 || r.Rows[0].Name != name {
				t.Fatalf("rows %+v", r.Rows)
			}
			row := r.Rows[0]
			if row.Assay.Min <= 0 || row.Against.Min <= 0 || row.Ratio <= 0 || row.Met != (row.Ratio >= row.Target) && !row.AtMost {
				t.Errorf("row %+v", row)
			}
			if reads := name == "verify" || name == "replay" || name == "fsck"; reads != (row.PeakMiB > 0) {
				t.Errorf("peak memory of %s is %v MiB", name, row.PeakMiB)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown row":    {"--only", "nothing"},
		"no rounds":      {"--rounds", "0"},
		"few records":    {"--records", "10"},
		"large messages": {"--message", "100000"},
		"unknown flag":   {"--nothing"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := parse(nil); err != nil {
		t.Error(err)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 4}, Spread{1, 4, 5}},
		{[]float64{4, 1, 2, 9}, Spread{1, 3, 9}},
	} {
		if got := spread(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
	if got := (Spread{}).text("/s"); !strings.Contains(got, "–") {
		t.Errorf("nothing measured prints as %q", got)
	}
}
