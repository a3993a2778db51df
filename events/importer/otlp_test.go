package importer

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/internal/answerkeys"
	"assay/schema"
)

func TestOTLP(t *testing.T) {
	r := readSample(t, "otlp", schema.RoleDispatcher)
	check(t, "events", r.Events, map[string]int64{"tool.called": 2, "usage.recorded": 1})
	check(t, "left", r.Left, map[string]int64{leftItem: 1})
	check(t, "bad", r.Bad, map[string]int64{badEvent: 1}) // a call of no tool
	check(t, "bad line", r.Listed[0].Line, 3)
	calls, spent := of[*events.ToolCalled](r), of[*events.UsageRecorded](r)[0]
	check(t, "call", calls[0].ToolCallID+" "+calls[0].Tool+" "+calls[0].Status, "call_1 restart ok")
	check(t, "its time", calls[0].EndedAt, ptr("2026-03-01T10:00:01.5Z"))
	check(t, "call of a log", calls[1].ToolCallID+" "+calls[1].Tool+" "+calls[1].Status, "toolu_1 Bash failed")
	check(t, "tokens", *spent.Tokens, events.Tokens{Input: ptr(int64(120)), Output: ptr(int64(7)), Cached: ptr(int64(100))})
	check(t, "convention", spent.UsageConvention, ptr(includesCached))
	check(t, "kept", r.kept, nil)
	for i, episode := range []string{"conv-7", "5b8efff798038103d269b633813fc60c", "s-1"} {
		e := r.events[i]
		if e.EpisodeID != episode || e.Time != "2026-03-01T10:00:01.5Z" || e.Source != "urn:assay:import:otlp" || strings.Contains(string(r.raw[i]), "what a user said") {
			t.Errorf("event %d: %s", i, r.raw[i])
		}
	}
	check(t, "trace", r.events[0].CorrelationID, "5b8efff798038103d269b633813fc60c")
}

