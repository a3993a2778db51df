package settings

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"assay/events/hook"
)

var command = Command([]string{"/opt/it's here/assay-hook"}, hook.ClaudeCode, "--dir", "/var/lib/assay", "--as", "agent/piper")

const theirs = `{
    "permissions": { "allow": ["Bash(npm test:*)"] },
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}
        ],
        "Stop": [{"hooks": [{"type": "command", "command": "assay hooked"}]}]
    },
	"env":{"A":"\u00e9"}
}
`

func TestCommandIsOneLineOfTheShells(t *testing.T) {
	if want := `'/opt/it'\''s here/assay-hook' claude-code --dir /var/lib/assay --as agent/piper`; command != want {
		t.Errorf("got %s, want %s", command, want)
	}
	for line, want := range map[string]bool{
		command:                                             true,
		"/usr/bin/assay hook codex --x":                     true,
		"'/a b/assay' hook claude-code":                     true,
		"assay-hook codex":                                  true,
		"assay hook install claude-code":                    false,
		"/opt/assay-2 hook codex --dir /d --as agent/piper": true,
		"/opt/other hook codex --dir /d":                    false,
		"/opt/other hook emacs --dir /d --as agent/piper":   false,
		"assay-hook":                                        false,
		"echo assay-hook codex":                             false,
		"/usr/bin/assay hooks codex":                        false,
		"":                                                  false,
		"my-assay-hook claude-code --dir":                   false,
	} {
		if isOurs(line) != want {
			t.Errorf("%q is ours: %v", line, !want)
		}
	}
}

// TestAddAndRemove: what Add put in Remove takes out, to the byte, and nothing else.
func TestAddAndRemove(t *testing.T) {
	for name, file := range map[string]string{
		"empty object":       "{}\n",
		"their hooks":        theirs,
		"one line":           `{"a":1,"b":[1,2,{}]}`,
		"tabs":               "{\n\t\"model\": \"x\"\n}",
		"hooks of one point": `{"hooks":{"PostToolUse":[{"matcher":"Edit","hooks":[]}]}}`,
		"carriage returns":   "{\r\n  \"a\": 1\r\n}\r\n",
	} {
		added, err := Add([]byte(file), hook.ClaudeCode, command)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := Add(added, hook.ClaudeCode, command); err != nil || string(again) != string(added) {
			t.Errorf("%s: a second time: %v\n%s", name, err, again)
		}
		checkRuns(t, name, added, hook.ClaudeCode, command)
		for _, line := range strings.Split(strings.TrimSuffix(file, "\n"), "\n") {
			if line = strings.TrimRight(line, "\r}] "); !strings.Contains(string(added), line) {
				t.Errorf("%s: %q is gone from\n%s", name, line, added)
			}
		}
		if removed, err := Remove(added); err != nil || string(removed) != file {
			t.Errorf("%s: %v\ngot  %q\nwant %q", name, err, removed, file)
		}
	}
	if added, err := Add(nil, hook.Codex, command); err != nil || len(added) == 0 {
		t.Error(err)
	} else {
		checkRuns(t, "no file", added, hook.Codex, command)
	}
}

// checkRuns reads the file as the client does.
func checkRuns(t *testing.T, name string, file []byte, c hook.Client, command string) {
	t.Helper()
	var read struct {
		Hooks map[string][]struct {
			Matcher *string `json:"matcher"`
			Hooks   []struct {
				Type    string `json:"type"`
				Command string `json:"command"`
				Timeout int    `json:"timeout"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(file, &read); err != nil {
		t.Errorf("%s: %v\n%s", name, err, file)
		return
	}
	for _, point := range Points(c) {
		n := 0
		for _, group := range read.Hooks[point] {
			for _, h := range group.Hooks {
				if h.Command == command && h.Type == "command" && h.Timeout > 0 && group.Matcher == nil {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %s runs it %d times\n%s", name, point, n, file)
		}
	}
}

// TestAnotherBuildIsReplaced, also where somebody put other hooks into its group.
func TestAnotherBuildIsReplaced(t *testing.T) {
	old := `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"x"},{"type":"command","command":"/old/assay hook claude-code"}]},{"hooks":[{"type":"command","command":"assay-hook claude-code"}]}],"Stop":[{"hooks":[{"type":"command","command":"assay-hook claude-code --as agent/a"}]}]}}`
	added, err := Add([]byte(old), hook.ClaudeCode, command)
	if err != nil {
		t.Fatal(err)
	}
	checkRuns(t, "replaced", added, hook.ClaudeCode, command)
	removed, err := Remove(added)
	if want := `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"x"}]}]}}`; err != nil || string(removed) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, removed, want)
	}
}

func TestUnknownFormsAreLeftAlone(t *testing.T) {
	for _, file := range []string{
		"[]", "{", "{} {}", `{"a":1,"a":2}`, "// comment\n{}", `{"hooks":[]}`, `{"hooks":{"PreToolUse":{}}}`, `{"hooks":{"PreToolUse":[7]}}`,
		`{"hooks":{"Stop":[{"hooks":{}}]}}`, "{\"a\":\"\xff\"}", `{"a":1,}`,
	} {
		if out, err := Add([]byte(file), hook.ClaudeCode, command); !errors.Is(err, ErrUnknownForm) {
			t.Errorf("add to %s: %v\n%s", file, err, out)
		}
		if out, err := Remove([]byte(file)); !errors.Is(err, ErrUnknownForm) {
			t.Errorf("remove from %s: %v\n%s", file, err, out)
		}
	}
}

// FuzzSettings: whatever JSON stands there, adding and removing leaves its values as
// they were.
func FuzzSettings(f *testing.F) {
	f.Add(theirs)
	f.Add(`{"hooks":{"PreToolUse":[]}}`)
	f.Fuzz(func(t *testing.T, file string) {
		added, err := Add([]byte(file), hook.ClaudeCode, command)
		if err != nil {
			return
		}
		if has, err := runs(added, hook.ClaudeCode, command); err != nil || !has {
			t.Fatalf("%v, %v\n%s", has, err, added)
		}
		again, err := Add(added, hook.ClaudeCode, command)
		if err != nil || string(again) != string(added) {
			t.Fatalf("%v\n%s\n%s", err, added, again)
		}
		removed, err := Remove(added)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := ours(removed); err != nil || len(found) > 0 {
			t.Fatalf("%v, %v", found, err)
		}
	})
}
