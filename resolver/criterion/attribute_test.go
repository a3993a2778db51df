package criterion

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pods is an action on pod a, of which pod b is an untouched peer: a gauge
// before and after, one value a cell of 10 s.
func pods(t *testing.T, clause Clause, series map[string][2]float64) AttributionInput {
	t.Helper()
	in := AttributionInput{Input: input(t, clause, nil, true), P: 0.9, ActionStart: epoch, PreClosed: true}
	in.Criterion.All[0].Labels = map[string]string{"pod": "a"}
	seq := uint64(0)
	for pod, values := range series {
		for cell := -12; cell < 6; cell++ {
			v := values[1]
			if cell < 0 {
				v = values[0]
			}
			if math.IsNaN(v) {
				continue
			}
			seq++
			s := sampleOf(clause.Signal, seq, point{10*float64(cell) + 5, v, miss})
			s.Stream, s.Labels = pod, map[string]string{"pod": pod}
			in.Samples = append(in.Samples, s)
		}
		if pod != "a" {
			in.Criterion.Controls = append(in.Criterion.Controls, map[string]string{"pod": pod})
		}
	}
	in.Result = Evaluate(in.Input)
	return in
}

func TestAttributeControlled(t *testing.T) {
	clause := Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 5}
	for _, tc := range []struct {
		name   string
		series map[string][2]float64 // before, after
		change func(*AttributionInput)
		want   string
	}{
		{"the peer still fails", map[string][2]float64{"a": {9, 1}, "b": {9, 9}}, nil, Controlled},
		{"the peer had passed before", map[string][2]float64{"a": {9, 1}, "b": {1, 1}}, nil, Controlled},
		{"the peer got better too", map[string][2]float64{"a": {9, 1}, "b": {9, 1}}, nil, TemporalOnly},
		{"one of two peers got better", map[string][2]float64{"a": {9, 1}, "b": {9, 9}, "c": {9, 1}}, nil, TemporalOnly},
		{"two peers did not", map[string][2]float64{"a": {9, 1}, "b": {9, 9}, "c": {1, 9}}, nil, Controlled},
		{"nobody knows of the peer", map[string][2]float64{"a": {9, 1}, "b": {miss, miss}}, nil, TemporalOnly},
		{"the peer's past is not known, and it fails", map[string][2]float64{"a": {9, 1}, "b": {miss, 9}}, nil, Controlled},
		{"the peer's past is not known, and it passes", map[string][2]float64{"a": {9, 1}, "b": {miss, 1}}, nil, TemporalOnly},
		{"no peer", map[string][2]float64{"a": {9, 1}}, nil, TemporalOnly},
		{"it had passed before", map[string][2]float64{"a": {1, 1}, "b": {9, 9}}, nil, TemporalOnly},
		{"its past is not known", map[string][2]float64{"a": {miss, 1}, "b": {9, 9}}, nil, TemporalOnly},
		{"refuted", map[string][2]float64{"a": {9, 9}, "b": {9, 9}}, nil, TemporalOnly},
		{"somebody else acted too", map[string][2]float64{"a": {9, 1}, "b": {9, 9}}, func(in *AttributionInput) { in.Others = []uint64{7} }, Confounded},
		{"refuted, and somebody else acted", map[string][2]float64{"a": {9, 9}}, func(in *AttributionInput) { in.Others = []uint64{7} }, Confounded},
		{"no action", map[string][2]float64{"a": {9, 1}, "b": {9, 9}}, func(in *AttributionInput) { in.ActionStart = time.Time{} }, TemporalOnly},
		{"a witness before all is in", map[string][2]float64{"a": {9, 1}, "b": {9, 9}}, func(in *AttributionInput) { in.PreClosed = false }, Controlled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := pods(t, clause, tc.series)
			if tc.change != nil {
				tc.change(&in)
			}
			got := Attribute(in)
			if got.Kind != tc.want || got.BaseRate != nil || !slices.Equal(got.Others, in.Others) {
				t.Errorf("%+v, want %s", got, tc.want)
			}
		})
	}
}

