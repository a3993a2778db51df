package telemetry

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"assay/resolver/criterion"
)

func TestBatch(t *testing.T) {
	at := time.Date(2026, 10, 3, 12, 0, 0, 123, time.UTC)
	in := []Sample{
		{Source: "host", Stream: "b", Seq: 1, Signal: "up", Labels: map[string]string{"pid": "7"}, Time: at, Value: 1},
		{Source: "host", Stream: "b", Seq: 2, Signal: "oom", Time: at, Start: at.Add(-time.Hour), Value: 3e18},
		{Source: "host", Stream: "b", Seq: 3, Signal: "bad", Time: at, Value: math.Inf(-1)},
		{Source: "host", Stream: "b", Seq: 4, Signal: "bad", Time: at, Value: math.NaN()},
	}
	raw, err := EncodeBatch("b", in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseBatch("host", raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(in) {
		t.Fatalf("%d samples, want %d", len(got), len(in))
	}
	for i := range in {
		if criterion.Compare(&in[i], &got[i]) != 0 && !math.IsNaN(in[i].Value) {
			t.Errorf("sample %d: %+v, want %+v", i, got[i], in[i])
		}
	}
	if !math.IsNaN(got[3].Value) {
		t.Error("NaN was lost")
	}
	a, err := ParseArrival("host", EncodeArrival(at, raw))
	if err != nil || !a.Arrived.Equal(at) || len(a.Samples) != len(in) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestParseBatchRefuses(t *testing.T) {
	const valid = `{"v":1,"stream":"b","samples":[{"seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":1}]}`
	if _, err := ParseBatch("host", []byte(valid)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new string }{
		{"another version", `"v":1`, `"v":2`},
		{"no version", `"v":1,`, ``},
		{"no stream", `"stream":"b",`, ``},
		{"empty stream", `"stream":"b"`, `"stream":""`},
		{"names a source", `"stream"`, `"source":"gpu","stream"`},
		{"source in a sample", `"seq"`, `"source":"gpu","seq"`},
		{"stream in a sample", `"seq"`, `"stream":"c","seq"`},
		{"an empty stream in a sample", `"stream":"b","samples":[{`, `"samples":[{"stream":"",`},
		{"bad sample", `"value":1`, `"value":"x"`},
		{"trailing bytes", `]}`, `]} {}`},
		{"duplicate name", `"v":1`, `"v":1,"v":1`},
		{"too large", valid, strings.Repeat(" ", MaxBatch) + valid},
		{"too many samples", `[{`, `[` + strings.Repeat("0,", MaxBatchSamples) + `{`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := ParseBatch("host", []byte(strings.Replace(valid, tc.old, tc.new, 1))); !errors.Is(err, ErrBatch) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func FuzzParseArrival(f *testing.F) {
	f.Add([]byte(`{"v":1,"arrived":"2026-10-03T12:00:00Z","batch":{"v":1,"stream":"b","samples":[{"seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":1}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := ParseArrival("host", raw)
		if err != nil {
			if !errors.Is(err, ErrBatch) {
				t.Fatal(err)
			}
			return
		}
		for _, s := range a.Samples {
			if s.Source != "host" || s.Stream == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}
