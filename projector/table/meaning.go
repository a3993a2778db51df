package table

//go:generate go run ./internal/gen -o meaning_gen.go ../../events .. ../view

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"strings"
)

// meaningOf is what the comment at the member in its Go type says or, where
// there is none, what common says of its name, or what the name's end says.
func meaningOf(t reflect.Type, goName, name string) string {
	if m := meanings[path.Base(t.PkgPath())+"."+t.Name()+"."+goName]; m != "" {
		return m
	}
	return cmp.Or(common[t.Name()+"."+name], common[name], ending(name))
}

// endings say what the members are whose name ends so.
var endings = []struct{ suffix, meaning string }{
	{"_id", "id of the %s"},
	{"_ids", "ids of the %s"},
	{"_sha256", "hex SHA-256 of the %s"},
	{"_ref", "hash that names the content of the %s"},
	{"_version", "version of the %s"},
	{"_commit", "commit of the %s"},
}

func ending(name string) string {
	for _, e := range endings {
		if rest, ok := strings.CutSuffix(name, e.suffix); ok {
			return fmt.Sprintf(e.meaning, strings.ReplaceAll(rest, "_", " "))
		}
	}
	return ""
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
