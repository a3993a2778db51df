package criterion

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func mustRegistry(t testing.TB, signals ...Signal) *Registry {
	t.Helper()
	raw, err := AddSignals([]byte(`{"v":1,"signals":[]}`), signals...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// signal is a sensor of source "s" that ticks every 10 s.
func signal(name string, kind Kind, heartbeat string) Signal {
	return Signal{
		Name: name, Source: "s", Unit: "1", Kind: kind, Heartbeat: heartbeat, Writer: "sensor/s",
		Interval: 10 * time.Second, MaxStaleness: time.Minute, CoverageFloor: 0.5, MaxGap: 30 * time.Second,
		AllowedLateness: 5 * time.Second, MaxSkew: 0, Lo: 0, Hi: math.Inf(1),
	}
}

func testRegistry(t testing.TB) *Registry {
	t.Helper()
	skewed := signal("skewed", Gauge, "skewed")
	skewed.MaxSkew = 2 * time.Second
	alone := signal("alone", Gauge, "alone")
	bounded := signal("bounded", Gauge, "bounded")
	bounded.Hi = 1
	return mustRegistry(t, signal("beat", Gauge, "beat"), signal("gauge", Gauge, "beat"), signal("total", Counter, "beat"),
		signal("happening", Event, "beat"), alone, skewed, bounded)
}

func mustParse(t testing.TB, raw string) Criterion {
	t.Helper()
	c, err := Parse(jsontext.Value(raw))
	if err != nil {
		t.Fatalf("parse %s: %v", raw, err)
	}
	return c
}

func TestParseFaults(t *testing.T) {
	valid := `{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"all":[{"signal":"alone","reduce":"max","op":"<=","value":1}]}`
	for _, tc := range []struct{ name, old, new, pointer string }{
		{"version", `"criterion_version":1`, `"criterion_version":2`, "/criterion_version"},
		{"no version", `"criterion_version":1,`, ``, "/criterion_version"},
		{"unknown member", `"window"`, `"expr":"x","window"`, "/expr"},
		{"unknown in clause", `"op"`, `"rate":1,"op"`, "/all/0/rate"},
		{"duplicate name", `"op"`, `"signal":"x","op"`, "/all/0/signal"},
		{"case folded", `"op"`, `"OP"`, "/all/0/OP"},
		{"bad duration", `"1m"`, `"1 m"`, "/window/length"},
		{"ten digits", `"1m"`, `"1234567890s"`, "/window/length"},
		{"negative", `"1m"`, `"-1m"`, "/window/length"},
		{"fraction", `"1m"`, `"1.5m"`, "/window/length"},
		{"nanoseconds", `"1m"`, `"1ns"`, "/window/length"},
		{"number for duration", `"1m"`, `60`, "/window/length"},
		{"no window", `"window":{"anchor":"recorded_at","length":"1m"},`, ``, "/window"},
		{"value a string", `"value":1`, `"value":"1"`, "/all/0/value"},
		{"value infinite", `"value":1`, `"value":1e999`, "/all/0/value"},
		{"no value", `,"value":1`, ``, "/all/0/value"},
		{"value too large", `"value":1`, `"value":1e16`, "/all/0/value"},
		{"value not a number", `"value":1`, `"value":NaN`, "/all/0/value"},
		{"quantile of two", `"value":1`, `"value":1,"q":2`, "/all/0/q"},
		{"unknown reducer", `"max"`, `"rate"`, "/all/0/reduce"},
		{"unknown comparison", `"<="`, `"=~"`, "/all/0/op"},
		{"unknown anchor", `"recorded_at"`, `"now"`, "/window/anchor"},
		{"no clause", `"all":[`, `"all":[],"controls":[`, "/all"},
		{"all and any", `"all"`, `"any":[{"signal":"alone","reduce":"max","op":"<=","value":1}],"all"`, ""},
		{"neither", `"all"`, `"all":null,"controls"`, "/controls/0/signal"},
		{"65 clauses", `"all":[`, `"all":[` + strings.Repeat(`{"signal":"alone","reduce":"max","op":"<=","value":1},`, 64), "/all"},
		{"17 controls", `"all"`, `"controls":[` + strings.TrimSuffix(strings.Repeat(`{"labels":{}},`, 17), ",") + `],"all"`, "/controls"},
		{"a control without labels", `"all"`, `"controls":[{}],"all"`, "/controls/0/labels"},
		{"a label that is none", `"reduce"`, `"labels":{"a b":"c"},"reduce"`, "/all/0/labels/a b"},
		{"a label too long", `"reduce"`, `"labels":{"a":"` + strings.Repeat("x", 257) + `"},"reduce"`, "/all/0/labels/a"},
		{"17 labels", `"reduce"`, `"labels":{"a1":"","a2":"","a3":"","a4":"","a5":"","a6":"","a7":"","a8":"","a9":"","b0":"","b1":"","b2":"","b3":"","b4":"","b5":"","b6":"","b7":""},"reduce"`, "/all/0/labels"},
		{"baseline of nothing", `"all"`, `"baseline":{"length":"1m"},"all"`, "/baseline/reduce"},
		{"two values", valid, valid + " " + valid, ""},
		{"a lone surrogate", `"alone"`, `"\ud800"`, "/all/0/signal"},
		{"too long", valid, strings.Repeat(" ", 64_000) + valid, ""},
		{"half a sample", `"value":1`, `"value":1,"min_samples":0.5`, "/all/0/min_samples"},
		{"not an object", valid, `[]`, ""},
		{"truncated", valid, `{"criterion_version":1`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw := strings.Replace(valid, tc.old, tc.new, 1)
			if raw == valid {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse(jsontext.Value(raw))
			fault, ok := errors.AsType[Fault](err)
			if !ok || fault.Pointer != tc.pointer || fault.Message == "" {
				t.Errorf("got %v (%T), want a fault at %q", err, err, tc.pointer)
			}
		})
	}
	mustParse(t, valid)
	mustParse(t, strings.Replace(valid, `"value":1`, `"value":1,"hold_for":null,"min_samples":2e1`, 1))
	mustParse(t, "\n\t"+strings.ReplaceAll(valid, ",", ",\r\n "))
}

// What the documentation shows is a criterion, and a sample.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "criteria.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	raw, rest, found := strings.Cut(rest, "```")
	c := mustParse(t, raw)
	if !found || c.Baseline == nil || len(c.Controls) != 1 || len(c.All) != 1 {
		t.Errorf("%+v", c)
	}
	_, sample, found := strings.Cut(rest, "```\n{\"source\"")
	sample, _, _ = strings.Cut(`{"source"`+sample, "\n")
	if s, err := ParseSample("", "", []byte(sample)); err != nil || !found || s.Source != "host" || s.Start.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "007m": 7 * time.Minute, "2h": 2 * time.Hour, "7d": 168 * time.Hour,
		"999999999d": math.MaxInt64, "999999999ms": 999999999 * time.Millisecond,
	} {
		if got, err := parseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "s", "5", "1w", "1 s", "+1s", "1S", "1sm", "١s", "0000000001s"} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("%q: %v, want an error", in, got)
		}
	}
}

