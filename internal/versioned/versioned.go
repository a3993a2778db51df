// Package versioned reads configuration and state that say their format in a member
// v, such as {"v":1,"callers":[]}.
package versioned

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrVersion means another format than the one that is read.
var ErrVersion = errors.New("unsupported version")

// Decode reads data into out, which has the member v too. The version is compared
// before the rest, so that another format is named as such and not by its first
// unknown member; then unknown and duplicate members, and anything behind the
// value, are errors.
func Decode(data []byte, version int, out any) error {
	var head struct {
		V jsontext.Value `json:"v"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if v := string(head.V); v != strconv.Itoa(version) {
		return fmt.Errorf("%w %q, want %d", ErrVersion, v, version)
	}
	return json.Unmarshal(data, out, json.RejectUnknownMembers(true))
}
