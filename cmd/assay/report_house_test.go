package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/projector/metric"
	"assay/projector/report"
)

// TestReportIsWritten: in a house that has closed a week its report is written whole,
// signed, and the same to the byte whoever computes it.
func TestReportIsWritten(t *testing.T) {
	c, stop := closedWeek(t, "Asia/Kolkata", time.Now().Add(-fortnight), func(c command) {
		if out := c.must(3, "", "report", "--out", t.TempDir()); !strings.Contains(out, "no week of it is over") {
			t.Error(out)
		}
	})
	stopped := false
	defer func() {
		if !stopped {
			stop()
		}
	}()
	r := c.report()
	if r.Week.Zone != "Asia/Kolkata" || !strings.HasSuffix(r.Week.Start, "T18:30:00Z") || r.Week.Hours != 168 {
		t.Errorf("%+v", r.Week)
	}
	running, offline := t.TempDir(), t.TempDir()
	c.must(0, "", "report", "--out", running, "--week", r.Week.ID, "--tz", "Asia/Kolkata")
	for args, want := range map[[4]string]string{
		{"2", "--tz", "UTC", "--out"}:        "was closed in Asia/Kolkata, not in UTC",
		{"2", "--week", "2025-W53", "--out"}: "no ISO week",
		{"3", "--week", "2001-W01", "--out"}: "the ledger has closed no such week: 2001-W01",
	} {
		out := c.must(int(args[0][0]-'0'), "", "report", args[1], args[2], args[3], t.TempDir())
		if !strings.Contains(out, want) {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := c.must(2, "", "report"); !strings.Contains(out, "give --out DIR, or --json") {
		t.Error(out)
	}

	// Every metric at once is what each is alone.
	var all node.MetricValues
	if err := json.Unmarshal([]byte(c.must(0, "", "--json", "metrics", "--values", "--week", r.Week.ID)), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Values) != len(metric.Catalogue()) || all.V != metric.CatalogueVersion {
		t.Errorf("%d values", len(all.Values))
	}
	i := slices.IndexFunc(all.Values, func(e *metric.Explanation) bool { return e.Metric == "useful_conclusions" })
	if v := all.Values[i].Value; v == nil || *v != 3 || all.Values[i].Week != r.Week.ID {
		t.Errorf("%+v", all.Values[i])
	}
	if out := c.must(0, "", "metrics", "useful_conclusions", "--values"); !strings.Contains(out, "useful_conclusions  conclusions  3 (3)") {
		t.Error(out)
	}
	if out := c.must(3, "", "metrics", "--values", "--week", "2001-W01"); !strings.Contains(out, "no such week") {
		t.Error(out)
	}
	c.must(2, "", "metrics", "--week", "2026-W48")
	c.must(2, "", "metrics", "nothing", "--values")

	stop()
	stopped = true
	c.must(0, "", "report", "--out", offline)
	entries, err := os.ReadDir(offline)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, ending := range []string{".html", ".md", ".json"} {
		a, errA := os.ReadFile(filepath.Join(running, r.Week.ID+ending))
		b, errB := os.ReadFile(filepath.Join(offline, r.Week.ID+ending))
		if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v; %d and %d bytes", ending, errA, errB, len(a), len(b))
		}
	}
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(offline, r.Week.ID+".json"))), &r); err != nil || r.V != report.Version {
		t.Errorf("%v, version %d", err, r.V)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// report is the report of the last week, as soon as there is one that is signed.
func (c command) report() (r report.Report) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for { // views and checkpoint follow once a second
		code, out, errs := c.run("", "--json", "report")
		if code == 0 {
			r = report.Report{}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				c.t.Fatal(err)
			}
			if r.Checkpoint != nil && r.Checkpoint.Covers {
				return r
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("exit %d, %+v\n%s", code, r.Checkpoint, errs)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestReportedWeeks: the weeks that the logger closes are the ones that are reported,
// also where clocks change and where a year has 53.
func TestReportedWeeks(t *testing.T) {
	for _, tt := range []struct {
		zone, at, week, start, end string
		hours                      float64
	}{
		{"Europe/Berlin", "2026-10-25T22:30:00Z", "2026-W43", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z", 169},
		{"Europe/Berlin", "2027-03-28T21:30:00Z", "2027-W12", "2027-03-21T23:00:00Z", "2027-03-28T22:00:00Z", 167},
		{"Asia/Kolkata", "2027-01-03T18:00:00Z", "2026-W53", "2026-12-27T18:30:00Z", "2027-01-03T18:30:00Z", 168},
	} {
		t.Run(tt.zone+" "+tt.week, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			c, stop := closedWeek(t, tt.zone, at, func(command) {})
			defer stop()
			r := c.report()
			if w := r.Week; w.ID != tt.week || w.Zone != tt.zone || w.Start != tt.start || w.End != tt.end || w.Hours != tt.hours {
				t.Errorf("%+v", w)
			}
			for _, b := range r.Blocks {
				for _, f := range b.Figures {
					if f.Metric == "useful_conclusions" && (f.Week.Value == nil || *f.Week.Value != 3) {
						t.Errorf("%+v", f.Week)
					}
				}
			}
		})
	}
}