// With several clauses each must have changed, and no control for any of them.
func TestAttributeControlledByClauses(t *testing.T) {
	in := pods(t, Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 5}, map[string][2]float64{"a": {9, 1}, "b": {9, 9}})
	second := in.Criterion.All[0]
	second.Op, second.Value = OpGE, 1 // which passed before
	in.Criterion.All = append(in.Criterion.All, second)
	in.Result = Evaluate(in.Input)
	got := Attribute(in)
	if in.Result.Outcome != True || got.Kind != TemporalOnly || len(got.Treated) != 2 || len(got.Controls) != 2 {
		t.Errorf("%v %+v", in.Result.Outcome, got)
	}
	in.Criterion.All[1].Op = OpEQ // which fails before
	in.Result = Evaluate(in.Input)
	if got := Attribute(in); in.Result.Outcome != True || got.Kind != Controlled {
		t.Errorf("%v %+v", in.Result.Outcome, got)
	}
}

// sawtooth is memory in MB that grows from 300 to 700 in 80 s and is collected,
// one sample each 2 s: with nobody doing anything it is low every 80 s, and
// never for long.
func sawtooth(seconds int) []Sample {
	var out []Sample
	for at := 0; at < seconds; at += 2 {
		out = append(out, sampleOf("rss", uint64(at+1), point{float64(at), 300 + 5*float64(at%80), miss}))
	}
	return out
}

// quiet is the placebo of a criterion over the sawtooth's first seconds.
func quiet(t *testing.T, clause Clause, samples []Sample, seconds float64) AttributionInput {
	t.Helper()
	sig := signal("rss", Gauge, "rss")
	sig.Interval, sig.MaxGap = 2*time.Second, 10*time.Second
	clause.Signal = "rss"
	c := Criterion{Action: &Action{Tool: "restart"}, Window: Window{Anchor: AnchorActionEnd, Length: 120 * time.Second}, All: []Clause{clause}}
	r := mustRegistry(t, sig)
	if faults := Lint(c, r); len(faults) > 0 {
		t.Fatal(faults)
	}
	return AttributionInput{
		Input:  Input{Criterion: c, Registry: r, Window: Span{at(seconds), at(seconds + 120)}, Samples: samples, Closed: true},
		Result: Result{Outcome: True}, P: 0.9, ActionStart: at(seconds), PreClosed: true, Placebo: &Span{epoch, at(seconds)},
	}
}

// In a real memory incident "any sample of 450 MB or less within 120 s" came
// true from 132 of 132 starting points with no action at all, and held for 20 s
// from none. So it does here.
func TestBaseRateOfASawtooth(t *testing.T) {
	samples := sawtooth(3600)
	dip := Clause{Reduce: ReduceMin, Op: OpLE, Value: 450}
	got := Attribute(quiet(t, dip, samples, 3600))
	rate := got.BaseRate
	if got.Kind != TemporalOnly || rate == nil || rate.Windows < 1000 || rate.Confirmed != rate.Windows || rate.Episodes != 1 || rate.K != 1 || rate.Upper != 1 {
		t.Errorf("a dip: %+v %+v", got, rate)
	}
	dip.HoldFor = 40 * time.Second
	got = Attribute(quiet(t, dip, samples, 3600))
	rate = got.BaseRate
	if got.Kind != AboveBaseRate || rate == nil || rate.Windows < 1000 || rate.Confirmed != 0 || rate.Episodes != 1 || rate.K != 0 || math.Abs(rate.Upper-0.7934507) > 1e-7 {
		t.Errorf("held: %+v %+v", got, rate)
	}
	in := quiet(t, dip, samples, 3600)
	in.P = 0.79
	if got := Attribute(in); got.Kind != TemporalOnly {
		t.Errorf("a promise below the upper bound of one episode: %+v", got)
	}
	in.P, in.Result.Outcome = 0.9, False
	if got := Attribute(in); got.Kind != TemporalOnly || got.BaseRate == nil {
		t.Errorf("refuted: %+v", got)
	}
}

// Trouble that comes back is an episode each time, which counts once however
// long it lasts, by the share of its points from which it would have gone by
// itself.
func TestBaseRateCountsEpisodes(t *testing.T) {
	// Every 1000 s there is trouble: 100 s long, but 400 s each second time.
	var samples []Sample
	for sec := 0; sec < 8000; sec += 2 {
		v, long := 100.0, (sec/1000)%2 == 1
		if into := sec % 1000; into >= 200 && (into < 300 || long && into < 600) {
			v = 700
		}
		samples = append(samples, sampleOf("rss", uint64(sec+1), point{float64(sec), v, miss}))
	}
	in := quiet(t, Clause{Reduce: ReduceLast, Op: OpLE, Value: 450}, samples, 8000)
	rate := Attribute(in).BaseRate
	// From every point of the short ones it is gone 120 s later; of the long ones
	// from 59 of 200, whose window's last sample is the first behind it or later.
	if rate == nil || rate.Episodes != 8 || rate.Windows != 4*50+4*200 || rate.Confirmed != 4*50+4*59 || math.Abs(rate.K-(4+4*59.0/200)) > 1e-12 {
		t.Errorf("%+v", rate)
	}
	// Points of which the outcome is not known count in neither.
	holes := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool {
		sec := int(s.Time.Sub(epoch).Seconds())
		return sec >= 1620 && sec < 1700
	})
	in.Samples = holes
	if got := Attribute(in).BaseRate; got == nil || got.Episodes != 8 || got.Windows >= rate.Windows {
		t.Errorf("with a hole %+v", got)
	}
}

