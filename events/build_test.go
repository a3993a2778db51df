package events

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"assay/schema"
)

var fixed = Maker{
	Source: "test",
	Now:    func() time.Time { return time.Date(2026, 10, 3, 14, 0, 0, 5000, time.FixedZone("CEST", 7200)) },
	NewID:  func() (uuid.UUID, error) { return uuid.MustParse("01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f"), nil },
}

func TestMakerNew(t *testing.T) {
	e, err := fixed.New(&PredictionWithdrawn{PredID: "pred-1"})
	if err != nil {
		t.Fatal(err)
	}
	e.EpisodeID, e.Sequence = "ep-1", "3"
	raw := mustEncode(t, e)
	checkValid(t, raw)
	want := `{"specversion":"1.0","id":"01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f","source":"test","type":"prediction.withdrawn","time":"2026-10-03T12:00:00.000005Z","datacontenttype":"application/json","dataschema":"urn:assay:prediction.withdrawn:1","episodeid":"ep-1","sequence":"3","data":{"context":{},"pred_id":"pred-1"}}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestMakerDefaults(t *testing.T) {
	m := Maker{Source: "s"}
	a, err := m.New(&GateChosen{Action: "TEST"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.New(&GateChosen{Action: "TEST"})
	if err != nil {
		t.Fatal(err)
	}
	if a.ID == b.ID || uuid.MustParse(a.ID).Version() != 7 {
		t.Errorf("ids %s and %s", a.ID, b.ID)
	}
	checkValid(t, mustEncode(t, a))
}

func TestMakerErrors(t *testing.T) {
	broken := errors.New("no randomness")
	m := fixed
	m.NewID = func() (uuid.UUID, error) { return uuid.Nil, broken }
	if _, err := m.New(&GateChosen{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Fill([]byte("{}")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := fixed.New(&Unknown{TypeName: "claim.invented"}); err == nil {
		t.Error("made an event of an unknown type")
	}
	if _, err := Encode(&Event{Type: TypeGateChosen}); err == nil {
		t.Error("encoded an event without data")
	}
	if _, err := Encode(&Event{Source: "\xff", Data: &GateChosen{}}); err == nil {
		t.Error("encoded invalid UTF-8")
	}
	if _, err := Encode(&Event{RawData: jsontext.Value("{")}); err == nil {
		t.Error("encoded broken data")
	}
}

func TestDerivedID(t *testing.T) {
	id := DerivedID("prediction.resolved", "pred-1")
	if id.String() != "a498be40-d8b8-8aae-b704-c48ddc56fe78" {
		t.Errorf("the derivation changed: %s", id)
	}
	if id.Version() != 8 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%s is version %d, variant %v", id, id.Version(), id.Variant())
	}
	seen := map[uuid.UUID][]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"assay id v1"}} {
		id := DerivedID(parts...)
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q give %s", other, parts, id)
		}
		seen[id] = parts
		if id != DerivedID(parts...) {
			t.Errorf("%q gives two ids", parts)
		}
	}
}

func TestFill(t *testing.T) {
	const head = `"specversion":"1.0","id":"01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f","source":"test","time":"2026-10-03T12:00:00.000005Z","datacontenttype":"application/json"`
	for _, c := range []struct{ name, in, want string }{
		{"type and data", `{ "type" : "gate.chosen", "data": {"context": {}, "action": "TEST"} }`,
			`{` + head + `,"dataschema":"urn:assay:gate.chosen:1","type":"gate.chosen","data":{"context":{},"action":"TEST"}}`},
		{"empty", "{}", `{` + head + `}`},
		{"unknown type", `{"type":"x.y"}`, `{` + head + `,"type":"x.y"}`},
		{"wrong type stays", `{"type":7}`, `{` + head + `,"type":7}`},
		{"null is present", `{"id":null,"source":null,"time":null,"specversion":null,"datacontenttype":null,"dataschema":null,"type":"gate.chosen"}`,
			`{"id":null,"source":null,"time":null,"specversion":null,"datacontenttype":null,"dataschema":null,"type":"gate.chosen"}`},
		{"wrong values stay", `{"specversion":"9","id":"","source":7,"time":{},"datacontenttype":[],"dataschema":"x","type":"gate.chosen"}`,
			`{"specversion":"9","id":"","source":7,"time":{},"datacontenttype":[],"dataschema":"x","type":"gate.chosen"}`},
		{"escaped name is present", `{"\u0069d":"x"}`, `{` + strings.Replace(head, `"id":"01920f5e-7b01-7d2a-8e3f-0a1b2c3d4e5f",`, "", 1) + `,"\u0069d":"x"}`},
		{"bytes of data stay", "{\"data\":{\"a\" : 1.0e2,\n\"b\":\"\\u0041 \\/\"}}", `{` + head + `,"data":{"a":1.0e2,"b":"\u0041 \/"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := fixed.Fill([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for _, in := range []string{"", "{", "[]", "7", `"x"`, "null", "{}{}", `{"id":"a"},"principal":"x"`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", "garbage"} {
		if got, err := fixed.Fill([]byte(in)); !errors.Is(err, ErrNotObject) {
			t.Errorf("Fill(%q) = %q, %v", in, got, err)
		}
	}
}

// TestFilledExamples drops the envelope from each example and fills it again.
func TestFilledExamples(t *testing.T) {
	for _, typ := range schema.Types() {
		e := mustDecode(t, mustExample(t, typ))
		raw, err := fixed.Fill([]byte(`{"type":"` + typ + `","data":` + string(e.RawData) + `}`))
		if err != nil {
			t.Fatal(err)
		}
		checkValid(t, raw)
	}
}

func FuzzFill(f *testing.F) {
	f.Add([]byte(`{"type":"gate.chosen","data":{"context":{},"action":"TEST"}}`))
	f.Add([]byte(` { } `))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := fixed.Fill(raw)
		if err != nil {
			return
		}
		compact, err := schema.Compact(raw)
		if err != nil {
			t.Fatalf("filled what is not JSON: %q", raw)
		}
		if !bytes.HasSuffix(got, compact[1:]) {
			t.Errorf("the object's bytes changed: %q became %q", raw, got)
		}
		if !jsontext.Value(got).IsValid() {
			t.Errorf("%q became %q", raw, got)
		}
		again, err := fixed.Fill(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("not idempotent: %q, %q, %v", got, again, err)
		}
	})
}
