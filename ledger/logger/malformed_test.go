package logger_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/schema"
)

// Every bad example of the schemas gets its code and pointer over the real
// intake, is recorded or counted, and none stops the logger.
func TestMalformedInputOfEveryKind(t *testing.T) {
	files, err := filepath.Glob("../../schema/bad/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files of bad examples, %v", len(files), err)
	}
	e := newEnv(t)
	r := e.start()
	nc := e.Connect("agent.piper")
	codes := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			code, rest, ok := strings.Cut(line, "\t")
			pointer, event, ok2 := strings.Cut(rest, "\t")
			if !ok || !ok2 {
				t.Fatalf("%s:%d: want code, pointer and event", file, n+1)
			}
			if strings.HasPrefix(event, "[") {
				continue // over the intake an array is a batch
			}
			if a := request(t, nc, "intake.agent.piper", []byte(event)); a.code() != code || a.Error.Pointer != pointer {
				t.Errorf("%s:%d: got %+v, want %s at %q", file, n+1, a.Error, code, pointer)
			}
			codes[code]++
		}
	}
	for name, event := range map[string]string{
		string(schema.CodeTooLarge):    `{"a":"` + strings.Repeat("x", schema.MaxEvent) + `"}`,
		string(schema.CodeTooDeep):     strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40),
		string(schema.CodeControlByte): "{\t}",
		string(schema.CodeBadUTF8):     "{\"a\":\"\xff\"}",
		"forbidden_type":               strings.TrimSpace(string(mustExample(t, "prediction.resolved"))),
	} {
		if a := request(t, nc, "intake.agent.piper", []byte(event)); a.code() != name {
			t.Errorf("%s: %+v", name, a)
		}
		codes[name]++
	}
	for _, c := range []schema.Code{
		schema.CodeControlByte, schema.CodeOuterWhitespace, schema.CodeBadUTF8, schema.CodeBadJSON, schema.CodeDuplicateKey,
		schema.CodeLoneSurrogate, schema.CodeNumberRange, schema.CodeNotAnObject, schema.CodeUnknownType, schema.CodeUnknownVersion,
		schema.CodeMissingField, schema.CodeUnknownField, schema.CodeWrongType, schema.CodeBadValue, schema.CodeBadID,
	} {
		if codes[string(c)] == 0 {
			t.Errorf("no example was refused as %s", c)
		}
	}
	if a := request(t, nc, "intake.agent.piper", gate(t)); a.Error != nil {
		t.Errorf("after all of it: %+v", a.Error)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	e.mustBeConsistent(-1)
}

func mustExample(t testing.TB, typ string) []byte {
	t.Helper()
	raw, ok := schema.Example(typ)
	if !ok {
		t.Fatalf("no example of %s", typ)
	}
	return raw
}
