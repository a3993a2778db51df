// Package plain makes text of others harmless to show: on a terminal, where
// escapes act, and on a page, where characters that nobody sees reorder or hide
// what stands beside them.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text writes control characters, those of format (the bidirectional overrides
// and zero-width ones among them), separators of lines and bytes that are no
// UTF-8 as escapes. Line breaks and tabs stay.
func Text(s string) string { return escape(s, hidden) }

// Line is Text on one line: breaks and tabs are escaped too.
func Line(s string) string {
	return escape(s, func(r rune) bool { return hidden(r) || r == '\n' || r == '\t' })
}

// ID is an identifier in ASCII, all else escaped, so that two which look alike
// are alike.
func ID(s string) string { return Only(s, "") }

// Only is ID for a text in which other signs may stand as they are.
func Only(s, signs string) string {
	return escape(s, func(r rune) bool { return (r < ' ' || r > '~') && !strings.ContainsRune(signs, r) })
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector) || fills(r))
}

// fills says whether a letter is drawn as nothing.
func fills(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return false
}

func escape(s string, is func(rune) bool) string {
	bad := func(i int, r rune) bool {
		return is(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
	}
	for i, r := range s {
		if bad(i, r) {
			return escapeFrom(s, i, bad)
		}
	}
	return s
}

func escapeFrom(s string, first int, bad func(int, rune) bool) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:first])
	for i, r := range s[first:] {
		i += first
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !bad(i, r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Clip is the text up to limit bytes, never in the middle of a rune; cut says
// that there was more.
func Clip(s string, limit int) (out string, cut bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], true
}
