package table_test

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/table"
	"assay/projector/view"
)

var update = flag.Bool("update", false, "rewrite docs/tables.md")

func mustTable(t testing.TB, kind string) *table.Table {
	t.Helper()
	tab, err := table.Of(kind)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestEveryKindIsATableWithMeanings(t *testing.T) {
	for _, kind := range view.Kinds() {
		if !slices.Contains(table.Kinds(), kind) {
			t.Errorf("%s has no table", kind)
		}
	}
	if got, want := len(table.Kinds()), len(view.Kinds())+2; got != want {
		t.Errorf("%d kinds, want %d", got, want)
	}
	if _, err := table.Of("nosuch"); err == nil {
		t.Error("an unknown kind has a table")
	}
	for _, kind := range table.Kinds() {
		tab := mustTable(t, kind)
		seen := map[string]bool{}
		for _, c := range tab.Columns {
			name := strings.ToLower(c.Name) // SQL does not tell them apart
			if seen[name] {
				t.Errorf("%s: two columns %s", kind, name)
			}
			seen[name] = true
			if c.Meaning == "" || strings.HasPrefix(c.Meaning, ";") {
				t.Errorf("%s.%s has no meaning: comment the member in its type, or name it in common", kind, c.Name)
			}
			if c.Nullable != (c.Null != "") {
				t.Errorf("%s.%s: nullable %v, NULL means %q", kind, c.Name, c.Nullable, c.Null)
			}
		}
		if tab.Meaning == "" {
			t.Errorf("%s has no meaning", kind)
		}
	}
}

// TestPageListsTheColumns: docs/tables.md is what the tables say of themselves.
func TestPageListsTheColumns(t *testing.T) {
	const path = "../../docs/tables.md"
	var b bytes.Buffer
	fmt.Fprintln(&b, "# The tables of an export\n\nWhat [assay export parquet, jsonl and sqlite](analysts.md) write, column by column. This page is generated: `go test ./projector/table -run Page -update`.")
	for _, kind := range table.Kinds() {
		tab := mustTable(t, kind)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| column | type | unit | NULL: | meaning |\n|---|---|---|---|---|\n", kind, tab.Meaning)
		for _, c := range tab.Columns {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Type, c.Unit, c.Null, strings.ReplaceAll(c.Meaning, "|", `\|`))
		}
	}
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("docs/tables.md is stale: go test ./projector/table -run Page -update")
	}
}

