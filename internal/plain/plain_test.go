package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	tests := []struct{ in, text, line, id string }{
		{"plain", "plain", "plain", "plain"},
		{"a\nb\tc", "a\nb\tc", `a\u000ab\u0009c`, `a\u000ab\u0009c`},
		{"\x1b[2J", `\u001b[2J`, `\u001b[2J`, `\u001b[2J`},
		{"a\u202eb\u2066c\u200b", `a\u202eb\u2066c\u200b`, `a\u202eb\u2066c\u200b`, `a\u202eb\u2066c\u200b`},
		{"a\u2028b\u0085", `a\u2028b\u0085`, `a\u2028b\u0085`, `a\u2028b\u0085`},
		{"\U000e0041x", `\U000e0041x`, `\U000e0041x`, `\U000e0041x`},
		{"\u3164\ufe0f", `\u3164\ufe0f`, `\u3164\ufe0f`, `\u3164\ufe0f`},
		{"a\xffb", `a\xffb`, `a\xffb`, `a\xffb`},
		{"\uFFFD", "\uFFFD", "\uFFFD", `\ufffd`},
		{"p\u0430yload", "p\u0430yload", "p\u0430yload", `p\u0430yload`}, // a Cyrillic a
		{"", "", "", ""},
	}
	for _, tt := range tests {
		if got := Text(tt.in); got != tt.text {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.text)
		}
		if got := Line(tt.in); got != tt.line {
			t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.line)
		}
		if got := ID(tt.in); got != tt.id {
			t.Errorf("ID(%q) = %q, want %q", tt.in, got, tt.id)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202e\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		text := Text(s)
		if !utf8.ValidString(text) || Text(text) != text {
			t.Errorf("Text(%q) = %q is not settled", s, text)
		}
		if strings.ContainsAny(Line(s), "\n\t") {
			t.Errorf("Line(%q) has more than a line", s)
		}
		for _, r := range ID(s) {
			if r < ' ' || r > '~' {
				t.Errorf("ID(%q) has %q", s, r)
			}
		}
	})
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
		cut   bool
	}{{"abc", 3, "abc", false}, {"abcd", 3, "abc", true}, {"aäb", 2, "a", true}, {"ä", 1, "", true}} {
		if got, cut := Clip(tt.in, tt.limit); got != tt.want || cut != tt.cut {
			t.Errorf("Clip(%q, %d) = %q, %v", tt.in, tt.limit, got, cut)
		}
	}
}
