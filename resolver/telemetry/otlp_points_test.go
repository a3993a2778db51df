package telemetry

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"assay/resolver/criterion"
)

// otlpRegistry adds members to one signal, s, beside the heartbeat.
func otlpRegistry(t testing.TB, kind criterion.Kind, members string) *criterion.Registry {
	t.Helper()
	const common = `"source":"app","heartbeat":"beat","writer":"sensor/app","unit":"1","interval":"1s","max_staleness":"10s","coverage_floor":0.8,"max_gap":"5s","allowed_lateness":"0s","max_skew":"0s"`
	return mustRegistry(t, `{"v":1,"sources":[{"name":"app","kind":"otlp","listen":"127.0.0.1:4318"}],"signals":[`+
		`{"name":"beat","kind":"gauge","metric":"app.alive",`+common+`},`+
		`{"name":"s","kind":"`+string(kind)+`",`+members+`,`+common+`}]}`)
}

func otlpSignalsOf(t testing.TB, kind criterion.Kind, members string) otlpSignals {
	t.Helper()
	return newOTLPSignals("app", otlpRegistry(t, kind, members).SignalsOf("app"))
}

var otlpNow = time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)

// metricOf is one metric of one resource and scope with attributes each.
func metricOf(name string) (pmetric.Metrics, pmetric.Metric) {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "shop")
	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName("lib")
	sm.Scope().SetVersion("1.2")
	sm.Scope().Attributes().PutBool("beta", true)
	m := sm.Metrics().AppendEmpty()
	m.SetName(name)
	m.SetUnit("By")
	return md, m
}

func fill(p pmetric.NumberDataPoint, value any, start, at time.Time) pmetric.NumberDataPoint {
	switch v := value.(type) {
	case int:
		p.SetIntValue(int64(v))
	case float64:
		p.SetDoubleValue(v)
	}
	if !start.IsZero() {
		p.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	}
	p.SetTimestamp(pcommon.NewTimestampFromTime(at))
	return p
}

