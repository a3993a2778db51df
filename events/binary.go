package events

import (
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"assay/schema"
)

// attributePrefix goes before an attribute's name in a header of CloudEvents'
// binary content mode, in either case.
const attributePrefix = "ce-"

// CodeBadHeader says that the headers of a message in binary content mode are no
// attributes.
const CodeBadHeader schema.Code = "bad_header"

// IsBinary says whether the headers of a message are those of CloudEvents' binary
// content mode, rather than beside an event in structured JSON.
func IsBinary(header map[string][]string) bool {
	binary := false
	for name, values := range header {
		if strings.EqualFold(name, "Content-Type") && len(values) > 0 && strings.HasPrefix(strings.ToLower(values[0]), "application/cloudevents") {
			return false
		}
		binary = binary || strings.EqualFold(name, attributePrefix+"specversion")
	}
	return binary
}

// FromBinary builds the structured event of a message in binary content mode, over
// HTTP or NATS: the attributes are in ce-* headers, percent-encoded,
// datacontenttype is the Content-Type, and the body is the data. The event is
// not checked otherwise.
func FromBinary(header map[string][]string, body []byte) ([]byte, *schema.Fault) {
	attrs, contentType := map[string]string{}, ""
	for _, name := range slices.Sorted(maps.Keys(header)) { // so that one fault is always the first
		values := header[name]
		if strings.EqualFold(name, "Content-Type") {
			if contentType != "" || len(values) > 1 {
				return nil, &schema.Fault{Code: CodeBadHeader, Pointer: pointerTo("datacontenttype"), Message: "there are several Content-Types"}
			}
			if contentType = strings.Join(values, ""); !utf8.ValidString(contentType) {
				return nil, &schema.Fault{Code: CodeBadHeader, Pointer: pointerTo("datacontenttype"), Message: "want UTF-8"}
			}
		}
		if len(name) < len(attributePrefix) || !strings.EqualFold(name[:len(attributePrefix)], attributePrefix) {
			continue
		}
		attr := strings.ToLower(name[len(attributePrefix):])
		value, fault := attribute(attr, values)
		if fault != nil {
			return nil, fault
		}
		if _, twice := attrs[attr]; twice {
			return nil, &schema.Fault{Code: CodeBadHeader, Pointer: pointerTo(attr), Message: "the header occurs twice"}
		}
		attrs[attr] = value
	}
	event := []byte{'{'}
	for _, name := range slices.SortedFunc(maps.Keys(attrs), byPlace) {
		event = appendString(event, name, attrs[name])
	}
	media, _, err := mime.ParseMediaType(contentType)
	isJSON := err == nil && (media == ContentType || strings.HasSuffix(media, "+json"))
	switch {
	case err == nil && media == ContentType:
		event = appendString(event, "datacontenttype", ContentType) // without a charset: JSON is UTF-8
	case contentType != "":
		event = appendString(event, "datacontenttype", contentType)
	}
	switch {
	case isJSON && len(body) > 0:
		if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			// Spliced in, it could end the data and go on with attributes.
			return nil, &schema.Fault{Code: schema.CodeBadJSON, Pointer: "/data", Message: "the body is not one JSON value"}
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

// maxAttribute is the length of an attribute's name at most, as the envelope has it.
const maxAttribute = 20

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
func attribute(name string, values []string) (string, *schema.Fault) {
	bad := func(format string, args ...any) (string, *schema.Fault) {
		return "", &schema.Fault{Code: CodeBadHeader, Pointer: pointerTo(name), Message: fmt.Sprintf(format, args...)}
	}
	if len(name) > maxAttribute || strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return bad("an attribute's name has up to %d lower-case letters and digits", maxAttribute)
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

// pointerTo is a JSON Pointer to an attribute, of the beginning of a long name.
func pointerTo(name string) string {
	name = strings.ToValidUTF8(name[:min(len(name), 4*maxAttribute)], "\ufffd")
	return string(jsontext.Pointer("").AppendToken(name))
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
