package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Identifier is what an id that another program chose is called in the ledger: by
// itself, or, where it is none there, by "sha256:" and its hash in hex. Whoever tells of
// the same thing, live or later, has the same name for it. "" stays "".
func Identifier(id string) string {
	if id == "" || isIdentifier(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// isIdentifier says whether events may hold a name as an id (#/$defs/id of
// schema/json/common.json). By hand, since each run of a hook would compile a pattern.
func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte("._:/-", c) < 0) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 128
}