func TestOTLPPoints(t *testing.T) {
	at, start := otlpNow.Add(-time.Second), otlpNow.Add(-time.Hour)
	gauge := func(values ...any) func(pmetric.Metric) {
		return func(m pmetric.Metric) {
			m.SetEmptyGauge()
			for _, v := range values {
				fill(m.Gauge().DataPoints().AppendEmpty(), v, time.Time{}, at)
			}
		}
	}
	sum := func(monotonic bool, how pmetric.AggregationTemporality, start time.Time) func(pmetric.Metric) {
		return func(m pmetric.Metric) {
			m.SetEmptySum().SetIsMonotonic(monotonic)
			m.Sum().SetAggregationTemporality(how)
			fill(m.Sum().DataPoints().AppendEmpty(), 7, start, at)
		}
	}
	histogram := func(how pmetric.AggregationTemporality, sum bool) func(pmetric.Metric) {
		return func(m pmetric.Metric) {
			m.SetEmptyHistogram().SetAggregationTemporality(how)
			p := m.Histogram().DataPoints().AppendEmpty()
			p.SetTimestamp(pcommon.NewTimestampFromTime(at))
			p.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
			p.SetCount(3)
			if sum {
				p.SetSum(4.5)
			}
		}
	}
	const cumulative, delta = pmetric.AggregationTemporalityCumulative, pmetric.AggregationTemporalityDelta
	for name, c := range map[string]struct {
		kind    criterion.Kind
		members string
		metric  func(pmetric.Metric)
		want    []Sample
		reject  int64
		why     string
	}{
		"a whole number":         {"gauge", `"metric":"m"`, gauge(7), []Sample{{Value: 7}}, 0, ""},
		"a fraction":             {"gauge", `"metric":"m"`, gauge(7.5), []Sample{{Value: 7.5}}, 0, ""},
		"NaN is kept":            {"gauge", `"metric":"m"`, gauge(math.NaN()), []Sample{{Value: math.NaN()}}, 0, ""},
		"no value":               {"gauge", `"metric":"m"`, gauge(nil), nil, 1, "without the value"},
		"the unit":               {"gauge", `"metric":"m","metric_unit":"By"`, gauge(7), []Sample{{Value: 7}}, 0, ""},
		"another unit":           {"gauge", `"metric":"m","metric_unit":"KiBy"`, gauge(7, 8), nil, 2, "unit"},
		"another metric":         {"gauge", `"metric":"n"`, gauge(7), nil, 0, ""},
		"a running total":        {"counter", `"metric":"m"`, sum(true, cumulative, start), []Sample{{Value: 7, Start: start}}, 0, ""},
		"from an unknown start":  {"counter", `"metric":"m"`, sum(true, cumulative, time.Time{}), []Sample{{Value: 7}}, 0, ""},
		"of no length":           {"counter", `"metric":"m"`, sum(true, cumulative, at), []Sample{{Value: 7, Start: at}}, 0, ""},
		"that starts afterwards": {"counter", `"metric":"m"`, sum(true, cumulative, at.Add(1)), []Sample{{Value: 7}}, 0, ""},
		"up and down":            {"gauge", `"metric":"m"`, sum(false, cumulative, start), []Sample{{Value: 7}}, 0, ""},
		"up and down, a counter": {"counter", `"metric":"m"`, sum(false, cumulative, start), nil, 1, "monotonic: false"},
		"a total as a gauge":     {"gauge", `"metric":"m"`, sum(true, cumulative, start), nil, 1, "monotonic: true"},
		"a delta":                {"counter", `"metric":"m"`, sum(true, delta, start), nil, 1, "delta temporality"},
		"no temporality":         {"counter", `"metric":"m"`, sum(true, 0, start), nil, 1, "temporality"},
		"no data":                {"gauge", `"metric":"m"`, func(pmetric.Metric) {}, nil, 0, ""},
		"a count":                {"counter", `"metric":"m","field":"count"`, histogram(cumulative, true), []Sample{{Value: 3, Start: start}}, 0, ""},
		"a sum":                  {"counter", `"metric":"m","field":"sum"`, histogram(cumulative, true), []Sample{{Value: 4.5, Start: start}}, 0, ""},
		"a missing sum":          {"counter", `"metric":"m","field":"sum"`, histogram(cumulative, false), nil, 1, "without the value"},
		"a histogram's deltas":   {"counter", `"metric":"m","field":"count"`, histogram(delta, true), nil, 1, "delta"},
		"not asked what of it":   {"counter", `"metric":"m"`, histogram(cumulative, true), nil, 1, "count or sum"},
		"a count of a gauge":     {"counter", `"metric":"m","field":"count"`, gauge(7), nil, 1, "no count"},
		"an exponential histogram": {"counter", `"metric":"m","field":"count"`, func(m pmetric.Metric) {
			m.SetEmptyExponentialHistogram().SetAggregationTemporality(cumulative)
			p := m.ExponentialHistogram().DataPoints().AppendEmpty()
			p.SetTimestamp(pcommon.NewTimestampFromTime(at))
			p.SetCount(9)
		}, []Sample{{Value: 9}}, 0, ""},
		"a summary": {"counter", `"metric":"m","field":"sum"`, func(m pmetric.Metric) {
			p := m.SetEmptySummary().DataPoints().AppendEmpty()
			p.SetTimestamp(pcommon.NewTimestampFromTime(at))
			p.SetSum(2)
		}, []Sample{{Value: 2}}, 0, ""},
		"no recorded value": {"gauge", `"metric":"m"`, func(m pmetric.Metric) {
			p := fill(m.SetEmptyGauge().DataPoints().AppendEmpty(), nil, start, at)
			p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		}, nil, 0, ""},
		"matched by resource, scope and attribute": {"gauge",
			`"metric":"m","match":{"resource.attributes.service.name":"shop","scope.name":"lib","scope.version":"1.2","scope.attributes.beta":"true","attributes.n":"5"},
			 "labels_from":{"n":"attributes.n","absent":"attributes.x","list":"attributes.list"}`,
			func(m pmetric.Metric) {
				points := m.SetEmptyGauge().DataPoints()
				fill(points.AppendEmpty(), 1, time.Time{}, at)
				p := fill(points.AppendEmpty(), 2, time.Time{}, at)
				p.Attributes().PutInt("n", 5)
				p.Attributes().PutEmptySlice("list").AppendEmpty().SetStr("a")
			}, []Sample{{Value: 2, Labels: map[string]string{"n": "5"}}}, 0, ""},
		"two series that become one": {"gauge", `"metric":"m"`, func(m pmetric.Metric) {
			points := m.SetEmptyGauge().DataPoints()
			fill(points.AppendEmpty(), 1, time.Time{}, at).Attributes().PutStr("core", "0")
			fill(points.AppendEmpty(), 2, time.Time{}, at).Attributes().PutStr("core", "1")
		}, nil, 2, "labels_from"},
		"two series that become one, one without a value": {"gauge", `"metric":"m"`, func(m pmetric.Metric) {
			points := m.SetEmptyGauge().DataPoints()
			fill(points.AppendEmpty(), 1, time.Time{}, at).Attributes().PutStr("core", "0")
			fill(points.AppendEmpty(), nil, time.Time{}, at).Attributes().PutStr("core", "1")
		}, nil, 2, "without the value"},
		"two of three that become one": {"gauge", `"metric":"m","labels_from":{"cpu":"attributes.cpu"}`, func(m pmetric.Metric) {
			points := m.SetEmptyGauge().DataPoints()
			for i, at := range []time.Time{at, at.Add(-time.Second), at} {
				p := fill(points.AppendEmpty(), i+1, time.Time{}, at)
				p.Attributes().PutStr("cpu", []string{"a", "a", "b"}[i])
				p.Attributes().PutInt("core", int64(i))
			}
		}, []Sample{{Value: 3, Labels: map[string]string{"cpu": "b"}}}, 2, "labels_from"},
		"one series that contradicts itself": {"gauge", `"metric":"m"`, gauge(1, 2), []Sample{{Value: 1}, {Value: 2}}, 0, ""},
		"another unit of what matches alone": {"gauge", `"metric":"m","metric_unit":"KiBy","match":{"attributes.n":"5"}`, func(m pmetric.Metric) {
			points := m.SetEmptyGauge().DataPoints()
			for n := range 7 {
				fill(points.AppendEmpty(), n, time.Time{}, at).Attributes().PutInt("n", int64(n))
			}
		}, nil, 1, "unit"},
		"a series that no criterion can name": {"gauge", `"metric":"m","labels_from":{"core":"attributes.core"}`, func(m pmetric.Metric) {
			p := fill(m.SetEmptyGauge().DataPoints().AppendEmpty(), 1, time.Time{}, at)
			p.Attributes().PutStr("core", strings.Repeat("x", 257))
		}, nil, 0, ""},
		"no time": {"gauge", `"metric":"m"`, func(m pmetric.Metric) { m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1) }, nil, 1, "time 0"},
		"far ahead": {"gauge", `"metric":"m"`, func(m pmetric.Metric) {
			fill(m.SetEmptyGauge().DataPoints().AppendEmpty(), 1, time.Time{}, otlpNow.Add(61*time.Second))
		}, nil, 1, "ahead"},
		"no time at all": {"gauge", `"metric":"m"`, func(m pmetric.Metric) {
			p := m.SetEmptyGauge().DataPoints().AppendEmpty()
			p.SetIntValue(1)
			p.SetTimestamp(math.MaxUint64)
		}, nil, 1, "time 1844"},
	} {
		t.Run(name, func(t *testing.T) {
			o := otlpSignalsOf(t, c.kind, c.members)
			md, m := metricOf("m")
			c.metric(m)
			y := o.metricSamples(md, otlpNow)
			if y.rejected != c.reject || (y.why == nil) != (c.why == "") || y.why != nil && !strings.Contains(y.why.Error(), c.why) {
				t.Errorf("rejected %d: %v; want %d: %s", y.rejected, y.why, c.reject, c.why)
			}
			if len(y.samples) != len(c.want) {
				t.Fatalf("%+v, want %+v", y.samples, c.want)
			}
			for i, want := range c.want {
				s := y.samples[i]
				same := s.Value == want.Value || s.Value != s.Value && want.Value != want.Value
				if !same || !s.Start.Equal(want.Start) || !maps.Equal(s.Labels, want.Labels) || s.Signal != "s" || s.Source != "app" || !s.Time.Equal(at) || s.Seq != uint64(at.UnixNano()) {
					t.Errorf("%+v, want %+v", s, want)
				}
			}
		})
	}
}

