package telemetry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/resolver/criterion"
)

// fakePrometheus answers queries from series that the test sets. It is for what
// a real one does not do when told to; the tests over a real one stand beside.
type fakePrometheus struct {
	*httptest.Server
	series   map[string][]fakeSeries // by selector or query
	lookback bool                    // it takes lookback_delta
	flags    string                  // its own lookback
	answer   func(w http.ResponseWriter, r *http.Request) bool
	asked    []string
}

type fakeSeries struct {
	labels  string // inside of a JSON object, without the name
	samples []fakeSample
}

type fakeSample struct {
	at    time.Time
	value float64
}

func newFakePrometheus(t *testing.T) *fakePrometheus {
	f := &fakePrometheus{series: map[string][]fakeSeries{}, lookback: true, flags: "5m"}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.answer != nil && f.answer(w, r) {
		return
	}
	query := r.FormValue("query")
	f.asked = append(f.asked, query)
	number := func(name string) time.Time {
		sec, _ := strconv.ParseFloat(r.FormValue(name), 64)
		return time.UnixMilli(int64(math.Round(sec * 1000)))
	}
	switch {
	case r.URL.Path == "/api/v1/status/flags":
		fmt.Fprintf(w, `{"status":"success","data":{"query.lookback-delta":%q}}`, f.flags)
	case f.lookback && r.FormValue("lookback_delta") == "none":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"lookback"}`)
	case query == "1":
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	case r.URL.Path == "/api/v1/query_range":
		lookback, _ := time.ParseDuration(r.FormValue("lookback_delta"))
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		f.grid(w, query, number("start"), number("end"), time.Duration(step*float64(time.Second)), lookback)
	default:
		selector, rest, ok := strings.Cut(query, "[")
		sec, err := strconv.Atoi(strings.TrimSuffix(rest, "s]"))
		if !ok || err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`)
			return
		}
		end := number("time")
		f.matrix(w, selector, func(s fakeSeries) []fakeSample {
			var out []fakeSample
			for _, v := range s.samples { // both edges, as version 2 has it
				if !v.at.Before(end.Add(-time.Duration(sec)*time.Second)) && !v.at.After(end) {
					out = append(out, v)
				}
			}
			return out
		})
	}
}

// grid takes at each step the newest sample within the lookback.
func (f *fakePrometheus) grid(w http.ResponseWriter, query string, start, end time.Time, step, lookback time.Duration) {
	f.matrix(w, query, func(s fakeSeries) []fakeSample {
		var out []fakeSample
		for t := start; !t.After(end); t = t.Add(step) {
			for _, v := range slices.Backward(s.samples) {
				if !v.at.After(t) {
					if t.Sub(v.at) <= lookback { // the edge is taken in, as version 2 has it
						out = append(out, fakeSample{t, v.value})
					}
					break
				}
			}
		}
		return out
	})
}

func (f *fakePrometheus) matrix(w http.ResponseWriter, name string, of func(fakeSeries) []fakeSample) {
	var series []string
	for _, s := range f.series[name] {
		var values []string
		for _, v := range of(s) {
			values = append(values, fmt.Sprintf(`[%.3f,"%v"]`, float64(v.at.UnixMilli())/1000, v.value))
		}
		if len(values) > 0 {
			series = append(series, `{"metric":{"__name__":"x",`+s.labels+`},"values":[`+strings.Join(values, ",")+`]}`)
		}
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.ReplaceAll(strings.Join(series, ","), `"x",}`, `"x"}`))
}

const promStep = 5 * time.Second

