package schema

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan walks the JSON of one event, held to the grammar and to the byte rules
// as it goes: what a walk accepts is one JSON value that every parser reads
// alike. The only white space is the space character. Where valid is set, the
// bytes are known to keep these rules already, and a walk finds nothing but
// what the schema says.
//
// The generated validators call its methods. Each consumes one value and
// reports whether it satisfies the schema; on false, fault says why and the
// walk ends.
type scan struct {
	b      []byte
	i      int
	open   bool // the last token opened an object or array
	broken bool // not JSON; more reports no further member then
	valid  bool
	info   *typeInfo // of the event, where its data was read in passing
	found  members   // where the envelope's members start
	fault  rawFault
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

// next skips spaces and returns the first byte of the coming token, 0 at the
// end.
func (s *scan) next() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c != ' ' {
			return c
		}
	}
	return 0
}

// enter consumes the opening bracket of an object or array.
func (s *scan) enter(open byte, kind string) (start int, ok bool) {
	if s.next() != open {
		return s.i, s.fail(s.i, CodeWrongType, "want "+kind)
	}
	s.i++
	s.open = true
	return s.i - 1, true
}

// more says whether the object or array that ends with end has another member
// or element, and consumes the comma or the end.
func (s *scan) more(end byte) bool {
	c := s.next()
	first := s.open
	s.open = false
	switch {
	case s.broken:
		return false
	case c == end:
		s.i++
		return false
	case first:
		return true
	case c == ',':
		s.i++
		s.next()
		return true
	}
	s.broken = true
	return false
}

// name consumes a member name and its colon.
func (s *scan) name() (name []byte, off int) {
	off = s.i
	name = s.unquoted()
	if s.next() != ':' {
		s.broken = true
		return name, off
	}
	s.i++
	s.next()
	return name, off
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// plain counts the bytes before the first one that is a quote, a backslash, a
// control byte or not ASCII.
func plain(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The high bit of a byte is set where it is one of those; above the
		// first such byte a borrow may set others, which do not matter.
		found := ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | (w - ' '*ones) | w
		if found &= highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// span consumes a string and returns what stands between its quotes.
func (s *scan) span() (text []byte, escaped bool) {
	if s.next() != '"' {
		s.broken = true
		return nil, false
	}
	start := s.i + 1
	for i := start; ; {
		i += plain(s.b[i:])
		if i >= len(s.b) {
			break
		}
		n := 1
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[start:i], escaped
		case c == '\\':
			escaped = true
			n = escape(s.b[i:])
		case c >= utf8.RuneSelf:
			var r rune
			if r, n = utf8.DecodeRune(s.b[i:]); r == utf8.RuneError && n == 1 {
				n = 0
			}
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		i += n
	}
	s.broken = true
	return nil, false
}

// escape is the length of the escape sequence that b starts with, of both
// where two make a surrogate pair; 0 is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return 2
	}
	const one, pair = len(`\uxxxx`), len(`\uxxxx\uxxxx`)
	switch r, ok := hex4(b); {
	case !ok:
		return 0
	case r < 0xd800 || r > 0xdfff:
		return one
	case r > 0xdbff || len(b) < pair || b[one] != '\\' || b[one+1] != 'u':
		return 0
	}
	if low, ok := hex4(b[one:]); !ok || low < 0xdc00 || low > 0xdfff {
		return 0
	}
	return pair
}

// hex4 reads the digits of an escape such as \u00e9.
func hex4(b []byte) (r uint64, ok bool) {
	if len(b) < 6 {
		return 0, false
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return r, err == nil
}

// unquoted consumes a string and returns its value.
func (s *scan) unquoted() []byte {
	s.next()
	start := s.i
	text, escaped := s.span()
	if !escaped {
		return text
	}
	// span has accepted it, so that this cannot fail.
	text, _ = jsontext.AppendUnquote(nil, s.b[start:s.i])
	return text
}

// number consumes a number and returns its text.
func (s *scan) number() []byte {
	start := s.i
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.i++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '-' || c == '+' {
			s.i++
		}
		s.digits()
	}
	return s.b[start:s.i]
}

// peek is the coming byte, 0 at the end.
func (s *scan) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// digits consumes one digit or more.
func (s *scan) digits() {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	if s.i == start {
		s.broken = true
	}
}

// literal consumes a word such as true.
func (s *scan) literal(word string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		s.broken = true
		return true
	}
	s.i += len(word)
	return true
}

// skip consumes any value of bytes that are valid.
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
	return s.literal("null")
}

func (s *scan) boolean() bool {
	switch s.next() {
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	}
	return s.fail(s.i, CodeWrongType, "want true or false")
}

// data accepts the event's data. Valid bytes are only stepped over, so that a
// fault of the envelope comes before those of the data; else they are checked
// in passing, which takes a type and dataschema that stand before them.
func (s *scan) data() bool {
	if s.next() != '{' {
		return s.fail(s.i, CodeWrongType, "want an object")
	}
	if s.valid {
		s.skip()
		return true
	}
	if s.found.typ == 0 || s.found.dataschema == 0 {
		s.broken = true
		return true
	}
	info, wrong := s.knownType()
	if wrong {
		return false
	}
	s.info, s.i = info, s.found.data
	return info.check(s)
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
	for ; s.more(']'); n++ {
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
func (s *scan) propertyName(name []byte, start, off int, p *pattern, code Code) bool {
	if !p.match(name) {
		return s.fail(off, code, "member name does not match "+p.source)
	}
	if !s.valid && s.repeated(name, start, off) {
		s.broken = true
	}
	return true
}

// repeated says whether the object at start has the name in a member before
// off. Objects of free names are small, so that walking them again costs less
// than a set.
func (s *scan) repeated(name []byte, start, off int) bool {
	if s.broken {
		return true
	}
	seen := scan{b: s.b, i: start + 1, open: true, valid: true}
	for seen.more('}') {
		n, at := seen.name()
		switch {
		case at == off:
			return false
		case bytes.Equal(n, name):
			return true
		}
		seen.skip()
	}
	return false
}

// once records that the member of that bit is here, in an object whose members
// have a bit each.
func (s *scan) once(seen *uint64, bit int) {
	if *seen&(1<<bit) != 0 {
		s.broken = true
	}
	*seen |= 1 << bit
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
