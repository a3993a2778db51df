// Package hook reads what an agent's client tells its hooks and says it as
// events. It is pure: no file, no clock.
//
// A hook is a program that the client runs at fixed points with a JSON object.
// Of a tool call it hears twice: before it, which is an intention, and after it.
// Only the second becomes an event, a tool.called in the agent's own name; the
// first gives its beginning. What a tool was given and gave back is kept as
// hashes, what a user typed not at all.
//
//	point                            becomes
//	PreToolUse                       the started_at of the event below
//	PostToolUse, PostToolUseFailure  tool.called, status ok or failed
//	PermissionDenied                 tool.called, status denied
//	any other                        nothing
//
// The two are joined by the client's own id of the call. A call without one is
// joined by session, turn, tool and arguments, and is labelled so: its id begins
// with "anchor:", and its stage is AnchorJoin.
package hook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
)

// Client is an agent's client whose hooks are understood.
type Client string

// The clients.
const (
	ClaudeCode Client = "claude-code"
	Codex      Client = "codex"
)

// Clients lists the clients.
func Clients() []Client { return []Client{ClaudeCode, Codex} }

// IsClient says whether the name is a client's.
func IsClient(name string) bool { return slices.Contains(Clients(), Client(name)) }

// ErrPayload means that bytes are not what a client gives its hooks.
var ErrPayload = errors.New("not a hook's payload")

// AnchorJoin is the stage of a call that has no id of the client's.
const AnchorJoin = "anchor join"

// Phase is what a payload tells of a tool call.
type Phase int

// The phases. Other is a payload of which nothing is recorded.
const (
	Other  Phase = iota
	Before       // the call is about to run, or to be asked about
	After        // it ran, or was denied
)

// Report is a payload as far as it is understood.
type Report struct {
	Client Client
	Point  string // the hook's name, as the client says it
	Phase  Phase

	session, turn, id, tool string
	target                  string
	args, result            string // SHA-256 of the canonical JSON; "" where there is none
	status, failure         string
	latencyMS               *float64
}

// payload is what the clients send. Members that they share have the same names.
type payload struct {
	Type     string   `json:"type"` // of Codex's notify, which names no point
	Point    string   `json:"hook_event_name"`
	Session  string   `json:"session_id"`
	Turn     string   `json:"turn_id"`   // Codex
	Prompt   string   `json:"prompt_id"` // Claude Code
	CallID   string   `json:"tool_use_id"`
	Tool     string   `json:"tool_name"`
	Duration *float64 `json:"duration_ms"`

	Input     jsontext.Value `json:"tool_input"`
	Response  jsontext.Value `json:"tool_response"`
	Error     jsontext.Value `json:"error"`
	Interrupt bool           `json:"is_interrupt"`
}

// Next reads the first JSON value of a stream, at most so many bytes. It does not wait
// for the end of the stream, which a client may keep open. What is no JSON is
// ErrPayload.
func Next(r io.Reader, most int64) ([]byte, error) {
	stream := &limited{r: r, left: most}
	raw, err := jsontext.NewDecoder(stream, lenient).ReadValue()
	switch {
	case err == nil:
		return raw, nil
	case stream.err != nil:
		return nil, stream.err
	case stream.left == 0:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrPayload, most)
	}
	return nil, fmt.Errorf("%w: %w", ErrPayload, err)
}

