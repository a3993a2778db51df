package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"assay/cmd/internal/node"
	"assay/projector"
	"assay/projector/view"
)

// mcpClient talks to `assay mcp` as a client does, over its stdin and stdout.
func mcpClient(t *testing.T, dir node.Dir, args ...string) *mcp.ClientSession {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"mcp", "--dir", string(dir)}, args...)...)
	cmd.Args[0] = "assay" // TestMain makes that the program
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the server does not end well: %v", err)
		}
	})
	return session
}

func mcpCall(t *testing.T, s *mcp.ClientSession, tool, arguments string) (map[string]any, string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: jsontext.Value(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return nil, text
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	return answer, text
}

const mcpClaim = `{"claim_id":"c1","status":"hypothesis","raw_confidence":0.6,"edge":{"rung":"intervention","cause":"swap","effect":"oom_kill"},"episode_id":"ep-1"}`

// TestMCPRecords: what is recorded while nothing runs and while the ledger is there
// stands in it, in order, as the agent's.
func TestMCPRecords(t *testing.T) {
	dir := node.Dir(filepath.Join(t.TempDir(), "ledger"))
	if _, err := node.Init(t.Context(), node.InitConfig{Dir: dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	s := mcpClient(t, dir)
	if answer, text := mcpCall(t, s, "record_claim", mcpClaim); answer == nil || answer["spooled"] != true || answer["seq"] != nil {
		t.Errorf("nothing runs: %s", text)
	}
	if answer, text := mcpCall(t, s, "record_claim", `{"claim_id":"c2","status":"sure"}`); answer != nil || !strings.HasPrefix(text, "bad_value at /status: ") {
		t.Errorf("a wrong claim: %s", text)
	}

	u, err := node.StartUp(t.Context(), node.UpConfig{Dir: dir, Software: "test", Log: zerolog.Nop(), Seal: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := u.Stop(); err != nil {
			t.Error(err)
		}
	}()
	wait := func(what string, done func() bool) {
		t.Helper()
		for range 600 {
			if done() {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(what)
	}
	wait("the spooled claim is not delivered", func() bool {
		st := u.Status().Hooks["agent/piper"]
		return st.Delivered == 1 && st.Waiting == 0
	})
	answer, text := mcpCall(t, s, "record_revision", `{"claim_id":"c1","old_status":"hypothesis","new_status":"asserted","episode_id":"ep-1"}`)
	if answer == nil || answer["seq"] == nil || len(answer["leaf"].(string)) != 64 || answer["spooled"] != nil {
		t.Fatalf("no receipt: %s", text)
	}
	var claim *view.Claim
	wait("the views do not show it", func() bool {
		err := u.Views.Runner().View(func(s *projector.State) error {
			found, err := view.Find(s, "c1")
			if err == nil && len(found.Claims) == 1 {
				claim = &found.Claims[0].Claim
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return claim != nil && claim.Status == "asserted"
	})
	if claim.Principal != "agent/piper" || claim.Namespace != "production" {
		t.Errorf("%+v", claim)
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
		t.Errorf("%v", names)
	}
}

func TestMCPIsForAgents(t *testing.T) {
	c := command{t, t.TempDir()}
	c.must(0, "", "init", "--offline-dir", t.TempDir())
	if out := c.must(2, "", "mcp", "--as", "operator/main"); !strings.Contains(out, "only an agent records over MCP") {
		t.Error(out)
	}
}
