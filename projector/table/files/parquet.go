package files

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"assay/projector/table"
)

// A row group is written when it has so many rows or bytes of text; until then
// it is in memory, encoded and compressed page by page.
const (
	groupRows  = 1 << 16
	groupBytes = 16 << 20
)

// batchRows go to the library at once.
const batchRows = 64

// parquetTable writes a table's rows to a Parquet file: integers as INT64,
// reals as DOUBLE, text and JSON as strings, columns that may be NULL as
// optional ones, all compressed with Zstandard.
type parquetTable struct {
	w     *parquet.GenericWriter[any]
	table *table.Table
	batch []parquet.Row
	rows  int // in the row group
	bytes int
}

// newParquet is the newRowWriter of files that say about in their metadata.
func newParquet(about About) newRowWriter {
	return func(w io.Writer, t *table.Table) (rowWriter, string, error) {
		aboutText, err := encode(about)
		if err != nil {
			return nil, "", err
		}
		tableText, err := encode(t)
		if err != nil {
			return nil, "", err
		}
		options := []parquet.WriterOption{
			parquet.NewSchema(t.Name, rootOf(t)),
			parquet.CreatedBy("assay", "1", "parquet-go"),
			parquet.Compression(&parquet.Zstd),
			parquet.KeyValueMetadata("assay_export", aboutText),
			parquet.KeyValueMetadata("assay_table", tableText),
		}
		for _, c := range t.Columns {
			if c.Type == table.JSON || c.Unit == "base64" { // as large as an event, and in no order
				options = append(options, parquet.SkipPageBounds(c.Name))
			}
		}
		return &parquetTable{w: parquet.NewGenericWriter[any](w, options...), table: t}, "parquet", nil
	}
}

// root is the schema's group with its fields in the order of the columns, which
// parquet.Group sorts by name.
type root struct {
	parquet.Group
	fields []parquet.Field
}

func (r root) Fields() []parquet.Field { return r.fields }

func rootOf(t *table.Table) root {
	r := root{Group: parquet.Group{}}
	for _, c := range t.Columns {
		r.Group[c.Name] = nodeOf(c)
	}
	byName := map[string]parquet.Field{}
	for _, f := range r.Group.Fields() {
		byName[f.Name()] = f
	}
	for _, c := range t.Columns {
		r.fields = append(r.fields, byName[c.Name])
	}
	return r
}

func nodeOf(c table.Column) parquet.Node {
	var n parquet.Node
	switch c.Type {
	case table.Int:
		n = parquet.Int(64)
	case table.Real:
		n = parquet.Leaf(parquet.DoubleType)
	case table.Bool:
		n = parquet.Leaf(parquet.BooleanType)
	default:
		n = parquet.String()
	}
	if c.Nullable {
		return parquet.Optional(n)
	}
	return parquet.Required(n)
}

func (p *parquetTable) write(r table.Row) error {
	row := make(parquet.Row, len(r))
	for i, v := range r {
		level := 0 // of a column's definition: 1 where it may be NULL and is not
		if p.table.Columns[i].Nullable && v != nil {
			level = 1
		}
		row[i] = p.value(v).Level(0, level, i)
	}
	p.batch = append(p.batch, row)
	p.rows++
	if len(p.batch) < batchRows {
		return nil
	}
	if err := p.flushBatch(); err != nil || p.rows < groupRows && p.bytes < groupBytes {
		return err
	}
	p.rows, p.bytes = 0, 0
	return p.w.Flush()
}

func (p *parquetTable) value(v any) parquet.Value {
	switch v := v.(type) {
	case string:
		p.bytes += len(v)
		return parquet.ByteArrayValue([]byte(v))
	case int64:
		return parquet.Int64Value(v)
	case float64:
		return parquet.DoubleValue(v)
	case bool:
		return parquet.BooleanValue(v)
	}
	return parquet.NullValue()
}

func (p *parquetTable) flushBatch() error {
	_, err := p.w.WriteRows(p.batch)
	clear(p.batch)
	p.batch = p.batch[:0]
	return err
}

func (p *parquetTable) close() error {
	if err := p.flushBatch(); err != nil {
		return err
	}
	return p.w.Close()
}
