package importer

import (
	"bytes"
	"io"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// Codex keeps a session as a rollout of JSON lines, each with a time, a type and a
// payload.
type codexLine struct {
	Timestamp str            `json:"timestamp"`
	Type      str            `json:"type"`
	Payload   jsontext.Value `json:"payload"`
}

// codexPayload has the members of every payload that is read.
type codexPayload struct {
	Type     str            `json:"type"`
	ID       str            `json:"id"`
	Version  str            `json:"cli_version"`
	Provider str            `json:"model_provider"`
	Model    str            `json:"model"`
	Turn     str            `json:"turn_id"`
	CallID   str            `json:"call_id"`
	Name     str            `json:"name"`
	Args     jsontext.Value `json:"arguments"`
	Input    jsontext.Value `json:"input"`
	Action   jsontext.Value `json:"action"`
	Output   jsontext.Value `json:"output"`
	Status   str            `json:"status"`
	ExitCode num            `json:"exit_code"`
	Duration codexDuration  `json:"duration"`
	Message  jsontext.Value `json:"message"`
	Info     jsontext.Value `json:"info"`
}

// codexDuration is an object, or text that is not read.
type codexDuration struct{ ms *float64 }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (d *codexDuration) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	parts, _ := part[struct {
		Secs  num `json:"secs"`
		Nanos num `json:"nanos"`
	}](raw)
	if parts.Secs.v != nil && parts.Nanos.v != nil {
		d.ms = ptr(*parts.Secs.v*1e3 + *parts.Nanos.v/1e6)
	}
	return nil
}

type codexInfo struct {
	Total jsontext.Value `json:"total_token_usage"`
	Last  *struct {
		Input  num `json:"input_tokens"` // with what was read from the cache
		Cached num `json:"cached_input_tokens"`
		Output num `json:"output_tokens"` // with what was spent on reasoning
	} `json:"last_token_usage"`
}

type codex struct {
	m     *maker
	calls *calls
	// of the session so far
	session, version, provider, model, turn string
	episode                                 string // what the session is called in the ledger
	total                                   []byte // the last total_token_usage
}

func readCodex(m *maker, in io.Reader) error {
	c := &codex{m: m, calls: newCalls(m)}
	if err := eachLine(m, in, func(l *codexLine) error { return c.line(l) }); err != nil {
		return err
	}
	return c.calls.flush()
}

func (c *codex) line(l *codexLine) error {
	p, ok := part[codexPayload](l.Payload)
	if !ok {
		c.m.bad(badShape, "a line without a payload")
		return nil
	}
	at := c.m.timestamp(string(l.Timestamp))
	switch l.Type {
	case "session_meta":
		return c.meta(&p, at)
	case "turn_context":
		c.model, c.turn = string(p.Model), string(p.Turn)
		return nil
	case "response_item":
		return c.item(&p, at)
	case "event_msg":
		return c.event(&p, at)
	}
	c.m.left("line " + string(l.Type))
	return nil
}

// meta names the session. Further ones are those of sessions that this one was
// forked from.
func (c *codex) meta(p *codexPayload, at *string) error {
	if c.session != "" {
		c.m.left("line session_meta of a parent")
		return nil
	}
	if p.ID == "" {
		c.m.mended(mendedMissingID)
		return nil
	}
	c.session, c.version, c.provider = string(p.ID), string(p.Version), string(p.Provider)
	c.episode = events.Identifier(c.session)
	return c.m.put(draft{data: c.report(), time: at, episode: c.episode})
}

func (c *codex) report() *events.EpisodeRecorded {
	return &events.EpisodeRecorded{SessionID: c.m.known(c.session), Client: ptr("codex"), ClientVersion: c.m.name(c.version)}
}

