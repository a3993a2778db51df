package calc

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/jsonfault"
)

// noNull makes null an error where a number, a string or a bool is wanted: null is
// unknown, and unknown is not 0. A pointer takes it, as nil.
var noNull = json.JoinUnmarshalers(refuseNull[float64](), refuseNull[int](), refuseNull[string](), refuseNull[bool]())

var errNull = errors.New("null is not a value")

func refuseNull[T any]() *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ *T) error {
		if dec.PeekKind() == 'n' {
			return errNull
		}
		return errors.ErrUnsupported // that is, decode as usual
	})
}

// decodeError tells what is no JSON from what is JSON of another shape.
func decodeError(err error) *Error {
	pointer, message, shape := jsonfault.Of(err)
	if !shape {
		return &Error{BadJSON, "", message}
	}
	return &Error{BadRequest, pointer, message}
}

// checker notes the first fault of a request and gives a value of the right kind
// in any case, so that an op can read on.
type checker struct{ fault *Error }

func (c *checker) note(code Code, pointer, format string, args ...any) {
	if c.fault == nil {
		c.fault = &Error{code, pointer, fmt.Sprintf(format, args...)}
	}
}

func (c *checker) bad(pointer, format string, args ...any) {
	c.note(BadRequest, pointer, format, args...)
}

// number is a required number.
func (c *checker) number(pointer string, v *float64) float64 {
	if v == nil {
		c.bad(pointer, "a number is required")
		return 0
	}
	return *v
}

// or is a number that may be left out.
func or(v *float64, otherwise float64) *float64 {
	if v == nil {
		return &otherwise
	}
	return v
}

// within is a required number in [low, high].
func (c *checker) within(pointer string, v *float64, low, high float64) float64 {
	x := c.number(pointer, v)
	if v != nil && !(x >= low && x <= high) {
		c.bad(pointer, "want a number from %v to %v", low, high)
	}
	return x
}

// between is a required number in (low, high).
func (c *checker) between(pointer string, v *float64, low, high float64) float64 {
	x := c.number(pointer, v)
	if v != nil && !(x > low && x < high) {
		c.bad(pointer, "want a number above %v and below %v", low, high)
	}
	return x
}

// maxExact is the end of the integers that a float64 holds.
const maxExact = 1 << 53

// count is a required whole number from low to high.
func (c *checker) count(pointer string, v *float64, low, high int64) int64 {
	x := c.number(pointer, v)
	switch {
	case v == nil:
	case math.Trunc(x) != x || x < float64(low):
		c.bad(pointer, "want a whole number of at least %d", low)
	case x > float64(high):
		c.bad(pointer, "want at most %d", high)
	default:
		return int64(x)
	}
	return low
}

// capped is a count with a limit that only this implementation sets.
func (c *checker) capped(pointer string, v *float64, low, limit int64) int64 {
	if v != nil && *v > float64(limit) {
		c.note(TooLarge, pointer, "the limit is %d", limit)
		return low
	}
	return c.count(pointer, v, low, limit)
}

// oneOf is a required word of a list.
func oneOf[S ~string](c *checker, pointer string, v S, words ...S) S {
	for _, w := range words {
		if v == w {
			return v
		}
	}
	c.bad(pointer, "want one of %v", words)
	return words[0]
}

// probabilities checks a list of numbers in [0, 1].
func (c *checker) probabilities(pointer string, p []float64) []float64 {
	if p == nil {
		c.bad(pointer, "a list of probabilities is required")
	}
	for i, x := range p {
		if !(x >= 0 && x <= 1) {
			c.bad(item(pointer, i), "want a probability")
		}
	}
	return p
}

// outcomes reads a list of n zeros and ones.
func (c *checker) outcomes(pointer string, y []float64, n int) []bool {
	if len(y) != n {
		c.bad(pointer, "want %d outcomes, one a probability", n)
	}
	out := make([]bool, len(y))
	for i, v := range y {
		if v != 0 && v != 1 {
			c.bad(item(pointer, i), "want 0 or 1")
		}
		out[i] = v == 1
	}
	return out
}

func item(pointer string, i int) string { return fmt.Sprintf("%s/%d", pointer, i) }

// ordered checks the bounds low and high.
func (c *checker) ordered(low, high float64) {
	if !(low < high) {
		c.bad("/high", "want more than low")
	}
}
