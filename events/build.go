package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"assay/schema"
)

// ErrNotObject means that Fill was given something other than one JSON object.
var ErrNotObject = errors.New("not one JSON object")

// Maker makes the events of one source.
type Maker struct {
	// Source is the CloudEvents source, 1 to 256 characters.
	Source string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// NewID makes event ids; nil is uuid.NewV7.
	NewID func() (uuid.UUID, error)
}

// New makes an event of the current version of data's type. The caller may set
// the optional attributes (EpisodeID, CausationID, …) before Encode.
func (m Maker) New(data Payload) (*Event, error) {
	id, now, err := m.stamp()
	if err != nil {
		return nil, err
	}
	typ := data.Type()
	version, ok := schema.Version(typ)
	if !ok {
		return nil, fmt.Errorf("new event: no schema for type %q", typ)
	}
	return &Event{
		ID: id, Source: m.Source, Type: typ, Time: now,
		DataSchema: DataSchema(typ, version), Version: version, Data: data,
	}, nil
}

func (m Maker) stamp() (id, now string, err error) {
	clock, newID := m.Now, m.NewID
	if clock == nil {
		clock = time.Now
	}
	if newID == nil {
		newID = uuid.NewV7
	}
	u, err := newID()
	if err != nil {
		return "", "", fmt.Errorf("new event id: %w", err)
	}
	return u.String(), FormatTime(clock()), nil
}

// FormatTime is how times stand in an event: RFC 3339, UTC, with as many
// fractional digits as are needed, at most nine.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Encode builds the event's compact CloudEvents bytes. The data is Data, or
// RawData when Data is nil or Unknown. Encode does not validate: schema.Check
// does.
func Encode(e *Event) ([]byte, error) {
	data, err := encodeData(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Type, err)
	}
	b := make([]byte, 0, len(data)+400)
	b = append(b, `{"specversion":"1.0"`...)
	for _, m := range []struct {
		name, value string
		always      bool
	}{
		{"id", e.ID, true},
		{"source", e.Source, true},
		{"type", e.Type, true},
		{"subject", e.Subject, false},
		{"time", e.Time, true},
		{"datacontenttype", ContentType, true},
		{"dataschema", e.DataSchema, true},
		{"episodeid", e.EpisodeID, false},
		{"sequence", e.Sequence, false},
		{"causationid", e.CausationID, false},
		{"correlationid", e.CorrelationID, false},
		{"dataref", e.DataRef, false},
	} {
		if m.value == "" && !m.always {
			continue
		}
		if b, err = appendMember(b, m.name, m.value); err != nil {
			return nil, fmt.Errorf("encode %s: %w", e.Type, err)
		}
	}
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return append(b, '}'), nil
}

func encodeData(e *Event) ([]byte, error) {
	raw := e.RawData
	switch data := e.Data.(type) {
	case nil:
	case *Unknown:
		raw = data.Data
	default:
		return json.Marshal(data)
	}
	if len(raw) == 0 {
		return nil, errors.New("no data")
	}
	return schema.Compact(raw)
}

// appendMember appends ,"name":"value"; the name needs no escaping.
func appendMember(b []byte, name, value string) ([]byte, error) {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	b, err := jsontext.AppendQuote(b, value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// DerivedID is an event id that follows from its parts alone, so that a writer
// which starts again makes the same id: a UUIDv8 of the first 16 bytes of
// SHA-256 over "assay id v1" and the parts, each preceded by its length as
// eight big-endian bytes, with version and variant bits set.
func DerivedID(parts ...string) uuid.UUID {
	h := sha256.New()
	var n [8]byte
	for _, p := range append([]string{"assay id v1"}, parts...) {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// present notes which envelope members an object has.
type present struct {
	SpecVersion     jsontext.Value `json:"specversion"`
	ID              jsontext.Value `json:"id"`
	Source          jsontext.Value `json:"source"`
	Type            jsontext.Value `json:"type"`
	Time            jsontext.Value `json:"time"`
	DataContentType jsontext.Value `json:"datacontenttype"`
	DataSchema      jsontext.Value `json:"dataschema"`
}

// Fill adds the envelope members that a JSON object lacks (specversion, id,
// source, time, datacontenttype, and dataschema where the type is known), in
// front, and removes white space. Members that are present, wrong ones
// included, keep their bytes: judging them is the intake's work. Anything but
// one JSON object is ErrNotObject, and the caller sends it as it is.
func (m Maker) Fill(raw []byte) ([]byte, error) {
	compact, err := schema.Compact(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotObject, err)
	}
	if compact[0] != '{' {
		return nil, ErrNotObject
	}
	var has present
	if err := json.Unmarshal(compact, &has); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotObject, err)
	}
	id, now, err := m.stamp()
	if err != nil {
		return nil, err
	}
	var added []byte
	for _, f := range []struct {
		name, value string
		have        jsontext.Value
	}{
		{"specversion", SpecVersion, has.SpecVersion},
		{"id", id, has.ID},
		{"source", m.Source, has.Source},
		{"time", now, has.Time},
		{"datacontenttype", ContentType, has.DataContentType},
		{"dataschema", currentSchema(has.Type), has.DataSchema},
	} {
		if f.have != nil || f.value == "" {
			continue
		}
		if added, err = appendMember(added, f.name, f.value); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	return insertMembers(compact, added), nil
}

// currentSchema is the dataschema of the type's current version, "" when the
// value does not name a known type.
func currentSchema(typ jsontext.Value) string {
	var s string
	if typ.Kind() != '"' || json.Unmarshal(typ, &s) != nil {
		return ""
	}
	version, ok := schema.Version(s)
	if !ok {
		return ""
	}
	return DataSchema(s, version)
}

// insertMembers puts added, a list of members each with a comma before it, at
// the front of a compact object.
func insertMembers(object, added []byte) []byte {
	if len(added) == 0 {
		return object
	}
	out := make([]byte, 0, len(object)+len(added))
	out = append(out, '{')
	out = append(out, added[1:]...)
	if !bytes.Equal(object, []byte("{}")) {
		out = append(out, ',')
	}
	return append(out, object[1:]...)
}
