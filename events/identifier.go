package events

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// Identifier is what an id that another program chose is called in the ledger: by
// itself, or, where it is none there, by "sha256:" and its hash in hex. Whoever tells of
// the same thing, live or later, has the same name for it. "" stays "".
func Identifier(id string) string {
	if id == "" || identifier.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}
