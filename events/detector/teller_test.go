package detector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/internal/durable"
	"assay/schema"
)

// ledger takes events as the logger does: one id once.
type ledger struct {
	t      *testing.T
	events []*events.Event
	bytes  map[string]string
	// failAt is the event, counted from 1, that is lost; 0 for none.
	failAt, sent int
	// refuseOther says that other bytes of a known id are refused, and no test's fault.
	refuseOther bool
}

var errLost = errors.New("the ledger does not answer")

func (l *ledger) publish(_ context.Context, raw []byte) error {
	if l.sent++; l.sent == l.failAt {
		return errLost
	}
	checked, fault := schema.Check(raw)
	if fault != nil {
		l.t.Fatalf("%v: %s", fault, raw)
	}
	if !schema.MayWrite(schema.RoleDetector, checked.Type, "production") {
		l.t.Fatalf("a detector may not write %s", checked.Type)
	}
	ev, err := events.Decode(raw)
	if err != nil {
		l.t.Fatal(err)
	}
	if before, ok := l.bytes[ev.ID]; ok {
		if before != string(raw) && l.refuseOther {
			return ErrTold
		}
		if before != string(raw) {
			l.t.Errorf("one id, two events:\n%s\n%s", before, raw)
		}
		return nil
	}
	l.bytes[ev.ID] = string(raw)
	l.events = append(l.events, ev)
	return nil
}

// counted is what the ledger's events come to.
func (l *ledger) counted() (turns, positive, negative, opportunities int64, ids map[string]bool) {
	ids = map[string]bool{}
	for _, ev := range l.events {
		switch d := ev.Data.(type) {
		case *events.DetectorScanned:
			turns, positive, negative = turns+d.Turns, positive+d.Positive, negative+d.Negative
			for _, id := range d.NegativeTurnIDs {
				if ids[id] {
					l.t.Errorf("%s is counted twice", id)
				}
				ids[id] = true
			}
		case *events.OpportunityDetected:
			opportunities++
		}
	}
	return
}

func newLedger(t *testing.T) *ledger { return &ledger{t: t, bytes: map[string]string{}} }

