package criterion

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func explained(t *testing.T, in Input) (Explanation, string, string) {
	t.Helper()
	e := Explain(in, Evaluate(in))
	raw, err := json.Marshal(e, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	e.WriteText(&text)
	return e, string(raw), text.String()
}

func wants(t *testing.T, in string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(in, p) {
			t.Errorf("no %q in\n%s", p, in)
		}
	}
}

func TestExplainAWitness(t *testing.T) {
	in := input(t, Clause{Signal: "alone", Labels: map[string]string{"pid": "7"}, Reduce: ReduceMax, Op: OpLE, Value: 60}, nil, false)
	for i, p := range ticks(1, 61, 70) {
		s := sampleOf("alone", uint64(i+1), p)
		s.Labels = map[string]string{"pid": "7"}
		in.Samples = append(in.Samples, s)
	}
	_, raw, text := explained(t, in)
	wants(t, raw, `"outcome": "false"`, `"reason": null`, `"decided_by": "witness"`, `"lo": 70,`, `"hi": null`, `"value": 61,`, `"seq": 2`, `"stream": "b"`, `"source": "s"`,
		`"time": "2026-10-03T12:00:15Z"`, `"occupied": 3`, `"cells": 6`, `"ratio": 0.5`, `"min": 0.5`, `"seconds": 35`, `"start": "2026-10-03T12:00:25Z"`,
		`"end": "2026-10-03T12:01:00Z"`, `"max_seconds": 30`, `"samples": 3`, `"skew": []`, `"conflicts": []`, `"baseline": null`, `"unproven": false`)
	const want = `/all/0  alone{"pid":"7"} max <= 60: false, by witness
  window      from 2026-10-03T12:00:00Z to 2026-10-03T12:01:00Z
  range       [70, +Inf]
  samples     3
  coverage    3 of 6 cells of 10s: 0.5, at least 0.5
  longest gap 35s from 2026-10-03T12:00:25Z to 2026-10-03T12:01:00Z, at most 30s
  witness     61 at 2026-10-03T12:00:15Z (s b 2)
`
	if text != want {
		t.Errorf("got\n%s, want\n%s", text, want)
	}
}

func TestExplainCoverage(t *testing.T) {
	in := input(t, Clause{Signal: "alone", Reduce: ReduceQuantile, Quantile: 0.5, Op: OpEQ, Value: 3, MinSamples: 4}, nil, true)
	for i, p := range ticks(1, 2, 3, 4, 5, 6) {
		in.Samples = append(in.Samples, sampleOf("alone", uint64(i+1), p))
	}
	in.Criterion.Any, in.Criterion.All = in.Criterion.All, nil
	e, raw, text := explained(t, in)
	wants(t, raw, `"combine": "any"`, `"decided_by": "coverage"`, `"witness": null`, `"q": 0.5`, `"min_samples": 4`, `"hold_for_seconds": null`, `"labels": {}`)
	wants(t, text, "/any/0  alone quantile 0.5 == 3: true, by coverage\n", "range       [3, 3]\n", "samples     6, at least 4 to show an absence\n")
	if e.Outcome != "true" {
		t.Error(e.Outcome)
	}
}

func TestExplainDoubt(t *testing.T) {
	in := input(t, Clause{Signal: "skewed", Reduce: ReduceMin, Op: OpGT, Value: 0, HoldFor: 20 * time.Second}, nil, true)
	for i, p := range ticks(1, 1, 1, 1, 1, 1) {
		in.Samples = append(in.Samples, sampleOf("skewed", uint64(i+1), p))
	}
	other := in.Samples[3]
	other.Value = 0
	in.Samples = append(in.Samples, other)
	_, raw, text := explained(t, in)
	wants(t, raw, `"reason": "sources_conflict"`, `"decided_by": "nothing"`, `"hold_for_seconds": 20`)
	wants(t, text, "skewed min > 0 held for 20s: unknown (sources_conflict)\n", "s, the longest run\n",
		"conflict    0 at 2026-10-03T12:00:35Z (s b 4) and 1 at 2026-10-03T12:00:35Z (s b 4)\n")

	in = input(t, Clause{Signal: "skewed", Reduce: ReduceMax, Op: OpLE, Value: 5}, nil, true)
	for i, p := range join(ticks(1, 1, 1, 1, 1, 1), []point{{-1, 9, miss}}) {
		in.Samples = append(in.Samples, sampleOf("skewed", uint64(i+1), p))
	}
	_, raw, text = explained(t, in)
	wants(t, raw, `"reason": "clock_ambiguous"`, `"outcome": "false"`)
	wants(t, text, "skewed max <= 5: unknown (clock_ambiguous)\n", "skew        from 2026-10-03T11:59:58Z to 2026-10-03T12:01:00Z it is false\n")
}

func TestExplainABaseline(t *testing.T) {
	in := input(t, Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 5}, nil, true)
	for i, p := range ticks(1, 1, 1, 1, 1, 1) {
		in.Samples = append(in.Samples, sampleOf("alone", uint64(i+1), p))
	}
	in.Criterion.Baseline = &Baseline{Length: time.Minute, Reduce: ReduceMax, Op: OpGT, Value: 5}
	_, raw, text := explained(t, in)
	wants(t, raw, `"unproven": true`, `"reason": "sensor_unproven"`, `"window": null`)
	wants(t, text, "alone max <= 5: unknown (sensor_unproven): the window passes, and the baseline does not show that the sensor sees the symptom\n",
		"  baseline  alone max > 5: unknown (sensor_unproven)\n", "it cannot be placed")
	in.Baseline, in.BaselineClosed = in.Criterion.BaselineSpan(epoch), true
	in.Samples = append(in.Samples, sampleOf("alone", 99, point{-30, 8, miss}))
	_, _, text = explained(t, in)
	wants(t, text, "/all/0  alone max <= 5: true, by coverage\n", "  baseline  alone max > 5: true, by witness\n", "    witness     8 at 2026-10-03T11:59:30Z (s b 99)\n")
}

func TestExplainNothing(t *testing.T) {
	in := input(t, Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 5}, nil, true)
	in.Principal = "sensor/s"
	_, raw, _ := explained(t, in)
	wants(t, raw, `"coverage": null`, `"range": null`, `"longest_gap": null`, `"reason": "sensor_unproven"`)
	in.Principal, in.Criterion.All[0].Signal = "", "nobody"
	_, raw, _ = explained(t, in)
	wants(t, raw, `"source": null`, `"reason": "criterion_error"`)
}