// spanExport is an export of spans; item is their id.
func spanExport(ids ...string) string {
	var spans []string
	for _, id := range ids {
		spans = append(spans, `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"`+id+`","endTimeUnixNano":"1772359201500000000","attributes":[`+
			`{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"t"}},{"key":"gen_ai.tool.call.id","value":{"stringValue":"`+id+`"}}]}`)
	}
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join(spans, ",") + `]}]}]}`
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Indent(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

const (
	spanA = "00000000000000aa"
	spanB = "00000000000000bb"
	spanC = "00000000000000cc"
)

// protoField is a field of a message, by its number, that holds bytes.
func protoField(n byte, parts ...string) string {
	content := strings.Join(parts, "")
	return string(binary.AppendUvarint([]byte{n<<3 | 2}, uint64(len(content)))) + content
}

// protoExport is spanExport in protobuf.
func protoExport(ids ...string) string {
	attribute := func(name, value string) string {
		return protoField(9, protoField(1, name), protoField(2, protoField(1, value)))
	}
	var spans string
	for _, id := range ids {
		spans += protoField(2, protoField(1, "0123456789abcdef"), protoField(2, id[8:]), "\x41"+string(binary.LittleEndian.AppendUint64(nil, 1772359201500000000)),
			attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "t"), attribute("gen_ai.tool.call.id", id))
	}
	return protoField(1, protoField(2, spans))
}

// framed puts a message's length before it.
func framed(message string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message //nolint:gosec // G115: of a test's message
}

// TestOTLPFiles: the forms that such a file has, and what becomes of what is bad in it.
func TestOTLPFiles(t *testing.T) {
	a, b, c := spanExport(spanA)+"\n", spanExport(spanB)+"\n", spanExport(spanC)+"\n"
	for _, tt := range []struct {
		name   string
		in     string
		calls  []string
		mended map[string]int64
		bad    map[string]int64
		at     int64
	}{
		{name: "empty", in: ""},
		{name: "lines", in: a + b, calls: []string{spanA, spanB}},
		{name: "lines that end in CRLF, with a mark", in: "\ufeff" + strings.ReplaceAll(a+"\n"+b, "\n", "\r\n"), calls: []string{spanA, spanB}, mended: map[string]int64{mendedBOM: 1}},
		{name: "a document over lines", in: pretty(t, a), calls: []string{spanA}},
		{name: "documents over lines", in: pretty(t, a) + pretty(t, b) + "\n" + c, calls: []string{spanA, spanB, spanC}},
		{name: "a truncated line between others", in: a + b[:90] + "\n" + c, calls: []string{spanA, spanC}, bad: map[string]int64{badTruncated: 1}, at: 2},
		{name: "a truncated last line", in: a + b + c[:90], calls: []string{spanA, spanB}, bad: map[string]int64{badTruncated: 1}, at: 3},
		{name: "no JSON between others", in: a + "panic: x\n" + c, calls: []string{spanA, spanC}, bad: map[string]int64{badJSON: 1}, at: 2},
		{name: "another document between others", in: a + `{"logs":[]}` + "\n" + c, calls: []string{spanA, spanC}, bad: map[string]int64{badShape: 1}, at: 2},
		{name: "a name twice", in: `{"resourceSpans":[],"resourceSpans":[]}` + "\n" + c, calls: []string{spanC}, bad: map[string]int64{badDuplicate: 1}, at: 1},
		{name: "an id that is none", in: strings.Replace(a, spanA, "zz", 1) + c, calls: []string{spanC}, bad: map[string]int64{badShape: 1}, at: 1},
		{name: "half a surrogate pair", in: strings.Replace(a, `"t"`, `"t\ud83d"`, 1) + c, calls: []string{spanA, spanC}, mended: map[string]int64{mendedSurrogate: 1}},
		{name: "half a pair behind a truncated line", in: b[:90] + "\n" + strings.Replace(a, `"t"`, `"t\ud83d"`, 1), calls: []string{spanA}, mended: map[string]int64{mendedSurrogate: 1}, bad: map[string]int64{badTruncated: 1}, at: 1},
		{name: "bytes that are no UTF-8", in: strings.Replace(a, `"t"`, "\"t\xe9\"", 1), calls: []string{spanA}, mended: map[string]int64{mendedUTF8: 1}},
		{name: "the same span twice", in: a + a, calls: []string{spanA, spanA}},
		{name: "messages", in: framed(protoExport(spanA)) + framed(protoExport(spanB, spanC)), calls: []string{spanA, spanB, spanC}},
		{name: "a message alone", in: protoExport(spanA, spanB), calls: []string{spanA, spanB}},
		{name: "a bad message between others", in: framed(protoExport(spanA)) + framed("\n\x7fx") + framed("") + framed(protoExport(spanC)), calls: []string{spanA, spanC}, bad: map[string]int64{badTruncated: 1}, at: 2},
		{name: "a message over the limit", in: framed(protoExport(spanA)) + framed(strings.Repeat("x", MaxLine+1)) + framed(protoExport(spanC)), calls: []string{spanA, spanC}, bad: map[string]int64{badLong: 1}, at: 2},
		{name: "a length without its message", in: framed(protoExport(spanA)) + "\xff\xff\xff\xff\n", calls: []string{spanA}, bad: map[string]int64{badTruncated: 1}, at: 2},
		{name: "half a length", in: framed(protoExport(spanA)) + "\x00\x00", calls: []string{spanA}, bad: map[string]int64{badTruncated: 1}, at: 2},
		{name: "more messages than memory is for", in: framed(protoExport(spanA)) + framed(protoField(1, protoField(2, strings.Repeat("\x12\x00", 2<<20)))), calls: []string{spanA}, bad: map[string]int64{badLong: 1}, at: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, "otlp", schema.RoleDispatcher, strings.NewReader(tt.in))
			var calls []string
			for _, c := range of[*events.ToolCalled](r) {
				calls = append(calls, c.ToolCallID)
			}
			if !slices.Equal(calls, tt.calls) {
				t.Errorf("calls %q, want %q", calls, tt.calls)
			}
			for what, c := range map[string][2]map[string]int64{"mended": {r.Mended, tt.mended}, "bad": {r.Bad, tt.bad}} {
				if len(c[0])+len(c[1]) > 0 {
					check(t, what, c[0], c[1])
				}
			}
			if tt.at > 0 && (len(r.Listed) == 0 || r.Listed[0].Line != tt.at) {
				t.Errorf("bad lines %+v, want the first at %d", r.Listed, tt.at)
			}
		})
	}
}

// TestOTLPAgain: one span is one event in whatever form it stands, and two are two.
func TestOTLPAgain(t *testing.T) {
	one := read(t, "otlp", schema.RoleDispatcher, strings.NewReader(spanExport(spanA, spanB)))
	again := read(t, "otlp", schema.RoleDispatcher, strings.NewReader("\n"+pretty(t, spanExport(spanA))+"\n"+spanExport(spanB)))
	check(t, "again", again.raw, one.raw)
	alike := strings.ReplaceAll(spanExport(spanA, spanB), `{"stringValue":"`+spanB, `{"stringValue":"`+spanA)
	if r := read(t, "otlp", schema.RoleDispatcher, strings.NewReader(alike)); len(r.events) != 2 || r.events[0].ID == r.events[1].ID {
		t.Errorf("two spans that say the same: %q", r.raw)
	}
}

// TestOTLPExample is the specification's own example: a trace of no agent.
func TestOTLPExample(t *testing.T) {
	raw, err := os.ReadFile(filepath.Clean(answerkeys.Need(t, "transcripts/otlp-trace.json")))
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, "otlp", schema.RoleDispatcher, bytes.NewReader(raw))
	check(t, "events", r.Events, map[string]int64{})
	check(t, "left", r.Left, map[string]int64{leftItem: 1})
	check(t, "bad", r.Bad, map[string]int64{})
}
