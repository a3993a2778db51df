package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

const packageDir = "../.."

// TestGeneratedFileIsCurrent fails when a schema was changed without running
// the generator.
func TestGeneratedFileIsCurrent(t *testing.T) {
	want, err := generate(os.DirFS(filepath.Join(packageDir, "json")))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(packageDir, outputFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is stale: run go generate ./schema", outputFile)
	}
	again, err := generate(os.DirFS(filepath.Join(packageDir, "json")))
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("the same schemas gave other code: %v", err)
	}
}

func TestRunWritesTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "json"), os.DirFS(filepath.Join(packageDir, "json"))); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, outputFile)); err != nil || !bytes.Contains(b, []byte("DO NOT EDIT")) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := run(filepath.Join(dir, "json")); err == nil {
		t.Error("a directory without schemas gave code")
	}
}

// schemas is a small set in which the data of thing.done has the given members.
func schemas(properties, more string) fstest.MapFS {
	file := func(id, rest string) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, `{"$schema":%q,"$id":"urn:assay:%s:1",%s}`, dialect, id, rest)}
	}
	return fstest.MapFS{
		"envelope.json":   file("envelope", `"type":"object","properties":{"data":{"type":"object"}},"additionalProperties":false`),
		"common.json":     file("common", `"$defs":{"name":{"type":"string","maxLength":9}}`),
		"thing.done.json": file("thing.done", `"x-writers":["agent"],"type":"object","additionalProperties":false,"properties":{`+properties+`}`+more),
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, properties, more, want string }{
		{"unknown keyword", `"a":{"type":"integer","multipleOf":2}`, "", "multipleOf"},
		{"unknown keyword at the top", "", `,"if":{}`, "if"},
		{"keyword of another type", `"a":{"type":"integer","maxLength":2}`, "", "maxLength"},
		{"keyword beside $ref", `"a":{"$ref":"urn:assay:common:1#/$defs/name","maxLength":2}`, "", "maxLength"},
		{"keyword beside enum", `"a":{"type":"string","enum":["x"]}`, "", "enum"},
		{"keyword beside anyOf", `"a":{"anyOf":[{"type":"boolean"},{"type":"null"}],"type":"boolean"}`, "", "type"},
		{"keyword beside const", `"a":{"const":1,"minimum":1}`, "", "minimum"},
		{"string without maxLength", `"a":{"type":"string"}`, "", "maxLength"},
		{"array without maxItems", `"a":{"type":"array","items":{"type":"boolean"}}`, "", "maxItems"},
		{"array without items", `"a":{"type":"array","maxItems":3}`, "", "items"},
		{"open object", `"a":{"type":"object","properties":{}}`, "", "additionalProperties"},
		{"additionalProperties true", `"a":{"type":"object","additionalProperties":true}`, "", "additionalProperties"},
		{"map without propertyNames", `"a":{"type":"object","additionalProperties":{"type":"boolean"}}`, "", "propertyNames"},
		{"map of any size", `"a":{"type":"object","propertyNames":{"pattern":"^b$"},"additionalProperties":{"type":"boolean"}}`, "", "maxProperties"},
		{"object of which nothing is said", `"a":{"type":"object"}`, "", "nothing"},
		{"no type", `"a":{}`, "", "without type"},
		{"unknown type name", `"a":{"type":"float"}`, "", "float"},
		{"bare null", `"a":{"type":"null"}`, "", "null"},
		{"object among several types", `"a":{"type":["object","integer"]}`, "", "object"},
		{"anyOf of two schemas", `"a":{"anyOf":[{"type":"boolean"},{"type":"integer"}]}`, "", "anyOf"},
		{"mixed enum", `"a":{"enum":["x",1]}`, "", ""},
		{"unknown format", `"a":{"type":"string","maxLength":9,"pattern":"^a$","format":"email"}`, "", "email"},
		{"date-time without its pattern", `"a":{"type":"string","maxLength":40,"pattern":"^a$","format":"date-time"}`, "", "date-time"},
		{"pattern without anchors", `"a":{"type":"string","maxLength":9,"pattern":"a"}`, "", "anchored"},
		{"pattern of any character", `"a":{"type":"string","maxLength":9,"pattern":"^.$"}`, "", "any character"},
		{"pattern beyond ASCII", `"a":{"type":"string","maxLength":9,"pattern":"^[^a]$"}`, "", "ASCII"},
		{"pattern without case", `"a":{"type":"string","maxLength":9,"pattern":"^(?i)a$"}`, "", "ASCII"},
		{"pattern of word boundaries", `"a":{"type":"string","maxLength":9,"pattern":"^a\\b$"}`, "", "anchors"},
		{"pattern of too many states", `"a":{"type":"string","maxLength":999,"pattern":"^a{300}$"}`, "", "states"},
		{"broken pattern", `"a":{"type":"string","maxLength":9,"pattern":"^(a$"}`, "", "missing"},
		{"unknown reference", `"a":{"$ref":"urn:assay:other:1"}`, "", "no such schema"},
		{"unknown definition", `"a":{"$ref":"urn:assay:common:1#/$defs/x"}`, "", "no such definition"},
		{"required without a schema", "", `,"required":["a"]`, `"a"`},
		{"oneOf of other shapes", `"a":{"anyOf":[{"type":"boolean"},{"type":"null"}]}`, `,"oneOf":[{"type":"object"},{"type":"object"}]`, "oneOf"},
		{"oneOf of a member that cannot be null", `"a":{"type":"boolean"}`, `,"oneOf":[{"required":["a"],"properties":{"a":{"type":"boolean"}}}]`, "oneOf"},
		{"oneOf of one", `"a":{"anyOf":[{"type":"boolean"},{"type":"null"}]}`, `,"oneOf":[{"required":["a"],"properties":{"a":{"type":"boolean"}}}]`, "fewer"},
		{"unused definition", "", `,"$defs":{"x":{"type":"string"}}`, "maxLength"},
		{"listed name that propertyNames refuses", `"a":{"type":"object","propertyNames":{"pattern":"^b$"},"properties":{"a":{"type":"boolean"}},"additionalProperties":{"type":"boolean"}}`, "", "propertyNames"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := generate(schemas(c.properties, c.more))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q\n%s", err, c.want, code)
			}
		})
	}
	if _, err := generate(schemas(`"a":{"$ref":"urn:assay:common:1#/$defs/name"}`, "")); err != nil {
		t.Errorf("the unspoilt set: %v", err)
	}
}

