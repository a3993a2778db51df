package criterion

import (
	"math"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)

// point is a sample at a number of seconds from the window's start.
type point struct {
	at    float64
	value float64
	start float64 // counters: seconds from the window's start; NaN for unknown
}

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func sampleOf(signal string, seq uint64, p point) Sample {
	s := Sample{Source: "s", Stream: "b", Seq: seq, Signal: signal, Time: at(p.at), Value: p.value}
	if !math.IsNaN(p.start) {
		s.Start = at(p.start)
	}
	return s
}

// ticks are values at 5, 15, 25, … seconds: one in each cell. NaN leaves the
// tick out.
func ticks(values ...float64) []point {
	var out []point
	for i, v := range values {
		if !math.IsNaN(v) {
			out = append(out, point{at: 5 + 10*float64(i), value: v, start: math.NaN()})
		}
	}
	return out
}

var miss = math.NaN()

// counter are values of one run that began at start.
func counter(start float64, from float64, values ...float64) []point {
	var out []point
	for i, v := range values {
		out = append(out, point{at: from + 10*float64(i), value: v, start: start})
	}
	return out
}

// hundred are the values 1 to 100 in the cells of the window.
func hundred() []point {
	var out []point
	for i := range 100 {
		out = append(out, point{at: 60 * float64(i) / 100, value: float64((37*i)%100 + 1), start: math.NaN()})
	}
	return out
}

func join(lists ...[]point) []point { return slices.Concat(lists...) }

func input(t testing.TB, clause Clause, samples []Sample, closed bool) Input {
	return Input{
		Criterion: Criterion{Window: Window{Anchor: AnchorRecorded, Length: time.Minute}, All: []Clause{clause}},
		Registry:  testRegistry(t), Window: Span{epoch, epoch.Add(time.Minute)}, Samples: samples, Closed: closed,
	}
}

func beats(cells ...int) []Sample {
	var out []Sample
	for _, c := range cells {
		out = append(out, sampleOf("beat", 1000+uint64(c), point{at: 5 + 10*float64(c), value: 1, start: miss}))
	}
	return out
}

