package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/note"
)

// ErrMalformedProof means that a file is no proof in the form that this package
// writes.
var ErrMalformedProof = errors.New("malformed proof file")

// InclusionProof says that a record is in the log, for somebody who has nothing
// but the log's public key. Its file is a C2SP tlog-proof whose extra data is
// the record's body:
//
//	c2sp.org/tlog-proof@v1
//	extra <base64 of the record's body>
//	index <leaf index, seq − 1>
//	<base64 hash, the leaf's sibling first>
//	…
//
//	<the signed checkpoint, verbatim>
type InclusionProof struct {
	Body       []byte
	Index      Index
	Path       []Hash
	Checkpoint []byte // signed note
}

// ConsistencyProof says that a log of size Old is a prefix of the one that
// Checkpoint signs. Its file is the body of a C2SP tlog-witness add-checkpoint
// request:
//
//	old <size>
//	<base64 hash>
//	…
//
//	<the signed checkpoint, verbatim>
//
// From size 0 the path is empty and proves nothing.
type ConsistencyProof struct {
	Old        uint64
	Path       []Hash
	Checkpoint []byte // signed note
}

const (
	proofHeader = "c2sp.org/tlog-proof@v1"
	// maxPath is the longest path of any proof: C2SP tlog-witness.
	maxPath = 63
	// MaxProof bounds a proof's file in bytes: the body in base64, the path, and
	// a checkpoint with as many cosignatures as anybody collects.
	MaxProof = (MaxRecord+2)/3*4 + maxPath*45 + 64<<10
)

// Encode is the proof's file.
func (p *InclusionProof) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", proofHeader, base64.StdEncoding.EncodeToString(p.Body), p.Index)
	writePath(&b, p.Path, p.Checkpoint)
	return b.Bytes()
}

// Encode is the proof's file.
func (p *ConsistencyProof) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", p.Old)
	writePath(&b, p.Path, p.Checkpoint)
	return b.Bytes()
}

func writePath(b *bytes.Buffer, path []Hash, checkpoint []byte) {
	for _, h := range path {
		b.WriteString(base64.StdEncoding.EncodeToString(h[:]))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	b.Write(checkpoint)
}

// IsInclusionProof says which of the two kinds of proof a file claims to be.
func IsInclusionProof(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte(proofHeader+"\n"))
}

// ParseInclusionProof reads exactly what Encode writes: ErrMalformedProof.
func ParseInclusionProof(raw []byte) (*InclusionProof, error) {
	l := lines{rest: raw}
	var p InclusionProof
	if l.next() != proofHeader {
		l.fail("the first line is not %s", proofHeader)
	}
	p.Body = l.base64("extra ")
	p.Index = Index(l.number("index "))
	p.Path, p.Checkpoint = l.path()
	if err := l.end(raw, p.Encode); err != nil {
		return nil, err
	}
	return &p, nil
}

// ParseConsistencyProof reads exactly what Encode writes: ErrMalformedProof.
func ParseConsistencyProof(raw []byte) (*ConsistencyProof, error) {
	l := lines{rest: raw}
	var p ConsistencyProof
	p.Old = l.number("old ")
	p.Path, p.Checkpoint = l.path()
	if err := l.end(raw, p.Encode); err != nil {
		return nil, err
	}
	return &p, nil
}

// lines reads a file line by line and keeps the first error.
type lines struct {
	rest []byte
	n    int
	err  error
}

func (l *lines) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%w: line %d: %s", ErrMalformedProof, l.n, fmt.Sprintf(format, args...))
	}
}

// end holds what was read against the only way in which it may be written.
func (l *lines) end(raw []byte, encode func() []byte) error {
	switch {
	case l.err != nil:
	case len(raw) > MaxProof:
		l.fail("%d bytes, the limit is %d", len(raw), MaxProof)
	case !bytes.Equal(encode(), raw):
		l.fail("not in canonical form")
	}
	return l.err
}

func (l *lines) next() string {
	l.n++
	line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
	if !ok {
		l.fail("cut short")
	}
	l.rest = rest
	return string(line)
}

// value is the rest of a line that begins with name.
func (l *lines) value(name string) string {
	line := l.next()
	if len(line) < len(name) || line[:len(name)] != name {
		l.fail("want %q", name)
		return ""
	}
	return line[len(name):]
}

func (l *lines) number(name string) uint64 {
	v, err := strconv.ParseUint(l.value(name), 10, 64)
	if err != nil {
		l.fail("%v", err)
	}
	return v
}

func (l *lines) base64(name string) []byte {
	b, err := base64.StdEncoding.DecodeString(l.value(name))
	if err != nil {
		l.fail("%v", err)
	}
	return b
}

// path reads hashes up to the empty line; what follows is the checkpoint.
func (l *lines) path() (path []Hash, checkpoint []byte) {
	for l.err == nil {
		line := l.next()
		if line == "" {
			break
		}
		h, err := base64.StdEncoding.DecodeString(line)
		switch {
		case err != nil:
			l.fail("%v", err)
		case len(h) != len(Hash{}):
			l.fail("hash of %d bytes", len(h))
		case len(path) == maxPath:
			l.fail("more than %d hashes", maxPath)
		default:
			path = append(path, Hash(h))
		}
	}
	if l.err == nil && len(l.rest) == 0 {
		l.fail("no checkpoint")
	}
	return path, l.rest
}

// Check holds the proof against the log's key: the checkpoint's signature, the
// path, and that the record says of itself where it stands. ErrBadCheckpoint,
// ErrBadProof, ErrSize or ErrCorrupt.
func (p *InclusionProof) Check(key note.Verifier) (Checkpoint, Record, error) {
	cp, err := OpenCheckpoint(p.Checkpoint, key)
	if err != nil {
		return Checkpoint{}, Record{}, err
	}
	if err := CheckInclusion(p.Path, p.Index, Leaf(p.Body), cp.Size, cp.Root); err != nil {
		return Checkpoint{}, Record{}, err
	}
	r, err := ParseRecord(p.Body)
	if err == nil {
		err = r.CheckEvent()
	}
	if err == nil && r.Seq.Index() != p.Index {
		err = fmt.Errorf("%w: the record says seq %d, the proof says index %d", ErrCorrupt, r.Seq, p.Index)
	}
	return cp, r, err
}

// Check holds the proof against the log's key and an older checkpoint, whose
// signature the caller has checked: ErrBadCheckpoint, ErrBadProof or ErrSize.
func (p *ConsistencyProof) Check(old Checkpoint, key note.Verifier) (Checkpoint, error) {
	cp, err := OpenCheckpoint(p.Checkpoint, key)
	if err != nil {
		return Checkpoint{}, err
	}
	if p.Old != old.Size {
		return Checkpoint{}, fmt.Errorf("%w: it starts at size %d, the older checkpoint signs %d", ErrBadProof, p.Old, old.Size)
	}
	return cp, CheckConsistency(p.Path, old, cp)
}