// promRegistry has a signal of each mapping.
func promSignals() []criterion.Signal {
	return []criterion.Signal{
		{Name: "up_to", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to"},
		{Name: "level", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Selector: "level"},
		{Name: "sum", Source: "s", Kind: criterion.Gauge, Heartbeat: "up_to", Query: "sum(level)"},
		{Name: "total", Source: "s", Kind: criterion.Counter, Heartbeat: "up_to", Selector: "total", Start: "started"},
	}
}

func newProm(w *world, cur Cursor) (*Prometheus, error) {
	return NewPrometheus(PrometheusConfig{
		Source:  criterion.Source{Name: "s", Kind: criterion.PrometheusKind, URL: w.prom.URL, Step: promStep, QueryOffset: 2 * time.Second},
		Signals: promSignals(), Cursor: cur, Now: w.clock, Log: zerolog.Nop(),
	})
}

// poll is what Run does at each step.
func (p *Prometheus) mustPoll(t *testing.T, out Sink) {
	t.Helper()
	mustDo(t, p.turn(t.Context(), out))
}

var prometheusConformer = conformer{
	name: "prometheus",
	open: func(t *testing.T, w *world, cur Cursor, out Sink) (*rig, error) {
		p, err := newProm(w, cur)
		if err != nil {
			return nil, err
		}
		poll := func() error {
			w.now = w.now.Add(promStep)
			return p.turn(t.Context(), out)
		}
		broken := func(answer func(http.ResponseWriter, *http.Request)) func() error {
			return func() error {
				w.prom.answer = func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true }
				defer func() { w.prom.answer = nil }()
				return poll()
			}
		}
		return &rig{
			adapter: p, beat: poll, retell: poll,
			tell: func(points ...point) error {
				series := fakeSeries{labels: `"series":"a"`}
				if have := w.prom.series["level"]; len(have) > 0 {
					series = have[0]
				}
				for _, p := range points {
					s := fakeSample{p.at, p.value}
					if !slices.Contains(series.samples, s) {
						series.samples = append(series.samples, s)
					}
					if p.at.After(w.now) {
						w.now = p.at
					}
				}
				slices.SortFunc(series.samples, func(a, b fakeSample) int { return a.at.Compare(b.at) })
				w.prom.series["level"] = []fakeSeries{series}
				w.now = w.now.Add(2 * time.Second) // the offset
				return p.turn(t.Context(), out)
			},
			fail: broken(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
			garble: broken(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["x"]]}]}}`)
			}),
			flood: broken(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, MaxAnswer+1))
			}),
		}, nil
	},
}

// at is a time in seconds after the start of the tests.
func after(seconds float64) time.Time {
	return conformanceStart.Add(time.Duration(seconds * float64(time.Second)))
}

func TestPrometheusSamples(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	w.prom.series["level"] = []fakeSeries{
		{`"series":"a"`, []fakeSample{{after(-1), 9}, {after(1), math.NaN()}, {after(4), math.Inf(1)}, {after(6), math.Inf(-1)}, {after(8.125), 0.1}}},
		{`"series":"b"`, []fakeSample{{after(3), 3}, {after(20.5), 4}}}, // stale in between
	}
	w.prom.series["sum(level)"] = []fakeSeries{{"", []fakeSample{{after(2), 5}, {after(9), 6}, {after(15), 8}, {after(21), 7}}}}
	w.now = after(2)
	p, err := newProm(w, &memoryCursor{})
	mustDo(t, err)
	p.mustPoll(t, out) // (−5, 0]
	w.now = after(27.5)
	p.mustPoll(t, out) // (0, 25]

	level := out.of("level")
	if len(level) != 7 {
		t.Fatalf("%d samples, want 7: %+v", len(level), level)
	}
	for i, want := range []struct {
		at    float64
		value float64
	}{{-1, 9}, {1, math.NaN()}, {3, 3}, {4, math.Inf(1)}, {6, math.Inf(-1)}, {8.125, 0.1}, {20.5, 4}} {
		s := level[i]
		if !s.Time.Equal(after(want.at)) || s.Value != want.value && !math.IsNaN(want.value) || math.IsNaN(want.value) != math.IsNaN(s.Value) {
			t.Errorf("sample %d: %+v, want %v at %v", i, s, want.value, want.at)
		}
		if s.Seq != uint64(s.Time.UnixMilli()) {
			t.Errorf("seq %d at %v", s.Seq, s.Time)
		}
	}
	if level[0].Stream == level[2].Stream || level[0].Stream != level[1].Stream {
		t.Error("series are told apart wrongly")
	}
	sum := out.of("sum")
	var steps []string
	for _, s := range sum {
		steps = append(steps, fmt.Sprintf("%v=%v", s.Time.Sub(conformanceStart), s.Value))
		if s.Labels != nil {
			t.Errorf("labels %v", s.Labels)
		}
	}
	// A value that is a step old is none.
	if want := []string{"5s=5", "10s=6", "15s=8", "25s=7"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	var beats []string
	for _, s := range out.of("up_to") {
		beats = append(beats, s.Time.Sub(conformanceStart).String())
	}
	if want := []string{"0s", "5s", "10s", "15s", "20s", "25s"}; !slices.Equal(beats, want) {
		t.Errorf("heartbeats %v, want %v", beats, want)
	}
	if st := p.Stats(); st.Sent != 7+4+6 || !st.UpTo.Equal(after(25)) || st.Error != "" {
		t.Errorf("%+v", st)
	}
}

func TestPrometheusStarts(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	boot := func(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
	total := func(unit string) fakeSeries {
		return fakeSeries{`"instance":"i","unit":"` + unit + `"`, []fakeSample{{after(1), 10}, {after(3), 12}, {after(4), 1}}}
	}
	w.prom.series["total"] = []fakeSeries{total("x"), total("y"), {`"instance":"j"`, []fakeSample{{after(1), 1}}}}
	w.prom.series["started"] = []fakeSeries{
		// Nothing at 3: that sample's start is unknown. At 4 it restarted.
		{`"instance":"i"`, []fakeSample{{after(1), boot(after(-60))}, {after(4), boot(after(3.5))}}},
		{`"instance":"j"`, []fakeSample{{after(1), boot(after(2))}}}, // after the sample
		{`"instance":"k"`, []fakeSample{{after(1), math.NaN()}}},
	}
	w.now = after(2)
	p, err := newProm(w, &memoryCursor{})
	mustDo(t, err)
	p.mustPoll(t, out)
	w.now = after(7)
	p.mustPoll(t, out)
	got := map[string]time.Time{}
	for _, s := range out.of("total") {
		got[fmt.Sprintf("%s%s@%v", s.Labels["instance"], s.Labels["unit"], s.Time.Sub(conformanceStart))] = s.Start
	}
	want := map[string]time.Time{
		"ix@1s": after(-60), "ix@3s": {}, "ix@4s": after(3.5), "iy@1s": after(-60), "iy@3s": {}, "iy@4s": after(3.5), "j@1s": {},
	}
	for key, start := range want {
		if at, ok := got[key]; !ok || !at.Equal(start) {
			t.Errorf("%s counts since %v, want %v", key, at, start)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	// Two series that fit: nobody knows which.
	w.prom.series["started"] = append(w.prom.series["started"], fakeSeries{`"unit":"x"`, []fakeSample{{after(6), 1}}}, fakeSeries{`"instance":"i"`, []fakeSample{{after(6), 1}}})
	w.prom.series["total"] = []fakeSeries{{`"instance":"i","unit":"x"`, []fakeSample{{after(6), 2}}}}
	w.now = after(12)
	p.mustPoll(t, out)
	if s := out.of("total"); !s[len(s)-1].Start.IsZero() || !s[len(s)-1].Time.Equal(after(6)) {
		t.Errorf("%+v", s[len(s)-1])
	}
}

func TestPrometheusRefuses(t *testing.T) {
	say := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		series []fakeSeries
		want   string
		count  func(AdapterStats) uint64
	}{
		{name: "an error", answer: say(422, `{"status":"error","errorType":"execution","error":"query timed out"}`), want: "timed out"},
		{name: "html", answer: say(200, `<html>`), want: "signal level"},
		{name: "a redirect", want: "redirects", answer: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return true
		}},
		{name: "a warning", want: "store x is down", count: func(st AdapterStats) uint64 { return st.Warnings },
			answer: say(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"series":"a"},"values":[[1,"1"]]}]},"warnings":["store x is down"]}`)},
		{name: "a scalar", want: "not series over time", answer: say(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)},
		{name: "one label set twice", want: "differ in name alone",
			series: []fakeSeries{{`"a":"1"`, []fakeSample{{after(1), 1}}}, {`"a":"1"`, []fakeSample{{after(1), 2}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, out := newWorld(t), &recorder{}
			w.now = after(2)
			p, err := newProm(w, &memoryCursor{})
			mustDo(t, err)
			p.mustPoll(t, out)
			w.now, w.prom.answer = after(7), tc.answer
			w.prom.series["level"] = tc.series
			sent := len(out.samples)
			if err := p.turn(t.Context(), out); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			st := p.Stats()
			if st.Failed != 1 || !st.UpTo.Equal(after(0)) || !strings.Contains(st.Error, tc.want) || len(out.samples) != sent {
				t.Errorf("%+v, %d samples more", st, len(out.samples)-sent)
			}
			if tc.count != nil && tc.count(st) == 0 {
				t.Errorf("not counted: %+v", st)
			}
			w.prom.answer, w.prom.series = nil, nil
			p.mustPoll(t, out)
			if st := p.Stats(); !st.UpTo.Equal(after(5)) || st.Error != "" {
				t.Errorf("afterwards %+v", st)
			}
		})
	}
}

