// Package mcp is a server of the Model Context Protocol with which an agent
// records what she claims and promises. It only records: it has no tool that
// reads, and no resource, so that what is kept of her does not come back to her.
//
// A tool takes the members of its event's data but for the context, which the
// server fills in. What the schema of the event does not let in is the tool's
// error, with a JSON Pointer into the arguments, so that the agent can say it
// again. The answer is the receipt, or that the event is spooled.
package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"assay/events"
	"assay/events/publish"
	"assay/schema"
)

// Config says who records, and how.
type Config struct {
	// As is the agent, such as agent/piper.
	As string
	// Version is that of this build.
	Version string
	// Publish sends an event. Its answer is a receipt, a refusal or that the event is
	// spooled; an error says that it is nowhere.
	Publish func(ctx context.Context, event []byte) (publish.Answer, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// tool is one thing that can be recorded.
type tool struct {
	name, typ, description string
}

var tools = []tool{
	{"record_claim", events.TypeClaimRecorded, "Record a claim before its outcome is known: a causal edge or a proposition, with confidence, evidence and what competes with it."},
	{"record_prediction", events.TypePredictionRecorded, "Record a prediction with a criterion that telemetry can settle, before its window opens."},
	{"record_revision", events.TypeClaimRevised, "Record that a claim changed its status: hypothesis, asserted or retracted."},
}

const instructions = "Record claims, predictions and revisions as you make them. A receipt means that the ledger holds the record for good; spooled means that it is on disk and on its way. Nothing can be read back here."

// Serve answers one client over the two streams until they or ctx end.
func Serve(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	s, err := newServer(c)
	if err != nil {
		return err
	}
	err = s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: writer{out}})
	if errors.Is(err, io.EOF) || ctx.Err() != nil { // the client is gone
		return nil
	}
	return err
}

type writer struct{ io.Writer }

func (writer) Close() error { return nil }

func newServer(c Config) (*sdk.Server, error) {
	s := sdk.NewServer(&sdk.Implementation{Name: "assay", Version: c.Version},
		&sdk.ServerOptions{Instructions: instructions, Capabilities: &sdk.ServerCapabilities{}})
	for _, t := range tools {
		input, err := inputSchema(t.typ)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		harmless, closed := false, false
		s.AddTool(&sdk.Tool{
			Name: t.name, Description: t.description, InputSchema: input,
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &harmless, OpenWorldHint: &closed},
		}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return c.record(ctx, t, r.Params.Arguments)
		})
	}
	return s, nil
}

// given are the arguments: two that go elsewhere, and the members of the data.
type given struct {
	EpisodeID     *string        `json:"episode_id"`
	OpportunityID *string        `json:"opportunity_id"`
	Data          jsontext.Value `json:",embed"`
}

// receipt is the answer of a tool.
type receipt struct {
	EventID string `json:"event_id"`
	publish.Receipt
	Spooled bool `json:"spooled,omitzero"`
}

func (c Config) record(ctx context.Context, t tool, arguments []byte) (*sdk.CallToolResult, error) {
	e, raw, err := c.event(t, arguments)
	if err != nil {
		return failed(err.Error()), nil
	}
	answer, err := c.Publish(ctx, raw)
	switch {
	case err != nil:
		return failed("not recorded: " + err.Error()), nil
	case answer.Refusal != nil:
		r := *answer.Refusal
		r.Pointer = pointerOf(r.Pointer)
		return failed(r.Error()), nil
	}
	body, err := json.Marshal(receipt{e.ID, answer.Receipt, answer.Spooled})
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}, StructuredContent: jsontext.Value(body),
	}, nil
}

func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// event makes the event of a tool's arguments, one that the ledger takes; its error
// is for the agent, and says where in the arguments.
func (c Config) event(t tool, arguments []byte) (*events.Event, []byte, error) {
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	var g given
	if err := json.Unmarshal(arguments, &g); err != nil {
		return nil, nil, fmt.Errorf("bad_json: %w", err)
	}
	if g.EpisodeID != nil && *g.EpisodeID == "" { // an event without one says nothing of it
		return nil, nil, refusal(schema.CodeBadValue, "/episode_id", "an episode has a name")
	}
	component, capture := "mcp", "live"
	about, err := json.Marshal(events.Context{Author: &c.As, Component: &component, Capture: &capture, OpportunityID: g.OpportunityID})
	if err != nil {
		return nil, nil, err
	}
	data := append([]byte(`{"context":`), about...)
	if rest := bytes.TrimSpace(g.Data); len(rest) > len("{}") {
		data = append(append(data, ','), rest[1:]...)
	} else {
		data = append(data, '}')
	}
	e, err := events.Maker{Source: "urn:assay:mcp", Now: c.Now}.New(&events.Unknown{TypeName: t.typ, Data: data})
	if err != nil {
		return nil, nil, err
	}
	if g.EpisodeID != nil {
		e.EpisodeID = *g.EpisodeID
	}
	raw, err := events.Encode(e)
	if fault, ok := errors.AsType[*schema.Fault](err); ok { // of the data alone
		return nil, nil, refusal(fault.Code, fault.Pointer, fault.Message)
	}
	if err != nil {
		return nil, nil, err
	}
	if _, fault := schema.Check(raw); fault != nil {
		return nil, nil, refusal(fault.Code, pointerOf(fault.Pointer), fault.Message)
	}
	return e, raw, nil
}

func refusal(code schema.Code, pointer, message string) *publish.Refusal {
	return &publish.Refusal{Code: string(code), Pointer: pointer, Message: message}
}

// pointerOf is a pointer into the event as one into the arguments.
func pointerOf(p string) string {
	switch {
	case p == "/episodeid":
		return "/episode_id"
	case p == "/data/context/opportunity_id":
		return "/opportunity_id"
	}
	return strings.TrimPrefix(p, "/data")
}