// With a baseline the symptom is the baseline, and the criterion needs it.
func TestBaseRateWithABaseline(t *testing.T) {
	var samples []Sample
	total := 0.0
	for sec := 0; sec < 3000; sec += 10 {
		if sec == 1000 {
			total++ // the only one
		}
		samples = append(samples, sampleOf("total", uint64(2*sec+1), point{float64(sec), total, -1000}), sampleOf("beat", uint64(2*sec+2), point{float64(sec), 1, miss}))
	}
	in := quiet(t, Clause{Reduce: ReduceMin, Op: OpLE, Value: 450}, samples, 3000)
	in.Registry = testRegistry(t)
	in.Criterion.All = []Clause{{Signal: "total", Reduce: ReduceIncrease, Op: OpEQ, Value: 0}}
	in.Criterion.Baseline = &Baseline{Length: 100 * time.Second, Reduce: ReduceIncrease, Op: OpGE, Value: 1}
	got := Attribute(in)
	if r := got.BaseRate; r == nil || r.Episodes != 1 || r.Confirmed != r.Windows || r.Windows != 9 {
		t.Errorf("%+v", r)
	}
	in.Criterion.Baseline.Value = 2
	if got := Attribute(in); got.BaseRate != nil {
		t.Errorf("there was no symptom: %+v", got.BaseRate)
	}
}

// The work is bounded, however many samples there are.
func TestBaseRateIsBounded(t *testing.T) {
	samples := sawtooth(20_000)
	in := quiet(t, Clause{Reduce: ReduceMin, Op: OpLE, Value: 450}, samples, 20_000)
	if r := Attribute(in).BaseRate; r == nil || r.Windows > maxStarts || r.Windows < maxStarts/2 {
		t.Errorf("%+v", r)
	}
	in.Placebo = &Span{epoch, epoch}
	if r := Attribute(in).BaseRate; r != nil {
		t.Errorf("no stretch: %+v", r)
	}
}

// Attribution takes whatever samples there are without a panic, is the same in
// any order, and never gives a preferred kind to what is not confirmed.
func TestAttributeHolds(t *testing.T) {
	r := testRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		in := AttributionInput{Input: genInput(t, r), P: rapid.Float64Range(0, 1).Draw(t, "p"), ActionStart: epoch, PreClosed: true, Placebo: &Span{at(-40), at(80)}}
		in.Criterion.Window.Length = 20 * time.Second
		in.Criterion.Controls = []map[string]string{{"pod": "b"}}
		for i := range in.Samples {
			if rapid.Bool().Draw(t, "control") {
				in.Samples[i].Labels = map[string]string{"pod": "b"}
			}
		}
		in.Result = Evaluate(in.Input)
		got := Attribute(in)
		if in.Result.Outcome != True && got.Kind != TemporalOnly {
			t.Fatalf("%v and %s", in.Result.Outcome, got.Kind)
		}
		if b := got.BaseRate; b != nil && !(b.Episodes > 0 && b.Windows >= b.Episodes && b.Confirmed <= b.Windows && b.K <= float64(b.Episodes) && b.Lower <= b.Upper && b.Upper <= 1 && b.Lower >= 0) {
			t.Fatalf("%+v", b)
		}
		other := in
		other.Samples = rapid.Permutation(in.Samples).Draw(t, "order")
		again := Attribute(other)
		if again.Kind != got.Kind || !slices.EqualFunc(again.Controls, got.Controls, func(a, b Comparison) bool { return a.Before == b.Before && a.After == b.After }) ||
			(again.BaseRate == nil) != (got.BaseRate == nil) || got.BaseRate != nil && *again.BaseRate != *got.BaseRate {
			t.Fatalf("%+v, and in another order %+v", got, again)
		}
	})
}
