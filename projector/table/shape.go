package table

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/ledger"
)

// plan lays the values of one Go type out as rows.
type plan struct {
	columns []Column
	fields  []field
}

// field is one member that becomes one column, or the two of a time.
type field struct {
	path []int // through structs and pointers to them
	put  func(row Row, v reflect.Value) error
	at   int // the first of its columns
	n    int
}

var (
	timeType = reflect.TypeFor[time.Time]()
	seqType  = reflect.TypeFor[ledger.Seq]()
	rawType  = reflect.TypeFor[jsontext.Value]()
)

// planOf compiles the plan of a struct type. The types are those of this
// module, so what cannot be laid out is a mistake that every test meets: a panic.
func planOf[T any]() *plan {
	p := &plan{}
	p.add(reflect.TypeFor[T](), nil, within{})
	return p
}

// within says where a member stands: in which struct, and what that is.
type within struct {
	prefix  string // of its columns' names: the struct's, with _
	about   string // the struct's meaning, one sentence; "" for the row itself
	missing string // the outermost struct around it that may be missing; "" for none
}

// add compiles the members of a struct behind a path.
func (p *plan) add(t reflect.Type, path []int, in within) {
	for i := range t.NumField() {
		f := t.Field(i)
		path := append(slices.Clone(path), i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			p.add(f.Type, path, in)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		ft, pointer := f.Type, f.Type.Kind() == reflect.Pointer
		if pointer {
			ft = ft.Elem()
		}
		meaning := meaningOf(t, f.Name, name)
		if ft.Kind() == reflect.Struct && ft != timeType {
			inner := within{in.prefix + name + "_", firstSentence(meaning), in.missing}
			if pointer && inner.missing == "" {
				inner.missing = in.prefix + name
			}
			p.add(ft, path, inner)
			continue
		}
		if in.about != "" {
			meaning += "; of: " + in.about
		}
		c := Column{Name: in.prefix + name, Nullable: pointer, Unit: unitOf(in.prefix + name), Meaning: meaning}
		p.leaf(ft, path, c, strings.Contains(opts, "omitzero"), in.missing)
	}
}

// leaf adds the columns of one member; omit says that its type leaves out what
// is empty, and missing is as in within.
func (p *plan) leaf(t reflect.Type, path []int, c Column, omit bool, missing string) {
	f := field{path: path, at: len(p.columns), n: 1}
	null := "it is unknown, or was not given"
	switch kind := t.Kind(); {
	case t == timeType:
		c.Type, c.Unit, c.Nullable, null = Text, "RFC 3339, UTC", true, "there is no such time"
		f.n, f.put = 2, putTime
	case t == seqType || kind == reflect.Uint64 && isSeq(c.Name):
		c.Type, c.Unit, c.Nullable, null = Int, "record number", true, "there is no such record"
		f.put = putSeq
	case kind == reflect.Uint64: // no type of SQLite holds all of them
		c.Type, c.Unit = Text, "decimal digits, up to 2^64-1"
		f.put = func(row Row, v reflect.Value) error { row[0] = strconv.FormatUint(v.Uint(), 10); return nil }
	case kind == reflect.String:
		c.Type, c.Nullable = Text, c.Nullable || omit
		f.put = func(row Row, v reflect.Value) error {
			if v.Len() > 0 || !omit {
				row[0] = v.String()
			}
			return nil
		}
	case kind == reflect.Bool:
		c.Type = Bool
		f.put = func(row Row, v reflect.Value) error { row[0] = v.Bool(); return nil }
	case kind == reflect.Int || kind == reflect.Int64:
		c.Type = Int
		f.put = func(row Row, v reflect.Value) error { row[0] = v.Int(); return nil }
	case kind == reflect.Float64:
		c.Type = Real
		f.put = func(row Row, v reflect.Value) error { row[0] = v.Float(); return nil }
	case kind == reflect.Slice || kind == reflect.Map:
		c.Type, c.Nullable = JSON, c.Nullable || omit || t == rawType
		f.put = func(row Row, v reflect.Value) error { return putJSON(row, v, omit) }
	default:
		panic(fmt.Sprintf("table: no column for %s of type %s", c.Name, t))
	}
	if missing != "" {
		c.Nullable, null = true, null+", or there is no "+missing
	}
	if c.Nullable {
		c.Null = null
	}
	p.columns = append(p.columns, c)
	if f.n == 2 {
		c.Name, c.Type, c.Unit = c.Name+"_ns", Int, "ns since 1970-01-01 UTC"
		c.Null += ", or it is beyond 1678 to 2262"
		p.columns = append(p.columns, c)
	}
	p.fields = append(p.fields, f)
}

// row lays v out; v is a pointer to the plan's type or such a value.
func (p *plan) row(row Row, v reflect.Value) error {
	clear(row)
	for i := range p.fields {
		f := &p.fields[i]
		m, ok := follow(v, f.path)
		if !ok {
			continue
		}
		if err := f.put(row[f.at:f.at+f.n], m); err != nil {
			return fmt.Errorf("column %s: %w", p.columns[f.at].Name, err)
		}
	}
	return nil
}

// follow is the member at the path; ok is false where a pointer on the way is nil.
func follow(v reflect.Value, path []int) (_ reflect.Value, ok bool) {
	v = reflect.Indirect(v)
	for _, i := range path {
		if v = v.Field(i); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
	}
	return v, true
}

func putTime(row Row, v reflect.Value) error {
	t := v.Interface().(time.Time)
	if t.IsZero() {
		return nil
	}
	row[0], row[1] = ledger.FormatTime(t), nanos(t)
	return nil
}

// nanos are the nanoseconds since 1970, nil where 64 bits do not hold them.
func nanos(t time.Time) any {
	n := t.UnixNano()
	if !time.Unix(0, n).Equal(t) {
		return nil
	}
	return n
}

func putSeq(row Row, v reflect.Value) error {
	if n := v.Uint(); n != 0 {
		if int64(n) < 0 {
			return fmt.Errorf("record number %d is beyond 63 bits", n)
		}
		row[0] = int64(n)
	}
	return nil
}

func putJSON(row Row, v reflect.Value, omit bool) error {
	if omit && v.IsZero() {
		return nil
	}
	raw, err := json.Marshal(v.Interface(), json.Deterministic(true))
	if err == nil && string(raw) != "null" {
		row[0] = string(raw)
	}
	return err
}

func isSeq(name string) bool { return name == "seq" || strings.HasSuffix(name, "_seq") }

// table is the plan's columns as a table.
func (p *plan) table(name, meaning string, before ...Column) *Table {
	return &Table{Name: name, Meaning: meaning, Columns: append(before, p.columns...)}
}
