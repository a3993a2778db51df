package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestMain(m *testing.M) {
	// The fill runs this very program again.
	if len(os.Args) > 1 && os.Args[1] == fillCommand {
		if err := fillMain(context.Background(), os.Args[2:], os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSteps runs each step small: the figures mean nothing, but each must have
// done its work, and with the command's own word that it holds.
func TestSteps(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--records", "3000", "--json", "--dir", t.TempDir()}, &out)
	if err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]Row)
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	for _, name := range []string{
		"fill", "broker", "logger", "projector", "resolver", "verify", "replay", "export", "fsck",
		"restart: first ack", "restart: status answers", "restart: views caught up", "restart: resolver caught up",
	} {
		row, ok := rows[name]
		if !ok || row.Seconds <= 0 {
			t.Errorf("%s: %+v", name, row)
		}
		if row.MaxMiB > 0 && row.PeakMiB <= 0 {
			t.Errorf("the memory of %s was not measured", name)
		}
	}
}

func TestALimitIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		row  Row
		want bool
	}{
		"no limit":        {Row{PeakMiB: 1e6, Seconds: 1e6}, true},
		"enough memory":   {Row{PeakMiB: 256, MaxMiB: 256}, true},
		"too much memory": {Row{PeakMiB: 257, MaxMiB: 256}, false},
		"too late":        {Row{Seconds: 61, MaxSeconds: 60}, false},
	} {
		r := Report{Met: true}
		r.add(tc.row)
		if r.Met != tc.want || r.Rows[0].Met != tc.want {
			t.Errorf("%s: met %v, want %v", name, r.Met, tc.want)
		}
	}
}