// withViews folds the ledger and lets fn see its views.
func withViews(t testing.TB, l *ledgertest.Ledger, fn func(*projector.State)) {
	t.Helper()
	_, err := projector.Replay(t.Context(), projector.ReplayConfig{
		Source: l, Projections: view.All(), Dir: t.TempDir(),
		Inspect: func(s *projector.State) error { fn(s); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRowsAreTheViews compares every row with the JSON that `assay list` prints
// of the same thing: no member is lost, and none is another.
func TestRowsAreTheViews(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), 4000)
	filled := map[string]bool{}
	withViews(t, l, func(s *projector.State) {
		for _, kind := range view.Kinds() {
			tab := mustTable(t, kind)
			var rows []map[string]any
			err := table.ScanView(s, kind, func(r table.Row) error {
				row := map[string]any{}
				for i, c := range tab.Columns {
					row[c.Name] = r[i]
				}
				rows = append(rows, row)
				return tab.Check(r)
			})
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			for _, ns := range namespacesOf(t, l, kind) {
				err := view.List(s, kind, ns, func(v any) error {
					if len(rows) == 0 {
						return fmt.Errorf("a row is missing")
					}
					checkRow(t, kind, rows[0], v)
					rows = rows[1:]
					filled[kind] = true
					return nil
				})
				if err != nil {
					t.Fatalf("%s in %q: %v", kind, ns, err)
				}
			}
			if len(rows) > 0 {
				t.Errorf("%s: %d rows too many", kind, len(rows))
			}
		}
	})
	if len(filled) < 14 {
		t.Errorf("only %d kinds had rows: %v", len(filled), filled)
	}
}

// namespacesOf are those of the ledger's records, in order, for a kind that has them.
func namespacesOf(t *testing.T, l *ledgertest.Ledger, kind string) (all []string) {
	t.Helper()
	if slices.Contains([]string{"canaries", "cases", "cohorts", "parked", "prices", "weeks"}, kind) {
		return []string{""}
	}
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := ledger.Seq(1); seq <= head; seq++ {
		r, err := ledger.ParseRecord(l.Body(seq))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkRow holds a row against the JSON of its value; every column that the
// JSON does not fill must be NULL, but for the members that Go leaves out when
// they are 0 or false.
func checkRow(t *testing.T, kind string, row map[string]any, v any) {
	t.Helper()
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	flatten(t, want, "", raw, row)
	for name, got := range row {
		w, ok := want[name]
		if !ok && (name == "namespace" || got == int64(0) || got == false) {
			continue
		}
		if got != w {
			t.Errorf("%s.%s: %#v, want %#v of %s", kind, name, got, w, raw)
		}
	}
	for name, w := range want {
		if _, ok := row[name]; !ok {
			t.Errorf("%s has no column %s for %v", kind, name, w)
		}
	}
}

// flatten turns JSON into what the columns should hold, by the rules of the
// package's comment and without the types.
func flatten(t *testing.T, out map[string]any, prefix string, raw jsontext.Value, row map[string]any) {
	t.Helper()
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	for name, v := range members {
		name = prefix + name
		_, isTime := row[name+"_ns"]
		_, isColumn := row[name]
		switch kind := v.Kind(); {
		case kind == 'n':
		case isTime:
			at, err := time.Parse(time.RFC3339Nano, strings.Trim(string(v), `"`))
			if err != nil {
				t.Fatal(err)
			}
			if !at.IsZero() {
				out[name], out[name+"_ns"] = at.UTC().Format("2006-01-02T15:04:05.000000000Z"), at.UnixNano()
			}
		case kind == '{' && !isColumn:
			flatten(t, out, name+"_", v, row)
		case kind == '{' || kind == '[':
			out[name] = string(v)
		case kind == '"':
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				t.Fatal(err)
			}
			out[name] = s
		case kind == '0':
			out[name] = number(t, v, row[name])
			if out[name] == int64(0) && strings.HasSuffix(name, "seq") {
				out[name] = nil
			}
		default:
			out[name] = kind == 't'
		}
	}
}

// number reads a number as the column has it.
func number(t *testing.T, v jsontext.Value, like any) any {
	t.Helper()
	var err error
	switch like.(type) {
	case float64:
		var f float64
		err = json.Unmarshal(v, &f)
		like = f
	case string:
		like = string(v)
	default:
		var n int64
		err = json.Unmarshal(v, &n)
		like = n
	}
	if err != nil {
		t.Fatal(err)
	}
	return like
}

func TestEventRow(t *testing.T) {
	const full = `{"specversion":"1.0","id":"e1","source":"urn:x","type":"later.type","subject":"s","time":"2026-10-01T02:00:00.5+02:00",` +
		`"dataschema":"urn:assay:later.type:7","datacontenttype":"application/json","episodeid":"ep","sequence":"18446744073709551615","causationid":"c",` +
		`"correlationid":"k","dataref":"sha256:00","data":{"n":9007199254740993, "s":"\u0000'; DROP TABLE events;--"}}`
	for _, tc := range []struct {
		name, event string
		want        map[string]any // but for the record's own columns
	}{
		{"every attribute of a type and version that nobody knows", full, map[string]any{
			"id": "e1", "source": "urn:x", "type": "later.type", "version": int64(7), "subject": "s",
			"time": "2026-10-01T02:00:00.5+02:00", "time_ns": int64(1790812800500000000), "episodeid": "ep", "sequence": "18446744073709551615",
			"causationid": "c", "correlationid": "k", "dataref": "sha256:00", "data": `{"n":9007199254740993, "s":"\u0000'; DROP TABLE events;--"}`,
		}},
		{"extensions stay as they are", `{"specversion":"1.0","id":"e","source":"s","type":"t","dataschema":"urn:assay:t:1","data":{},"traceparent":"00-\"","n": 1.50,"o":{"a":[]}}`, map[string]any{
			"id": "e", "source": "s", "type": "t", "version": int64(1), "data": "{}", "extensions": `{"traceparent":"00-\"","n":1.50,"o":{"a":[]}}`,
		}},
		{"another content type is told", `{"specversion":"1.0","id":"e","source":"s","type":"t","dataschema":"urn:assay:t:1","datacontenttype":"text/plain","data":{}}`, map[string]any{
			"id": "e", "source": "s", "type": "t", "version": int64(1), "data": "{}", "extensions": `{"datacontenttype":"text/plain"}`,
		}},
		{"a time that 64 bits do not hold", `{"specversion":"1.0","id":"e","source":"s","type":"t","dataschema":"urn:assay:t:1","time":"1500-01-01T00:00:00Z","data":{}}`, map[string]any{
			"id": "e", "source": "s", "type": "t", "version": int64(1), "data": "{}", "time": "1500-01-01T00:00:00Z",
		}},
		{"a time that is none", `{"specversion":"1.0","id":"e","source":"s","type":"t","dataschema":"urn:assay:t:1","time":"soon","data":{}}`, map[string]any{
			"id": "e", "source": "s", "type": "t", "version": int64(1), "data": "{}", "time": "soon",
		}},
		{"no envelope", `{"a":1}`, map[string]any{
			"unreadable": `malformed event: specversion "", want "1.0"`, "event_base64": base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ledger.Record{
				Header: ledger.Header{Seq: 5, RecordedAt: ledgertest.Start, Principal: "agent/piper", Namespace: "production"},
				Event:  []byte(tc.event), Body: []byte("body"),
			}
			tc.want["seq"], tc.want["leaf"], tc.want["prev"] = int64(5), ledger.Leaf([]byte("body")).String(), strings.Repeat("0", 64)
			tc.want["recorded_at"], tc.want["recorded_at_ns"] = "2026-10-01T00:00:00.000000000Z", ledgertest.Start.UnixNano()
			tc.want["principal"], tc.want["namespace"] = "agent/piper", "production"
			tab := mustTable(t, table.Events)
			row := make(table.Row, len(tab.Columns))
			for i := range row {
				row[i] = "of the row before"
			}
			table.EventRow(row, &r)
			if err := tab.Check(row); err != nil {
				t.Fatal(err)
			}
			for i, c := range tab.Columns {
				if row[i] != tc.want[c.Name] {
					t.Errorf("%s: %#v, want %#v", c.Name, row[i], tc.want[c.Name])
				}
			}
		})
	}
}

// TestUnreadableBytesSurvive: what is no UTF-8 can neither break a file nor be lost.
func TestUnreadableBytesSurvive(t *testing.T) {
	event := []byte("{\"specversion\":\"1.0\",\"\xff\":1}")
	r := ledger.Record{Header: ledger.Header{Seq: 1, Principal: "agent/piper", Namespace: "production"}, Event: event}
	tab := mustTable(t, table.Events)
	row := make(table.Row, len(tab.Columns))
	table.EventRow(row, &r)
	at := slices.IndexFunc(tab.Columns, func(c table.Column) bool { return c.Name == "event_base64" })
	got, err := base64.StdEncoding.DecodeString(row[at].(string))
	if err != nil || !bytes.Equal(got, event) {
		t.Errorf("%q, %v", got, err)
	}
	if why, _ := row[at-1].(string); why == "" || strings.ToValidUTF8(why, "") != why {
		t.Errorf("why: %q", why)
	}
}

func TestForeignMessagesAreATable(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), 5)
	seq := l.PutRaw([]byte("no record"))
	l.Put("operator/op", "production", &events.ForeignAcknowledged{Seq: uint64(seq), SHA256: l.Leaf().String()})
	var rows []table.Row
	withViews(t, l, func(s *projector.State) {
		err := table.ScanForeign(s, func(r table.Row) error {
			rows = append(rows, slices.Clone(r))
			return mustTable(t, table.Foreign).Check(r)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if len(rows) != 1 || rows[0][0] != int64(seq) || rows[0][3] != int64(seq+1) {
		t.Errorf("%v", rows)
	}
}

func TestCheckRefusesWhatDoesNotFit(t *testing.T) {
	tab := &table.Table{Name: "t", Columns: []table.Column{{Name: "a", Type: table.Int}, {Name: "b", Type: table.Text, Nullable: true}}}
	for _, tc := range []struct {
		name string
		row  table.Row
		ok   bool
	}{
		{"fits", table.Row{int64(1), "x"}, true},
		{"NULL", table.Row{int64(1), nil}, true},
		{"NULL where none may be", table.Row{nil, "x"}, false},
		{"another type", table.Row{1.5, "x"}, false},
		{"a type that no column has", table.Row{1, "x"}, false},
		{"too short", table.Row{int64(1)}, false},
	} {
		if err := tab.Check(tc.row); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