func open(t *testing.T, dir string, l *ledger) *Teller {
	t.Helper()
	teller, err := Open(Config{
		Detector: builtIn(t), Dir: dir, Author: "detector/main", Publish: l.publish,
		Now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return teller
}

// turnsOf makes n turns of an episode, every third with a question.
func turnsOf(n int) (out []Turn) {
	for i := range n {
		text := "Run the tests."
		if i%3 == 0 {
			text = fmt.Sprintf("Why did deploy %d fail?", i)
		}
		out = append(out, Turn{Episode: "e", ID: fmt.Sprint(i), Role: "user", Text: text, Time: "2026-02-01T10:00:00+01:00"})
	}
	return out
}

// tell runs a Teller over turns as the command does.
func tell(t *testing.T, dir string, l *ledger, turns []Turn) (*Teller, error) {
	t.Helper()
	teller := open(t, dir, l)
	defer teller.Close()
	if err := teller.Resume(t.Context()); err != nil {
		return teller, err
	}
	for _, turn := range turns {
		if _, err := teller.Add(t.Context(), turn); err != nil {
			return teller, err
		}
	}
	return teller, teller.Flush(t.Context())
}

// TestTellOnce: each turn is counted once, whatever is read again, and what is lost on
// the way is sent by the next run.
func TestTellOnce(t *testing.T) {
	turns := turnsOf(600)
	whole := newLedger(t)
	if _, err := tell(t, t.TempDir(), whole, turns); err != nil {
		t.Fatal(err)
	}
	if n := len(whole.events); n != 200+3 {
		t.Fatalf("%d events", n)
	}
	for failAt := 0; failAt <= len(whole.events); failAt += 29 {
		t.Run(fmt.Sprint("lost ", failAt), func(t *testing.T) {
			dir, l := t.TempDir(), newLedger(t)
			l.failAt = failAt
			_, err := tell(t, dir, l, turns[:500])
			if (err != nil) != (failAt > 0 && failAt <= 169) || err != nil && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := tell(t, dir, l, turns); err != nil && !errors.Is(err, errLost) {
					t.Fatal(err)
				}
			}
			scanned, positive, negative, opportunities, ids := l.counted()
			if scanned != 600 || positive != 200 || negative != 400 || opportunities != 200 || len(ids) != 400 {
				t.Errorf("turns %d, positive %d, negative %d, ids %d, opportunities %d", scanned, positive, negative, len(ids), opportunities)
			}
		})
	}
}

// TestSeenIsCutOff: a crash that left half an id behind counts nothing twice.
func TestSeenIsCutOff(t *testing.T) {
	dir, l := t.TempDir(), newLedger(t)
	if _, err := tell(t, dir, l, turnsOf(10)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte("half"))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	teller, err := tell(t, dir, l, turnsOf(12))
	if err != nil || teller.Known != 10 || teller.Scanned != 2 {
		t.Fatalf("known %d, scanned %d: %v", teller.Known, teller.Scanned, err)
	}
	if teller, err = tell(t, dir, l, turnsOf(12)); err != nil || teller.Known != 12 {
		t.Fatalf("known %d: %v", teller.Known, err)
	}
}

// TestEvents: what an event says of a turn.
func TestEvents(t *testing.T) {
	l := newLedger(t)
	turns := []Turn{
		{Episode: "ep", ID: "1", Role: "user", Text: "Hello. Why did the deploy fail?", Time: "2026-02-01T10:00:00+01:00"},
		{Episode: "ep", ID: "2", Role: "assistant", Component: "worker-3", Text: "Running the tests."},
		{Episode: "ep", ID: "3", Role: "tool", Text: "why"},
		{Episode: "ep", ID: "4", Role: "user", Text: " \n"},
		{Episode: "other", ID: "1", Role: "human", Text: "Hello. Why did the deploy fail?"},
	}
	teller, err := tell(t, t.TempDir(), l, turns)
	if err != nil {
		t.Fatal(err)
	}
	if teller.Scanned != 3 || teller.Unscanned != 2 || teller.Opportunities != 2 || teller.Sent != 4 {
		t.Errorf("%+v", teller)
	}
	first, second := l.events[0].Data.(*events.OpportunityDetected), l.events[1].Data.(*events.OpportunityDetected)
	if first.Kind != "why" || first.Component != "operator" || first.DetectorVersion != builtIn(t).Version() || *first.Score <= 0.5 ||
		l.events[0].EpisodeID != "ep" || l.events[0].Time != "2026-02-01T09:00:00Z" || l.events[1].Time != "2026-03-01T12:00:00Z" {
		t.Errorf("%+v %+v", l.events[0], first)
	}
	if first.OpportunityID == second.OpportunityID || first.TextSpanHash == second.TextSpanHash {
		t.Error("two turns with one text are told apart by nothing")
	}
	// One scan for each component, so that each turn without an opportunity has one.
	for i, want := range []struct {
		stratum  events.ScannedStratum
		negative []string
	}{
		{events.ScannedStratum{Stratum: "operator", Turns: 2, Positive: 2}, nil},
		{events.ScannedStratum{Stratum: "worker-3", Turns: 1, Negative: 1}, []string{Name(turns[1], false)}},
	} {
		s := l.events[2+i].Data.(*events.DetectorScanned)
		if !slices.Equal(s.Strata, []events.ScannedStratum{want.stratum}) || !slices.Equal(s.NegativeTurnIDs, want.negative) ||
			s.Turns != want.stratum.Turns || s.Positive != want.stratum.Positive || s.Negative != want.stratum.Negative {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}

// TestSalt: the hash of a sentence depends on a salt that is made once, and no file of
// the state has its text.
func TestSalt(t *testing.T) {
	turn := turnsOf(1)
	hashIn := func(dir string) string {
		l := newLedger(t)
		if _, err := tell(t, dir, l, turn); err != nil {
			t.Fatal(err)
		}
		return l.events[0].Data.(*events.OpportunityDetected).TextSpanHash
	}
	dir := t.TempDir()
	one := hashIn(dir)
	if err := os.Remove(filepath.Join(dir, "seen")); err != nil {
		t.Fatal(err)
	}
	if again := hashIn(dir); again != one {
		t.Error("one salt, two hashes")
	}
	if other := hashIn(t.TempDir()); other == one {
		t.Error("two salts, one hash")
	}
	for _, name := range []string{"salt", "seen"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.Contains(raw, []byte("deploy")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyComponents: a batch of as many components as turns is told of whole.
func TestManyComponents(t *testing.T) {
	l := newLedger(t)
	turns := turnsOf(300)
	for i := range turns {
		turns[i].Component = fmt.Sprint("worker-", i)
	}
	if _, err := tell(t, t.TempDir(), l, turns); err != nil {
		t.Fatal(err)
	}
	if scanned, _, _, _, _ := l.counted(); scanned != 300 {
		t.Errorf("%d turns", scanned)
	}
}

// TestStateIsLost: who scans again without her state is told that the ledger has other
// bytes of these events, and goes on to what is new.
func TestStateIsLost(t *testing.T) {
	l := newLedger(t)
	l.refuseOther = true
	turns := turnsOf(10)
	if _, err := tell(t, t.TempDir(), l, turns[:9]); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // another salt, and so other bytes
	teller, err := tell(t, dir, l, turns)
	if err != nil || teller.Sent != 2 { // the tenth, and a scan of ten turns
		t.Fatalf("%d sent: %v", teller.Sent, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pending")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the batch is pending: %v", err)
	}
}

// TestStateIsCorrupt: a state that is not what was written stops the detector before it
// tells of anything, and is left as it is.
func TestStateIsCorrupt(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"empty batch":           {"pending", "", "pending"},
		"half a batch":          {"pending", `{"v":1,"turns":[`, "pending"},
		"batch of another form": {"pending", `{"v":2}`, "unsupported version"},
		"short salt":            {"salt", "0123456789", "has 10 bytes, not 32"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, l := t.TempDir(), newLedger(t)
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			teller, err := Open(Config{Detector: builtIn(t), Dir: dir, Author: "detector/main", Publish: l.publish})
			if err == nil {
				defer teller.Close()
				err = teller.Resume(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || l.sent > 0 {
				t.Errorf("%v, %d sent", err, l.sent)
			}
			if raw, err := os.ReadFile(path); err != nil || string(raw) != c.text {
				t.Errorf("%q, %v", raw, err)
			}
		})
	}
}

func TestTellerRefuses(t *testing.T) {
	dir, l := t.TempDir(), newLedger(t)
	teller := open(t, dir, l)
	defer teller.Close()
	for _, turn := range []Turn{
		{Episode: "e", Role: "user"}, {ID: "1", Role: "user"}, {Episode: "e", ID: "1", Role: "judge"}, {Episode: strings.Repeat("e", 129), ID: "1", Role: "user"},
	} {
		if _, err := teller.Add(t.Context(), turn); !errors.Is(err, ErrTurn) {
			t.Errorf("%+v: %v", turn, err)
		}
	}
	if _, err := Open(teller.Config); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		format, text string
		want         []Turn
	}{
		{"turns", "{\"episode\":\"e\",\"turn_id\":\"1\",\"role\":\"user\",\"text\":\"hi\"}\n\n{\"episode\":\"e\",\"turn_id\":\"2\",\"role\":\"user\",\"text\":\" \"}",
			[]Turn{{Episode: "e", ID: "1", Role: "user", Text: "hi"}}},
		{"claude-code", `{"type":"summary"}
{"type":"user","uuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"why?"}}
{"type":"user","uuid":"u2","sessionId":"s","isMeta":true,"message":{"content":"injected"}}
{"type":"user","uuid":"u3","sessionId":"s","message":{"content":[{"type":"tool_result","content":"why"}]}}
{"type":"assistant","uuid":"u4","sessionId":"s","isSidechain":true,"message":{"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}}`,
			[]Turn{
				{Episode: "s", ID: "u1", Role: "user", Text: "why?", Time: "2026-01-01T00:00:00Z"},
				{Episode: "s", ID: "u4", Role: "worker", Component: "worker", Text: "a\nb"},
			}},
		{"messages", `[{"role":"system","content":"x"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":[{"type":"text","text":"why"}]}]`,
			[]Turn{{Episode: "f", ID: "1", Role: "system", Text: "x"}, {Episode: "f", ID: "3", Role: "user", Text: "why"}}},
	} {
		var got []Turn
		err := Read(strings.NewReader(c.text), c.format, "f", func(t Turn) error { got = append(got, t); return nil })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v", c.format, got, err)
		}
	}
	// Half a character is no reason not to read the rest.
	for format, text := range map[string]string{
		"claude-code": `{"type":"user","uuid":"u","sessionId":"f","message":{"content":"why \ud83d"}}`, "messages": `[{"role":"user","content":"why \ud83d"}]`,
	} {
		var got []Turn
		if err := Read(strings.NewReader(text), format, "f", func(t Turn) error { got = append(got, t); return nil }); err != nil || len(got) != 1 || got[0].Text != "why \ufffd" {
			t.Errorf("%s: %+v, %v", format, got, err)
		}
	}
	for format, text := range map[string]string{
		"turns": `{"episode":"e","turn_id":"1","role":"user","txt":"hi"}`, "messages": `{"role":"user"}`, "claude-code": `{"type":`, "mail": "",
	} {
		if err := Read(strings.NewReader(text), format, "f", func(Turn) error { return nil }); !errors.Is(err, ErrTranscript) {
			t.Errorf("%s: %v", format, err)
		}
	}
}
