package criterion

import (
	"testing"
	"time"
)

// The baseline is the minute before the window.
func TestBaseline(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	before := func(values ...float64) []point {
		list := ticks(values...)
		for i := range list {
			list[i].at -= 60
		}
		return list
	}
	passing := Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 5}
	silent := Clause{Signal: "happening", Reduce: ReduceCount, Op: OpEQ, Value: 0}
	symptom := &Baseline{Length: time.Minute, Reduce: ReduceMax, Op: OpGT, Value: 5}
	for _, tc := range []struct {
		name     string
		clause   Clause
		baseline *Baseline
		points   []point
		beats    []int
		unplaced bool
		open     bool // the window
		pending  bool // the baseline
		want     Outcome
		reason   Reason
		base     Outcome
	}{
		{"shown by a witness", passing, symptom, join(before(1, 9), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, True, 0, True},
		{"shown while it is open", passing, symptom, join(before(1, 9), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, true, True, 0, True},
		{"shown by coverage", passing, &Baseline{Length: time.Minute, Reduce: ReduceMin, Op: OpGE, Value: 7},
			join(before(7, 8, 9, 9, 9, 9), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, True, 0, True},
		{"not shown before it is closed", passing, &Baseline{Length: time.Minute, Reduce: ReduceMin, Op: OpGE, Value: 7},
			join(before(7, 8, 9, 9, 9, 9), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, true, Unknown, SensorUnproven, Unknown},
		{"no symptom", passing, symptom, join(before(1, 2, 3, 4, 5, 5), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, Unknown, SensorUnproven, False},
		{"no coverage before", passing, symptom, join(before(1), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, Unknown, CoverageShort, Unknown},
		{"silent before", passing, symptom, ticks(1, 2, 3, 4, 5, 5), nil, false, false, false, Unknown, SensorUnproven, Unknown},
		{"it cannot be placed", passing, symptom, join(before(1, 9), ticks(1, 2, 3, 4, 5, 5)), nil, true, false, false, Unknown, SensorUnproven, Unknown},
		{"refuted without a baseline", passing, symptom, ticks(1, 9), nil, false, true, true, False, 0, Unknown},
		{"unknown for its own reason", passing, symptom, join(before(9), ticks(1)), nil, false, false, false, Unknown, CoverageShort, True},
		{"a counter that never saw anything", silent, &Baseline{Length: time.Minute, Reduce: ReduceCount, Op: OpGE, Value: 1},
			nil, all, false, false, false, Unknown, SensorUnproven, Unknown},
		{"a counter that saw it", silent, &Baseline{Length: time.Minute, Reduce: ReduceCount, Op: OpGE, Value: 1},
			before(1), all, false, false, false, True, 0, True},
		{"a quantile before", passing, &Baseline{Length: time.Minute, Reduce: ReduceQuantile, Quantile: 0.5, Op: OpEQ, Value: 8},
			join(before(7, 8, 9, 7, 8, 9), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, True, 0, True},
		{"the action's start is not before it", passing, symptom, join([]point{{0, 5, miss}}, before(1, 2, 3, 4, 5, 5), ticks(1, 2, 3, 4, 5, 5)), nil, false, false, false, Unknown, SensorUnproven, False},
	} {
		t.Run(tc.name, func(t *testing.T) {
			samples := beats(tc.beats...)
			for i, p := range tc.points {
				samples = append(samples, sampleOf(tc.clause.Signal, uint64(i+1), p))
			}
			in := input(t, tc.clause, samples, !tc.open)
			in.Criterion.Baseline, in.BaselineClosed = tc.baseline, !tc.pending
			if !tc.unplaced {
				in.Baseline = in.Criterion.BaselineSpan(epoch)
			}
			if faults := Lint(in.Criterion, in.Registry); len(faults) > 0 {
				t.Fatalf("the case does not pass the linter: %v", faults)
			}
			res := Evaluate(in)
			cr := res.Clauses[0]
			if res.Outcome != tc.want || res.Reason != tc.reason || cr.Baseline.Outcome != tc.base {
				t.Errorf("%v %q with the baseline %v, want %v %q with %v: %+v, %+v", res.Outcome, res.Reason, cr.Baseline.Outcome, tc.want, tc.reason, tc.base, cr, cr.Baseline)
			}
			used := make(map[int]bool)
			for _, i := range cr.Used {
				used[i] = true
			}
			for _, i := range cr.Baseline.Used {
				if !used[i] && res.Outcome != False {
					t.Errorf("sample %d bears out the baseline, and is no evidence", i)
				}
			}
			if res.Outcome == False && len(used) != 1 {
				t.Errorf("refuted by one sample, and the evidence is %v", cr.Used)
			}
		})
	}
}

// A conflict, and an edge within the skew, may lie in the baseline too: they are
// nothing to the window.
func TestBaselineInDoubt(t *testing.T) {
	in := input(t, Clause{Signal: "skewed", Reduce: ReduceMax, Op: OpLE, Value: 5}, nil, true)
	in.Criterion.Baseline = &Baseline{Length: time.Minute, Reduce: ReduceMax, Op: OpGT, Value: 5}
	in.Baseline, in.BaselineClosed = in.Criterion.BaselineSpan(epoch), true
	for cell := -6; cell < 6; cell++ {
		in.Samples = append(in.Samples, sampleOf("skewed", uint64(cell+10), point{10*float64(cell) + 5, 1, miss}))
	}
	in.Samples = append(in.Samples, sampleOf("skewed", 99, point{-61, 9, miss}))
	extra := &in.Samples[len(in.Samples)-1]
	check := func(name string, outcome Outcome, reason, base Reason) {
		t.Helper()
		res := Evaluate(in)
		if b := res.Clauses[0].Baseline; res.Outcome != outcome || res.Reason != reason || b.Reason != base {
			t.Errorf("%s: %v %v %+v", name, res.Outcome, res.Reason, b)
		}
	}
	check("near the edge", Unknown, SensorUnproven, ClockAmbiguous)
	extra.Time = at(-30)
	check("within", True, NoReason, NoReason)
	other := *extra
	other.Value = 8
	in.Samples = append(in.Samples, other)
	check("in conflict", Unknown, SensorUnproven, SourcesConflict)
	in.Criterion.All[0].Op = OpGT
	check("in conflict, and refuted", False, NoReason, SourcesConflict)
	extra = &in.Samples[len(in.Samples)-1]
	extra.Time = at(33)
	check("in conflict with one in the window", Unknown, SourcesConflict, NoReason)
}
