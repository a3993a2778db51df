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