// TestDefinitionIsCompiledOnce: one that is used in several places gives one
// method, whatever it is.
func TestDefinitionIsCompiledOnce(t *testing.T) {
	list := `"$defs":{"things":{"type":"array","maxItems":3,"items":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}}}`
	set := schemas(`"a":{"$ref":"#/$defs/things"},"b":{"$ref":"#/$defs/things"}`, ","+list)
	code, err := generate(set)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(code, []byte("func (s *scan) thingDoneThingsItem() bool")); n != 1 {
		t.Errorf("the method of the definition's items is there %d times", n)
	}
}

func TestDocumentRefusals(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"no $id", `{"$schema":"` + dialect + `"}`, "$id"},
		{"$id of another file", `{"$schema":"` + dialect + `","$id":"urn:assay:other:1"}`, "$id"},
		{"$id without a version", `{"$schema":"` + dialect + `","$id":"urn:assay:x.y:one"}`, "$id"},
		{"other dialect", `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"urn:assay:x.y:1"}`, "$schema"},
		{"unknown role", `{"$schema":"` + dialect + `","$id":"urn:assay:x.y:1","x-writers":["root"],"type":"object"}`, "root"},
		{"no role", `{"$schema":"` + dialect + `","$id":"urn:assay:x.y:1","x-writers":[],"type":"object"}`, "x-writers"},
		{"not JSON", `{`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := schemas("", "")
			set["x.y.json"] = &fstest.MapFile{Data: []byte(c.data)}
			if _, err := generate(set); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
	if _, err := generate(fstest.MapFS{}); err == nil {
		t.Error("no envelope, and yet code")
	}
}

func TestAutomatonEqualsRegexp(t *testing.T) {
	for _, source := range []string{
		`^$`, `^a*$`, `^(ab|a)(c|bcd)$`, `^[a-c]{2,4}x?$`, `^(a|b)*abb$`, `^-?(0|[1-9][0-9]*)$`, `^(ms|s|m)$`, timestampPattern,
	} {
		d, err := compilePattern(source)
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(source)
		rapid.Check(t, func(rt *rapid.T) {
			s := rapid.OneOf(rapid.StringMatching(`[abcdx019ms-]{0,6}`), rapid.StringN(0, 4, 12)).Draw(rt, "s")
			if d.match(s) != re.MatchString(s) {
				rt.Errorf("%s on %q: want %v", source, s, re.MatchString(s))
			}
		})
	}
}