// The window is one minute of six cells; coverage is asked at 0.5, gaps up to 30 s.
func TestEvaluate(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	clause := func(signal string, reduce Reducer, op Op, v float64) Clause {
		return Clause{Signal: signal, Reduce: reduce, Op: op, Value: v}
	}
	hold := func(op Op, v float64, seconds int) Clause {
		return Clause{Signal: "alone", Reduce: ReduceMin, Op: op, Value: v, HoldFor: time.Duration(seconds) * time.Second}
	}
	quantile := func(q float64, op Op, v float64) Clause {
		return Clause{Signal: "alone", Reduce: ReduceQuantile, Quantile: q, Op: op, Value: v}
	}
	minSamples := func(c Clause, n int64) Clause { c.MinSamples = n; return c }
	for _, tc := range []struct {
		name    string
		clause  Clause
		points  []point
		beats   []int
		open    bool // the window is not closed yet
		want    Outcome
		reason  Reason
		witness float64 // its value; NaN for none
	}{
		{"max confirmed under coverage", clause("alone", ReduceMax, OpLE, 60), ticks(1, 2, 3, 4, 5, 60), nil, false, True, 0, miss},
		{"max refuted by one sample, early", clause("alone", ReduceMax, OpLE, 60), ticks(miss, 61), nil, true, False, 0, 61},
		{"max is not confirmed early", clause("alone", ReduceMax, OpLE, 60), ticks(1, 2, 3, 4, 5, 6), nil, true, Unknown, SourceSilent, miss},
		{"max witness of a rise", clause("alone", ReduceMax, OpGE, 60), ticks(miss, 70, 80), nil, true, True, 0, 70},
		{"max coverage short", clause("alone", ReduceMax, OpLE, 60), ticks(1, miss, miss, miss, 5, miss), nil, false, Unknown, CoverageShort, miss},
		{"half the cells are enough", clause("alone", ReduceMax, OpLE, 60), ticks(1, miss, 3, miss, 5, miss), nil, false, True, 0, miss},
		{"a gap over the limit", clause("alone", ReduceMax, OpLE, 60), ticks(1, 2, miss, miss, miss, 6), nil, false, Unknown, CoverageShort, miss},
		{"the left edge is a gap", clause("alone", ReduceMax, OpLE, 60), ticks(miss, miss, miss, 4, 5, 6), nil, false, Unknown, CoverageShort, miss},
		{"the right edge is a gap", clause("alone", ReduceMax, OpLE, 60), ticks(1, 2, 3, miss, miss, miss), nil, false, Unknown, CoverageShort, miss},
		{"rows do not make coverage", clause("alone", ReduceMax, OpLE, 60),
			join(ticks(1), ticks(1), ticks(1), []point{{at: 6, start: miss}, {at: 7, start: miss}}), nil, false, Unknown, CoverageShort, miss},
		{"the start belongs to the window", clause("alone", ReduceMax, OpLE, 60), []point{{0, 61, miss}}, nil, true, False, 0, 61},
		{"the end does not", clause("alone", ReduceMax, OpLE, 60), join(ticks(1, 1, 1, 1, 1, 1), []point{{60, 61, miss}}), nil, false, True, 0, miss},
		{"silence", clause("alone", ReduceMax, OpLE, 60), nil, nil, false, Unknown, SourceSilent, miss},
		{"alive but blind", clause("gauge", ReduceMax, OpLE, 60), nil, all, false, Unknown, SensorUnproven, miss},
		{"samples without heartbeat", clause("gauge", ReduceMax, OpLE, 60), ticks(1, 1, 1, 1, 1, 1), nil, false, Unknown, CoverageShort, miss},
		{"samples and heartbeat", clause("gauge", ReduceMax, OpLE, 60), ticks(1, 1, 1, 1, 1, 1), all, false, True, 0, miss},
		{"NaN covers nothing", clause("alone", ReduceMax, OpLE, 60),
			[]point{{5, math.NaN(), miss}, {15, math.Inf(1), miss}, {25, math.Inf(-1), miss}, {35, 1, miss}, {45, 1, miss}}, nil, false, Unknown, CoverageShort, miss},
		{"min confirmed by a witness", clause("alone", ReduceMin, OpLE, 5), ticks(9, 4), nil, true, True, 0, 4},
		{"min refuted by a witness", clause("alone", ReduceMin, OpGT, 5), ticks(9, 4), nil, true, False, 0, 4},
		{"min equal needs coverage", clause("alone", ReduceMin, OpEQ, 4), ticks(9, 4), nil, true, Unknown, CoverageShort, miss},
		{"min equal to the registry's bound", clause("alone", ReduceMin, OpEQ, 0), ticks(9, 0), nil, true, True, 0, 0},
		{"a bound of the registry decides", clause("bounded", ReduceMax, OpLE, 1), ticks(1), nil, true, True, 0, 1},
		{"but not without any sample", clause("bounded", ReduceMax, OpLE, 1), nil, nil, false, Unknown, SourceSilent, miss},
		{"count confirmed by silence of events", clause("happening", ReduceCount, OpEQ, 0), nil, all, false, True, 0, miss},
		{"count refuted by one event", clause("happening", ReduceCount, OpEQ, 0), ticks(miss, 1), nil, true, False, 0, 1},
		{"count without heartbeat", clause("happening", ReduceCount, OpEQ, 0), nil, nil, false, Unknown, SourceSilent, miss},
		{"count with half a heartbeat", clause("happening", ReduceCount, OpEQ, 0), nil, []int{0, 1}, false, Unknown, CoverageShort, miss},
		{"count reached", clause("happening", ReduceCount, OpGE, 2), ticks(7, miss, 8, 9), nil, true, True, 0, 8},
		{"count not reached", clause("happening", ReduceCount, OpGE, 2), ticks(7), all, false, False, 0, miss},
		{"min_samples keeps an absence back", minSamples(clause("alone", ReduceMax, OpLE, 60), 7), ticks(1, 2, 3, 4, 5, 6), nil, false, Unknown, CoverageShort, miss},
		{"min_samples never blocks a witness", minSamples(clause("alone", ReduceMax, OpLE, 60), 7), ticks(61), nil, true, False, 0, 61},
		{"avg under coverage", clause("alone", ReduceAvg, OpEQ, 3), ticks(1, 2, 3, 4, 5, miss), nil, false, True, 0, miss},
		{"avg is never early", clause("alone", ReduceAvg, OpLE, 60), ticks(1e6, 1e6, 1e6, 1e6, 1e6), nil, true, Unknown, SourceSilent, miss},
		{"avg coverage short", clause("alone", ReduceAvg, OpLE, 60), ticks(1, 1), nil, false, Unknown, CoverageShort, miss},
		{"avg out of range", clause("alone", ReduceAvg, OpLE, 60), ticks(math.MaxFloat64, -math.MaxFloat64, 1, 1, 1, 1), nil, false, Unknown, CriterionError, miss},
		{"median by nearest rank", quantile(0.5, OpEQ, 3), ticks(6, 1, 3, 2, 5, 4), nil, false, True, 0, miss},
		{"quantile 0 is the least", quantile(0, OpEQ, 1), ticks(6, 1, 3, 2, 5, 4), nil, false, True, 0, miss},
		{"quantile 1 is the greatest", quantile(1, OpEQ, 6), ticks(6, 1, 3, 2, 5, 4), nil, false, True, 0, miss},
		{"0.9 of six is the sixth", quantile(0.9, OpEQ, 6), ticks(6, 1, 3, 2, 5, 4), nil, false, True, 0, miss},
		{"quantile is never early", quantile(0.5, OpLE, 3), ticks(1, 1, 1, 1, 1), nil, true, Unknown, SourceSilent, miss},
		{"0.07 of a hundred is the seventh", quantile(0.07, OpEQ, 7), hundred(), nil, false, True, 0, miss},
		{"last under coverage", clause("alone", ReduceLast, OpEQ, 6), ticks(1, 2, 3, 4, 5, 6), nil, false, True, 0, miss},
		{"last is not early", clause("alone", ReduceLast, OpEQ, 5), ticks(1, 2, 3, 4, 5), nil, true, Unknown, SourceSilent, miss},
		{"last needs only the last tick", clause("alone", ReduceLast, OpEQ, 6), ticks(miss, miss, miss, miss, miss, 6), nil, false, True, 0, miss},
		{"last without the last tick", clause("alone", ReduceLast, OpEQ, 5), ticks(miss, miss, miss, miss, 5, miss), nil, false, Unknown, CoverageShort, miss},
		{"increase of nothing", clause("total", ReduceIncrease, OpEQ, 0), counter(-100, -5, 7, 7, 7, 7, 7, 7, 7), all, false, True, 0, miss},
		{"increase refuted early", clause("total", ReduceIncrease, OpEQ, 0), counter(-100, -5, 7, 7, 8), nil, true, False, 0, 8},
		{"increase exact", clause("total", ReduceIncrease, OpEQ, 4), counter(-100, -5, 7, 7, 8, 8, 9, 9, 11), all, false, True, 0, miss},
		{"increase from a sample on the start", clause("total", ReduceIncrease, OpEQ, 2), counter(-100, 0, 5, 5, 5, 5, 5, 7), all, false, True, 0, miss},
		{"gained before the first sample, perhaps before the window", clause("total", ReduceIncrease, OpEQ, 0), counter(-100, -5, 7, 8), nil, true, Unknown, CoverageShort, miss},
		{"gained before the first sample, under coverage", clause("total", ReduceIncrease, OpEQ, 1), counter(-100, -5, 7, 8, 8, 8, 8, 8, 8), all, false, True, 0, miss},
		{"gained since a sample on the start", clause("total", ReduceIncrease, OpEQ, 0), counter(-100, 0, 7, 8), nil, true, False, 0, 8},
		{"no start sample opens the top", clause("total", ReduceIncrease, OpEQ, 0), counter(-100, 5, 7, 7, 7, 7, 7, 7), all, false, Unknown, CoverageShort, miss},
		{"no start sample, still a witness", clause("total", ReduceIncrease, OpGE, 1), counter(-100, 5, 7, 8), nil, true, True, 0, 8},
		{"a start sample too old", clause("total", ReduceIncrease, OpEQ, 0), join(counter(-100, -61, 7), counter(-100, 5, 7, 7, 7, 7, 7, 7)), all, false, Unknown, CoverageShort, miss},
		{"a restart opens the top", clause("total", ReduceIncrease, OpEQ, 0), join(counter(-100, -5, 7, 7, 7), counter(23, 25, 0, 0, 0, 0)), all, false, Unknown, SensorUnproven, miss},
		{"a restart counts what it has", clause("total", ReduceIncrease, OpGE, 3), join(counter(-100, -5, 7, 7, 8), counter(23, 25, 2, 2)), nil, true, True, 0, 2},
		{"a value that fell is no restart", clause("total", ReduceIncrease, OpGE, 3), counter(-100, -5, 7, 7, 2, 7, 9, 12, 99), all, false, Unknown, SensorUnproven, miss},
		{"a start time that went back", clause("total", ReduceIncrease, OpGE, 3),
			join(counter(-100, -5, 7, 7), counter(12, 15, 1), counter(-100, 25, 7, 7, 7, 7)), all, false, Unknown, SourcesConflict, miss},
		{"a zero-length point covers nothing", clause("total", ReduceIncrease, OpEQ, 0),
			[]point{{-5, 0, -5}, {5, 0, 5}, {15, 0, 15}, {25, 0, 25}, {35, 0, 35}, {45, 0, 45}, {55, 0, 55}}, all, false, Unknown, CoverageShort, miss},
		{"held", hold(OpLE, 5, 20), ticks(9, 4, 4, 4), nil, false, True, 0, 4},
		{"held, but a late sample may deny it", hold(OpLE, 5, 20), ticks(9, 4, 4, 4), nil, true, Unknown, SourceSilent, miss},
		{"not held long enough", hold(OpLE, 5, 20), ticks(9, 4, 4, 9, 4, 4), nil, false, False, 0, miss},
		{"held across a small gap", hold(OpLE, 5, 40), ticks(4, miss, miss, 4, 4), nil, false, True, 0, 4},
		{"not held across a large gap", hold(OpLE, 5, 40), ticks(4, miss, miss, miss, 4, 4), nil, false, Unknown, CoverageShort, miss},
		{"refuted once no room is left", hold(OpLE, 5, 31), ticks(4, 4, 9, 9, 4), nil, true, False, 0, 9},
		{"room is left", hold(OpLE, 5, 30), ticks(4, 9, 4, 4), nil, true, Unknown, SourceSilent, miss},
	} {
		t.Run(tc.name, func(t *testing.T) {
			samples := beats(tc.beats...)
			for i, p := range tc.points {
				samples = append(samples, sampleOf(tc.clause.Signal, uint64(i+1), p))
			}
			in := input(t, tc.clause, samples, !tc.open)
			if faults := Lint(in.Criterion, in.Registry); len(faults) > 0 {
				t.Fatalf("the case does not pass the linter: %v", faults)
			}
			res := Evaluate(in)
			if res.Outcome != tc.want || res.Reason != tc.reason {
				t.Errorf("%v %q, want %v %q: %+v", res.Outcome, res.Reason, tc.want, tc.reason, res.Clauses[0])
			}
			w := res.Clauses[0].Witness
			switch {
			case w < 0 != math.IsNaN(tc.witness):
				t.Errorf("witness %d, want value %v", w, tc.witness)
			case w >= 0 && samples[w].Value != tc.witness:
				t.Errorf("witness %v, want %v", samples[w].Value, tc.witness)
			}
		})
	}
}

