package otlp

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// A message of protobuf that is empty takes two bytes on the wire and hundreds
// once it is decoded, so a request is bounded in its messages as well: its spans,
// attributes, values and whatever else has fields.
const (
	MaxMessages = 1 << 18 // of a request that came over the network
	maxDepth    = 100     // of messages, and of objects and arrays twice as much
)

// ErrTooMany means that a request has more messages than it may, or nests them too
// deeply.
var ErrTooMany = errors.New("too many or too deeply nested messages")

// Signal is one of the three kinds of requests.
type Signal struct{ request fields }

// fields are the fields of a message that are messages themselves.
type fields map[protowire.Number]fields

// The signals.
var (
	TracesSignal  = Signal{request(fields{9: keyValue, 11: {3: keyValue}, 13: {4: keyValue}, 15: {}})}
	LogsSignal    = Signal{request(fields{5: anyValue, 6: keyValue})}
	MetricsSignal = Signal{request(fields{5: {1: number}, 7: {1: number}, 9: {1: histogram}, 10: {1: exponential}, 11: {1: summary}, 12: keyValue})}

	anyValue    = anything()
	keyValue    = fields{2: anyValue}
	exemplar    = fields{7: keyValue}
	number      = fields{5: exemplar, 7: keyValue}
	histogram   = fields{8: exemplar, 9: keyValue}
	exponential = fields{1: keyValue, 8: {}, 9: {}, 11: exemplar}
	summary     = fields{6: {}, 7: keyValue}
)

// anything is AnyValue: an array of them, or a list of named ones.
func anything() fields {
	f := fields{}
	f[5], f[6] = fields{1: f}, fields{1: {2: f}}
	return f
}

// request holds resources with scopes with items.
func request(item fields) fields {
	resource, scope := fields{1: keyValue, 3: {}}, fields{3: keyValue}
	return fields{1: {1: resource, 2: {1: scope, 2: item}}}
}

// weigh counts the messages of a request before it is decoded. What is malformed
// is refused here: the library, which reads more than the specification allows,
// would find other messages in it than were counted.
func (c Codec) weigh(s Signal, body []byte, messages int) error {
	if c.isJSON {
		return weighJSON(body, &messages)
	}
	return weighProto(s.request, body, maxDepth, &messages)
}

func weighProto(f fields, b []byte, depth int, left *int) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return protowire.ParseError(n)
		}
		value := b[:n]
		b = b[n:]
		inner, ok := f[num]
		if !ok || typ != protowire.BytesType {
			continue
		}
		if *left--; *left < 0 || depth == 0 {
			return ErrTooMany
		}
		content, _ := protowire.ConsumeBytes(value)
		if err := weighProto(inner, content, depth-1, left); err != nil {
			return err
		}
	}
	return nil
}

// packed are the members whose arrays hold bare numbers.
var packed = map[string]bool{"bucketCounts": true, "bucket_counts": true, "explicitBounds": true, "explicit_bounds": true}

// weighJSON counts objects, and whatever else stands in an array: the library makes
// a message of a null or a number too, where it wants one. The body is one value, in
// UTF-8 and without duplicate names; the library would stop at its end, whatever
// follows.
func weighJSON(body []byte, left *int) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	name, numbers := "", false // the member whose value is next; in an array of packed
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		depth := dec.StackDepth()
		in, n := dec.StackIndex(depth)
		counts := false
		switch kind := tok.Kind(); kind {
		case '}', ']':
			numbers = false
		case '{':
			counts, numbers = true, false
		case '[':
			in, _ = dec.StackIndex(depth - 1)
			counts, numbers = in == '[', packed[name]
		default:
			if in == '{' && n%2 == 1 {
				name = tok.String()
				continue
			}
			counts = in == '[' && !numbers
		}
		name = ""
		if counts {
			if *left--; *left < 0 || depth > 2*maxDepth {
				return ErrTooMany
			}
		}
		if depth == 0 {
			break
		}
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON value")
	}
	return nil
}
