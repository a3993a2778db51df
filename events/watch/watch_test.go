package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/publish"
	"assay/internal/durable"
	"assay/schema"
)

// ledgerOf takes events as a ledger does, and says them in words.
type ledgerOf struct {
	t     *testing.T
	names map[string]string // by hash
	lines []string
	ids   []string
	err   error // instead of taking
}

func newLedger(t *testing.T) *ledgerOf {
	return &ledgerOf{t: t, names: map[string]string{sha(""): "nothing"}}
}

func (l *ledgerOf) knows(texts ...string) *ledgerOf {
	for _, s := range texts {
		l.names[sha(s)] = s
	}
	return l
}

func (l *ledgerOf) publish(_ context.Context, raw []byte) error {
	if l.err != nil {
		return l.err
	}
	if _, fault := schema.Check(raw); fault != nil {
		l.t.Fatalf("%v in %s", fault, raw)
	}
	ev, err := events.Decode(raw)
	if err != nil {
		l.t.Fatal(err)
	}
	l.ids = append(l.ids, ev.ID)
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	content := func(hash string) string {
		if name := l.names[hash]; name != "" {
			return name
		}
		return hash
	}
	var line string
	switch d := ev.Data.(type) {
	case *events.BeliefCreated:
		line = fmt.Sprintf("created %s v%s %s", d.BeliefID, number(d.Version), content(d.ContentSHA256))
	case *events.BeliefRevised:
		line = fmt.Sprintf("%s %s v%s-%s %s", d.Change, d.BeliefID, number(d.OldVersion), number(d.NewVersion), content(d.ContentSHA256))
		if d.OldContentSHA256 != nil {
			line += " was " + content(*d.OldContentSHA256)
		}
		if d.Authorised != nil {
			line += fmt.Sprintf(" authorised %t", *d.Authorised)
		}
		if d.Reason != nil {
			line += ": " + *d.Reason
		}
	default:
		l.t.Fatalf("%s", raw)
	}
	if c := ev.Data.Common(); *c.Author != "dispatcher/audit" || *c.Component != "assay watch sqlite" || *c.Capture != "live" {
		l.t.Errorf("%s", raw)
	}
	l.lines = append(l.lines, line)
	return nil
}

// said are the events since the last call.
func (l *ledgerOf) said() (out []string) { out, l.lines = l.lines, nil; return out }

