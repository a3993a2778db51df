package mcp

import (
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/schema"
)

// inputSchema is the schema of a type's data as a tool's: whole in itself, without
// the context, and with what a tool takes beside the data.
func inputSchema(typ string) (map[string]any, error) {
	in := inliner{defs: map[string]any{}, docs: map[string]map[string]any{}}
	doc, err := in.doc(typ)
	if err != nil {
		return nil, err
	}
	whole, err := in.inline(typ, doc)
	if err != nil {
		return nil, err
	}
	out := whole.(map[string]any)
	for _, name := range []string{"$schema", "$id", "x-writers"} {
		delete(out, name)
	}
	required := []any{}
	for _, name := range out["required"].([]any) {
		if name != "context" {
			required = append(required, name)
		}
	}
	out["required"] = required
	properties := out["properties"].(map[string]any)
	delete(properties, "context")
	properties["episode_id"] = map[string]any{
		"type": []any{"string", "null"}, "minLength": 1, "maxLength": 128, "description": "The session or task that this belongs to; the same for all that you record in it.",
	}
	opportunity, err := in.ref("common", "urn:assay:common:1#/$defs/id")
	if err != nil {
		return nil, err
	}
	properties["opportunity_id"] = map[string]any{"anyOf": []any{opportunity, map[string]any{"type": "null"}}}
	out["$defs"] = in.used(out)
	return out, nil
}

// inliner brings the definitions of other documents into one.
type inliner struct {
	defs map[string]any            // by document and name
	docs map[string]map[string]any // as they stand in package schema
}

func (in *inliner) doc(name string) (map[string]any, error) {
	if d := in.docs[name]; d != nil {
		return d, nil
	}
	raw, ok := schema.Raw(name)
	if !ok {
		raw, ok = schema.Shared(name)
	}
	if !ok {
		return nil, fmt.Errorf("there is no schema %s", name)
	}
	var d map[string]any
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	in.docs[name] = d
	return d, nil
}

// inline copies a value of a document with each reference pointing into defs.
func (in *inliner) inline(doc string, v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = in.inline(doc, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			return in.ref(doc, ref)
		}
		out := maps.Clone(v)
		delete(out, "$defs")
		for name, item := range out {
			var err error
			if out[name], err = in.inline(doc, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// ref sees to the definition that a reference of a document names.
func (in *inliner) ref(doc, ref string) (any, error) {
	urn, pointer, _ := strings.Cut(ref, "#")
	if urn != "" {
		doc = strings.TrimSuffix(strings.TrimPrefix(urn, "urn:assay:"), ":1")
	}
	key := doc
	d, err := in.doc(doc)
	if err != nil {
		return nil, err
	}
	var target any = d
	if name, ok := strings.CutPrefix(pointer, "/$defs/"); ok {
		key += "." + name
		target = d["$defs"].(map[string]any)[name]
	}
	if target == nil {
		return nil, fmt.Errorf("schema %s has no %s", doc, ref)
	}
	if _, ok := in.defs[key]; !ok {
		in.defs[key] = nil // one that refers to itself ends here
		if in.defs[key], err = in.inline(doc, target); err != nil {
			return nil, err
		}
		if def, ok := in.defs[key].(map[string]any); ok {
			delete(def, "$id")
			delete(def, "$schema")
		}
	}
	return map[string]any{"$ref": "#/$defs/" + key}, nil
}

// used are the definitions that a schema needs.
func (in *inliner) used(root any) map[string]any {
	out := map[string]any{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				key := strings.TrimPrefix(ref, "#/$defs/")
				if _, ok := out[key]; !ok {
					out[key] = in.defs[key]
					walk(in.defs[key])
				}
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(root)
	return out
}
