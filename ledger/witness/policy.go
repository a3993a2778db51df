package witness

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
)

var (
	// ErrBadPolicy means that a policy breaks a rule of the format; the text
	// names line and rule.
	ErrBadPolicy = errors.New("invalid witness policy")
	// ErrBadNote means that a checkpoint is malformed, lacks a signature of a
	// log of the policy, or carries a signature that does not verify.
	ErrBadNote = errors.New("not a checkpoint that this policy can judge")
)

// maxPolicy bounds a policy file; one of 32 logs, witnesses and groups has a
// few kilobytes.
const maxPolicy = 1 << 20

// none is the quorum that nobody has to meet.
const none = "none"

// Policy says which cosignatures a checkpoint needs before it counts (C2SP
// tlog-policy).
type Policy struct {
	Logs      []LogKey  // accepted logs; with none, the caller knows the log
	Witnesses []Witness // in the order of the file

	groups []group // each refers to what stands before it
	quorum string
}

// LogKey is a `log` line.
type LogKey struct {
	VKey, URL string
	Verifier  note.Verifier
}

// Witness is a `witness` line. Name has a meaning inside the policy only; the
// key has a name of its own.
type Witness struct {
	Name, VKey, URL string
	Verifier        note.Verifier // of cosignatures
}

// group has witnessed a checkpoint once at least k of its members have.
type group struct {
	name    string
	k       int
	members []string
}

// LoadPolicy reads a policy file; fs.ErrNotExist when there is none.
func LoadPolicy(path string) (*Policy, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := ParsePolicy(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// ParsePolicy reads the text form, strictly: any fault is ErrBadPolicy with
// the line that has it.
func ParsePolicy(raw []byte) (*Policy, error) {
	if len(raw) > maxPolicy {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrBadPolicy, len(raw), maxPolicy)
	}
	ps := policyParser{p: &Policy{}, defined: map[string]bool{none: true}, member: map[string]bool{}, keys: map[string]bool{}, ids: map[string]bool{}}
	lines := strings.SplitAfter(string(raw), "\n")
	for i, line := range lines {
		if line == "" {
			break // what follows the last newline
		}
		if err := ps.line(line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBadPolicy, i+1, err)
		}
	}
	if ps.p.quorum == "" {
		return nil, fmt.Errorf("%w: no quorum line", ErrBadPolicy)
	}
	return ps.p, nil
}

type policyParser struct {
	p       *Policy
	defined map[string]bool // names of witnesses and groups
	member  map[string]bool // names that belong to a group
	keys    map[string]bool // public keys, by kind of line
	ids     map[string]bool // key names with key ids: what a signature line is found by
}

func (ps *policyParser) line(line string) error {
	text, ended := strings.CutSuffix(line, "\n")
	if !ended {
		return errors.New("not ended by a newline")
	}
	for i := range len(text) {
		if c := text[i]; c != '\t' && (c < 0x20 || c == 0x7f) {
			return fmt.Errorf("control character 0x%02x", c)
		}
	}
	f := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	switch keyword, args := f[0], f[1:]; keyword {
	case "log":
		return ps.log(args)
	case "witness":
		return ps.witness(args)
	case "group":
		return ps.group(args)
	case "quorum":
		return ps.quorum(args)
	default:
		return fmt.Errorf("unknown keyword %q", keyword)
	}
}

func (ps *policyParser) log(args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("want: log VKEY [URL]")
	}
	l := LogKey{VKey: args[0], URL: optional(args, 1)}
	var err error
	if l.Verifier, err = note.NewVerifier(l.VKey); err != nil {
		return fmt.Errorf("log key %q: %w", l.VKey, err)
	}
	if err := ps.newKey("log", l.VKey, l.Verifier); err != nil {
		return err
	}
	ps.p.Logs = append(ps.p.Logs, l)
	return nil
}

func (ps *policyParser) witness(args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return errors.New("want: witness NAME VKEY [URL]")
	}
	w := Witness{Name: args[0], VKey: args[1], URL: optional(args, 2)}
	if err := ps.define(w.Name); err != nil {
		return err
	}
	var err error
	if w.Verifier, err = NewVerifier(w.VKey); err != nil {
		return err
	}
	if err := ps.newKey("witness", w.VKey, w.Verifier); err != nil {
		return err
	}
	ps.p.Witnesses = append(ps.p.Witnesses, w)
	return nil
}

func (ps *policyParser) group(args []string) error {
	if len(args) < 3 {
		return errors.New("want: group NAME all|any|K NAME…")
	}
	g := group{name: args[0], members: args[2:]}
	switch k := args[1]; k {
	case "all":
		g.k = len(g.members)
	case "any":
		g.k = 1
	default:
		n, err := strconv.Atoi(k)
		if err != nil || strconv.Itoa(n) != k || n < 1 || n > len(g.members) {
			return fmt.Errorf("threshold %q: want all, any, or a number from 1 to %d", k, len(g.members))
		}
		g.k = n
	}
	for _, m := range g.members {
		switch {
		case m == none || !ps.defined[m]:
			return fmt.Errorf("member %q is not defined above", m)
		case ps.member[m]:
			return fmt.Errorf("member %q belongs to a group already", m)
		}
		ps.member[m] = true
	}
	if err := ps.define(g.name); err != nil {
		return err
	}
	ps.p.groups = append(ps.p.groups, g)
	return nil
}

