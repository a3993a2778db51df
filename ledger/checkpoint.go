package ledger

import (
	"errors"
	"fmt"
	"math/bits"

	flog "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
)

// ErrBadCheckpoint means that a checkpoint is not a signed note of this log:
// malformed, of another origin, or without a good signature of the pinned key.
var ErrBadCheckpoint = errors.New("not a checkpoint signed by this log's key")

// Checkpoint commits to the first Size records of a log
// (C2SP tlog-checkpoint).
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   Hash
}

// SignCheckpoint encodes the checkpoint as a signed note; the signer's name
// must be the origin.
func SignCheckpoint(c Checkpoint, signer note.Signer) ([]byte, error) {
	text := flog.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(text)}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint of size %d: %w", c.Size, err)
	}
	return signed, nil
}

// SignedCheckpoint is a checkpoint with the note that it came in.
type SignedCheckpoint struct {
	Checkpoint
	Raw []byte // the signed note
}

// ParseCheckpoint reads a signed note without checking a signature: for finding
// out which key should have signed it. Failures are ErrBadCheckpoint.
func ParseCheckpoint(raw []byte) (SignedCheckpoint, error) {
	_, err := note.Open(raw, note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return SignedCheckpoint{}, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	}
	cp, err := parseCheckpointText(unverified.Note.Text)
	return SignedCheckpoint{cp, raw}, err
}

// parseCheckpointText reads the text of a checkpoint note in its canonical
// form; extension lines are passed over.
func parseCheckpointText(text string) (Checkpoint, error) {
	var cp flog.Checkpoint
	rest, err := cp.Unmarshal([]byte(text))
	switch {
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	case len(cp.Hash) != len(Hash{}):
		return Checkpoint{}, fmt.Errorf("%w: root of %d bytes", ErrBadCheckpoint, len(cp.Hash))
	case cp.Size > MaxSize:
		return Checkpoint{}, fmt.Errorf("%w: size %d is beyond %d", ErrBadCheckpoint, cp.Size, uint64(MaxSize))
	case string(cp.Marshal())+string(rest) != text:
		return Checkpoint{}, fmt.Errorf("%w: not in canonical form", ErrBadCheckpoint)
	}
	return Checkpoint{Origin: cp.Origin, Size: cp.Size, Root: Hash(cp.Hash)}, nil
}

// OpenCheckpoint checks the signature with the pinned key, whose name is the
// expected origin. Any failure is ErrBadCheckpoint with its cause.
func OpenCheckpoint(raw []byte, key note.Verifier) (Checkpoint, error) {
	n, err := note.Open(raw, note.VerifierList(key))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	}
	cp, err := parseCheckpointText(n.Text)
	if err == nil && cp.Origin != key.Name() {
		err = fmt.Errorf("%w: origin %q, want %q", ErrBadCheckpoint, cp.Origin, key.Name())
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return cp, nil
}

// KeepCheckpoint says whether a checkpoint of size older stays on file when
// one of size newer follows it: one for each power of two and each 4096
// records, so that a rewrite can be located between two of them.
func KeepCheckpoint(older, newer uint64) bool {
	return older/4096 != newer/4096 || bits.Len64(older) != bits.Len64(newer)
}
