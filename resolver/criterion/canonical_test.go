package criterion

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// samplesOf are samples whose encodings have every member in every form.
func samplesOf() []Sample {
	at := time.Date(2026, 2, 28, 23, 59, 59, 123456789, time.UTC)
	return []Sample{
		{Source: "host", Stream: "b1", Seq: 1, Signal: "rss", Time: at, Value: 1.5},
		{Source: "host", Stream: "b1", Seq: math.MaxUint64, Signal: "_a.b:c/d-9", Labels: map[string]string{"z": "1", "a": ""}, Time: at, Start: at.Add(-time.Hour), Value: math.Copysign(0, -1)},
		{Source: "host", Stream: "~!{}", Seq: 0, Signal: "rss", Labels: map[string]string{"a": `} \" {`, "b": "\u2028é\x01", "c": `\`}, Time: at.AddDate(-50, 0, 0), Value: math.NaN()},
		{Source: "host", Stream: "b", Seq: 10, Signal: "rss", Time: at, Value: math.Inf(-1)},
		{Source: "host", Stream: "b", Seq: 10, Signal: "rss", Time: at, Value: 1e300},
	}
}

// checkDecoder holds the decoder against the general parser: it takes what that
// one takes and what is written the one way.
func checkDecoder(t testing.TB, d *Decoder, raw []byte) {
	t.Helper()
	got, err := d.Sample(raw)
	want, slow := ParseSample("host", "", raw)
	canonical := slow == nil && bytes.Equal(AppendSample(nil, &want), raw)
	if canonical != (err == nil) || err != nil && !errors.Is(err, ErrSample) {
		t.Fatalf("canonical is %v, the decoder says %v: %q", canonical, err, raw)
	}
	if canonical && (Compare(&got, &want) != 0 || got.Source != want.Source) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

func TestDecoder(t *testing.T) {
	d := NewDecoder("host")
	for _, s := range samplesOf() {
		raw := AppendSample(nil, &s)
		if _, err := d.Sample(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		for i := range raw { // also what is remembered must not soften anything
			checkDecoder(t, d, raw[:i])
			for _, b := range []byte("\x00 \"\\{},:09zZ\xff") {
				checkDecoder(t, d, append(append(bytes.Clone(raw[:i]), b), raw[i:]...))
				checkDecoder(t, d, append(append(bytes.Clone(raw[:i]), b), raw[i+1:]...))
			}
		}
	}
	good := string(AppendSample(nil, &samplesOf()[0]))
	for from, to := range map[string]string{
		"-28T": "-30T", "2026-02": "2026-00", "T23": "T24", ":59:": ":60:", "59.": "60.", "2026-": "2262-", `"value":1.5`: `"value":1.50`, `"seq":1`: `"seq":01`,
		`"signal":"rss"`: `"signal":"rss","labels":{}`, `"rss",`: `"rss","labels":{"b":"1","a":"2"},`,
	} {
		bad := strings.Replace(good, from, to, 1)
		if bad == good {
			t.Fatalf("%s does not hold %s", good, from)
		}
		checkDecoder(t, d, []byte(bad))
		if _, err := d.Sample([]byte(bad)); !errors.Is(err, ErrSample) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	for _, s := range samplesOf() {
		f.Add(AppendSample(nil, &s))
	}
	d := NewDecoder("host")
	f.Fuzz(func(t *testing.T, raw []byte) { checkDecoder(t, d, raw) })
}
