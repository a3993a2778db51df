package criterion_test

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"assay/internal/answerkeys"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

func registry(t *testing.T, signals ...criterion.Signal) *criterion.Registry {
	t.Helper()
	raw, err := criterion.AddSignals([]byte(`{"v":1,"signals":[]}`), signals...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := criterion.ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fileSignal is a signal of a table, sampled every interval.
func fileSignal(name string, kind criterion.Kind, interval time.Duration) criterion.Signal {
	return criterion.Signal{
		Name: name, Source: "csv", Unit: "1", Kind: kind, Heartbeat: name, Writer: "sensor/csv", Interval: interval,
		MaxStaleness: 6 * interval, CoverageFloor: 0.95, MaxGap: 6 * interval, Lo: math.Inf(-1), Hi: math.Inf(1),
	}
}

// The Numenta Anomaly Benchmark's ec2_request_latency (MIT). What must come out
// stands in the keys' own README.
func TestRequestLatency(t *testing.T) {
	f, err := os.Open(answerkeys.Need(t, "telemetry/nab_ec2_request_latency.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	samples, err := telemetry.ReadCSV(f, telemetry.CSVConfig{Source: "csv", Signal: "latency"})
	if err != nil {
		t.Fatal(err)
	}
	r := registry(t, fileSignal("latency", criterion.Gauge, 5*time.Minute))
	for _, tc := range []struct {
		start    string
		length   time.Duration
		want     criterion.Outcome
		reason   criterion.Reason
		count    int
		occupied int64
		witness  string
	}{
		{"2014-03-18 22:46:00", time.Hour, criterion.True, 0, 12, 12, ""},
		{"2014-03-18 22:30:00", 30 * time.Minute, criterion.False, 0, 6, 6, "2014-03-18 22:36:00"},
		// An hour that a change of the clocks left out, its rows heaped on one
		// tick: 13 ticks, the two of 03:00 and 03:01 in one cell of 24.
		{"2014-03-09 01:30:00", 2 * time.Hour, criterion.Unknown, criterion.CoverageShort, 24, 12, ""},
	} {
		t.Run(fmt.Sprint(tc.start, tc.length), func(t *testing.T) {
			start, err := time.Parse(time.DateTime, tc.start)
			if err != nil {
				t.Fatal(err)
			}
			res := criterion.Evaluate(criterion.Input{
				Criterion: criterion.Criterion{
					Window: criterion.Window{Length: tc.length},
					All:    []criterion.Clause{{Signal: "latency", Reduce: criterion.ReduceMax, Op: criterion.OpLE, Value: 60}},
				},
				Registry: r, Window: criterion.Span{Start: start, End: start.Add(tc.length)}, Samples: samples, Closed: true,
			})
			cr := res.Clauses[0]
			if res.Outcome != tc.want || res.Reason != tc.reason || cr.Count != tc.count || cr.Seen.Occupied != tc.occupied {
				t.Errorf("%v %v %+v", res.Outcome, res.Reason, cr)
			}
			witness := ""
			if cr.Witness >= 0 {
				witness = samples[cr.Witness].Time.Format(time.DateTime)
			}
			if witness != tc.witness {
				t.Errorf("witness %q, want %q", witness, tc.witness)
			}
		})
	}
}

// What Prometheus's own rule tests (promtool, Apache-2.0) expect of series that
// it writes as "0+1x120" at 1 s and as "1+1x2" and "0 _ _ _ _ _ _ 0" at 1 min.
// Its ranges are (t−d, t], so that ours begin and end one nanosecond later.
func TestPrometheusAgrees(t *testing.T) {
	epoch := time.Unix(0, 0).UTC()
	series := func(name string, interval time.Duration, values ...float64) []criterion.Sample {
		var out []criterion.Sample
		for i, v := range values {
			if !math.IsNaN(v) {
				out = append(out, criterion.Sample{Source: "csv", Stream: name, Seq: uint64(i + 1), Signal: name, Time: epoch.Add(time.Duration(i) * interval), Value: v})
			}
		}
		return out
	}
	seconds := make([]float64, 121)
	for i := range seconds {
		seconds[i] = float64(i)
	}
	none := math.NaN()
	samples := series("test", time.Second, seconds...)
	samples = append(samples, series("test_increase", time.Minute, 1, 2, 3)...)
	samples = append(samples, series("test_missing", time.Minute, 0, none, none, none, none, none, none, 0)...)
	r := registry(t, fileSignal("test", criterion.Counter, time.Second), fileSignal("test_increase", criterion.Counter, time.Minute),
		fileSignal("test_missing", criterion.Gauge, time.Minute))
	for _, tc := range []struct {
		signal string
		reduce criterion.Reducer
		at     time.Duration
		over   time.Duration
		want   float64
		ok     bool
	}{
		{"test", criterion.ReduceCount, time.Minute, time.Minute, 60, true},     // count_over_time(test[1m])
		{"test", criterion.ReduceCount, 2 * time.Minute, time.Minute, 60, true}, //
		{"test", criterion.ReduceCount, 0, time.Minute, 1, false},               // one sample, and no coverage to say that there were no more
		{"test", criterion.ReduceIncrease, time.Minute, time.Minute, 60, true},  // from 0 to 60: nothing is extrapolated
		{"test_increase", criterion.ReduceLast, 2 * time.Minute, time.Minute, 3, true},
		{"test_increase", criterion.ReduceIncrease, 2 * time.Minute, 2 * time.Minute, 2, true},
		{"test_missing", criterion.ReduceLast, 0, time.Minute, 0, true},
		{"test_missing", criterion.ReduceLast, 5 * time.Minute, time.Minute, 0, false}, // absent, not 0
	} {
		t.Run(fmt.Sprintf("%s %s at %v", tc.signal, tc.reduce, tc.at), func(t *testing.T) {
			end := epoch.Add(tc.at + 1)
			in := criterion.Input{
				Criterion: criterion.Criterion{
					Window: criterion.Window{Length: tc.over},
					All:    []criterion.Clause{{Signal: tc.signal, Reduce: tc.reduce, Op: criterion.OpEQ, Value: tc.want}},
				},
				Registry: r, Window: criterion.Span{Start: end.Add(-tc.over), End: end}, Samples: samples, Closed: true,
			}
			res := criterion.Evaluate(in)
			if (res.Outcome == criterion.True) != tc.ok || res.Outcome == criterion.False {
				t.Errorf("%v %v %+v", res.Outcome, res.Reason, res.Clauses[0])
			}
		})
	}
}
