// Package jsonfault says what is wrong with JSON that somebody else wrote, in the
// words of JSON and not of the Go type that it was read into.
package jsonfault

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Of tells what is no JSON from what is JSON of another shape. For the latter shape is
// true and pointer the JSON Pointer to what is wrong, "" for all of it.
func Of(err error) (pointer, message string, shape bool) {
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return "", strings.TrimPrefix(err.Error(), "jsontext: "), false
	}
	message = "want " + wanted(wrong.GoType)
	if wrong.Err != nil && !errors.Is(wrong.Err, strconv.ErrSyntax) {
		message = wrong.Err.Error()
	}
	return string(wrong.JSONPointer), message, true
}

// Text is pointer and message in one line.
func Text(err error) string {
	pointer, message, _ := Of(err)
	if pointer == "" {
		return message
	}
	return "at " + pointer + ": " + message
}

// wanted is a Go type in the words of JSON.
func wanted(t reflect.Type) string {
	if t == nil {
		return "another kind of value"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another kind of value"
}
