package hook

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// Call is a tool call of a transcript.
type Call struct {
	Session, ID, Tool string
	// Ended says that the transcript holds its result. Without one it never ran, or
	// runs still.
	Ended   bool
	EndedAt string // of the line with the result, as it stands there; "" is unknown
	failed  bool
	args    string
}

// entry is a line of a transcript of either client.
type entry struct {
	Type      string `json:"type"`
	Session   string `json:"sessionId"` // Claude Code
	Timestamp string `json:"timestamp"`
	// Read where the type is one that has calls in it; lines of other types have
	// what they like there.
	Message jsontext.Value `json:"message"` // Claude Code
	Payload jsontext.Value `json:"payload"` // Codex
}

// message is one of Claude Code's.
type message struct {
	Content jsontext.Value `json:"content"` // text, or blocks
}

// block is a piece of a message of Claude Code's.
type block struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	CallID  string         `json:"tool_use_id"`
	Name    string         `json:"name"`
	Input   jsontext.Value `json:"input"`
	IsError bool           `json:"is_error"`
}

// item is what a line of Codex's is about.
type item struct {
	Type   string `json:"type"`
	ID     string `json:"id"` // of the session, in its first line
	CallID string `json:"call_id"`
	Name   string `json:"name"`
}

// Transcript lists the tool calls of a client's transcript, in their order, each
// once. A last line without its end is being written and is passed over; another
// that is no JSON is an error.
func Transcript(c Client, r io.Reader) ([]Call, error) {
	t := transcript{client: c, at: map[string]int{}}
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var e entry
			jsonErr := json.Unmarshal(line, &e, lenient)
			if jsonErr == nil {
				jsonErr = t.take(e)
			}
			if jsonErr != nil && err == nil {
				return nil, fmt.Errorf("line %d of the transcript: %w", n, jsonErr)
			}
		}
		if err != nil {
			return t.calls, nil
		}
	}
}

type transcript struct {
	client  Client
	session string
	calls   []Call
	at      map[string]int // in calls, by id
}

func (t *transcript) take(e entry) error {
	if t.client == Codex {
		return t.takeItem(e)
	}
	if e.Type != "assistant" && e.Type != "user" {
		return nil
	}
	var m message
	if err := json.Unmarshal(e.Message, &m, lenient); err != nil || m.Content.Kind() != '[' {
		return err
	}
	var blocks []block
	if err := json.Unmarshal(m.Content, &blocks, lenient); err != nil {
		return err
	}
	for _, b := range blocks {
		switch {
		case e.Type == "assistant" && b.Type == "tool_use":
			args, err := hashOf(b.Input)
			if err != nil {
				return err
			}
			t.begin(Call{Session: e.Session, ID: b.ID, Tool: b.Name, args: args})
		case e.Type == "user" && b.Type == "tool_result":
			t.end(b.CallID, e.Timestamp, b.IsError)
		}
	}
	return nil
}

func (t *transcript) takeItem(e entry) error {
	if e.Type != "session_meta" && e.Type != "response_item" {
		return nil
	}
	var p item
	if err := json.Unmarshal(e.Payload, &p, lenient); err != nil {
		return err
	}
	switch {
	case e.Type == "session_meta":
		t.session = p.ID
	case p.Type == "function_call" || p.Type == "custom_tool_call":
		t.begin(Call{Session: t.session, ID: p.CallID, Tool: p.Name})
	case p.Type == "local_shell_call":
		t.begin(Call{Session: t.session, ID: p.CallID, Tool: "local_shell"})
	case p.Type == "function_call_output" || p.Type == "custom_tool_call_output":
		t.end(p.CallID, e.Timestamp, false)
	}
	return nil
}

// begin adds a call, unless a client that went on with a session wrote it down
// again.
func (t *transcript) begin(c Call) {
	if _, ok := t.at[c.ID]; ok || c.ID == "" {
		return
	}
	t.at[c.ID] = len(t.calls)
	t.calls = append(t.calls, c)
}

func (t *transcript) end(id, at string, failed bool) {
	i, ok := t.at[id]
	if !ok || t.calls[i].Ended {
		return
	}
	t.calls[i].Ended, t.calls[i].EndedAt, t.calls[i].failed = true, at, failed
}

// EpisodeID is the episode of the call, as the hook's event names it.
func (c *Call) EpisodeID() string { return idOr("session:", c.Session) }

// ToolCallID is the id of the call, as the hook's event names it.
func (c *Call) ToolCallID() string { return idOr("call:", c.ID) }

// Event says the call as an import in the name of author, who holds the transcript
// and did not see it. The same call is the same event, byte for byte.
func (c *Call) Event(client Client, author string) (*events.Event, error) {
	component, capture, status := string(client), "imported", "ok"
	if c.failed {
		status = "failed"
	}
	id := c.ToolCallID()
	ended, ok := events.Time(&c.EndedAt)
	if !ok {
		return nil, fmt.Errorf("call %s: the transcript gives no time of its result", c.ID)
	}
	m := events.Maker{Source: "urn:assay:transcript:" + component}
	e, err := m.New(&events.ToolCalled{
		Context:    events.Context{Author: &author, Component: &component, Capture: &capture, ToolCallID: &id},
		ToolCallID: id, Tool: short(c.Tool), Status: status, ArgsHash: known(c.args), EndedAt: known(events.FormatTime(ended)),
	})
	if err != nil {
		return nil, err
	}
	e.ID, e.Time = events.DerivedID("transcript", component, author, c.Session, c.ID).String(), events.FormatTime(ended)
	e.EpisodeID = c.EpisodeID()
	return e, nil
}