func TestSeen(t *testing.T) {
	clause := Clause{Signal: "gauge", Reduce: ReduceMax, Op: OpLE, Value: 9}
	samples := beats(0, 1, 2, 3)
	for i, p := range ticks(1, 1, miss, 1, 1, 1) {
		samples = append(samples, sampleOf("gauge", uint64(i+1), p))
	}
	got := Evaluate(input(t, clause, samples, true)).Clauses[0].Seen
	if want := (Seen{Cells: 6, Occupied: 3, Ratio: 0.5, MaxGap: 25 * time.Second, Gap: Span{at(35), at(60)}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLabelsMatchExactly(t *testing.T) {
	clause := Clause{Signal: "alone", Labels: map[string]string{"pid": "7"}, Reduce: ReduceMax, Op: OpLE, Value: 60}
	var samples []Sample
	for i, labels := range []map[string]string{nil, {"pid": "8"}, {"pid": "7", "start": "1"}, {"PID": "7"}} {
		s := sampleOf("alone", uint64(i+1), point{5, 99, miss})
		s.Labels = labels
		samples = append(samples, s)
	}
	other := sampleOf("alone", 9, point{5, 99, miss})
	other.Labels, other.Source = map[string]string{"pid": "7"}, "elsewhere"
	if res := Evaluate(input(t, clause, append(samples, other), false)); res.Outcome != Unknown {
		t.Errorf("another series decided: %v", res.Outcome)
	}
	own := sampleOf("alone", 10, point{5, 99, miss})
	own.Labels = map[string]string{"pid": "7"}
	if res := Evaluate(input(t, clause, append(samples, own), false)); res.Outcome != False {
		t.Errorf("its own series did not decide: %v %v", res.Outcome, res.Reason)
	}
}

func TestSkew(t *testing.T) {
	clause := Clause{Signal: "skewed", Reduce: ReduceMax, Op: OpLE, Value: 60}
	base := ticks(1, 1, 1, 1, 1, 1)
	for _, tc := range []struct {
		name   string
		extra  point
		want   Outcome
		reason Reason
	}{
		{"inside by more than the skew", point{2.1, 61, miss}, False, 0},
		{"just inside", point{1, 61, miss}, Unknown, ClockAmbiguous},
		{"just before the start", point{-1, 61, miss}, Unknown, ClockAmbiguous},
		{"before by more than the skew", point{-2.1, 61, miss}, True, 0},
		{"just before the end", point{59, 61, miss}, Unknown, ClockAmbiguous},
		{"just after the end", point{61, 61, miss}, Unknown, ClockAmbiguous},
		{"after by more than the skew", point{62.1, 61, miss}, True, 0},
		{"near an edge and harmless", point{0.5, 2, miss}, True, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			samples := []Sample{sampleOf("skewed", 99, tc.extra)}
			for i, p := range base {
				samples = append(samples, sampleOf("skewed", uint64(i+1), p))
			}
			res := Evaluate(input(t, clause, samples, true))
			if res.Outcome != tc.want || res.Reason != tc.reason {
				t.Errorf("%v %q, want %v %q", res.Outcome, res.Reason, tc.want, tc.reason)
			}
		})
	}
}

// Two readings of one boot time may differ by a moment; that is no restart.
func TestStartTimesWithinTheSkew(t *testing.T) {
	sig := signal("boots", Counter, "boots")
	sig.MaxSkew = 2 * time.Second
	in := input(t, Clause{Signal: "boots", Reduce: ReduceIncrease, Op: OpEQ, Value: 0}, nil, true)
	in.Registry = mustRegistry(t, sig)
	for i, p := range join(counter(-100, -6, 7, 7, 7, 7), counter(-99, 34, 7, 7, 7)) {
		in.Samples = append(in.Samples, sampleOf("boots", uint64(i+1), p))
	}
	if res := Evaluate(in); res.Outcome != True {
		t.Errorf("%v %v %+v", res.Outcome, res.Reason, res.Clauses[0])
	}
	for i := range in.Samples[4:] {
		in.Samples[4+i].Start = at(20)
	}
	if res := Evaluate(in); res.Outcome == True {
		t.Error("a restart went unnoticed")
	}
}

func TestConflictAndDuplicate(t *testing.T) {
	clause := Clause{Signal: "alone", Reduce: ReduceCount, Op: OpEQ, Value: 6}
	var samples []Sample
	for i, p := range ticks(1, 1, 1, 1, 1, 1) {
		samples = append(samples, sampleOf("alone", uint64(i+1), p))
	}
	same := append(slices.Clone(samples), samples...)
	if res := Evaluate(input(t, clause, same, true)); res.Outcome != True {
		t.Errorf("repeats changed the outcome: %v %v", res.Outcome, res.Reason)
	}
	changed := samples[2]
	changed.Value = 2
	if res := Evaluate(input(t, clause, append(slices.Clone(samples), changed), true)); res.Outcome != Unknown || res.Reason != SourcesConflict {
		t.Errorf("one id with two contents: %v %v", res.Outcome, res.Reason)
	}
	restarted := samples[2]
	restarted.Stream, restarted.Time = "c", restarted.Time.Add(time.Second)
	if res := Evaluate(input(t, clause, append(slices.Clone(samples), restarted), true)); res.Outcome != False {
		t.Errorf("another stream may use the number again: %v %v", res.Outcome, res.Reason)
	}
}

func TestOwnEvidenceIsRefused(t *testing.T) {
	clause := Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 60}
	in := input(t, clause, []Sample{sampleOf("alone", 1, point{5, 99, miss})}, false)
	in.Principal = "sensor/s"
	if res := Evaluate(in); res.Outcome != Unknown || res.Reason != SensorUnproven {
		t.Errorf("%v %v", res.Outcome, res.Reason)
	}
}

func TestKleene(t *testing.T) {
	all := []Outcome{Unknown, True, False}
	for _, a := range all {
		for _, b := range all {
			and, or := Unknown, Unknown
			switch {
			case a == False || b == False:
				and = False
			case a == True && b == True:
				and = True
			}
			if a == True || b == True {
				or = True
			} else if a == False && b == False {
				or = False
			}
			if And(a, b) != and || Or(a, b) != or {
				t.Errorf("%v, %v: and %v, or %v", a, b, And(a, b), Or(a, b))
			}
		}
	}
	in := input(t, Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 60}, []Sample{sampleOf("alone", 1, point{5, 99, miss})}, false)
	in.Criterion.All = append(in.Criterion.All, Clause{Signal: "gauge", Reduce: ReduceMax, Op: OpLE, Value: 60})
	if res := Evaluate(in); res.Outcome != False || len(res.Clauses) != 2 {
		t.Errorf("false and unknown: %v", res.Outcome)
	}
	in.Criterion.All, in.Criterion.Any = nil, in.Criterion.All
	if res := Evaluate(in); res.Outcome != Unknown || res.Reason != SourceSilent {
		t.Errorf("false or unknown: %v %v", res.Outcome, res.Reason)
	}
}

