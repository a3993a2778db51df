// Package ledger is the tamper-evident core: records, the hash chain, the
// RFC 6962 Merkle tree over them, signed checkpoints, and verification. It is
// pure: bytes in, bytes or verdicts out, with no clock, network or storage.
//
// # Record
//
// A record is one line of JSON, and its bytes are what is hashed:
//
//	{"v":1,"seq":42,"prev":"<64 hex>","recorded_at":"2026-10-03T12:00:00.000000000Z","principal":"agent/piper","namespace":"production","event":{…}}
//
//	v            the record format, always 1 here
//	seq          the position in the ledger and in the stream, from 1
//	prev         the leaf hash of the previous stored message; 64 zeros first
//	recorded_at  the logger's clock, UTC, nine fractional digits
//	principal    role/name of the connection that published the event
//	namespace    set by the logger from the principal's configuration
//	event        the event's bytes exactly as received, always last
//
// Members stand in this order with no white space, so that a record has one
// encoding only. The leaf is SHA-256(0x00 ‖ body), the RFC 6962 leaf hash. One
// hash is both chain link and Merkle leaf; the leaf's index is seq − 1.
package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// Version is the record format that this package writes.
	Version = 1
	// MaxRecord is the largest record body in bytes: C2SP entry bundles carry
	// a 16-bit length.
	MaxRecord = 65535
	// MaxEvent is the largest event in bytes that an intake may accept; the
	// difference to MaxRecord bounds the rest of the record.
	MaxEvent = 64000

	timeLayout = "2006-01-02T15:04:05.000000000Z"
)

var (
	// ErrCorrupt means that bytes are not what the format allows.
	ErrCorrupt = errors.New("corrupt record")
	// ErrUnsupportedVersion means a record of a format that this build does not read.
	ErrUnsupportedVersion = errors.New("unsupported record version")
)

// Seq is a record's position in the ledger, from 1; it equals the sequence of
// the message in the stream.
type Seq uint64

// Index is a leaf's position in the Merkle tree, from 0.
type Index uint64

// Index is where the record's leaf stands in the tree. A zero Seq has none.
func (s Seq) Index() Index { return Index(s - 1) }

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String is the lower-case hexadecimal form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 64 lower-case hexadecimal digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) || strings.ToLower(s) != s {
		return Hash{}, fmt.Errorf("hash %q: want 64 lower-case hex digits", s)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("hash %q: %w", s, err)
	}
	return h, nil
}

// Leaf is the RFC 6962 leaf hash of a record body: SHA-256(0x00 ‖ body).
func Leaf(body []byte) Hash {
	var stack [1024]byte // a usual record, kept off the heap
	return sha256.Sum256(append(append(stack[:0], 0), body...))
}

// Header is what the logger adds to an event.
type Header struct {
	Seq        Seq
	Prev       Hash
	RecordedAt time.Time
	Principal  string // role/name
	Namespace  string
}

// Record is a parsed record. Event and Body alias the bytes it was parsed from.
type Record struct {
	Header
	Event []byte
	Body  []byte
}

// Leaf is the leaf hash of the record's stored bytes.
func (r *Record) Leaf() Hash { return Leaf(r.Body) }

// AppendRecord appends the record's body to dst by copying bytes; the event is
// never re-encoded. Principal and namespace must satisfy IsPrincipal and
// IsNamespace, and the event must be one JSON object without outer white space.
func AppendRecord(dst []byte, h Header, event []byte) []byte {
	dst = append(dst, `{"v":1,"seq":`...)
	dst = strconv.AppendUint(dst, uint64(h.Seq), 10)
	dst = append(dst, `,"prev":"`...)
	dst = hex.AppendEncode(dst, h.Prev[:])
	dst = append(dst, `","recorded_at":"`...)
	dst = AppendTime(dst, h.RecordedAt)
	dst = append(dst, `","principal":"`...)
	dst = append(dst, h.Principal...)
	dst = append(dst, `","namespace":"`...)
	dst = append(dst, h.Namespace...)
	dst = append(dst, `","event":`...)
	dst = append(dst, event...)
	return append(dst, '}')
}

// FormatTime is how recorded_at is written.
func FormatTime(t time.Time) string { return string(AppendTime(nil, t)) }

// AppendTime appends what FormatTime returns. It is written out because it runs
// twice a record and time's own layouts cost more than hashing the record.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, timeLayout)
	}
	hour, minute, second := t.Clock()
	dst = append(dst, timeLayout...)
	b := dst[len(dst)-len(timeLayout):]
	putDigits(b[0:4], year)
	putDigits(b[5:7], int(month))
	putDigits(b[8:10], day)
	putDigits(b[11:13], hour)
	putDigits(b[14:16], minute)
	putDigits(b[17:19], second)
	putDigits(b[20:29], t.Nanosecond())
	return dst
}

