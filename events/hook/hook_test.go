package hook

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"

	"assay/events"
	"assay/schema"
)

var (
	began = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	ended = began.Add(1500 * time.Millisecond)
)

// Payloads as the clients send them.
const (
	claudePre = `{"session_id":"00893aaf-19fa-41d2-8238-13269b9b3ca0","transcript_path":"/home/u/.claude/projects/p/0089.jsonl","cwd":"/home/u/p","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"npm test","description":"Run test suite"},"tool_use_id":"toolu_01ABC123"}`

	claudePost = `{"session_id":"00893aaf-19fa-41d2-8238-13269b9b3ca0","transcript_path":"/home/u/.claude/projects/p/0089.jsonl","cwd":"/home/u/p","prompt_id":"prompt-1","permission_mode":"default","hook_event_name":"PostToolUse","tool_name":"Write","tool_input":{"file_path":"/home/u/p/a.txt","content":"file content"},"tool_response":{"filePath":"/home/u/p/a.txt","success":true},"tool_use_id":"toolu_01DEF456","duration_ms":12.5}`

	claudeFailure = `{"session_id":"abc123","transcript_path":"/t.jsonl","cwd":"/","permission_mode":"default","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"npm test"},"tool_use_id":"toolu_01ABC123","error":"Exit code 1\n1 failed: the secret is swordfish","is_interrupt":false}`

	claudeDenied = `{"session_id":"abc123","cwd":"/","permission_mode":"auto","hook_event_name":"PermissionDenied","tool_name":"Bash","tool_input":{"command":"rm -rf /tmp/build"},"tool_use_id":"toolu_01ABC123","reason":"a path outside of the project"}`

	codexPost = `{"session_id":"b5f6c1c2-1111-2222-3333-444455556666","turn_id":"7","transcript_path":null,"cwd":"/p","hook_event_name":"PostToolUse","model":"gpt-5","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":"a.txt\n","tool_use_id":"call_9"}`

	codexNotify = `{"type":"agent-turn-complete","thread-id":"b5f6c1c2-1111-2222-3333-444455556666","turn-id":"7","cwd":"/p","input-messages":["Rename it."],"last-assistant-message":"Done."}`
)

