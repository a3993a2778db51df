package logger

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"assay/internal/durable"
	"assay/ledger"
)

// Files is the logger's directory:
//
//	key            note signing key (0600)
//	key.pub        note verifier key, for verify and for pinning
//	hmac.key       key of the HMAC that names rejected bytes (0600)
//	index/         (principal, id) → seq, and the Merkle frontier
//	checkpoint/    latest, and one checkpoint for each power of two and each
//	               4096 records, named by size; witnessed, the newest that
//	               met the witness policy; cosigned, a newer one that did not;
//	               in lost/ those of records that a restore declared lost
//	restoring      only while a restore is under way: the logger does not start
//	lock           held by the running logger
type Files string

func (f Files) path(name string) string { return filepath.Join(string(f), name) }
func (f Files) lock() string            { return f.path("lock") }
func (f Files) index() string           { return f.path("index") }

// PublicKey is the file of the verifier key.
func (f Files) PublicKey() string { return f.path("key.pub") }

// Checkpoints is the directory of the signed checkpoints.
func (f Files) Checkpoints() string { return f.path("checkpoint") }

// Keys are the logger's secrets and their public half.
type Keys struct {
	signer   note.Signer
	verifier note.Verifier
	vkey     string
	hmac     []byte
}

// Verifier is the note verifier key string.
func (k *Keys) Verifier() string { return k.vkey }

const hmacKeySize = 32

// CreateKeys makes the keys of a log named origin, keeping what is there. Only
// init calls it.
func CreateKeys(f Files, origin string) (*Keys, error) {
	for _, dir := range []string{string(f), f.Checkpoints()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(f.path("key")); errors.Is(err, fs.ErrNotExist) {
		if signed, err := os.ReadDir(f.Checkpoints()); err != nil || len(signed) > 0 {
			return nil, errors.Join(err, fmt.Errorf("%s is gone, but %s holds what it signed: restore it", f.path("key"), f.Checkpoints()))
		}
		skey, vkey, err := note.GenerateKey(rand.Reader, origin)
		if err != nil {
			return nil, fmt.Errorf("make key of %q: %w", origin, err)
		}
		mac := make([]byte, hmacKeySize)
		if _, err := rand.Read(mac); err != nil {
			return nil, err
		}
		// The signing key last: it marks the others as whole.
		if err := durable.WriteFile(f.PublicKey(), []byte(vkey+"\n"), 0o644); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(f.path("hmac.key"), mac, 0o600); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(f.path("key"), []byte(skey+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return LoadKeys(f)
}

// LoadKeys reads the keys; ErrNotInitialised when there are none, ErrNoKey when
// there are only checkpoints that they signed.
func LoadKeys(f Files) (*Keys, error) {
	skey, err := os.ReadFile(f.path("key"))
	if signed, _ := os.ReadDir(f.Checkpoints()); errors.Is(err, fs.ErrNotExist) && len(signed) > 0 {
		return nil, fmt.Errorf("%s: %w", f, ErrNoKey)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", f, ErrNotInitialised)
	}
	if err != nil {
		return nil, err
	}
	k := &Keys{}
	if k.signer, err = note.NewSigner(strings.TrimSpace(string(skey))); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path("key"), err)
	}
	if k.vkey, k.verifier, err = LoadVerifier(f); err != nil {
		return nil, err
	}
	if k.verifier.Name() != k.signer.Name() || k.verifier.KeyHash() != k.signer.KeyHash() {
		return nil, fmt.Errorf("%s does not belong to %s", f.PublicKey(), f.path("key"))
	}
	if k.hmac, err = os.ReadFile(f.path("hmac.key")); err != nil {
		return nil, err
	}
	if len(k.hmac) != hmacKeySize {
		return nil, fmt.Errorf("%s has %d bytes, want %d", f.path("hmac.key"), len(k.hmac), hmacKeySize)
	}
	return k, nil
}

// LoadVerifier reads the public key alone: what verify needs.
func LoadVerifier(f Files) (vkey string, v note.Verifier, err error) {
	raw, err := os.ReadFile(f.PublicKey())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s: %w", f, ErrNotInitialised)
	}
	if err != nil {
		return "", nil, err
	}
	vkey = strings.TrimSpace(string(raw))
	if v, err = note.NewVerifier(vkey); err != nil {
		return "", nil, fmt.Errorf("%s: %w", f.PublicKey(), err)
	}
	return vkey, v, nil
}

const latest = "latest"

// saveCheckpoint stores a signed checkpoint, keeping the one before it if
// ledger.KeepCheckpoint says so. The directory must exist: a missing one is an
// operator's mistake that must not heal itself into a ledger without history.
func (f Files) saveCheckpoint(cp ledger.Checkpoint, raw []byte, before ledger.Checkpoint) error {
	dir := f.Checkpoints()
	if before.Size > 0 && ledger.KeepCheckpoint(before.Size, cp.Size) {
		old, err := os.ReadFile(filepath.Join(dir, latest))
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, strconv.FormatUint(before.Size, 10)), old, 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(dir, latest), raw, 0o644)
}

// ReadCheckpoints reads every checkpoint on file, the largest first, without
// checking a signature: an audit does that, since which key had to sign is in
// the ledger. Errors are those of LoadCheckpoints.
func ReadCheckpoints(f Files) ([]ledger.SignedCheckpoint, error) {
	entries, err := os.ReadDir(f.Checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	if err != nil {
		return nil, err
	}
	var out []ledger.SignedCheckpoint
	var broken error
	for _, e := range entries {
		if e.IsDir() || !isCheckpointName(e.Name()) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(f.Checkpoints(), e.Name()))
		var cp ledger.SignedCheckpoint
		if err == nil {
			cp, err = ledger.ParseCheckpoint(raw)
		}
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", filepath.Join(f.Checkpoints(), e.Name()), err))
			continue
		}
		out = append(out, cp)
	}
	slices.SortFunc(out, func(a, b ledger.SignedCheckpoint) int { return cmp.Compare(b.Size, a.Size) })
	return out, broken
}

// isCheckpointName says whether a file is one that saveCheckpoint writes, and
// not a lock or what an interrupted write left.
func isCheckpointName(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil || name == latest || name == witnessed || name == cosigned
}

// LoadCheckpoints opens every checkpoint on file with key, the largest first.
// Without any, the result is empty; an unreadable one is an error beside the
// others. A missing directory is ErrNoCheckpoint and fs.ErrNotExist.
func LoadCheckpoints(f Files, key note.Verifier) ([]ledger.Checkpoint, error) {
	entries, err := os.ReadDir(f.Checkpoints())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoCheckpoint, err)
	}
	if err != nil {
		return nil, err
	}
	var out []ledger.Checkpoint
	var broken error
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue // those of a declared loss, and a temporary file of an interrupted write
		}
		raw, err := os.ReadFile(filepath.Join(f.Checkpoints(), e.Name()))
		if err == nil {
			var cp ledger.Checkpoint
			if cp, err = ledger.OpenCheckpoint(raw, key); err == nil {
				out = append(out, cp)
				continue
			}
		}
		broken = errors.Join(broken, fmt.Errorf("%s: %w", filepath.Join(f.Checkpoints(), e.Name()), err))
	}
	slices.SortFunc(out, func(a, b ledger.Checkpoint) int { return cmp.Compare(b.Size, a.Size) })
	return out, broken
}
