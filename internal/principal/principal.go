// Package principal says who may publish: the principals file, which gives
// each role/name its key and namespace, and the credentials of principals and
// of assay's own services.
//
// # principals.json
//
//	{"v":1,"principals":[
//	  {"role":"agent","name":"piper","namespace":"sandbox","nkey":"U…"},
//	  {"role":"agent","name":"old","namespace":"production","nkey":"U…","revoked_at":"2026-10-03T12:00:00Z"}]}
//
// The file is configuration and holds public keys only. It is the one place
// that decides a principal's namespace: the measured party never does. A
// revoked principal stays listed, so that old records keep a known author and
// its name is never given to someone else.
package principal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"assay/internal/durable"
	"assay/internal/versioned"
	"assay/ledger"
)

// FileVersion is the format of principals.json that this build writes and reads.
const FileVersion = 1

var (
	// ErrInvalid means that a principal or the file breaks a rule, or that the file is
	// of another version; the text names it.
	ErrInvalid = errors.New("invalid principal")
	// ErrExists means that the role/name is listed already, revoked or not.
	ErrExists = errors.New("principal exists")
	// ErrUnknown means that the role/name is not listed.
	ErrUnknown = errors.New("unknown principal")
	// ErrRevoked means that the principal lost its access earlier.
	ErrRevoked = errors.New("principal is revoked")
)

// Role is the part of a principal before the slash; it decides which event
// types the principal may write.
type Role string

// The roles that publish through an intake subject of their own. The logger is
// not among them: it writes its own records, and a principal of that role
// could forge them.
const (
	Agent      Role = "agent"
	Dispatcher Role = "dispatcher"
	Detector   Role = "detector"
	Resolver   Role = "resolver"
	Sensor     Role = "sensor"
	Harness    Role = "harness"
	Operator   Role = "operator"
	Logger     Role = "logger"
)

var publishers = []Role{Agent, Dispatcher, Detector, Resolver, Sensor, Harness, Operator}

// Publishers lists the roles that a principal may have.
func Publishers() []Role { return slices.Clone(publishers) }

