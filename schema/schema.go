// Package schema holds the JSON Schemas (2020-12) of every event type, which
// are the source of truth for what an intake lets in, and validation derived
// from them.
//
// json/<type>.json describes the data of one type and names the roles that may
// write it (x-writers); common.json has what they share, criterion.json a
// prediction's criterion and envelope.json the CloudEvents 1.0 envelope. The
// generator in internal/gen compiles them to the Go code in validate_gen.go
// and refuses any keyword that it does not implement. golden has one accepted
// event a type, bad has refused ones with the code and pointer each must get.
package schema

//go:generate go run ./internal/gen -dir .

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

//go:embed json/*.json golden/*.json
var files embed.FS

// Role is what a principal is for; the part of its name before the slash.
type Role string

// The roles.
const (
	RoleAgent      Role = "agent"
	RoleDispatcher Role = "dispatcher"
	RoleDetector   Role = "detector"
	RoleResolver   Role = "resolver"
	RoleSensor     Role = "sensor"
	RoleHarness    Role = "harness"
	RoleOperator   Role = "operator"
	RoleLogger     Role = "logger"
)

// typeInfo is what the generator knows of one event type.
type typeInfo struct {
	name    string
	version int
	urn     string
	writers []Role
	check   func(*scan) bool
}

// Types lists the event types in order.
func Types() []string {
	names := make([]string, len(types))
	for i := range types {
		names[i] = types[i].name
	}
	return names
}

// Version is the current schema version of a type, from 1; ok is false for an
// unknown type.
func Version(typ string) (version int, ok bool) {
	info := lookup([]byte(typ))
	if info == nil {
		return 0, false
	}
	return info.version, true
}

// Writers lists the roles that may write a type in every namespace that they
// may write in at all. It is empty for an unknown type.
func Writers(typ string) []Role {
	info := lookup([]byte(typ))
	if info == nil {
		return nil
	}
	return slices.Clone(info.writers)
}

// MayWrite says whether a principal of the role may write the type in the
// namespace. In sandbox and bench/… a harness may also write what a dispatcher
// writes, and opportunities; it writes nothing in production or shadow, and in
// canary only the types that name it as a writer.
func MayWrite(role Role, typ, namespace string) bool {
	info := lookup([]byte(typ))
	if info == nil {
		return false
	}
	if role != RoleHarness {
		return slices.Contains(info.writers, role)
	}
	simulated := namespace == "sandbox" || strings.HasPrefix(namespace, "bench/")
	if !simulated && namespace != "canary" {
		return false
	}
	if slices.Contains(info.writers, role) {
		return true
	}
	return simulated && (typ == "opportunity.detected" || slices.Contains(info.writers, RoleDispatcher))
}

// Raw is the schema file of a type's data.
func Raw(typ string) ([]byte, bool) {
	if lookup([]byte(typ)) == nil {
		return nil, false
	}
	b, err := files.ReadFile("json/" + typ + ".json")
	return b, err == nil
}

// Shared is a schema file that those of the types refer to: common or criterion.
func Shared(name string) ([]byte, bool) {
	if name != "common" && name != "criterion" {
		return nil, false
	}
	b, err := files.ReadFile("json/" + name + ".json")
	return b, err == nil
}

// Example is an accepted event of a type, compact, without a line end.
func Example(typ string) ([]byte, bool) {
	if lookup([]byte(typ)) == nil {
		return nil, false
	}
	b, err := files.ReadFile("golden/" + typ + ".json")
	if err != nil {
		return nil, false
	}
	return []byte(strings.TrimSuffix(string(b), "\n")), true
}

// Digest is the hex SHA-256 over all schema files in order of name: for each
// the name, a zero byte, the size in decimal, a zero byte, and the bytes.
func Digest() string {
	h := sha256.New()
	// The files are embedded, so that reading them cannot fail.
	entries, _ := fs.ReadDir(files, "json")
	for _, e := range entries {
		b, _ := files.ReadFile("json/" + e.Name())
		fmt.Fprintf(h, "%s\x00%d\x00", e.Name(), len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Compact is the JSON value without white space around its tokens; strings and
// numbers keep the bytes they had. It fails on anything but one JSON value in
// UTF-8 without duplicate names.
func Compact(raw []byte) ([]byte, error) {
	if err := validate(raw); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(raw))
	inString := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inString && c == '\\':
			out = append(out, c)
			i++
			c = raw[i]
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// validate is nil for one JSON value and nothing else.
func validate(raw []byte) error {
	if !utf8.Valid(raw) {
		return &Fault{Code: CodeBadUTF8, Message: "invalid UTF-8 at offset " + strconv.Itoa(invalidUTF8(raw))}
	}
	if !jsontext.Value(raw).IsValid() {
		return diagnose(raw)
	}
	return nil
}
