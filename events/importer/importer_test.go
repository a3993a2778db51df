package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"assay/events"
	"assay/schema"
)

// result is what a file was read as.
type result struct {
	Report
	events []*events.Event
	raw    [][]byte
	kept   []string
}

// of are the payloads of a type.
func of[P events.Payload](r *result) (out []P) {
	for _, e := range r.events {
		if p, ok := e.Data.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// read reads a file as a role in a namespace. Every event must be one that a ledger
// takes from that role, and an import.
func read(tb testing.TB, format string, role schema.Role, in io.Reader) *result {
	tb.Helper()
	r, err := tryRead(tb, format, role, in)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func tryRead(tb testing.TB, format string, role schema.Role, in io.Reader) (*result, error) {
	tb.Helper()
	out := &result{}
	var err error
	out.Report, err = Read(in, Config{
		Format: format, Source: "sample",
		May: func(typ string) bool { return schema.MayWrite(role, typ, "sandbox") },
		Keep: func(content string) (string, error) {
			out.kept = append(out.kept, content)
			return "sha256:" + hashOf(content), nil
		},
		Put: func(e Event) error {
			checked, fault := schema.Check(e.Raw)
			if fault != nil {
				tb.Fatalf("line %d: %v: %s", e.Line, fault, e.Raw)
			}
			d, err := events.Decode(e.Raw)
			if err != nil {
				tb.Fatal(err)
			}
			if c := d.Data.Common().Capture; c == nil || *c != "imported" || checked.Type != e.Type {
				tb.Fatalf("no import, or not of type %s: %s", e.Type, e.Raw)
			}
			out.events, out.raw = append(out.events, d), append(out.raw, bytes.Clone(e.Raw))
			return nil
		},
	})
	return out, err
}

// samples are small files in the shape of each format, written for these tests.
var samples = map[string]string{
	"claude-code": "claude-code.jsonl", "codex": "codex.jsonl", "handoff": "handoff.jsonl", "holmesgpt": "holmesgpt.json",
	"inspect": "inspect.json", "jsonl": "own.jsonl", "openrca": "openrca.csv", "otlp": "otlp.jsonl",
}

func sample(tb testing.TB, format string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", samples[format]))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func readSample(tb testing.TB, format string, role schema.Role) *result {
	tb.Helper()
	return read(tb, format, role, bytes.NewReader(sample(tb, format)))
}

func check[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, show(got), show(want))
	}
}

func show(v any) string {
	switch v := v.(type) {
	case *string:
		if v != nil {
			return *v
		}
	case *int64:
		if v != nil {
			return fmt.Sprint(*v)
		}
	case *float64:
		if v != nil {
			return fmt.Sprint(*v)
		}
	}
	return fmt.Sprintf("%+v", v)
}

var writers = []schema.Role{schema.RoleAgent, schema.RoleDispatcher, schema.RoleHarness, schema.RoleOperator}

// TestSameAtEachReading: the same file gives the same events, and none twice but what
// the file itself says twice.
func TestSameAtEachReading(t *testing.T) {
	for _, format := range Formats() {
		if _, ok := samples[format]; !ok {
			t.Errorf("%s has no sample", format)
			continue
		}
		made := 0
		for _, role := range writers {
			a, b := readSample(t, format, role), readSample(t, format, role)
			if !reflect.DeepEqual(a.raw, b.raw) {
				t.Errorf("%s as %s: two readings differ", format, role)
			}
			ids := map[string]string{}
			for i, e := range a.events {
				if said, ok := ids[e.ID]; ok && said != string(a.raw[i]) {
					t.Errorf("%s as %s: two events with the id %s", format, role, e.ID)
				}
				ids[e.ID] = string(a.raw[i])
			}
			made += len(a.events)
		}
		if made == 0 {
			t.Errorf("%s gives nothing", format)
		}
	}
}

// TestRoles: only what a role may write is made, and the rest is counted.
func TestRoles(t *testing.T) {
	for format, want := range map[string]map[schema.Role]map[string]int64{
		"claude-code": {
			schema.RoleAgent:      {"tool.called": 4},
			schema.RoleDispatcher: {"tool.called": 4, "usage.recorded": 2, "episode.recorded": 2},
			schema.RoleOperator:   {},
		},
		"holmesgpt": {
			schema.RoleAgent:      {"tool.called": 2, "claim.recorded": 2},
			schema.RoleDispatcher: {"tool.called": 2, "episode.recorded": 2},
		},
		"openrca": {
			schema.RoleAgent:    {"claim.recorded": 6},
			schema.RoleHarness:  {"response.recorded": 3, "score.recorded": 3},
			schema.RoleOperator: {"outcome.recorded": 4},
		},
	} {
		for role, counts := range want {
			got := readSample(t, format, role)
			check(t, fmt.Sprintf("%s as %s", format, role), got.Events, counts)
		}
	}
	r := readSample(t, "claude-code", schema.RoleAgent)
	check(t, "left of usage", r.Left["usage.recorded"], 2)
}

func TestUnknownFormat(t *testing.T) {
	if _, err := Read(strings.NewReader(""), Config{Format: "word"}); err == nil {
		t.Error("a format that there is none of was read")
	}
}

// user is a line of a session in which a user typed a text; text is JSON.
func user(text string) string {
	return `{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2026-03-01T10:00:00Z","message":{"content":` + text + `}}` + "\n"
}

// TestTroubles: what files of this kind are known to hold, and what is made of it.
func TestTroubles(t *testing.T) {
	plain := user(`"hello"`)
	long := strings.Repeat("x", 5<<20)
	utf16le := func(s string) string {
		out := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune(s)) {
			out = append(out, byte(u), byte(u>>8))
		}
		return string(out)
	}
	tests := []struct {
		name   string
		in     string
		kept   []string // what the user typed, as it is kept
		mended map[string]int64
		bad    map[string]int64
		at     int64 // the bad line
	}{
		{name: "plain", in: plain, kept: []string{"hello"}},
		{name: "empty file", in: ""},
		{name: "empty lines", in: "\n \n" + plain + "\n", kept: []string{"hello"}},
		{name: "lone surrogate", in: user(`"cut \ud83d here"`), kept: []string{"cut \ufffd here"}, mended: map[string]int64{mendedSurrogate: 1}},
		{name: "pair of surrogates", in: user(`"\ud83d\ude00"`), kept: []string{"\U0001f600"}},
		{name: "line of 5 MB", in: user(`"` + long + `"`), kept: []string{long}},
		{name: "line over the limit", in: user(`"`+strings.Repeat("x", MaxLine)+`"`) + plain, kept: []string{"hello"}, bad: map[string]int64{badLong: 1}, at: 1},
		{name: "byte order mark", in: "\ufeff" + plain, kept: []string{"hello"}, mended: map[string]int64{mendedBOM: 1}},
		{name: "CRLF", in: strings.ReplaceAll(plain, "\n", "\r\n"), kept: []string{"hello"}},
		{name: "zero bytes before and behind a line", in: "\x00\x00" + strings.TrimSuffix(plain, "\n") + "\x00\n", kept: []string{"hello"}, mended: map[string]int64{mendedNUL: 1}},
		{name: "block of zero bytes", in: plain + strings.Repeat("\x00", 4096), kept: []string{"hello"}, mended: map[string]int64{mendedNUL: 1}},
		{name: "zero byte within a line", in: user("\"a\x00b\"") + plain, kept: []string{"hello"}, bad: map[string]int64{badJSON: 1}, at: 1},
		{name: "escaped zero", in: user(`"a\u0000b"`), kept: []string{"a\x00b"}},
		{name: "truncated last line", in: plain + plain[:40], kept: []string{"hello"}, bad: map[string]int64{badTruncated: 1}, at: 2},
		{name: "last line without its end", in: plain + strings.TrimSuffix(user(`"bye"`), "\n"), kept: []string{"hello", "bye"}},
		{name: "mixed encodings", in: plain + user("\"caf\xe9\""), kept: []string{"hello", "caf\ufffd"}, mended: map[string]int64{mendedUTF8: 1}},
		{name: "UTF-16", in: utf16le(plain), bad: map[string]int64{badUTF16: 1}, at: 1},
		{name: "missing ids", in: `{"type":"user","timestamp":"2026-03-01T10:00:00Z","message":{"content":"hello"}}` + "\n", kept: []string{"hello"}, mended: map[string]int64{mendedMissingID: 2}},
		{name: "no time", in: strings.Replace(plain, `"timestamp":"2026-03-01T10:00:00Z",`, "", 1), kept: []string{"hello"}, mended: map[string]int64{mendedNoTime: 1}},
		{name: "bad time", in: strings.Replace(plain, "2026-03-01T10:00:00Z", "yesterday", 1), kept: []string{"hello"}, mended: map[string]int64{mendedTime: 1}},
		{name: "clock steps back", in: plain + strings.Replace(user(`"bye"`), "T10", "T09", 1), kept: []string{"hello", "bye"}, mended: map[string]int64{mendedBack: 1}},
		{name: "duplicate key", in: plain + `{"type":"user","type":"assistant"}` + "\n", kept: []string{"hello"}, bad: map[string]int64{badDuplicate: 1}, at: 2},
		{name: "no JSON", in: "Traceback (most recent call last):\n" + plain, kept: []string{"hello"}, bad: map[string]int64{badJSON: 1}, at: 1},
		{name: "two objects on a line", in: strings.TrimSuffix(plain, "\n") + plain + plain, kept: []string{"hello"}, bad: map[string]int64{badJSON: 1}, at: 1},
		{name: "another shape", in: "[1]\n" + `{"type":"user","message":7}` + "\n" + plain, kept: []string{"hello"}, bad: map[string]int64{badShape: 2}, at: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(tt.in))
			if !slices.Equal(r.kept, tt.kept) {
				t.Errorf("kept %.60q, want %.60q", r.kept, tt.kept)
			}
			for _, c := range []struct {
				what      string
				got, want map[string]int64
			}{{"mended", r.Mended, tt.mended}, {"bad", r.Bad, tt.bad}} {
				if !maps.Equal(c.got, c.want) {
					t.Errorf("%s %v, want %v", c.what, c.got, c.want)
				}
			}
			if tt.at > 0 && (len(r.Listed) == 0 || r.Listed[0].Line != tt.at) {
				t.Errorf("bad lines %+v, want the first at %d", r.Listed, tt.at)
			}
		})
	}
}