// Every fault is found, each with its place, in an order that is always the same.
func TestLint(t *testing.T) {
	const clause = `{"signal":"gauge","reduce":"max","op":"<=","value":1}`
	const valid = `{"criterion_version":1,"action":{"tool":"kill","target":"9","execute_by":"10m"},"window":{"anchor":"action_end","offset":"5s","length":"1m"},` +
		`"all":[` + clause + `],"baseline":{"length":"2m","reduce":"max","op":">","value":1},` +
		`"coverage":{"heartbeat":"beat","interval":"10s","min":0.9,"max_gap":"20s"},"allowed_lateness":"5s","max_skew":"1s","expires_after":"1h","controls":[{"labels":{"pid":"7"}}]}`
	none := []string{}
	for _, tc := range []struct {
		name, old, new string
		want           []string
	}{
		{"valid", "", "", none},
		{"window over 7 days", `"length":"1m"`, `"length":"8d"`, []string{"/window/length"}},
		{"window of nothing", `"length":"1m"`, `"length":"0s"`, []string{"/window/length"}},
		{"window for ever", `"length":"1m"`, `"length":"999999999d"`, []string{"/window/length"}},
		{"offset for ever", `"offset":"5s"`, `"offset":"999999999d"`, []string{"/window/offset"}},
		{"7 days of 10 s", `"length":"1m"`, `"length":"7d"`, none},
		{"two clauses", clause, clause + "," + clause, none},
		{"eight clauses", clause, strings.Repeat(clause+",", 7) + clause, none},
		{"nine clauses", clause, strings.Repeat(clause+",", 8) + clause, []string{"/all"}},
		{"64 clauses", clause, strings.Repeat(clause+",", 63) + clause, []string{"/all"}},
		{"any", `"all"`, `"any"`, []string{"/controls"}},
		{"unknown signal", `"gauge"`, `"nothing"`, []string{"/all/0/signal"}},
		{"increase of a gauge", `"all":[{"signal":"gauge","reduce":"max"`, `"all":[{"signal":"gauge","reduce":"increase"`, []string{"/all/0/reduce"}},
		{"anchored elsewhere", `"action_end"`, `"recorded_at"`, []string{"/window/anchor"}},
		{"anchored at no action", `"action":{"tool":"kill","target":"9","execute_by":"10m"},`, ``, []string{"/window/anchor"}},
		{"execute some day", `"10m"`, `"999999999d"`, []string{"/action/execute_by"}},
		{"coverage under the floor", `"min":0.9`, `"min":0.4`, []string{"/coverage/min"}},
		{"looser gap", `"max_gap":"20s"`, `"max_gap":"31s"`, []string{"/coverage/max_gap"}},
		{"gap of nothing", `"max_gap":"20s"`, `"max_gap":"0s"`, []string{"/coverage/max_gap"}},
		{"looser interval", `"interval":"10s"`, `"interval":"11s"`, []string{"/coverage/interval"}},
		{"another heartbeat", `"heartbeat":"beat"`, `"heartbeat":"gauge"`, []string{"/coverage/heartbeat"}},
		{"less lateness", `"allowed_lateness":"5s"`, `"allowed_lateness":"4s"`, []string{"/allowed_lateness"}},
		{"lateness for ever", `"allowed_lateness":"5s"`, `"allowed_lateness":"999999999d"`, []string{"/allowed_lateness"}},
		{"expires never", `"1h"`, `"999999999d"`, []string{"/expires_after"}},
		{"baseline over 7 days", `"length":"2m"`, `"length":"8d"`, []string{"/baseline/length"}},
		{"baseline of nothing", `"length":"2m"`, `"length":"0s"`, []string{"/baseline/length"}},
		{"baseline's increase of a gauge", `"length":"2m","reduce":"max"`, `"length":"2m","reduce":"increase"`, []string{"/baseline/reduce"}},
		{"baseline with q", `"op":">"`, `"q":0.5,"op":">"`, []string{"/baseline/q"}},
		{"baseline without q", `"length":"2m","reduce":"max"`, `"length":"2m","reduce":"quantile"`, []string{"/baseline/q"}},
		{"control of the clause itself", `[{"labels":{"pid":"7"}}]`, `[{"labels":{}}]`, []string{"/controls/0/labels"}},
		{"overlapping controls", `[{"labels":{"pid":"7"}}]`, `[{"labels":{"pid":"7"}},{"labels":{"pid":"8"}},{"labels":{"pid":"7"}},{"labels":{"pid":"7"}}]`,
			[]string{"/controls/2/labels", "/controls/3/labels"}},
		{"q without quantile", `"value":1}`, `"value":1,"q":0.5}`, []string{"/all/0/q"}},
		{"q of 0 without quantile", `"value":1}`, `"value":1,"q":0}`, []string{"/all/0/q"}},
		{"quantile without q", `"gauge","reduce":"max"`, `"gauge","reduce":"quantile"`, []string{"/all/0/q"}},
		{"quantile 0", `"gauge","reduce":"max"`, `"gauge","q":0,"reduce":"quantile"`, none},
		{"hold for nothing", `"value":1}`, `"value":1,"hold_for":"0s"}`, []string{"/all/0/hold_for"}},
		{"hold longer than the window", `"value":1}`, `"value":1,"hold_for":"1m"}`, []string{"/all/0/hold_for"}},
		{"hold on count", `"gauge","reduce":"max","op":"<=","value":1`, `"gauge","reduce":"count","op":"<=","value":1,"hold_for":"20s"`, []string{"/all/0/hold_for"}},
		{"hold on a counter", `"gauge","reduce":"max","op":"<=","value":1`, `"total","reduce":"max","op":"<=","value":1,"hold_for":"20s"`, []string{"/all/0/hold_for"}},
		{"min_samples over the cap", `"value":1}`, `"value":1,"min_samples":1000000000}`, []string{"/all/0/min_samples"}},
		{"label of 512 bytes", `"gauge","reduce"`, `"gauge","labels":{"a":"` + strings.Repeat("é", 256) + `"},"reduce"`, []string{"/all/0/labels"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkFaults(t, mustParse(t, strings.Replace(valid, tc.old, tc.new, 1)), tc.want...)
		})
	}
}

