package schema

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// reference validates with the library, from the same files.
type reference struct {
	envelope *jsonschema.Schema
	data     map[string]*jsonschema.Schema
}

func newReference(tb testing.TB) *reference {
	tb.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	names, err := fs.Glob(files, "json/*.json")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			tb.Fatal(err)
		}
		id := doc.(map[string]any)["$id"].(string)
		if err := c.AddResource(id, doc); err != nil {
			tb.Fatal(err)
		}
	}
	r := &reference{data: map[string]*jsonschema.Schema{}}
	if r.envelope, err = c.Compile("urn:assay:envelope:1"); err != nil {
		tb.Fatal(err)
	}
	for _, typ := range Types() {
		if r.data[typ], err = c.Compile("urn:assay:" + typ + ":1"); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// accept is the library's verdict, joined to what the schemas cannot say: the
// type is known and dataschema is its current one.
func (r *reference) accept(tb testing.TB, raw []byte) error {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := r.envelope.Validate(doc); err != nil {
		return err
	}
	event := doc.(map[string]any)
	typ := event["type"].(string)
	data, ok := r.data[typ]
	if !ok {
		return fmt.Errorf("unknown type %s", typ)
	}
	if event["dataschema"] != "urn:assay:"+typ+":1" {
		return fmt.Errorf("dataschema %s", event["dataschema"])
	}
	return data.Validate(event["data"])
}

// compare fails when the two disagree on bytes that pass the byte rules.
func (r *reference) compare(tb testing.TB, raw []byte) (accepted bool) {
	tb.Helper()
	_, fault := Check(raw)
	if fault != nil {
		switch fault.Code {
		case CodeTooLarge, CodeControlByte, CodeOuterWhitespace, CodeBadUTF8, CodeBadJSON, CodeDuplicateKey,
			CodeLoneSurrogate, CodeTooDeep, CodeNumberRange, CodeNotAnObject:
			return false
		}
	}
	err := r.accept(tb, raw)
	if (err == nil) != (fault == nil) {
		tb.Errorf("Check: %v\nlibrary: %v\nin %s", fault, err, raw)
	}
	if s := (scan{b: raw, valid: true}); fault == nil && !s.checkLimits() {
		tb.Errorf("let in beyond the limits: %+v\nin %s", s.fault, raw)
	}
	return fault == nil
}

func TestEqualOnExamples(t *testing.T) {
	r := newReference(t)
	for _, typ := range Types() {
		if !r.compare(t, mustExample(t, typ)) {
			t.Errorf("%s: example refused", typ)
		}
	}
	for _, e := range allBadExamples(t) {
		if r.compare(t, e.raw) {
			t.Errorf("%s: accepted", e.name)
		}
	}
}

// TestEqualOnMutations changes every value of every example, at every depth,
// one at a time.
func TestEqualOnMutations(t *testing.T) {
	r := newReference(t)
	for _, typ := range Types() {
		t.Run(typ, func(t *testing.T) {
			var accepted, refused int
			mutate(t, mustExample(t, typ), func(raw []byte) {
				if r.compare(t, raw) {
					accepted++
				} else {
					refused++
				}
			})
			if accepted == 0 || refused == 0 {
				t.Errorf("%d accepted and %d refused: the mutations show nothing", accepted, refused)
			}
		})
	}
}

// replacements are put in place of each value.
var replacements = []string{
	"null", "true", "false", `""`, `"x"`, `"-"`, `"a b"`, `"\u0000"`, `"é"`, "0", "-0", "-0.0", "1", "-1", "1.5", "0.5", "2", "1.0", "10e-1", "1e2",
	"1.0000000000000000000000001", "0.99999999999999999999999999", "-1e-300", "9007199254740992", "[]", "{}", "[null]", `["x"]`, `[1]`, `{"a":1}`,
	`{"1a":"b"}`, `{"a":"b"}`, `"2026-10-03T12:00:00Z"`, `"2024-02-29T23:59:59.999999999-23:59"`, `"2023-02-29T00:00:00Z"`, `"0000-01-01T00:00:00Z"`,
	`"2026-10-03T12:00:00.1234567890Z"`, `"2026-10-03t12:00:00z"`, `"30m"`, `"1234567890s"`, `"KNOW"`, `"confirmed"`,
	`"` + strings.Repeat("a", 64) + `"`, `"` + strings.Repeat("a", 129) + `"`, `"` + strings.Repeat("a", 257) + `"`,
	`"` + strings.Repeat("é", 256) + `"`, `"` + strings.Repeat("a", 2000) + `"`, `"` + strings.Repeat("😀", 2001) + `"`,
	`[` + strings.Repeat(`"a",`, 64) + `"a"]`, `[` + strings.Repeat(`"a",`, 31) + `"a"]`,
}

// mutate calls try with raw after each single change: a value replaced, a
// member dropped, an unknown member added.
func mutate(tb testing.TB, raw []byte, try func([]byte)) {
	tb.Helper()
	splice := func(from, to int, with string) {
		try(append(append(bytes.Clone(raw[:from]), with...), raw[to:]...))
	}
	for _, v := range values(raw) {
		for _, with := range replacements {
			splice(v.start, v.end, with)
		}
		if raw[v.start] == '{' {
			unknown := `"unknown":1`
			if raw[v.start+1] != '}' {
				unknown += ","
			}
			splice(v.start+1, v.start+1, unknown)
		}
		if v.name < 0 {
			continue
		}
		switch { // drop the member with one of its commas
		case raw[v.end] == ',':
			splice(v.name, v.end+1, "")
		case raw[v.name-1] == ',':
			splice(v.name-1, v.end, "")
		default:
			splice(v.name, v.end, "")
		}
	}
}

// valueSpan is where a value stands in compact JSON; name is where its
// member's name starts, or −1 in an array and at the top.
type valueSpan struct{ name, start, end int }

func values(raw []byte) (list []valueSpan) {
	s := scan{b: raw, valid: true}
	var walk func(name int)
	walk = func(name int) {
		at := len(list)
		list = append(list, valueSpan{name: name, start: s.i})
		switch s.b[s.i] {
		case '{':
			s.i++
			s.open = true
			for s.more('}') {
				_, off := s.name()
				walk(off)
			}
		case '[':
			s.i++
			s.open = true
			for s.more(']') {
				walk(-1)
			}
		default:
			s.skip()
		}
		list[at].end = s.i
	}
	walk(-1)
	return list
}

func TestValuesCoversTheEvent(t *testing.T) {
	raw := []byte(`{"a":[1,{"b":"x"}],"c":null}`)
	var got []string
	for _, v := range values(raw) {
		got = append(got, string(raw[v.start:v.end]))
	}
	want := []string{string(raw), `[1,{"b":"x"}]`, "1", `{"b":"x"}`, `"x"`, "null"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q", got)
	}
}

// TestEqualOnPairs makes two changes at once, at random.
func TestEqualOnPairs(t *testing.T) {
	r := newReference(t)
	rapid.Check(t, func(rt *rapid.T) {
		raw := mustExample(t, rapid.SampledFrom(Types()).Draw(rt, "type"))
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			v := rapid.SampledFrom(values(raw)).Draw(rt, "value")
			with := rapid.SampledFrom(replacements).Draw(rt, "replacement")
			raw = append(append(bytes.Clone(raw[:v.start]), with...), raw[v.end:]...)
		}
		r.compare(t, raw)
	})
}

