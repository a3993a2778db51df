package criterion

import (
	"testing"
	"time"
)

// BenchmarkEvaluate judges the largest window there is: 100,000 samples.
func BenchmarkEvaluate(b *testing.B) {
	sig := signal("fast", Gauge, "fast")
	sig.Interval = time.Second
	r := mustRegistry(b, sig)
	samples := make([]Sample, MaxSamples)
	for i := range samples {
		samples[i] = Sample{Source: "s", Stream: "b", Seq: uint64(i), Signal: "fast", Time: epoch.Add(time.Duration(i) * time.Second), Value: 1}
	}
	clause := Clause{Signal: "fast", Reduce: ReduceMax, Op: OpLE, Value: 1}
	in := Input{
		Criterion: Criterion{Window: Window{Length: MaxSamples * time.Second}, All: []Clause{clause}}, Registry: r,
		Window: Span{epoch, epoch.Add(MaxSamples * time.Second)}, Samples: samples, Closed: true,
	}
	for b.Loop() {
		if res := Evaluate(in); res.Outcome != True {
			b.Fatal(res.Reason)
		}
	}
}

// BenchmarkBaseRate takes the placebo of a window of 2 minutes and of one of
// half a day over a day of samples, one a second.
func BenchmarkBaseRate(b *testing.B) {
	sig := signal("rss", Gauge, "rss")
	sig.Interval = time.Second
	r := mustRegistry(b, sig)
	samples := make([]Sample, 86_400)
	for i := range samples {
		samples[i] = Sample{Source: "s", Stream: "b", Seq: uint64(i), Signal: "rss", Time: at(float64(i)), Value: 300 + 5*float64(i%80)}
	}
	for _, length := range []time.Duration{2 * time.Minute, 12 * time.Hour} {
		clause := Clause{Signal: "rss", Reduce: ReduceMin, Op: OpLE, Value: 450}
		in := AttributionInput{
			Input: Input{Criterion: Criterion{Window: Window{Length: length}, All: []Clause{clause}}, Registry: r, Window: Span{at(0), at(0).Add(length)}, Samples: samples},
			P:     0.9, Placebo: &Span{epoch, at(86_400)},
		}
		b.Run(length.String(), func(b *testing.B) {
			for b.Loop() {
				if rate := Attribute(in).BaseRate; rate == nil || rate.Episodes != 1 {
					b.Fatalf("%+v", rate)
				}
			}
		})
	}
}