func (l *ledgerOf) want(want ...string) {
	l.t.Helper()
	if got := l.said(); !slices.Equal(got, want) {
		l.t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func config(t *testing.T, table Table, l *ledgerOf) Config {
	return Config{
		Table: table, State: filepath.Join(t.TempDir(), "watch", "state.json"), Author: "dispatcher/audit", Publish: l.publish,
		Interval: time.Millisecond, Log: zerolog.Nop(),
	}
}

func mustOpen(t *testing.T, c Config) *Watcher {
	t.Helper()
	w, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustClose(t *testing.T, w *Watcher) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func once(t *testing.T, w *Watcher) {
	t.Helper()
	if err := w.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestChangesAreTold: of every kind of change there is one event, whatever the journal.
func TestChangesAreTold(t *testing.T) {
	for _, journal := range []string{"wal", "delete"} {
		t.Run(journal, func(t *testing.T) {
			s, l := newStore(t, journal), newLedger(t).knows("one", "two", "three", "four")
			w := mustOpen(t, config(t, s.table(), l))
			defer mustClose(t, w)
			s.insert("b1", "one")
			s.insert(7, "two")
			once(t, w)
			l.want("created 7 v? two", "created b1 v? one")
			once(t, w)
			l.want()
			s.exec(`UPDATE beliefs SET content = 'three' WHERE id = 'b1'`)
			once(t, w)
			l.want("content b1 v?-? three")
			s.exec(`UPDATE beliefs SET label = 'know', seen = 1 WHERE id = 'b1'`)
			once(t, w)
			l.want("metadata b1 v?-? three authorised true")
			s.exec(`UPDATE beliefs SET seen = 2, note = '2026-01-01'`) // nobody asked for it
			once(t, w)
			l.want()
			s.exec(`UPDATE beliefs SET content = 'four', label = 'guess' WHERE id = 'b1'`)
			once(t, w)
			l.want("content b1 v?-? four", "metadata b1 v?-? four authorised true")
			s.exec(`DELETE FROM beliefs WHERE id = 'b1'`)
			once(t, w)
			l.want("content b1 v?-? nothing: the row was deleted")
			once(t, w)
			l.want()
			s.insert("b1", "four") // the same as before
			once(t, w)
			l.want("content b1 v?-? four: the id of a deleted row is used again")
			s.exec(`UPDATE beliefs SET id = 'b2' WHERE id = 'b1'`)
			once(t, w)
			l.want("content b1 v?-? nothing: the row was deleted", "created b2 v? four")
			if w.Rows() != 2 || w.Waiting() != 0 || w.Sent != 10 {
				t.Errorf("%d rows, %d waiting, %d sent", w.Rows(), w.Waiting(), w.Sent)
			}
		})
	}
}

// TestVersions: a content that came with a version is told with it; one that did not
// count on has none.
func TestVersions(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one", "two", "three")
	table := s.table()
	table.Version, table.Prefix = "version", "mem/"
	w := mustOpen(t, config(t, table, l))
	defer mustClose(t, w)
	s.exec(`INSERT INTO beliefs(id, content, version) VALUES('b', 'one', 1), ('none', 'one', NULL), ('text', 'one', 'v1'), ('zero', 'one', 0)`)
	once(t, w)
	l.want("created mem/b v1 one", "created mem/none v? one", "created mem/text v? one", "created mem/zero v? one")
	s.exec(`UPDATE beliefs SET content = 'two', version = 2 WHERE id = 'b'`)
	once(t, w)
	l.want("content mem/b v1-2 two was one")
	s.exec(`UPDATE beliefs SET content = 'three' WHERE id = 'b'`)
	once(t, w)
	l.want("content mem/b v2-? three was two")
	s.exec(`UPDATE beliefs SET version = 3 WHERE id = 'b'`)
	once(t, w)
	l.want("metadata mem/b v2-3 three was three")
	s.exec(`DELETE FROM beliefs WHERE id = 'b'`)
	once(t, w)
	l.want("content mem/b v3-? nothing was three: the row was deleted")
	s.exec(`INSERT INTO beliefs(id, content, version) VALUES('b', 'two', 9)`)
	once(t, w)
	l.want("content mem/b v?-? two: the id of a deleted row is used again")
}

// TestRestart: a watcher that comes back finds what changed while it was away, and says
// that nobody watched; it tells nothing twice.
func TestRestart(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one", "two")
	c := config(t, s.table(), l)
	s.insert("b1", "one")
	s.insert("b2", "one")
	w := mustOpen(t, c)
	once(t, w)
	mustClose(t, w)
	l.want("created b1 v? one", "created b2 v? one")
	s.exec(`UPDATE beliefs SET content = 'two' WHERE id = 'b1'`)
	s.exec(`DELETE FROM beliefs WHERE id = 'b2'`)
	s.insert("b3", "two")
	w = mustOpen(t, c)
	once(t, w)
	const away = "; it was found at the start, and happened while nobody watched"
	l.want("content b1 v?-? two: the row was changed"+away, "content b2 v?-? nothing: the row was deleted"+away, "created b3 v? two")
	s.exec(`UPDATE beliefs SET content = 'one' WHERE id = 'b1'`)
	once(t, w)
	l.want("content b1 v?-? one")
	mustClose(t, w)
	w = mustOpen(t, c)
	defer mustClose(t, w)
	once(t, w)
	l.want()
	raw, err := os.ReadFile(c.State)
	if err != nil || strings.Contains(string(raw), "two") {
		t.Errorf("the state holds content: %s, %v", raw, err)
	}
}

// TestNothingIsLostOnTheWay: what the ledger did not take is sent again, byte for byte,
// also by another watcher.
func TestNothingIsLostOnTheWay(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one", "two")
	c := config(t, s.table(), l)
	s.insert("b1", "one")
	w := mustOpen(t, c)
	l.err = errors.New("no receipt")
	if err := w.Once(t.Context()); !errors.Is(err, l.err) {
		t.Fatal(err)
	}
	first := string(w.state.Pending[0].Event)
	mustClose(t, w) // as after a crash: nothing was saved since
	s.exec(`UPDATE beliefs SET content = 'two'`)
	w = mustOpen(t, c)
	defer mustClose(t, w)
	if len(w.state.Pending) != 1 || string(w.state.Pending[0].Event) != first {
		t.Fatalf("%s, first %s", w.state.Pending[0].Event, first)
	}
	l.err = nil
	once(t, w)
	l.want("created b1 v? one", "content b1 v?-? two: the row was changed; it was found at the start, and happened while nobody watched")
	slices.Sort(l.ids)
	if n := len(slices.Compact(l.ids)); n != 2 {
		t.Errorf("%d ids", n)
	}
}

// TestGrace: an event waits, so that the agent's own comes first; what happens meanwhile
// is seen.
func TestGrace(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one", "two")
	c := config(t, s.table(), l)
	now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	c.Grace, c.Now = time.Minute, func() time.Time { return now }
	w := mustOpen(t, c)
	defer mustClose(t, w)
	step := func() {
		t.Helper()
		if err := errors.Join(w.look(t.Context()), w.tell(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	s.insert("b1", "one")
	step()
	now = now.Add(30 * time.Second)
	s.exec(`UPDATE beliefs SET content = 'two'`)
	step()
	l.want()
	now = now.Add(30 * time.Second)
	step()
	l.want("created b1 v? one")
	now = now.Add(30*time.Second - 1)
	step()
	l.want()
	now = now.Add(1)
	step()
	l.want("content b1 v?-? two")
}

// TestRefused: what the ledger will never take ends the watch, and stays.
func TestRefused(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t)
	s.insert("b1", "one")
	l.err = &publish.Refusal{Code: "forbidden_type"}
	w := mustOpen(t, config(t, s.table(), l))
	defer mustClose(t, w)
	if err := w.Run(t.Context()); !errors.Is(err, publish.ErrRefused) || w.Waiting() != 1 {
		t.Errorf("%v, %d waiting", err, w.Waiting())
	}
}

// TestStates: a state is one watcher's, and one table's.
func TestStates(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t)
	c := config(t, s.table(), l)
	w := mustOpen(t, c)
	if _, err := Open(c); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second watcher: %v", err)
	}
	once(t, w)
	mustClose(t, w)
	other := c
	other.Table.Content = []string{"content", "note"}
	if _, err := Open(other); !errors.Is(err, ErrOtherTable) {
		t.Error(err)
	}
	for _, raw := range []string{"", "{}", `{"v":2}`, `{"v":1,"rows":{},"more":1}`} {
		if err := os.WriteFile(c.State, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(c); err == nil {
			t.Errorf("%q was taken for a state", raw)
		}
	}
	if err := os.Remove(c.State); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, c)) // none of the failures kept the lock
}

// TestStateThatCannotBeSaved: nothing is told that is not kept, and the change is found
// again.
func TestStateThatCannotBeSaved(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one")
	s.insert("b1", "one")
	c := config(t, s.table(), l)
	w := mustOpen(t, c)
	defer mustClose(t, w)
	good := w.State
	w.State = filepath.Join(good, "below", "a", "file")
	if err := w.Run(t.Context()); !errors.Is(err, errState) {
		t.Errorf("%v", err)
	}
	l.want()
	w.State = good
	once(t, w)
	l.want("created b1 v? one")
}

// TestRunWaits: a database that is not there yet, and a ledger that does not answer, are
// waited for.
func TestRunWaits(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t).knows("one")
	table := s.table()
	table.Path = filepath.Join(t.TempDir(), "later.db")
	c := config(t, table, l)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	tries := 0
	c.Publish = func(ctx context.Context, raw []byte) error {
		if tries++; tries < 3 {
			return errors.New("no receipt")
		}
		stop()
		return l.publish(ctx, raw)
	}
	w := mustOpen(t, c)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	time.Sleep(20 * time.Millisecond)
	s.insert("b1", "one")
	s.exec(`VACUUM INTO '` + table.Path + `'`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.want("created b1 v? one")
	if tries != 3 || w.Waiting() != 0 {
		t.Errorf("%d tries, %d waiting", tries, w.Waiting())
	}
	mustClose(t, w)
}
