package otlp_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/otlp"
)

// TestMany: what is small on the wire and large once decoded is refused before it
// is, whatever the messages are, and just as many as are allowed are not.
func TestMany(t *testing.T) {
	some := otlp.MaxMessages / 4
	traces, logs, metrics := ptraceotlp.NewExportRequest(), plogotlp.NewExportRequest(), pmetricotlp.NewExportRequest()
	spans := traces.Traces().ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	records := logs.Logs().ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	points := metrics.Metrics().ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints()
	attributes := records.AppendEmpty().Attributes()
	for i := range some {
		spans.AppendEmpty()
		points.AppendEmpty()
		attributes.PutEmpty(strings.Repeat("x", i%3)) // with its value, two messages
		records.AppendEmpty()
	}
	for name, c := range map[string]struct {
		signal otlp.Signal
		full   otlp.Message
		into   otlp.Message
	}{
		"spans":       {otlp.TracesSignal, traces, ptraceotlp.NewExportRequest()},
		"log records": {otlp.LogsSignal, logs, plogotlp.NewExportRequest()},
		"points":      {otlp.MetricsSignal, metrics, pmetricotlp.NewExportRequest()},
	} {
		for _, contentType := range []string{otlp.Protobuf, otlp.JSON} {
			codec := codecOf(t, contentType)
			body, err := codec.Marshal(c.full)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.Unmarshal(c.signal, body, otlp.MaxMessages, c.into); err != nil {
				t.Errorf("%s as %s: %v", name, contentType, err)
			}
			if contentType == otlp.JSON {
				continue
			}
			body = append(body, body...)
			body = append(body, body...) // protobuf's concatenation is the union
			body = append(body, body...)
			if err := codec.Unmarshal(c.signal, body, otlp.MaxMessages, c.into); !errors.Is(err, otlp.ErrTooMany) {
				t.Errorf("%s as %s, eight times as many: %v", name, contentType, err)
			}
		}
	}
	for _, element := range []string{"{}", "null", "0", `""`, "[]", `{"bucketCounts":[]},0`} {
		many := []byte(`{"resourceSpans":[` + strings.Repeat(element+",", otlp.MaxMessages) + `{}]}`)
		if err := codecOf(t, otlp.JSON).Unmarshal(otlp.TracesSignal, many, otlp.MaxMessages, ptraceotlp.NewExportRequest()); !errors.Is(err, otlp.ErrTooMany) {
			t.Errorf("JSON, many %s: %v", element, err)
		}
	}
}

// TestManyBuckets: numbers take no more room decoded than in the request.
func TestManyBuckets(t *testing.T) {
	req := pmetricotlp.NewExportRequest()
	h := req.Metrics().ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty()
	h.BucketCounts().FromRaw(make([]uint64, otlp.MaxMessages+1))
	h.ExplicitBounds().FromRaw(make([]float64, otlp.MaxMessages))
	for _, contentType := range []string{otlp.Protobuf, otlp.JSON} {
		codec := codecOf(t, contentType)
		body, err := codec.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := codec.Unmarshal(otlp.MetricsSignal, body, otlp.MaxMessages, pmetricotlp.NewExportRequest()); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}

// TestMalformed: what the library would read all the same is refused before it can
// hide messages from the count.
func TestMalformed(t *testing.T) {
	tag := func(num uint64, typ protowire.Type) []byte { return protowire.AppendVarint(nil, num<<3|uint64(typ)) }
	for name, prefix := range map[string][]byte{
		"a field's number beyond 31 bits":   append(tag(1<<32|2, protowire.VarintType), 0),
		"a varint beyond 64 bits":           append(tag(1000, protowire.VarintType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"a group that ends as another":      append(tag(1000, protowire.StartGroupType), tag(1001, protowire.EndGroupType)...),
		"the end of a group":                tag(1000, protowire.EndGroupType),
		"a message under a truncated field": append(tag(1<<32|1, protowire.BytesType), 0),
	} {
		spans := bytes.Repeat([]byte{2<<3 | 2, 0}, otlp.MaxMessages+1)
		scope := protowire.AppendBytes([]byte{2<<3 | 2}, spans)
		body := append(prefix, protowire.AppendBytes([]byte{1<<3 | 2}, scope)...)
		if err := codecOf(t, otlp.Protobuf).Unmarshal(otlp.TracesSignal, body, otlp.MaxMessages, refuser{t, name}); err == nil || errors.Is(err, otlp.ErrTooMany) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, body := range []string{``, `{`, `{"resourceSpans":[`, `{} {}`, `{"a":1,"a":1}`, "{\"a\":\"\xff\"}", `{}]`, `[`} {
		if err := codecOf(t, otlp.JSON).Unmarshal(otlp.TracesSignal, []byte(body), otlp.MaxMessages, refuser{t, body}); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}

// refuser is a message that must not be decoded.
type refuser struct {
	t    *testing.T
	name string
}

func (r refuser) UnmarshalProto([]byte) error { return r.UnmarshalJSON(nil) }
func (r refuser) UnmarshalJSON([]byte) error {
	r.t.Errorf("%s reaches the library", r.name)
	return nil
}
func (refuser) MarshalProto() ([]byte, error) { return nil, nil }
func (refuser) MarshalJSON() ([]byte, error)  { return nil, nil }

func codecOf(t *testing.T, contentType string) otlp.Codec {
	t.Helper()
	codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {contentType}})
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// TestDeep: arrays in arrays.
func TestDeep(t *testing.T) {
	for depth, want := range map[int]error{10: nil, 5000: otlp.ErrTooMany} {
		req := plogotlp.NewExportRequest()
		v := req.Logs().ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body()
		for i := range depth {
			if i%2 == 0 {
				v = v.SetEmptySlice().AppendEmpty()
			} else {
				v = v.SetEmptyMap().PutEmpty("k")
			}
		}
		v.SetStr("bottom")
		for _, contentType := range []string{otlp.Protobuf, otlp.JSON} {
			codec := codecOf(t, contentType)
			body, err := codec.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.Unmarshal(otlp.LogsSignal, body, otlp.MaxMessages, plogotlp.NewExportRequest()); !errors.Is(err, want) {
				t.Errorf("%d deep as %s: %v", depth, contentType, err)
			}
		}
	}
}

// FuzzUnmarshal: what is decoded has no more messages than are allowed, and
// survives its own encoding.
func FuzzUnmarshal(f *testing.F) {
	req := ptraceotlp.NewExportRequest()
	s := req.Traces().ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.Attributes().PutEmptySlice("a").AppendEmpty().SetStr("b")
	for _, contentType := range []string{otlp.Protobuf, otlp.JSON} {
		codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {contentType}})
		if err != nil {
			f.Fatal(err)
		}
		body, err := codec.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(contentType, body)
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {contentType}})
		if err != nil {
			return
		}
		req := ptraceotlp.NewExportRequest()
		if err := codec.Unmarshal(otlp.TracesSignal, body, otlp.MaxMessages, req); err != nil {
			return
		}
		proto, err := req.MarshalProto()
		if err != nil {
			t.Fatal(err)
		}
		again := ptraceotlp.NewExportRequest()
		if err := again.UnmarshalProto(proto); err != nil {
			t.Fatal(err)
		}
		twice, err := again.MarshalProto()
		if err != nil || !bytes.Equal(proto, twice) {
			t.Fatalf("%v: %x, then %x", err, proto, twice)
		}
	})
}
