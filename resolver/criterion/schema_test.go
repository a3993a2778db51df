package criterion

import (
	"bytes"
	"fmt"
	"maps"
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
// every member is accepted by both or by neither, and so are several at once.
func TestParseAcceptsWhatTheSchemaAccepts(t *testing.T) {
	s := criterionSchema(t)
	agree := func(raw []byte) (accepted bool, err error) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return false, err
		}
		want := s.Validate(doc)
		_, got := Parse(raw)
		if (want == nil) != (got == nil) {
			return false, fmt.Errorf("Parse: %v\nschema: %v\nin %s", got, want, raw)
		}
		return got == nil, nil
	}
	count := map[bool]int{}
	mutations(t, jsontext.Value(wholeCriterion), func(raw jsontext.Value) {
		accepted, err := agree(raw)
		if err != nil {
			t.Error(err)
		}
		count[accepted]++
	})
	if count[true] < 100 || count[false] < 1000 {
		t.Errorf("%d accepted and %d refused: the mutations show nothing", count[true], count[false])
	}
	rapid.Check(t, func(rt *rapid.T) {
		raw := jsontext.Value(wholeCriterion)
		for range rapid.IntRange(2, 4).Draw(rt, "changes") {
			raw = mutate(rt, raw)
		}
		if _, err := agree(raw); err != nil {
			rt.Fatal(err)
		}
	})
}

// replacements are values that are right in some place.
var replacements = []string{
	`null`, `true`, `1`, `1.0`, `-0`, `0`, `2`, `0.5`, `-1`, `1e3`, `20.5`, `1000000001`, `9007199254740992`, `""`, `"x"`, `"30m"`, `"0s"`, `"1.5m"`, `"-1m"`,
	`"1234567890s"`, `"999999999d"`, `"1m "`, `"=="`, `"=~"`, `"max"`, `"rate"`, `"quantile"`, `"recorded_at"`, `"a b"`, `"1a"`, `"` + strings.Repeat("é", 256) + `"`,
	`"` + strings.Repeat("a", 257) + `"`, `[]`, `{}`, `[null]`, `{"a":"b"}`, `{"a b":"c"}`, `{"a":1}`, `{"` + strings.Repeat("a", 65) + `":"b"}`,
	`[{"labels":{}}]`, `[{"signal":"a","reduce":"max","op":"<","value":1}]`,
}

// mutations tries raw with each value in it replaced, dropped or repeated, and
// with unknown members.
func mutations(t testing.TB, raw jsontext.Value, try func(jsontext.Value)) {
	for _, r := range replacements {
		try(jsontext.Value(r))
	}
	switch raw.Kind() {
	case '{':
		members := mustDecode[map[string]jsontext.Value](t, raw)
		retry := func() { try(mustEncode(t, members)) }
		for _, name := range slices.Sorted(maps.Keys(members)) {
			was := members[name]
			delete(members, name)
			retry()
			mutations(t, was, func(v jsontext.Value) {
				members[name] = v
				retry()
			})
			members[name] = was
		}
		members["x"] = jsontext.Value("1")
		retry()
	case '[':
		list := mustDecode[[]jsontext.Value](t, raw)
		for i, was := range list {
			mutations(t, was, func(v jsontext.Value) {
				list[i] = v
				try(mustEncode(t, list))
			})
			list[i] = was
		}
		try(mustEncode(t, append(list, list...)))
	}
}

// mutate draws one mutation.
func mutate(t *rapid.T, raw jsontext.Value) jsontext.Value {
	deeper := rapid.IntRange(0, 9).Draw(t, "deeper") > 0
	switch kind := raw.Kind(); {
	case kind == '{' && deeper:
		members := mustDecode[map[string]jsontext.Value](t, raw)
		name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(members)), "any", "all", "q", "x")).Draw(t, "member")
		switch v, ok := members[name]; {
		case !ok:
			members[name] = jsontext.Value(rapid.SampledFrom(replacements).Draw(t, "value"))
		case rapid.IntRange(0, 4).Draw(t, "drop") == 0:
			delete(members, name)
		default:
			members[name] = mutate(t, v)
		}
		return mustEncode(t, members)
	case kind == '[' && deeper:
		list := mustDecode[[]jsontext.Value](t, raw)
		if len(list) == 0 || rapid.IntRange(0, 4).Draw(t, "repeat") == 0 {
			return mustEncode(t, append(list, list...))
		}
		i := rapid.IntRange(0, len(list)-1).Draw(t, "element")
		list[i] = mutate(t, list[i])
		return mustEncode(t, list)
	}
	return jsontext.Value(rapid.SampledFrom(replacements).Draw(t, "value"))
}

type fataler interface{ Fatal(...any) }

func mustDecode[T any](t fataler, raw jsontext.Value) (v T) {
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustEncode(t fataler, v any) jsontext.Value {
	out, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