// putDigits fills b with n's decimal digits.
func putDigits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// ParseRecord reads a record body. It accepts exactly the bytes that
// AppendRecord writes: ErrUnsupportedVersion for another version, ErrCorrupt
// with the place for anything else.
func ParseRecord(body []byte) (Record, error) {
	p := parser{rest: body}
	if len(body) > MaxRecord {
		return Record{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrCorrupt, len(body), MaxRecord)
	}
	p.lit(`{"v":`)
	v := p.uint()
	if p.err == nil && v != Version {
		return Record{}, fmt.Errorf("%w %d", ErrUnsupportedVersion, v)
	}
	var r Record
	p.lit(`,"seq":`)
	r.Seq = Seq(p.uint())
	p.lit(`,"prev":"`)
	r.Prev = p.hash()
	p.lit(`","recorded_at":"`)
	r.RecordedAt = p.time()
	p.lit(`","principal":"`)
	r.Principal = p.name(IsPrincipal)
	p.lit(`","namespace":"`)
	r.Namespace = p.name(IsNamespace)
	p.lit(`","event":`)
	if p.err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrCorrupt, p.err)
	}
	n := len(p.rest)
	if n < 3 || p.rest[0] != '{' || p.rest[n-1] != '}' {
		return Record{}, fmt.Errorf("%w: event is not the last member", ErrCorrupt)
	}
	r.Event = p.rest[:n-1]
	r.Body = body
	return r, nil
}

// CheckEvent says whether the event is one JSON object without duplicate
// names, invalid UTF-8 or raw control bytes: what the logger let in, and what
// keeps a forged member from hiding behind the event.
func (r *Record) CheckEvent() error {
	if i := bytes.IndexFunc(r.Event, func(c rune) bool { return c < 0x20 }); i >= 0 {
		return fmt.Errorf("%w: raw control byte at %d of the event", ErrCorrupt, i)
	}
	v := jsontext.Value(r.Event)
	if r.Event[len(r.Event)-1] != '}' || !v.IsValid() {
		return fmt.Errorf("%w: event is not one JSON object", ErrCorrupt)
	}
	return nil
}

type parser struct {
	rest []byte
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *parser) lit(s string) {
	if p.err != nil {
		return
	}
	if len(p.rest) < len(s) || string(p.rest[:len(s)]) != s {
		p.fail("want %s", s)
		return
	}
	p.rest = p.rest[len(s):]
}

func (p *parser) uint() uint64 {
	n := 0
	var v uint64
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		d := uint64(p.rest[n] - '0')
		if v > (math.MaxUint64-d)/10 {
			p.fail("number beyond 64 bits: %.24q", p.rest)
			return 0
		}
		v = 10*v + d
		n++
	}
	if n == 0 || n > 1 && p.rest[0] == '0' {
		p.fail("not a canonical number: %q", p.rest[:n])
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) take(n int) []byte {
	if p.err != nil || len(p.rest) < n {
		p.fail("truncated")
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) hash() Hash {
	b := p.take(2 * sha256.Size)
	if p.err != nil {
		return Hash{}
	}
	var h Hash
	for i := range h {
		high, low := hexDigit[b[2*i]], hexDigit[b[2*i+1]]
		if high|low > 0xf {
			p.fail("hash %q: want 64 lower-case hex digits", b)
			return Hash{}
		}
		h[i] = high<<4 | low
	}
	return h
}

// hexDigit is the value of a lower-case hexadecimal digit, 0xff of another byte.
var hexDigit = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

func (p *parser) time() time.Time {
	b := p.take(len(timeLayout))
	if p.err != nil {
		return time.Time{}
	}
	t, ok := parseTime(b)
	if !ok {
		p.fail("recorded_at %q: want UTC with nine fractional digits", b)
	}
	return t
}

// parseTime reads what AppendTime writes of a year up to 9999, and nothing else.
func parseTime(b []byte) (t time.Time, ok bool) {
	for i, c := range []byte(timeLayout) {
		digit := c >= '0' && c <= '9'
		if digit && (b[i] < '0' || b[i] > '9') || !digit && b[i] != c {
			return time.Time{}, false
		}
	}
	number := func(from, to int) (n int) {
		for _, c := range b[from:to] {
			n = 10*n + int(c-'0')
		}
		return n
	}
	month, day := number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	t = time.Date(number(0, 4), time.Month(month), day, hour, minute, second, number(20, 29), time.UTC)
	// Date carries what is out of range over into the larger units.
	ok = month >= 1 && month <= 12 && t.Day() == day && day >= 1 && hour < 24 && minute < 60 && second < 60
	return t, ok
}

func (p *parser) name(ok func(string) bool) string {
	if p.err != nil {
		return ""
	}
	n := bytes.IndexByte(p.rest, '"')
	if n < 0 || n > maxName {
		p.fail("malformed name")
		return ""
	}
	s := string(p.rest[:n])
	if !ok(s) {
		p.fail("malformed name")
		return ""
	}
	p.rest = p.rest[n:]
	return s
}

// maxName is longer than every principal and namespace.
const maxName = 128

// IsPrincipal says whether s is role/name, each of 1 to 32 lower-case letters,
// digits, - and _, starting with a letter.
func IsPrincipal(s string) bool {
	role, name, ok := strings.Cut(s, "/")
	return ok && isWord(role, 32) && isWord(name, 32)
}

// IsNamespace says whether s is a namespace: a word, or bench/ and a run id of
// up to 64 lower-case letters, digits, - and _.
func IsNamespace(s string) bool {
	if run, ok := strings.CutPrefix(s, "bench/"); ok {
		return isWord("r"+run, 65) && run != ""
	}
	return isWord(s, 32)
}

func isWord(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return true
}
