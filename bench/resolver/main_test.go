package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestHouse runs everything small: the times mean nothing, but each phase must
// have done its work, and each prediction must have its verdict.
func TestHouse(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{
		"--predictions", "400", "--signals", "20", "--rate", "40", "--sensors", "2", "--quiet", "1s", "--open", "15s", "--settle", "2s", "--seal", "1s",
		"--segments", "1", "--json", "--dir", t.TempDir(),
	}, &out)
	if err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	sealed, acks := 0.0, 0
	for i, name := range []string{"quiet", "intake", "arming", "restart", "open", "settling", "after"} {
		if i >= len(r.Phases) || r.Phases[i].Name != name {
			t.Fatalf("phase %d is not %s: %+v", i, name, r.Phases)
		}
		p := r.Phases[i]
		sealed, acks = sealed+p.Sealed, acks+p.Acks.N
		if name == "intake" && p.Offered <= 0 || p.Processes["broker"].RSSMiB <= 0 || p.Processes["load"].RSSMiB <= 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if sealed <= 0 || acks == 0 || r.Phases[6].Open != 0 {
		t.Errorf("%v sealed, %d acks, at last %+v", sealed, acks, r.Phases[6])
	}
	// A machine that restarts the resolver more slowly than windows take to open
	// shows none of this; it has a phase "open" of no time.
	inTime := r.Phases[4].Seconds > 2
	if p := r.Phases[4]; inTime && (p.Open != 400 || p.Watermark <= 0) {
		t.Errorf("open: %+v", p)
	}
	v := r.Verdicts
	if v.Wrong+v.Twice+v.Missing != 0 || v.Given["confirmed"] != 240 || v.Given["refuted"] != 120 || v.Given["unresolved"] != 40 || v.Lag.N != 280 {
		t.Errorf("verdicts %+v", v)
	}
	if s := r.Segments; s.N == 0 || s.MaxSamples < 20 || s.Bytes <= 0 || s.Delay.N != s.N {
		t.Errorf("segments %+v", s)
	}
	for i, saved := range []bool{true, false} {
		if len(r.Restarts) != 2 || r.Restarts[i].SavedFold != saved || r.Restarts[i].Open == 0 || inTime && r.Restarts[i].Open != 400 || r.Restarts[i].Seconds <= 0 || saved != (r.Restarts[i].StateMiB > 0) {
			t.Fatalf("restarts %+v", r.Restarts)
		}
	}
	if len(r.Fold) != 6 || r.Fold[2].Bystanders != 400 || r.Fold[0].Samples != 10_010 {
		t.Errorf("fold %+v", r.Fold)
	}
	nothingLost := false
	for _, c := range r.Checks {
		if c.Name == lostBatches {
			nothingLost = c.Value == 0 && c.Limit == 0 && c.Met
		}
		if c.Met != (c.Value <= c.Limit) || !c.Met && r.Met {
			t.Errorf("check %+v", c)
		}
	}
	if !nothingLost {
		t.Errorf("batches were lost, or nobody looked: %+v", r.Checks)
	}
	if err := r.print(&out); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	for name, args := range map[string][]string{
		"no predictions":    {"--predictions", "0"},
		"too few samples":   {"--rate", "10"},
		"too many a sensor": {"--rate", "100000"},
		"idle sensors":      {"--signals", "5", "--sensors", "10"},
		"no time":           {"--open", "0s"},
		"unknown flag":      {"--nothing"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := parse(nil); err != nil {
		t.Error(err)
	}
}

// TestPromises: of any thousand predictions over a hundred signals every verdict
// has its share, and each series meets every promise.
func TestPromises(t *testing.T) {
	w := &world{signals: 100, units: 2, sensors: 2}
	verdicts := map[string]int{}
	for i := range 1000 {
		p, _, unit := w.promiseOf(i)
		verdicts[p.verdict]++
		if (unit == "none") != (p.verdict == "unresolved") {
			t.Errorf("prediction %d: %s of unit %s", i, p.verdict, unit)
		}
	}
	if verdicts["confirmed"] != 600 || verdicts["refuted"] != 300 || verdicts["unresolved"] != 100 {
		t.Errorf("verdicts %v", verdicts)
	}
}