func checkFaults(t *testing.T, c Criterion, want ...string) {
	t.Helper()
	faults := Lint(c, testRegistry(t))
	got := []string{}
	for _, f := range faults {
		got = append(got, f.Pointer)
		if f.Message == "" {
			t.Errorf("%s: no message", f.Pointer)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults %v, want them at %v", faults, want)
	}
	if again := Lint(c, testRegistry(t)); !slices.Equal(again, faults) {
		t.Errorf("faults %v, and then %v", faults, again)
	}
}

// Each clause is held to its own signal's entry, and each that the criterion
// loosens is a fault of its own.
func TestLintOfSeveralClauses(t *testing.T) {
	c := mustParse(t, `{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"any":[`+
		`{"signal":"gauge","reduce":"max","op":"<=","value":1},{"signal":"skewed","reduce":"increase","op":"<=","value":1},`+
		`{"signal":"nothing","reduce":"max","op":"<=","value":1,"q":1},{"signal":"total","reduce":"increase","op":"<=","value":1,"hold_for":"2m"}],`+
		`"baseline":{"length":"1m","reduce":"increase","op":">","value":0},`+
		`"coverage":{"heartbeat":"beat","interval":"11s","min":0.1},"max_skew":"1s"}`)
	checkFaults(t, c, "/any/1/reduce", "/any/2/signal", "/any/2/q", "/any/3/hold_for", "/any/3/hold_for", "/any/3/hold_for",
		"/baseline/reduce", "/baseline/reduce",
		"/coverage/interval", "/coverage/min", "/coverage/heartbeat", "/coverage/interval", "/coverage/min", "/max_skew", "/coverage/interval", "/coverage/min")
}

// The caps hold for each clause and for all together, in the window and in the
// baseline.
func TestLintOfCells(t *testing.T) {
	clause := Clause{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 1}
	ms := time.Millisecond
	c := Criterion{Window: Window{Anchor: AnchorRecorded, Length: MaxSamples * ms}, All: []Clause{clause}, Coverage: Coverage{Interval: &ms}, ExpiresAfter: time.Hour}
	c.Baseline = &Baseline{Length: MaxSamples * ms, Reduce: ReduceMax, Op: OpGT, Value: 1}
	checkFaults(t, c)
	c.Window.Length++
	checkFaults(t, c, "/window/length")
	c.Baseline.Length = MaxWindow
	checkFaults(t, c, "/window/length", "/baseline/length")
	c.Window.Length, c.Baseline.Length, c.All = MaxSamples/2*ms, MaxSamples/2*ms, []Clause{clause, clause}
	checkFaults(t, c)
	c.Window.Length++
	checkFaults(t, c, "/window/length")
	c.Baseline.Length++
	checkFaults(t, c, "/window/length", "/baseline/length")
	c.Window.Length, c.Baseline.Length = MaxWindow, MaxWindow
	checkFaults(t, c, "/window/length", "/window/length", "/baseline/length", "/baseline/length")
}

// What no JSON can say, a caller that builds a Criterion can.
func TestLintOfBuiltCriteria(t *testing.T) {
	good := func() Criterion {
		return Criterion{
			Action: &Action{Tool: "kill"}, Window: Window{Anchor: AnchorActionEnd, Length: time.Minute},
			All: []Clause{{Signal: "alone", Reduce: ReduceMax, Op: OpLE, Value: 1}},
		}
	}
	checkFaults(t, good())
	over := 1.5
	for _, tc := range []struct {
		name   string
		change func(*Criterion)
		want   []string
	}{
		{"NaN", func(c *Criterion) { c.All[0].Value = math.NaN() }, []string{"/all/0/value"}},
		{"an infinity", func(c *Criterion) { c.All[0].Value = math.Inf(-1) }, []string{"/all/0/value"}},
		{"negative durations", func(c *Criterion) {
			c.Action.ExecuteBy, c.Window.Offset, c.Window.Length, c.ExpiresAfter, c.All[0].HoldFor = -1, -1, -1, -1, -1
		}, []string{"/action/execute_by", "/window/offset", "/window/length", "/all/0/hold_for", "/expires_after"}},
		{"no clause", func(c *Criterion) { c.All = nil }, []string{"/all"}},
		{"all and any", func(c *Criterion) { c.Any = c.All }, []string{"/any"}},
		{"no tool", func(c *Criterion) { c.Action.Tool = "" }, []string{"/action/tool"}},
		{"anchor", func(c *Criterion) { c.Window.Anchor = "now" }, []string{"/window/anchor"}},
		{"reducer and comparison", func(c *Criterion) { c.All[0].Reduce, c.All[0].Op = "rate", "=~" }, []string{"/all/0/reduce", "/all/0/op"}},
		{"quantile", func(c *Criterion) { c.All[0].Reduce, c.All[0].Quantile = ReduceQuantile, math.NaN() }, []string{"/all/0/q"}},
		{"negative min_samples", func(c *Criterion) { c.All[0].MinSamples = -1 }, []string{"/all/0/min_samples"}},
		{"coverage over one", func(c *Criterion) { c.Coverage.Min = &over }, []string{"/coverage/min"}},
		{"17 controls", func(c *Criterion) { c.Controls = make([]map[string]string, 17) }, []string{"/controls"}},
		{"a control's label", func(c *Criterion) { c.Controls = []map[string]string{{"": ""}} }, []string{"/controls/0/labels"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good()
			tc.change(&c)
			checkFaults(t, c, tc.want...)
		})
	}
}

// The first of several bad labels in order of name is the one that is named.
func TestLabelsAreNamedInOrder(t *testing.T) {
	for _, tc := range []struct {
		bad  map[string]string
		want string
	}{
		{map[string]string{"z z": "", "a": strings.Repeat("x", 257), "m m": "", "ok": "", "z": "\xff"}, `label "a" has 257 bytes`},
		{map[string]string{"z": "\xff", "y": "\xff", "x": "\xff", "xy": strings.Repeat("x", 257), "ok": ""}, `label "x" is not UTF-8`},
	} {
		for range 50 {
			if err := CheckLabels(tc.bad); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatal(err)
			}
		}
	}
}

