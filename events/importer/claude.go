package importer

import (
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// Claude Code keeps a session as JSON lines. An answer of the model stands in as
// many lines as it has blocks, each with the id and the usage of the whole message;
// a tool's result comes as a user's line.
type claudeLine struct {
	Type      str  `json:"type"`
	UUID      str  `json:"uuid"`
	Session   str  `json:"sessionId"`
	Timestamp str  `json:"timestamp"`
	Version   str  `json:"version"`
	Meta      flag `json:"isMeta"`
	Sidechain flag `json:"isSidechain"`
	// Message is read in lines of the two types that have one; others have what they
	// like there.
	Message jsontext.Value `json:"message"`
	// Result is what the client itself noted of a tool's result: an object, or text.
	Result jsontext.Value `json:"toolUseResult"`
}

type claudeMessage struct {
	ID      str            `json:"id"`
	Model   str            `json:"model"`
	Content jsontext.Value `json:"content"`
	Usage   *claudeUsage   `json:"usage"`
}

type claudeUsage struct {
	Input   num `json:"input_tokens"` // without what was read from or written to the cache
	Created num `json:"cache_creation_input_tokens"`
	Read    num `json:"cache_read_input_tokens"`
	Output  num `json:"output_tokens"`
}

type claudeBlock struct {
	Type    str            `json:"type"`
	Text    str            `json:"text"`
	ID      str            `json:"id"`
	Name    str            `json:"name"`
	Input   jsontext.Value `json:"input"`
	ToolUse str            `json:"tool_use_id"`
	Content jsontext.Value `json:"content"`
	Error   flag           `json:"is_error"`
}

// claudeNoted is what the client noted of a result.
type claudeNoted struct {
	Interrupted flag `json:"interrupted"`
	Duration    num  `json:"durationMs"`
	Total       num  `json:"totalDurationMs"`
}

// claudeDenied begins the result of a call that the user did not let run.
const claudeDenied = "The user doesn't want to proceed with this tool use"

// claudeSynthetic is the model of an answer that the client wrote itself.
const claudeSynthetic = "<synthetic>"

type claude struct {
	m        *maker
	calls    *calls
	usage    *queue[*draft]
	sessions *queue[struct{}]
}

func readClaude(m *maker, in io.Reader) error {
	c := &claude{m, newCalls(m), newQueue[*draft](maxUsage), newQueue[struct{}](maxUsage)}
	if err := eachLine(m, in, func(l *claudeLine) error { return c.line(l) }); err != nil {
		return err
	}
	if err := c.calls.flush(); err != nil {
		return err
	}
	for {
		u, ok := c.usage.first()
		if !ok {
			return nil
		}
		if err := m.put(*u); err != nil {
			return err
		}
	}
}

func (c *claude) line(l *claudeLine) error {
	if l.Type != "user" && l.Type != "assistant" {
		c.m.left("line " + string(l.Type))
		return nil
	}
	msg, ok := part[claudeMessage](l.Message)
	if !ok {
		c.m.bad(badShape, "a line without a message")
		return nil
	}
	at := c.m.timestamp(string(l.Timestamp))
	if err := c.session(l, at); err != nil {
		return err
	}
	var blocks []claudeBlock
	if msg.Content.Kind() == '"' {
		text, _ := part[str](msg.Content)
		blocks = []claudeBlock{{Type: "text", Text: text}}
	} else if list, ok := part[[]claudeBlock](msg.Content); ok {
		blocks = list
	} else {
		c.m.bad(badShape, "a message without content")
		return nil
	}
	if l.Type == "assistant" {
		return c.assistant(l, &msg, blocks, at)
	}
	return c.user(l, blocks, at)
}

// session tells of a session when it is first met.
func (c *claude) session(l *claudeLine, at *string) error {
	episode := events.Identifier(string(l.Session))
	if episode == "" {
		c.m.mended(mendedMissingID)
		return nil
	}
	if _, met := c.sessions.get(episode); met {
		return nil
	}
	c.sessions.add(episode, struct{}{})
	return c.m.put(draft{data: c.episode(l), time: at, episode: episode})
}

func (c *claude) episode(l *claudeLine) *events.EpisodeRecorded {
	return &events.EpisodeRecorded{SessionID: c.m.known(string(l.Session)), Client: ptr("claude-code"), ClientVersion: c.m.name(string(l.Version))}
}

func (c *claude) assistant(l *claudeLine, msg *claudeMessage, blocks []claudeBlock, at *string) error {
	episode := events.Identifier(string(l.Session))
	message := c.m.name(string(msg.ID))
	tokens, err := c.spent(msg, episode, message, at)
	if err != nil {
		return err
	}
	for i, b := range blocks {
		if b.Type != "tool_use" {
			c.m.left("block " + string(b.Type))
			continue
		}
		t := &call{draft{time: at, episode: episode, at: strconv.Itoa(i)}, &events.ToolCalled{
			ToolCallID: string(b.ID), Tool: string(b.Name), Status: statusUnknown, StartedAt: at,
			ArgsHash: contentHash(b.Input), MessageID: message, Tokens: tokens,
		}}
		if tokens != nil {
			t.data.UsageConvention = ptr(excludesCached)
		}
		if err := c.calls.begin(t); err != nil {
			return err
		}
	}
	return nil
}

// How input relates to what was cached.
const (
	includesCached = "input_includes_cached"
	excludesCached = "input_excludes_cached"
)

// spent takes up a message's usage, which each of its lines repeats and the last one
// has whole.
func (c *claude) spent(msg *claudeMessage, episode string, message, at *string) (*events.Tokens, error) {
	u := msg.Usage
	if u == nil || msg.Model == claudeSynthetic {
		return nil, nil
	}
	tokens := &events.Tokens{
		Input: whole(c.m.number(u.Input.v), c.m.number(u.Created.v)), Cached: c.m.number(u.Read.v), Output: c.m.number(u.Output.v),
	}
	d := &draft{time: at, episode: episode, line: c.m.line, data: &events.UsageRecorded{
		MessageID: message, Model: c.m.name(string(msg.Model)),
		Tokens: tokens, UsageConvention: ptr(excludesCached), EndedAt: at,
	}}
	if message == nil {
		c.m.mended(mendedMissingID)
		d.at = c.m.unless(at)
		return tokens, c.m.put(*d)
	}
	if old, ok := c.usage.get(*message); ok {
		// The envelope's time stays that of the message's first line.
		old.data, old.line = d.data, d.line
		return tokens, nil
	}
	if oldest, full := c.usage.add(*message, d); full {
		return tokens, c.m.put(*oldest)
	}
	return tokens, nil
}

func (c *claude) user(l *claudeLine, blocks []claudeBlock, at *string) error {
	episode := events.Identifier(string(l.Session))
	var typed []string
	for _, b := range blocks {
		switch b.Type {
		case "tool_result":
			if err := c.result(l, &b, episode, at); err != nil {
				return err
			}
		case "text":
			typed = append(typed, string(b.Text))
		default:
			c.m.left("block " + string(b.Type))
		}
	}
	text := strings.Join(typed, "\n")
	if text == "" {
		return nil
	}
	if l.Meta.is() || l.Sidechain.is() { // the client's own words, or the agent's to a worker
		c.m.left("text that no user typed")
		return nil
	}
	turn := c.episode(l)
	turn.TurnID = c.m.known(string(l.UUID))
	d := draft{data: turn, time: at, episode: episode, content: text}
	if turn.TurnID == nil {
		c.m.mended(mendedMissingID)
		d.at = c.m.unless(at)
	}
	return c.m.put(d)
}

func (c *claude) result(l *claudeLine, b *claudeBlock, episode string, at *string) error {
	t := c.calls.find(episode, string(b.ToolUse))
	if t == nil {
		return nil
	}
	noted, _ := part[claudeNoted](l.Result)
	t.data.EndedAt, t.data.ResultHash = at, contentHash(b.Content)
	t.data.LatencyMS = c.m.amount(noted.Duration.v)
	if t.data.LatencyMS == nil {
		t.data.LatencyMS = c.m.amount(noted.Total.v)
	}
	switch {
	case b.Error.is() && strings.HasPrefix(contentText(b.Content), claudeDenied):
		t.data.Status = statusDenied
	case b.Error.is(), noted.Interrupted.is():
		t.data.Status = statusFailed
	default: // a result without the mark is one without an error
		t.data.Status = statusOK
	}
	return c.calls.end(t)
}
