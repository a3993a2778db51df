package criterion

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrSample means that bytes are not one sample.
var ErrSample = errors.New("malformed sample")

const (
	maxName       = 128
	maxLabels     = 16
	maxLabelValue = 256
	// Years of event times.
	minYear, maxYear = 1970, 2261
	// timeLayout is how event times are written: UTC, nine fractional digits.
	timeLayout = "2006-01-02T15:04:05.000000000Z"
)

// Sample is one measurement. Its identity is (Source, Stream, Seq); two samples
// of one identity with other content contradict each other.
type Sample struct {
	Source string            // the connection that sent it, never the payload's word
	Stream string            // boot or instance of the source
	Seq    uint64            // position in the stream
	Signal string            // name in the registry
	Labels map[string]string // match exactly
	Time   time.Time         // event time, UTC
	Start  time.Time         // since when a counter has counted; zero when unknown
	Value  float64           // NaN and the infinities are kept and cover nothing
}

// IsValid says whether the value is a number that a reducer may use.
func (s *Sample) IsValid() bool { return !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) }

// SameID says whether the two are one sample as far as their source says.
func (s *Sample) SameID(o *Sample) bool {
	return s.Seq == o.Seq && s.Stream == o.Stream && s.Source == o.Source
}

// Compare orders samples by source, event time, source seq and stream, and
// then by content, so that 0 means the same sample sent again.
func Compare(a, b *Sample) int {
	if c := cmp.Or(
		strings.Compare(a.Source, b.Source),
		a.Time.Compare(b.Time),
		cmp.Compare(a.Seq, b.Seq),
		strings.Compare(a.Stream, b.Stream),
		strings.Compare(a.Signal, b.Signal),
		a.Start.Compare(b.Start),
		cmp.Compare(math.Float64bits(a.Value), math.Float64bits(b.Value)),
	); c != 0 {
		return c
	}
	if maps.Equal(a.Labels, b.Labels) {
		return 0
	}
	return bytes.Compare(AppendLabels(nil, a.Labels), AppendLabels(nil, b.Labels))
}

// sampleWire is a sample as it stands in a batch, in a segment and in a file.
type sampleWire struct {
	Source *string           `json:"source"`
	Stream *string           `json:"stream"`
	Seq    *uint64           `json:"seq"`
	Signal *string           `json:"signal"`
	Labels map[string]string `json:"labels"`
	Time   *string           `json:"time"`
	Start  *string           `json:"start"`
	Value  jsontext.Value    `json:"value"`
}

// ParseSample reads one JSON object of the members seq, signal, labels, time,
// start and value, and source and stream if the caller gives none; other
// members are refused. The error is ErrSample.
func ParseSample(source, stream string, raw []byte) (Sample, error) {
	var w sampleWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return Sample{}, fmt.Errorf("%w: %w", ErrSample, err)
	}
	if (stream == "") == (w.Stream == nil) {
		return Sample{}, fmt.Errorf("%w: stream stands once, in the batch or in the sample", ErrSample)
	}
	if (source == "") == (w.Source == nil) {
		return Sample{}, fmt.Errorf("%w: source is the connection's or the file's, and stands in a sample where there is neither", ErrSample)
	}
	if w.Source != nil {
		source = *w.Source
	}
	if w.Stream != nil {
		stream = *w.Stream
	}
	s, err := w.sample(source, stream)
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %w", ErrSample, err)
	}
	return s, nil
}

// ReadSamples reads JSON lines, each a sample with its source: ErrSample with
// the number of the line for anything else.
func ReadSamples(r io.Reader) ([]Sample, error) {
	var samples []Sample
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		s, err := ParseSample("", "", lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		samples = append(samples, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(samples)+1, err)
	}
	return samples, nil
}

