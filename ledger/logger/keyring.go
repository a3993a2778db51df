package logger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/ledger"
)

// Keyring is the public keys that the log signed with, the one in force last.
// It is a convenience of this directory: the truth is in the ledger's
// ledger.key_rotated records, which an audit follows by itself.
//
// Its file, keyring, has a line for each key: the size of the first checkpoint
// that the key signs, a space and the verifier key. Without a rotation there is
// none, and key.pub is the only key.
type Keyring struct{ keys []ringKey }

type ringKey struct {
	ledger.Key
	verifier note.Verifier
}

// ErrBadKeyring means that the keyring is not one.
var ErrBadKeyring = errors.New("malformed keyring")

func (f Files) keyring() string { return f.path("keyring") }

// LoadKeyring reads the public keys; ErrNotInitialised when there are none.
func LoadKeyring(f Files) (Keyring, error) {
	raw, err := os.ReadFile(f.keyring())
	if err == nil {
		ring, err := ParseKeyring(raw)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.keyring(), err)
		}
		return ring, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Keyring{}, err
	}
	vkey, _, err := LoadVerifier(f)
	if err != nil {
		return Keyring{}, err
	}
	return Keyring{}.with(1, vkey)
}

// ParseKeyring reads a keyring's text. Failures are ErrBadKeyring.
func ParseKeyring(text []byte) (ring Keyring, err error) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines {
		from, vkey, _ := strings.Cut(line, " ")
		seq, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return Keyring{}, fmt.Errorf("%w: line %d: %w", ErrBadKeyring, i+1, err)
		}
		if i == 0 && seq != 1 || i > 0 && ledger.Seq(seq) <= ring.inForce().From {
			return Keyring{}, fmt.Errorf("%w: line %d: a key from size %d on", ErrBadKeyring, i+1, seq)
		}
		if ring, err = ring.with(ledger.Seq(seq), vkey); err != nil {
			return Keyring{}, fmt.Errorf("%w: line %d: %w", ErrBadKeyring, i+1, err)
		}
		if ring.keys[i].verifier.Name() != ring.keys[0].verifier.Name() {
			return Keyring{}, fmt.Errorf("%w: line %d: a key of another log", ErrBadKeyring, i+1)
		}
	}
	return ring, nil
}

// Encode is the text that ParseKeyring reads.
func (k Keyring) Encode() []byte {
	var out []byte
	for _, key := range k.keys {
		out = fmt.Appendf(out, "%d %s\n", key.From, key.Verifier)
	}
	return out
}

// Keys lists the keys with the size from which on each is in force.
func (k Keyring) Keys() []ledger.Key {
	var out []ledger.Key
	for _, key := range k.keys {
		out = append(out, key.Key)
	}
	return out
}

func (k Keyring) with(from ledger.Seq, vkey string) (Keyring, error) {
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return Keyring{}, fmt.Errorf("key %q: %w", vkey, err)
	}
	return Keyring{append(slices.Clip(k.keys), ringKey{ledger.Key{From: from, Verifier: vkey}, v})}, nil
}

func (k Keyring) inForce() ringKey { return k.keys[len(k.keys)-1] }

// has says whether the key was ever in force.
func (k Keyring) has(vkey string) bool {
	return slices.ContainsFunc(k.keys, func(key ringKey) bool { return key.Verifier == vkey })
}

// OpenCheckpoint checks the signature of the key in force at the checkpoint's
// size. Any failure is ledger.ErrBadCheckpoint with its cause.
func (k Keyring) OpenCheckpoint(raw []byte) (ledger.Checkpoint, error) {
	cp, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	at := k.keys[0]
	for _, key := range k.keys {
		if uint64(key.From) <= cp.Size {
			at = key
		}
	}
	return ledger.OpenCheckpoint(raw, at.verifier)
}

// save stores the keyring, and then key.pub, which names the key in force.
func (k Keyring) save(f Files) error {
	if len(k.keys) > 1 {
		if err := durable.WriteFile(f.keyring(), k.Encode(), 0o644); err != nil {
			return err
		}
	}
	return durable.WriteFile(f.PublicKey(), []byte(k.inForce().Verifier+"\n"), 0o644)
}

// LoadCheckpoints opens every checkpoint on file with the key in force at its
// size, the largest first. Without any, the result is empty; an unreadable one
// is an error beside the others. A missing directory is ErrNoCheckpoint and
// fs.ErrNotExist.
func LoadCheckpoints(f Files) ([]ledger.Checkpoint, error) {
	signed, broken := ReadCheckpoints(f)
	if signed == nil && broken != nil {
		return nil, broken
	}
	// The keys after the checkpoints: a rotation puts its key here before it
	// signs with it.
	ring, err := LoadKeyring(f)
	if err != nil {
		return nil, err
	}
	var out []ledger.Checkpoint
	for _, s := range signed {
		cp, err := ring.OpenCheckpoint(s.Raw)
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: checkpoint of size %d: %w", f.Checkpoints(), s.Size, err))
			continue
		}
		out = append(out, cp)
	}
	slices.SortFunc(out, func(a, b ledger.Checkpoint) int { return cmp.Compare(b.Size, a.Size) })
	return out, broken
}
