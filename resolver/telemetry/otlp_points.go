package telemetry

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"assay/internal/otlp"
	"assay/resolver/criterion"
)

// otlpSignals picks the samples of one source's signals out of what OTLP brings.
type otlpSignals struct {
	source  string
	metrics map[string][]criterion.Signal // by the metric's name
	logs    []criterion.Signal
}

func newOTLPSignals(source string, signals []criterion.Signal) otlpSignals {
	o := otlpSignals{source: source, metrics: make(map[string][]criterion.Signal)}
	for _, s := range signals {
		if s.Metric != "" {
			o.metrics[s.Metric] = append(o.metrics[s.Metric], s)
		} else {
			o.logs = append(o.logs, s)
		}
	}
	return o
}

// otlpYield is what became of one request.
type otlpYield struct {
	samples  []Sample
	rejected int64 // points or records that a signal asks for and that are no sample
	why      error // of the first
	unnamed  int   // of series that no criterion can name
}

// otlpScope is where a point or a record stands.
type otlpScope struct {
	resource   *otlpResource
	scope      pcommon.InstrumentationScope
	attributes map[string]pcommon.Value // the scope's
	id         [sha256.Size]byte        // of both
}

// otlpResource is what all of a resource's points share.
type otlpResource struct {
	attributes map[string]pcommon.Value
	id         [sha256.Size]byte
}

func resourceOf(r pcommon.Resource) *otlpResource {
	return &otlpResource{otlp.Index(r.Attributes()), sha256.Sum256(appendMap(nil, r.Attributes()))}
}

func scopeOf(resource *otlpResource, scope pcommon.InstrumentationScope) *otlpScope {
	own := appendText(appendText(resource.id[:], scope.Name()), scope.Version())
	return &otlpScope{resource, scope, otlp.Index(scope.Attributes()), sha256.Sum256(appendMap(own, scope.Attributes()))}
}

// lookup finds what a path of the registry names: resource.attributes.K,
// scope.name, scope.version, scope.attributes.K or attributes.K. A value that
// is an array, a map or bytes has no text.
func (sc *otlpScope) lookup(path string, attributes pcommon.Map) (string, bool) {
	for _, in := range []struct {
		prefix string
		get    func(key string) (pcommon.Value, bool)
	}{
		{criterion.OTLPResource, indexed(sc.resource.attributes)}, {criterion.OTLPScope, indexed(sc.attributes)}, {criterion.OTLPAttribute, attributes.Get},
	} {
		key, ok := strings.CutPrefix(path, in.prefix)
		if !ok {
			continue
		}
		v, ok := in.get(key)
		if !ok {
			return "", false
		}
		switch v.Type() {
		case pcommon.ValueTypeStr, pcommon.ValueTypeBool, pcommon.ValueTypeInt, pcommon.ValueTypeDouble:
			return v.AsString(), true
		}
		return "", false
	}
	switch path {
	case criterion.OTLPScopeName:
		return sc.scope.Name(), true
	case criterion.OTLPScopeVersion:
		return sc.scope.Version(), true
	}
	return "", false
}

func indexed(m map[string]pcommon.Value) func(string) (pcommon.Value, bool) {
	return func(key string) (pcommon.Value, bool) { v, ok := m[key]; return v, ok }
}

type lookup func(path string) (string, bool)

func matches(s *criterion.Signal, get lookup) bool {
	for path, want := range s.Match {
		if got, ok := get(path); !ok || got != want {
			return false
		}
	}
	return true
}

// otlpLabels leaves out what is not there. The error means a series that no
// criterion can name.
func otlpLabels(s *criterion.Signal, get lookup) (map[string]string, error) {
	if len(s.LabelsFrom) == 0 {
		return nil, nil
	}
	labels := make(map[string]string)
	for name, path := range s.LabelsFrom {
		if v, ok := get(path); ok {
			labels[name] = v
		}
	}
	return labels, criterion.CheckLabels(labels)
}

