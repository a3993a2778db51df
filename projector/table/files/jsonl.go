package files

import (
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/projector/table"
)

// jsonl writes a row as one object a line, its members in the order of the
// columns. Every column is there; what holds JSON is that, not text.
type jsonl struct {
	w    io.Writer
	keys [][]byte // ,"name":
	json []bool
	line []byte
}

func newJSONL(w io.Writer, t *table.Table) (rowWriter, string, error) {
	j := &jsonl{w: w}
	for i, c := range t.Columns {
		key := []byte{','}
		if i == 0 {
			key[0] = '{'
		}
		key, err := jsontext.AppendQuote(key, c.Name)
		if err != nil {
			return nil, "", err
		}
		j.keys = append(j.keys, append(key, ':'))
		j.json = append(j.json, c.Type == table.JSON)
	}
	return j, "jsonl", nil
}

func (j *jsonl) write(r table.Row) (err error) {
	j.line = j.line[:0]
	for i, v := range r {
		j.line = append(j.line, j.keys[i]...)
		if j.line, err = appendValue(j.line, v, j.json[i]); err != nil {
			return err
		}
	}
	j.line = append(j.line, "}\n"...)
	_, err = j.w.Write(j.line)
	return err
}

func (*jsonl) close() error { return nil }

func appendValue(dst []byte, v any, isJSON bool) ([]byte, error) {
	switch v := v.(type) {
	case string:
		if !isJSON {
			return jsontext.AppendQuote(dst, v)
		}
		if !strings.ContainsAny(v, "\r\n") {
			return append(dst, v...), nil
		}
		raw := jsontext.Value(v) // white space between its tokens
		err := raw.Compact()
		return append(dst, raw...), err
	case int64:
		return append(dst, jsontext.Int(v).String()...), nil
	case float64:
		return append(dst, jsontext.Float(v).String()...), nil
	case bool:
		return append(dst, jsontext.Bool(v).String()...), nil
	}
	return append(dst, "null"...), nil
}
