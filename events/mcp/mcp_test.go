package mcp

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"assay/events"
	"assay/events/publish"
	"assay/schema"
)

// house is a client of a server whose events go where publish puts them.
func house(t *testing.T, publish func(context.Context, []byte) (publish.Answer, error)) *sdk.ClientSession {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), Config{As: "agent/piper", Version: "test", Publish: publish}, toServer, fromServer)
		fromServer.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return session
}

func call(t *testing.T, s *sdk.ClientSession, name, arguments string) (text string, isError bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: jsontext.Value(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

func unused(context.Context, []byte) (publish.Answer, error) {
	return publish.Answer{}, errors.New("nothing should be published")
}

func TestItOnlyRecords(t *testing.T) {
	s := house(t, unused)
	c := s.InitializeResult().Capabilities
	if c.Tools == nil || c.Resources != nil || c.Prompts != nil || c.Completions != nil {
		t.Errorf("%+v", c)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"record_claim", "record_prediction", "record_revision"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// example is a golden event's data as a tool's arguments.
func example(t *testing.T, typ string) string {
	t.Helper()
	raw, ok := schema.Example(typ)
	if !ok {
		t.Fatal(typ)
	}
	e, err := events.DecodeEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]jsontext.Value
	if err := json.Unmarshal(e.RawData, &data); err != nil {
		t.Fatal(err)
	}
	delete(data, "context")
	data["episode_id"], data["opportunity_id"] = jsontext.Value(`"ep-1"`), jsontext.Value(`"opp-1"`)
	out, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEachToolRecordsItsType(t *testing.T) {
	for _, tool := range tools {
		var sent []byte
		seq := uint64(42)
		s := house(t, func(_ context.Context, event []byte) (publish.Answer, error) {
			sent = event
			return publish.Answer{Receipt: publish.Receipt{Seq: &seq, Leaf: "ab", RecordedAt: "2026-12-01T00:00:00Z"}}, nil
		})
		text, isError := call(t, s, tool.name, example(t, tool.typ))
		checked, fault := schema.Check(sent)
		if fault != nil || checked.Type != tool.typ || isError {
			t.Fatalf("%s: %v, %s, %s", tool.name, fault, checked.Type, text)
		}
		e, err := events.Decode(sent)
		if err != nil {
			t.Fatal(err)
		}
		about := e.Data.Common()
		if e.EpisodeID != "ep-1" || *about.Author != "agent/piper" || *about.Component != "mcp" || *about.Capture != "live" || *about.OpportunityID != "opp-1" {
			t.Errorf("%s: %s", tool.name, sent)
		}
		if want := `{"event_id":"` + e.ID + `","seq":42,"leaf":"ab","recorded_at":"2026-12-01T00:00:00Z"}`; text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	s := house(t, unused)
	for _, tc := range []struct{ name, arguments, want string }{
		{"record_revision", `{"claim_id":"c","old_status":"hypothesis"}`, `missing_field at /new_status: `},
		{"record_revision", `{"claim_id":"c","old_status":"hypothesis","new_status":"true"}`, `bad_value at /new_status: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","edge":{"rung":"intervention","cause":"a"}}`, `missing_field at /edge/effect: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","context":{"author":"operator/main"}}`, `duplicate_key at /context: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","believe_me":true}`, `unknown_field at /believe_me: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","episode_id":7}`, `bad_json: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","opportunity_id":"a b"}`, `bad_value at /opportunity_id: `},
		{"record_claim", `{"claim_id":"c","status":"asserted","episode_id":"` + strings.Repeat("x", 200) + `"}`, `bad_value at /episode_id: `},
		{"record_prediction", `{}`, `missing_field at /pred_id: `},
		{"record_prediction", `{"pred_id":"p","predicted_effect":"x","p":2,"criterion":{}}`, `bad_value at /p: `},
	} {
		text, isError := call(t, s, tc.name, tc.arguments)
		if !isError || !strings.HasPrefix(text, tc.want) {
			t.Errorf("%s %s: %v, %s, want %s", tc.name, tc.arguments, isError, text, tc.want)
		}
	}
}

func TestAnswersThatAreNoReceipt(t *testing.T) {
	revision := example(t, "claim.revised")
	for name, tc := range map[string]struct {
		answer  publish.Answer
		err     error
		want    string
		isError bool
	}{
		"spooled": {publish.Answer{Spooled: true}, nil, `"spooled":true}`, false},
		"refused": {publish.Answer{Refusal: &publish.Refusal{Code: "conflict", Pointer: "/data/claim_id", Message: "taken"}}, nil, "conflict at /claim_id: taken", true},
		"nowhere": {publish.Answer{}, errors.New("no disk"), "not recorded: no disk", true},
	} {
		s := house(t, func(context.Context, []byte) (publish.Answer, error) { return tc.answer, tc.err })
		text, isError := call(t, s, "record_revision", revision)
		if isError != tc.isError || !strings.HasSuffix(text, tc.want) {
			t.Errorf("%s: %v, %s", name, isError, text)
		}
	}
}