// metricSamples takes the points that signals ask for. A stream is resource,
// scope, metric and attributes, and the number in it the point's time: a point
// sent again is the same sample, and another value at its time contradicts it.
func (o *otlpSignals) metricSamples(md pmetric.Metrics, now time.Time) otlpYield {
	t := otlpTaker{
		source: o.source, now: now, refused: make(map[int]bool), streams: make(map[string]string), ambiguous: make(map[string]bool),
	}
	for _, rm := range md.ResourceMetrics().All() {
		var resource *otlpResource
		for _, sm := range rm.ScopeMetrics().All() {
			var sc *otlpScope
			for _, m := range sm.Metrics().All() {
				signals := o.metrics[m.Name()]
				if len(signals) == 0 {
					continue
				}
				if resource == nil {
					resource = resourceOf(rm.Resource())
				}
				if sc == nil {
					sc = scopeOf(resource, sm.Scope())
				}
				t.metric(signals, sc, m)
			}
		}
	}
	return t.yield()
}

// otlpTaker collects the samples of one request.
type otlpTaker struct {
	source    string
	now       time.Time
	taken     []takenPoint
	points    int               // seen so far
	refused   map[int]bool      // of them; each counts once, however many signals ask for it
	why       error             // of the first
	streams   map[string]string // by series: the one that runs into it
	ambiguous map[string]bool   // series into which several run
	unnamed   int
}

// takenPoint is a sample with its series and the number of its point.
type takenPoint struct {
	sample Sample
	series string
	point  int
}

func (t *otlpTaker) refuse(point int, why error) {
	t.refused[point] = true
	t.why = cmp.Or(t.why, why)
}

// yield leaves out the series into which several streams run: nobody can say
// which of their points are of the series that a criterion names.
func (t *otlpTaker) yield() otlpYield {
	y := otlpYield{unnamed: t.unnamed}
	for _, p := range t.taken {
		if t.ambiguous[p.series] {
			t.refuse(p.point, fmt.Errorf("signal %s: two series of one request become one: labels_from must tell them apart", p.sample.Signal))
			continue
		}
		y.samples = append(y.samples, p.sample)
	}
	y.rejected, y.why = int64(len(t.refused)), t.why
	return y
}

// otlpPoint is what the points of all types have.
type otlpPoint interface {
	Attributes() pcommon.Map
	StartTimestamp() pcommon.Timestamp
	Timestamp() pcommon.Timestamp
	Flags() pmetric.DataPointFlags
}

// distribution is a point of which count and sum are counters.
type distribution interface {
	otlpPoint
	Count() uint64
	Sum() float64
}

// hasSum is what a distribution has whose sum may be missing.
type hasSum interface{ HasSum() bool }

var errNoValue = errors.New("a point without the value")

// askedMetric is a metric with the signals that name it.
type askedMetric struct {
	name    string
	scope   *otlpScope
	signals []criterion.Signal
	wrong   []error // by signal: why none of the points can be its sample
}

// value is what a signal takes of a point.
type value func(s *criterion.Signal) (float64, error)

// point takes one point for each of the signals that match it.
func (t *otlpTaker) point(m *askedMetric, p otlpPoint, value value) {
	t.points++
	if p.Flags().NoRecordedValue() {
		return
	}
	get := func(path string) (string, bool) { return m.scope.lookup(path, p.Attributes()) }
	for i := range m.signals {
		s := &m.signals[i]
		if !matches(s, get) {
			continue
		}
		labels, err := otlpLabels(s, get)
		if err != nil {
			t.unnamed++
			continue
		}
		series := streamOf("otlp", s.Name, labels, "")
		stream := streamOf("otlp", s.Name, labels, string(appendMap(appendText(m.scope.id[:], m.name), p.Attributes())))
		if other, ok := t.streams[series]; ok && other != stream {
			t.ambiguous[series] = true
		}
		t.streams[series] = stream
		at, timeErr := eventTime(p.Timestamp(), t.now)
		v, valueErr := value(s)
		if err := cmp.Or(m.wrong[i], valueErr, timeErr); err != nil {
			t.refuse(t.points, fmt.Errorf("metric %s: %w", m.name, err))
			continue
		}
		sample := Sample{
			Source: t.source, Stream: stream, Seq: uint64(p.Timestamp()), Signal: s.Name, Labels: labels, Time: at, Value: v,
		}
		if start := p.StartTimestamp(); s.Kind == criterion.Counter && start != 0 && start <= p.Timestamp() {
			sample.Start = start.AsTime()
		}
		t.taken = append(t.taken, takenPoint{sample, series, t.points})
	}
}

