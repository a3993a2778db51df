package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/events/hook"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// house is a directory and a clock that goes on a second a look.
func house(t *testing.T) Config {
	now := noon
	return Config{Client: hook.ClaudeCode, Dir: t.TempDir(), As: "agent/piper", Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}
}

func payload(point, id, args string) []byte {
	if id != "" {
		id = `,"tool_use_id":"` + id + `"`
	}
	return []byte(`{"session_id":"s","hook_event_name":"` + point + `","tool_name":"Bash","tool_input":{"command":"` + args + `"}` + id + `,"tool_response":"x"}`)
}

func mustRecord(t *testing.T, c Config, payloads ...[]byte) {
	t.Helper()
	for _, p := range payloads {
		if err := c.Record(p); err != nil {
			t.Fatalf("%v: %s", err, p)
		}
	}
}

// left are the calls in the drop, in their order.
func left(t *testing.T, c Config) (out []*events.ToolCalled) {
	t.Helper()
	items, err := DropOf(c.Dir, c.As).Waiting(1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		e, err := events.Decode(i.Event)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Data.(*events.ToolCalled))
	}
	return out
}

// spans shows when calls began and ended, in seconds after noon.
func spans(calls []*events.ToolCalled) string {
	var out []string
	for _, d := range calls {
		at := func(s *string) string {
			if s == nil {
				return "?"
			}
			when, _ := events.Time(s)
			return strings.TrimSuffix(when.Sub(noon).String(), "s")
		}
		out = append(out, at(d.StartedAt)+"-"+at(d.EndedAt))
	}
	return strings.Join(out, " ")
}

// TestCallsAreJoinedWithTheirBeginning: by their id where the client gives one, else
// the first that began is the first to end.
func TestCallsAreJoinedWithTheirBeginning(t *testing.T) {
	for name, tc := range map[string]struct {
		payloads [][]byte
		want     string
	}{
		"one":         {[][]byte{payload("PreToolUse", "t1", "a"), payload("PostToolUse", "t1", "a")}, "1-2"},
		"interleaved": {[][]byte{payload("PreToolUse", "t1", "a"), payload("PreToolUse", "t2", "a"), payload("PostToolUseFailure", "t2", "a"), payload("PostToolUse", "t1", "a")}, "2-3 1-4"},
		"intention":   {[][]byte{payload("PreToolUse", "t1", "a")}, ""},
		"no begin":    {[][]byte{payload("PostToolUse", "t1", "a")}, "?-1"},
		"asked again": {[][]byte{payload("PreToolUse", "t1", "a"), payload("PreToolUse", "t1", "a"), payload("PostToolUse", "t1", "a")}, "2-3"},
		"twice ended": {[][]byte{payload("PreToolUse", "t1", "a"), payload("PostToolUse", "t1", "a"), payload("PostToolUse", "t1", "a")}, "1-2 ?-3"},
		"without ids": {[][]byte{payload("PreToolUse", "", "a"), payload("PreToolUse", "", "b"), payload("PreToolUse", "", "a"), payload("PostToolUse", "", "a"), payload("PostToolUse", "", "a"), payload("PostToolUse", "", "b")}, "1-4 3-5 2-6"},
		"other point": {[][]byte{[]byte(`{"hook_event_name":"UserPromptSubmit","prompt":"Why?"}`)}, ""},
	} {
		c := house(t)
		mustRecord(t, c, tc.payloads...)
		calls := left(t, c)
		if got := spans(calls); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		ids := map[string]bool{}
		for _, d := range calls {
			ids[d.ToolCallID] = true
		}
		if name == "without ids" && len(ids) != 3 {
			t.Errorf("three calls have the ids %v", ids)
		}
	}
}

