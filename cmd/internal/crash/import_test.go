package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/cmd/internal/node"
	"assay/ledger"
)

// TestImportSurvivesKills kills an import again and again while it sends, and then lets
// it end: the ledger holds each event once, as if nothing had happened.
func TestImportSurvivesKills(t *testing.T) {
	const sessions, calls = 200, 40
	h := newHouse(t)
	up := h.supervise("up", []string{assay, "--dir", string(h.dir), "up", "--seal", "1h"})
	h.awaitServed("assay")
	file := filepath.Join(t.TempDir(), "sessions.jsonl")
	if err := os.WriteFile(file, transcript(sessions, calls), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := []string{"--dir", string(h.dir), "--json", "import", "claude-code", file, "--as", "dispatcher/main"}
	kills := 0
	for before := h.size(); ; {
		cmd := exec.Command(assay, argv...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var end error
		over := false
		h.await("the import to send or to end", func() bool {
			select {
			case end = <-ended:
				over = true
			default:
			}
			return over || h.size() > before+3000
		})
		if over {
			if end != nil {
				t.Fatalf("the import ended with %v", end)
			}
			break
		}
		_ = cmd.Process.Kill() // it may have ended by itself
		<-ended
		kills++
		before = h.size()
	}
	if kills == 0 {
		t.Error("no import was killed")
	}
	type summary struct {
		Files []node.Imported `json:"files"`
	}
	again := mustDecode[summary](t, h.must(argv[2:]...)).Files[0]
	// A session is told of once, each call and each message too.
	const want = sessions * (1 + 1 + 2*calls)
	if again.New == nil || *again.New != 0 || *again.Already != want || !again.Good() {
		t.Errorf("the last import: %+v, want %d events that are there", again, want)
	}
	up.stop()
	events, held := map[ledger.Hash]bool{}, map[string]bool{}
	h.each(func(r ledger.Record) error {
		if r.Principal != "dispatcher/main" {
			return nil
		}
		events[ledger.Leaf(r.Event)] = true
		if _, ref, ok := strings.Cut(string(r.Event), `"dataref":"`); ok {
			held[ref[:strings.IndexByte(ref, '"')]] = true
		}
		return nil
	})
	if len(events) != want || len(held) != sessions {
		t.Errorf("the ledger holds %d different events and names %d blobs, want %d and %d", len(events), len(held), want, sessions)
	}
	for ref := range held {
		if r := h.run("", "blob", "get", ref); r.code != 0 || !strings.HasPrefix(r.out, "question ") {
			t.Fatalf("%s: exit %d, %q %s", ref, r.code, r.out, r.err)
		}
	}
}

// size is the number of records of the ledger.
func (h *house) size() uint64 {
	st, ok := h.status("assay")
	if !ok || st.Logger == nil {
		return 0
	}
	return st.Logger.Size
}

// transcript is a file of sessions, each of a question and tool calls with their results.
func transcript(sessions, calls int) []byte {
	var b []byte
	line := func(session int, typ, message string) {
		b = fmt.Appendf(b, `{"type":%q,"uuid":"u%d-%d","sessionId":"s%d","version":"1","timestamp":"2026-03-01T10:00:00Z","message":%s}`+"\n", typ, session, len(b), session, message)
	}
	for s := range sessions {
		line(s, "user", fmt.Sprintf(`{"content":"question %d"}`, s))
		for c := range calls {
			line(s, "assistant", fmt.Sprintf(`{"id":"m%d-%d","model":"m","content":[{"type":"tool_use","id":"t%d-%d","name":"Bash","input":{}}],"usage":{"input_tokens":3,"output_tokens":4}}`, s, c, s, c))
			line(s, "user", fmt.Sprintf(`{"content":[{"type":"tool_result","tool_use_id":"t%d-%d","content":"done"}]}`, s, c))
		}
	}
	return b
}
