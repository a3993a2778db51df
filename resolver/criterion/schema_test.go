package criterion

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// criterionSchema is the schema file of criteria, compiled by the library.
func criterionSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"common", "criterion"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "schema", "json", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("urn:assay:"+name+":1", doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("urn:assay:criterion:1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wholeCriterion has every member there is.
const wholeCriterion = `{"criterion_version":1,"action":{"tool":"restart","target":"svc/x","execute_by":"10m"},` +
	`"window":{"anchor":"action_end","offset":"60s","length":"30m"},` +
	`"all":[{"signal":"oom_kills","labels":{"unit":"x"},"reduce":"increase","op":"==","value":0,"hold_for":null,"min_samples":20},` +
	`{"signal":"rss","labels":null,"reduce":"quantile","q":0.5,"op":"<=","value":1.5,"hold_for":"20s"}],` +
	`"baseline":{"length":"30m","reduce":"increase","q":null,"op":">=","value":1},` +
	`"coverage":{"heartbeat":"vmstat_scrape","interval":"15s","min":0.95,"max_gap":"90s"},` +
	`"allowed_lateness":"5m","max_skew":"2s","expires_after":"24h","controls":[{"labels":{"unit":"y"}}]}`

// Parse and the schema accept the same criteria: every mutation of one that has
// every member is accepted by both or by neither.
func TestParseAcceptsWhatTheSchemaAccepts(t *testing.T) {
	s := criterionSchema(t)
	accepted, refused := 0, 0
	agree := func(t interface {
		Fatalf(string, ...any)
	}, raw []byte) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("the library cannot read %s: %v", raw, err)
		}
		want := s.Validate(doc)
		_, got := Parse(raw)
		if (want == nil) != (got == nil) {
			t.Fatalf("Parse: %v\nschema: %v\nin %s", got, want, raw)
		}
		if got == nil {
			accepted++
		} else {
			refused++
		}
	}
	agree(t, []byte(wholeCriterion))
	rapid.Check(t, func(rt *rapid.T) {
		raw := jsontext.Value(wholeCriterion)
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			raw = mutate(rt, raw)
		}
		agree(rt, raw)
	})
	if accepted < 10 || refused < 10 {
		t.Errorf("%d accepted and %d refused: the mutations show nothing", accepted, refused)
	}
}

// replacements are values that are right in some place.
var replacements = []string{
	`null`, `true`, `1`, `1.0`, `-0`, `0`, `2`, `0.5`, `-1`, `1e3`, `20.5`, `1000000001`, `9007199254740992`, `""`, `"x"`, `"30m"`, `"0s"`, `"1.5m"`, `"-1m"`,
	`"1234567890s"`, `"999999999d"`, `"1m "`, `"=="`, `"=~"`, `"max"`, `"rate"`, `"quantile"`, `"recorded_at"`, `"a b"`, `"1a"`, `"` + strings.Repeat("é", 256) + `"`,
	`"` + strings.Repeat("a", 257) + `"`, `[]`, `{}`, `[null]`, `{"a":"b"}`, `{"a b":"c"}`, `{"a":1}`, `{"` + strings.Repeat("a", 65) + `":"b"}`,
	`[{"labels":{}}]`, `[{"signal":"a","reduce":"max","op":"<","value":1}]`,
}

// mutate replaces, drops or adds one member or element somewhere.
func mutate(t *rapid.T, raw jsontext.Value) jsontext.Value {
	switch kind := raw.Kind(); {
	case kind == '{' && rapid.IntRange(0, 9).Draw(t, "deeper") > 0:
		var members map[string]jsontext.Value
		check(t, json.Unmarshal(raw, &members))
		names := make([]string, 0, len(members))
		for name := range members {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) == 0 || rapid.IntRange(0, 9).Draw(t, "add") == 0 {
			members[rapid.SampledFrom([]string{"any", "all", "q", "x", "labels"}).Draw(t, "name")] = jsontext.Value(rapid.SampledFrom(replacements).Draw(t, "value"))
		} else {
			name := rapid.SampledFrom(names).Draw(t, "member")
			if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
				delete(members, name)
			} else {
				members[name] = mutate(t, members[name])
			}
		}
		out, err := json.Marshal(members, json.Deterministic(true))
		check(t, err)
		return out
	case kind == '[' && rapid.IntRange(0, 9).Draw(t, "deeper") > 0:
		var list []jsontext.Value
		check(t, json.Unmarshal(raw, &list))
		switch {
		case len(list) == 0 || rapid.IntRange(0, 4).Draw(t, "repeat") == 0:
			list = append(list, list...)
		default:
			i := rapid.IntRange(0, len(list)-1).Draw(t, "element")
			list[i] = mutate(t, list[i])
		}
		out, err := json.Marshal(list, json.Deterministic(true))
		check(t, err)
		return out
	}
	return jsontext.Value(rapid.SampledFrom(replacements).Draw(t, "value"))
}

func check(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
