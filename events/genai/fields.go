package genai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"assay/events"
	"assay/internal/otlp"
)

// resource is what all items of a resource share. It is read once, so that the work
// for a request grows with its bytes, however many items share how much.
type resource struct {
	attributes map[string]pcommon.Value
	digest     string
}

func resourceOf(m pcommon.Map) *resource {
	return &resource{otlp.Index(m), events.DerivedID(said("otlp resource", m)...).String()}
}

// said is all that attributes say, in the order of their names.
func said(what string, m pcommon.Map) []string {
	all := map[string]string{}
	for name, v := range m.All() {
		all[name] = v.AsString()
	}
	parts := []string{what}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, name, all[name])
	}
	return parts
}

// fields reads attributes: an item's own before its resource's. A value that
// cannot be what its name says makes err, of the first such; the item is then
// rejected. An attribute that is absent, empty or the empty string is nil.
type fields struct {
	own      pcommon.Map
	resource *resource
	err      error
}

// maxText is how long a string is at most in bytes: no member of an event takes a
// longer one.
const maxText = 2048

// get is the first attribute that is there.
func (f *fields) get(names ...string) (name string, v pcommon.Value, ok bool) {
	for _, name := range names {
		if v, ok := f.own.Get(name); ok && says(v) {
			return name, v, true
		}
	}
	for _, name := range names {
		if v, ok := f.resource.attributes[name]; ok && says(v) {
			return name, v, true
		}
	}
	return "", pcommon.Value{}, false
}

// says is false for what is empty.
func says(v pcommon.Value) bool {
	return v.Type() != pcommon.ValueTypeEmpty && (v.Type() != pcommon.ValueTypeStr || v.Str() != "")
}

// scalar is the text of a string, number or bool that is not too long.
func scalar(v pcommon.Value) (text string, ok bool) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return v.Str(), len(v.Str()) <= maxText
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
		return v.AsString(), true
	}
	return "", false
}

func (f *fields) fail(name, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: want %s", name, want)
	}
}

// time is nil for a time that was not given.
func (f *fields) time(name string, t pcommon.Timestamp) *time.Time {
	if t > math.MaxInt64 {
		f.fail(name, "a time before the year 2262")
	}
	if t == 0 || t > math.MaxInt64 {
		return nil
	}
	return ptr(t.AsTime())
}

// word is a string attribute, "" for any other.
func word(m pcommon.Map, name string) string {
	if v, ok := m.Get(name); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// text is a string, or a number or a bool as one.
func (f *fields) text(names ...string) *string {
	name, v, ok := f.get(names...)
	if !ok {
		return nil
	}
	text, ok := scalar(v)
	if !ok {
		f.fail(name, fmt.Sprintf("a string of up to %d bytes", maxText))
		return nil
	}
	return &text
}

// amount is a number that is not negative; senders also write it as a string.
func (f *fields) amount(names ...string) *float64 {
	name, v, ok := f.get(names...)
	if !ok {
		return nil
	}
	x := math.NaN()
	switch v.Type() {
	case pcommon.ValueTypeInt:
		x = float64(v.Int())
	case pcommon.ValueTypeDouble:
		x = v.Double()
	case pcommon.ValueTypeStr:
		if text, ok := scalar(v); ok {
			if parsed, err := strconv.ParseFloat(text, 64); err == nil {
				x = parsed
			}
		}
	}
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		f.fail(name, "a number that is not negative")
		return nil
	}
	return &x
}

// count is a whole amount of at most 2^53.
func (f *fields) count(names ...string) *int64 {
	x := f.amount(names...)
	if x == nil {
		return nil
	}
	if *x != math.Trunc(*x) || *x > 1<<53 {
		name, _, _ := f.get(names...)
		f.fail(name, "a whole number")
		return nil
	}
	return ptr(int64(*x))
}

// flag is a bool, or "true" or "false".
func (f *fields) flag(names ...string) *bool {
	name, v, ok := f.get(names...)
	if !ok {
		return nil
	}
	switch text, _ := scalar(v); text {
	case "true":
		return ptr(true)
	case "false":
		return ptr(false)
	}
	f.fail(name, "true or false")
	return nil
}

// hash is the hex SHA-256 of an item's own value as it was sent, or of its JSON.
func (f *fields) hash(name string) *string {
	v, ok := f.own.Get(name)
	if !ok || !says(v) {
		return nil
	}
	sum := sha256.Sum256([]byte(v.AsString()))
	return ptr(hex.EncodeToString(sum[:]))
}
