package files_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

	"assay/projector"
	"assay/projector/table"
	"assay/projector/table/files"
)

var formats = []files.Format{files.Parquet, files.JSONL, files.SQLite}

// about is what the exports of these tests say of themselves.
var about = files.About{
	Software: "assay test", Origin: "log/\"one\"", Checkpoint: "log\n3\nroot\n\n— sig\n", CheckpointSize: 3, From: 1, To: 2,
	Root: strings.Repeat("0", 64), Views: []projector.Version{{Projection: "claims", Version: 4}},
}

// all has a column of every type, NULL and not, with names that SQL reserves.
var all = &table.Table{Name: "all", Meaning: "Every type.", Columns: []table.Column{
	{Name: "n", Type: table.Int, Unit: "ms", Meaning: "a number"},
	{Name: "select", Type: table.Int, Nullable: true, Null: "unknown", Meaning: "another"},
	{Name: "real", Type: table.Real, Nullable: true, Null: "unknown", Meaning: "a real"},
	{Name: "end", Type: table.Bool, Nullable: true, Null: "unknown", Meaning: "a bool"},
	{Name: "text", Type: table.Text, Nullable: true, Null: "unknown", Meaning: "text"},
	{Name: "a", Type: table.JSON, Nullable: true, Null: "unknown", Meaning: "JSON"},
}}

var hostile = []string{
	"", "'; DROP TABLE \"all\";--", "a\x00b", "line\nbreak\r\t", `\"},{"n":1`, "\u2028\u202e\ufeff", "NULL", "𝔘", strings.Repeat("x", 64000),
}

func rowsOfAll() []table.Row {
	rows := []table.Row{
		{int64(math.MaxInt64), int64(math.MinInt64), 5e-324, true, "NaN", `{"n":18446744073709551616,"s":"\u0000"}`},
		{int64(1<<53 + 1), nil, nil, nil, nil, nil},
		{int64(0), int64(0), 0.0, false, "", `null`},
	}
	for i, s := range hostile {
		quoted, _ := jsontext.AppendQuote(nil, s)
		rows = append(rows, table.Row{int64(-i), nil, 0.1, nil, s, string(quoted)})
	}
	return rows
}