// limited is so much of a stream, and notes what is wrong with the stream itself.
type limited struct {
	r    io.Reader
	left int64
	err  error
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// lenient takes what JavaScript writes: half a surrogate pair, a name twice.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// Read understands a payload; ErrPayload if it cannot.
func Read(c Client, raw []byte) (*Report, error) {
	var p payload
	if jsontext.Value(raw).Kind() != '{' {
		return nil, fmt.Errorf("%w: no JSON object", ErrPayload)
	}
	if err := json.Unmarshal(raw, &p, lenient); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	r := &Report{Client: c, Point: p.Point, session: p.Session, turn: p.Turn + p.Prompt, id: p.CallID, tool: p.Tool}
	switch {
	case p.Point == "" && p.Type == "":
		return nil, fmt.Errorf("%w: no hook_event_name", ErrPayload)
	case p.Point == "":
		r.Point = p.Type
	case p.Point == "PreToolUse":
		r.Phase = Before
	case p.Point == "PostToolUse":
		r.Phase, r.status = After, "ok"
		if said(p.Response).failed() {
			r.status = "failed"
		}
	case p.Point == "PostToolUseFailure":
		r.Phase, r.status = After, "failed"
		p.Response = p.Error
	case p.Point == "PermissionDenied":
		r.Phase, r.status = After, "denied"
	}
	if r.Phase == Other {
		return r, nil
	}
	if r.tool == "" {
		return nil, fmt.Errorf("%w: %s without tool_name", ErrPayload, p.Point)
	}
	r.tool, r.target = short(r.tool), targetOf(p.Input)
	var err error
	if r.args, err = hashOf(p.Input); err != nil {
		return nil, err
	}
	if r.Phase == After && r.status != "denied" {
		if r.result, err = hashOf(p.Response); err != nil {
			return nil, err
		}
		if p.Duration != nil && *p.Duration >= 0 {
			r.latencyMS = p.Duration
		}
	}
	if r.status == "failed" {
		r.failure = failureOf(p)
	}
	return r, nil
}

// response is what tells of failure in the answers of tools.
type response struct {
	IsError  bool  `json:"is_error"`
	Success  *bool `json:"success"`
	ExitCode *int  `json:"exit_code"`
	Metadata struct {
		ExitCode *int `json:"exit_code"`
	} `json:"metadata"`
}

// said reads an answer; one that says nothing of failure is the zero response.
func said(raw jsontext.Value) (r response) {
	if raw.Kind() != '{' || json.Unmarshal(raw, &r, lenient) != nil {
		return response{}
	}
	return r
}

func (r response) exit() int {
	for _, code := range []*int{r.ExitCode, r.Metadata.ExitCode} {
		if code != nil {
			return *code
		}
	}
	return 0
}

func (r response) failed() bool {
	return r.IsError || r.Success != nil && !*r.Success || r.exit() != 0
}

// exitCode is made when it is needed: a hook starts anew at every call.
var exitCode = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^[a-z -]{0,40}code:? (-?[0-9]{1,5})$`)
})

// failureOf says why a call failed without a word of what the tool wrote: its
// error may be the output of a command.
func failureOf(p payload) string {
	if p.Interrupt {
		return "interrupted by the user"
	}
	if code := said(p.Response).exit(); code != 0 {
		return fmt.Sprintf("exit code %d", code)
	}
	var text string
	if p.Error.Kind() == '"' && json.Unmarshal(p.Error, &text, lenient) == nil {
		first, _, _ := strings.Cut(text, "\n")
		if m := exitCode().FindStringSubmatch(first); m != nil {
			return "exit code " + m[1]
		}
	}
	return "the client reports a failure"
}

// targetOf is the file that a call is about, by the names that clients give it;
// "" where it is about none. Commands, addresses and patterns are content.
func targetOf(input jsontext.Value) string {
	var file struct {
		Path     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	if input.Kind() != '{' || json.Unmarshal(input, &file, lenient) != nil {
		return ""
	}
	if path := file.Path + file.Notebook; len(path) <= maxName {
		return strings.ToValidUTF8(path, "\uFFFD")
	}
	return ""
}

// maxName is the longest name of a tool or target, in characters.
const maxName = 256

// short cuts a name to what an event may hold.
func short(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > maxName {
		return string(r[:maxName])
	}
	return s
}

// hashOf is the SHA-256 of the canonical form (RFC 8785) of a JSON value; "" of
// nothing.
func hashOf(v jsontext.Value) (string, error) {
	if len(v) == 0 {
		return "", nil
	}
	v = slices.Clone(v)
	if err := v.Canonicalize(lenient); err != nil {
		return "", fmt.Errorf("%w: %w", ErrPayload, err)
	}
	sum := sha256.Sum256(v)
	return hex.EncodeToString(sum[:]), nil
}

// Exact says whether the client gave the call an id.
func (r *Report) Exact() bool { return r.id != "" }

// Key is the same for the two reports of one call, and a file name. Without an id of the
// client's it is also that of every other call of the same tool with the same
// arguments in the same turn.
func (r *Report) Key() string {
	if r.Exact() {
		return digest(string(r.Client), r.session, r.id)
	}
	return digest(string(r.Client), r.session, r.turn, r.tool, r.args)
}

// digest is a short hash of parts, each behind its length.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Event is the tool call of a report of the phase After, in the name of author.
// Of started, the zero time is unknown, and so is one behind the end: the clock was
// set back meanwhile. ended is when the hook heard.
func (r *Report) Event(m events.Maker, author string, started, ended time.Time) (*events.Event, error) {
	if r.Phase != After {
		return nil, fmt.Errorf("%s tells of no tool call that ended", r.Point)
	}
	component, capture, end := string(r.Client), "hook", events.FormatTime(ended)
	call := &events.ToolCalled{
		Context: events.Context{Author: &author, Component: &component, Capture: &capture},
		Tool:    r.tool, Target: known(r.target), Status: r.status, EndedAt: &end,
		ArgsHash: known(r.args), ResultHash: known(r.result), LatencyMS: r.latencyMS, Error: known(r.failure),
	}
	if !started.IsZero() && !started.After(ended) {
		call.StartedAt = known(events.FormatTime(started))
	}
	if r.Exact() {
		call.ToolCallID = events.Identifier(r.id)
		call.Context.ToolCallID = &call.ToolCallID
	} else {
		// Two calls alike in one turn are two: they ended at different times.
		call.ToolCallID = "anchor:" + digest(r.Key(), end)
		call.Stage = known(AnchorJoin)
	}
	m.Source = "urn:assay:hook:" + component
	e, err := m.New(call)
	if err != nil {
		return nil, err
	}
	e.EpisodeID, e.CorrelationID = events.Identifier(r.session), events.Identifier(r.turn)
	return e, nil
}

// known is nil for "".
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
