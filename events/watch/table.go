package watch

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite" // the driver "sqlite"
	lib "modernc.org/sqlite/lib"
)

// Table names what is watched.
type Table struct {
	Path    string   `json:"path"` // of the database
	Name    string   `json:"name"`
	ID      string   `json:"id"` // column that tells beliefs apart
	Content []string `json:"content"`
	// Meta are the columns that may be edited without a revision of the agent's; in
	// any other column that is not named an edit is not looked at.
	Meta []string `json:"meta,omitzero"`
	// Version is the column in which the store counts versions; "" without one.
	Version string `json:"version,omitzero"`
	// Prefix stands before the id in the ledger.
	Prefix string `json:"prefix,omitzero"`
}

func (t Table) same(o Table) bool {
	return t.Path == o.Path && t.Name == o.Name && t.ID == o.ID && slices.Equal(t.Content, o.Content) && slices.Equal(t.Meta, o.Meta) &&
		t.Version == o.Version && t.Prefix == o.Prefix
}

var (
	// ErrNoTable means that the database has no such table, or the table no such column.
	ErrNoTable = errors.New("no such table or column")
	// ErrNotUnique means that two rows have one id, so that neither can be told from
	// the other.
	ErrNotUnique = errors.New("the id is not unique")
)

// errMoved means that an idle database was written to while it was read.
var errMoved = errors.New("the database changed while it was read")

// busyTimeout is how long a read waits for a writer.
const busyTimeout = 2 * time.Second

// source is one connection to the database. It only reads: the file is opened so, and
// the connection refuses to write.
type source struct {
	Table
	db   *sql.DB
	conn *sql.Conn
	file os.FileInfo // that was opened
	seen int64       // data_version at the last look
	// idle is a database in WAL mode that nobody has open, of another user: without its
	// files beside it, which that user's process removed and this one may not make, it
	// can only be read as a file that does not change. It is, as long as it does not.
	idle bool
}

// open opens the database for reading, and if that takes files that cannot be made, as
// one that nobody has open.
func open(ctx context.Context, t Table) (*source, error) {
	s, err := connect(ctx, t, false)
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_READONLY || e.Code()&0xff == lib.SQLITE_CANTOPEN) && !inUse(t.Path) {
		return connect(ctx, t, true)
	}
	return s, err
}

// inUse says whether a process that writes has the database open in WAL mode.
func inUse(path string) bool {
	_, err := os.Stat(path + "-wal")
	return err == nil
}

