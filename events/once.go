package events

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeOnce is Decode in a single pass over the bytes, for events as clients
// write them: dataschema stands before data, names and integers have their
// plain form. For anything else, and for what is malformed, it gives nil, and
// Decode takes the long way, which also finds the words for an error.
func decodeOnce(raw []byte) *Event {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	s.buf = *bytes.NewBuffer(raw)
	s.dec.Reset(&s.buf)
	e := &Event{}
	if s.object(raw, e) != nil || e.Data == nil {
		return nil
	}
	return e
}

type scanner struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// errLongWay sends an event to the two-pass decoder.
var errLongWay = errors.New("not in the usual form")

func (s *scanner) object(raw []byte, e *Event) error {
	if tok, err := s.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errLongWay
	}
	version := ""
	for s.dec.PeekKind() != '}' {
		name, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := s.member(raw, string(name), e, &version); err != nil {
			return err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); err != io.EOF {
		return errLongWay
	}
	if typ, _, ok := ParseDataSchema(e.DataSchema); !ok || typ != e.Type || version != SpecVersion {
		return errLongWay
	}
	return nil
}

// member reads the value of one envelope member; name is quoted.
func (s *scanner) member(raw []byte, name string, e *Event, specVersion *string) error {
	var to *string
	switch name {
	case `"specversion"`:
		return s.constant(specVersion)
	case `"type"`:
		return s.constant(&e.Type)
	case `"dataschema"`:
		return s.constant(&e.DataSchema)
	case `"id"`:
		to = &e.ID
	case `"source"`:
		to = &e.Source
	case `"subject"`:
		to = &e.Subject
	case `"time"`:
		to = &e.Time
	case `"episodeid"`:
		to = &e.EpisodeID
	case `"causationid"`:
		to = &e.CausationID
	case `"correlationid"`:
		to = &e.CorrelationID
	case `"dataref"`:
		to = &e.DataRef
	case `"sequence"`:
		v, err := s.dec.ReadValue()
		if err == nil {
			e.Sequence, err = parseSequence(v)
		}
		return err
	case `"data"`:
		return s.data(raw, e)
	default:
		if bytes.IndexByte([]byte(name), '\\') >= 0 {
			return errLongWay // an escaped name may be any of them
		}
		return s.dec.SkipValue()
	}
	tok, err := s.dec.ReadToken()
	if err != nil || tok.Kind() != '"' {
		return errLongWay
	}
	*to = tok.String()
	return nil
}

// constants are the strings, by their quoted form, that many events have in common.
var constants = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for tv := range registry {
		for _, c := range []string{SpecVersion, tv.name, DataSchema(tv.name, tv.version)} {
			m[`"`+c+`"`] = c
		}
	}
	return m
})

// constant reads a member of which no event makes a string of its own.
func (s *scanner) constant(to *string) error {
	v, err := s.dec.ReadValue()
	if err != nil {
		return err
	}
	known, ok := constants()[string(v)]
	if !ok {
		return errLongWay
	}
	*to = known
	return nil
}

// data reads the payload of a known type where it stands.
func (s *scanner) data(raw []byte, e *Event) error {
	typ, version, ok := ParseDataSchema(e.DataSchema)
	read, known := registry[typeVersion{typ, version}]
	if !ok || !known || s.dec.PeekKind() != '{' {
		return errLongWay
	}
	start := s.dec.InputOffset()
	var err error
	if e.Data, err = read(&s.dec); err != nil {
		return err
	}
	e.Version = version
	value := raw[start:s.dec.InputOffset()]
	// Between the name and the value stand a colon and perhaps spaces.
	e.RawData = bytes.Clone(value[bytes.IndexByte(value, '{'):])
	return nil
}
