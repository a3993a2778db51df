package importer

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"assay/events"
	"assay/schema"
)

// readOwn reads events of the ledger's own types as JSON lines. What a line lacks of
// the envelope is added; what it has keeps its bytes, but for context.capture, which
// says that it was imported.
func readOwn(m *maker, in io.Reader) error {
	return m.rawLines(in, m.own)
}

// placed is a fault without its code, which is the kind of the bad line.
func placed(f *schema.Fault) string {
	if f.Pointer == "" {
		return f.Message
	}
	return "at " + f.Pointer + ": " + f.Message
}

func (m *maker) own(line []byte) error {
	fill := events.Maker{
		Source: "urn:assay:import:" + m.cfg.Format,
		Now:    func() time.Time { return time.Unix(0, 0) },
		NewID:  func() (uuid.UUID, error) { return events.DerivedID("import", m.cfg.Format, m.at(), string(line)), nil },
	}
	raw, err := fill.Fill(line)
	if err == nil {
		raw, err = asImport(raw)
	}
	if err != nil { // nothing that an event could be in; the schema says why
		raw = line
	}
	checked, fault := schema.Check(raw)
	switch {
	case fault != nil && cut(line):
		m.bad(badTruncated, placed(fault))
	case fault != nil:
		m.bad(string(fault.Code), placed(fault))
	case !m.cfg.May(checked.Type):
		m.left(checked.Type)
	default:
		m.report.Events[checked.Type]++
		return m.cfg.Put(Event{Line: m.line, Type: checked.Type, Raw: raw})
	}
	return nil
}

// cut says whether a line ends within its value.
func cut(line []byte) bool {
	_, err := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), mending).ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF)
}

var imported = []byte(`"imported"`)

// asImport sets context.capture of a compact event. One without a context stays what
// it is.
func asImport(event []byte) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(event))
	if found, err := enter(dec, "data"); err != nil || !found {
		return event, err
	}
	if found, err := enter(dec, "context"); err != nil || !found {
		return event, err
	}
	if _, err := dec.ReadToken(); err != nil { // the brace of the context
		return nil, err
	}
	start := dec.InputOffset()
	empty := dec.PeekKind() == '}'
	found, err := member(dec, "capture")
	if err != nil {
		return nil, err
	}
	if found {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := dec.InputOffset()
		return splice(event, end-int64(len(v)), end, imported), nil
	}
	added := append([]byte(`"capture":`), imported...)
	if !empty {
		added = append(added, ',')
	}
	return splice(event, start, start, added), nil
}

// enter goes to the value of a member of the next object; false where there is no such
// object.
func enter(dec *jsontext.Decoder, name string) (bool, error) {
	if dec.PeekKind() != '{' {
		return false, nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return false, err
	}
	found, err := member(dec, name)
	return found && dec.PeekKind() == '{', err
}

// member goes to the value of a member of the object that is entered.
func member(dec *jsontext.Decoder, name string) (bool, error) {
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false, err
		}
		if tok.String() == name {
			return true, nil
		}
		if err := dec.SkipValue(); err != nil {
			return false, err
		}
	}
	return false, nil
}

func splice(b []byte, from, to int64, with []byte) []byte {
	out := make([]byte, 0, int64(len(b))-(to-from)+int64(len(with)))
	out = append(out, b[:from]...)
	out = append(out, with...)
	return append(out, b[to:]...)
}
