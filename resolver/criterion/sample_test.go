package criterion

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseSample(t *testing.T) {
	const line = `{"stream":"b1","seq":7,"signal":"oom_kill","labels":{"a":"x","b":"\u003cé"},"time":"2026-10-03T14:00:00.5+02:00","start":"2026-10-01T00:00:00Z","value":3}`
	s, err := ParseSample("host", "", []byte(line))
	if err != nil {
		t.Fatal(err)
	}
	const canonical = `{"stream":"b1","seq":7,"signal":"oom_kill","labels":{"a":"x","b":"<é"},"time":"2026-10-03T12:00:00.500000000Z","start":"2026-10-01T00:00:00.000000000Z","value":3}`
	if got := string(AppendSample(nil, &s)); got != canonical {
		t.Errorf("canonical form\n%s, want\n%s", got, canonical)
	}
	if !s.Time.Equal(time.Date(2026, 10, 3, 12, 0, 0, 5e8, time.UTC)) || s.Source != "host" {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{
		``, `[]`, `{}`, line + line,
		`{"stream":"b","seq":-1,"signal":"a","time":"2026-10-03T12:00:00Z","value":3}`,
		`{"stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":null}`,
		`{"stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":"3"}`,
		`{"stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":1e999}`,
		`{"stream":"b","seq":1,"signal":"a","time":"2026-10-03 12:00:00","value":3}`,
		`{"stream":"b","seq":1,"signal":"a","time":"1815-10-03T12:00:00Z","value":3}`,
		`{"stream":"b","seq":1,"signal":"a b","time":"2026-10-03T12:00:00Z","value":3}`,
		`{"stream":"","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":3}`,
		`{"stream":"b","seq":1,"seq":2,"signal":"a","time":"2026-10-03T12:00:00Z","value":3}`,
		`{"stream":"b","source":"gpu","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":3}`,
	} {
		if s, err := ParseSample("host", "", []byte(bad)); !errors.Is(err, ErrSample) {
			t.Errorf("%s: %+v, %v", bad, s, err)
		}
	}
	if _, err := ParseSample("host", "batch", []byte(line)); !errors.Is(err, ErrSample) {
		t.Errorf("a stream in batch and sample: %v", err)
	}
}

func TestReadSamples(t *testing.T) {
	const a = `{"source":"host","stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":3}`
	const b = `{"source":"gpu","stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":"NaN"}`
	got, err := ReadSamples(strings.NewReader(a + "\n" + b + "\n"))
	if err != nil || len(got) != 2 || got[0].Source != "host" || got[1].Source != "gpu" || got[1].IsValid() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		a + "\n\n" + b, a + "\n" + strings.Replace(b, `"source":"gpu",`, "", 1), a + "\n" + strings.Replace(b, "gpu", "g.u", 1),
		a + "\n" + strings.Replace(b, `"stream":"b",`, "", 1), a + "\n" + `{"source":"` + strings.Repeat("x", 70_000),
	} {
		if got, err := ReadSamples(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "line 2") {
			t.Errorf("%.200s: %+v, %v", bad, got, err)
		}
	}
	if _, err := ParseSample("host", "", []byte(a)); !errors.Is(err, ErrSample) {
		t.Errorf("a source in connection and sample: %v", err)
	}
}

func FuzzParseSample(f *testing.F) {
	f.Add([]byte(`{"stream":"b","seq":1,"signal":"a","labels":{"x":"y"},"time":"2026-10-03T12:00:00Z","start":"2026-10-03T12:00:00Z","value":-0.0}`))
	f.Add([]byte(`{"stream":"b","seq":1,"signal":"a","time":"2026-10-03T12:00:00Z","value":"NaN"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseSample("host", "", raw)
		if err != nil {
			return
		}
		canonical := AppendSample(nil, &s)
		again, err := ParseSample("host", "", canonical)
		if err != nil {
			t.Fatalf("canonical form %s: %v", canonical, err)
		}
		if string(AppendSample(nil, &again)) != string(canonical) {
			t.Fatalf("%s is not a fixed point", canonical)
		}
		if math.IsNaN(s.Value) != math.IsNaN(again.Value) || s.Seq != again.Seq {
			t.Fatalf("%+v became %+v", s, again)
		}
	})
}
