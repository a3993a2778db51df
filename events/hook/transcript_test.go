package hook

import (
	"strings"
	"testing"

	"assay/events"
	"assay/schema"
)

const claudeTranscript = `{"type":"summary","summary":"x","message":"not read"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":"Why?"},"timestamp":"2026-12-01T10:00:00.000Z"}
{"type":"assistant","sessionId":"s1","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_2","name":"Read","input":{"file_path":"/a"}}]},"timestamp":"2026-12-01T10:00:01.000Z"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","content":"no","is_error":true}]},"timestamp":"2026-12-01T10:00:03.000Z"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a.txt"}]},"timestamp":"2026-12-01T10:00:02.000Z"}

{"type":"assistant","sessionId":"s1","message":{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_3","name":"Bash","input":{}}]}}
{"type":"user","sessionId":"s1","mess`

const codexTranscript = `{"timestamp":"2026-12-01T10:00:00.000Z","type":"session_meta","payload":{"id":"t1","cwd":"/p"}}
{"timestamp":"2026-12-01T10:00:00.100Z","type":"event_msg","payload":{"type":"user_message","message":"x"}}
{"timestamp":"2026-12-01T10:00:01.000Z","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"call_1"}}
{"timestamp":"2026-12-01T10:00:02.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"call_1","output":"ok"}}
{"timestamp":"2026-12-01T10:00:03.000Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"x","call_id":"call_2"}}
{"timestamp":"2026-12-01T10:00:04.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[]}}
`

func TestTranscriptsListCalls(t *testing.T) {
	for client, tc := range map[Client]struct{ text, want string }{
		ClaudeCode: {claudeTranscript, "s1 toolu_1 Bash true; s1 toolu_2 Read true; s1 toolu_3 Bash false"},
		Codex:      {codexTranscript, "t1 call_1 exec_command true; t1 call_2 apply_patch false"},
	} {
		calls, err := Transcript(client, strings.NewReader(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range calls {
			ended := "false"
			if c.Ended {
				ended = "true"
			}
			got = append(got, strings.Join([]string{c.Session, c.ID, c.Tool, ended}, " "))
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf("%s: %s", client, s)
		}
	}
	if calls, err := Transcript(ClaudeCode, strings.NewReader("")); err != nil || len(calls) != 0 {
		t.Errorf("%v, %v", calls, err)
	}
	for _, text := range []string{"{\n{}\n", `{"type":"assistant","message":{"content":[{"id":7}]}}` + "\n", `{"type":"user","message":7}` + "\n"} {
		if calls, err := Transcript(ClaudeCode, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v, %v", text, calls, err)
		}
	}
}

// TestATranscriptAndAHookNameOneCall: the import of a call is joined to what a hook
// recorded of it, and is the same event every time.
func TestATranscriptAndAHookNameOneCall(t *testing.T) {
	calls, err := Transcript(ClaudeCode, strings.NewReader(claudeTranscript))
	if err != nil {
		t.Fatal(err)
	}
	encode := func(c Call) string {
		e, err := c.Event(ClaudeCode, "agent/piper")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, fault := schema.Check(raw); fault != nil {
			t.Fatal(fault)
		}
		return string(raw)
	}
	imported := encode(calls[0])
	if imported != encode(calls[0]) {
		t.Error("another event the second time")
	}
	hooked, _ := event(t, ClaudeCode, `{"session_id":"s1","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":"a.txt","tool_use_id":"toolu_1"}`, began)
	e, err := events.Decode([]byte(imported))
	if err != nil {
		t.Fatal(err)
	}
	a, b := e.Data.(*events.ToolCalled), hooked.Data.(*events.ToolCalled)
	if e.EpisodeID != hooked.EpisodeID || a.ToolCallID != b.ToolCallID || *a.ArgsHash != *b.ArgsHash || *a.Context.Capture != "imported" || *a.EndedAt != "2026-12-01T10:00:02Z" {
		t.Errorf("%+v\n%+v", a, b)
	}
	if !strings.Contains(encode(calls[1]), `"status":"failed"`) {
		t.Error("a failure is none")
	}
	if _, err := calls[2].Event(ClaudeCode, "agent/piper"); err == nil {
		t.Error("a call without a result became an event")
	}
}
