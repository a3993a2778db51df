package importer

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// holmesMessage is one message of an incident chat, in the form of the chat
// completions API. None has a time, and no result says how its call ended.
type holmesMessage struct {
	Role    str            `json:"role"`
	Content jsontext.Value `json:"content"`
	CallID  str            `json:"tool_call_id"`
	Calls   []struct {
		ID       str `json:"id"`
		Function struct {
			Name      str            `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readHolmes reads a file that is one chat: a list of messages.
func readHolmes(m *maker, in io.Reader) error {
	r, ok, err := m.unmarked(in)
	if !ok || err != nil {
		return err
	}
	m.line = 1
	raw, err := io.ReadAll(&bounded{in: r})
	if errors.Is(err, errLong) {
		m.bad(badLong, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	chat, ok := decode[[]jsontext.Value](m, raw)
	if !ok {
		return nil
	}
	h := &holmes{m, newCalls(m), "holmesgpt:" + hashOf(raw)[:32]}
	if err := m.put(draft{data: h.record(), episode: h.episode}); err != nil {
		return err
	}
	var last string // the agent's last word
	for i, raw := range *chat {
		m.line = int64(i + 1)
		m.report.Lines++
		msg, ok := part[holmesMessage](raw)
		if !ok {
			m.bad(badShape, "a message of another shape")
			continue
		}
		if err := h.message(&msg); err != nil {
			return err
		}
		switch {
		case msg.Role == "assistant" && len(msg.Calls) == 0:
			last = contentText(msg.Content)
		case msg.Role != "system":
			last = "" // it went on
		}
	}
	if err := h.calls.flush(); err != nil {
		return err
	}
	return h.conclude(last)
}

type holmes struct {
	m       *maker
	calls   *calls
	episode string
}

func (h *holmes) record() *events.EpisodeRecorded {
	return &events.EpisodeRecorded{SessionID: ptr(h.episode), Client: ptr("holmesgpt")}
}

func (h *holmes) message(msg *holmesMessage) error {
	switch msg.Role {
	case "user":
		turn := h.record()
		turn.TurnID = ptr("message:" + strconv.FormatInt(h.m.line, 10))
		return h.m.put(draft{data: turn, episode: h.episode, content: contentText(msg.Content)})
	case "assistant":
		for i, c := range msg.Calls {
			t := &call{draft{episode: h.episode, at: strconv.Itoa(i)}, &events.ToolCalled{
				ToolCallID: string(c.ID), Tool: string(c.Function.Name), Status: statusUnknown, ArgsHash: contentHash(c.Function.Arguments),
			}}
			if err := h.calls.begin(t); err != nil {
				return err
			}
		}
		return nil
	case "tool":
		t := h.calls.find(h.episode, string(msg.CallID))
		if t == nil {
			return nil
		}
		t.data.ResultHash = contentHash(msg.Content)
		return h.calls.end(t)
	}
	h.m.left("message of role " + string(msg.Role))
	return nil
}

// rootCause finds the lines in which a conclusion names one.
var rootCause = regexp.MustCompile(`(?mi)^[\s#>*_0-9.)-]*root cause(?: *#?[0-9]+)? *[:—–-][\s*_]*(.*?)[\s*_]*$`)

// conclude claims the root causes that the agent's last message names. One that names
// none in a line of its own is claimed as a whole.
func (h *holmes) conclude(text string) error {
	if text == "" {
		return nil
	}
	claim := func(n int, variable, value string) error {
		return h.m.put(draft{data: &events.ClaimRecorded{
			ClaimID: h.episode + ":" + strconv.Itoa(n), Status: "asserted",
			Proposition: &events.Proposition{Variable: variable, Value: *h.m.text(value, 2000), Scope: ptr(h.episode)},
		}, episode: h.episode, content: text})
	}
	n := 0
	for _, found := range rootCause.FindAllStringSubmatch(text, -1) {
		if value := strings.TrimSpace(found[1]); value != "" {
			n++
			if err := claim(n, "root cause", value); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return claim(1, "conclusion", text)
	}
	return nil
}
