// Package otlp is what every door for OTLP over HTTP has in common: the two
// encodings, bodies that stay bounded once they are unpacked, and refusals in
// the protocol's own words (google.rpc.Status).
package otlp

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The paths of the signals, below an exporter's endpoint.
const (
	Traces  = "/v1/traces"
	Metrics = "/v1/metrics"
	Logs    = "/v1/logs"
)

// The media types of the encodings.
const (
	Protobuf = "application/x-protobuf"
	JSON     = "application/json"
)

// ErrMediaType means that a request's Content-Type or Content-Encoding is none
// that OTLP over HTTP has; the text says which are taken.
var ErrMediaType = errors.New("unsupported media type")

// Message is a request or an answer, as the collector's pdata has them.
type Message interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

// Codec is one of the two encodings. A request is answered in its own.
type Codec struct {
	ContentType string
	isJSON      bool
}

// The codecs.
var (
	InProtobuf = Codec{Protobuf, false}
	InJSON     = Codec{JSON, true}
)

// CodecOf is that of the request's Content-Type, and JSON beside ErrMediaType.
func CodecOf(h http.Header) (Codec, error) {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err == nil && kind == Protobuf:
		return InProtobuf, nil
	case err == nil && kind == JSON:
		return InJSON, nil
	}
	return InJSON, fmt.Errorf("%w: want a Content-Type of %s or %s", ErrMediaType, Protobuf, JSON)
}

// Unmarshal decodes the body of a signal's request, which has at most that many
// messages. ErrTooMany says that it would take much more memory than the body has
// bytes.
func (c Codec) Unmarshal(s Signal, body []byte, messages int, into Message) error {
	if err := c.weigh(s, body, messages); err != nil {
		return err
	}
	if !c.isJSON {
		return into.UnmarshalProto(body)
	}
	// The library stops at the end of the object, whatever follows.
	if !jsontext.Value(body).IsValid() {
		return errors.New("not one JSON value in UTF-8 without duplicate names")
	}
	return into.UnmarshalJSON(body)
}

// Marshal encodes an answer.
func (c Codec) Marshal(m Message) ([]byte, error) {
	if c.isJSON {
		return m.MarshalJSON()
	}
	return m.MarshalProto()
}

// Status is the body of a refusal; it is empty if the message is no UTF-8.
func (c Codec) Status(message string) []byte {
	status := &rpcstatus.Status{Message: message}
	body, err := proto.Marshal(status)
	if c.isJSON {
		body, err = protojson.Marshal(status)
	}
	if err != nil {
		return nil
	}
	return body
}

// IsCorrupt says whether reading an unpacked body failed for what is in it.
func IsCorrupt(err error) bool {
	var flawed flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &flawed)
}

// Unpack undoes the request's Content-Encoding, gzip or none; any other is
// ErrMediaType. Both what is read from body and what comes out are the caller's
// to bound.
func Unpack(h http.Header, body io.Reader) (io.Reader, error) {
	switch encoding := h.Get("Content-Encoding"); encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		return gzip.NewReader(body)
	default:
		return nil, fmt.Errorf("%w: Content-Encoding %.40q, want gzip or none", ErrMediaType, encoding)
	}
}
