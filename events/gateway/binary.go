package gateway

import (
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"assay/events/publish"
	"assay/schema"
)

// attributePrefix goes before an attribute's name in a header of CloudEvents'
// binary content mode.
const attributePrefix = "Ce-"

// fromBinary builds the structured event of a binary-mode request: the
// attributes are in ce-* headers, percent-encoded, datacontenttype is the
// Content-Type, and the body is the data.
func fromBinary(h http.Header, body []byte) ([]byte, *publish.Refusal) {
	attrs := map[string]string{}
	for name, values := range h {
		attr, ok := strings.CutPrefix(name, attributePrefix)
		if !ok {
			continue
		}
		attr = strings.ToLower(attr)
		value, refused := attribute(attr, values)
		if refused != nil {
			return nil, refused
		}
		attrs[attr] = value
	}
	event := []byte{'{'}
	for _, name := range slices.SortedFunc(maps.Keys(attrs), byPlace) {
		event = appendString(event, name, attrs[name])
	}
	contentType := h.Get("Content-Type")
	media, _, err := mime.ParseMediaType(contentType)
	isJSON := err == nil && (media == jsonType || strings.HasSuffix(media, "+json"))
	switch {
	case err == nil && media == jsonType:
		event = appendString(event, "datacontenttype", jsonType) // without a charset: JSON is UTF-8
	case contentType != "":
		event = appendString(event, "datacontenttype", contentType)
	}
	switch {
	case isJSON && len(body) > 0:
		if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			// Spliced in, it could end the data and go on with attributes.
			return nil, &publish.Refusal{Code: string(schema.CodeBadJSON), Pointer: "/data", Message: "the body is not one JSON value"}
		}
		event = append(event, `"data":`...)
		event = append(event, body...)
	case len(body) > 0:
		event = appendString(event, "data_base64", base64.StdEncoding.EncodeToString(body))
		event = event[:len(event)-1]
	default:
		event = event[:max(1, len(event)-1)]
	}
	return append(event, '}'), nil
}

// leading are the attributes in the order in which events are written here.
var leading = []string{"specversion", "id", "source", "type", "subject", "time", "dataschema"}

// byPlace puts the known attributes first.
func byPlace(a, b string) int {
	place := func(s string) int {
		if i := slices.Index(leading, s); i >= 0 {
			return i
		}
		return len(leading)
	}
	if d := place(a) - place(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// attribute is the value of one ce-* header.
func attribute(name string, values []string) (string, *publish.Refusal) {
	bad := func(format string, args ...any) (string, *publish.Refusal) {
		return "", &publish.Refusal{Code: codeBadHeader, Pointer: "/" + name, Message: fmt.Sprintf(format, args...)}
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return bad("an attribute's name has lower-case letters and digits only")
		}
	}
	switch {
	case name == "" || name == "data" || name == "datacontenttype":
		return bad("no attribute: the body is the data and Content-Type its type")
	case len(values) != 1:
		return bad("the header occurs %d times", len(values))
	}
	value, ok := decodeHeader(values[0])
	if !ok {
		return bad("want UTF-8, percent-encoded where it is not printable ASCII")
	}
	return value, nil
}

// decodeHeader undoes a quoted string and one round of percent-encoding.
func decodeHeader(s string) (string, bool) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		var b strings.Builder
		for i := 1; i < len(s)-1; i++ {
			if s[i] == '\\' && i+1 < len(s)-1 {
				i++
			}
			b.WriteByte(s[i])
		}
		s = b.String()
	}
	value, err := url.PathUnescape(s)
	return value, err == nil && utf8.ValidString(value)
}

// appendString appends "name":"value", with the comma.
func appendString(b []byte, name, value string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	b, _ = jsontext.AppendQuote(b, value) // fails on invalid UTF-8 alone, which was refused
	return append(b, ',')
}

// compact is the event as the ledger wants it; what is no JSON stays as it is,
// for the ledger to refuse and record.
func compact(event []byte) []byte {
	if c, err := schema.Compact(event); err == nil {
		return c
	}
	return event
}
