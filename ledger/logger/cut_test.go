package logger

import (
	"bytes"
	"testing"

	"assay/schema"
)

// FuzzCutBatch holds the fast cut against the parser: where it applies, the
// parser finds the same elements.
func FuzzCutBatch(f *testing.F) {
	for _, s := range []string{
		`[]`, `[{}]`, `[{},{}]`, ` [{}]`, `[ {"a":"}"} , {"b":[1,{"c":"\\\""}]} ]`, `[{}] x`, `[{},]`, `[{}`, `[{"a":"]`, `[1,{}]`,
		`[{"a":{]}]`, `[{}}]`, `[{}{}]`, `[{"a":1},` + "\n" + `{"b":2}]`, `[{"a":"\\`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		cut, ok := cutBatch(raw)
		if !ok {
			return
		}
		for _, e := range cut {
			if _, fault := schema.Check(e); fault != nil && isSyntax(fault.Code) {
				return
			}
		}
		split, why := splitBatch(raw)
		if why != nil {
			t.Fatalf("the parser refuses %q: %s", raw, why.Message)
		}
		if len(split) != len(cut) {
			t.Fatalf("%d elements, the parser finds %d in %q", len(cut), len(split), raw)
		}
		for i := range cut {
			if !bytes.Equal(cut[i], split[i]) {
				t.Fatalf("element %d of %q is %q, the parser says %q", i, raw, cut[i], split[i])
			}
		}
	})
}

// isSyntax says whether bytes refused for this reason may be no JSON value.
func isSyntax(c schema.Code) bool {
	switch c {
	case schema.CodeTooLarge, schema.CodeControlByte, schema.CodeBadUTF8, schema.CodeOuterWhitespace, schema.CodeBadJSON,
		schema.CodeDuplicateKey, schema.CodeLoneSurrogate, schema.CodeTooDeep:
		return true
	}
	return false
}

func TestCutBatch(t *testing.T) {
	cut, ok := cutBatch([]byte(`[{"a":"}\"]"}, {"b":[{}]}]`))
	if !ok || len(cut) != 2 || string(cut[0]) != `{"a":"}\"]"}` || string(cut[1]) != `{"b":[{}]}` {
		t.Fatalf("cut %q, %v", cut, ok)
	}
	for _, raw := range []string{`[]`, `[1]`, `[{}`, `[{},]`, `[{}]]`, `[{}{}]`, `[{"a]`, `[`} {
		if cut, ok := cutBatch([]byte(raw)); ok {
			t.Errorf("%s is cut into %q", raw, cut)
		}
	}
}