func (ps *policyParser) quorum(args []string) error {
	switch {
	case len(args) != 1:
		return errors.New("want: quorum NAME")
	case ps.p.quorum != "":
		return errors.New("a second quorum line")
	case !ps.defined[args[0]]:
		return fmt.Errorf("quorum %q is not defined above", args[0])
	}
	ps.p.quorum = args[0]
	return nil
}

// define takes a name of a witness or group.
func (ps *policyParser) define(name string) error {
	if ps.defined[name] {
		return fmt.Errorf("the name %q is taken", name)
	}
	ps.defined[name] = true
	return nil
}

// newKey refuses a public key that another line of the kind wraps, under
// whatever name, and two keys that a signature line could not tell apart.
func (ps *policyParser) newKey(kind, vkey string, v note.Verifier) error {
	key, err := publicKey(vkey)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash())
	if ps.keys[kind+key] || ps.ids[id] {
		return fmt.Errorf("the key %s is listed already", vkey)
	}
	ps.keys[kind+key], ps.ids[id] = true, true
	return nil
}

// publicKey is the key material of a vkey, without name, id and type.
func publicKey(vkey string) (string, error) {
	parts := strings.SplitN(vkey, "+", 3) // a third + belongs to the base64 text
	if len(parts) == 3 {
		if raw, err := base64.StdEncoding.DecodeString(parts[2]); err == nil && len(raw) > 1 {
			return string(raw[1:]), nil
		}
	}
	return "", fmt.Errorf("malformed key %q", vkey)
}

func optional(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// The vkey types of cosignatures.
const (
	typeEd25519 = 0x04
	typeMLDSA44 = 0x06
)

// NewVerifier makes the verifier of a witness's cosignatures from its vkey.
// Keys of other signatures are refused: what a log's key signs is no statement
// of a witness.
func NewVerifier(vkey string) (note.Verifier, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("malformed witness key %q", vkey)
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("malformed witness key %q", vkey)
	}
	if raw[0] != typeEd25519 && raw[0] != typeMLDSA44 {
		return nil, fmt.Errorf("witness key %q: a key of type %d makes no cosignatures", vkey, raw[0])
	}
	v, err := fnote.NewVerifierForCosignatureV1(vkey)
	if err != nil {
		return nil, fmt.Errorf("witness key %q: %w", vkey, err)
	}
	if id, err := strconv.ParseUint(parts[1], 16, 32); err != nil || uint32(id) != v.KeyHash() {
		return nil, fmt.Errorf("witness key %q: its id is %08x", vkey, v.KeyHash())
	}
	return v, nil
}

// Satisfied says whether a signed checkpoint has the cosignatures that the
// quorum needs, and whose it has, by their names in the policy. With log lines
// it must be signed by one of those logs. A checkpoint that cannot be judged,
// and one with a signature by a known key that does not verify, is ErrBadNote.
func (p *Policy) Satisfied(raw []byte) (ok bool, cosigners []string, err error) {
	var known []note.Verifier
	for _, l := range p.Logs {
		known = append(known, l.Verifier)
	}
	for _, w := range p.Witnesses {
		known = append(known, w.Verifier)
	}
	n, err := note.Open(raw, note.VerifierList(known...))
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified) && len(p.Logs) == 0:
		n = unverified.Note
	case err != nil:
		return false, nil, fmt.Errorf("%w: %w", ErrBadNote, err)
	}
	cp, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		return false, nil, fmt.Errorf("%w: %w", ErrBadNote, err)
	}
	byLog := len(p.Logs) == 0
	signed := map[string]bool{none: true}
	for _, s := range n.Sigs {
		is := func(v note.Verifier) bool { return v.Name() == s.Name && v.KeyHash() == s.Hash }
		byLog = byLog || s.Name == cp.Origin && slices.ContainsFunc(p.Logs, func(l LogKey) bool { return is(l.Verifier) })
		if i := slices.IndexFunc(p.Witnesses, func(w Witness) bool { return is(w.Verifier) }); i >= 0 {
			signed[p.Witnesses[i].Name] = true
		}
	}
	if !byLog {
		return false, nil, fmt.Errorf("%w: no log of the policy signs %q", ErrBadNote, cp.Origin)
	}
	for _, w := range p.Witnesses {
		if signed[w.Name] {
			cosigners = append(cosigners, w.Name)
		}
	}
	return p.met(signed), cosigners, nil
}

// met says whether the quorum is among what has witnessed, given the
// witnesses that have.
func (p *Policy) met(signed map[string]bool) bool {
	for _, g := range p.groups {
		n := 0
		for _, m := range g.members {
			if signed[m] {
				n++
			}
		}
		signed[g.name] = n >= g.k
	}
	return signed[p.quorum]
}

// Quorum is the name that the quorum line gives.
func (p *Policy) Quorum() string { return p.quorum }

// Missing lists the witnesses that the quorum asks and that are not among the
// cosigners, in the order of the file.
func (p *Policy) Missing(cosigners []string) []string {
	asked := map[string]bool{p.quorum: true}
	for _, g := range slices.Backward(p.groups) {
		for _, m := range g.members {
			asked[m] = asked[m] || asked[g.name]
		}
	}
	var out []string
	for _, w := range p.Witnesses {
		if asked[w.Name] && !slices.Contains(cosigners, w.Name) {
			out = append(out, w.Name)
		}
	}
	return out
}
