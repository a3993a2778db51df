package detector

import (
	"bytes"
	"unicode/utf8"
)

// A token is the hash of a lower-case word, or one of these.
const (
	tokenNumber = iota + 1
	tokenCode   // `inline code`, and identifiers such as pool_size
	tokenQuote  // "what somebody else said"
	tokenURL
	tokenColon
	tokenComma
	tokenDash
	tokenWord // a word that no class knows; only in skeletons
	tokenEdge // where a sentence begins and ends; only in skeletons
	firstWord
)

// sentence is a stretch of a turn in its author's own words.
type sentence struct {
	from, to int // tokens
	start    int // bytes of the turn
	end      int
	question bool
}

// lexed is a turn cut into sentences and tokens, without what its author quotes: fenced
// code, quoted lines, lines of logs and traces.
type lexed struct {
	tokens    []uint32
	sentences []sentence
	quoted    bool // something was left out
}

func (l *lexed) reset() {
	l.tokens, l.sentences, l.quoted = l.tokens[:0], l.sentences[:0], false
}

// lexer cuts a text. What was read of a sentence goes on over the end of a line unless
// the line ends one.
type lexer struct {
	*lexed
	text  []byte
	open  bool // a sentence has begun
	start int  // of it, in bytes
	from  int  // its first token
	last  int  // end of its last token, in bytes
	// lone is the end of the line in which an opening mark was found to have no closing
	// one: later marks of the line have none either, and it is not searched again.
	lone int
}

// lex cuts text into l.
func (l *lexed) lex(text []byte) {
	l.reset()
	x := lexer{lexed: l, text: text}
	var open []byte // the marks of the fence that is open
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			end = len(text)
		} else {
			end += at
		}
		line := bytes.TrimSpace(text[at:end])
		marks, rest := fence(line)
		switch {
		case open != nil: // until as many of the same mark stand alone in a line
			if bytes.HasPrefix(marks, open) && len(rest) == 0 {
				open = nil
			}
		case marks != nil:
			x.finish(false)
			open, l.quoted = marks, true
		case len(line) == 0:
			x.finish(false)
		case isQuoted(line):
			x.finish(false)
			l.quoted = true
		default:
			if startsItem(line) {
				x.finish(false)
			}
			x.line(at, end)
		}
		at = end + 1
	}
	x.finish(false)
}

// fence cuts a line into the marks of a fence, three or more, and what stands behind
// them; nil where it is none. Behind backquotes no other one stands: ```so``` is a line
// with code in it.
func fence(line []byte) (marks, rest []byte) {
	if len(line) < 3 || line[0] != '`' && line[0] != '~' {
		return nil, nil
	}
	rest = bytes.TrimLeft(line, string(line[0]))
	marks = line[:len(line)-len(rest)]
	if len(marks) < 3 || line[0] == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return nil, nil
	}
	return marks, rest
}

// startsItem says whether a line cannot go on with the sentence of the line before.
func startsItem(line []byte) bool {
	switch line[0] {
	case '#', '-', '*', '|', '+':
		return true
	}
	i := 0
	for i < len(line) && isDigit(line[i]) {
		i++
	}
	return i > 0 && i < len(line) && (line[i] == '.' || line[i] == ')')
}

// finish ends the sentence that is open.
func (x *lexer) finish(question bool) {
	if x.open && len(x.tokens) > x.from {
		x.sentences = append(x.sentences, sentence{from: x.from, to: len(x.tokens), start: x.start, end: x.last, question: question})
	}
	x.open = false
}

func (x *lexer) put(token uint32, start, end int) {
	if !x.open {
		x.open, x.start, x.from = true, start, len(x.tokens)
	}
	x.tokens = append(x.tokens, token)
	x.last = end
}

// line reads the bytes from at to end, which hold no newline.
func (x *lexer) line(at, end int) {
	t := x.text
	for i := at; i < end; {
		c := t[i]
		switch {
		case isLetter(c) || isDigit(c):
			i = x.word(i, end)
		case c == '`':
			i = x.enclosed(i, end, 1, "`", tokenCode)
		case c == '"':
			i = x.enclosed(i, end, 1, "\"", tokenQuote)
		case c == 0xe2 && bytes.HasPrefix(t[i:end], openQuote):
			i = x.enclosed(i, end, len(openQuote), "\u201d", tokenQuote)
		case c == '?' || c == '!' || c == '.':
			question := false
			for ; i < end && (t[i] == '?' || t[i] == '!' || t[i] == '.'); i++ {
				question = question || t[i] == '?'
			}
			if i == end || t[i] == ' ' || t[i] == ')' || t[i] == '*' || question {
				x.last = i
				x.finish(question)
			}
		case c == ':' || c == ';':
			x.put(tokenColon, i, i+1)
			i++
		case c == ',':
			x.put(tokenComma, i, i+1)
			i++
		case c == '-' && x.open && i > at && t[i-1] == ' ':
			x.put(tokenDash, i, i+1)
			i++
		case c == 0xe2 && bytes.HasPrefix(t[i:end], emDash):
			x.put(tokenDash, i, i+len(emDash))
			i += len(emDash)
		default:
			_, n := utf8.DecodeRune(t[i:end])
			i += n
		}
	}
}

var (
	openQuote = []byte("\u201c")
	emDash    = []byte("\u2014")
	typed     = []byte("\u2019") // the apostrophe as text processors write it
)