func FuzzCheck(f *testing.F) {
	r := newReference(f)
	for _, typ := range Types() {
		f.Add(mustExample(f, typ))
	}
	for _, e := range allBadExamples(f) {
		f.Add(e.raw)
	}
	// The library compares exact rationals, whose size is that of the exponent.
	hugeExponent := regexp.MustCompile(`[eE][+-]?[0-9]{4}`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, fault := Check(raw)
		if fault == nil && (c.Type == "" || c.IDString == "") {
			t.Errorf("accepted without a type or id: %+v", c)
		}
		if len(raw) > MaxEvent || hugeExponent.Match(raw) {
			return
		}
		if fault == nil {
			if broken := checkBytes(raw); broken != nil {
				t.Errorf("accepted: %v in %q", broken, raw)
			}
		}
		r.compare(t, raw)
	})
}

func TestNumbersAreExact(t *testing.T) {
	for _, c := range []struct {
		lit     string
		bound   int64
		compare int
		integer bool
	}{
		{"0", 0, 0, true}, {"-0", 0, 0, true}, {"-0.0e5", 0, 0, true}, {"0e-5", 0, 0, true},
		{"1.00000000000000000001", 1, 1, false}, {"0.99999999999999999999", 1, -1, false},
		{"-1.00000000000000000001", -1, -1, false}, {"100e-2", 1, 0, true}, {"0.001e3", 1, 0, true}, {"1e-999999999", 0, 1, false},
		{"-1e-999999999999999999999", 0, -1, false}, {"1e999999999999999999999", 5, 1, true}, {"12.50", 12, 1, false}, {"12.0", 12, 0, true},
		{"9007199254740993", 1 << 53, 1, true}, {"123456789012345678901234567890", 1 << 62, 1, true}, {"10", 9, 1, true}, {"9.5e0", 10, -1, false}, {"-20", -3, -1, true},
	} {
		if got := compareNumber([]byte(c.lit), c.bound); got != c.compare {
			t.Errorf("compare %s with %d: %d", c.lit, c.bound, got)
		}
		if got := isInteger([]byte(c.lit)); got != c.integer {
			t.Errorf("%s integer: %v", c.lit, got)
		}
	}
	for lit, want := range map[string]bool{
		"9007199254740992": true, "-9007199254740992": true, "9007199254740993": false, "-9007199254740993": false, "9007199254740992.5": false,
		"-9007199254740992.0000000000000000001": false, "9007199254740992.000": true, "1e15": true, "1e16": false, "1e400": false, "1e-400": true,
		"123456789012345678": false, "9007199254740991.9": true, "0.1": true,
	} {
		if got := inRange([]byte(lit)); got != want {
			t.Errorf("%s in range: %v", lit, got)
		}
	}
}

