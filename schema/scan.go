package schema

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan walks JSON that is already proven valid and free of raw control bytes,
// so that it needs no bounds or grammar checks of its own: white space is only
// the space character, and each value ends where its grammar says.
//
// The generated validators call its methods. Each consumes one value and
// reports whether it satisfies the schema; on false, fault says why and the
// walk ends.
type scan struct {
	b     []byte
	i     int
	found members // where the envelope's members start
	fault rawFault
}

// members are the offsets of envelope members that Check needs after the walk;
// 0 is absent, since no member starts a document.
type members struct {
	id, typ, time, dataschema, data int
}

// rawFault is a fault before its pointer is computed: off is where the
// offending value or member name starts, missing the name of an absent member
// of the object at off.
type rawFault struct {
	code    Code
	off     int
	missing string
	message string
}

func (s *scan) fail(off int, code Code, message string) bool {
	s.fault = rawFault{code: code, off: off, message: message}
	return false
}

// next skips spaces and returns the first byte of the coming token.
func (s *scan) next() byte {
	for s.b[s.i] == ' ' {
		s.i++
	}
	return s.b[s.i]
}

// enter consumes the opening bracket of an object or array.
func (s *scan) enter(open byte, kind string) (start int, ok bool) {
	if s.next() != open {
		return s.i, s.fail(s.i, CodeWrongType, "want "+kind)
	}
	s.i++
	return s.i - 1, true
}

// more says whether the object or array has another member or element, and
// consumes the comma or the closing bracket.
func (s *scan) more() bool {
	switch s.next() {
	case '}', ']':
		s.i++
		return false
	case ',':
		s.i++
		s.next()
	}
	return true
}

// name consumes a member name and its colon.
func (s *scan) name() (name []byte, off int) {
	off = s.i
	name = s.unquoted()
	s.next()
	s.i++
	s.next()
	return name, off
}

// span consumes a string and returns what stands between its quotes.
func (s *scan) span() (text []byte, escaped bool) {
	start := s.i + 1
	for i := start; ; i++ {
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return s.b[start:i], escaped
		case '\\':
			escaped = true
			i++
		}
	}
}

// unquoted consumes a string and returns its value.
func (s *scan) unquoted() []byte {
	start := s.i
	text, escaped := s.span()
	if !escaped {
		return text
	}
	// The input is valid, so that this cannot fail.
	text, _ = jsontext.AppendUnquote(nil, s.b[start:s.i])
	return text
}