// metric takes the points of one metric, whatever they are.
func (t *otlpTaker) metric(signals []criterion.Signal, sc *otlpScope, m pmetric.Metric) {
	asked := &askedMetric{name: m.Name(), scope: sc, signals: signals, wrong: make([]error, len(signals))}
	for i := range signals {
		asked.wrong[i] = mismatch(&signals[i], m)
	}
	number := func(points pmetric.NumberDataPointSlice) {
		for _, p := range points.All() {
			t.point(asked, p, func(*criterion.Signal) (float64, error) {
				switch p.ValueType() {
				case pmetric.NumberDataPointValueTypeInt:
					return float64(p.IntValue()), nil
				case pmetric.NumberDataPointValueTypeDouble:
					return p.DoubleValue(), nil
				}
				return 0, errNoValue
			})
		}
	}
	spread := func(p distribution) {
		t.point(asked, p, func(s *criterion.Signal) (float64, error) {
			if s.Field == criterion.FieldCount {
				return float64(p.Count()), nil
			}
			if h, ok := p.(hasSum); ok && !h.HasSum() {
				return 0, errNoValue
			}
			return p.Sum(), nil
		})
	}
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		number(m.Gauge().DataPoints())
	case pmetric.MetricTypeSum:
		number(m.Sum().DataPoints())
	case pmetric.MetricTypeHistogram:
		for _, p := range m.Histogram().DataPoints().All() {
			spread(p)
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, p := range m.ExponentialHistogram().DataPoints().All() {
			spread(p)
		}
	case pmetric.MetricTypeSummary:
		for _, p := range m.Summary().DataPoints().All() {
			spread(p)
		}
	}
}

// mismatch says why no point of the metric can be a sample of the signal. What
// a delta counts from is not in it: a lost request would be a wrong total.
func mismatch(s *criterion.Signal, m pmetric.Metric) error {
	if s.MetricUnit != "" && s.MetricUnit != m.Unit() {
		return fmt.Errorf("its unit is %q, the registry says %q", m.Unit(), s.MetricUnit)
	}
	temporality, monotonic, spread := pmetric.AggregationTemporalityCumulative, false, false
	switch m.Type() {
	case pmetric.MetricTypeGauge:
	case pmetric.MetricTypeSum:
		temporality, monotonic = m.Sum().AggregationTemporality(), m.Sum().IsMonotonic()
	case pmetric.MetricTypeHistogram:
		temporality, monotonic, spread = m.Histogram().AggregationTemporality(), true, true
	case pmetric.MetricTypeExponentialHistogram:
		temporality, monotonic, spread = m.ExponentialHistogram().AggregationTemporality(), true, true
	case pmetric.MetricTypeSummary:
		monotonic, spread = true, true
	default:
		return errors.New("no data")
	}
	switch {
	case temporality != pmetric.AggregationTemporalityCumulative:
		return fmt.Errorf("%s temporality; the exporter must send cumulative sums", strings.ToLower(temporality.String()))
	case spread && s.Field == "":
		return fmt.Errorf("%s is a distribution: the registry must ask for its count or sum", m.Type())
	case !spread && s.Field != "":
		return fmt.Errorf("%s has no %s", m.Type(), s.Field)
	case monotonic != (s.Kind == criterion.Counter):
		return fmt.Errorf("it is monotonic: %t; the registry has signal %s as a %s", monotonic, s.Name, s.Kind)
	}
	return nil
}

// eventTime refuses what the ingress would refuse, and with it a whole batch.
func eventTime(ts pcommon.Timestamp, now time.Time) (time.Time, error) {
	if ts == 0 || ts > math.MaxInt64 {
		return time.Time{}, fmt.Errorf("time %d", uint64(ts))
	}
	at := ts.AsTime()
	if ahead := at.Sub(now); ahead > DefaultMaxAhead {
		return at, fmt.Errorf("%v ahead of this clock", ahead)
	}
	return at, nil
}