// A hostile criterion and a flood of samples cost time in proportion.
func TestHostileWindow(t *testing.T) {
	sig := signal("fast", Gauge, "fast")
	sig.Interval, sig.MaxSkew = time.Second, 5*time.Second
	r := mustRegistry(t, sig)
	const n = MaxSamples
	samples := make([]Sample, n)
	for i := range samples {
		samples[i] = Sample{Source: "s", Stream: "b", Seq: uint64(n - i), Signal: "fast", Time: epoch.Add(time.Duration((i*7919)%n) * time.Second), Value: float64(i % 10)}
	}
	for _, clause := range []Clause{
		{Signal: "fast", Reduce: ReduceQuantile, Quantile: 0.5, Op: OpLE, Value: 9},
		{Signal: "fast", Reduce: ReduceMax, Op: OpLE, Value: 8},
		{Signal: "fast", Reduce: ReduceMin, Op: OpLE, Value: 3, HoldFor: time.Hour},
	} {
		c := Criterion{Window: Window{Anchor: AnchorRecorded, Length: n * time.Second}, All: []Clause{clause}, ExpiresAfter: time.Hour}
		if faults := Lint(c, r); len(faults) > 0 {
			t.Fatal(faults)
		}
		res := Evaluate(Input{Criterion: c, Registry: r, Window: Span{epoch, epoch.Add(c.Window.Length)}, Samples: samples, Closed: true})
		if res.Outcome == Unknown {
			t.Errorf("%s: unknown, %v", clause.Reduce, res.Reason)
		}
	}
}

