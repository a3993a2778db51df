package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/cmd/internal/hooks"
	"assay/events"
	"assay/events/drop"
	"assay/events/eventstest"
	"assay/events/hook"
	"assay/internal/principal"
	"assay/projector"
	"assay/projector/view"
)

// hookHouse is a directory and the program that clients run.
type hookHouse struct {
	t    *testing.T
	dir  Dir
	hook string
}

func newHookHouse(t *testing.T) *hookHouse {
	t.Helper()
	h := &hookHouse{t: t, dir: Dir(t.TempDir()), hook: filepath.Join(t.TempDir(), "assay-hook")}
	if _, err := Init(t.Context(), InitConfig{Dir: h.dir, OfflineDir: t.TempDir(), Origin: "example.com/log", Software: "test"}); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", h.hook, "assay/cmd/assay-hook").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return h
}

// run runs one hook as a client does, and wants what every client wants.
func (h *hookHouse) run(payload string) {
	cmd := exec.Command(h.hook, "claude-code", "--dir", string(h.dir))
	cmd.Stdin = strings.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		h.t.Errorf("%v: %s", err, out)
	}
}

func (h *hookHouse) up() *Up {
	h.t.Helper()
	u, err := StartUp(h.t.Context(), UpConfig{Dir: h.dir, Software: "test", Log: zerolog.Nop(), Seal: time.Hour})
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

func (h *hookHouse) stop(u *Up) {
	h.t.Helper()
	if err := u.Stop(); err != nil {
		h.t.Fatal(err)
	}
}

// status waits until the hooks of agent/piper are as wanted.
func (h *hookHouse) status(u *Up, wanted func(HookStatus) bool) HookStatus {
	h.t.Helper()
	var st HookStatus
	for range 600 {
		if st = u.Hooks.StatusOf()["agent/piper"]; wanted(st) {
			return st
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Fatalf("%+v", st)
	return st
}

// calls waits until the views hold so many tool calls, and reads them.
func (h *hookHouse) calls(u *Up, want int) (calls []view.ToolCall) {
	h.t.Helper()
	for range 600 {
		calls = calls[:0]
		err := u.Views.Runner().View(func(s *projector.State) error {
			return view.ListToolCalls(s, "production", func(c *view.ToolCall) error {
				calls = append(calls, *c)
				return nil
			})
		})
		if err != nil {
			h.t.Fatal(err)
		}
		if len(calls) >= want {
			return calls
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Fatalf("%d tool calls, want %d", len(calls), want)
	return nil
}

func hookPayload(point string, call int) string {
	return fmt.Sprintf(`{"session_id":"s1","hook_event_name":%q,"tool_name":"Bash","tool_input":{"command":"ls %d"},"tool_response":"x","tool_use_id":"toolu_%03d"}`, point, call, call)
}

// TestHooksAtOnce: of 200 processes at once nothing is lost and nothing comes twice,
// also while it is being delivered, by two that would.
func TestHooksAtOnce(t *testing.T) {
	const n = 200
	h := newHookHouse(t)
	h.run(hookPayload("PreToolUse", 0)) // nothing runs yet
	h.run(hookPayload("PostToolUse", 0))
	u := h.up()
	second := StartHooks(t.Context(), h.dir, u.Hub, nil, zerolog.Nop())
	var all sync.WaitGroup
	for i := 1; i <= n; i++ {
		all.Go(func() {
			h.run(hookPayload("PreToolUse", i))
			h.run(hookPayload("PostToolUse", i))
		})
	}
	all.Wait()
	calls := h.calls(u, n+1)
	if len(calls) != n+1 {
		t.Errorf("%d calls", len(calls))
	}
	for i, c := range calls {
		if c.ToolCallID != fmt.Sprintf("toolu_%03d", i) || c.EpisodeID != "s1" || c.Witness != events.WitnessAgent || c.Repeats != 0 || c.Observed != nil || c.SelfReported.Status != "ok" {
			t.Errorf("%+v", c)
		}
	}
	st := h.status(u, func(st HookStatus) bool { return st.Waiting == 0 })
	if st.Refused != 0 || st.Errors != 0 || st.Trouble != "" {
		t.Errorf("%+v", st)
	}
	if sum := st.Delivered + second.StatusOf()["agent/piper"].Delivered; sum != n+1 {
		t.Errorf("%d delivered", sum)
	}
	if begun, err := os.ReadDir(filepath.Join(h.dir.Hooks(), "agent.piper", "begun")); err != nil || len(begun) != 0 {
		t.Errorf("%v, %d calls are under way", err, len(begun))
	}
	h.stop(u)
}

// notAnAgents is an event that no agent may write.
func notAnAgents(t *testing.T) []byte {
	return eventstest.Encode(t, &events.OpportunityDetected{OpportunityID: "opp-1", Kind: "why", Component: "scan", DetectorVersion: "1", TextSpanHash: hashOf(nil)})
}

// TestHooksWhileNobodyRuns: what is left meanwhile is delivered after the next start.
// What can never be delivered is said and kept, and nothing waits behind it.
func TestHooksWhileNobodyRuns(t *testing.T) {
	h := newHookHouse(t)
	u := h.up()
	h.run(hookPayload("PostToolUse", 1))
	h.calls(u, 1)
	h.stop(u)
	h.run(hookPayload("PostToolUse", 2))
	to := hooks.DropOf(string(h.dir), "agent/piper")
	bad := [][]byte{[]byte("{"), []byte(`[1]`), notAnAgents(t), bytes.Repeat([]byte("x"), drop.MaxEvent)}
	for _, event := range bad { // not an agent's
		if err := to.Put(event, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	refused := len(bad)
	if err := os.WriteFile(filepath.Join(string(to), "0.event"), nil, 0o600); err != nil { // the oldest, of no byte
		t.Fatal(err)
	}
	refused++
	if os.Getuid() == 0 { // her word, but not her file
		path := filepath.Join(string(to), "1.event")
		foreign := eventstest.Gate(t)
		if err := errors.Join(os.WriteFile(path, foreign, 0o644), os.Chown(path, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		refused++
	}
	for name, trap := range map[string]func(string) error{
		"2.event":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"3.event":    func(path string) error { return os.Symlink("/etc/passwd", path) },
		"errors.log": func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		if err := trap(filepath.Join(string(to), name)); err != nil {
			t.Fatal(err)
		}
	}
	h.run(hookPayload("PostToolUse", 3))
	hers := wellFormed(t, to)
	for again := range 2 {
		if again == 1 { // as after a crash before it was taken out
			if err := to.Put(hers, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		u = h.up()
		st := h.status(u, func(st HookStatus) bool { return st.Waiting == 0 && st.Refused > 0 && st.Delivered > 0 })
		calls := h.calls(u, 3)
		if len(calls) != 3 || slices.ContainsFunc(calls, func(c view.ToolCall) bool { return c.Repeats != 0 }) {
			t.Errorf("%+v", calls)
		}
		if st.Delivered != uint64(2-again) || st.Refused != refused || st.Strange != 2 || st.Errors != refused || st.Trouble != "" || !strings.Contains(st.LastError, "; it is kept as ") {
			t.Errorf("%d: %+v", again, st)
		}
		h.stop(u)
	}
	kept, err := filepath.Glob(filepath.Join(string(to), "*.refused"))
	if err != nil || len(kept) != refused {
		t.Fatalf("%v, %v", kept, err)
	}
	var found int
	for _, path := range kept {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(bad, func(b []byte) bool { return bytes.Equal(b, raw) }) {
			found++
		}
	}
	if found != len(bad) {
		t.Errorf("of %d refused events %d are kept", len(bad), found)
	}
	log, err := os.ReadFile(filepath.Join(h.dir.Gateway(), "hooks", "agent.piper", "errors.log"))
	if err != nil || !strings.Contains(string(log), "the ledger refused an event: forbidden_type at /type") {
		t.Errorf("%v\n%s", err, log)
	}
}

// wellFormed is the first event of a drop that is one.
func wellFormed(t *testing.T, d drop.Dir) []byte {
	t.Helper()
	items, err := d.Waiting(100)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if e, err := events.Decode(i.Event); i.Err == nil && err == nil && e.Data.Type() == events.TypeToolCalled {
			return i.Event
		}
	}
	t.Fatal("no event")
	return nil
}

// TestInstallationsAtOnce: the last one stands, whole, and what stood there before the
// first is put back.
func TestInstallationsAtOnce(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	dir := Dir(t.TempDir())
	file := filepath.Join(home, ".claude", "settings.json")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			in := HookInstall{Dir: dir, Client: hook.ClaudeCode, As: fmt.Sprintf("agent/a%d", i)}
			if _, err := in.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	raw, err := os.ReadFile(file)
	if n := bytes.Count(raw, []byte("--as agent/a")); err != nil || n != 3 {
		t.Errorf("%d hooks, %v\n%s", n, err, raw)
	}
	if out, err := (HookInstall{Dir: dir, Client: hook.ClaudeCode, As: "agent/piper", Remove: true}).Run(); err != nil || !out.Changed {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there was no file, and is one: %v", err)
	}
}

// TestADropOfAnotherUser is not delivered unless the gateway lets that user speak as
// its agent.
func TestADropOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: not root: no drop can be given to another user")
	}
	h := newHookHouse(t)
	h.run(hookPayload("PostToolUse", 1))
	to := filepath.Join(h.dir.Hooks(), "agent.piper")
	give := func(uid int) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(to, "*.event"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := errors.Join(os.Chown(to, uid, -1), os.Chown(files[0], uid, -1)); err != nil {
			t.Fatal(err)
		}
	}
	callers := func(text string) {
		t.Helper()
		if err := os.WriteFile(h.dir.GatewayFile(), []byte(`{"v":1,"callers":[`+text+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give(12345)
	if _, err := principal.Dir(h.dir).Add(principal.New(principal.Agent, "other", "production")); err != nil {
		t.Fatal(err)
	}
	callers(`{"uid":12345,"principal":"agent/other"}`)
	u, err := StartUp(t.Context(), UpConfig{Dir: h.dir, Software: "test", Log: zerolog.Nop(), Seal: time.Hour, Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	st := h.status(u, func(st HookStatus) bool { return st.Trouble != "" })
	if st.Waiting != 1 || !strings.Contains(st.Trouble, "belongs to uid 12345, who may not speak as agent/piper") {
		t.Errorf("%+v", st)
	}
	callers(`{"uid":12345,"principal":"agent/piper"}`)
	if err := u.Door.Reload(); err != nil {
		t.Fatal(err)
	}
	h.calls(u, 1)
	h.status(u, func(st HookStatus) bool { return st.Waiting == 0 && st.Trouble == "" && st.Refused == 0 })
	h.stop(u)
}

// TestHooksWithoutCredential: what a principal may not send waits for the day that it
// may.
func TestHooksWithoutCredential(t *testing.T) {
	h := newHookHouse(t)
	c := hooks.Config{Client: hook.ClaudeCode, Dir: string(h.dir), As: "agent/other", Now: time.Now}
	if err := c.Record([]byte(hookPayload("PostToolUse", 1))); err != nil {
		t.Fatal(err)
	}
	u := h.up()
	var st HookStatus
	for range 600 {
		if st = u.Hooks.StatusOf()["agent/other"]; st.Trouble != "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if st.Waiting != 1 || !strings.Contains(st.Trouble, "there is no credential of agent/other: `assay principal add agent/other` makes one") {
		t.Errorf("%+v", st)
	}
	if _, err := principal.Dir(h.dir).Add(principal.New(principal.Agent, "other", "production")); err != nil {
		t.Fatal(err)
	}
	if err := Ask(t.Context(), h.dir.Socket(), "POST", "/reload", nil, new(map[string]bool)); err != nil {
		t.Fatal(err)
	}
	h.calls(u, 1)
	h.stop(u)
}

// TestRecorderSpools: what an agent records while nobody runs is delivered in order
// with what she records after it.
func TestRecorderSpools(t *testing.T) {
	h := newHookHouse(t)
	r := NewRecorder(h.dir, "agent/piper")
	defer r.Close()
	publish := func() (seq uint64, spooled bool) {
		t.Helper()
		a, err := r.Publish(context.Background(), eventstest.Gate(t))
		if err != nil || a.Refusal != nil {
			t.Fatal(a, err)
		}
		if a.Seq != nil {
			seq = *a.Seq
		}
		return seq, a.Spooled
	}
	if seq, spooled := publish(); !spooled || seq != 0 {
		t.Errorf("%d, %v", seq, spooled)
	}
	u := h.up()
	h.status(u, func(st HookStatus) bool { return st.Delivered == 1 && st.Waiting == 0 })
	if seq, spooled := publish(); spooled || seq == 0 {
		t.Errorf("%d, %v", seq, spooled)
	}
	a, err := r.Publish(t.Context(), notAnAgents(t))
	if err != nil || a.Refusal == nil || a.Refusal.Code != "forbidden_type" {
		t.Errorf("%+v, %v", a, err)
	}
	h.stop(u)
	if _, err := NewRecorder(h.dir, "agent/nobody").Publish(t.Context(), eventstest.Gate(t)); err == nil || !strings.Contains(err.Error(), "no credential of agent/nobody") {
		t.Error(err)
	}
}
