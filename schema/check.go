package schema

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one event.
const (
	// MaxEvent is the largest event in bytes, so that its record stays within
	// 65,535; larger content goes by dataref.
	MaxEvent = 64000
	// MaxDepth is how deeply objects and arrays may nest, the event included.
	MaxDepth = 32
	// MaxPointer is the length in bytes at which a fault's pointer is cut.
	MaxPointer = 1024
)

// Code is the stable name of a kind of fault.
type Code string

// What can be wrong with the bytes of an event.
const (
	CodeTooLarge        Code = "too_large"        // more than MaxEvent bytes
	CodeControlByte     Code = "control_byte"     // a raw byte below 0x20
	CodeOuterWhitespace Code = "outer_whitespace" // a space before or after the object
	CodeBadUTF8         Code = "bad_utf8"
	CodeBadJSON         Code = "bad_json" // not JSON, or more than one value
	CodeDuplicateKey    Code = "duplicate_key"
	CodeLoneSurrogate   Code = "lone_surrogate" // an escape such as \ud800 without its pair
	CodeTooDeep         Code = "too_deep"       // deeper than MaxDepth
	CodeNumberRange     Code = "number_range"   // a number beyond ±2^53
	CodeNotAnObject     Code = "not_an_object"  // JSON, but not an object
)

// What can be wrong with the envelope and the data of an event.
const (
	CodeUnknownType    Code = "unknown_type"
	CodeUnknownVersion Code = "unknown_version"
	CodeMissingField   Code = "missing_field"
	CodeUnknownField   Code = "unknown_field"
	CodeWrongType      Code = "wrong_type"
	CodeBadValue       Code = "bad_value" // an enumeration, pattern, length, range or format
	CodeBadID          Code = "bad_id"    // the event id is not a UUID
)

// Codes lists every code.
func Codes() []Code {
	return []Code{
		CodeTooLarge, CodeControlByte, CodeOuterWhitespace, CodeBadUTF8, CodeBadJSON, CodeDuplicateKey, CodeLoneSurrogate,
		CodeTooDeep, CodeNumberRange, CodeNotAnObject, CodeUnknownType, CodeUnknownVersion, CodeMissingField, CodeUnknownField,
		CodeWrongType, CodeBadValue, CodeBadID,
	}
}

// Fault is why an event is refused.
type Fault struct {
	Code    Code
	Pointer string // JSON Pointer to the offending member, cut at MaxPointer bytes; "" is the event
	Message string
}

// Error gives code, place and reason.
func (f *Fault) Error() string {
	if f.Pointer == "" {
		return string(f.Code) + ": " + f.Message
	}
	return string(f.Code) + " at " + f.Pointer + ": " + f.Message
}

// Checked is what an intake needs to know of an event. Beside a fault, ID and
// IDString are set whenever the bytes are JSON that has a well-formed id, and
// the other fields are not.
type Checked struct {
	ID       [16]byte
	IDString string // "" when there is no well-formed id
	Type     string
	Version  int
	Time     string // as received
}

// Check validates the raw bytes of one event as an intake must: byte rules,
// envelope, type, then data, and reports the first fault. It never panics and
// its memory is bounded by MaxEvent.
//
// A good event is read once. Only where that walk stops are the rules taken
// one after the other, to find which is broken first.
func Check(raw []byte) (Checked, *Fault) {
	if c, n, ok := CheckFirst(raw); ok && n == len(raw) {
		return c, nil
	}
	if f := checkBytes(raw); f != nil {
		return Checked{}, f
	}
	c, rf := checkEvent(raw)
	if rf == nil {
		return c, nil
	}
	f := rf.locate(raw)
	if f.Code == CodeBadValue || f.Code == CodeWrongType {
		switch {
		case f.Pointer == "/id":
			f.Code, f.Message = CodeBadID, "want a UUID in canonical lower-case form"
		case f.Pointer == "/type" && f.Code == CodeBadValue:
			f.Code, f.Message = CodeUnknownType, "no such event type"
		}
	}
	id, text := findID(raw)
	return Checked{ID: id, IDString: text}, f
}

