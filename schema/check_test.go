package schema

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// badExample is a line of bad/*.txt.
type badExample struct {
	name    string
	code    Code
	pointer string
	raw     []byte
}

func badExamples(tb testing.TB, file string) (list []badExample) {
	tb.Helper()
	b, err := os.ReadFile("bad/" + file + ".txt")
	if err != nil {
		tb.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			tb.Fatalf("bad/%s.txt:%d: want three fields", file, i+1)
		}
		list = append(list, badExample{file + ":" + strconv.Itoa(i+1), Code(f[0]), f[1], []byte(f[2])})
	}
	return list
}

func allBadExamples(tb testing.TB) []badExample {
	list := badExamples(tb, "envelope")
	for _, typ := range Types() {
		list = append(list, badExamples(tb, typ)...)
	}
	return list
}

func mustExample(tb testing.TB, typ string) []byte {
	tb.Helper()
	raw, ok := Example(typ)
	if !ok {
		tb.Fatalf("no example of %s", typ)
	}
	return raw
}

func TestGoldenAccepted(t *testing.T) {
	if n := len(Types()); n != 81 {
		t.Errorf("%d types, want 81", n)
	}
	for _, typ := range Types() {
		raw := mustExample(t, typ)
		c, f := Check(raw)
		if f != nil {
			t.Errorf("%s: %v", typ, f)
			continue
		}
		if c.Type != typ || c.Version != 1 || c.Time != "2026-10-03T12:00:00.123456789Z" || c.IDString == "" || c.ID == [16]byte{} {
			t.Errorf("%s: got %+v", typ, c)
		}
		if _, ok := Raw(typ); !ok {
			t.Errorf("%s: no schema file", typ)
		}
	}
}

func TestBadExamples(t *testing.T) {
	for _, typ := range Types() {
		if n := len(badExamples(t, typ)); n < 3 {
			t.Errorf("%s has %d bad examples, want at least 3", typ, n)
		}
	}
	for _, e := range allBadExamples(t) {
		_, f := Check(e.raw)
		switch {
		case f == nil:
			t.Errorf("%s: accepted %.200s", e.name, e.raw)
		case f.Code != e.code || f.Pointer != e.pointer:
			t.Errorf("%s: got %v\nwant %s at %q\nin %.300s", e.name, f, e.code, e.pointer, e.raw)
		case f.Message == "":
			t.Errorf("%s: no message", e.name)
		}
	}
}

// TestByteRules has what a line of text cannot hold.
func TestByteRules(t *testing.T) {
	good := string(mustExample(t, "claim.revised"))
	for _, c := range []struct {
		name, raw string
		code      Code
		pointer   string
	}{
		{"empty", "", CodeBadJSON, ""},
		{"newline at the end", good + "\n", CodeControlByte, ""},
		{"newline between members", strings.Replace(good, `,"source"`, ",\n\"source\"", 1), CodeControlByte, "/source"},
		{"tab in a string", strings.Replace(good, `"piper"`, "\"pi\tper\"", 1), CodeControlByte, "/source"},
		{"zero byte", "\x00" + good, CodeControlByte, ""},
		{"invalid UTF-8 in a string", strings.Replace(good, `"piper"`, "\"pi\xffper\"", 1), CodeBadUTF8, "/source"},
		{"overlong UTF-8", strings.Replace(good, `"piper"`, "\"\xc0\xaf\"", 1), CodeBadUTF8, "/source"},
		{"UTF-8 of a surrogate", strings.Replace(good, `"piper"`, "\"\xed\xa0\x80\"", 1), CodeBadUTF8, "/source"},
		{"invalid UTF-8 outside", good[:len(good)-1] + "\xff}", CodeBadUTF8, "/data"},
		{"byte order mark", "\ufeff" + good, CodeBadJSON, ""},
		{"too large", strings.Replace(good, `"piper"`, `"`+strings.Repeat("x", MaxEvent)+`"`, 1), CodeTooLarge, ""},
		{"bare depth", strings.Repeat("[", MaxEvent), CodeTooDeep, strings.Repeat("/0", MaxDepth)},
		{"deep and closed", strings.Repeat("[", 30000) + strings.Repeat("]", 30000), CodeTooDeep, strings.Repeat("/0", MaxDepth)},
		{"deep extension", strings.Replace(good, `"source":"piper"`, `"x":`+strings.Repeat(`{"a":`, 32)+"1"+strings.Repeat("}", 32), 1), CodeTooDeep, "/x" + strings.Repeat("/a", 31)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := Check([]byte(c.raw))
			if f == nil {
				t.Fatal("accepted")
			}
			if f.Code != c.code || f.Pointer != c.pointer && c.code != CodeTooDeep {
				t.Errorf("got %v, want %s at %q", f, c.code, c.pointer)
			}
			if c.code == CodeTooDeep && !strings.HasPrefix(c.pointer, strings.TrimSuffix(f.Pointer, "/0")) {
				t.Errorf("pointer %q, want about %q", f.Pointer, c.pointer)
			}
		})
	}
}