// logSamples takes the records that signals ask for, one sample each. A
// record's number is a hash of all that it says, its time included, and of how
// many equal ones came before it in the request, so that a request sent again
// has the same ones.
func (o *otlpSignals) logSamples(ld plog.Logs, now time.Time) otlpYield {
	var y otlpYield
	if len(o.logs) == 0 {
		return y
	}
	equal := make(map[[sha256.Size]byte]uint64)
	for _, rl := range ld.ResourceLogs().All() {
		resource := resourceOf(rl.Resource())
		for _, sl := range rl.ScopeLogs().All() {
			sc := scopeOf(resource, sl.Scope())
			for _, r := range sl.LogRecords().All() {
				o.record(&y, sc, r, now, equal)
			}
		}
	}
	return y
}

func (o *otlpSignals) record(y *otlpYield, sc *otlpScope, r plog.LogRecord, now time.Time, equal map[[sha256.Size]byte]uint64) {
	get := func(path string) (string, bool) {
		switch path {
		case criterion.OTLPSeverityNumber:
			return strconv.Itoa(int(r.SeverityNumber())), true
		case criterion.OTLPSeverityText:
			return r.SeverityText(), true
		case criterion.OTLPEventName:
			return r.EventName(), true
		case criterion.OTLPBody:
			if r.Body().Type() != pcommon.ValueTypeStr {
				return "", false
			}
			return r.Body().Str(), true
		}
		return sc.lookup(path, r.Attributes())
	}
	for i := range o.logs {
		s := &o.logs[i]
		if !matches(s, get) {
			continue
		}
		labels, err := otlpLabels(s, get)
		if err != nil {
			y.unnamed++
			continue
		}
		ts := cmp.Or(r.Timestamp(), r.ObservedTimestamp())
		at, err := eventTime(ts, now)
		if err != nil {
			y.rejected++
			y.why = cmp.Or(y.why, fmt.Errorf("log record: %w", err))
			return
		}
		content := sha256.Sum256(appendRecord(appendText(sc.id[:], s.Name), r))
		id := sha256.Sum256(binary.AppendUvarint(content[:], equal[content]))
		equal[content]++
		y.samples = append(y.samples, Sample{
			Source: o.source, Stream: streamOf("otlp", s.Name, labels, ""), Seq: max(1, binary.BigEndian.Uint64(id[:])),
			Signal: s.Name, Labels: labels, Time: at, Value: 1,
		})
	}
}

// appendText appends a string so that no two lists of strings are one.
func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendMap appends attributes in the order of their keys.
func appendMap(dst []byte, m pcommon.Map) []byte {
	type pair struct {
		key   string
		value pcommon.Value
	}
	pairs := make([]pair, 0, m.Len())
	for k, v := range m.All() {
		pairs = append(pairs, pair{k, v})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	dst = binary.AppendUvarint(dst, uint64(len(pairs)))
	for _, p := range pairs {
		dst = appendAny(appendText(dst, p.key), p.value)
	}
	return dst
}

// appendAny tells values of different types apart that have one text.
func appendAny(dst []byte, v pcommon.Value) []byte {
	dst = append(dst, byte(v.Type()))
	switch v.Type() {
	case pcommon.ValueTypeMap:
		return appendMap(dst, v.Map())
	case pcommon.ValueTypeSlice:
		dst = binary.AppendUvarint(dst, uint64(v.Slice().Len()))
		for _, e := range v.Slice().All() {
			dst = appendAny(dst, e)
		}
		return dst
	}
	return appendText(dst, v.AsString())
}

func appendRecord(dst []byte, r plog.LogRecord) []byte {
	trace, span := r.TraceID(), r.SpanID()
	for _, n := range []uint64{
		uint64(r.Timestamp()), uint64(r.ObservedTimestamp()), uint64(r.SeverityNumber()), uint64(r.Flags()),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = appendText(appendText(dst, r.SeverityText()), r.EventName())
	dst = append(append(dst, trace[:]...), span[:]...)
	return appendMap(appendAny(dst, r.Body()), r.Attributes())
}