func (c *codex) item(p *codexPayload, at *string) error {
	switch p.Type {
	case "function_call":
		return c.begin(p, string(p.Name), p.Args, at)
	case "custom_tool_call":
		return c.begin(p, string(p.Name), p.Input, at)
	case "function_call_output", "custom_tool_call_output":
		t := c.calls.find(c.episode, string(p.CallID))
		if t == nil {
			return nil
		}
		t.data.EndedAt, t.data.ResultHash = at, contentHash(p.Output)
		if t.data.Status == statusUnknown { // the end of the command did not tell
			t.data.Status = codexStatus(p.Output)
		}
		return c.calls.end(t)
	case "local_shell_call", "web_search_call": // call and end in one
		if p.CallID == "" {
			p.CallID = p.ID
		}
		t := c.call(p, string(p.Type[:len(p.Type)-len("_call")]), p.Action, at)
		if err := c.calls.begin(t); err != nil {
			return err
		}
		t, open := c.calls.open.get(callKey(t.episode, t.data.ToolCallID))
		if !open || p.Status != "completed" && p.Status != "failed" {
			return nil // it was told before, or an output may follow
		}
		t.data.Status = ended(p.Status == "completed")
		return c.calls.end(t)
	}
	c.m.left("item " + string(p.Type))
	return nil
}

func (c *codex) begin(p *codexPayload, tool string, args jsontext.Value, at *string) error {
	return c.calls.begin(c.call(p, tool, args, at))
}

func (c *codex) call(p *codexPayload, tool string, args jsontext.Value, at *string) *call {
	return &call{draft{time: at, episode: c.episode}, &events.ToolCalled{
		ToolCallID: string(p.CallID), Tool: tool, Status: statusUnknown, StartedAt: at, ArgsHash: contentHash(args),
	}}
}

var codexExit = regexp.MustCompile(`(?m)^(?:Exit code:|Process exited with code) (-?[0-9]{1,10})\s*$`)

// codexStatus is what an output says of its call: an exit code, or that it succeeded.
// Most outputs say nothing.
func codexStatus(output jsontext.Value) string {
	type said struct {
		Success  flag `json:"success"`
		Metadata struct {
			ExitCode num `json:"exit_code"`
		} `json:"metadata"`
	}
	text := contentText(output)
	s, ok := part[said](output)
	if !ok && text != "" && text[0] == '{' {
		s, _ = part[said](jsontext.Value(text))
	}
	switch {
	case s.Metadata.ExitCode.v != nil:
		return ended(*s.Metadata.ExitCode.v == 0)
	case s.Success.v != nil:
		return ended(*s.Success.v)
	}
	if found := codexExit.FindStringSubmatch(text[:min(len(text), 500)]); found != nil {
		return ended(found[1] == "0")
	}
	return statusUnknown
}

func ended(well bool) string {
	if well {
		return statusOK
	}
	return statusFailed
}

func (c *codex) event(p *codexPayload, at *string) error {
	switch p.Type {
	case "token_count":
		return c.spent(p, at)
	case "user_message":
		text := contentText(p.Message)
		if text == "" {
			return nil
		}
		turn := c.report()
		turn.TurnID = c.m.known(c.turn)
		return c.m.put(draft{data: turn, time: at, episode: c.episode, content: text, at: c.m.unless(at)})
	case "exec_command_end":
		t, ok := c.calls.open.get(callKey(c.episode, c.m.id(string(p.CallID))))
		if !ok {
			return nil // of a call that no response item has
		}
		t.data.LatencyMS = c.m.amount(p.Duration.ms)
		if p.ExitCode.v != nil {
			t.data.Status = ended(*p.ExitCode.v == 0)
		}
		return nil
	}
	c.m.left("event " + string(p.Type))
	return nil
}

// spent takes up what the last request used. The client repeats it whenever it tells
// of its limits; the running total says whether it is new.
func (c *codex) spent(p *codexPayload, at *string) error {
	info, ok := part[codexInfo](p.Info)
	if !ok || info.Last == nil {
		c.m.left("event token_count without usage")
		return nil
	}
	d := draft{time: at, episode: c.episode, data: &events.UsageRecorded{
		Provider: c.m.name(c.provider), Model: c.m.name(c.model), EndedAt: at, UsageConvention: ptr(includesCached),
		Tokens: &events.Tokens{Input: c.m.number(info.Last.Input.v), Cached: c.m.number(info.Last.Cached.v), Output: c.m.number(info.Last.Output.v)},
	}}
	if info.Total.Kind() != '{' {
		d.at = c.m.unless(at)
		return c.m.put(d)
	}
	if bytes.Equal(info.Total, c.total) {
		c.m.mended(mendedRepeat)
		return nil
	}
	c.total = info.Total.Clone()
	d.at = "total " + string(c.total)
	return c.m.put(d)
}
