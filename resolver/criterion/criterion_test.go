package criterion

import (
	"errors"
	"math"
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
		{"q without quantile", `"value":1`, `"value":1,"q":0.5`, "/all/0/q"},
		{"quantile without q", `"max"`, `"quantile"`, "/all/0/q"},
		{"hold for nothing", `"value":1`, `"value":1,"hold_for":"0s"`, "/all/0/hold_for"},
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

func TestLint(t *testing.T) {
	valid := `{"criterion_version":1,"action":{"tool":"kill","target":"9","execute_by":"10m"},"window":{"anchor":"action_end","offset":"5s","length":"1m"},` +
		`"all":[{"signal":"gauge","reduce":"max","op":"<=","value":1}],` +
		`"coverage":{"heartbeat":"beat","interval":"10s","min":0.9,"max_gap":"20s"},"allowed_lateness":"5s","max_skew":"1s","expires_after":"1h"}`
	clause := `{"signal":"gauge","reduce":"max","op":"<=","value":1}`
	for _, tc := range []struct{ name, old, new, pointer string }{
		{"valid", "", "", "none"},
		{"window over 7 days", `"length":"1m"`, `"length":"8d"`, "/window/length"},
		{"window of nothing", `"length":"1m"`, `"length":"0s"`, "/window/length"},
		{"window for ever", `"length":"1m"`, `"length":"999999999d"`, "/window/length"},
		{"too many samples", `"length":"1m"`, `"length":"7d"`, "none"},
		{"too many samples by interval", `"interval":"10s"`, `"interval":"1ms"`, "none"},
		{"finer interval and long window", `"length":"1m"},`, `"length":"7d"},"_":0,`, "parse"},
		{"two clauses", clause, clause + "," + clause, "/all/1"},
		{"nine clauses", clause, strings.Repeat(clause+",", 8) + clause, "/all"},
		{"no clause", clause, "", "/all"},
		{"any and all", `"coverage"`, `"any":[` + clause + `],"coverage"`, "/any"},
		{"any alone", `"all"`, `"any"`, "none"},
		{"unknown signal", `"gauge"`, `"nothing"`, "/all/0/signal"},
		{"unknown reducer", `"max"`, `"rate"`, "/all/0/reduce"},
		{"increase of a gauge", `"max"`, `"increase"`, "/all/0/reduce"},
		{"unknown comparison", `"<="`, `"=~"`, "/all/0/op"},
		{"unknown anchor", `"action_end"`, `"now"`, "/window/anchor"},
		{"anchored elsewhere", `"action_end"`, `"recorded_at"`, "/window/anchor"},
		{"anchored at no action", `"action":{"tool":"kill","target":"9","execute_by":"10m"},`, ``, "/window/anchor"},
		{"execute some day", `"10m"`, `"999999999d"`, "/action/execute_by"},
		{"coverage under the floor", `"min":0.9`, `"min":0.4`, "/coverage/min"},
		{"coverage over one", `"min":0.9`, `"min":1.1`, "/coverage/min"},
		{"looser gap", `"max_gap":"20s"`, `"max_gap":"31s"`, "/coverage/max_gap"},
		{"looser interval", `"interval":"10s"`, `"interval":"11s"`, "/coverage/interval"},
		{"another heartbeat", `"heartbeat":"beat"`, `"heartbeat":"gauge"`, "/coverage/heartbeat"},
		{"less lateness", `"allowed_lateness":"5s"`, `"allowed_lateness":"4s"`, "/allowed_lateness"},
		{"expires never", `"1h"`, `"999999999d"`, "/expires_after"},
		{"baseline", `"coverage"`, `"baseline":{"length":"1m"},"coverage"`, "/baseline"},
		{"controls", `"coverage"`, `"controls":[{"labels":{}}],"coverage"`, "/controls"},
		{"hold longer than the window", `"value":1`, `"value":1,"hold_for":"1m"`, "/all/0/hold_for"},
		{"hold on count", `"max","op":"<=","value":1`, `"count","op":"<=","value":1,"hold_for":"20s"`, "/all/0/hold_for"},
		{"hold on a counter", `"gauge","reduce":"max","op":"<=","value":1`, `"total","reduce":"max","op":"<=","value":1,"hold_for":"20s"`, "/all/0/hold_for"},
		{"min_samples over the cap", `"value":1`, `"value":1,"min_samples":1000000`, "/all/0/min_samples"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Parse(jsontext.Value(strings.Replace(valid, tc.old, tc.new, 1)))
			if tc.pointer == "parse" {
				if err == nil {
					t.Fatal("parsed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			faults := Lint(c, testRegistry(t))
			if tc.pointer == "none" {
				if len(faults) > 0 {
					t.Errorf("faults %v, want none", faults)
				}
				return
			}
			if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Pointer == tc.pointer }) {
				t.Errorf("faults %v, want one at %s", faults, tc.pointer)
			}
		})
	}
	long := strings.NewReplacer(`"length":"1m"`, `"length":"7d"`, `"interval":"10s"`, `"interval":"1s"`).Replace(valid)
	if faults := Lint(mustParse(t, long), testRegistry(t)); len(faults) != 1 || faults[0].Pointer != "/window/length" {
		t.Errorf("604,800 cells: faults %v, want one at /window/length", faults)
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

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"criterion_version":1,"window":{"anchor":"recorded_at","length":"1m"},"all":[{"signal":"alone","reduce":"max","op":"<=","value":1}]}`))
	f.Add([]byte(`{"criterion_version":1,"action":{"tool":"x"},"window":{"anchor":"action_end","length":"7d"},"any":[{"signal":"total","labels":{"a":"b"},"reduce":"increase","op":"==","value":0}],"coverage":{"interval":"1ms"}}`))
	r := testRegistry(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err != nil {
			if _, ok := errors.AsType[Fault](err); !ok {
				t.Fatalf("%v is no Fault", err)
			}
			return
		}
		if len(Lint(c, r)) > 0 {
			return
		}
		start := time.Unix(1_700_000_000, 0).UTC()
		w := Span{start, start.Add(c.Window.Length)}
		for _, closed := range []bool{false, true} {
			res := Evaluate(Input{Criterion: c, Registry: r, Window: w, Closed: closed})
			if res.Outcome != Unknown {
				t.Fatalf("no samples at all and %v", res.Outcome)
			}
		}
	})
}
