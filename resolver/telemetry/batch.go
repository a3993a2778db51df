// Package telemetry brings samples from their sensors to the buffer that the
// sealer cuts into segments: the sensors themselves, their wire format, the
// ingress, and the buffer's reader.
//
// # Wire format
//
// A sensor publishes batches on telemetry.<source>:
//
//	{"v":1,"stream":"<boot or instance>","samples":[
//	  {"seq":1,"signal":"process_rss_bytes","labels":{"pid":"7"},"time":"…Z","value":4096,"start":"…Z"}]}
//
//	v        the format, 1
//	stream   1 to 128 printable characters; sequence numbers count within it;
//	         it stands in the batch or, where they differ, in each sample
//	seq      from 1, never used twice in a stream
//	labels   optional; at most 16
//	time     event time, RFC 3339
//	start    optional: since when a counter has counted
//	value    a number, or "NaN", "+Inf", "-Inf"
//
// The source is the connection's, never the payload's, so that a sensor cannot
// make another's sample a duplicate. The ingress wraps a batch for the buffer
// as {"v":1,"arrived":"…Z","batch":{…}} on buffer.<source>.
package telemetry

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/resolver/criterion"
)

// Sample is one measurement.
type Sample = criterion.Sample

// ErrBatch means that bytes are not a batch of samples.
var ErrBatch = errors.New("malformed telemetry batch")

const (
	// Version is the format of batches and of buffered batches.
	Version = 1
	// MaxBatch is the largest batch in bytes.
	MaxBatch = 1 << 20
	// MaxBatchSamples is the largest number of samples in a batch.
	MaxBatchSamples = 10_000
)

type batchWire struct {
	V       *int64           `json:"v"`
	Stream  *string          `json:"stream"`
	Samples []jsontext.Value `json:"samples"`
}

// ParseBatch reads a batch that came by the source's connection: all of it or
// ErrBatch.
func ParseBatch(source string, raw []byte) ([]Sample, error) {
	if len(raw) > MaxBatch {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBatch, len(raw), MaxBatch)
	}
	var w batchWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	switch {
	case w.V == nil || *w.V != Version:
		return nil, fmt.Errorf("%w: v is not %d", ErrBatch, Version)
	case w.Stream != nil && *w.Stream == "":
		return nil, fmt.Errorf("%w: the stream is empty", ErrBatch)
	case len(w.Samples) > MaxBatchSamples:
		return nil, fmt.Errorf("%w: %d samples, the limit is %d", ErrBatch, len(w.Samples), MaxBatchSamples)
	}
	stream := ""
	if w.Stream != nil {
		stream = *w.Stream
	}
	samples := make([]Sample, 0, len(w.Samples))
	for i, raw := range w.Samples {
		s, err := criterion.ParseSample(source, stream, raw)
		if err != nil {
			return nil, fmt.Errorf("%w: /samples/%d: %w", ErrBatch, i, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

type outWire struct {
	V       int64       `json:"v"`
	Stream  string      `json:"stream,omitzero"`
	Samples []outSample `json:"samples"`
}

type outSample struct {
	Stream string            `json:"stream,omitzero"`
	Seq    uint64            `json:"seq"`
	Signal string            `json:"signal"`
	Labels map[string]string `json:"labels,omitempty"`
	Time   string            `json:"time"`
	Start  string            `json:"start,omitempty"`
	Value  any               `json:"value"`
}

// EncodeBatch writes samples of one stream as a batch, or, if stream is "",
// samples of which each names its own. Their sources are left out.
func EncodeBatch(stream string, samples []Sample) ([]byte, error) {
	w := outWire{V: Version, Stream: stream, Samples: make([]outSample, 0, len(samples))}
	for _, s := range samples {
		o := outSample{Seq: s.Seq, Signal: s.Signal, Labels: s.Labels, Time: formatTime(s.Time), Value: s.Value}
		if stream == "" {
			o.Stream = s.Stream
		}
		if !s.Start.IsZero() {
			o.Start = formatTime(s.Start)
		}
		if !s.IsValid() {
			o.Value = fmt.Sprintf("%+v", s.Value)
			if s.Value != s.Value {
				o.Value = "NaN"
			}
		}
		w.Samples = append(w.Samples, o)
	}
	out, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return out, nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Arrival is a batch as the buffer holds it.
type Arrival struct {
	Arrived time.Time // the ingress's clock
	Samples []Sample
}

type arrivalWire struct {
	V       *int64         `json:"v"`
	Arrived *string        `json:"arrived"`
	Batch   jsontext.Value `json:"batch"`
}

// EncodeArrival wraps a batch that ParseBatch accepted.
func EncodeArrival(arrived time.Time, batch []byte) []byte {
	out := append([]byte(`{"v":1,"arrived":"`), formatTime(arrived)...)
	out = append(out, `","batch":`...)
	out = append(out, batch...)
	return append(out, '}')
}

// ParseArrival reads a message of the buffer: ErrBatch for anything else.
func ParseArrival(source string, raw []byte) (Arrival, error) {
	var w arrivalWire
	if err := json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)); err != nil {
		return Arrival{}, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	if w.V == nil || *w.V != Version || w.Arrived == nil {
		return Arrival{}, fmt.Errorf("%w: no arrival of version %d", ErrBatch, Version)
	}
	t, err := time.Parse(time.RFC3339Nano, *w.Arrived)
	if err != nil {
		return Arrival{}, fmt.Errorf("%w: arrived: %w", ErrBatch, err)
	}
	samples, err := ParseBatch(source, w.Batch)
	if err != nil {
		return Arrival{}, err
	}
	return Arrival{t.UTC(), samples}, nil
}
