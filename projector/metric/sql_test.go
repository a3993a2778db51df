package metric_test

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/table"
	"assay/projector/table/files"
)

// exported is the ledger as an analyst has it: every table, as SQLite. It returns the
// database's address.
func exported(t *testing.T, l *ledgertest.Ledger, s *projector.State) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	e, err := files.Create(files.SQLite, path, files.About{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Discard()
	for _, kind := range table.Kinds() {
		tab, err := table.Of(kind)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Table(t.Context(), tab, func(fn func(table.Row) error) error {
			switch kind {
			case table.Events:
				return scanEvents(t, l, len(tab.Columns), fn)
			case table.Foreign:
				return table.ScanForeign(s, fn)
			}
			return table.ScanView(s, kind, fn)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Commit(); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}).String()
}

// ask opens an export with the tables of terms made.
func ask(t *testing.T, address, terms string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", address)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // temporary tables are a connection's
	if _, err := db.Exec(terms); err != nil {
		t.Fatal(err)
	}
	return db
}

func scanEvents(t *testing.T, l *ledgertest.Ledger, columns int, fn func(table.Row) error) error {
	last, err := l.Head(t.Context())
	row := make(table.Row, columns)
	for seq := ledger.Seq(1); seq <= last && err == nil; seq++ {
		var r ledger.Record
		if r, err = ledger.ParseRecord(l.Body(seq)); err == nil {
			table.EventRow(row, &r)
			err = fn(row)
		}
	}
	return err
}

// bySQL is a metric by its query: the records that it counts, and its numbers, by group
// where the metric is one of groups alone.
func bySQL(t *testing.T, db *sql.DB, m *metric.Metric, s metric.Script) (records []string, numbers map[string]metric.Number) {
	t.Helper()
	if _, err := db.Exec("DROP TABLE IF EXISTS temp.unit; DROP TABLE IF EXISTS temp.counted;" + s.Count); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(`SELECT role, seq, item, n, coalesce(part, '') FROM counted WHERE role <> 'unknown'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var role, item, part string
		var seq, count int64
		if err := rows.Scan(&role, &seq, &item, &count, &part); err != nil {
			t.Fatal(err)
		}
		records = append(records, recordLine(role, seq, item, count, part))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(records)
	values, err := db.Query(s.Value)
	if err != nil {
		t.Fatal(err)
	}
	defer values.Close()
	numbers = map[string]metric.Number{}
	for values.Next() {
		var part string
		var n metric.Number
		into := []any{&n.Numerator, &n.Denominator, &n.Value}
		if m.Apart {
			into = append([]any{&part}, into...)
		}
		if err := values.Scan(into...); err != nil {
			t.Fatal(err)
		}
		numbers[part] = n
	}
	if err := values.Err(); err != nil {
		t.Fatal(err)
	}
	return records, numbers
}

func recordLine(role string, seq int64, item string, count int64, part string) string {
	return strings.TrimSuffix(fmt.Sprintf("%s %d %s %d %s", role, seq, item, count, part), " ")
}

// sortedRecords are the records that count, with their groups where the metric is one
// of groups alone.
func sortedRecords(m *metric.Metric, rs []metric.Record) (out []string) {
	for _, r := range rs {
		if r.Role == metric.Excluded {
			continue
		}
		if !m.Apart {
			r.Group = ""
		}
		out = append(out, recordLine(string(r.Role), int64(r.Seq), r.Item, r.Count, r.Group))
	}
	slices.Sort(out)
	return out
}

// numbersOf are the numbers of a metric, by group where it is one of groups alone;
// those of groups in which nothing counts are none.
func numbersOf(m *metric.Metric, e *metric.Explanation, rs []metric.Record) map[string]metric.Number {
	if !m.Apart {
		return map[string]metric.Number{"": e.Number}
	}
	out := map[string]metric.Number{}
	for _, g := range e.Groups {
		if slices.ContainsFunc(rs, func(r metric.Record) bool { return r.Group == g.Name && r.Role != metric.Excluded }) {
			out[g.Name] = g.Number
		}
	}
	return out
}

// audited is a ledger that the queries are tried on.
type audited struct {
	name  string
	l     *ledgertest.Ledger
	weeks []string // closed ones
}

// asked is what the metrics are asked for: all of it and each week; of a busy ledger
// another namespace as well, and a bench.
func (a audited) asked() (all []struct{ namespace, week string }) {
	for _, week := range append([]string{""}, a.weeks...) {
		all = append(all, struct{ namespace, week string }{prod, week})
	}
	if len(a.weeks) > 0 {
		all = append(all, struct{ namespace, week string }{"canary", ""}, struct{ namespace, week string }{"bench/a", a.weeks[0]})
	}
	return all
}

// auditedLedgers are the ledgers made by hand, each alone; busy ones over three weeks and
// a day, or four weeks, with and without more imports among them; and one that was only
// opened.
func auditedLedgers(t *testing.T) (all []audited) {
	for _, tt := range allByHand {
		l := ledgertest.New()
		tt.build(book{l})
		all = append(all, audited{strings.TrimSpace(tt.metric + " " + tt.name), l, nil})
	}
	for seed := range uint64(4) {
		l := ledgertest.New()
		monday := ledgertest.Start.Add(-3 * day)
		var weeks []string
		closeWeek := func() {
			next := monday.Add(time.Duration(len(weeks)+1) * 7 * day)
			l.Advance(next.Sub(l.Now()))
			weeks = append(weeks, fmt.Sprintf("2026-W%d", 40+len(weeks)))
			l.Put("logger/main", "logger", &events.WeekClosed{
				Week: weeks[len(weeks)-1], Zone: "UTC", Start: events.FormatTime(next.Add(-7 * day)), End: events.FormatTime(next),
			})
		}
		for i := range 3 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			if seed == 0 {
				l.Mix(rng, 700)
			} else {
				l.Tangle(rng, 700)
			}
			closeWeek()
		}
		l.Tangle(rand.New(rand.NewPCG(seed, 9)), 100)
		if seed > 1 {
			closeWeek()
		}
		all = append(all, audited{fmt.Sprintf("busy %d", seed), l, weeks})
		if seed < 2 {
			all = append(all, audited{fmt.Sprintf("busy %d, imports", seed), importedCopy(t, l, func(seq ledger.Seq) bool { return seq%7 == 3 }), weeks})
		}
	}
	opened := ledgertest.New()
	opened.Put("logger/main", "logger", &events.LedgerOpened{Origin: "test"})
	return append(all, audited{"opened", opened, nil})
}

// TestMetricsBySQL: every metric is what its query over the exported SQLite counts: the
// same records in the same roles, and the same number, of the whole ledger and of
// a week. Each was seen with something in its numerator and denominator.
func TestMetricsBySQL(t *testing.T) {
	type seen struct{ num, den, week bool }
	saw := map[string]*seen{}
	for _, m := range metric.Catalogue() {
		saw[m.Name] = &seen{den: m.Form != metric.FormRatio}
	}
	for _, a := range auditedLedgers(t) {
		t.Run(a.name, func(t *testing.T) {
			fold(t, a.l, func(st *projector.State) {
				address := exported(t, a.l, st)
				for _, of := range a.asked() {
					o := metric.Options{Week: of.week, Repair: []string{"restart", "bash"}}
					var db *sql.DB
					for _, m := range metric.Catalogue() {
						s, err := metric.SQL(m.Name, of.namespace, o)
						if err != nil {
							t.Fatal(err)
						}
						if db == nil {
							db = ask(t, address, s.Terms)
							defer db.Close()
						}
						var rs []metric.Record
						e, err := metric.Explain(st, m.Name, of.namespace, o, func(r metric.Record) error { rs = append(rs, r); return nil })
						if err != nil {
							t.Fatal(err)
						}
						records, numbers := bySQL(t, db, &m, s)
						checkBySQL(t, m.Name+" "+of.namespace+" "+of.week, numbersOf(&m, e, rs), sortedRecords(&m, rs), numbers, records)
						w := saw[m.Name]
						w.num = w.num || e.Numerator != 0
						w.den = w.den || e.Denominator != nil && *e.Denominator > 0
						w.week = w.week || of.week != "" && len(records) > 0
					}
				}
			})
		})
	}
	for name, w := range saw {
		if !w.num || !w.den || !w.week {
			t.Errorf("%s: in a numerator %v, in a denominator %v, in a week %v", name, w.num, w.den, w.week)
		}
	}
}

func checkBySQL(t *testing.T, name string, want map[string]metric.Number, records []string, got map[string]metric.Number, by []string) {
	t.Helper()
	if !slices.Equal(by, records) {
		t.Errorf("%s: the query alone counts %v, the metric alone %v", name, without(by, records), without(records, by))
		return
	}
	if len(got) != len(want) {
		t.Errorf("%s: by the query %d groups, by the metric %d", name, len(got), len(want))
	}
	for group, w := range want {
		if n := got[group]; !sameNumber(n, w) {
			t.Errorf("%s %s: by the query %s, by the metric %s", name, group, line(n), line(w))
		}
	}
}

func sameNumber(n, want metric.Number) bool {
	return n.Numerator == want.Numerator && (n.Denominator == nil) == (want.Denominator == nil) && (n.Denominator == nil || *n.Denominator == *want.Denominator) &&
		(n.Value == nil) == (want.Value == nil) && (n.Value == nil || math.Abs(*n.Value-*want.Value) <= 1e-12*math.Abs(*want.Value))
}

// without is what of a the list b does not have; both are sorted.
func without(a, b []string) (out []string) {
	for _, x := range a {
		if i, ok := slices.BinarySearch(b, x); ok {
			b = slices.Delete(slices.Clone(b), i, i+1)
		} else {
			out = append(out, x)
		}
	}
	return out
}