func TestRegistry(t *testing.T) {
	valid := `{"v":1,"signals":[{"name":"a","source":"s","unit":"1","kind":"gauge","heartbeat":"a","writer":"sensor/s","interval":"1s",` +
		`"max_staleness":"5s","coverage_floor":0.9,"max_gap":"3s","allowed_lateness":"0s","max_skew":"0s","lo":0,"hi":null}]}`
	r, err := ParseRegistry([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	a, ok := r.Signal("a")
	if !ok || a.Lo != 0 || !math.IsInf(a.Hi, 1) || a.Interval != time.Second {
		t.Errorf("signal %+v, %v", a, ok)
	}
	if r.HashString() != "" && r.Hash().String() != r.HashString() {
		t.Error("two spellings of the hash differ")
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"unknown member", `"unit"`, `"promql":"x","unit"`, "promql"},
		{"version", `"v":1`, `"v":2`, "/v"},
		{"kind", `"gauge"`, `"level"`, "/kind"},
		{"writer", `"sensor/s"`, `"s"`, "/writer"},
		{"floor of nothing", `0.9`, `0`, "/coverage_floor"},
		{"floor over one", `0.9`, `1.5`, "/coverage_floor"},
		{"interval of nothing", `"interval":"1s"`, `"interval":"0s"`, "/interval"},
		{"no gap", `"max_gap":"3s",`, ``, "/max_gap"},
		{"bounds crossed", `"lo":0,"hi":null`, `"lo":2,"hi":1`, "/lo"},
		{"heartbeat unknown", `"heartbeat":"a"`, `"heartbeat":"b"`, "/heartbeat"},
		{"source with a dot", `"source":"s"`, `"source":"s.x"`, "/source"},
		{"twice", `]}`, `,` + valid[strings.Index(valid, `{"name"`):len(valid)-2] + `]}`, "/name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseRegistry([]byte(strings.Replace(valid, tc.old, tc.new, 1)))
			if !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want ErrRegistry naming %s", err, tc.want)
			}
		})
	}
}

