package parquet

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/table"
	"assay/projector/table/files"
	"assay/projector/view"
)

// scanOf are a ledger's events, or a kind of its views.
func scanOf(t *testing.T, l *ledgertest.Ledger, s *projector.State, kind string) func(func(table.Row) error) error {
	switch kind {
	case table.Events:
		return func(fn func(table.Row) error) error {
			tab := mustTable(t, kind)
			row := make(table.Row, len(tab.Columns))
			return l.Read(t.Context(), 1, headOf(t, l), func(_ ledger.Seq, body []byte) error {
				r, err := ledger.ParseRecord(body)
				if err != nil {
					return err
				}
				table.EventRow(row, &r)
				return fn(row)
			})
		}
	case table.Foreign:
		return func(fn func(table.Row) error) error { return table.ScanForeign(s, fn) }
	}
	return func(fn func(table.Row) error) error { return table.ScanView(s, kind, fn) }
}

func headOf(t *testing.T, l *ledgertest.Ledger) ledger.Seq {
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func mustTable(t *testing.T, kind string) *table.Table {
	t.Helper()
	tab, err := table.Of(kind)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestArrowReadsWhatWeWrote compares every value of every table, the types of the
// columns and their order.
func TestArrowReadsWhatWeWrote(t *testing.T) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), 5000)
	_, err := projector.Replay(t.Context(), projector.ReplayConfig{
		Source: l, Projections: view.All(), Dir: t.TempDir(),
		Inspect: func(s *projector.State) error {
			path := filepath.Join(t.TempDir(), "x")
			e, err := files.Create(files.Parquet, path, files.About{Origin: "test/log"})
			if err != nil {
				return err
			}
			defer e.Discard()
			want := map[string][]table.Row{}
			for _, kind := range table.Kinds() {
				_, err := e.Table(t.Context(), mustTable(t, kind), func(fn func(table.Row) error) error {
					return scanOf(t, l, s, kind)(func(r table.Row) error {
						want[kind] = append(want[kind], slices.Clone(r))
						return fn(r)
					})
				})
				if err != nil {
					return err
				}
			}
			if _, err := e.Commit(); err != nil {
				return err
			}
			for _, kind := range table.Kinds() {
				compare(t, filepath.Join(path, kind+".parquet"), mustTable(t, kind), want[kind])
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, path string, tab *table.Table, want []table.Row) {
	t.Helper()
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if about := r.MetaData().KeyValueMetadata().FindValue("assay_export"); about == nil || !strings.Contains(*about, `"origin":"test/log"`) {
		t.Errorf("%s: it does not say of which ledger it is", tab.Name)
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fr.ReadTable(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", tab.Name, err)
	}
	defer got.Release()
	if got.NumRows() != int64(len(want)) || got.NumCols() != int64(len(tab.Columns)) {
		t.Fatalf("%s: %d rows of %d columns, want %d of %d", tab.Name, got.NumRows(), got.NumCols(), len(want), len(tab.Columns))
	}
	types := map[table.Type]arrow.DataType{
		table.Int: arrow.PrimitiveTypes.Int64, table.Real: arrow.PrimitiveTypes.Float64, table.Bool: arrow.FixedWidthTypes.Boolean,
		table.Text: arrow.BinaryTypes.String, table.JSON: arrow.BinaryTypes.String,
	}
	for i, c := range tab.Columns {
		f := got.Schema().Field(i)
		if f.Name != c.Name || !arrow.TypeEqual(f.Type, types[c.Type]) || f.Nullable != c.Nullable {
			t.Errorf("%s: column %d is %s %s, nullable %v; want %s %s, %v", tab.Name, i, f.Name, f.Type, f.Nullable, c.Name, c.Type, c.Nullable)
			continue
		}
		at := 0
		for _, chunk := range got.Column(i).Data().Chunks() {
			for j := range chunk.Len() {
				if v := valueOf(chunk, j); v != want[at][i] {
					t.Fatalf("%s.%s, row %d: %#v, want %#v", tab.Name, c.Name, at, v, want[at][i])
				}
				at++
			}
		}
	}
}

func valueOf(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	}
	return fmt.Sprintf("a %T", a)
}
