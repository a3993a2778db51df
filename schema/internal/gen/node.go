package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// node is one schema. Its fields are all the keywords that gen knows; decoding
// refuses others.
type node struct {
	Schema      string           `json:"$schema"`
	ID          string           `json:"$id"`
	Ref         string           `json:"$ref"`
	Defs        map[string]*node `json:"$defs"`
	Description string           `json:"description"`
	Writers     []string         `json:"x-writers"`

	Type  typeList       `json:"type"`
	Enum  []string       `json:"enum"`
	Const jsontext.Value `json:"const"`
	AnyOf []*node        `json:"anyOf"`
	OneOf []*node        `json:"oneOf"`

	MinLength *int   `json:"minLength"`
	MaxLength *int   `json:"maxLength"`
	Pattern   string `json:"pattern"`
	Format    string `json:"format"`

	Minimum *int64 `json:"minimum"`
	Maximum *int64 `json:"maximum"`

	MinItems *int  `json:"minItems"`
	MaxItems *int  `json:"maxItems"`
	Items    *node `json:"items"`

	Properties           map[string]*node `json:"properties"`
	Required             []string         `json:"required"`
	AdditionalProperties *additional      `json:"additionalProperties"`
	PropertyNames        *node            `json:"propertyNames"`
	MaxProperties        *int             `json:"maxProperties"`
}

// typeList is the type keyword: one name or several.
type typeList []string

func (t *typeList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		*t = make([]string, 1)
		return json.UnmarshalDecode(dec, &(*t)[0])
	}
	return json.UnmarshalDecode(dec, (*[]string)(t))
}

// additional is additionalProperties: false, or a schema.
type additional struct {
	schema *node // nil for false
}

func (a *additional) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case 'f':
		_, err := dec.ReadToken()
		return err
	case '{':
		return json.UnmarshalDecode(dec, &a.schema)
	}
	return fmt.Errorf("additionalProperties must be false or a schema")
}

// keywords lists the assertions that the schema uses.
func (n *node) keywords() []string {
	var list []string
	for _, k := range []struct {
		name string
		used bool
	}{
		{"$ref", n.Ref != ""}, {"type", n.Type != nil}, {"enum", n.Enum != nil}, {"const", n.Const != nil},
		{"anyOf", n.AnyOf != nil}, {"oneOf", n.OneOf != nil},
		{"minLength", n.MinLength != nil}, {"maxLength", n.MaxLength != nil}, {"pattern", n.Pattern != ""}, {"format", n.Format != ""},
		{"minimum", n.Minimum != nil}, {"maximum", n.Maximum != nil},
		{"minItems", n.MinItems != nil}, {"maxItems", n.MaxItems != nil}, {"items", n.Items != nil},
		{"properties", n.Properties != nil}, {"required", n.Required != nil},
		{"additionalProperties", n.AdditionalProperties != nil}, {"propertyNames", n.PropertyNames != nil}, {"maxProperties", n.MaxProperties != nil},
	} {
		if k.used {
			list = append(list, k.name)
		}
	}
	return list
}

// only fails if the schema uses an assertion that is not allowed.
func (n *node) only(allowed ...string) error {
	for _, k := range n.keywords() {
		if !slices.Contains(allowed, k) {
			return fmt.Errorf("keyword %s is not implemented beside %s", k, strings.Join(n.keywords(), ", "))
		}
	}
	return nil
}

// isNull says whether the schema is {"type":"null"}.
func (n *node) isNull() bool {
	return slices.Equal(n.Type, typeList{"null"}) && n.only("type") == nil
}

// document is one schema file.
type document struct {
	name    string // of the file without .json; the event type if root has writers
	version int
	root    *node
}

func (d *document) isType() bool { return d.root.Writers != nil }

// method is what the method for the whole schema is called.
func (d *document) method() string { return lowerFirst(camel(d.name)) }

const (
	dialect   = "https://json-schema.org/draft/2020-12/schema"
	urnPrefix = "urn:assay:"
)

// load reads all schema files, in order of their names.
func load(schemas fs.FS) ([]*document, error) {
	names, err := fs.Glob(schemas, "*.json")
	if err != nil {
		return nil, err
	}
	var docs []*document
	for _, file := range names {
		b, err := fs.ReadFile(schemas, file)
		if err != nil {
			return nil, err
		}
		d := &document{name: strings.TrimSuffix(file, ".json"), root: new(node)}
		if err := json.Unmarshal(b, d.root, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		version, ok := strings.CutPrefix(d.root.ID, urnPrefix+d.name+":")
		if d.version, err = strconv.Atoi(version); !ok || err != nil || d.version < 1 {
			return nil, fmt.Errorf("%s: $id %q, want %s%s:<version>", file, d.root.ID, urnPrefix, d.name)
		}
		if d.root.Schema != dialect {
			return nil, fmt.Errorf("%s: $schema %q, want %s", file, d.root.Schema, dialect)
		}
		docs = append(docs, d)
	}
	return docs, nil
}
