package detector

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/jsonfault"
)

// Formats are those in which a transcript can be read.
var Formats = []string{"turns", "claude-code", "messages"}

// ErrTranscript means that a transcript is not of the format that it is read as.
var ErrTranscript = errors.New("not a transcript of this format")

// lenient reads what others write. A text that was cut in the middle of a character
// stands there as half an escape, which becomes U+FFFD: whoever is quoted in a
// transcript must not be able to keep all of it from being read.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// Read calls fn for each turn of a transcript:
//
//	turns        one Turn as JSON a line
//	claude-code  the session file of Claude Code: what user and assistant say; tool
//	             results, thinking and what the client injects are no turns
//	messages     an array of {"role","content"}, as chat APIs take it; name is the episode
//
// A turn without text is passed over.
func Read(r io.Reader, format, name string, fn func(Turn) error) error {
	each := func(t Turn) error {
		if strings.TrimSpace(t.Text) == "" {
			return nil
		}
		return fn(t)
	}
	switch format {
	case "turns":
		return eachValue(r, func(t Turn) error { return each(t) }, json.RejectUnknownMembers(true))
	case "claude-code":
		return eachValue(r, func(l sessionLine) error { return each(l.turn()) }, lenient)
	case "messages":
		return readMessages(r, name, each)
	}
	return fmt.Errorf("%w: %q", ErrTranscript, format)
}

// ReadLabelled calls fn for each turn of a file of labelled turns, one as JSON a line.
func ReadLabelled(r io.Reader, fn func(Labelled) error) error {
	return eachValue(r, fn, json.RejectUnknownMembers(true))
}

// eachValue decodes one value behind the other.
func eachValue[T any](r io.Reader, fn func(T) error, options ...json.Options) error {
	dec := jsontext.NewDecoder(r, options...)
	for n := 1; ; n++ {
		var v T
		err := json.UnmarshalDecode(dec, &v, options...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: value %d: %s", ErrTranscript, n, jsonfault.Text(err))
		}
		if err := fn(v); err != nil {
			return err
		}
	}
}

// sessionLine is what counts of a line of a session file.
type sessionLine struct {
	Type      string `json:"type"`
	UUID      string `json:"uuid"`
	SessionID string `json:"sessionId"`
	Timestamp string `json:"timestamp"`
	Meta      bool   `json:"isMeta"`
	Sidechain bool   `json:"isSidechain"`
	Message   struct {
		Content content `json:"content"`
	} `json:"message"`
}

func (l *sessionLine) turn() Turn {
	if l.Type != "user" && l.Type != "assistant" || l.Meta {
		return Turn{}
	}
	t := Turn{Episode: l.SessionID, ID: l.UUID, Role: l.Type, Text: string(l.Message.Content), Time: l.Timestamp}
	if l.Sidechain {
		t.Component, t.Role = "worker", "worker" // what "user" says there is an agent's prompt
	}
	return t
}

// content is the text of a message: a string, or the text parts of an array.
type content string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '"':
		return json.UnmarshalDecode(dec, (*string)(c))
	case '[':
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.UnmarshalDecode(dec, &parts); err != nil {
			return err
		}
		var texts []string
		for _, p := range parts {
			if p.Type == "text" {
				texts = append(texts, p.Text)
			}
		}
		*c = content(strings.Join(texts, "\n"))
		return nil
	}
	return dec.SkipValue()
}

func readMessages(r io.Reader, name string, fn func(Turn) error) error {
	var messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	}
	if err := json.UnmarshalRead(r, &messages, lenient); err != nil {
		return fmt.Errorf("%w: %s", ErrTranscript, jsonfault.Text(err))
	}
	for i, m := range messages {
		if err := fn(Turn{Episode: name, ID: strconv.Itoa(i + 1), Role: m.Role, Text: string(m.Content)}); err != nil {
			return err
		}
	}
	return nil
}