// TestTimesAreKept: a clock that stepped back is no reason to change what was written.
func TestTimesAreKept(t *testing.T) {
	in := user(`"one"`) + strings.Replace(user(`"two"`), "T10", "T09", 1) + strings.Replace(user(`"three"`), "2026-03-01T10:00:00Z", "2026-03-01T12:00:00.25+02:00", 1)
	var times []string
	for _, e := range read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(in)).events {
		times = append(times, e.Time)
	}
	check(t, "times", times, []string{"2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z", "2026-03-01T10:00:00.25Z"})
}

// TestLongContentStaysOut: no event grows with what it tells of.
func TestLongContentStaysOut(t *testing.T) {
	long := strings.Repeat("y", 100_000)
	in := user(`"`+long+`"`) +
		`{"type":"assistant","sessionId":"s1","timestamp":"2026-03-01T10:00:00Z","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"` + long + `","input":{"a":"` + long + `"}}]}}` + "\n" +
		`{"type":"user","sessionId":"s1","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"` + long + `"}]}}` + "\n"
	r := read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(in))
	check(t, "kept", r.kept, []string{long})
	c := of[*events.ToolCalled](r)[0]
	check(t, "result", c.ResultHash, ptr(hashOf(long)))
	check(t, "tool", len(c.Tool), 256)
	check(t, "mended", r.Mended, map[string]int64{mendedCut: 1})
	for _, raw := range r.raw {
		if len(raw) > 2000 {
			t.Errorf("%d bytes: %.100s", len(raw), raw)
		}
	}
}