// number consumes a number and returns its text.
func (s *scan) number() []byte {
	start := s.i
	for s.i < len(s.b) && isNumberByte(s.b[s.i]) {
		s.i++
	}
	return s.b[start:s.i]
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// skip consumes any value.
func (s *scan) skip() {
	depth := 0
	for {
		switch c := s.next(); c {
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case ',', ':':
			s.i++
		case '"':
			s.span()
		case 't', 'n':
			s.i += 4
		case 'f':
			s.i += 5
		default:
			s.number()
		}
		if depth == 0 {
			return
		}
	}
}

// null consumes a null, if that is what comes.
func (s *scan) null() bool {
	if s.next() != 'n' {
		return false
	}
	s.i += len("null")
	return true
}

func (s *scan) boolean() bool {
	switch s.next() {
	case 't':
		s.i += len("true")
	case 'f':
		s.i += len("false")
	default:
		return s.fail(s.i, CodeWrongType, "want true or false")
	}
	return true
}

// anyObject accepts an object whatever it holds.
func (s *scan) anyObject() bool {
	if s.next() != '{' {
		return s.fail(s.i, CodeWrongType, "want an object")
	}
	s.skip()
	return true
}

// str consumes a string value.
func (s *scan) str() (value []byte, off int, ok bool) {
	if s.next() != '"' {
		return nil, s.i, s.fail(s.i, CodeWrongType, "want a string")
	}
	off = s.i
	return s.unquoted(), off, true
}

// text accepts a string of least to most characters.
func (s *scan) text(least, most int) bool {
	v, off, ok := s.str()
	return ok && s.length(v, off, least, most)
}

func (s *scan) length(v []byte, off, least, most int) bool {
	if len(v) <= most && (len(v) > 0 || least == 0) && least <= 1 {
		return true // bytes bound characters from above
	}
	n := utf8.RuneCount(v)
	switch {
	case n < least:
		return s.fail(off, CodeBadValue, "shorter than "+strconv.Itoa(least)+" characters")
	case n > most:
		return s.fail(off, CodeBadValue, "longer than "+strconv.Itoa(most)+" characters")
	}
	return true
}

// match accepts a string of least to most characters that the pattern accepts.
func (s *scan) match(p *pattern, least, most int) bool {
	v, off, ok := s.str()
	if !ok || !s.length(v, off, least, most) {
		return false
	}
	if !p.match(v) {
		return s.fail(off, CodeBadValue, "does not match "+p.source)
	}
	return true
}

// timestamp accepts a string that the pattern accepts and that is a date-time.
func (s *scan) timestamp(p *pattern, least, most int) bool {
	s.next()
	off := s.i
	if !s.match(p, least, most) {
		return false
	}
	v := s.b[off+1 : s.i-1]
	if bytes.IndexByte(v, '\\') >= 0 {
		v, _ = jsontext.AppendUnquote(nil, s.b[off:s.i])
	}
	if !isDateTime(v) {
		return s.fail(off, CodeBadValue, "not an RFC 3339 time")
	}
	return true
}

// enum accepts one of a few strings.
func (s *scan) enum(allowed []string) bool {
	v, off, ok := s.str()
	if !ok {
		return false
	}
	for _, a := range allowed {
		if string(v) == a {
			return true
		}
	}
	return s.fail(off, CodeBadValue, "not one of "+quoteList(allowed))
}

func (s *scan) integer(b bounds) bool {
	if c := s.next(); c != '-' && (c < '0' || c > '9') {
		return s.fail(s.i, CodeWrongType, "want an integer")
	}
	off := s.i
	lit := s.number()
	if !isInteger(lit) {
		return s.fail(off, CodeWrongType, "want an integer")
	}
	return s.inBounds(lit, off, b)
}

func (s *scan) float(b bounds) bool {
	if c := s.next(); c != '-' && (c < '0' || c > '9') {
		return s.fail(s.i, CodeWrongType, "want a number")
	}
	off := s.i
	return s.inBounds(s.number(), off, b)
}

func (s *scan) inBounds(lit []byte, off int, b bounds) bool {
	if !inRange(lit) {
		return s.fail(off, CodeNumberRange, numberRangeMessage)
	}
	if b.hasMin && compareNumber(lit, b.min) < 0 {
		return s.fail(off, CodeBadValue, "less than "+strconv.FormatInt(b.min, 10))
	}
	if b.hasMax && compareNumber(lit, b.max) > 0 {
		return s.fail(off, CodeBadValue, "greater than "+strconv.FormatInt(b.max, 10))
	}
	return true
}

// array accepts an array of least to most elements, each of which item accepts.
func (s *scan) array(least, most int, item func(*scan) bool) bool {
	start, ok := s.enter('[', "an array")
	if !ok {
		return false
	}
	n := 0
	for ; s.more(); n++ {
		if n == most {
			return s.fail(start, CodeBadValue, "more than "+strconv.Itoa(most)+" elements")
		}
		if !item(s) {
			return false
		}
	}
	if n < least {
		return s.fail(start, CodeBadValue, "fewer than "+strconv.Itoa(least)+" elements")
	}
	return true
}

// propertyName holds the name of a member that the schema does not list to a
// pattern. In an envelope such a name is a member that does not exist.
func (s *scan) propertyName(name []byte, off int, p *pattern, code Code) bool {
	if !p.match(name) {
		return s.fail(off, code, "member name does not match "+p.source)
	}
	return true
}

func (s *scan) unknown(name []byte, off int) bool {
	return s.fail(off, CodeUnknownField, "unknown member "+quote(name))
}

// tooMany reports an object at off of more than most members.
func (s *scan) tooMany(off, most int) bool {
	return s.fail(off, CodeBadValue, "more than "+strconv.Itoa(most)+" members")
}

// missing reports the first required member that seen lacks.
func (s *scan) missing(off int, seen, required uint64, names []string) bool {
	for bit, name := range names {
		if required&^seen&(1<<bit) != 0 {
			s.fail(off, CodeMissingField, "missing member "+quote([]byte(name)))
			s.fault.missing = name
			return false
		}
	}
	return true
}