func (w *sampleWire) sample(source, stream string) (Sample, error) {
	switch {
	case w.Seq == nil || w.Signal == nil || w.Time == nil || w.Value == nil:
		return Sample{}, errors.New("seq, signal, time and value are required")
	case !IsSource(source):
		return Sample{}, fmt.Errorf("source %q", source)
	case !isToken(stream, maxName):
		return Sample{}, fmt.Errorf("stream %q", stream)
	case !IsSignal(*w.Signal):
		return Sample{}, fmt.Errorf("signal %q", *w.Signal)
	}
	s := Sample{Source: source, Stream: stream, Seq: *w.Seq, Signal: *w.Signal, Labels: w.Labels}
	if err := CheckLabels(w.Labels); err != nil {
		return Sample{}, err
	}
	var err error
	if s.Time, err = parseTime(*w.Time); err != nil {
		return Sample{}, fmt.Errorf("time: %w", err)
	}
	if w.Start != nil {
		if s.Start, err = parseTime(*w.Start); err != nil {
			return Sample{}, fmt.Errorf("start: %w", err)
		}
	}
	s.Value, err = parseValue(w.Value)
	return s, err
}

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not RFC 3339", s)
	}
	if t = t.UTC(); !IsEventTime(t) {
		return time.Time{}, fmt.Errorf("%q is outside the years %d to %d", s, minYear, maxYear)
	}
	return t, nil
}

// IsEventTime says whether a sample may be of this time: of the years 1970 to
// 2261, whose nanoseconds since 1970 fit into 63 bits.
func IsEventTime(t time.Time) bool {
	year := t.UTC().Year()
	return minYear <= year && year <= maxYear
}

// parseValue accepts the three values that JSON has no number for as strings.
func parseValue(v jsontext.Value) (float64, error) {
	switch string(v) {
	case `"NaN"`:
		return math.NaN(), nil
	case `"+Inf"`:
		return math.Inf(1), nil
	case `"-Inf"`:
		return math.Inf(-1), nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if v.Kind() != '0' || err != nil {
		return 0, fmt.Errorf("value %.40s is not a number", v)
	}
	return f, nil
}

// AppendSample appends the sample's one canonical encoding, without its
// source: a JSON object of fixed member order, sorted labels, UTC times.
func AppendSample(dst []byte, s *Sample) []byte {
	dst = append(dst, `{"stream":`...)
	dst = appendString(dst, s.Stream)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, s.Seq, 10)
	dst = append(dst, `,"signal":`...)
	dst = appendString(dst, s.Signal)
	if len(s.Labels) > 0 {
		dst = append(dst, `,"labels":`...)
		dst = AppendLabels(dst, s.Labels)
	}
	dst = append(dst, `,"time":"`...)
	dst = s.Time.UTC().AppendFormat(dst, timeLayout)
	if !s.Start.IsZero() {
		dst = append(dst, `","start":"`...)
		dst = s.Start.UTC().AppendFormat(dst, timeLayout)
	}
	dst = append(dst, `","value":`...)
	if s.IsValid() {
		dst = strconv.AppendFloat(dst, s.Value, 'g', -1, 64)
	} else {
		dst = append(dst, '"')
		dst = strconv.AppendFloat(dst, s.Value, 'g', -1, 64) // NaN, +Inf, -Inf
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// AppendLabels appends labels as a JSON object, sorted by name.
func AppendLabels(dst []byte, labels map[string]string) []byte {
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = appendString(dst, labels[k])
	}
	return append(dst, '}')
}

// appendString quotes s. Parsed strings are valid UTF-8; in others each bad
// byte becomes U+FFFD, which AppendQuote does beside reporting it.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// CheckLabels says why a sample cannot carry the labels. It names the first bad
// label by its name, so that the same labels always get the same words.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("%d labels, the limit is %d", len(labels), maxLabels)
	}
	bad, found := "", false
	for k, v := range labels {
		if (!IsSignal(k) || len(v) > maxLabelValue || !utf8.ValidString(v)) && (!found || k < bad) {
			bad, found = k, true
		}
	}
	switch v := labels[bad]; {
	case !found:
		return nil
	case !IsSignal(bad):
		return fmt.Errorf("label name %.60q", bad)
	case len(v) > maxLabelValue:
		return fmt.Errorf("label %q has %d bytes, the limit is %d", bad, len(v), maxLabelValue)
	}
	return fmt.Errorf("label %q is not UTF-8", bad)
}

// IsSignal says whether s may name a signal or a label: letters, digits and
// any of _ . : / -, starting with a letter or _.
func IsSignal(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && strings.IndexByte(".:/-", c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// isToken says whether s is printable ASCII without space or quotes.
func isToken(s string, limit int) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

// IsSource says whether s may name a telemetry source: one token of a NATS
// subject, of lower-case letters, digits, - and _, starting with a letter.
func IsSource(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z') && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}