func TestPrometheusLeavesOut(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`"l%d":"v"`, i))
	}
	one := []fakeSample{{after(-1), 1}}
	w.prom.series["level"] = []fakeSeries{
		{strings.Join(many, ","), one}, {`"a":"` + strings.Repeat("x", 257) + `"`, one}, {`"é":"v"`, one}, {`"series":"a"`, one},
	}
	w.now = after(2)
	p, err := newProm(w, &memoryCursor{})
	mustDo(t, err)
	p.mustPoll(t, out)
	if got := out.of("level"); len(got) != 1 || got[0].Labels["series"] != "a" {
		t.Errorf("%+v", got)
	}
	if st := p.Stats(); st.LeftOut != 3 || !st.UpTo.Equal(after(0)) {
		t.Errorf("%+v", st)
	}
}

// A long absence is read in parts that keep within the limits, and what is too
// long ago is a gap.
func TestPrometheusCatchesUp(t *testing.T) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	w.now = after(2)
	p, err := newProm(w, cur)
	mustDo(t, err)
	p.mustPoll(t, out)
	const series = 20
	for i := range series {
		s := fakeSeries{labels: fmt.Sprintf(`"series":"%d"`, i)}
		for sec := 1.0; sec < 7200; sec += 5 {
			s.samples = append(s.samples, fakeSample{after(sec), 1})
		}
		w.prom.series["level"] = append(w.prom.series["level"], s)
	}
	w.now = after(7202)
	if p, err = newProm(w, cur); err != nil {
		t.Fatal(err)
	}
	sends := len(out.samples)
	p.mustPoll(t, out)
	if got, want := len(out.of("level")), series*720; got != want {
		t.Errorf("%d samples, want the %d of the last hour", got, want)
	}
	if beats := out.of("up_to"); len(beats) != 1+720 || !beats[1].Time.Equal(after(3605)) {
		t.Errorf("%d heartbeats, the second at %v", len(beats), beats[1].Time)
	}
	if st := p.Stats(); st.Refused != 0 || len(out.samples)-sends != int(st.Sent) {
		t.Errorf("%+v", st)
	}

	// Answers that exceed the limit at first: the ranges are halved.
	w.prom.series["level"] = nil
	w.prom.series["sum(level)"] = nil
	for i := range 1000 {
		s := fakeSeries{labels: fmt.Sprintf(`"series":"%d"`, i)}
		for sec := 7201.0; sec < 7800; sec += 5 {
			s.samples = append(s.samples, fakeSample{after(sec), 1})
		}
		w.prom.series["level"] = append(w.prom.series["level"], s)
	}
	w.now = after(7802)
	p.mustPoll(t, out)
	if st := p.Stats(); st.Refused == 0 || !st.UpTo.Equal(after(7800)) || st.Error != "" {
		t.Errorf("%+v", st)
	}
	if got, want := len(out.of("level")), series*720+1000*120; got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
}