// TestDateTimeEqualsFormat compares the two parts of the timestamp definition
// with the library's pattern and format.
func TestDateTimeEqualsFormat(t *testing.T) {
	r := newReference(t)
	example := string(mustExample(t, "clock.ticked"))
	two := rapid.Custom(func(rt *rapid.T) string {
		n := rapid.SampledFrom([]int{0, 1, 2, 11, 12, 13, 22, 23, 24, 28, 29, 30, 31, 32, 58, 59, 60, 61}).Draw(rt, "n")
		return fmt.Sprintf("%02d", n)
	})
	compare := func(s string) bool {
		return r.compare(t, []byte(strings.Replace(example, "2026-10-03T12:00:00.123456789Z", s, 1)))
	}
	for _, good := range []string{"2024-02-29T23:59:59Z", "2000-12-31T00:00:00.5+13:30", "9999-01-01T01:01:01.123456789-00:01"} {
		if !compare(good) {
			t.Errorf("%s was refused", good)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		year := rapid.SampledFrom([]int{0, 1900, 1999, 2000, 2023, 2024, 2100, 9999}).Draw(rt, "year")
		frac := rapid.SampledFrom([]string{"", ".5", ".123456789", ".1234567890", "."}).Draw(rt, "fraction")
		zone := rapid.SampledFrom([]string{"Z", "z", "", "+" + two.Draw(rt, "zh") + ":" + two.Draw(rt, "zm")}).Draw(rt, "zone")
		s := fmt.Sprintf("%04d-%s-%sT%s:%s:%s%s%s", year, two.Draw(rt, "month"), two.Draw(rt, "day"),
			two.Draw(rt, "hour"), two.Draw(rt, "minute"), two.Draw(rt, "second"), frac, zone)
		compare(s)
	})
}

// TestPatternsEqualRegexp holds every automaton to the expression it is made of.
func TestPatternsEqualRegexp(t *testing.T) {
	for i, p := range allPatterns(t) {
		re := regexp.MustCompile(p.source)
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			near := rapid.StringMatching(strings.TrimSuffix(strings.TrimPrefix(p.source, "^"), "$"))
			rapid.Check(t, func(rt *rapid.T) {
				s := near.Draw(rt, "match")
				if rapid.Bool().Draw(rt, "spoil") {
					at := rapid.IntRange(0, len(s)).Draw(rt, "at")
					s = s[:at] + rapid.StringN(0, 3, 8).Draw(rt, "extra") + s[min(len(s), at+rapid.IntRange(0, 2).Draw(rt, "cut")):]
				}
				if got, want := p.match([]byte(s)), re.MatchString(s); got != want {
					rt.Errorf("%s on %q: %v, want %v", p.source, s, got, want)
				}
			})
		})
	}
}

// allPatterns finds the automata by the patterns that the schema files name.
func allPatterns(t *testing.T) []*pattern {
	t.Helper()
	list := []*pattern{&pattern0, &pattern1, &pattern2, &pattern3, &pattern4, &pattern5, &pattern6, &pattern7,
		&pattern8, &pattern9, &pattern10, &pattern11, &pattern12, &pattern13, &pattern14, &pattern15, &pattern16,
		&pattern17, &pattern18, &pattern19}
	have := map[string]bool{}
	for _, p := range list {
		have[p.source] = true
	}
	names, err := fs.Glob(files, "json/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"pattern": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(b, -1) {
			var source string
			if err := json.Unmarshal(m[1], &source); err != nil {
				t.Fatal(err)
			}
			if !have[source] {
				t.Errorf("%s: pattern %s is not in the test", name, source)
			}
		}
	}
	return list
}

func BenchmarkCheck(b *testing.B) {
	for _, typ := range []string{"claim.revised", "tool.called", "prediction.recorded", "claim.recorded"} {
		raw := mustExample(b, typ)
		b.Run(fmt.Sprintf("%s-%dB", typ, len(raw)), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, f := Check(raw); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}

func BenchmarkJSONSchema(b *testing.B) {
	r := newReference(b)
	for _, typ := range []string{"claim.revised", "tool.called", "prediction.recorded", "claim.recorded"} {
		raw := mustExample(b, typ)
		b.Run(fmt.Sprintf("%s-%dB", typ, len(raw)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := r.accept(b, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
