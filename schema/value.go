package schema

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// pattern is a regular expression compiled by the generator to a DFA over
// bytes. A state is the offset of its row in next, which has an entry for each
// class: row 0 rejects for ever, row 1 is the start.
type pattern struct {
	source  string
	classes *[256]uint8 // byte to equivalence class
	width   int         // number of classes
	next    []uint16    // state + class to state
	final   []bool      // by row
}

func (p *pattern) match(b []byte) bool {
	state := p.width
	for _, c := range b {
		state = int(p.next[state+int(p.classes[c])])
		if state == 0 {
			return false
		}
	}
	return p.final[state/p.width]
}

// bounds are the inclusive limits of a number.
type bounds struct {
	min, max       int64
	hasMin, hasMax bool
}

// plainDigits is how many digits an int64 holds whatever they are.
const plainDigits = 18

// smallInteger reads a number written in plain digits.
func smallInteger(lit []byte) (n int64, ok bool) {
	digits := lit
	if lit[0] == '-' {
		digits = lit[1:]
	}
	if len(digits) > plainDigits {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if lit[0] == '-' {
		n = -n
	}
	return n, true
}

// compareNumber compares a JSON number with an integer exactly: -1, 0 or +1.
// A float64 alone is not enough, since 1.00000000000000000001 rounds to 1.
func compareNumber(lit []byte, bound int64) int {
	if n, ok := smallInteger(lit); ok {
		switch {
		case n < bound:
			return -1
		case n > bound:
			return 1
		}
		return 0
	}
	// Rounding keeps order, so that only a float64 equal to the bound is in doubt.
	if f, err := strconv.ParseFloat(string(lit), 64); err == nil && bound >= -maxExact && bound <= maxExact && f != float64(bound) {
		if f < float64(bound) {
			return -1
		}
		return 1
	}
	a, b := parseDecimal(lit), parseDecimal(strconv.AppendInt(nil, bound, 10))
	return a.compare(b)
}

// isInteger says whether a JSON number has a whole value, as JSON Schema has
// it: 5.0 and 1e3 are integers.
func isInteger(lit []byte) bool {
	if _, ok := smallInteger(lit); ok {
		return true
	}
	d := parseDecimal(lit)
	return d.sign == 0 || d.exp >= len(d.digits)
}

// decimal is sign × 0.digits × 10^exp, with neither leading nor trailing zero
// digits; zero has sign 0. Its size is that of the literal, whatever exp is.
type decimal struct {
	sign   int
	digits []byte
	exp    int
}

func parseDecimal(lit []byte) decimal {
	d := decimal{sign: 1}
	if lit[0] == '-' {
		d.sign, lit = -1, lit[1:]
	}
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		d.exp = clampExponent(lit[i+1:])
		lit = lit[:i]
	}
	whole, frac, _ := bytes.Cut(lit, []byte("."))
	d.exp += len(whole)
	digits := append(bytes.Clone(whole), frac...)
	trimmed := bytes.TrimLeft(digits, "0")
	d.exp -= len(digits) - len(trimmed)
	d.digits = bytes.TrimRight(trimmed, "0")
	if len(d.digits) == 0 {
		return decimal{}
	}
	return d
}

// clampExponent reads an exponent and keeps it where adding the length of a
// literal cannot overflow; beyond that, order and wholeness do not change.
func clampExponent(b []byte) int {
	const limit = 1 << 30
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "+"))
	switch {
	case b[0] == '-' && (err != nil || n < -limit):
		return -limit
	case err != nil || n > limit:
		return limit
	}
	return n
}

func (d decimal) compare(o decimal) int {
	if d.sign != o.sign {
		return compareInt(d.sign, o.sign)
	}
	if c := compareInt(d.exp, o.exp); c != 0 {
		return c * d.sign
	}
	return bytes.Compare(d.digits, o.digits) * d.sign
}

func compareInt(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// maxExact is 2^53: up to here every integer is a float64 of its own.
const maxExact = 1 << 53

// inRange says whether a number survives readers that use float64.
func inRange(lit []byte) bool {
	if n, ok := smallInteger(lit); ok {
		return n >= -maxExact && n <= maxExact
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || math.Abs(f) > maxExact {
		return false
	}
	return math.Abs(f) < maxExact || compareNumber(bytes.TrimPrefix(lit, []byte("-")), maxExact) <= 0
}

// isDateTime says whether b, which has the shape yyyy-mm-ddThh:mm:ss[.f](Z|±hh:mm)
// already, names a day and time that exist.
func isDateTime(b []byte) bool {
	year, month, day := digits(b[0:4]), digits(b[5:7]), digits(b[8:10])
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return false
	}
	if digits(b[11:13]) > 23 || digits(b[14:16]) > 59 || digits(b[17:19]) > 59 {
		return false
	}
	if b[len(b)-1] == 'Z' {
		return true
	}
	zone := b[len(b)-len("hh:mm"):]
	return digits(zone[:2]) <= 23 && digits(zone[3:]) <= 59
}

func daysIn(year, month int) int {
	switch time.Month(month) {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func digits(b []byte) (n int) {
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}

// maxQuoted bounds how much of a sender's bytes a message repeats.
const maxQuoted = 64

func quote(b []byte) string {
	if len(b) > maxQuoted {
		return strconv.QuoteToASCII(truncate(string(b), maxQuoted)) + "…"
	}
	return strconv.QuoteToASCII(string(b))
}

func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return strings.Join(quoted, ", ")
}

// truncate cuts s to at most limit bytes at the start of a character.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