func TestPrometheusClockStepsBack(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	w.now = after(62)
	p, err := newProm(w, &memoryCursor{})
	mustDo(t, err)
	p.mustPoll(t, out)
	w.now = after(32)
	if err := p.turn(t.Context(), out); err == nil || !strings.Contains(err.Error(), "12:01:00Z, which this clock has not reached") {
		t.Errorf("%v", err)
	}
	w.now = after(67)
	p.mustPoll(t, out)
	if beats := out.of("up_to"); len(beats) != 2 || !beats[1].Time.Equal(after(65)) {
		t.Errorf("%+v", beats)
	}
}

// A server that fills gaps is not asked to evaluate anything.
func TestPrometheusLookback(t *testing.T) {
	for _, tc := range []struct {
		name     string
		lookback bool
		flags    string
		want     string
	}{
		{"takes the parameter", true, "5m", ""},
		{"passes over it", false, "5m", "--query.lookback-delta=4s999ms"},
		{"passes over it and fills nothing", false, "4s999ms", ""},
		{"fills one step", false, "5s", "fill gaps of up to 5s"},
		{"does not say", false, "", "fill gaps of up to 5m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, out := newWorld(t), &recorder{}
			w.prom.lookback, w.prom.flags = tc.lookback, tc.flags
			p, err := newProm(w, &memoryCursor{})
			mustDo(t, err)
			err = p.turn(t.Context(), out)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if tc.want != "" && len(out.samples) > 0 {
				t.Errorf("%d samples", len(out.samples))
			}
		})
	}
}