func connect(ctx context.Context, t Table, idle bool) (s *source, err error) {
	s = &source{Table: t, idle: idle}
	if s.file, err = os.Stat(t.Path); err != nil {
		return nil, err
	}
	query := url.Values{"mode": {"ro"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "query_only(1)"}}
	if idle {
		query.Set("immutable", "1")
	}
	dsn := url.URL{Scheme: "file", Path: t.Path, RawQuery: query.Encode()}
	if s.db, err = sql.Open("sqlite", dsn.String()); err != nil {
		return nil, err
	}
	if s.conn, err = s.db.Conn(ctx); err == nil { // data_version is a connection's
		err = s.checkColumns(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *source) close() error {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	return s.db.Close()
}

// checkColumns looks for the columns by name: SQLite takes a quoted name that it does
// not know for a text.
func (s *source) checkColumns(ctx context.Context) error {
	rows, err := s.conn.QueryContext(ctx, `SELECT name FROM pragma_table_xinfo(?)`, s.Name)
	if err != nil {
		return err
	}
	defer rows.Close()
	have := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		have[name] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(have) == 0 {
		return fmt.Errorf("%w: %q", ErrNoTable, s.Name)
	}
	for _, c := range s.columns() {
		if !have[c] {
			return fmt.Errorf("%w: %q has no %q", ErrNoTable, s.Name, c)
		}
	}
	return nil
}

// columns are those that a look reads, in order.
func (s *source) columns() []string {
	out := append([]string{s.ID}, s.Content...)
	out = append(out, s.Meta...)
	if s.Version != "" {
		out = append(out, s.Version)
	}
	return out
}

// replaced says whether the path leads to another file than the one that is open, or
// to none, or an idle one is used again.
func (s *source) replaced() bool {
	now, err := os.Stat(s.Path)
	return err != nil || !os.SameFile(s.file, now) ||
		s.idle && (inUse(s.Path) || now.Size() != s.file.Size() || !now.ModTime().Equal(s.file.ModTime()))
}

// changed says whether somebody committed since the last look.
func (s *source) changed(ctx context.Context) (bool, error) {
	var v int64
	err := s.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&v)
	return v != s.seen, err
}

// look reads the table as it is at one moment. data_version is read before: what is
// committed in between is seen by the next look as well.
func (s *source) look(ctx context.Context) (map[string]row, error) {
	var version int64
	if err := s.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return nil, err
	}
	var list []string
	for _, c := range s.columns() {
		// The driver turns values of some declared types into others; an expression has no
		// declared type.
		list = append(list, `+"`+strings.ReplaceAll(c, `"`, `""`)+`"`)
	}
	rows, err := s.conn.QueryContext(ctx, "SELECT "+strings.Join(list, ",")+` FROM "`+strings.ReplaceAll(s.Name, `"`, `""`)+`"`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]row{}
	values, refs := make([]any, len(list)), make([]any, len(list))
	for i := range values {
		refs[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(refs...); err != nil {
			return nil, err
		}
		id := s.Prefix + beliefID(s.Prefix, values[0])
		if _, twice := out[id]; twice {
			return nil, fmt.Errorf("%w: two rows of %q have %s", ErrNotUnique, s.Name, id)
		}
		out[id] = s.row(values[1:])
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if s.idle && s.replaced() {
		return nil, errMoved
	}
	s.seen = version
	return out, nil
}

func (s *source) row(values []any) row {
	r := row{Content: hashOf(values[:len(s.Content)])}
	values = values[len(s.Content):]
	if len(s.Meta) > 0 {
		r.Meta = hashOf(values[:len(s.Meta)])
	}
	if s.Version != "" {
		if n, ok := values[len(s.Meta)].(int64); ok && n >= 1 {
			r.Version = &n
		}
	}
	return r
}

// bytesOf are the bytes of a value that are hashed: of a text its own, of anything else
// a zero byte, a letter and the value, so that no two values of different types are one.
func bytesOf(v any) []byte {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case []byte:
		return append([]byte("\x00b"), v...)
	case int64:
		return strconv.AppendInt([]byte("\x00i"), v, 10)
	case float64:
		return strconv.AppendFloat([]byte("\x00r"), v, 'g', -1, 64)
	case nil:
		return []byte("\x00n")
	}
	panic(fmt.Sprintf("SQLite has no values of type %T", v))
}

// hashOf is the hash of one value, or of several the hash of their hashes.
func hashOf(values []any) string {
	if len(values) == 1 {
		h := sha256.Sum256(bytesOf(values[0]))
		return hex.EncodeToString(h[:])
	}
	all := sha256.New()
	for _, v := range values {
		h := sha256.Sum256(bytesOf(v))
		all.Write(h[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// IsPrefix says whether ids may begin so.
func IsPrefix(s string) bool { return len(s) < 64 && (s == "" || idPattern.MatchString(s)) }

// beliefID is an id as the ledger takes it: texts and whole numbers that are one stand
// for themselves, anything else is named by its hash.
func beliefID(prefix string, v any) string {
	text, ok := v.(string)
	if n, isInt := v.(int64); isInt {
		text, ok = strconv.FormatInt(n, 10), true
	}
	if ok && idPattern.MatchString(prefix+text) {
		return text
	}
	return "sha256:" + hashOf([]any{v})
}
