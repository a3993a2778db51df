package node

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/table"
	"assay/projector/table/files"
	"assay/projector/view"
)

// signed signs the first size records.
func signed(t testing.TB, l *ledgertest.Ledger, size uint64) ledger.SignedCheckpoint {
	t.Helper()
	key, _, err := note.GenerateKey(rand.Reader, "test/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	var tree ledger.Tree
	for seq := range size {
		tree.Append(ledger.Leaf(l.Body(ledger.Seq(seq + 1))))
	}
	cp := ledger.Checkpoint{Origin: "test/log", Size: size, Root: tree.Root()}
	raw, err := ledger.SignCheckpoint(cp, signer)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.SignedCheckpoint{Checkpoint: cp, Raw: raw}
}

// mixed is a ledger with foreign messages, one of which looks like a record,
// and a record whose envelope cannot be read.
func mixed(n int) *ledgertest.Ledger {
	l := ledgertest.New()
	l.Mix(mrand.New(mrand.NewPCG(3, 4)), n)
	l.PutRaw([]byte("no record"))
	fork := ledger.AppendRecord(nil, ledger.Header{Seq: ledger.Seq(headOf(l) + 1), Principal: "agent/piper", Namespace: "production", RecordedAt: l.Now()}, []byte(`{"a":1}`))
	at := l.PutRaw(fork)
	l.Put("operator/op", "production", &events.ForeignAcknowledged{Seq: uint64(at), SHA256: l.Leaf().String()})
	l.PutEvent("agent/piper", "production", []byte(`{"no":"envelope"}`))
	l.Mix(mrand.New(mrand.NewPCG(5, 6)), n/10)
	return l
}

func headOf(l *ledgertest.Ledger) uint64 {
	head, _ := l.Head(context.Background())
	return uint64(head)
}

func exported(t testing.TB, l *ledgertest.Ledger, change func(*TablesConfig)) (files.Manifest, string, error) {
	t.Helper()
	c := TablesConfig{
		Format: files.SQLite, Path: filepath.Join(t.TempDir(), "x"), Kinds: table.Kinds(), From: 1,
		Checkpoint: signed(t, l, headOf(l)), To: ledger.Seq(headOf(l)), Software: "test",
	}
	if change != nil {
		change(&c)
	}
	m, err := ExportTables(t.Context(), bookEvidence{l}, c)
	return m, c.Path, err
}

func mustExport(t testing.TB, l *ledgertest.Ledger, change func(*TablesConfig)) (files.Manifest, *sql.DB) {
	t.Helper()
	m, path, err := exported(t, l, change)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return m, db
}

// query is the rows as text, a line each, values separated by |.
func query(t testing.TB, db *sql.DB, q string) string {
	t.Helper()
	rows, err := db.Query(q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		row, refs := make([]any, len(names)), make([]any, len(names))
		for i := range refs {
			refs[i] = &row[i]
		}
		if err := rows.Scan(refs...); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, v := range row {
			texts = append(texts, fmt.Sprint(v))
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return strings.Join(lines, "\n")
}

// TestExportHoldsTheLedger counts in SQL what is in the ledger and its views.
func TestExportHoldsTheLedger(t *testing.T) {
	l := mixed(3000)
	n := headOf(l)
	replayed, err := Replay(t.Context(), FoldConfig{Evidence: bookEvidence{l}, Log: zerolog.Nop()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, db := mustExport(t, l, nil)
	if *m.StateDigest != replayed.SHA256 || m.Root != replayed.Root || uint64(m.To) != n {
		t.Errorf("%s at %d, replayed %s; root %s", *m.StateDigest, m.To, replayed.SHA256, m.Root)
	}
	for _, tc := range []struct{ what, query, want string }{
		{"records", `SELECT count(*) FROM events`, fmt.Sprint(n - 2)},
		{"sum of their numbers", `SELECT sum(seq) FROM events`, fmt.Sprint(n*(n+1)/2 - foreignSum(t, db))},
		{"the foreign are none of them", `SELECT count(*) FROM events e JOIN foreign_messages f USING (seq)`, "0"},
		{"foreign", `SELECT count(*), count(acknowledged_at) FROM foreign_messages`, "2|1"},
		{"the chain", `SELECT count(*) FROM events a JOIN events b ON b.seq = a.seq + 1 WHERE b.prev <> a.leaf`, "0"},
		{"types that no build knows", `SELECT count(*) > 10, min(json_valid(data)), min(version) FROM events WHERE type = 'later.type'`, "1|1|1"},
		{"envelopes that cannot be read", `SELECT count(*), min(data IS NULL AND type IS NULL AND id IS NULL) FROM events WHERE unreadable IS NOT NULL`, "1|1"},
		{"predictions", `SELECT count(*) FROM predictions WHERE namespace = 'production'`, fmt.Sprint(listed(t, l, "predictions", "production"))},
		{"resolutions are those of the predictions", `SELECT count(*), sum(r.type <> 'prediction.resolved'), sum(r.data ->> 'pred_id' <> p.pred_id), sum(r.data ->> 'verdict' <> p.resolution_verdict)
			FROM predictions p JOIN events r ON r.seq = p.resolution_seq`, query(t, db, `SELECT count(resolution_seq), 0, 0, 0 FROM predictions`)},
		{"unknown is NULL", `SELECT count(*) FROM predictions WHERE (resolution_seq IS NULL) <> (resolution_verdict IS NULL)`, "0"},
		{"and there is some", `SELECT count(*) > 0, sum(resolution_seq = 0) FROM predictions WHERE resolution_seq IS NULL`, "1|<nil>"},
		{"JSON", `SELECT sum(NOT json_valid(data)) FROM events WHERE data IS NOT NULL`, "0"},
		{"every table", `SELECT count(*) FROM assay_tables`, fmt.Sprint(len(table.Kinds()))},
		{"every column", `SELECT count(*) FROM assay_columns WHERE "table" = 'events'`, query(t, db, `SELECT count(*) FROM pragma_table_info('events')`)},
	} {
		if got := query(t, db, tc.query); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
	for _, tab := range m.Tables {
		if got := query(t, db, `SELECT count(*) FROM "`+tab.Name+`"`); got != fmt.Sprint(tab.Rows) {
			t.Errorf("%s: %s rows, the manifest says %d", tab.Name, got, tab.Rows)
		}
	}
}

func foreignSum(t testing.TB, db *sql.DB) (sum uint64) {
	t.Helper()
	if _, err := fmt.Sscan(query(t, db, `SELECT sum(seq) FROM foreign_messages`), &sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

// listed is how many things `assay list` shows.
func listed(t testing.TB, l *ledgertest.Ledger, kind, namespace string) (n int) {
	t.Helper()
	_, err := Replay(t.Context(), FoldConfig{Evidence: bookEvidence{l}, Log: zerolog.Nop()}, func(s *projector.State) error {
		return view.List(s, kind, namespace, func(any) error { n++; return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestExportOfAPrefix: views and events as of --to are those of the ledger when
// it was that long, and still of the checkpoint.
func TestExportOfAPrefix(t *testing.T) {
	l := mixed(1000)
	m, db := mustExport(t, l, func(c *TablesConfig) { c.From, c.To = 301, 600 })
	if got := query(t, db, `SELECT count(*), min(seq), max(seq) FROM events`); got != "300|301|600" {
		t.Errorf("events %s", got)
	}
	l.Truncate(600)
	whole, short := mustExport(t, l, nil)
	if *m.StateDigest != *whole.StateDigest || m.Root != whole.Root {
		t.Errorf("views %s and root %s, want %s and %s", *m.StateDigest, m.Root, *whole.StateDigest, whole.Root)
	}
	for _, kind := range view.Kinds() {
		q := `SELECT * FROM "` + kind + `"`
		if got, want := query(t, db, q), query(t, short, q); got != want {
			t.Errorf("%s differ", kind)
		}
	}
}

func TestExportOfNothing(t *testing.T) {
	m, db := mustExport(t, ledgertest.New(), func(c *TablesConfig) { c.From = 0 })
	if len(m.Tables) != len(table.Kinds()) || m.To != 0 || m.StateDigest != nil {
		t.Errorf("%+v", m.About)
	}
	if got := query(t, db, `SELECT count(*) FROM events`) + query(t, db, `SELECT sum("rows") FROM assay_tables`); got != "00" {
		t.Errorf("rows %s", got)
	}
}

func TestExportOfSomeKinds(t *testing.T) {
	l := mixed(200)
	m, db := mustExport(t, l, func(c *TablesConfig) { c.Kinds = []string{table.Events, table.Foreign, table.Events} })
	if len(m.Tables) != 2 || m.StateDigest != nil || len(m.Views) != 0 {
		t.Errorf("%+v", m)
	}
	if got := query(t, db, `SELECT count(*) FROM events`); got != fmt.Sprint(headOf(l)-2) {
		t.Errorf("events %s", got)
	}
}

// TestExportRefusesOtherRecords: what the checkpoint does not sign is not
// exported, wherever the first difference stands.
func TestExportRefusesOtherRecords(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*ledgertest.Ledger, *TablesConfig)
	}{
		{"another root", func(_ *ledgertest.Ledger, c *TablesConfig) { c.Checkpoint.Root[0] ^= 1 }},
		{"another root behind --to", func(_ *ledgertest.Ledger, c *TablesConfig) { c.Checkpoint.Root[0] ^= 1; c.To = 50 }},
		{"another root, views alone", func(_ *ledgertest.Ledger, c *TablesConfig) { c.Checkpoint.Root[0] ^= 1; c.Kinds = []string{"claims"} }},
		{"the second reading differs", func(l *ledgertest.Ledger, _ *TablesConfig) {
			reads := 0
			l.Mangle = func(seq ledger.Seq, body []byte) []byte {
				if seq == 1 {
					reads++
				}
				if reads == 2 && seq == 40 {
					return []byte("other")
				}
				return body
			}
		}},
		{"the second reading ends early", func(l *ledgertest.Ledger, _ *TablesConfig) {
			reads := 0
			l.Mangle = func(seq ledger.Seq, body []byte) []byte {
				if seq == 1 {
					reads++
				}
				if reads == 2 && seq > 40 {
					return nil
				}
				return body
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := ledgertest.New()
			l.Mix(mrand.New(mrand.NewPCG(3, 4)), 100)
			_, path, err := exported(t, l, func(c *TablesConfig) { tc.change(l, c) })
			if !errors.Is(err, ErrOtherRecords) {
				t.Errorf("%v", err)
			}
			if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// TestExportEndsWhenItIsStopped: an interrupt leaves nothing.
func TestExportEndsWhenItIsStopped(t *testing.T) {
	l := mixed(3000)
	ctx, cancel := context.WithCancel(t.Context())
	c := TablesConfig{
		Format: files.JSONL, Path: filepath.Join(t.TempDir(), "x"), Kinds: table.Kinds(), From: 1,
		Checkpoint: signed(t, l, headOf(l)), To: ledger.Seq(headOf(l)),
		Progress: func(done, total uint64) {
			if done > total/2 {
				cancel()
			}
		},
	}
	if _, err := ExportTables(ctx, bookEvidence{l}, c); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if names, _ := os.ReadDir(filepath.Dir(c.Path)); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

// TestAnalystsPageRuns runs the queries of docs/analysts.md.
func TestAnalystsPageRuns(t *testing.T) {
	page, err := os.ReadFile("../../../docs/analysts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## SQLite")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d queries", len(blocks))
	}
	l := mixed(2000)
	_, db := mustExport(t, l, nil)
	for _, b := range blocks {
		got := query(t, db, b[1])
		if got == "" {
			t.Errorf("no rows:\n%s", b[1])
		}
		if want := fmt.Sprintf("%d|%[1]d", headOf(l)); strings.Contains(b[1], "Is it whole") && got != want {
			t.Errorf("whole: %s, want %s", got, want)
		}
	}
}