// TestMainEndsWell: whatever it is given, it returns, and says in the drop what it did
// not record.
func TestMainEndsWell(t *testing.T) {
	c := house(t)
	to := DropOf(c.Dir, c.As)
	main := func(stdin io.Reader, args ...string) string {
		t.Helper()
		var stderr bytes.Buffer
		Main(args, stdin, &stderr)
		return stderr.String()
	}
	ok := []string{"claude-code", "--dir", c.Dir, "--as", c.As}
	if out := main(bytes.NewReader(payload("PostToolUse", "t", "a")), ok...); out != "" || len(left(t, c)) != 1 {
		t.Errorf("%q, %d events", out, len(left(t, c)))
	}
	if out := main(strings.NewReader("not read"), append(ok, string(payload("PostToolUse", "u", "a")))...); out != "" || len(left(t, c)) != 2 {
		t.Errorf("%q, %d events", out, len(left(t, c)))
	}
	for i, tc := range []struct {
		stdin io.Reader
		args  []string
		want  string
	}{
		{strings.NewReader("{"), ok, "not a hook's payload"},
		{strings.NewReader(""), ok, "not a hook's payload"},
		{failing{}, ok, "read the payload: no luck"},
		{panicking{}, ok, "broken"},
		{strings.NewReader("{}"), append([]string{"emacs"}, ok[1:]...), `no client "emacs"`},
		{strings.NewReader("{}"), append(ok, "--bogus"), "bogus"},
	} {
		out := main(tc.stdin, tc.args...)
		n, last := to.Complaints()
		if !strings.Contains(out, tc.want) || n != i+1 || !strings.Contains(last, tc.want) {
			t.Errorf("%v: %q; %d complaints, the last %q, want %q", tc.args, out, n, last, tc.want)
		}
	}
	// Where no complaint can stand either; least of all where the agent works.
	work := t.TempDir()
	t.Chdir(work)
	defer func() {
		if entries, err := os.ReadDir(work); err != nil || len(entries) != 0 {
			t.Errorf("in the agent's directory: %v, %v", entries, err)
		}
	}()
	if out := main(strings.NewReader("{}"), "claude-code", "--dir", c.Dir, "--as", "operator/main"); !strings.Contains(out, "hooks write as an agent") {
		t.Error(out)
	}
	none := filepath.Join(c.Dir, "none")
	if out := main(bytes.NewReader(payload("PostToolUse", "t", "a")), "codex", "--dir", none); !strings.Contains(out, "no such file") {
		t.Error(out)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
	t.Setenv("ASSAY_DIR", none)
	if out := main(strings.NewReader("{}"), "--help"); !strings.Contains(out, "no client") {
		t.Error(out)
	}
	if out := main(nil, "codex", "--help"); !strings.Contains(out, "usage: assay hook") {
		t.Error(out)
	}
	t.Setenv("ASSAY_DIR", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	if out := main(bytes.NewReader(payload("PostToolUse", "t", "a")), "codex"); !strings.Contains(out, "no home directory") {
		t.Error(out)
	}
	if n, _ := to.Complaints(); len(left(t, c)) != 2 || n != 6 {
		t.Errorf("%d events, %d complaints", len(left(t, c)), n)
	}
}

// TestStdinNeedNotEnd: a client may keep it open once it sent the payload.
func TestStdinNeedNotEnd(t *testing.T) {
	c := house(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(payload("PostToolUse", "t", "a")); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	Main([]string{"claude-code", "--dir", c.Dir}, r, &stderr)
	if stderr.Len() > 0 || len(left(t, c)) != 1 {
		t.Errorf("%s, %d events", &stderr, len(left(t, c)))
	}
}

// TestNothingKeepsAnAgent: not a payload that never comes, and not a disk that stands
// still.
func TestNothingKeepsAnAgent(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	err := within(time.Millisecond, func() error { <-never; return nil })
	if err == nil || !strings.Contains(err.Error(), "gave up") {
		t.Error(err)
	}
	if err := within(time.Hour, func() error { return errors.New("no luck") }); err == nil || err.Error() != "no luck" {
		t.Error(err)
	}
}

// TestTheClockMayGoBack: then a beginning behind the end is not known.
func TestTheClockMayGoBack(t *testing.T) {
	c := house(t)
	now := noon.Add(time.Hour)
	c.Now = func() time.Time { now = now.Add(-time.Minute); return now }
	mustRecord(t, c, payload("PreToolUse", "t", "a"), payload("PostToolUse", "t", "a"))
	if got := spans(left(t, c)); got != "?-58m0" {
		t.Error(got)
	}
}

// TestAnEventWithoutItsBeginning is better than none.
func TestAnEventWithoutItsBeginning(t *testing.T) {
	c := house(t)
	mustRecord(t, c, payload("PreToolUse", "t", "a"))
	rooms := filepath.Join(string(DropOf(c.Dir, c.As)), "begun")
	for _, tc := range []struct{ name, id string }{{"with an id", "t"}, {"without an id", ""}} {
		if err := os.RemoveAll(rooms); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(rooms, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := c.Record(payload("PostToolUse", tc.id, "a"))
		if err == nil || !strings.Contains(err.Error(), "when the call began is not known") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if got := spans(left(t, c)); got != "?-2 ?-3" {
		t.Error(got)
	}
	if err := os.Remove(rooms); err != nil { // nobody has begun anything
		t.Fatal(err)
	}
	mustRecord(t, c, payload("PostToolUse", "", "a"))
	if got := spans(left(t, c)); got != "?-2 ?-3 ?-4" {
		t.Error(got)
	}
}

// TestOldBeginningsAreForgotten, by the hooks themselves.
func TestOldBeginningsAreForgotten(t *testing.T) {
	c := house(t)
	mustRecord(t, c, payload("PreToolUse", "old", "a"))
	later := c.Now().Add(begunKept)
	c.Now = func() time.Time { return later }
	const calls = 2000 // of which one in 256 looks
	for i := range calls {
		mustRecord(t, c, payload("PreToolUse", fmt.Sprint(i), "a"))
	}
	entries, err := os.ReadDir(filepath.Join(string(DropOf(c.Dir, c.As)), "begun"))
	if err != nil || len(entries) != calls {
		t.Errorf("%d calls are under way, want %d; %v", len(entries), calls, err)
	}
}

func TestIsAgent(t *testing.T) {
	for id, want := range map[string]bool{
		"agent/piper": true, "agent/a-b_9": true, "agent/" + strings.Repeat("a", 32): true,
		"": false, "agent/": false, "agent/9": false, "agent/A": false, "agent/a/b": false, "agent/..": false, "agent/a.b": false, "agent/a\x00": false,
		"operator/main": false, "piper": false, "agent/" + strings.Repeat("a", 33): false,
	} {
		if IsAgent(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no luck") }

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("broken") }