// enclosed reads what stands between two marks as one token; without a second one the
// first is passed over.
func (x *lexer) enclosed(i, end, n int, closing string, token uint32) int {
	if x.lone == end && n > 1 {
		return i + n
	}
	to := bytes.Index(x.text[i+n:end], []byte(closing))
	if to < 0 {
		if n > 1 { // of a mark that closes itself this is the last one
			x.lone = end
		}
		return i + n
	}
	to += i + n + len(closing)
	x.put(token, i, to)
	x.quoted = x.quoted || token == tokenQuote
	return to
}

const (
	hashBasis = 2166136261
	hashPrime = 16777619
)

// hashWord is FNV-1a, kept clear of the other tokens.
func hashWord(word string) uint32 {
	h := uint32(hashBasis)
	for i := range len(word) {
		h = (h ^ uint32(word[i])) * hashPrime
	}
	return clear(h)
}

func clear(h uint32) uint32 {
	if h < firstWord {
		h += firstWord
	}
	return h
}

// word reads a word, a number, an identifier or an address.
func (x *lexer) word(i, end int) int {
	t, start := x.text, i
	h := uint32(hashBasis)
	letters, digits, code := false, false, false
	for i < end {
		c := t[i]
		switch {
		case isLetter(c):
			if c >= 'A' && c <= 'Z' {
				code = code || i > start && t[i-1] >= 'a' && t[i-1] <= 'z' // camelCase
				c |= 0x20
			}
			letters = true
		case isDigit(c):
			digits = true
		case c == '\'' && i+1 < end && isLetter(t[i+1]):
		case c == 0xe2 && bytes.HasPrefix(t[i:end], typed) && i+len(typed) < end && isLetter(t[i+len(typed)]):
			h = (h ^ '\'') * hashPrime
			i += len(typed)
			continue
		case (c == '_' || c == '=' || c == '/' || c == '.' || c == '@') && i+1 < end && (isLetter(t[i+1]) || isDigit(t[i+1])):
			code = code || letters || c != '.'
		case c == ':' && bytes.HasPrefix(t[i:end], []byte("://")):
			for i < end && t[i] != ' ' {
				i++
			}
			x.put(tokenURL, start, i)
			return i
		case c == '(' && i+1 < end && t[i+1] == ')':
			code = true
			i++
		default:
			goto done
		}
		h = (h ^ uint32(c)) * hashPrime
		i++
	}
done:
	switch {
	case code && letters:
		x.put(tokenCode, start, i)
	case digits:
		x.put(tokenNumber, start, i)
	default:
		x.put(clear(h), start, i)
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0xc3 && c <= 0xdf || c >= 0x80 && c < 0xc0
}

// isQuoted says whether a line is one that its author only shows: a quotation, a
// comment, a line of a log or of a trace, an upper-case command of SQL.
func isQuoted(line []byte) bool {
	switch c := line[0]; {
	case c == '>', c == '<':
		return true
	case c == '/':
		return len(line) > 1 && line[1] != ' '
	case isDigit(c):
		return isTimestamp(line)
	case c == '[':
		return len(line) > 1 && (isTimestamp(line[1:]) || isUpper(line[1]))
	case c == '{':
		return true
	}
	for _, p := range logStarts {
		if bytes.HasPrefix(line, p) {
			return true
		}
	}
	return isLevel(line) || isException(line)
}

var logStarts = [][]byte{
	[]byte("Caused by:"), []byte("Traceback ("), []byte("File \""), []byte("panic:"), []byte("goroutine "), []byte("Exception in thread"),
	[]byte("at java."), []byte("level="), []byte("time="), []byte("ts="), []byte("SELECT "), []byte("INSERT "), []byte("UPDATE "),
	[]byte("$ "), []byte("The above exception was the direct cause"), []byte("During handling of the above exception"),
}

// isTimestamp: 2026-01-02, 10:11:12 or 1767225600.
func isTimestamp(b []byte) bool {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	switch {
	case n == 4:
		return len(b) > 9 && b[4] == '-' && isDigit(b[5]) && b[7] == '-'
	case n == 2:
		return len(b) > 7 && b[2] == ':' && b[5] == ':'
	}
	return n >= 10
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// isLevel: the line begins with ERROR, WARN and the like, behind which no prose comes.
func isLevel(line []byte) bool {
	for _, level := range levels {
		if rest, ok := bytes.CutPrefix(line, level); ok && len(rest) > 0 && (rest[0] == ' ' || rest[0] == ':' || rest[0] == '[' || rest[0] == ']') {
			return true
		}
	}
	return false
}

var levels = [][]byte{
	[]byte("ERROR"), []byte("WARN"), []byte("WARNING"), []byte("INFO"), []byte("DEBUG"), []byte("FATAL"), []byte("TRACE"), []byte("CRITICAL"), []byte("Error"),
}

// isException: the first word ends in Error or Exception and a colon, or is a path of
// a package, as in "java.io.IOException: disk full".
func isException(line []byte) bool {
	word, _, ok := bytes.Cut(line, []byte(":"))
	if !ok || bytes.IndexByte(word, ' ') >= 0 {
		return false
	}
	return bytes.HasSuffix(word, []byte("Error")) || bytes.HasSuffix(word, []byte("Exception"))
}
