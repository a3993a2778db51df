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
			codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {contentType}})
			if err != nil {
				t.Fatal(err)
			}
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
	codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {otlp.JSON}})
	if err != nil {
		t.Fatal(err)
	}
	many := `{"resourceSpans":[` + strings.Repeat("{},", otlp.MaxMessages) + `{}]}`
	if err := codec.Unmarshal(otlp.TracesSignal, []byte(many), otlp.MaxMessages, ptraceotlp.NewExportRequest()); !errors.Is(err, otlp.ErrTooMany) {
		t.Errorf("JSON: %v", err)
	}
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
			codec, err := otlp.CodecOf(map[string][]string{"Content-Type": {contentType}})
			if err != nil {
				t.Fatal(err)
			}
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
