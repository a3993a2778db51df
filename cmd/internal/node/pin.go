package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/internal/versioned"
	"assay/ledger"
)

// PinVersion is the format of a pin file that this build writes and reads.
const PinVersion = 1

// Pin is what a verifier remembers of a log between two visits: its name, its
// key, and the largest head that it found consistent. The first visit is taken
// on trust; from then on the log may only grow.
//
//	{"v":1,"origin":"…","key":"…","size":42,"root":"…","checkpoint":"…"}
type Pin struct {
	V          int    `json:"v"`
	Origin     string `json:"origin"`
	Key        string `json:"key"` // verifier key in force at that size
	Size       uint64 `json:"size"`
	Root       string `json:"root"`       // hex
	Checkpoint string `json:"checkpoint"` // the signed note of that size: evidence in a dispute
}

// ErrPin means that a pin file is not what this build writes.
var ErrPin = errors.New("malformed pin file")

// LoadPin reads a pin file; nil when there is none yet.
func LoadPin(path string) (*Pin, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p Pin
	if err := versioned.Decode(raw, PinVersion, &p); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrPin, err)
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrPin, err)
	}
	return &p, nil
}

func (p *Pin) validate() error {
	key, err := note.NewVerifier(p.Key)
	if err != nil {
		return err
	}
	if p.Origin != key.Name() {
		return fmt.Errorf("origin %q with the key of %q", p.Origin, key.Name())
	}
	root, err := ledger.ParseHash(p.Root)
	if err != nil {
		return err
	}
	cp, err := ledger.OpenCheckpoint([]byte(p.Checkpoint), key)
	if err != nil {
		return err
	}
	if cp.Size != p.Size || cp.Root != root {
		return fmt.Errorf("size %d and root %s with a checkpoint of size %d and root %s", p.Size, p.Root, cp.Size, cp.Root)
	}
	return nil
}

// Head is the remembered head.
func (p *Pin) Head() *ledger.Checkpoint {
	root, _ := ledger.ParseHash(p.Root) // validated when it was loaded
	return &ledger.Checkpoint{Origin: p.Origin, Size: p.Size, Root: root}
}

// Remember stores in path the largest checkpoint of an audit that found them
// all consistent, if it is larger than what is remembered. It returns what is
// remembered then; nil if there was nothing to remember.
func Remember(path string, p *Pin, a ledger.Anchor, r ledger.Report) (*Pin, error) {
	if r.Verdict != ledger.Consistent {
		return p, nil
	}
	var newest *ledger.SignedCheckpoint
	for i, s := range a.Signed {
		if newest == nil || s.Size > newest.Size {
			newest = &a.Signed[i]
		}
	}
	if newest == nil || p != nil && newest.Size <= p.Size {
		return p, nil
	}
	key := a.Key
	for _, k := range r.Keys { // in order; empty when there was no rotation
		if uint64(k.From) <= newest.Size {
			key = k.Verifier
		}
	}
	next := &Pin{PinVersion, newest.Origin, key, newest.Size, newest.Root.String(), string(newest.Raw)}
	if err := next.validate(); err != nil {
		return p, fmt.Errorf("remember the head: %w", err)
	}
	raw, err := json.Marshal(next, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return p, err
	}
	return next, durable.WriteFile(path, append(raw, '\n'), 0o644)
}
