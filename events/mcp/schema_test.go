package mcp

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compile reads a tool's schema with a library that knows nothing of ours.
func compile(t *testing.T, typ string) *jsonschema.Schema {
	t.Helper()
	in, err := inputSchema(typ)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:tool", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:tool") // fails where a reference leads out of it
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInputSchemasAreOurs: what a client that goes by the schema may send is what the
// ledger takes, member by member of an example.
func TestInputSchemasAreOurs(t *testing.T) {
	for _, tool := range tools {
		s := compile(t, tool.typ)
		var good map[string]jsontext.Value
		if err := json.Unmarshal([]byte(example(t, tool.typ)), &good); err != nil {
			t.Fatal(err)
		}
		check := func(name string, arguments map[string]jsontext.Value) {
			t.Helper()
			raw, err := json.Marshal(arguments)
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			_, _, ours := Config{As: "agent/piper"}.event(tool, raw)
			if theirs := s.Validate(doc); (ours == nil) != (theirs == nil) {
				t.Errorf("%s %s: the ledger says %v, the schema %v", tool.name, name, ours, theirs)
			}
		}
		check("as it is", good)
		check("with another member", with(good, "another", "1"))
		check("with a context", with(good, "context", "{}"))
		for name := range good {
			check("without "+name, with(good, name, ""))
			for _, value := range []string{"null", "{}", "[]", "-1", `""`, `"a b"`, "true"} {
				check(name+" is "+value, with(good, name, value))
			}
		}
	}
	if _, err := inputSchema("no.type"); err == nil {
		t.Error("there is no such type")
	}
}

// with is a copy with a member changed, or without it.
func with(m map[string]jsontext.Value, name, value string) map[string]jsontext.Value {
	out := map[string]jsontext.Value{}
	for k, v := range m {
		out[k] = v
	}
	if out[name] = jsontext.Value(value); value == "" {
		delete(out, name)
	}
	return out
}
