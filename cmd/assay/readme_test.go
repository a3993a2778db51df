package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/schema"
)

// TestReadmeTour runs the README's tour as a newcomer would, in an empty folder.
func TestReadmeTour(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, ok := strings.Cut(string(readme), "## A tour\n\n```sh\n")
	if !ok {
		t.Fatal("the README has no tour")
	}
	tour, _, _ = strings.Cut(tour, "```")
	_, sceptic, ok := strings.Cut(string(readme), "disk\n\n```sh\n./assay verify --pin")
	sceptic, _, _ = strings.Cut(sceptic, "```")
	if !ok || !strings.Contains(tour, "kill %1\n") {
		t.Fatal("the README has nothing for a sceptic, or a tour without an end")
	}
	tour = strings.Replace(tour, "kill %1\n", "./assay verify --pin"+sceptic+"kill %1\n", 1)
	dir := t.TempDir()
	const build = "go build -o . ./cmd/assay ./cmd/assay-hook"
	if !strings.Contains(tour, build) {
		t.Fatalf("the tour does not build with %q", build)
	}
	tour = strings.Replace(tour, build, "go build -C "+root+" -o "+dir+" ./cmd/assay ./cmd/assay-hook", 1)
	// A step that fails must not leave `assay up` behind, which has our end of the pipe.
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"+tour+"\nwait\n")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gate.chosen", "claim.recorded", ": consistent", "the same as the live views", "routing rate", "remembered  size", "inclusion: consistent", "out: consistent"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour does not show %q", want)
		}
	}
}

// TestRecordYourAgent runs the first commands of docs/hooks.md as somebody who has
// nothing yet, and then, as the client does, the line that they put into its file.
func TestRecordYourAgent(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/hooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if readme, err := os.ReadFile(filepath.Join(root, "README.md")); err != nil || !strings.Contains(string(readme), "\n"+block+"```") {
		t.Errorf("the README has other commands, %v", err)
	}
	const build = "go build -o bin/ ./cmd/assay ./cmd/assay-hook"
	if !strings.HasPrefix(block, build+" ") || strings.Count(block, "\n") != 4 {
		t.Fatalf("the page does not build and need three commands:\n%s", block)
	}
	dir := t.TempDir()
	script := strings.Replace(block, build, "go build -C "+root+" -o "+dir+"/bin/ ./cmd/assay ./cmd/assay-hook", 1) + `
until [ -S "$HOME/.local/state/assay/run/assay.sock" ]; do kill -0 %1; sleep 0.1; done
sed -n '/PostToolUse"/,/]/s/.*"command": "\([^"]*\)".*/\1/p' "$HOME/.claude/settings.json" > hook.sh
sh hook.sh < payload.json
until assay list tool_calls > calls; grep -q toolu_first calls; do kill -0 %1; sleep 0.1; done
cat calls
kill %1
wait
`
	const payload = `{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"true"},"tool_response":{"stdout":""},"tool_use_id":"toolu_first"}`
	if err := os.WriteFile(filepath.Join(dir, "payload.json"), []byte(payload), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nunset ASSAY_DIR XDG_STATE_HOME CLAUDE_CONFIG_DIR\n"+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{dir + "/bin/assay-hook claude-code", `"tool":"Bash","status":"ok"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// goEnv is what the go command knows from the home that it has now.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestReadmePythonEvent runs the lines of the README's Python example that make
// the event and the message, and asks whether the ledger would take them. The
// lines around them need a NATS client for Python.
func TestReadmePythonEvent(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: the README's Python event is not tried")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "    event = {")
	event, _, ok2 := strings.Cut(rest, "    reply =")
	if !ok || !ok2 || !strings.Contains(rest, `json.dumps(event, separators=(",", ":")).encode()`) {
		t.Fatal("the README's Python example has another shape")
	}
	script := "import datetime, json, uuid\nevent = {" + event + "\nprint(json.dumps(event, separators=(\",\", \":\")))"
	raw, err := exec.Command(python, "-c", script).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	if _, fault := schema.Check(bytes.TrimSpace(raw)); fault != nil {
		t.Errorf("%v\n%s", fault, raw)
	}
}
