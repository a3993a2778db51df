package events

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"assay/schema"
)

func mustExample(tb testing.TB, typ string) []byte {
	tb.Helper()
	raw, ok := schema.Example(typ)
	if !ok {
		tb.Fatalf("no example of %s", typ)
	}
	return raw
}

func mustDecode(tb testing.TB, raw []byte) *Event {
	tb.Helper()
	e, err := Decode(raw)
	if err != nil {
		tb.Fatalf("%v\nin %s", err, raw)
	}
	return e
}

func mustEncode(tb testing.TB, e *Event) []byte {
	tb.Helper()
	raw, err := Encode(e)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func checkValid(tb testing.TB, raw []byte) {
	tb.Helper()
	if _, f := schema.Check(raw); f != nil {
		tb.Errorf("%v\nin %s", f, raw)
	}
}

// TestRegistryAgreesWithSchemas: every schema has a constructor that gives a
// payload of its name, and no constructor lacks a schema.
func TestRegistryAgreesWithSchemas(t *testing.T) {
	for _, typ := range schema.Types() {
		version, _ := schema.Version(typ)
		if _, ok := registry[typeVersion{typ, version}]; !ok {
			t.Errorf("%s version %d has no constructor", typ, version)
		}
	}
	for tv, read := range registry {
		if current, ok := schema.Version(tv.name); !ok || tv.version > current {
			t.Errorf("%v has no schema", tv)
		}
		p, err := readData(read, jsontext.Value("{}"))
		if err != nil || p.Type() != tv.name || p.Common() == nil {
			t.Errorf("%v: got %T of type %q, %v", tv, p, p.Type(), err)
		}
	}
}

func TestDecodeEnvelopeMembers(t *testing.T) {
	raw := []byte(`{"specversion":"1.0","id":"01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f","source":"piper","type":"claim.revised","subject":"s","time":"2026-10-03T12:00:00Z","dataschema":"urn:assay:claim.revised:1","episodeid":"ep","sequence":7.0,"causationid":"c","correlationid":"k","dataref":"sha256:1","myext":true,"data":{"context":{"author":"piper"},"claim_id":"claim-1","old_status":"hypothesis","new_status":"asserted"}}`)
	checkValid(t, raw)
	got := mustDecode(t, raw)
	want := &Event{
		ID: "01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f", Source: "piper", Type: TypeClaimRevised, Subject: "s", Time: "2026-10-03T12:00:00Z",
		DataSchema: "urn:assay:claim.revised:1", EpisodeID: "ep", Sequence: "7", CausationID: "c", CorrelationID: "k", DataRef: "sha256:1", Version: 1,
		RawData: jsontext.Value(`{"context":{"author":"piper"},"claim_id":"claim-1","old_status":"hypothesis","new_status":"asserted"}`),
		Data:    &ClaimRevised{Context: Context{Author: new("piper")}, ClaimID: "claim-1", OldStatus: "hypothesis", NewStatus: "asserted"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	want.Data = nil
	if got, err := DecodeEnvelope(raw); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("envelope: %+v, %v", got, err)
	}
}

func TestDecodeDoesNotAliasInput(t *testing.T) {
	raw := bytes.Clone(mustExample(t, TypePredictionRecorded))
	e := mustDecode(t, raw)
	data, criterion := e.RawData.String(), e.Data.(*PredictionRecorded).Criterion.String()
	for i := range raw {
		raw[i] = 'x'
	}
	if e.RawData.String() != data || e.Data.(*PredictionRecorded).Criterion.String() != criterion {
		t.Error("the event changed with the buffer it was decoded from")
	}
}

func TestUnknownSurvives(t *testing.T) {
	for _, c := range []struct{ name, typ, dataschema string }{
		{"type", "claim.invented", "urn:assay:claim.invented:1"},
		{"version", TypeClaimRevised, "urn:assay:claim.revised:9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := `{"context":{},"claim_id":5,"x":[1.0,"\u0041"]}`
			raw := `{"specversion":"1.0","id":"01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f","source":"s","type":"` + c.typ + `","time":"2026-10-03T12:00:00Z","datacontenttype":"application/json","dataschema":"` + c.dataschema + `","data":` + data + `}`
			e := mustDecode(t, []byte(raw))
			u, ok := e.Data.(*Unknown)
			if !ok || u.Type() != c.typ || u.Common() == nil || string(u.Data) != data {
				t.Fatalf("got %#v", e.Data)
			}
			if got := mustEncode(t, e); string(got) != raw {
				t.Errorf("encoded as %s", got)
			}
		})
	}
}

func TestLaterMembersAreLeftOut(t *testing.T) {
	raw := strings.Replace(string(mustExample(t, TypeClaimRevised)), `"claim_id"`, `"later":{"a":1},"claim_id"`, 1)
	e := mustDecode(t, []byte(raw))
	if e.Data.(*ClaimRevised).ClaimID != "claim-1" || !strings.Contains(string(e.RawData), `"later"`) {
		t.Errorf("got %+v", e)
	}
}

func TestNullIsNotZero(t *testing.T) {
	raw := strings.Replace(string(mustExample(t, TypeToolCalled)), `"latency_ms":1500`, `"latency_ms":null`, 1)
	d := mustDecode(t, []byte(raw)).Data.(*ToolCalled)
	if d.LatencyMS != nil || d.CostUSD != nil {
		t.Errorf("null was read as %v, %v", d.LatencyMS, d.CostUSD)
	}
	if got := mustEncode(t, &Event{Type: TypeToolCalled, Data: d}); bytes.Contains(got, []byte("latency_ms")) {
		t.Errorf("unknown was written: %s", got)
	}
}

// TestIntegersInOtherForms: what the schema accepts as an integer is decoded.
func TestIntegersInOtherForms(t *testing.T) {
	for _, c := range []struct {
		typ, old, new string
		want          func(Payload) bool
	}{
		{TypeTelemetrySealed, `"last":240`, `"last":2.40e2`, func(p Payload) bool { return p.(*TelemetrySealed).Last == 240 }},
		{TypeTelemetrySealed, `"first":1`, `"first":-0.0`, func(p Payload) bool { return p.(*TelemetrySealed).First == 0 }},
		{TypeTelemetrySealed, `"first":1`, `"first":-0`, func(p Payload) bool { return p.(*TelemetrySealed).First == 0 }},
		{TypeTelemetrySealed, `"samples":240`, `"samples":9007199254740992.0`, func(p Payload) bool { return p.(*TelemetrySealed).Samples == 1<<53 }},
		{TypeToolCalled, `"input":1200`, `"input":1200.0`, func(p Payload) bool { return *p.(*ToolCalled).Tokens.Input == 1200 }},
		{TypeClockTicked, `10000123456`, `10000123456.0`, func(p Payload) bool { return p.(*ClockTicked).MonotonicDeltaNS == 10000123456 }},
	} {
		raw := []byte(strings.Replace(string(mustExample(t, c.typ)), c.old, c.new, 1))
		checkValid(t, raw)
		if p := mustDecode(t, raw).Data; !c.want(p) {
			t.Errorf("%s: got %+v", c.new, p)
		}
	}
}

// TestEveryIntegerWithFraction writes each whole number of each example in
// another form, one at a time: what an intake lets in must be readable.
func TestEveryIntegerWithFraction(t *testing.T) {
	number := regexp.MustCompile(`:[0-9]+[,}]`)
	var accepted int
	for _, typ := range schema.Types() {
		raw := mustExample(t, typ)
		for _, at := range number.FindAllIndex(raw, -1) {
			changed := slices.Concat(raw[:at[1]-1], []byte(".0"), raw[at[1]-1:])
			if _, f := schema.Check(changed); f != nil {
				t.Errorf("%v in %s", f, changed)
				continue
			}
			accepted++
			e := mustDecode(t, changed)
			e.RawData = nil
			checkValid(t, mustEncode(t, e))
		}
	}
	if accepted < 20 {
		t.Errorf("only %d numbers were tried", accepted)
	}
}

func TestClockStepBeyondFloat(t *testing.T) {
	for _, step := range []int64{0, 1, -1, 1_790_000_000_000_000_001, -1_790_000_000_000_000_001} {
		e, err := Maker{Source: "assay/logger"}.New(&ClockStepped{BootID: "b", StepNS: step})
		if err != nil {
			t.Fatal(err)
		}
		raw := mustEncode(t, e)
		checkValid(t, raw)
		if got := mustDecode(t, raw).Data.(*ClockStepped).StepNS; got != step {
			t.Errorf("%d became %d", step, got)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	good := string(mustExample(t, TypeClaimRevised))
	for _, c := range []struct{ name, raw string }{
		{"empty", ""},
		{"not JSON", "{"},
		{"trailing data", good + "{}"},
		{"trailing member", `{"id":"a"},"principal":"operator/x"`},
		{"array", "[]"},
		{"duplicate member", strings.Replace(good, `"source"`, `"id":"x","source"`, 1)},
		{"duplicate in data", strings.Replace(good, `"claim_id"`, `"claim_id":"x","claim_id"`, 1)},
		{"invalid UTF-8", strings.Replace(good, `"piper"`, "\"\xff\"", 1)},
		{"other specversion", strings.Replace(good, `"1.0"`, `"0.3"`, 1)},
		{"no dataschema", strings.Replace(good, `"dataschema"`, `"schemadata"`, 1)},
		{"dataschema of another type", strings.Replace(good, `:claim.revised:1`, `:claim.recorded:1`, 1)},
		{"version zero", strings.Replace(good, `:claim.revised:1`, `:claim.revised:0`, 1)},
		{"version with a zero before it", strings.Replace(good, `:claim.revised:1`, `:claim.revised:01`, 1)},
		{"data is a string", good[:strings.Index(good, `"data":`)] + `"data":"x"}`},
		{"no data", strings.Replace(good, `"data":`, `"date":`, 1)},
		{"member of another type", strings.Replace(good, `"claim_id":"claim-1"`, `"claim_id":7`, 1)},
		{"sequence is an object", strings.Replace(good, `"sequence"`, `"sequence":{},"x"`, 1)},
		{"sequence is a fraction", strings.Replace(good, `"sequence"`, `"sequence":1.5,"x"`, 1)},
		{"negative count", strings.Replace(string(mustExample(t, TypeTelemetrySealed)), `"first":1`, `"first":-1.0`, 1)},
		{"fractional count", strings.Replace(string(mustExample(t, TypeTelemetrySealed)), `"first":1`, `"first":1.5`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e, err := Decode([]byte(c.raw)); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	for _, typ := range schema.Types() {
		first := mustDecode(t, mustExample(t, typ))
		raw := mustEncode(t, first)
		checkValid(t, raw)
		second := mustDecode(t, raw)
		first.RawData, second.RawData = nil, nil
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s: %+v\nbecame %+v", typ, first, second)
		}
		if again := mustEncode(t, second); !bytes.Equal(again, raw) {
			t.Errorf("%s: encoded as\n%s\nthen as\n%s", typ, raw, again)
		}
	}
}

var update = flag.Bool("update", false, "rewrite testdata")

// TestEncodedBytesAreFrozen: resolutions are re-emitted byte for byte by later
// builds, so that the encoding of an event may not change.
func TestEncodedBytesAreFrozen(t *testing.T) {
	for _, typ := range schema.Types() {
		got := append(mustEncode(t, mustDecode(t, mustExample(t, typ))), '\n')
		file := filepath.Join("testdata", "encoded", typ+".1.json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as\n%swant\n%s", typ, got, want)
		}
	}
}

// TestGoldenBytesAreRead: bytes of a frozen version are read by every build, and
// written again as they were, those of before a member was added (-first) too.
func TestGoldenBytesAreRead(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "encoded", "*.json"))
	if err != nil || len(names) < len(schema.Types()) {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.TrimSuffix(raw, []byte("\n"))
		e := mustDecode(t, raw)
		if again := mustEncode(t, e); !bytes.Equal(again, raw) {
			t.Errorf("%s is encoded as\n%s", name, again)
		}
		if _, unknown := e.Data.(*Unknown); unknown {
			t.Errorf("%s is of an unknown type", name)
		}
	}
}

func TestPropertyClaimRoundTrip(t *testing.T) {
	name := rapid.StringN(1, 40, 200)
	id := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:/-]{0,20}`)
	p := rapid.Float64Range(0, 1)
	rapid.Check(t, func(rt *rapid.T) {
		c := &ClaimRecorded{
			ClaimID: id.Draw(rt, "id"), Status: rapid.SampledFrom([]string{"hypothesis", "asserted", "retracted"}).Draw(rt, "status"),
			Edge:          &Edge{Rung: "intervention", Cause: name.Draw(rt, "cause"), Effect: name.Draw(rt, "effect")},
			RawConfidence: rapid.Ptr(p, true).Draw(rt, "raw"),
			EvidenceIDs:   rapid.SliceOfN(id, 1, 5).Draw(rt, "evidence"),
			Assumptions:   rapid.SliceOfN(name, 1, 3).Draw(rt, "assumptions"),
		}
		e, err := Maker{Source: "s"}.New(c)
		if err != nil {
			rt.Fatal(err)
		}
		raw, err := Encode(e)
		if err != nil {
			rt.Fatal(err)
		}
		if _, f := schema.Check(raw); f != nil {
			rt.Fatalf("%v in %s", f, raw)
		}
		got, err := Decode(raw)
		if err != nil || !reflect.DeepEqual(got.Data, c) {
			rt.Fatalf("%v: %+v became %+v", err, c, got.Data)
		}
	})
}

// checkOnce: the single pass finds what the long way finds, or leaves it to it.
func checkOnce(tb testing.TB, raw []byte) (once bool) {
	tb.Helper()
	got := decodeOnce(raw)
	if got == nil {
		return false
	}
	want, err := decodeTwice(raw)
	if err != nil || !reflect.DeepEqual(got, want) {
		tb.Fatalf("single pass: %+v\nlong way: %+v, %v\n%s", got, want, err, raw)
	}
	return true
}

func TestSinglePassEqualsLongWay(t *testing.T) {
	for _, typ := range schema.Types() {
		if !checkOnce(t, mustExample(t, typ)) {
			t.Errorf("the example of %s took the long way", typ)
		}
	}
	raw := string(mustExample(t, TypeGateChosen))
	for _, odd := range []string{
		strings.Replace(raw, `"id"`, `"\u0069d"`, 1),
		strings.Replace(raw, `"data":`, ` "data" : `, 1),
		strings.Replace(raw, `"specversion"`, `"Specversion"`, 1),
		raw + " ", raw + "{}", raw[:len(raw)-1],
	} {
		checkOnce(t, []byte(odd))
	}
}

func FuzzDecode(f *testing.F) {
	for _, typ := range schema.Types() {
		f.Add(mustExample(f, typ))
	}
	f.Add([]byte(`{"id":"a"},"principal":"operator/x"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkOnce(t, raw)
		e, err := Decode(raw)
		_, fault := schema.Check(raw)
		if err != nil {
			if fault == nil {
				t.Fatalf("an intake lets in what Decode refuses: %v\n%s", err, raw)
			}
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if e.Data == nil || e.Data.Type() != e.Type {
			t.Fatalf("payload %T in an event of type %q", e.Data, e.Type)
		}
		if fault != nil {
			return
		}
		again := mustEncode(t, e)
		if len(again) <= schema.MaxEvent {
			checkValid(t, again)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, typ := range []string{TypeClaimRevised, TypeToolCalled, TypePredictionRecorded, TypeClaimRecorded} {
		raw := mustExample(b, typ)
		b.Run(typ, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := Decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	raw := mustExample(b, TypeToolCalled)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := DecodeEnvelope(raw); err != nil {
			b.Fatal(err)
		}
	}
}