// event is what becomes of a payload, checked as the ledger does.
func event(t testing.TB, c Client, payload string, started time.Time) (*events.Event, string) {
	t.Helper()
	r, err := Read(c, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	m := events.Maker{Now: func() time.Time { return ended }, NewID: func() (uuid.UUID, error) { return events.DerivedID("test"), nil }}
	e, err := r.Event(m, "agent/piper", started, ended)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, fault := schema.Check(raw); fault != nil {
		t.Fatalf("%v\n%s", fault, raw)
	}
	return e, string(raw)
}

func TestCallsBecomeEvents(t *testing.T) {
	for _, tc := range []struct {
		name    string
		client  Client
		payload string
		started time.Time
		want    string // of the event, from its episode on
	}{
		{"a call with its beginning", ClaudeCode, claudePost, began,
			`"episodeid":"00893aaf-19fa-41d2-8238-13269b9b3ca0","correlationid":"prompt-1","data":{"context":{"author":"agent/piper","component":"claude-code","capture":"hook","tool_call_id":"toolu_01DEF456"},"tool_call_id":"toolu_01DEF456","tool":"Write","target":"/home/u/p/a.txt","status":"ok","started_at":"2026-12-01T10:00:00Z","ended_at":"2026-12-01T10:00:01.5Z","args_hash":"3e915fd5fbb463280083ef376afe3600c6c4a78076003a6f1be553e98102fcfa","result_hash":"b2eae015f6cbef11354ab8538b865625dfb97a3f4c1feebdd7d586fd4d91198e","latency_ms":12.5}}`},
		{"a failure without its beginning", ClaudeCode, claudeFailure, time.Time{},
			`"episodeid":"abc123","data":{"context":{"author":"agent/piper","component":"claude-code","capture":"hook","tool_call_id":"toolu_01ABC123"},"tool_call_id":"toolu_01ABC123","tool":"Bash","status":"failed","ended_at":"2026-12-01T10:00:01.5Z","args_hash":"9178ac939ad908d8fd89e97596cdc0e5e28dee903ccb18dc79d0fb98698cbd14","result_hash":"59fca6a7aa174959c21e724b5839d2716008b8d67aabb70b86e13b24e178514c","error":"exit code 1"}}`},
		{"a denial", ClaudeCode, claudeDenied, began,
			`"episodeid":"abc123","data":{"context":{"author":"agent/piper","component":"claude-code","capture":"hook","tool_call_id":"toolu_01ABC123"},"tool_call_id":"toolu_01ABC123","tool":"Bash","status":"denied","started_at":"2026-12-01T10:00:00Z","ended_at":"2026-12-01T10:00:01.5Z","args_hash":"bc1c91338c4b97b705ff5d7d592f1328f1d36748e66febf0f42c5585adadec4a"}}`},
		{"Codex", Codex, codexPost, began,
			`"episodeid":"b5f6c1c2-1111-2222-3333-444455556666","correlationid":"7","data":{"context":{"author":"agent/piper","component":"codex","capture":"hook","tool_call_id":"call_9"},"tool_call_id":"call_9","tool":"Bash","status":"ok","started_at":"2026-12-01T10:00:00Z","ended_at":"2026-12-01T10:00:01.5Z","args_hash":"4cf29611a66934862f29acfcc817e30b905c1ab73d5e65831413eb6b454d49db","result_hash":"de49f14e3d3d0d64cdd7b6292b5f811dad8022723a597ce5e7e301c5fc97fe6b"}}`},
	} {
		_, raw := event(t, tc.client, tc.payload, tc.started)
		if got := raw[strings.Index(raw, `"episodeid"`):]; got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestStatusIsWhatTheClientSays(t *testing.T) {
	for response, want := range map[string]string{
		`"text"`:                              "ok ",
		`null`:                                "ok ",
		`{"is_error":true}`:                   "failed the client reports a failure",
		`{"success":false}`:                   "failed the client reports a failure",
		`{"success":true}`:                    "ok ",
		`{"exit_code":0}`:                     "ok ",
		`{"exit_code":2}`:                     "failed exit code 2",
		`{"metadata":{"exit_code":137}}`:      "failed exit code 137",
		`{"is_error":"yes"}`:                  "ok ", // a tool's own word for something else
		`{"stdout":"","interrupted":false}`:   "ok ",
		`[{"type":"text","text":"is_error"}]`: "ok ",
	} {
		payload := strings.Replace(codexPost, `"a.txt\n"`, response, 1)
		e, _ := event(t, Codex, payload, began)
		d := e.Data.(*events.ToolCalled)
		got := d.Status + " "
		if d.Error != nil {
			got += *d.Error
		}
		if got != want {
			t.Errorf("%s: %q, want %q", response, got, want)
		}
	}
	for text, want := range map[string]string{
		`"Exit code 1"`: "exit code 1", `"Command exited with non-zero status code 127\nmore"`: "exit code 127",
		`"no such file: /etc/secret code 5 x"`: "the client reports a failure", `{"code":1}`: "the client reports a failure",
	} {
		e, _ := event(t, ClaudeCode, strings.Replace(claudeFailure, `"Exit code 1\n1 failed: the secret is swordfish"`, text, 1), began)
		if got := *e.Data.(*events.ToolCalled).Error; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	e, _ := event(t, ClaudeCode, strings.Replace(claudeFailure, `"is_interrupt":false`, `"is_interrupt":true`, 1), began)
	if got := *e.Data.(*events.ToolCalled).Error; got != "interrupted by the user" {
		t.Error(got)
	}
}

// TestNothingOfTheContentIsKept: what stands between the marks is nowhere in an event.
func TestNothingOfTheContentIsKept(t *testing.T) {
	const secret = "swordfish"
	for _, payload := range []string{
		`{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"swordfish","url":"swordfish","pattern":"swordfish","prompt":"swordfish"},"tool_response":{"stdout":"swordfish"},"tool_use_id":"t","cwd":"/swordfish","transcript_path":"/swordfish"}`,
		strings.ReplaceAll(claudeFailure, "npm test", secret),
		strings.ReplaceAll(claudeDenied, "a path outside of the project", secret),
	} {
		if _, raw := event(t, ClaudeCode, payload, began); strings.Contains(raw, secret) {
			t.Error(raw)
		}
	}
}

// TestHashesAreOfTheCanonicalForm: order, white space and number forms do not matter.
func TestHashesAreOfTheCanonicalForm(t *testing.T) {
	hash := func(input string) string {
		e, _ := event(t, Codex, strings.Replace(codexPost, `{"command":"ls"}`, input, 1), began)
		return *e.Data.(*events.ToolCalled).ArgsHash
	}
	// SHA-256 of {"a":1,"b":"é"}, worked out apart.
	const want = "09ad9fd2fb648cb2"
	a, b := hash(`{"b": "\u00e9", "a": 1.0}`), hash(`{"a":1,"b":"é"}`)
	if a != b || !strings.HasPrefix(a, want) {
		t.Errorf("%s, %s", a, b)
	}
	if hash(`{"a":2,"b":"é"}`) == a {
		t.Error("other arguments have the same hash")
	}
	// Half a surrogate pair, which JavaScript writes as it is, and a name twice.
	hash(`{"text":"\ud83d","a":1,"a":2}`)
}

func TestReportsOfOneCallAreJoined(t *testing.T) {
	read := func(c Client, payload string) *Report {
		r, err := Read(c, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	pre := read(ClaudeCode, claudePre)
	post := read(ClaudeCode, strings.NewReplacer("PreToolUse", "PostToolUse", `"npm test"`, `"npm test -- -v"`).Replace(claudePre))
	if pre.Phase != Before || post.Phase != After || !pre.Exact() || pre.Key() != post.Key() {
		t.Errorf("by id: %+v, %+v", pre, post)
	}
	for name, other := range map[string]*Report{
		"of another id":      read(ClaudeCode, strings.Replace(claudePre, "toolu_01ABC123", "toolu_2", 1)),
		"of another session": read(ClaudeCode, strings.Replace(claudePre, "00893aaf", "00893aa0", 1)),
		"of another client":  read(Codex, claudePre),
	} {
		if other.Key() == pre.Key() {
			t.Errorf("a call %s has the same key", name)
		}
	}

	bare := strings.Replace(claudePre, `,"tool_use_id":"toolu_01ABC123"`, ``, 1)
	pre, post = read(ClaudeCode, bare), read(ClaudeCode, strings.Replace(bare, "PreToolUse", "PostToolUse", 1))
	if pre.Exact() || pre.Key() != post.Key() {
		t.Errorf("without an id: %+v, %+v", pre, post)
	}
	if other := read(ClaudeCode, strings.Replace(bare, "npm test", "npm run", 1)); other.Key() == pre.Key() {
		t.Error("other arguments have the same key")
	}
	e, _ := event(t, ClaudeCode, strings.Replace(bare, "PreToolUse", "PostToolUse", 1), began)
	d := e.Data.(*events.ToolCalled)
	if !strings.HasPrefix(d.ToolCallID, "anchor:") || d.Stage == nil || *d.Stage != AnchorJoin || d.Context.ToolCallID != nil {
		t.Errorf("a join without an id is not labelled: %+v", d)
	}
}

func TestWhatIsNoCallIsNotRecorded(t *testing.T) {
	for _, payload := range []string{
		`{"hook_event_name":"SessionStart","session_id":"s","source":"startup"}`,
		`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"Why?"}`,
		`{"hook_event_name":"Stop","session_id":"s","stop_hook_active":false,"last_assistant_message":"Done."}`,
		`{"hook_event_name":"SubagentStop","session_id":"s"}`,
		`{"hook_event_name":"PreCompact","session_id":"s","trigger":"auto"}`,
		`{"hook_event_name":"SessionEnd","session_id":"s","reason":"clear"}`,
		`{"hook_event_name":"FromTheFuture","more":{}}`,
		codexNotify,
	} {
		r, err := Read(ClaudeCode, []byte(payload))
		if err != nil || r.Phase != Other {
			t.Errorf("%s: %+v, %v", payload, r, err)
			continue
		}
		if _, err := r.Event(events.Maker{}, "agent/piper", began, ended); err == nil {
			t.Errorf("%s became an event", payload)
		}
	}
	pre, err := Read(ClaudeCode, []byte(claudePre))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pre.Event(events.Maker{}, "agent/piper", began, ended); err == nil {
		t.Error("an intention became a call")
	}
	for _, payload := range []string{"", "null", "[]", `{}`, `{"hook_event_name":"PostToolUse"}`, claudePost[:200], claudePost + "x", `{"hook_event_name":["PreToolUse"]}`} {
		if r, err := Read(ClaudeCode, []byte(payload)); !errors.Is(err, ErrPayload) {
			t.Errorf("%q: %+v, %v", payload, r, err)
		}
	}
}

// TestOddNamesFit: whatever a client calls things, the ledger takes the event.
func TestOddNamesFit(t *testing.T) {
	long := strings.Repeat("ä", 300)
	e, _ := event(t, ClaudeCode, strings.NewReplacer("00893aaf-19fa-41d2-8238-13269b9b3ca0", long, "toolu_01DEF456", "tool call 7", "Write", long, "/home/u/p/a.txt", long, "prompt-1", " ").Replace(claudePost), began)
	d := e.Data.(*events.ToolCalled)
	if !strings.HasPrefix(e.EpisodeID, "sha256:") || !strings.HasPrefix(d.ToolCallID, "sha256:") || !strings.HasPrefix(e.CorrelationID, "sha256:") || d.Target != nil || len([]rune(d.Tool)) != 256 {
		t.Errorf("%+v %+v", e, d)
	}
}

// TestNextNeedsNoEnd of the stream, and takes no more than it may.
func TestNextNeedsNoEnd(t *testing.T) {
	open := func(text string) io.Reader {
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("not asked")))
	}
	for _, text := range []string{claudePost, " " + codexNotify} {
		if raw, err := Next(open(text), 1000); err != nil || string(raw) != strings.TrimSpace(text) {
			t.Errorf("%s, %v", raw, err)
		}
	}
	for name, tc := range map[string]struct {
		in   io.Reader
		most int64
		want string
	}{
		"nothing":   {strings.NewReader(""), 10, "EOF"},
		"cut off":   {strings.NewReader(`{"a":`), 10, "EOF"},
		"no JSON":   {strings.NewReader(`{a}`), 10, "invalid character"},
		"too large": {open(claudePost), int64(len(claudePost)) - 1, "more than"},
	} {
		if raw, err := Next(tc.in, tc.most); !errors.Is(err, ErrPayload) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	if raw, err := Next(open(claudePost), int64(len(claudePost))); err != nil || string(raw) != claudePost {
		t.Errorf("just as large as it may be: %s, %v", raw, err)
	}
	if _, err := Next(open(`{"a":`), 10); err == nil || errors.Is(err, ErrPayload) {
		t.Errorf("a stream that cannot be read: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, payload := range []string{claudePre, claudePost, claudeFailure, claudeDenied, codexPost, codexNotify} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Read(ClaudeCode, raw)
		if err != nil || r.Phase != After {
			return
		}
		again, err := Read(ClaudeCode, bytes.Clone(raw))
		if err != nil || again.Key() != r.Key() {
			t.Fatalf("%v, %v", again, err)
		}
		event(t, ClaudeCode, string(raw), began)
	})
}
