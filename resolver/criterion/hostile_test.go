package criterion

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// hostile are criteria that nobody should be able to spend much on, each with
// the place of its first fault.
func hostile() []struct{ name, raw, pointer string } {
	const clause = `{"signal":"alone","reduce":"max","op":"<=","value":1}`
	with := func(window, list, more string) string {
		return `{"criterion_version":1,"window":{"anchor":"recorded_at","length":"` + window + `"},"all":[` + list + `]` + more + `}`
	}
	times := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	labels := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"label_%d":"%s",`, i, strings.Repeat("x", 50))
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	return []struct{ name, raw, pointer string }{
		{"a window of 10^9 s", with("999999999s", clause, ""), "/window/length"},
		{"1 ms over 7 days, eight times", with("7d", times(clause, 8), `,"coverage":{"interval":"1ms"},"baseline":{"length":"7d","reduce":"max","op":">","value":1}`), "/window/length"},
		{"10^9 samples", with("1m", strings.Replace(clause, `"value":1`, `"value":1,"min_samples":1000000000`, 1), ""), "/all/0/min_samples"},
		{"10^18 samples", with("1m", strings.Replace(clause, `"value":1`, `"value":1,"min_samples":1000000000000000000`, 1), ""), "/all/0/min_samples"},
		{"an unknown signal", with("1m", strings.Replace(clause, "alone", "nobody", 1), ""), "/all/0/signal"},
		{"unknown signals", with("1m", times(strings.Replace(clause, "alone", strings.Repeat("n", 128), 1), 64), ""), "/all"},
		{"64 clauses", with("1m", times(clause, 64), ""), "/all"},
		{"1000 clauses", with("1m", times(clause, 1000), ""), "/all"},
		{"a label bomb", with("1m", strings.Replace(clause, `"reduce"`, `"labels":{`+labels(900)+`},"reduce"`, 1), ""), "/all/0/labels"},
		{"a label of 60 kB", with("1m", strings.Replace(clause, `"reduce"`, `"labels":{"a":"`+strings.Repeat("x", 60_000)+`"},"reduce"`, 1), ""), "/all/0/labels/a"},
		{"a label name of 60 kB", with("1m", strings.Replace(clause, `"reduce"`, `"labels":{"`+strings.Repeat("x", 60_000)+`":"a"},"reduce"`, 1), ""), "/all/0/labels"},
		{"1e999", with("1m", strings.Replace(clause, `"value":1`, `"value":1e999`, 1), ""), "/all/0/value"},
		{"a number of 60,000 digits", with("1m", strings.Replace(clause, `"value":1`, `"value":1`+strings.Repeat("0", 60_000), 1), ""), "/all/0/value"},
		{"an exponent of 60,000 digits", with("1m", strings.Replace(clause, `"value":1`, `"value":1e-`+strings.Repeat("9", 60_000), 1), ""), "none"},
		{"NaN", with("1m", strings.Replace(clause, `"value":1`, `"value":"NaN"`, 1), ""), "/all/0/value"},
		{"negative durations", with("-1m", clause, ""), "/window/length"},
		{"overlapping controls", with("1m", clause, `,"controls":[`+times(`{"labels":{"a":"b"}}`, 16)+`]`), "/controls/1/labels"},
		{"20,000 controls", with("1m", clause, `,"controls":[`+times(`{}`, 20_000)+`]`), "/controls/0/labels"},
		{"q 2", with("1m", strings.Replace(clause, `"max"`, `"quantile","q":2`, 1), ""), "/all/0/q"},
		{"deep arrays", with("1m", strings.Repeat("[", 31_000)+strings.Repeat("]", 31_000), ""), ""},
		{"deep objects", strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), ""},
		{"a megabyte", with("1m", times(clause, 20_000), ""), ""},
		{"one member 7,000 times", `{` + times(`"all":1`, 7_000) + `}`, "/all"},
	}
}

// Hostile criteria are refused at once: what one costs is bounded by its bytes,
// whatever it asks for.
func TestHostileCriteria(t *testing.T) {
	r := testRegistry(t)
	for _, tc := range hostile() {
		t.Run(tc.name, func(t *testing.T) {
			check := func() (faults []Fault) {
				c, err := Parse(jsontext.Value(tc.raw))
				if err != nil {
					return []Fault{err.(Fault)}
				}
				return Lint(c, r)
			}
			faults := check()
			switch {
			case tc.pointer == "none":
				if len(faults) > 0 {
					t.Fatalf("faults %v", faults)
				}
			case len(faults) == 0:
				t.Fatal("no fault")
			case tc.pointer != "" && !strings.HasPrefix(faults[0].Pointer, tc.pointer):
				t.Errorf("%v, want it at %s", faults[0], tc.pointer)
			}
			size := 0
			for _, f := range faults {
				size += len(f.Pointer) + len(f.Message)
			}
			if size > 64_000 {
				t.Errorf("%d faults of %d bytes", len(faults), size)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			check()
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
				t.Errorf("%d bytes of memory for a criterion of %d", used, len(tc.raw))
			}
			if n := testing.AllocsPerRun(3, func() { check() }); n > 2000 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkHostileCriteria(b *testing.B) {
	r := testRegistry(b)
	for _, tc := range hostile() {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c, err := Parse(jsontext.Value(tc.raw)); err == nil {
					Lint(c, r)
				}
			}
		})
	}
}
