package files

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"assay/internal/durable"
	"assay/projector/table"
)

// sqlite is an export of one database: STRICT tables, booleans as 0 and 1,
// JSON as text. Everything is one transaction without a journal, for an
// unfinished database is thrown away.
type sqlite struct {
	dir  string
	path string
	db   *sql.DB
	tx   *sql.Tx
}

const pragmas = `PRAGMA page_size=8192; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA encoding='UTF-8'; PRAGMA user_version=1;`

const facts = `
CREATE TABLE assay_export(key TEXT NOT NULL PRIMARY KEY, value TEXT) STRICT;
CREATE TABLE assay_tables(name TEXT NOT NULL PRIMARY KEY, meaning TEXT NOT NULL, "rows" INTEGER NOT NULL) STRICT;
CREATE TABLE assay_columns("table" TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,
  nullable INTEGER NOT NULL, unit TEXT, "null" TEXT, meaning TEXT NOT NULL, PRIMARY KEY("table", position)) STRICT;`

func newSQLite(dir string) (writer, error) {
	s := &sqlite{dir: dir, path: filepath.Join(dir, "db")}
	if err := durable.CreateFile(s.path, nil, 0o600); err != nil {
		return nil, err
	}
	var err error
	if s.db, err = sql.Open("sqlite", (&url.URL{Scheme: "file", Path: s.path}).String()); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1) // the pragmas are a connection's
	if _, err = s.db.Exec(pragmas); err == nil {
		if s.tx, err = s.db.BeginTx(context.Background(), nil); err == nil {
			_, err = s.tx.Exec(facts)
		}
	}
	if err != nil {
		s.abandon()
		return nil, err
	}
	return s, nil
}

// quoted is a name as SQL has it; names are those of columns and tables.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func ddl(t *table.Table) (create, insert string) {
	var columns, marks []string
	for _, c := range t.Columns {
		kind := "TEXT"
		switch c.Type {
		case table.Int, table.Bool:
			kind = "INTEGER"
		case table.Real:
			kind = "REAL"
		}
		if !c.Nullable {
			kind += " NOT NULL"
		}
		if t.Name == table.Events && c.Name == "seq" {
			kind += " PRIMARY KEY"
		}
		columns, marks = append(columns, quoted(c.Name)+" "+kind), append(marks, "?")
	}
	return "CREATE TABLE " + quoted(t.Name) + "(" + strings.Join(columns, ", ") + ") STRICT",
		"INSERT INTO " + quoted(t.Name) + " VALUES(" + strings.Join(marks, ",") + ")"
}

// sqliteTable inserts a table's rows.
type sqliteTable struct{ insert *sql.Stmt }

func (s *sqlite) add(t *table.Table) (rows, error) {
	create, insert := ddl(t)
	if _, err := s.tx.Exec(create); err != nil {
		return nil, err
	}
	stmt, err := s.tx.Prepare(insert)
	return &sqliteTable{stmt}, err
}

func (t *sqliteTable) write(r table.Row) error {
	_, err := t.insert.Exec(r...)
	return err
}

func (t *sqliteTable) close() (Written, error) { return Written{}, t.insert.Close() }

func (s *sqlite) finish(m *Manifest) error {
	if err := s.writeFacts(m); err != nil {
		return err
	}
	err := s.tx.Commit()
	if err = errors.Join(err, s.db.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *sqlite) writeFacts(m *Manifest) error {
	about, err := members(m.About)
	if err != nil {
		return err
	}
	for _, kv := range about {
		if _, err := s.tx.Exec(`INSERT INTO assay_export VALUES(?,?)`, kv[0], kv[1]); err != nil {
			return err
		}
	}
	for _, t := range m.Tables {
		if _, err := s.tx.Exec(`INSERT INTO assay_tables VALUES(?,?,?)`, t.Name, t.Meaning, t.Rows); err != nil {
			return err
		}
		for i, c := range t.Columns {
			_, err := s.tx.Exec(`INSERT INTO assay_columns VALUES(?,?,?,?,?,NULLIF(?,''),NULLIF(?,''),?)`,
				t.Name, i+1, c.Name, string(c.Type), c.Nullable, c.Unit, c.Null, c.Meaning)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// members are the members of a struct with their values as text: a string
// itself, NULL for null, else JSON.
func members(v any) ([][2]any, error) {
	text, err := encode(v)
	if err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(strings.NewReader(text))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var out [][2]any
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		kv := [2]any{name.String()}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		switch raw.Kind() {
		case 'n':
		case '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			kv[1] = s
		default:
			kv[1] = string(raw)
		}
		out = append(out, kv)
	}
	return out, nil
}

func (s *sqlite) commit(path string) error {
	if err := os.Link(s.path, path); err != nil { // unlike a rename, never replaces
		return err
	}
	return os.RemoveAll(s.dir)
}

func (s *sqlite) abandon() {
	if s.tx != nil {
		_ = s.tx.Rollback()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
}