// CheckFirst reads the event that raw starts with, in one walk, and gives its
// length: raw[:n] is an event that Check accepts. Where ok is false nothing is
// said: there may be a good event all the same, such as one whose data stands
// before its type.
func CheckFirst(raw []byte) (c Checked, n int, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return Checked{}, 0, false
	}
	s := scan{b: raw[:min(len(raw), MaxEvent)]}
	if !s.envelope() || s.broken {
		return Checked{}, 0, false
	}
	n = s.i
	return s.checked(s.info), n, true
}

// checkBytes holds the rules that make raw one JSON object that every parser
// reads alike. What it accepts, scan can walk blindly.
func checkBytes(raw []byte) *Fault {
	if len(raw) > MaxEvent {
		return &Fault{Code: CodeTooLarge, Message: "the event has " + strconv.Itoa(len(raw)) + " bytes and the limit is " +
			strconv.Itoa(MaxEvent) + "; put large content into a blob and name it by dataref"}
	}
	for i, c := range raw {
		if c < 0x20 {
			return &Fault{Code: CodeControlByte, Pointer: pointerAt(raw, i),
				Message: "raw byte 0x" + strconv.FormatInt(int64(c), 16) + " at offset " + strconv.Itoa(i) + "; send compact JSON and escape it in strings"}
		}
	}
	if !utf8.Valid(raw) {
		i := invalidUTF8(raw)
		return &Fault{Code: CodeBadUTF8, Pointer: pointerAt(raw, i), Message: "invalid UTF-8 at offset " + strconv.Itoa(i)}
	}
	if len(raw) > 0 && (raw[0] == ' ' || raw[len(raw)-1] == ' ') {
		return &Fault{Code: CodeOuterWhitespace, Message: "white space before or after the event"}
	}
	if isTooDeep(raw) || !jsontext.Value(raw).IsValid() {
		return diagnose(raw)
	}
	if raw[0] != '{' {
		return &Fault{Code: CodeNotAnObject, Message: "an event is one JSON object"}
	}
	return nil
}

// isTooDeep says whether raw nests deeper than MaxDepth. To ask first spares
// validating ten thousand objects within objects.
func isTooDeep(raw []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// diagnose says what is wrong with UTF-8 bytes that are not valid JSON, or nested
// too deep.
func diagnose(raw []byte) *Fault {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		_, err := dec.ReadToken()
		switch {
		case err != nil:
			return syntaxFault(err)
		case dec.StackDepth() > MaxDepth:
			return &Fault{Code: CodeTooDeep, Pointer: boundPointer(dec.StackPointer()), Message: tooDeepMessage}
		case dec.StackDepth() == 0:
			return &Fault{Code: CodeBadJSON, Message: "more after the first JSON value, at offset " + strconv.FormatInt(dec.InputOffset(), 10)}
		}
	}
}

var tooDeepMessage = "nested deeper than " + strconv.Itoa(MaxDepth)

func syntaxFault(err error) *Fault {
	if errors.Is(err, io.EOF) {
		return &Fault{Code: CodeBadJSON, Message: "no JSON value"}
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return &Fault{Code: CodeBadJSON, Message: truncate(err.Error(), 4*maxQuoted)}
	}
	f := &Fault{Code: CodeBadJSON, Pointer: boundPointer(syntax.JSONPointer)}
	reason := "syntax error"
	if syntax.Err != nil {
		reason = truncate(syntax.Err.Error(), 4*maxQuoted)
	}
	f.Message = reason + " at offset " + strconv.FormatInt(syntax.ByteOffset, 10)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		f.Code, f.Message = CodeDuplicateKey, "the object has this member already"
	case bytes.Contains([]byte(reason), []byte("surrogate pair")):
		f.Code = CodeLoneSurrogate
	}
	return f
}

// checkEvent validates bytes that checkBytes accepted.
//
// An event that the schemas let in keeps the limits by itself: they bound its
// depth, and each of its numbers is read, and held to the range, once. Where
// something is wrong the limits come first, whatever else it is.
func checkEvent(raw []byte) (Checked, *rawFault) {
	c, fault := readEvent(raw)
	if fault != nil {
		if s := (scan{b: raw, valid: true}); !s.checkLimits() {
			fault = &s.fault
		}
	}
	return c, fault
}