func mustCreate(t testing.TB, f files.Format, path string) *files.Export {
	t.Helper()
	e, err := files.Create(f, path, about)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Discard(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func mustWrite(t testing.TB, e *files.Export, tab *table.Table, rows []table.Row) {
	t.Helper()
	n, err := e.Table(t.Context(), tab, func(fn func(table.Row) error) error {
		for _, r := range rows {
			if err := fn(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || n != int64(len(rows)) {
		t.Fatalf("%d rows, %v", n, err)
	}
}

func mustCommit(t testing.TB, e *files.Export) files.Manifest {
	t.Helper()
	m, err := e.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read reads a table of an export with the libraries that others use.
func read(t testing.TB, f files.Format, path string, tab *table.Table) []table.Row {
	t.Helper()
	switch f {
	case files.Parquet:
		return readParquet(t, filepath.Join(path, tab.Name+".parquet"), tab)
	case files.JSONL:
		return readJSONL(t, filepath.Join(path, tab.Name+".jsonl"), tab)
	}
	return readSQLite(t, path, tab)
}

func mustOpenParquet(t testing.TB, path string) *parquet.File {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readParquet(t testing.TB, path string, tab *table.Table) (out []table.Row) {
	t.Helper()
	r := parquet.NewReader(mustOpenParquet(t, path))
	defer r.Close()
	for i, f := range r.Schema().Fields() {
		if c := tab.Columns[i]; f.Name() != c.Name || f.Optional() != c.Nullable {
			t.Errorf("column %d is %s, optional %v; want %s, %v", i, f.Name(), f.Optional(), c.Name, c.Nullable)
		}
	}
	for range r.NumRows() {
		batch := make([]parquet.Row, 1)
		if n, err := r.ReadRows(batch); n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
		row := make(table.Row, len(tab.Columns))
		for i, v := range batch[0] {
			switch {
			case v.IsNull():
			case v.Kind() == parquet.Int64:
				row[i] = v.Int64()
			case v.Kind() == parquet.Double:
				row[i] = v.Double()
			case v.Kind() == parquet.Boolean:
				row[i] = v.Boolean()
			default:
				row[i] = string(v.ByteArray())
			}
		}
		out = append(out, row)
	}
	return out
}

func readJSONL(t testing.TB, path string, tab *table.Table) (out []table.Row) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				t.Errorf("half a line: %q", line)
			}
			return out
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if len(members) != len(tab.Columns) {
			t.Errorf("%d members, want %d", len(members), len(tab.Columns))
		}
		row := make(table.Row, len(tab.Columns))
		for i, c := range tab.Columns {
			v := members[c.Name]
			if c.Type == table.JSON {
				row[i] = string(v)
				continue
			}
			if v.Kind() == 'n' {
				continue
			}
			switch c.Type {
			case table.Int:
				row[i] = mustJSON[int64](t, v)
			case table.Real:
				row[i] = mustJSON[float64](t, v)
			case table.Bool:
				row[i] = mustJSON[bool](t, v)
			default:
				row[i] = mustJSON[string](t, v)
			}
		}
		out = append(out, row)
	}
}

func mustJSON[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustOpenSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func readSQLite(t testing.TB, path string, tab *table.Table) (out []table.Row) {
	t.Helper()
	rows, err := mustOpenSQLite(t, path).Query(`SELECT * FROM "` + tab.Name + `" ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, refs := make(table.Row, len(tab.Columns)), make([]any, len(tab.Columns))
		for i := range refs {
			refs[i] = &row[i]
		}
		if err := rows.Scan(refs...); err != nil {
			t.Fatal(err)
		}
		for i, c := range tab.Columns {
			if n, ok := row[i].(int64); ok && c.Type == table.Bool {
				row[i] = n == 1
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		t.Run(string(f), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), `ex port%3F?#&x`)
			e := mustCreate(t, f, path)
			want := rowsOfAll()
			none := &table.Table{Name: "none", Meaning: "Nothing.", Columns: all.Columns}
			mustWrite(t, e, all, want)
			mustWrite(t, e, none, nil)
			mustCommit(t, e)
			if got := read(t, f, path, none); len(got) != 0 {
				t.Errorf("the empty table has %d rows", len(got))
			}
			got := read(t, f, path, all)
			if len(got) != len(want) {
				t.Fatalf("%d rows, want %d", len(got), len(want))
			}
			for i, row := range want {
				for c := range row {
					w := row[c]
					if w == nil && f == files.JSONL && all.Columns[c].Type == table.JSON {
						w = "null"
					}
					if got[i][c] != w {
						t.Errorf("row %d, %s: %#v, want %#v", i, all.Columns[c].Name, got[i][c], w)
					}
				}
			}
		})
	}
}

// TestManyRows: rows beyond one row group of Parquet, and one of SQLite's pages.
func TestManyRows(t *testing.T) {
	const n = 1<<16 + 100
	tab := &table.Table{Name: "many", Columns: []table.Column{{Name: "seq", Type: table.Int}, {Name: "s", Type: table.Text, Nullable: true}}}
	for _, f := range formats {
		path := filepath.Join(t.TempDir(), "x")
		e := mustCreate(t, f, path)
		row := table.Row{nil, nil} // used again, as scans do
		_, err := e.Table(t.Context(), tab, func(fn func(table.Row) error) error {
			for i := range int64(n) {
				row[0], row[1] = i, nil
				if i%3 == 0 {
					row[1] = fmt.Sprint("text ", i)
				}
				if err := fn(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e)
		got := read(t, f, path, tab)
		if len(got) != n {
			t.Fatalf("%s: %d rows, want %d", f, len(got), n)
		}
		for i, r := range got {
			var want any
			if i%3 == 0 {
				want = fmt.Sprint("text ", i)
			}
			if r[0] != int64(i) || r[1] != want {
				t.Fatalf("%s: row %d is %v", f, i, r)
			}
		}
	}
}

func TestManifestSaysWhatIsThere(t *testing.T) {
	for _, f := range []files.Format{files.Parquet, files.JSONL} {
		path := filepath.Join(t.TempDir(), "x")
		e := mustCreate(t, f, path)
		mustWrite(t, e, all, rowsOfAll())
		want := mustCommit(t, e)
		raw, err := os.ReadFile(filepath.Join(path, files.ManifestFile))
		if err != nil {
			t.Fatal(err)
		}
		got := mustJSON[files.Manifest](t, raw)
		w := got.Tables[0]
		if got.Checkpoint != about.Checkpoint || got.V != files.Version || w.Rows != int64(len(rowsOfAll())) || w.SHA256 != want.Tables[0].SHA256 || !slices.Equal(w.Columns, all.Columns) {
			t.Errorf("%s: manifest %s", f, raw)
		}
		body, err := os.ReadFile(filepath.Join(path, w.File))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != w.SHA256 || int64(len(body)) != w.Bytes {
			t.Errorf("%s: %s is not the file that the manifest names", f, w.File)
		}
		if names, _ := os.ReadDir(path); len(names) != 2 {
			t.Errorf("%s: files %v", f, names)
		}
	}
}

func TestParquetNamesItsLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	e := mustCreate(t, files.Parquet, path)
	mustWrite(t, e, all, nil)
	mustCommit(t, e)
	f := mustOpenParquet(t, filepath.Join(path, "all.parquet"))
	text, _ := f.Lookup("assay_export")
	if got := mustJSON[files.About](t, []byte(text)); got.Checkpoint != about.Checkpoint || got.To != about.To || got.V != files.Version {
		t.Errorf("assay_export %s", text)
	}
	text, _ = f.Lookup("assay_table")
	if got := mustJSON[table.Table](t, []byte(text)); !slices.Equal(got.Columns, all.Columns) {
		t.Errorf("assay_table %s", text)
	}
}

func TestSQLiteNamesItsLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	e := mustCreate(t, files.SQLite, path)
	mustWrite(t, e, all, rowsOfAll())
	mustCommit(t, e)
	db := mustOpenSQLite(t, path)
	for query, want := range map[string]string{
		`SELECT value FROM assay_export WHERE key='checkpoint'`:                                                                                     about.Checkpoint,
		`SELECT value FROM assay_export WHERE key='checkpoint_size'`:                                                                                "3",
		`SELECT coalesce(value,'none') FROM assay_export WHERE key='state_digest'`:                                                                  "none",
		`SELECT value FROM assay_export WHERE key='views'`:                                                                                          `[{"projection":"claims","version":4}]`,
		`SELECT name||' '||"rows"||' '||meaning FROM assay_tables`:                                                                                  fmt.Sprintf("all %d Every type.", len(rowsOfAll())),
		`SELECT group_concat(name||' '||type||' '||nullable||' '||coalesce(unit,'-')) FROM (SELECT * FROM assay_columns ORDER BY position LIMIT 2)`: "n integer 0 ms,select integer 1 -",
		`PRAGMA integrity_check`: "ok",
		`PRAGMA user_version`:    "1",
	} {
		var got string
		if err := db.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", query, got, err, want)
		}
	}
}

// TestSameRowsSameBytes: nothing of the moment or of the place is in the files.
func TestSameRowsSameBytes(t *testing.T) {
	for _, f := range formats {
		var sums [2]string
		for i := range sums {
			path := filepath.Join(t.TempDir(), strings.Repeat("x", i+1))
			e := mustCreate(t, f, path)
			mustWrite(t, e, all, rowsOfAll())
			mustCommit(t, e)
			sums[i] = digest(t, path)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: two exports of the same differ", f)
		}
	}
}

// digest hashes a file, or every file of a directory.
func digest(t testing.TB, path string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		fmt.Fprintf(h, "%s %d\n", strings.TrimPrefix(p, path), len(raw))
		h.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestNothingLooksWholeBefore: until Commit nothing stands under the name, as
// after a kill, and Discard leaves nothing at all.
func TestNothingLooksWholeBefore(t *testing.T) {
	for _, f := range formats {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		e := mustCreate(t, f, path)
		mustWrite(t, e, all, rowsOfAll())
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is something before the commit: %v", f, err)
		}
		killed, err := filepath.Glob(filepath.Join(dir, ".x.*"))
		if err != nil || len(killed) != 1 {
			t.Fatalf("%s: %v, %v", f, killed, err)
		}
		if _, err := os.Stat(filepath.Join(killed[0], files.ManifestFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a manifest before the commit: %v", f, err)
		}
		// Another export of the same name is not in the way of what was killed.
		other := mustCreate(t, f, path)
		mustWrite(t, other, all, nil)
		mustCommit(t, other)
		if _, err := e.Commit(); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: a second export took the name: %v", f, err)
		}
		if got := read(t, f, path, all); len(got) != 0 {
			t.Errorf("%s: the first export was replaced", f)
		}
		if err := e.Discard(); err != nil {
			t.Error(err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("%s: left behind: %v", f, names)
		}
	}
}

// TestCommitReplacesNothing: also not what took the name while the export was
// written.
func TestCommitReplacesNothing(t *testing.T) {
	for _, f := range formats {
		for what, take := range map[string]func(path string) error{
			"a file":             func(path string) error { return os.WriteFile(path, nil, 0o600) },
			"an empty directory": func(path string) error { return os.Mkdir(path, 0o700) },
			"a dangling link":    func(path string) error { return os.Symlink("nowhere", path) },
		} {
			path := filepath.Join(t.TempDir(), "x")
			e := mustCreate(t, f, path)
			mustWrite(t, e, all, rowsOfAll())
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Commit(); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s over %s: %v", f, what, err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("%s replaced %s: %v", f, what, err)
			}
			if err := e.Discard(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	for _, f := range formats {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Create(f, path, about); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", f, err)
		}
		if _, err := files.Create(f, filepath.Join(t.TempDir(), "no", "x"), about); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: without a directory: %v", f, err)
		}
	}
	dir := t.TempDir()
	if _, err := files.Create("xml", filepath.Join(dir, "x"), about); err == nil {
		t.Error("an unknown format")
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestTableFails(t *testing.T) {
	broken := errors.New("broken")
	for _, f := range formats {
		for name, tc := range map[string]struct {
			scan func(cancel func(), fn func(table.Row) error) error
			want error
		}{
			"the scan":     {func(_ func(), fn func(table.Row) error) error { return errors.Join(fn(rowsOfAll()[0]), broken) }, broken},
			"cancelled":    {func(cancel func(), fn func(table.Row) error) error { cancel(); return fn(rowsOfAll()[0]) }, context.Canceled},
			"a wrong type": {func(_ func(), fn func(table.Row) error) error { return fn(table.Row{"1", nil, nil, nil, nil, nil}) }, nil},
		} {
			dir := t.TempDir()
			e := mustCreate(t, f, filepath.Join(dir, "x"))
			ctx, cancel := context.WithCancel(t.Context())
			_, err := e.Table(ctx, all, func(fn func(table.Row) error) error { return tc.scan(cancel, fn) })
			cancel()
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: %v", f, name, err)
			}
			if err := e.Discard(); err != nil {
				t.Error(err)
			}
			if names, _ := os.ReadDir(dir); len(names) != 0 {
				t.Errorf("%s, %s: left behind: %v", f, name, names)
			}
		}
	}
}

// TestMemoryStaysFlat: what is live while 144 MB of rows are written, which can
// hardly be compressed, is a fraction of them at every moment.
func TestMemoryStaysFlat(t *testing.T) {
	const rows, sample = 150000, 5000
	tab := &table.Table{Name: "many", Columns: []table.Column{{Name: "seq", Type: table.Int}, {Name: "s", Type: table.Text}}}
	random := rand.NewChaCha8([32]byte{})
	raw := make([]byte, 720)
	for _, tc := range []struct {
		format files.Format
		most   uint64 // bytes
	}{{files.JSONL, 8 << 20}, {files.SQLite, 8 << 20}, {files.Parquet, 96 << 20}} { // Parquet: a row group, raw and encoded
		runtime.GC() // twice, for what pools still hold
		runtime.GC()
		e := mustCreate(t, tc.format, filepath.Join(t.TempDir(), "x"))
		var live uint64
		_, err := e.Table(t.Context(), tab, func(fn func(table.Row) error) error {
			for i := range int64(rows) {
				random.Read(raw)
				if err := fn(table.Row{i, base64.StdEncoding.EncodeToString(raw)}); err != nil {
					return err
				}
				if i%sample == sample-1 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					live = max(live, m.HeapAlloc)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: at most %d KiB live", tc.format, live>>10)
		if live > tc.most {
			t.Errorf("%s: %d bytes live, want %d at most", tc.format, live, tc.most)
		}
	}
}
