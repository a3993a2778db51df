package schema

import (
	"bytes"
	"strconv"
)

// CheckCriterion validates the bytes of one criterion, of any white space, as
// Check does where the criterion stands in a prediction, and reports the first
// fault. Its pointer starts at the criterion.
func CheckCriterion(raw []byte) *Fault {
	if len(raw) > MaxEvent {
		return &Fault{Code: CodeTooLarge, Message: strconv.Itoa(len(raw)) + " bytes, the limit is " + strconv.Itoa(MaxEvent)}
	}
	raw = spaced(raw)
	if f := checkBytes(raw); f != nil {
		if f.Code == CodeNotAnObject {
			f.Message = "want an object"
		}
		return f
	}
	s := scan{b: raw, valid: true}
	if !s.criterion() {
		return s.fault.locate(raw)
	}
	return nil
}

// spaced is raw with a space for all white space between its tokens, and none
// around it.
func spaced(raw []byte) []byte {
	out := bytes.Clone(bytes.Trim(raw, " \t\r\n"))
	inString := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '\t' || c == '\r' || c == '\n'):
			out[i] = ' '
		}
	}
	return out
}
