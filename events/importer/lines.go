package importer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/jsonfault"
	"assay/internal/otlp"
)

var (
	bom     = []byte("\xef\xbb\xbf")
	bomLE   = []byte("\xff\xfe")
	bomBE   = []byte("\xfe\xff")
	zero    = []byte{0}
	mending = jsontext.AllowInvalidUTF8(true)
)

// unmarked is in without its byte order mark; ok is false for UTF-16, of which
// nothing is read.
func (m *maker) unmarked(in io.Reader) (r *bufio.Reader, ok bool, err error) {
	r = bufio.NewReaderSize(in, 64<<10)
	start, err := r.Peek(len(bom))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	switch {
	case bytes.HasPrefix(start, bomLE), bytes.HasPrefix(start, bomBE):
		m.line = 1
		m.bad(badUTF16, "the file is UTF-16: convert it to UTF-8")
		return r, false, nil
	case bytes.HasPrefix(start, bom):
		m.mended(mendedBOM)
		_, err = r.Discard(len(bom))
		return r, true, err
	}
	return r, true, nil
}

// eachLine decodes every line into a value of its own and calls fn with those that
// are good.
func eachLine[T any](m *maker, in io.Reader, fn func(v *T) error) error {
	return m.rawLines(in, func(line []byte) error {
		v, ok := decode[T](m, line)
		if !ok {
			return nil
		}
		return fn(v)
	})
}

// rawLines calls fn with every line that holds anything, without its end, which may be
// CRLF, and the white space and zero bytes around it.
func (m *maker) rawLines(in io.Reader, fn func(line []byte) error) error {
	r, ok, err := m.unmarked(in)
	if !ok || err != nil {
		return err
	}
	var buf []byte
	for {
		m.line++
		line, long, end, err := readLine(r, buf[:0])
		if err != nil {
			return err
		}
		buf = line
		bare := bytes.Trim(line, "\x00 \t\r\n")
		if bytes.Count(line, zero) > bytes.Count(bare, zero) {
			m.mended(mendedNUL)
		}
		line = bare
		switch {
		case long:
			m.report.Lines++
			m.bad(badLong, "a line of more than "+strconv.Itoa(MaxLine)+" bytes")
		case len(line) > 0:
			m.report.Lines++
			if err := fn(line); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		if cap(buf) > 1<<20 {
			buf = nil // one long line shall not cost its memory for ever
		}
	}
}

// readLine reads up to the next newline into buf; end says that the input is over. A
// line that is too long is passed over.
func readLine(r *bufio.Reader, buf []byte) (line []byte, long, end bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			buf = append(buf, part...)
		}
		if len(buf) > MaxLine {
			buf, long = buf[:0], true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return buf, long, true, nil
		case err != nil:
			return nil, false, false, err
		}
		return buf, long, false, nil
	}
}

// errLong means that what stands between two places of a document is more than may
// be held.
var errLong = errors.New("more than " + strconv.Itoa(MaxDocument) + " bytes at once")

// bounded reads no further than MaxDocument bytes beyond the mark.
type bounded struct {
	in         io.Reader
	read, mark int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.read-b.mark > MaxDocument {
		return 0, errLong
	}
	n, err := b.in.Read(p)
	b.read += int64(n)
	return n, err
}

// decode reads one value. What is no Unicode in it is mended.
func decode[T any](m *maker, raw []byte) (*T, bool) {
	v := new(T)
	err := json.Unmarshal(raw, v)
	if err == nil {
		return v, true
	}
	v = new(T)
	if err = json.Unmarshal(raw, v, mending); err == nil {
		m.mended(mendedText(raw))
		return v, true
	}
	m.bad(kindOf(err), jsonfault.Text(err))
	return nil, false
}

// mendedText is the kind of repair without which a text was no JSON.
func mendedText(raw []byte) string {
	if utf8.Valid(raw) {
		return mendedSurrogate
	}
	return mendedUTF8
}

// kindOf is the kind of a line that was not decoded.
func kindOf(err error) string {
	_, syntactic := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return badDuplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badTruncated
	case errors.Is(err, otlp.ErrTooMany):
		return badLong
	case syntactic:
		return badJSON
	}
	return badShape
}

// part reads a value inside of a line that was judged already; false for one of
// another shape.
func part[T any](raw jsontext.Value) (v T, ok bool) {
	if len(raw) == 0 {
		return v, false
	}
	return v, json.Unmarshal(raw, &v, mending) == nil
}

// str is a string, or a number as it is written; anything else is "".
type str string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *str) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*s = ""
	switch dec.PeekKind() {
	case '"', '0':
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		*s = str(tok.String())
		return nil
	}
	return dec.SkipValue()
}

// num is a number; anything else is unknown.
type num struct{ v *float64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (n *num) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	n.v = nil
	if dec.PeekKind() != '0' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if f, err := strconv.ParseFloat(tok.String(), 64); err == nil {
		n.v = &f
	}
	return nil
}

// flag is true or false; anything else is unknown.
type flag struct{ v *bool }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (f *flag) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	f.v = nil
	switch dec.PeekKind() {
	case 't', 'f':
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		f.v = ptr(tok.Bool())
		return nil
	}
	return dec.SkipValue()
}

func (f flag) is() bool { return f.v != nil && *f.v }

// contentHash is the SHA-256 of a content: of a string the text, of anything else
// its canonical JSON (RFC 8785), as hooks make it of what a tool is given. Nil where
// there is none.
func contentHash(raw jsontext.Value) *string {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil
	}
	if raw.Kind() == '"' {
		s, _ := part[str](raw)
		return ptr(hashOf(s))
	}
	canonical := raw.Clone()
	if err := canonical.Canonicalize(mending); err != nil {
		return ptr(hashOf([]byte(raw)))
	}
	return ptr(hashOf([]byte(canonical)))
}

// contentText is the text of a content that is a string or a list of blocks, with
// a newline between two blocks.
func contentText(raw jsontext.Value) string {
	if s, ok := part[str](raw); ok && raw.Kind() == '"' {
		return string(s)
	}
	blocks, _ := part[[]struct {
		Text str `json:"text"`
	}](raw)
	var out []byte
	for _, b := range blocks {
		if b.Text == "" {
			continue
		}
		if len(out) > 0 {
			out = append(out, '\n')
		}
		out = append(out, b.Text...)
	}
	return string(out)
}
