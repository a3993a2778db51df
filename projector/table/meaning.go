package table

//go:generate go run ./internal/gen -o meaning_gen.go ../../events .. ../view

import (
	"cmp"
	"path"
	"reflect"
	"strings"
)

// meaningOf is what the comment at the member in its Go type says or, where
// there is none, what common says of its name.
func meaningOf(t reflect.Type, goName, name string) string {
	if m := meanings[path.Base(t.PkgPath())+"."+t.Name()+"."+goName]; m != "" {
		return m
	}
	return cmp.Or(common[t.Name()+"."+name], common[name])
}

func firstSentence(s string) string {
	s, _, _ = strings.Cut(s, ". ")
	s, _, _ = strings.Cut(s, "; ")
	return strings.TrimSuffix(s, ".")
}

// units are those of the members whose name ends so, the longest first.
var units = []struct{ suffix, unit string }{
	{"_usd_per_mtok", "US dollars per million tokens"},
	{"_nano_usd", "1e-9 US dollars"},
	{"_usd", "US dollars"},
	{"_seconds", "s"},
	{"_tokens", "tokens"},
	{"_ms", "ms"},
	{"_us", "µs"},
	{"bytes", "bytes"},
}

// unitOf is the unit of the member with that name; "" for none.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_sum")
	for _, u := range units {
		if strings.HasSuffix(name, u.suffix) {
			return u.unit
		}
	}
	return ""
}
