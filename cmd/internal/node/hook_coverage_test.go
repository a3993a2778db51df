package node

import (
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/events/hook"
)

const claudeTranscript = `{"type":"summary","summary":"x","message":"not read"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":"Why?"},"timestamp":"2026-12-01T10:00:00.000Z"}
{"type":"assistant","sessionId":"s1","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_2","name":"Read","input":{"file_path":"/a"}}]},"timestamp":"2026-12-01T10:00:01.000Z"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","content":"no","is_error":true}]},"timestamp":"2026-12-01T10:00:03.000Z"}
{"type":"user","sessionId":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a.txt"}]},"timestamp":"2026-12-01T10:00:02.000Z"}

{"type":"assistant","sessionId":"s1","message":{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"toolu_3","name":"Bash","input":{}},{"type":"tool_use","name":"Unnamed","input":{}}]}}
{"type":"user","sessionId":"s1","mess`

const codexTranscript = `{"timestamp":"2026-12-01T10:00:00.000Z","type":"session_meta","payload":{"id":"t1","cwd":"/p"}}
{"timestamp":"2026-12-01T10:00:00.100Z","type":"event_msg","payload":{"type":"user_message","message":"x"}}
{"timestamp":"2026-12-01T10:00:01.000Z","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"call_1"}}
{"timestamp":"2026-12-01T10:00:02.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"call_1","output":"ok"}}
{"timestamp":"2026-12-01T10:00:03.000Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"x","call_id":"call_2"}}
{"timestamp":"2026-12-01T10:00:04.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[]}}
`

func TestTranscriptCalls(t *testing.T) {
	for client, tc := range map[hook.Client]struct{ text, want string }{
		hook.ClaudeCode: {claudeTranscript, "s1 toolu_2 Read true; s1 toolu_1 Bash true; s1 toolu_3 Bash false"},
		hook.Codex:      {codexTranscript, "t1 call_1 exec_command true; t1 call_2 apply_patch false"},
	} {
		calls, err := TranscriptCalls(client, strings.NewReader(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range calls {
			ended := "false"
			if c.Ended {
				ended = "true"
			}
			got = append(got, strings.Join([]string{c.EpisodeID, c.ToolCallID, c.Tool, ended}, " "))
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf("%s: %s", client, s)
		}
	}
	if calls, err := TranscriptCalls(hook.ClaudeCode, strings.NewReader("")); err != nil || len(calls) != 0 {
		t.Errorf("%v, %v", calls, err)
	}
	for _, text := range []string{"{\n{}\n", `{"type":"assistant","message":{"content":{}}}` + "\n", `{"type":"user","message":7}` + "\n", `{"type":"us` + "\n"} {
		if calls, err := TranscriptCalls(hook.ClaudeCode, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1 ") {
			t.Errorf("%q: %v, %v", text, calls, err)
		}
	}
}

// TestATranscriptAndAHookNameOneCall: what an import tells of a call is joined to what
// a hook recorded of it, also where the client's ids are none of the ledger's.
func TestATranscriptAndAHookNameOneCall(t *testing.T) {
	for _, ids := range []struct{ session, call string }{{"s1", "toolu_1"}, {"s 1/" + strings.Repeat("é", 200), "call of\t1"}} {
		renamed := strings.NewReplacer(`"s1"`, quoted(ids.session), `"toolu_1"`, quoted(ids.call))
		calls, err := TranscriptCalls(hook.ClaudeCode, strings.NewReader(renamed.Replace(claudeTranscript)))
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(calls[1].Raw)
		if err != nil {
			t.Fatal(err)
		}
		report, err := hook.Read(hook.ClaudeCode, []byte(renamed.Replace(`{"session_id":"s1","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{ "command":"l\u0073" },"tool_response":"a.txt","tool_use_id":"toolu_1"}`)))
		if err != nil {
			t.Fatal(err)
		}
		hooked, err := report.Event(events.Maker{}, "agent/piper", time.Time{}, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		a, b := e.Data.(*events.ToolCalled), hooked.Data.(*events.ToolCalled)
		if e.EpisodeID != hooked.EpisodeID || a.ToolCallID != b.ToolCallID || *a.ArgsHash != *b.ArgsHash || *a.Capture != "imported" || *a.EndedAt != "2026-12-01T10:00:02Z" || a.Status != "ok" {
			t.Errorf("%s: %+v\n%+v", e.EpisodeID, a, b)
		}
		if !strings.Contains(string(calls[0].Raw), `"status":"failed"`) {
			t.Error("a failure is none")
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, "\t", `\t`) + `"` }