// TestReportIsBounded: a report does not grow with the words of a file.
func TestReportIsBounded(t *testing.T) {
	var in strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&in, `{"type":"kind-%d-%s"}`+"\nno JSON\n", i, strings.Repeat("z", 500))
	}
	r := read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(in.String()))
	check(t, "kinds left", len(r.Left), maxLeft+1)
	check(t, "others", r.Left["other"], 1000-maxLeft)
	check(t, "bad", r.Bad, map[string]int64{badJSON: 1000})
	check(t, "listed", len(r.Listed), maxListed)
	for k := range r.Left {
		if len(k) > 64 {
			t.Errorf("%d characters: %s", len(k), k)
		}
	}
}

// TestIDs: an id that the ledger cannot hold becomes its hash, so that a result still
// finds its call.
func TestIDs(t *testing.T) {
	in := `{"type":"assistant","sessionId":"s 1","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_use","id":"a b","name":"x","input":{}}]}}` + "\n" +
		`{"type":"user","sessionId":"s 1","timestamp":"2026-03-01T10:00:00Z","message":{"content":[{"type":"tool_result","tool_use_id":"a b","content":"c"}]}}` + "\n"
	c := of[*events.ToolCalled](read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(in)))[0]
	check(t, "id", c.ToolCallID, "sha256:"+hashOf("a b"))
	check(t, "status", c.Status, "ok")
	check(t, "episode", read(t, "claude-code", schema.RoleDispatcher, strings.NewReader(in)).events[0].EpisodeID, "sha256:"+hashOf("s 1"))
}

// TestErrorsEndTheImport: what the sink says is not taken for a bad line.
func TestErrorsEndTheImport(t *testing.T) {
	stop := errors.New("stop")
	for _, format := range Formats() {
		_, err := Read(bytes.NewReader(sample(t, format)), Config{
			Format: format, May: func(string) bool { return true }, Put: func(Event) error { return stop },
		})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v", format, err)
		}
		_, err = Read(io.MultiReader(bytes.NewReader(sample(t, format)[:20]), failing{stop}), Config{
			Format: format, May: func(string) bool { return true }, Put: func(Event) error { return nil },
		})
		if !errors.Is(err, stop) {
			t.Errorf("%s: a reader that fails: %v", format, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	for i, format := range Formats() {
		f.Add(i, sample(f, format))
		f.Add(i, sample(f, format)[:100])
	}
	f.Add(1, []byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, i int, in []byte) {
		format := Formats()[uint(i)%uint(len(Formats()))]
		for _, role := range writers {
			a, err := tryRead(t, format, role, bytes.NewReader(in))
			if err != nil && !errors.Is(err, ErrFormat) {
				t.Fatalf("%s: %v", format, err)
			}
			b, _ := tryRead(t, format, role, bytes.NewReader(in))
			if !reflect.DeepEqual(a.raw, b.raw) {
				t.Fatalf("%s: two readings differ", format)
			}
		}
	})
}