// A stretch that is too short for a run only if the clocks agree refutes
// nothing: a sample that comes later may lie within the skew before the window.
func TestRunWithinTheSkew(t *testing.T) {
	r := testRegistry(t)
	for _, tc := range []struct {
		hold  time.Duration
		early Outcome
	}{{30 * time.Second, Unknown}, {33 * time.Second, False}} { // 29 s, and 2 s of skew
		clause := Clause{Signal: "skewed", Reduce: ReduceMax, Op: OpLE, Value: 1, HoldFor: tc.hold}
		in := Input{Criterion: Criterion{Window: Window{Length: time.Minute}, All: []Clause{clause}}, Registry: r, Window: Span{epoch, at(60)}}
		in.Samples = []Sample{sampleOf("skewed", 2, point{29, 5, miss}), sampleOf("skewed", 3, point{31, 5, miss})}
		if got := Evaluate(in); got.Outcome != tc.early {
			t.Errorf("hold for %v: early %v", tc.hold, got.Outcome)
		}
		in.Samples = append(in.Samples, sampleOf("skewed", 1, point{-1, 0, miss}))
		in.Closed = true
		if got := Evaluate(in); got.Outcome != tc.early {
			t.Errorf("hold for %v: in the end %v %v", tc.hold, got.Outcome, got.Reason)
		}
	}
}

