package schema

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestGoodEventsAreReadOnce: what publishers send takes the one walk.
func TestGoodEventsAreReadOnce(t *testing.T) {
	for _, typ := range Types() {
		raw := mustExample(t, typ)
		if _, n, ok := CheckFirst(append(bytes.Clone(raw), `,{"a":1}`...)); !ok || n != len(raw) {
			t.Errorf("%s: %d of %d bytes, %v", typ, n, len(raw), ok)
		}
		for _, v := range values(raw) { // the space is the one change that never matters
			for _, at := range []int{v.start, v.end} {
				if at == 0 || at == len(raw) {
					continue
				}
				spaced := []byte(string(raw[:at]) + "  " + string(raw[at:]))
				c, n, ok := CheckFirst(spaced)
				if want, f := checkEvent(spaced); !ok || n != len(spaced) || f != nil || c != want {
					t.Fatalf("%s with spaces at %d: %+v, %d, %v", typ, at, c, n, ok)
				}
			}
		}
	}
}

// TestWalkKeepsByteRules: the walk accepts nothing that the rules taken apart
// refuse, wherever in a good event a few bytes are changed.
func TestWalkKeepsByteRules(t *testing.T) {
	bits := []string{
		"", " ", ",", ":", "{", "}", "[", "]", `"`, `\`, `\"`, `\u`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `\u00e9`, `\x`, "\t", "\x00", "\x1f", "\x7f",
		"é", "\xc3", "\xff", "\xed\xa0\x80", "0", "01", "-", "-0", "1.", ".5", "1e", "1e+5", "tru", "true", "nul", "null", "falsey", "NaN", "/**/",
		`"x":1,`, `,"x":1`, `"id":"x",`, `"data":{},`, `"context":{},`, `,"labels":{"a":"b","a":"c"}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		raw := mustExample(t, rapid.SampledFrom(Types()).Draw(rt, "type"))
		for range rapid.IntRange(1, 2).Draw(rt, "changes") {
			from := rapid.IntRange(0, len(raw)).Draw(rt, "from")
			to := min(len(raw), from+rapid.IntRange(0, 3).Draw(rt, "length"))
			raw = append(append(bytes.Clone(raw[:from]), rapid.SampledFrom(bits).Draw(rt, "bytes")...), raw[to:]...)
		}
		c, n, ok := CheckFirst(raw)
		if !ok {
			return
		}
		raw = raw[:n]
		if f := checkBytes(raw); f != nil {
			rt.Fatalf("%v in %q", f, raw)
		}
		if apart, f := checkEvent(raw); f != nil || apart != c {
			rt.Fatalf("taken apart: %+v %+v\nin one walk: %+v\nof %q", apart, f, c, raw)
		}
	})
}

// TestRepeatedMembers: every member of every example, listed or free, required
// or not, is refused a second time.
func TestRepeatedMembers(t *testing.T) {
	for _, typ := range Types() {
		raw := mustExample(t, typ)
		for _, v := range values(raw) {
			if v.name < 0 {
				continue
			}
			member := string(raw[v.name:v.end])
			for _, again := range []string{member, strings.Replace(member, member[1:2], `\u00`+hexOf(member[1]), 1)} {
				_, f := Check([]byte(string(raw[:v.end]) + "," + again + string(raw[v.end:])))
				if f == nil || f.Code != CodeDuplicateKey {
					t.Errorf("%s: %s twice: %v", typ, member, f)
				}
			}
		}
	}
}

func hexOf(c byte) string { return string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) }

// TestDataBeforeType: members come in any order.
func TestDataBeforeType(t *testing.T) {
	raw := string(mustExample(t, "claim.revised"))
	at := strings.Index(raw, `,"data":`)
	if at < 0 {
		t.Fatal("the example has no data")
	}
	moved := "{" + raw[at+1:len(raw)-1] + "," + raw[1:at] + "}"
	if _, _, ok := CheckFirst([]byte(moved)); ok {
		t.Error("the walk accepts data whose type it does not know")
	}
	c, f := Check([]byte(moved))
	if want, _ := Check([]byte(raw)); f != nil || c != want {
		t.Errorf("got %+v, %v", c, f)
	}
}

func TestPlainFindsTheFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 'a', 0x7f, 0x80, 0xff}), 0, 30).Draw(rt, "bytes")
		want := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > 0x7f })
		if want < 0 {
			want = len(b)
		}
		if got := plain(b); got != want {
			rt.Errorf("%q: %d, want %d", b, got, want)
		}
	})
}

// TestStringsEqualDecoder holds the reading of strings to the JSON library.
func TestStringsEqualDecoder(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"a", "é", "😀", `"`, `\`, `\"`, `\\`, `\/`, `\b`, `\n`, `\a`, `\u`, `\u12`, `\u00e9`, `\uD83D`, `\ude00`, `\ud83d\ude00`, `\u+123`, `\u1_23`,
		"\xff", "\xe2\x82", "\ufffd", "abcdefgh",
	})
	compare := func(tb rapid.TB, text string) {
		raw := []byte(`"` + text + `"`)
		s := scan{b: raw}
		v := s.unquoted()
		ok := !s.broken && s.i == len(raw)
		if valid := jsontext.Value(raw).IsValid(); ok != valid {
			tb.Fatalf("%q: accepted %v, the library %v", raw, ok, valid)
		}
		if !ok {
			return
		}
		if want, err := jsontext.AppendUnquote(nil, raw); err != nil || !bytes.Equal(v, want) {
			tb.Errorf("%q: %q, want %q (%v)", raw, v, want, err)
		}
	}
	for _, text := range []string{
		`\ude00\ude00`, `\ud83d\ud83d`, `\ud83d\u0041`, `\ud83dx`, `\ud83d`, `\udbff\udfff`, `\ud7ff\ue000`, `\ud83d\ude0`, `\ud83d\n`, `\u`, `\`, `\u004`,
	} {
		compare(t, text)
	}
	rapid.Check(t, func(rt *rapid.T) {
		compare(rt, strings.Join(rapid.SliceOfN(part, 0, 6).Draw(rt, "parts"), ""))
	})
}