// Principal is one publisher.
type Principal struct {
	Role      Role   `json:"role"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// NKey is the public user key (U…) with which the principal connects.
	NKey string `json:"nkey"`
	// ReceiptsSeq says whether receipts carry the record's seq; true when absent.
	ReceiptsSeq bool `json:"receipts_seq"`
	// RejectionsPerSecond is how many of its rejections get a record of their
	// own each second before they are counted instead; 0 is the logger's default.
	RejectionsPerSecond int `json:"rejections_per_second,omitzero"`
	// RevokedAt is when the principal lost its access; zero while it has it.
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// UnmarshalJSONFrom reads a principal; an absent receipts_seq is true.
func (p *Principal) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Principal
	v := plain{ReceiptsSeq: true}
	if err := json.UnmarshalDecode(dec, &v); err != nil {
		return err
	}
	*p = Principal(v)
	return nil
}

// New is a principal with the defaults and no key.
func New(role Role, name, namespace string) Principal {
	return Principal{Role: role, Name: name, Namespace: namespace, ReceiptsSeq: true}
}

// ParseID splits role/name and checks both parts.
func ParseID(id string) (Role, string, error) {
	role, name, _ := strings.Cut(id, "/")
	if !ledger.IsPrincipal(id) {
		return "", "", fmt.Errorf("%w %q: want role/name in lower-case letters, digits, - and _", ErrInvalid, id)
	}
	if err := checkRole(Role(role)); err != nil {
		return "", "", err
	}
	return Role(role), name, nil
}

func checkRole(r Role) error {
	if r == Logger {
		return fmt.Errorf("%w: the logger writes its own records and has no intake", ErrInvalid)
	}
	if !slices.Contains(publishers, r) {
		return fmt.Errorf("%w: unknown role %q, want one of %v", ErrInvalid, r, publishers)
	}
	return nil
}

// ID is role/name, as records name the principal.
func (p Principal) ID() string { return string(p.Role) + "/" + p.Name }

// User is role.name: the name of its credential and the tail of its subject.
func (p Principal) User() string { return string(p.Role) + "." + p.Name }

// Revoked says whether the principal has lost its access.
func (p Principal) Revoked() bool { return !p.RevokedAt.IsZero() }

// Validate checks every field.
func (p Principal) Validate() error {
	if _, _, err := ParseID(p.ID()); err != nil {
		return err
	}
	switch {
	case !ledger.IsNamespace(p.Namespace):
		return fmt.Errorf("%w %s: namespace %q is not a word or bench/<run>", ErrInvalid, p.ID(), p.Namespace)
	case p.Role == Harness && (p.Namespace == "production" || p.Namespace == "shadow"):
		return fmt.Errorf("%w %s: a harness never writes in %s", ErrInvalid, p.ID(), p.Namespace)
	case !nkeys.IsValidPublicUserKey(p.NKey):
		return fmt.Errorf("%w %s: nkey %q is not a public user key", ErrInvalid, p.ID(), p.NKey)
	case p.RejectionsPerSecond < 0:
		return fmt.Errorf("%w %s: rejections_per_second %d is negative", ErrInvalid, p.ID(), p.RejectionsPerSecond)
	}
	return nil
}

// File is the content of principals.json. The zero value is an empty file.
type File struct {
	Principals []Principal
}

type wireFile struct {
	V          int         `json:"v"`
	Principals []Principal `json:"principals"`
}

// Decode reads principals.json. Unknown and duplicate members are errors.
func Decode(data []byte) (*File, error) {
	var w wireFile
	if err := versioned.Decode(data, FileVersion, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	f := &File{Principals: w.Principals}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode is the inverse of Decode.
func (f *File) Encode() ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	w := wireFile{V: FileVersion, Principals: f.Principals}
	if w.Principals == nil {
		w.Principals = []Principal{}
	}
	data, err := json.Marshal(w, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// Validate checks each principal, and that no id and no key occurs twice.
func (f *File) Validate() error {
	ids, keys := map[string]bool{}, map[string]string{}
	for _, p := range f.Principals {
		if err := p.Validate(); err != nil {
			return err
		}
		if ids[p.ID()] {
			return fmt.Errorf("%w: %s is listed twice", ErrInvalid, p.ID())
		}
		if other, ok := keys[p.NKey]; ok {
			return fmt.Errorf("%w: %s and %s share a key", ErrInvalid, other, p.ID())
		}
		ids[p.ID()], keys[p.NKey] = true, p.ID()
	}
	return nil
}

// Load reads the file at path.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Save replaces the file at path, durably.
func (f *File) Save(path string) error {
	data, err := f.Encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o600)
}

// Find returns the principal with this role/name, revoked or not.
func (f *File) Find(id string) (Principal, bool) {
	i := f.index(id)
	if i < 0 {
		return Principal{}, false
	}
	return f.Principals[i], true
}

func (f *File) index(id string) int {
	return slices.IndexFunc(f.Principals, func(p Principal) bool { return p.ID() == id })
}

// Active lists the principals that have access, in the file's order.
func (f *File) Active() []Principal {
	return slices.DeleteFunc(slices.Clone(f.Principals), Principal.Revoked)
}

// Add appends a principal: ErrExists if its id is or was in use.
func (f *File) Add(p Principal) error {
	if old, ok := f.Find(p.ID()); ok {
		if old.Revoked() {
			return fmt.Errorf("%w: %s was revoked; a name is never given twice", ErrExists, p.ID())
		}
		return fmt.Errorf("%w: %s", ErrExists, p.ID())
	}
	next := File{Principals: append(slices.Clone(f.Principals), p)}
	if err := next.Validate(); err != nil {
		return err
	}
	*f = next
	return nil
}

// Revoke takes the principal's access away: ErrUnknown if it is not listed,
// ErrRevoked if it has none left.
func (f *File) Revoke(id string, at time.Time) error {
	i := f.index(id)
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	if f.Principals[i].Revoked() {
		return fmt.Errorf("%w: %s", ErrRevoked, id)
	}
	if at.IsZero() {
		return fmt.Errorf("%w %s: revoked at no time", ErrInvalid, id)
	}
	f.Principals[i].RevokedAt = at.UTC()
	return nil
}