// A screen must not hide what the evaluation's own rounding makes of a gain.
func TestScreenRounds(t *testing.T) {
	r := testRegistry(t)
	clause := Clause{Signal: "total", Reduce: ReduceIncrease, Op: OpLE, Value: 4.7}
	clause.Value -= 1.2
	in := Input{Criterion: Criterion{Window: Window{Length: time.Minute}, All: []Clause{clause}}, Registry: r, Window: Span{epoch, at(60)}}
	lim, _ := LimitsOf(in.Criterion, clause, r)
	screen, may := NewScreen(clause, lim, in.Window), false
	for i, v := range []float64{1.2, 3.4, 4.7} {
		in.Samples = append(in.Samples, sampleOf("total", uint64(i), point{float64(10 * i), v, -100}))
		may = screen.Add(&in.Samples[i])
	}
	if got := Evaluate(in); got.Outcome != False || !may {
		t.Errorf("the evaluation says %v, the screen %v", got.Outcome, may)
	}
}

// A counter that restarts at every sample costs a screen no more than one that
// never does.
func TestScreenIsLinear(t *testing.T) {
	r := testRegistry(t)
	clause := Clause{Signal: "total", Reduce: ReduceIncrease, Op: OpGE, Value: 1e15}
	lim, _ := LimitsOf(Criterion{}, clause, r)
	screen := NewScreen(clause, lim, Span{epoch, at(1e6)})
	for i := range MaxSamples {
		s := sampleOf("total", uint64(i), point{float64(i), 1, float64(i) - 0.5})
		if screen.Add(&s) {
			t.Fatalf("sample %d may decide", i)
		}
	}
	if screen.counted != MaxSamples {
		t.Errorf("%v counted", screen.counted)
	}
}
