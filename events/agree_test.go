package events

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/schema"
)

// node is what this test reads of a schema.
type node struct {
	ID         string           `json:"$id"`
	Ref        string           `json:"$ref"`
	Defs       map[string]*node `json:"$defs"`
	Type       jsontext.Value   `json:"type"`
	Enum       jsontext.Value   `json:"enum"`
	AnyOf      []*node          `json:"anyOf"`
	Items      *node            `json:"items"`
	Properties map[string]*node `json:"properties"`
	Required   []string         `json:"required"`
}

type schemaFiles map[string]*node

func loadSchemas(tb testing.TB) schemaFiles {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join("..", "schema", "json", "*.json"))
	if err != nil || len(names) == 0 {
		tb.Fatalf("%d schema files, %v", len(names), err)
	}
	files := schemaFiles{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		n := new(node)
		if err := json.Unmarshal(b, n); err != nil {
			tb.Fatal(err)
		}
		files[n.ID] = n
	}
	return files
}

// resolve follows references and says whether the value may be null.
func (f schemaFiles) resolve(tb testing.TB, root, n *node) (doc, target *node, nullable bool) {
	tb.Helper()
	if len(n.AnyOf) == 2 {
		doc, target, _ = f.resolve(tb, root, n.AnyOf[0])
		return doc, target, true
	}
	if n.Ref == "" {
		return root, n, false
	}
	id, def, hasDef := strings.Cut(n.Ref, "#/$defs/")
	if id != "" {
		root = f[id]
	}
	if !hasDef {
		return f.resolve(tb, root, root)
	}
	return f.resolve(tb, root, root.Defs[def])
}

// TestStructsAgreeWithSchemas walks each payload's struct beside its schema:
// the same members at every depth, of matching types, and a field that can be
// unknown exactly where the member may be absent and null.
func TestStructsAgreeWithSchemas(t *testing.T) {
	files := loadSchemas(t)
	for tv, read := range registry {
		p, err := readData(read, jsontext.Value("{}"))
		if err != nil {
			t.Fatal(err)
		}
		root := files[DataSchema(tv.name, tv.version)]
		if root == nil {
			t.Errorf("%v has no schema", tv)
			continue
		}
		files.checkStruct(t, tv.name, root, root, reflect.TypeOf(p).Elem())
	}
}

func (f schemaFiles) checkStruct(t *testing.T, at string, root, n *node, st reflect.Type) {
	t.Helper()
	left := map[string]*node{}
	for name, member := range n.Properties {
		left[name] = member
	}
	for i := range st.NumField() {
		field := st.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		member, ok := left[name]
		if !ok {
			t.Errorf("%s: field %s is not in the schema", at, name)
			continue
		}
		delete(left, name)
		doc, target, nullable := f.resolve(t, root, member)
		required, optional := slices.Contains(n.Required, name), strings.Contains(options, "omitzero")
		if nullable != optional || required == optional {
			t.Errorf("%s.%s: nullable %v and required %v in the schema, optional %v in Go", at, name, nullable, required, optional)
		}
		f.checkValue(t, at+"."+name, doc, target, field.Type, strings.Contains(options, "string"))
	}
	for name := range left {
		t.Errorf("%s: member %s of the schema has no field", at, name)
	}
}

func (f schemaFiles) checkValue(t *testing.T, at string, root, n *node, typ reflect.Type, quoted bool) {
	t.Helper()
	if typ == reflect.TypeFor[jsontext.Value]() {
		return // kept as it is
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	var want string
	switch typ.Kind() {
	case reflect.String:
		want = `"string"`
	case reflect.Bool:
		want = `"boolean"`
	case reflect.Float64:
		want = `"number"`
	case reflect.Int64, reflect.Uint64:
		want = `"integer"`
		if quoted {
			want = `"string"`
		}
	case reflect.Slice:
		want = `"array"`
	case reflect.Struct:
		want = `"object"`
	}
	have := string(n.Type)
	if n.Enum != nil {
		have = `"string"`
	}
	if have != want {
		t.Errorf("%s: %s in the schema, %s in Go", at, have, typ)
		return
	}
	switch typ.Kind() {
	case reflect.Struct:
		f.checkStruct(t, at, root, n, typ)
	case reflect.Slice:
		doc, item, nullable := f.resolve(t, root, n.Items)
		if nullable {
			t.Errorf("%s: elements may be null", at)
		}
		f.checkValue(t, at+"[]", doc, item, typ.Elem(), false)
	}
}

// TestExamplesShowEveryMember reads each example's data strictly and checks
// that the examples, as documentation, leave no member of a type out.
func TestExamplesShowEveryMember(t *testing.T) {
	files := loadSchemas(t)
	for _, typ := range schema.Types() {
		e := mustDecode(t, mustExample(t, typ))
		fresh := reflect.New(reflect.TypeOf(e.Data).Elem()).Interface()
		if err := json.Unmarshal(e.RawData, fresh, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		var shown map[string]jsontext.Value
		if err := json.Unmarshal(e.RawData, &shown); err != nil {
			t.Fatal(err)
		}
		for name := range files[e.DataSchema].Properties {
			if _, ok := shown[name]; !ok {
				t.Errorf("%s: the example lacks %s", typ, name)
			}
		}
	}
}
