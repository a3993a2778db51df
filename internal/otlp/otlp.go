// Package otlp is what every door for OTLP over HTTP has in common: the two
// encodings, bodies that stay bounded once they are unpacked, and refusals in
// the protocol's own words (google.rpc.Status).
package otlp

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
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

// Index is attributes by name, of one name the first: a Map looks through all of
// them each time, which many items would pay for that share them.
func Index(m pcommon.Map) map[string]pcommon.Value {
	index := make(map[string]pcommon.Value, m.Len())
	for name, v := range m.All() {
		if _, twice := index[name]; !twice {
			index[name] = v
		}
	}
	return index
}

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

// ErrCorrupt means that a body which arrived in whole is not what its
// Content-Encoding says.
var ErrCorrupt = errors.New("the body is not what its Content-Encoding says")

// Unpack undoes the request's Content-Encoding, gzip or none; any other is
// ErrMediaType. Reading gives ErrCorrupt, or the error of body. Both what is read
// from body and what comes out are the caller's to bound.
func Unpack(h http.Header, body io.Reader) (io.Reader, error) {
	switch encoding := h.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		return body, nil
	case "gzip":
		u := &unpacked{packed: body}
		var err error
		u.zip, err = gzip.NewReader(readerFunc(u.take))
		return u, u.blame(err)
	default:
		return nil, fmt.Errorf("%w: Content-Encoding %.40q, want gzip or none", ErrMediaType, encoding)
	}
}

// unpacked tells what is wrong with a body from what is wrong with its transport.
type unpacked struct {
	packed io.Reader
	zip    *gzip.Reader
	lost   error // of packed
}

func (u *unpacked) take(b []byte) (int, error) {
	n, err := u.packed.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		u.lost = err
	}
	return n, err
}

// Read implements io.Reader.
func (u *unpacked) Read(b []byte) (int, error) {
	n, err := u.zip.Read(b)
	if err == io.EOF { // nothing else is the end
		return n, err
	}
	return n, u.blame(err)
}

func (u *unpacked) blame(err error) error {
	switch {
	case err == nil:
		return nil
	case u.lost != nil:
		return u.lost
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
