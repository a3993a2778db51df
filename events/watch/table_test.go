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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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
