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
//	key.pub        note verifier key in force, for verify and for pinning
//	keyring        every verifier key, once there was more than one
//	key.next       a key that waits to replace key, with the rotation (0600)
//	hmac.key       key of the HMAC that names rejected bytes (0600)
//	index/         (principal, id) → seq, and the Merkle frontier; index-NAME/
//	               for an instance NAME that stands by or took over
//	checkpoint/    latest, and one checkpoint for each power of two and each
//	               4096 records, named by size; witnessed, the newest that
//	               met the witness policy; cosigned, a newer one that did not;
//	               in lost/ those of records that a restore declared lost
//	restoring      only while a restore is under way: the logger does not start
//	lock           held by the running logger, shared by those with standbys
type Files string

func (f Files) path(name string) string { return filepath.Join(string(f), name) }
func (f Files) lock() string            { return f.path("lock") }

func (f Files) index(instance string) string {
	if instance == "" {
		return f.path("index")
	}
	return f.path("index-" + instance)
}

// PublicKey is the file of the verifier key.
func (f Files) PublicKey() string { return f.path("key.pub") }

// Checkpoints is the directory of the signed checkpoints.
func (f Files) Checkpoints() string { return f.path("checkpoint") }

// Keys are the logger's secrets and their public half.
type Keys struct {
	signer note.Signer // nil only before a recovery
	ring   Keyring
	next   *nextKey // a rotation that waits, or was interrupted
	hmac   []byte

	unsaved bool // ring says more than its file
}

// Verifier is the note verifier key string of the key in force.
func (k *Keys) Verifier() string { return k.ring.inForce().Verifier }

func (k *Keys) origin() string { return k.ring.inForce().verifier.Name() }

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
			return nil, errors.Join(err, fmt.Errorf("%s is gone, but %s holds what it signed: restore it, or `assay key recover`", f.path("key"), f.Checkpoints()))
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
// there are only checkpoints that they signed. The private key is absent only
// where a recovery waits to replace it, and not the one in force only where a
// rotation was interrupted.
func LoadKeys(f Files) (*Keys, error) {
	k := &Keys{}
	var err error
	if k.next, err = loadNext(f); err != nil {
		return nil, err
	}
	skey, err := os.ReadFile(f.path("key"))
	signed, _ := os.ReadDir(f.Checkpoints())
	switch {
	case errors.Is(err, fs.ErrNotExist) && k.next == nil && len(signed) > 0:
		return nil, fmt.Errorf("%s: %w", f, ErrNoKey)
	case errors.Is(err, fs.ErrNotExist) && k.next == nil:
		return nil, fmt.Errorf("%s: %w", f, ErrNotInitialised)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil:
		if k.signer, err = note.NewSigner(strings.TrimSpace(string(skey))); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path("key"), err)
		}
	}
	if _, _, err = LoadVerifier(f); err != nil {
		return nil, err
	}
	if k.ring, err = LoadKeyring(f); err != nil {
		return nil, err
	}
	if k.next == nil {
		if err := k.inForce(f); err != nil {
			return nil, err
		}
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
//
// A logger that was stopped (SIGSTOP, a suspended machine) may wake at any line
// of this, long after another took over and signed larger sizes in the same
// directory, and must not put its own back in their place:
//
//   - Before the temporary file is there: the lease is looked at after that,
//     has ended, and the file is given up.
//   - Between that look and the rename: the one that took over has removed the
//     temporary file (removeUnsaved), after its first append and before its
//     first checkpoint, and the rename fails. A rename before that removal is
//     one before every checkpoint of the other, and its size is smaller: it
//     covers records that the other read before it took over.
//   - After the rename: as if it had not been stopped.
//
// A lock around all this would be held by the stopped process for as long as
// it sleeps, and keep the other from signing.
func (l *Logger) saveCheckpoint(cp ledger.Checkpoint, raw []byte) error {
	latest := filepath.Join(l.files.Checkpoints(), latest)
	old, err := os.ReadFile(latest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		before, err := l.keys.ring.OpenCheckpoint(old)
		if err != nil {
			return fmt.Errorf("%s: %w", latest, err)
		}
		if before.Size > cp.Size {
			return fmt.Errorf("%w: the checkpoint on file signs %d records", ErrFenced, before.Size)
		}
		if before.Size > 0 && ledger.KeepCheckpoint(before.Size, cp.Size) {
			kept := filepath.Join(l.files.Checkpoints(), strconv.FormatUint(before.Size, 10))
			p, err := l.cfg.Prepare(kept, old, 0o644)
			if err == nil {
				err = p.Commit()
			}
			if err != nil {
				return err
			}
		}
	}
	return l.store(latest, raw)
}

// store puts a file in its place unless the lease has ended.
func (l *Logger) store(path string, raw []byte) error {
	p, err := l.cfg.Prepare(path, raw, 0o644)
	if err != nil {
		return err
	}
	if !l.maySign() {
		p.Discard()
		return fmt.Errorf("%w: the lease ended", errNotSaved)
	}
	return p.Commit()
}

// errNotSaved means that a checkpoint was not stored, and need not be.
var errNotSaved = errors.New("checkpoint given up")

// removeUnsaved removes what another logger was about to store; see
// saveCheckpoint.
func (f Files) removeUnsaved() error {
	var errs []error
	for _, path := range []string{f.Latest(), f.Witnessed(), f.Cosigned()} {
		errs = append(errs, durable.RemovePending(path))
	}
	return errors.Join(errs...)
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