func TestPrometheusCredentials(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		mustDo(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	w := newWorld(t)
	secure := httptest.NewTLSServer(w.prom)
	t.Cleanup(secure.Close)
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	var got string
	w.prom.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		got = r.Header.Get("Authorization")
		return false
	}
	for _, tc := range []struct {
		name   string
		source criterion.Source
		want   string
		err    string
	}{
		{"token", criterion.Source{CAFile: ca, TokenFile: write("token", "abc\n")}, "Bearer abc", ""},
		{"password", criterion.Source{CAFile: ca, User: "me", PasswordFile: write("password", "pw")}, "Basic bWU6cHc=", ""},
		{"none", criterion.Source{CAFile: ca}, "", ""},
		{"another certificate", criterion.Source{}, "", "certificate"},
		{"empty token", criterion.Source{CAFile: ca, TokenFile: write("empty", "\n")}, "", "empty"},
		{"no token", criterion.Source{CAFile: ca, TokenFile: filepath.Join(dir, "none")}, "", "no such file"},
		{"no certificate in the file", criterion.Source{CAFile: write("not.pem", "x")}, "", "holds no certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := tc.source
			src.Name, src.URL, src.Step, src.QueryOffset = "s", secure.URL, promStep, time.Second
			got = ""
			p, err := NewPrometheus(PrometheusConfig{Source: src, Signals: promSignals(), Cursor: &memoryCursor{}, Now: w.clock, Log: zerolog.Nop()})
			if err == nil {
				err = p.turn(t.Context(), &recorder{})
			}
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%v, want %q", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("authorisation %q, want %q", got, tc.want)
			}
		})
	}
}

// Run polls at each step by the real clock, goes on after failures and ends
// with its context.
func TestPrometheusRuns(t *testing.T) {
	w, out := newWorld(t), &recorder{}
	failures := 2
	w.prom.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if failures--; failures >= 0 {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	p, err := NewPrometheus(PrometheusConfig{
		Source:  criterion.Source{Name: "s", Kind: criterion.PrometheusKind, URL: w.prom.URL, Step: time.Second},
		Signals: promSignals(), Cursor: &memoryCursor{}, Log: zerolog.Nop(),
	})
	mustDo(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, out) }()
	for len(out.of("up_to")) < 4 {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if st := p.Stats(); st.Failed != 2 {
		t.Errorf("%+v", st)
	}
	beats := out.of("up_to")
	for i := range beats[1:] {
		if d := beats[i+1].Time.Sub(beats[i].Time); d != time.Second {
			t.Errorf("%v between two heartbeats", d)
		}
	}
}

func TestEncodeBatches(t *testing.T) {
	var in []Sample
	for i := range 25_000 {
		in = append(in, Sample{
			Stream: fmt.Sprintf("s%d", i%3), Seq: uint64(i + 1), Signal: "level", Labels: map[string]string{"l": strings.Repeat("v", 200)},
			Time: after(float64(i)), Value: float64(i),
		})
	}
	batches, err := encodeBatches(in)
	mustDo(t, err)
	var got []Sample
	for _, b := range batches {
		part, err := ParseBatch("s", b)
		mustDo(t, err)
		got = append(got, part...)
	}
	if len(got) != len(in) || len(batches) < 6 {
		t.Fatalf("%d samples in %d batches", len(got), len(batches))
	}
	for i := range in {
		if got[i].Stream != in[i].Stream || got[i].Seq != in[i].Seq {
			t.Fatalf("sample %d: %+v", i, got[i])
		}
	}
	if _, err := encodeBatches([]Sample{{Signal: strings.Repeat("x", MaxBatch)}}); !errors.Is(err, ErrBatch) {
		t.Errorf("a sample larger than a batch: %v", err)
	}
}
