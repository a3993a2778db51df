package watch

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/publish"
	"assay/internal/durable"
	"assay/schema"
)

// TestMain is also the agent's process: with writerEnv it writes to the database named
// there, as often as the second argument says.
func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		if err := write(path, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(readerEnv); path != "" {
		if err := read(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	writerEnv = "ASSAY_TEST_WRITER"
	readerEnv = "ASSAY_TEST_READER"
)

// read prints how many beliefs there are.
func read(path string) error {
	src, err := open(context.Background(), Table{Path: path, Name: "beliefs", ID: "id", Content: []string{"content"}})
	if err != nil {
		return err
	}
	rows, err := src.look(context.Background())
	fmt.Printf("%d idle %t replaced %t", len(rows), src.idle, src.replaced())
	return errors.Join(err, src.close())
}

// write commits n times, and waits for nobody: a lock of a reader's is an error.
func write(path, n string) error {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(0)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	times, err := strconv.Atoi(n)
	for i := 0; i < times && err == nil; i++ {
		_, err = db.Exec(`UPDATE beliefs SET content = ?, version = version + 1 WHERE id = ?`, fmt.Sprint("content ", i), fmt.Sprint("b", i%10))
		time.Sleep(time.Millisecond)
	}
	return err
}

// store is an agent's database.
type store struct {
	t    *testing.T
	path string
	db   *sql.DB
}

func newStore(t *testing.T, journal string) *store {
	s := &store{t: t, path: filepath.Join(t.TempDir(), "mind.db")}
	s.open(journal)
	s.exec(`CREATE TABLE beliefs(id TEXT, content TEXT, note DATETIME, label TEXT, seen INTEGER, version INTEGER)`)
	return s
}

func (s *store) open(journal string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", s.path+"?_pragma=journal_mode("+journal+")")
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	s.t.Cleanup(func() { db.Close() })
}

func (s *store) exec(query string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(query, args...); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
}

func (s *store) insert(id, content any) {
	s.t.Helper()
	s.exec(`INSERT INTO beliefs(id, content, label, seen) VALUES(?, ?, 'guess', 0)`, id, content)
}

func (s *store) table() Table {
	return Table{Path: s.path, Name: "beliefs", ID: "id", Content: []string{"content"}, Meta: []string{"label"}}
}

func sha(text string) string { h := sha256.Sum256([]byte(text)); return hex.EncodeToString(h[:]) }

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

// TestTablesThatCannotBeWatched.
func TestTablesThatCannotBeWatched(t *testing.T) {
	s := newStore(t, "wal")
	s.insert("b1", "one")
	for _, tt := range []struct {
		name   string
		change func(*Table)
		want   error
	}{
		{"no table", func(t *Table) { t.Name = "belief" }, ErrNoTable},
		{"no content", func(t *Table) { t.Content = []string{"content", "contents"} }, ErrNoTable},
		{"no id", func(t *Table) { t.ID = "rowid" }, ErrNoTable},
		{"no metadata", func(t *Table) { t.Meta = []string{"labels"} }, ErrNoTable},
		{"no version", func(t *Table) { t.Version = "v" }, ErrNoTable},
		{"a name that is SQL", func(t *Table) { t.Name = `beliefs"; DROP TABLE beliefs; --` }, ErrNoTable},
		{"no file", func(t *Table) { t.Path += "x" }, os.ErrNotExist},
	} {
		table := s.table()
		tt.change(&table)
		w := mustOpen(t, config(t, table, newLedger(t)))
		if err := w.Once(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		mustClose(t, w)
	}
	s.insert("b1", "two")
	w := mustOpen(t, config(t, s.table(), newLedger(t)))
	defer mustClose(t, w)
	if err := w.Run(t.Context()); !errors.Is(err, ErrNotUnique) {
		t.Error(err)
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

// TestValues: no two values of different types, and no two rows of different columns,
// have one hash; a text has the hash of its bytes.
func TestValues(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t)
	table := Table{Path: s.path, Name: "v", ID: "id", Content: []string{"a", "b"}}
	s.exec(`CREATE TABLE v(id INTEGER PRIMARY KEY, a, b)`)
	for _, v := range []string{"NULL, NULL", "1, NULL", "NULL, 1", "1.0, NULL", "'1', NULL", "x'31', NULL", "'', ''", "CAST(x'ff' AS TEXT), 1", "CAST(x'fe' AS TEXT), 1", "'ab', 'c'", "'a', 'bc'"} {
		s.exec(`INSERT INTO v(a, b) VALUES(` + v + `)`)
	}
	// A declared type changes nothing: the driver would make one time of these two.
	s.exec(`CREATE TABLE times(id INTEGER PRIMARY KEY, a DATETIME)`)
	s.exec(`INSERT INTO times(a) VALUES('2026-01-01 00:00:00'), ('2026-01-01T00:00:00Z')`)
	times := mustOpen(t, config(t, Table{Path: s.path, Name: "times", ID: "id", Content: []string{"a"}}, l.knows("2026-01-01 00:00:00", "2026-01-01T00:00:00Z")))
	once(t, times)
	mustClose(t, times)
	l.want("created 1 v? 2026-01-01 00:00:00", "created 2 v? 2026-01-01T00:00:00Z")
	w := mustOpen(t, config(t, table, l))
	defer mustClose(t, w)
	once(t, w)
	seen := map[string]string{}
	for _, line := range l.said() {
		var id, hash string
		if _, err := fmt.Sscanf(line, "created %s v? %s", &id, &hash); err != nil || seen[hash] != "" {
			t.Errorf("%s, %v, as %s", line, err, seen[hash])
		}
		seen[hash] = id
	}
	a, b := sha256.Sum256([]byte("ab")), sha256.Sum256([]byte("c"))
	both := sha256.Sum256(append(a[:], b[:]...))
	if len(seen) != 11 || seen[hex.EncodeToString(both[:])] != "10" {
		t.Errorf("%v", seen)
	}
	for v, want := range map[any]string{"b-1": "b-1", int64(-1): "sha256:" + hashOf([]any{int64(-1)}), "a b": "sha256:" + sha("a b"), "": "sha256:" + sha(""), strings.Repeat("x", 200): "sha256:" + sha(strings.Repeat("x", 200))} {
		if got := beliefID("", v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

// TestAnotherProcessWrites: an agent's process writes while the table is watched, is
// never kept waiting, and what it left is told.
func TestAnotherProcessWrites(t *testing.T) {
	s, l := newStore(t, "wal"), newLedger(t)
	for i := range 10 {
		s.exec(`INSERT INTO beliefs(id, content, version) VALUES(?, 'start', 1)`, fmt.Sprint("b", i))
	}
	table := s.table()
	table.Version = "version"
	w := mustOpen(t, config(t, table, l))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "300")
	cmd.Env = append(os.Environ(), writerEnv+"="+s.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the agent was disturbed: %v\n%s", err, out)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if w.Looks < 5 {
		t.Errorf("only %d looks while it wrote", w.Looks)
	}
	once(t, w)
	mustClose(t, w)
	last := map[string]string{}
	for _, line := range l.said() {
		if words := strings.Fields(line); words[0] == "content" {
			last[words[1]] = words[3]
		}
	}
	for i := range 10 {
		if id := fmt.Sprint("b", i); last[id] != sha(fmt.Sprint("content ", 290+i)) {
			t.Errorf("%s was last told as %q", id, last[id])
		}
	}
	var n int
	if err := s.db.QueryRow(`SELECT count(*) FROM beliefs`).Scan(&n); err != nil || n != 10 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestDatabaseIsReplaced: another file under the path is another look, and one that is
// away for a while is waited for.
func TestDatabaseIsReplaced(t *testing.T) {
	s, l := newStore(t, "delete"), newLedger(t).knows("one", "two")
	s.insert("b1", "one")
	w := mustOpen(t, config(t, s.table(), l))
	defer mustClose(t, w)
	once(t, w)
	l.want("created b1 v? one")
	aside := s.path + ".aside"
	s.exec(`VACUUM INTO '` + aside + `'`)
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	if err := w.look(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.Rename(aside, s.path); err != nil {
		t.Fatal(err)
	}
	s.open("delete")
	once(t, w)
	l.want() // a copy of the same
	s.exec(`UPDATE beliefs SET content = 'two'`)
	once(t, w)
	l.want("content b1 v?-? two")
}

// TestOfAnotherUser: a watcher that may only read sees the table while the agent has the
// database open, and when it has gone.
func TestOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: not root: another user is not tried")
	}
	s := newStore(t, "wal")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(s.path)
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	reader := filepath.Join(dir, "reader")
	if err := errors.Join(os.WriteFile(reader, binary, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	want := func(want string) {
		t.Helper()
		cmd := exec.Command(reader)
		cmd.Env, cmd.Dir = []string{readerEnv + "=" + s.path}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
	s.insert("b1", "one")
	want("1 idle false replaced false")
	s.insert("b2", "one")
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	want("2 idle true replaced false")
	s.open("wal")
	s.insert("b3", "one")
	want("3 idle false replaced false")
}

// TestIdleUntilItIsUsed: what is read as a file that does not change is no longer once it
// does.
func TestIdleUntilItIsUsed(t *testing.T) {
	s := newStore(t, "wal")
	s.insert("b1", "one")
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := connect(t.Context(), s.table(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	if rows, err := src.look(t.Context()); err != nil || len(rows) != 1 || src.replaced() {
		t.Fatalf("%v, %v", rows, err)
	}
	s.open("wal")
	s.insert("b2", "one")
	if _, err := src.look(t.Context()); !errors.Is(err, errMoved) || !src.replaced() {
		t.Errorf("while it is in use: %v", err)
	}
	if err := s.db.Close(); err != nil { // what it wrote goes into the file
		t.Fatal(err)
	}
	if _, err := src.look(t.Context()); !errors.Is(err, errMoved) {
		t.Errorf("behind it: %v", err)
	}
}

// TestItOnlyReads: the connection cannot write, whatever it is asked.
func TestItOnlyReads(t *testing.T) {
	s := newStore(t, "wal")
	src, err := open(t.Context(), s.table())
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	for _, q := range []string{`INSERT INTO beliefs(id) VALUES('x')`, `DROP TABLE beliefs`, `PRAGMA user_version = 7`} {
		if _, err := src.conn.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s was done", q)
		}
	}
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
