package events

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrMalformed means that bytes are not an event of the shape that their
// envelope announces. A record that an intake let in never is.
var ErrMalformed = errors.New("malformed event")

// SpecVersion is the version of CloudEvents that every event states.
const SpecVersion = "1.0"

// ContentType is the only datacontenttype.
const ContentType = "application/json"

// DataSchema is the dataschema of a type's version: urn:assay:<type>:<version>.
func DataSchema(typ string, version int) string {
	return "urn:assay:" + typ + ":" + strconv.Itoa(version)
}

// ParseDataSchema reads what DataSchema writes.
func ParseDataSchema(s string) (typ string, version int, ok bool) {
	rest, ok := strings.CutPrefix(s, "urn:assay:")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 1 {
		return "", 0, false
	}
	version, err := strconv.Atoi(rest[i+1:])
	if err != nil || version < 1 || strconv.Itoa(version) != rest[i+1:] {
		return "", 0, false
	}
	return rest[:i], version, true
}

type typeVersion struct {
	name    string
	version int
}

// constructor reads the next value of dec as a payload.
type constructor func(dec *jsontext.Decoder, opts ...json.Options) (Payload, error)

// envelope is Event as it stands in the bytes. Extension attributes that it
// does not name stay in the stored bytes and are not decoded.
type envelope struct {
	SpecVersion   string         `json:"specversion"`
	ID            string         `json:"id"`
	Source        string         `json:"source"`
	Type          string         `json:"type"`
	Subject       string         `json:"subject"`
	Time          string         `json:"time"`
	DataSchema    string         `json:"dataschema"`
	EpisodeID     string         `json:"episodeid"`
	Sequence      jsontext.Value `json:"sequence"`
	CausationID   string         `json:"causationid"`
	CorrelationID string         `json:"correlationid"`
	DataRef       string         `json:"dataref"`
	Data          jsontext.Value `json:"data"`
}

// Decode reads the stored bytes of one event: its envelope and its payload.
//
// A type, or a version of a type, that this build does not know gives an
// Unknown payload. Members of data that a known version does not have cannot
// pass an intake of this build; written by a later one they are left out of
// the payload without an error, and RawData still has them. The bytes are
// taken to have passed schema.Check once, so ranges and patterns are not
// checked again; what cannot be represented is ErrMalformed.
func Decode(raw []byte) (*Event, error) {
	if e := decodeOnce(raw); e != nil {
		return e, nil
	}
	return decodeTwice(raw)
}

// decodeTwice reads the envelope and then the payload.
func decodeTwice(raw []byte) (*Event, error) {
	e, err := DecodeEnvelope(raw)
	if err != nil {
		return nil, err
	}
	read, ok := registry[typeVersion{e.Type, e.Version}]
	if !ok {
		e.Data = &Unknown{TypeName: e.Type, Data: e.RawData}
		return e, nil
	}
	if e.Data, err = readData(read, e.RawData); err != nil {
		return nil, fmt.Errorf("%w: data of %s: %w", ErrMalformed, e.Type, err)
	}
	return e, nil
}

// readData reads a payload from its bytes alone.
func readData(read constructor, data jsontext.Value) (Payload, error) {
	p, err := read(jsontext.NewDecoder(bytes.NewBuffer(data)))
	if _, ok := errors.AsType[*json.SemanticError](err); ok {
		// JSON Schema counts 5.0 and 1e3 as integers and clients do write
		// them; the fast path reads plain digits only.
		return read(jsontext.NewDecoder(bytes.NewBuffer(data)), anyInteger)
	}
	return p, err
}

// DecodeEnvelope reads everything but the payload: Data is nil and RawData
// has the data's bytes. It costs about half of Decode.
func DecodeEnvelope(raw []byte) (*Event, error) {
	var m envelope
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if m.SpecVersion != SpecVersion {
		return nil, fmt.Errorf("%w: specversion %q, want %q", ErrMalformed, m.SpecVersion, SpecVersion)
	}
	typ, version, ok := ParseDataSchema(m.DataSchema)
	if !ok || typ != m.Type {
		return nil, fmt.Errorf("%w: dataschema %q of type %q", ErrMalformed, m.DataSchema, m.Type)
	}
	if m.Data.Kind() != '{' {
		return nil, fmt.Errorf("%w: data is not an object", ErrMalformed)
	}
	seq, err := parseSequence(m.Sequence)
	if err != nil {
		return nil, err
	}
	return &Event{
		ID: m.ID, Source: m.Source, Type: m.Type, Subject: m.Subject, Time: m.Time, DataSchema: m.DataSchema,
		EpisodeID: m.EpisodeID, Sequence: seq, CausationID: m.CausationID, CorrelationID: m.CorrelationID,
		DataRef: m.DataRef, Version: version, RawData: m.Data,
	}, nil
}

// parseSequence accepts a string of digits and a JSON number alike.
func parseSequence(v jsontext.Value) (string, error) {
	switch v.Kind() {
	case '"':
		if bytes.IndexByte(v, '\\') < 0 {
			return string(v[1 : len(v)-1]), nil
		}
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return "", fmt.Errorf("%w: sequence: %w", ErrMalformed, err)
		}
		return s, nil
	case '0':
		n, err := parseInteger(string(v))
		if err != nil || n < 0 {
			return "", fmt.Errorf("%w: sequence %s", ErrMalformed, v)
		}
		return strconv.FormatInt(n, 10), nil
	case 'n', 0:
		return "", nil
	default:
		return "", fmt.Errorf("%w: sequence is neither a string nor a number", ErrMalformed)
	}
}

// payloadOf ties a payload's value type to the pointer that implements Payload.
type payloadOf[T any] interface {
	*T
	Payload
}

func decodeAs[T any, P payloadOf[T]](dec *jsontext.Decoder, opts ...json.Options) (Payload, error) {
	p := P(new(T))
	if err := json.UnmarshalDecode(dec, p, opts...); err != nil {
		return nil, err
	}
	return p, nil
}

var anyInteger = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *int64) error {
		n, err := readInteger(dec)
		*v = n
		return err
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *uint64) error {
		n, err := readInteger(dec)
		if err == nil && n < 0 {
			err = fmt.Errorf("%d is negative", n)
		}
		*v = uint64(n)
		return err
	}),
))

func readInteger(dec *jsontext.Decoder) (int64, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return 0, err
	}
	if v.Kind() == '"' { // the string option: digits in quotes
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return 0, err
		}
		return strconv.ParseInt(s, 10, 64)
	}
	return parseInteger(string(v))
}

// parseInteger reads a JSON number that has a whole value of at most 2^53.
func parseInteger(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, fmt.Errorf("%q is not an integer within 2^53", s)
	}
	return int64(f), nil
}