func TestDefaultRegistry(t *testing.T) {
	raw, err := DefaultRegistry(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	gpu := signal("gpu_temperature_celsius", Gauge, "gpu_temperature_celsius")
	gpu.Source, gpu.Writer = "gpu", "sensor/gpu"
	raw, err = AddSignals(raw, gpu)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRegistry(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Sources(); !slices.Equal(got, []string{"gpu", "host"}) {
		t.Errorf("sources %v", got)
	}
	if !r.IsHeartbeat("host", SignalHeartbeat) || r.IsHeartbeat("host", SignalProcessUp) || r.IsHeartbeat("gpu", SignalHeartbeat) {
		t.Error("heartbeats are told wrongly")
	}
	if s, ok := r.Signal(SignalProcessRSS); !ok || s.Interval != time.Second || s.MaxSkew != 100*time.Millisecond {
		t.Errorf("%+v, %v", s, ok)
	}
	if _, err := AddSignals(raw, gpu); !errors.Is(err, ErrRegistry) {
		t.Errorf("a signal twice: %v", err)
	}
}

// FuzzParse: Parse and Lint never panic, every fault has a place and a message,
// and what passes both can be evaluated.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"all":[{"signal":"alone","reduce":"max","op":"<=","value":1}]}`))
	f.Add([]byte(`{"criterion_version":1,"action":{"tool":"x"},"window":{"anchor":"action_end","length":"7d"},"any":[{"signal":"total","labels":{"a":"b"},"reduce":"increase","op":"==","value":0}],"coverage":{"interval":"1ms"}}`))
	f.Add([]byte(`{"criterion_version":1,"action":{"tool":"x"},"window":{"anchor":"action_end","length":"30m"},"all":[{"signal":"gauge","reduce":"quantile","q":0.5,"op":"==","value":-0},` +
		`{"signal":"total","reduce":"min","op":">","value":1,"hold_for":"20s","min_samples":3}],"baseline":{"length":"1h","reduce":"count","op":">=","value":1},"controls":[{"labels":{"a":"b"}},{"labels":{}}]}`))
	r := testRegistry(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err != nil {
			if fault, ok := errors.AsType[Fault](err); !ok || fault.Message == "" {
				t.Fatalf("%v is no Fault", err)
			}
			return
		}
		faults := Lint(c, r)
		for _, f := range faults {
			if f.Pointer == "" || f.Message == "" || len(f.Message) > 400 {
				t.Fatalf("fault %+v", f)
			}
		}
		if len(faults) > 0 {
			return
		}
		start := time.Unix(1_700_000_000, 0).UTC()
		in := Input{Criterion: c, Registry: r, Window: Span{start, start.Add(c.Window.Length)}, Baseline: c.BaselineSpan(start)}
		for _, closed := range []bool{false, true} {
			in.Closed, in.BaselineClosed = closed, closed
			res := Evaluate(in)
			if res.Outcome != Unknown {
				t.Fatalf("no samples at all and %v", res.Outcome)
			}
			Explain(in, res)
		}
	})
}