func TestAcceptedForms(t *testing.T) {
	good := string(mustExample(t, "prediction.recorded"))
	for _, c := range []struct{ name, old, new string }{
		{"spaces between tokens", `,"source":"piper"`, ` , "source" : "piper" `},
		{"escaped member name", `"source"`, `"sourc\u0065"`},
		{"escaped type", `"type":"prediction.recorded"`, `"type":"prediction\u002erecorded"`},
		{"escaped enumeration", `"action_end"`, `"action\u005fend"`},
		{"escaped time", `"2026-10-03T12`, `"2026\u002d10-03T12`},
		{"surrogate pair", `"source":"piper"`, `"source":"\ud83d\ude00"`},
		{"characters, not bytes", `"source":"piper"`, `"source":"` + strings.Repeat("é", 256) + `"`},
		{"integer with a fraction", `"min_samples":20`, `"min_samples":20.0`},
		{"integer with an exponent", `"criterion_version":1`, `"criterion_version":0.1e1`},
		{"numeric sequence", `"source"`, `"sequenc":9007199254740992,"source"`},
		{"extensions", `"source"`, `"traceparent":"00-ab-cd-01","sampled":true,"n1":-5,"source"`},
		{"offset", `"2026-10-03T12:00:00.123456789Z"`, `"2026-10-03T12:00:00.1+05:30"`},
		{"null is absent", `"claim_id":"claim-1"`, `"claim_id":null`},
		{"unknown is absent", `"claim_id":"claim-1",`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := strings.Replace(good, c.old, c.new, 1)
			if raw == good && c.old != c.new {
				t.Fatal("the example does not hold what is replaced")
			}
			if _, f := Check([]byte(raw)); f != nil {
				t.Errorf("%v in %s", f, raw)
			}
		})
	}
}

func TestExactLimits(t *testing.T) {
	good := string(mustExample(t, "claim.revised"))
	pad := func(size int) []byte {
		n := size - len(good)
		return []byte(strings.Replace(good, `,"source"`, strings.Repeat(" ", n)+`,"source"`, 1))
	}
	if _, f := Check(pad(MaxEvent)); f != nil {
		t.Errorf("%d bytes: %v", MaxEvent, f)
	}
	_, f := Check(pad(MaxEvent + 1))
	if f == nil || f.Code != CodeTooLarge || !strings.Contains(f.Message, "64000") || !strings.Contains(f.Message, "dataref") {
		t.Errorf("%d bytes: %v", MaxEvent+1, f)
	}
}

// TestRejectionNamesEvent: the id is known whatever is wrong after it, and
// never where the bytes could be read in two ways.
func TestRejectionNamesEvent(t *testing.T) {
	good := string(mustExample(t, "claim.revised"))
	head, rest, _ := strings.Cut(good, `"id":`)
	id, rest := rest[1:37], rest[38:]
	idLast := head + rest[1:len(rest)-1] + `,"id":"` + id + `"}`
	for _, c := range []struct {
		name, raw, want string
	}{
		{"fault before the id", strings.Replace(idLast, `"1.0"`, `"2.0"`, 1), id},
		{"number range", strings.Replace(good, `"source"`, `"n":1e300,"source"`, 1), id},
		{"unknown type", strings.Replace(good, `"claim.revised"`, `"claim.x"`, 1), id},
		{"bad data", strings.Replace(good, `"claim_id"`, `"claim"`, 1), id},
		{"bad id", strings.Replace(good, id, "x", 1), ""},
		{"duplicate id", strings.Replace(good, `"source"`, `"id":"x","source"`, 1), ""},
		{"trailing data", good + "{}", ""},
		{"nested id only", `{"data":{"id":"` + id + `"}}`, ""},
		{"numeric id", `{"id":5}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, f := Check([]byte(c.raw))
			if f == nil {
				t.Fatal("accepted")
			}
			if got.IDString != c.want || (got.ID != [16]byte{}) != (c.want != "") {
				t.Errorf("id %q, want %q (%v)", got.IDString, c.want, f)
			}
		})
	}
}

func TestPointerIsBounded(t *testing.T) {
	good := string(mustExample(t, "claim.revised"))
	raw := strings.Replace(good, `"claim_id"`, `"`+strings.Repeat("é~", 10000)+`":1,"claim_id"`, 1)
	_, f := Check([]byte(raw))
	if f == nil || f.Code != CodeUnknownField || len(f.Pointer) > MaxPointer || len(f.Pointer) < MaxPointer-4 || len(f.Message) > 500 {
		t.Errorf("got %v", f)
	}
	if !bytes.Equal([]byte(f.Pointer), bytes.ToValidUTF8([]byte(f.Pointer), nil)) {
		t.Error("pointer is cut inside a character")
	}
}
