package calc

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/bench/causal"
)

// codes are the errors of the engines in words of replies.
var codes = map[causal.Kind]Code{
	causal.Invalid:         BadRequest,
	causal.Cyclic:          CyclicGraph,
	causal.ZeroProbability: ZeroProbability,
	causal.TooLarge:        TooLarge,
}

// faultOf is an engine's fault as an error of a reply; below is where what the engine
// was given stands in the request.
func faultOf(err error, below string) *Error {
	var fault *causal.Fault
	if !errors.As(err, &fault) || codes[fault.Kind] == "" {
		panic(err) // an engine has no others
	}
	return &Error{codes[fault.Kind], below + pointer(fault.At...), fault.Message}
}

// blame says which member of the request a condition that cannot happen stands in; "" is
// several together.
func (e *Error) blame(member string) *Error {
	if e.Code == ZeroProbability {
		e.Pointer = member
	}
	return e
}

// oneMember is the pointer of the one member that is there; "" where there are more.
func oneMember(members ...member) string {
	at := ""
	for _, m := range members {
		switch {
		case m.size == 0:
		case at != "":
			return ""
		default:
			at = pointer(m.name)
		}
	}
	return at
}

// member of a request, with how many things stand in it.
type member struct {
	name string
	size int
}

// engine notes an engine's fault.
func (c *checker) engine(err error, below string) {
	if f := faultOf(err, below); c.fault == nil {
		c.fault = f
	}
}

// pointer is a JSON Pointer.
func pointer(path ...string) string {
	var out strings.Builder
	for _, p := range path {
		out.WriteByte('/')
		out.WriteString(string(pointerEscape.Replace(p)))
	}
	return out.String()
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// statusReply answers where there is no number.
type statusReply struct {
	Status string `json:"status"`
}

var notIdentifiable = statusReply{"not_identifiable"}

// names is a list of names; one name reads as a list of one.
type names []string

func (n *names) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		*n = names{""}
		return json.UnmarshalDecode(dec, &(*n)[0])
	}
	return json.UnmarshalDecode(dec, (*[]string)(n))
}

// ordered is an object whose members keep their order.
type ordered[T any] struct {
	keys   []string
	values []T
}

func (o *ordered[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return json.UnmarshalDecode(dec, new(map[string]T)) // says what is wrong
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		var key string
		var value T
		if err := json.UnmarshalDecode(dec, &key); err != nil {
			return err
		}
		if err := json.UnmarshalDecode(dec, &value); err != nil {
			return err
		}
		o.keys, o.values = append(o.keys, key), append(o.values, value)
	}
	_, err := dec.ReadToken()
	return err
}