// Each of what identifies a series makes a stream of its own, and the order of
// attributes does not.
func TestOTLPStreams(t *testing.T) {
	o := otlpSignalsOf(t, "gauge", `"metric":"m"`)
	stream := func(change func(pmetric.ResourceMetrics, pmetric.ScopeMetrics, pmetric.NumberDataPoint)) string {
		t.Helper()
		md, m := metricOf("m")
		p := fill(m.SetEmptyGauge().DataPoints().AppendEmpty(), 1, time.Time{}, otlpNow)
		rm := md.ResourceMetrics().At(0)
		change(rm, rm.ScopeMetrics().At(0), p)
		y := o.metricSamples(md, otlpNow)
		if len(y.samples) != 1 {
			t.Fatalf("%+v", y)
		}
		return y.samples[0].Stream
	}
	seen := map[string]string{}
	for name, change := range map[string]func(pmetric.ResourceMetrics, pmetric.ScopeMetrics, pmetric.NumberDataPoint){
		"plain": func(pmetric.ResourceMetrics, pmetric.ScopeMetrics, pmetric.NumberDataPoint) {},
		"resource": func(r pmetric.ResourceMetrics, _ pmetric.ScopeMetrics, _ pmetric.NumberDataPoint) {
			r.Resource().Attributes().PutStr("a", "b")
		},
		"scope": func(_ pmetric.ResourceMetrics, s pmetric.ScopeMetrics, _ pmetric.NumberDataPoint) {
			s.Scope().Attributes().PutStr("a", "b")
		},
		"name": func(_ pmetric.ResourceMetrics, s pmetric.ScopeMetrics, _ pmetric.NumberDataPoint) {
			s.Scope().SetName("l")
		},
		"version": func(_ pmetric.ResourceMetrics, s pmetric.ScopeMetrics, _ pmetric.NumberDataPoint) {
			s.Scope().SetVersion("")
		},
		"attribute": func(_ pmetric.ResourceMetrics, _ pmetric.ScopeMetrics, p pmetric.NumberDataPoint) {
			p.Attributes().PutStr("a", "1")
		},
		"its type": func(_ pmetric.ResourceMetrics, _ pmetric.ScopeMetrics, p pmetric.NumberDataPoint) {
			p.Attributes().PutInt("a", 1)
		},
	} {
		s := stream(change)
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s share a stream", name, other)
		}
		seen[s] = name
	}
	ab := stream(func(_ pmetric.ResourceMetrics, _ pmetric.ScopeMetrics, p pmetric.NumberDataPoint) {
		p.Attributes().PutStr("a", "1")
		p.Attributes().PutStr("b", "2")
	})
	ba := stream(func(_ pmetric.ResourceMetrics, _ pmetric.ScopeMetrics, p pmetric.NumberDataPoint) {
		p.Attributes().PutStr("b", "2")
		p.Attributes().PutStr("a", "1")
	})
	if ab != ba {
		t.Error("the order of attributes makes another stream")
	}
}