func readEvent(raw []byte) (Checked, *rawFault) {
	s := scan{b: raw, valid: true}
	if !s.envelope() {
		return Checked{}, &s.fault
	}
	info, wrong := s.knownType()
	if wrong {
		return Checked{}, &s.fault
	}
	s.i = s.found.data
	if !info.check(&s) {
		return Checked{}, &s.fault
	}
	return s.checked(info), nil
}

// checked is what the walk of a good event found.
func (s *scan) checked(info *typeInfo) Checked {
	id := s.stringAt(s.found.id)
	c := Checked{IDString: string(id), Type: info.name, Version: info.version, Time: string(s.stringAt(s.found.time))}
	c.ID, _ = parseUUID(id)
	return c
}

// knownType looks up the type that the envelope names, in the version that it
// names.
func (s *scan) knownType() (info *typeInfo, wrong bool) {
	if info = lookup(s.stringAt(s.found.typ)); info == nil {
		return nil, !s.fail(s.found.typ, CodeUnknownType, "no such event type")
	}
	return info, !s.checkVersion(info)
}

// checkVersion holds dataschema to the type and to the versions known here.
func (s *scan) checkVersion(info *typeInfo) bool {
	rest, _ := bytes.CutPrefix(s.stringAt(s.found.dataschema), []byte("urn:assay:"))
	name, version, _ := bytes.Cut(rest, []byte(":"))
	switch {
	case string(name) != info.name:
		return s.fail(s.found.dataschema, CodeBadValue, "the type is "+info.name+", so dataschema is "+info.urn)
	case digits(version) != info.version:
		return s.fail(s.found.dataschema, CodeUnknownVersion, "the known version is "+info.urn)
	}
	return true
}

const numberRangeMessage = "beyond 2^53; send it as a string"

// checkLimits holds every number and the depth of every value to the limits.
func (s *scan) checkLimits() bool {
	depth := 0
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.span()
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return s.fail(s.i, CodeTooDeep, tooDeepMessage)
			}
			s.i++
		case c == '}' || c == ']':
			depth--
			s.i++
		case c == '-' || c >= '0' && c <= '9':
			off := s.i
			if !inRange(s.number()) {
				return s.fail(off, CodeNumberRange, numberRangeMessage)
			}
		default:
			s.i++
		}
	}
	s.i = 0
	return true
}

// stringAt is the value of the string that starts at off.
func (s *scan) stringAt(off int) []byte {
	s.i = off
	return s.unquoted()
}

// findID is the id of an event that checkBytes accepted but that is refused
// for another reason, so that the rejection can name it.
func findID(raw []byte) (id [16]byte, text string) {
	s := scan{b: raw, valid: true}
	if _, ok := s.enter('{', ""); !ok {
		return id, ""
	}
	for s.more('}') {
		name, _ := s.name()
		if string(name) == "id" && s.next() == '"' {
			v := s.unquoted()
			if id, ok := parseUUID(v); ok {
				return id, string(v)
			}
			return [16]byte{}, ""
		}
		s.skip()
	}
	return id, ""
}

// parseUUID reads the canonical lower-case form only.
func parseUUID(b []byte) (id [16]byte, ok bool) {
	if len(b) != 36 {
		return id, false
	}
	n := 0
	for i, c := range b {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return [16]byte{}, false
			}
			continue
		}
		var v byte
		switch {
		case c >= '0' && c <= '9':
			v = c - '0'
		case c >= 'a' && c <= 'f':
			v = c - 'a' + 10
		default:
			return [16]byte{}, false
		}
		id[n/2] = id[n/2]<<4 | v
		n++
	}
	return id, true
}

// locate computes the pointer, which only a refused event needs.
func (f *rawFault) locate(raw []byte) *Fault {
	p := pointerAt(raw, f.off)
	if f.missing != "" {
		p = boundPointer(jsontext.Pointer(p).AppendToken(f.missing))
	}
	return &Fault{Code: f.code, Pointer: p, Message: f.message}
}

// pointerAt is the JSON Pointer of the value or member at an offset, or of
// what precedes it where the bytes are not JSON.
func pointerAt(raw []byte, off int) string {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		if _, err := dec.ReadToken(); err != nil || dec.InputOffset() > int64(off) {
			return boundPointer(dec.StackPointer())
		}
	}
}

func boundPointer(p jsontext.Pointer) string { return truncate(string(p), MaxPointer) }
