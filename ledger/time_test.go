package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimeAgreesWithTheLibrary holds the written-out forms against package
// time's own for the same layout.
func TestTimeAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(-70_000_000_000, 300_000_000_000).Draw(t, "seconds")
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600)
		at := time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		want := at.UTC().Format(timeLayout)
		if got := FormatTime(at); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if len(want) != len(timeLayout) {
			return // a year that no record has
		}
		if back, ok := parseTime([]byte(want)); !ok || !back.Equal(at) {
			t.Fatalf("%s read back as %s, %v", want, back, ok)
		}
		changed := []byte(want)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "place")
		changed[i] = rapid.SampledFrom([]byte("0123456789-:.TZ+ ")).Draw(t, "byte")
		library, err := time.Parse(timeLayout, string(changed))
		canonical := err == nil && library.Format(timeLayout) == string(changed)
		got, ok := parseTime(changed)
		if ok != canonical || ok && !got.Equal(library) {
			t.Fatalf("%s: read as %s, %v; the library says %s, %v", changed, got, ok, library, err)
		}
	})
}

func TestParseRecordNumbers(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "18446744073709551615": 1<<64 - 1} {
		p := parser{rest: []byte(text + ",")}
		if got := p.uint(); p.err != nil || got != want || string(p.rest) != "," {
			t.Errorf("%s: %d, %v, rest %q", text, got, p.err, p.rest)
		}
	}
	for _, text := range []string{"", "x", "-1", "01", "18446744073709551616", "99999999999999999999999"} {
		p := parser{rest: []byte(text + ",")}
		if p.uint(); p.err == nil {
			t.Errorf("%s was read as a number", text)
		}
	}
}