func TestOTLPRecords(t *testing.T) {
	o := otlpSignalsOf(t, "event", `"match":{"event_name":"oom","severity_number":"17","severity_text":"ERROR","body":"killed","resource.attributes.service.name":"shop","attributes.unit":"x"},"labels_from":{"pid":"attributes.pid"}`)
	logs := func(change ...func(plog.LogRecord)) plog.Logs {
		ld := plog.NewLogs()
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", "shop")
		records := rl.ScopeLogs().AppendEmpty().LogRecords()
		for _, c := range change {
			r := records.AppendEmpty()
			r.SetTimestamp(pcommon.NewTimestampFromTime(otlpNow))
			r.SetEventName("oom")
			r.SetSeverityNumber(plog.SeverityNumberError)
			r.SetSeverityText("ERROR")
			r.Body().SetStr("killed")
			r.Attributes().PutStr("unit", "x")
			r.Attributes().PutInt("pid", 7)
			c(r)
		}
		return ld
	}
	same := func(plog.LogRecord) {}
	for name, c := range map[string]struct {
		change         func(plog.LogRecord)
		samples, wrong int
		unnamed        int
	}{
		"the event":         {same, 1, 0, 0},
		"another name":      {func(r plog.LogRecord) { r.SetEventName("oom2") }, 0, 0, 0},
		"another severity":  {func(r plog.LogRecord) { r.SetSeverityNumber(plog.SeverityNumberError2) }, 0, 0, 0},
		"another text":      {func(r plog.LogRecord) { r.SetSeverityText("Error") }, 0, 0, 0},
		"another body":      {func(r plog.LogRecord) { r.Body().SetStr("killed ") }, 0, 0, 0},
		"a body of a map":   {func(r plog.LogRecord) { r.Body().SetEmptyMap() }, 0, 0, 0},
		"another attribute": {func(r plog.LogRecord) { r.Attributes().PutStr("unit", "y") }, 0, 0, 0},
		"no time but observed": {func(r plog.LogRecord) {
			r.SetTimestamp(0)
			r.SetObservedTimestamp(pcommon.NewTimestampFromTime(otlpNow))
		}, 1, 0, 0},
		"no time":                 {func(r plog.LogRecord) { r.SetTimestamp(0) }, 0, 1, 0},
		"far ahead":               {func(r plog.LogRecord) { r.SetTimestamp(pcommon.NewTimestampFromTime(otlpNow.Add(time.Hour))) }, 0, 1, 0},
		"no label":                {func(r plog.LogRecord) { r.Attributes().Remove("pid") }, 1, 0, 0},
		"a label that is no text": {func(r plog.LogRecord) { r.Attributes().PutStr("pid", "\xff") }, 0, 0, 1},
		"a long label":            {func(r plog.LogRecord) { r.Attributes().PutStr("pid", strings.Repeat("7", 257)) }, 0, 0, 1},
	} {
		y := o.logSamples(logs(c.change), otlpNow)
		if len(y.samples) != c.samples || y.rejected != int64(c.wrong) || y.unnamed != c.unnamed {
			t.Errorf("%s: %+v", name, y)
		}
		for _, s := range y.samples {
			if s.Signal != "s" || !s.Time.Equal(otlpNow) || s.Value != 1 || s.Seq == 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	ids := func(ld plog.Logs) (out []uint64) {
		for _, s := range o.logSamples(ld, otlpNow).samples {
			out = append(out, s.Seq)
		}
		return out
	}
	other := func(r plog.LogRecord) { r.SetTraceID(pcommon.TraceID{1}) }
	first, again := ids(logs(same, same, other)), ids(logs(same, same, other))
	if len(first) != 3 || first[0] == first[1] || first[0] == first[2] || fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("%v, sent again %v", first, again)
	}
	if split := ids(logs(other)); split[0] != first[2] {
		t.Error("a record is another one in another request")
	}
}

// A point counts once, however many signals ask for it, and is a sample of
// those that can have it.
func TestOTLPPointsCountOnce(t *testing.T) {
	o := newOTLPSignals("app", []criterion.Signal{
		{Name: "a", Kind: criterion.Gauge, Metric: "m", MetricUnit: "KiBy"}, {Name: "b", Kind: criterion.Gauge, Metric: "m", MetricUnit: "s"},
		{Name: "c", Kind: criterion.Gauge, Metric: "m"}, {Name: "d", Kind: criterion.Gauge, Metric: "m", LabelsFrom: map[string]string{"n": "attributes.n"}},
	})
	md, m := metricOf("m")
	points := m.SetEmptyGauge().DataPoints()
	for n := range 3 {
		fill(points.AppendEmpty(), n, time.Time{}, otlpNow).Attributes().PutInt("n", int64(n))
	}
	y := o.metricSamples(md, otlpNow)
	if y.rejected != 3 || len(y.samples) != 3 {
		t.Errorf("%d rejected, %+v", y.rejected, y.samples)
	}
	for n, s := range y.samples {
		if s.Signal != "d" || s.Value != float64(n) || s.Labels["n"] != fmt.Sprint(n) {
			t.Errorf("%+v", s)
		}
	}
}
