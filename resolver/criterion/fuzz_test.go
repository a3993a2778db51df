package criterion

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// FuzzEvaluate makes a criterion and samples of the bytes: Evaluate, Explain
// and Attribute never panic, also on criteria that Lint refuses, and what they
// say keeps its form.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"), []byte("0123456789abcdef0123456789abcdef"))
	f.Add([]byte("\x03\x02\x00\x05\x14\x01\x03\x01"), []byte("\x05\x00\x01\x00\x00\x00\x07\x00\x0f\x00\x02\x00\x00\x00\x08\x00"))
	f.Add([]byte("\x05\x00\x04\x02\x20\x00\x00\x02\x01\x06\x03\x01\x00\x01\x01\x01"), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte(""), []byte("no clause"))
	r := testRegistry(f)
	f.Fuzz(func(t *testing.T, shape, stream []byte) {
		c := fuzzCriterion(shape)
		in := Input{Criterion: c, Registry: r, Window: Span{epoch, epoch.Add(c.Window.Length)}, Baseline: c.BaselineSpan(epoch)}
		for i := range stream {
			in.Closed = in.Closed != (stream[i]&1 == 1)
			in.BaselineClosed = in.BaselineClosed != (stream[i]&2 == 2)
		}
		in.Samples = fuzzSamples(stream)
		res := Evaluate(in)
		for _, cr := range res.Clauses {
			if (cr.Outcome == Unknown) != (cr.Reason != NoReason) || cr.Witness >= len(in.Samples) || cr.Outcome == Unknown && cr.Witness >= 0 {
				t.Fatalf("%+v", cr)
			}
			if math.IsNaN(cr.Range.Lo) || math.IsNaN(cr.Range.Hi) || cr.Range.Lo > cr.Range.Hi || cr.Seen.Occupied > cr.Seen.Cells {
				t.Fatalf("%+v", cr)
			}
		}
		if res.Outcome != Unknown && len(Lint(c, r)) == 0 && len(in.Samples) == 0 {
			t.Fatalf("no samples and %v", res.Outcome)
		}
		Explain(in, res)
		Attribute(AttributionInput{Input: in, Result: res, P: 0.5, ActionStart: epoch, PreClosed: true, Placebo: &Span{at(-100), at(100)}})
		in.Window, in.Baseline = Span{epoch.Add(time.Hour), epoch}, Span{epoch, epoch}
		if res := Evaluate(in); res.Outcome != Unknown {
			t.Fatalf("a window that ends before it starts, and %v", res.Outcome)
		}
	})
}

// fuzzCriterion reads clauses of eight bytes each.
func fuzzCriterion(b []byte) Criterion {
	pick := func(i int) int {
		if i < len(b) {
			return int(b[i])
		}
		return 0
	}
	signals := []string{"alone", "gauge", "total", "happening", "skewed", "bounded", "beat", "nobody"}
	reducers := []Reducer{ReduceCount, ReduceIncrease, ReduceMax, ReduceMin, ReduceAvg, ReduceLast, ReduceQuantile, "rate"}
	ops := []Op{OpEQ, OpNE, OpLT, OpLE, OpGT, OpGE, "=~"}
	c := Criterion{Window: Window{Anchor: AnchorRecorded, Length: time.Duration(1+pick(0)%128) * time.Second}}
	var list []Clause
	for at := 0; at < len(b) && len(list) < MaxClauses; at += 8 {
		list = append(list, Clause{
			Signal: signals[pick(at)%len(signals)], Reduce: reducers[pick(at+1)%len(reducers)], Op: ops[pick(at+2)%len(ops)],
			Value: float64(int8(pick(at + 3))), HoldFor: time.Duration(pick(at+4)%64) * time.Second, Quantile: float64(pick(at+5)) / 200,
			MinSamples: int64(pick(at+6) % 4),
		})
		if pick(at+7)&1 == 1 {
			c.Baseline = &Baseline{
				Length: time.Duration(pick(at)) * time.Second, Reduce: reducers[pick(at+2)%len(reducers)], Quantile: float64(pick(at+3)) / 200,
				Op: ops[pick(at+4)%len(ops)], Value: float64(int8(pick(at + 5))),
			}
		}
	}
	if pick(7)&2 == 2 {
		c.Any = list
	} else {
		c.All = list
		c.Controls = []map[string]string{{"pod": "b"}}
	}
	return c
}

// fuzzSamples reads samples of eight bytes each.
func fuzzSamples(b []byte) []Sample {
	signals := []string{"alone", "gauge", "total", "happening", "skewed", "bounded", "beat", "beat"}
	values := []float64{math.NaN(), math.Inf(1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}
	var out []Sample
	for ; len(b) >= 8; b = b[8:] {
		s := Sample{
			Source: "s", Stream: string('a' + rune(b[0]%3)), Seq: uint64(b[1]), Signal: signals[b[2]%8],
			Time: epoch.Add(time.Duration(int16(binary.LittleEndian.Uint16(b[3:]))) * 10 * time.Millisecond), Value: float64(int8(b[5])),
		}
		if b[6]&7 == 7 {
			s.Value = values[int(b[5])%len(values)]
		}
		if b[6]&8 == 8 {
			s.Start = epoch.Add(time.Duration(int8(b[7])) * time.Second)
		}
		if b[6]&16 == 16 {
			s.Labels = map[string]string{"pod": "b"}
		}
		out = append(out, s)
	}
	return out
}
