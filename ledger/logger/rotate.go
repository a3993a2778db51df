package logger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/internal/durable"
	"assay/ledger"
)

// A rotation is prepared while no logger runs (Rotate, Recover): the new key and
// the signatures of the change wait in key.next. The next start takes it from
// there, and each step can be done again after a crash:
//
//	append  ledger.key_rotated, before anything is taken
//	ring    keyring, then key.pub, name the new key from that record on
//	swap    key is replaced by the new one: the old private key is gone
//	sign    the next checkpoint, with the new key
//	clear   key.next is removed, after the swap
//
// A start that finds key.next reads in the stream whether the record is there.
// No checkpoint signs the record's size before the ring names its key, so the
// tail behind the last checkpoint, which every start reads, shows it.

var (
	// ErrRotating means that a prepared rotation waits for the logger's start.
	ErrRotating = errors.New("a rotation waits already: start the logger, which completes it")
	// ErrKeyNotInForce means that the log signs with another key by now.
	ErrKeyNotInForce = errors.New("the private key here is not the one in force")
	// ErrNoRecoveryKey means that a seed is not that of the recovery key.
	ErrNoRecoveryKey = errors.New("this is not the seed of the ledger's recovery key")
)

// nextKey is the content of key.next.
type nextKey struct {
	Key      string          `json:"key"` // note signing key
	Rotation ledger.Rotation `json:"rotation"`
}

func (f Files) next() string { return f.path("key.next") }

// Rotate prepares the change to a new key, signed by the one in force, and
// returns the new verifier key. It takes effect at the logger's next start. No
// logger may run: durable.ErrLocked.
func Rotate(f Files) (vkey string, err error) {
	err = f.alone(func() error {
		k, err := LoadKeys(f)
		if err != nil {
			return err
		}
		if k.next != nil {
			return ErrRotating
		}
		vkey, err = f.prepare(k.ring, func(text []byte, r *ledger.Rotation) (err error) {
			r.OldSignature, err = ledger.SignRotation(text, k.signer)
			return err
		})
		return err
	})
	return vkey, err
}

// Recover is Rotate for a key that was lost or stolen: the seed of the recovery
// key signs in its place. recoveryKey is that key's public half; another seed
// is ErrNoRecoveryKey. A rotation that was prepared before is given up.
func Recover(f Files, seed []byte, recoveryKey string) (vkey string, err error) {
	err = f.alone(func() error {
		ring, err := LoadKeyring(f)
		if err != nil {
			return err
		}
		next, err := loadNext(f)
		if err == nil && next != nil && ring.has(next.Rotation.New) {
			err = ErrRotating // what is left is to put the key in its place
		}
		if err != nil {
			return err
		}
		vkey, err = f.prepare(ring, func(text []byte, r *ledger.Rotation) (err error) {
			r.RecoveryKey, r.RecoverySignature, err = ledger.SignRecovery(text, seed)
			if err == nil && r.RecoveryKey != recoveryKey {
				err = fmt.Errorf("%w: it makes %s, record 1 commits to %s", ErrNoRecoveryKey, r.RecoveryKey, recoveryKey)
			}
			return err
		})
		return err
	})
	return vkey, err
}

// alone does something while no logger runs on the directory.
func (f Files) alone(do func() error) error {
	if _, err := os.Stat(f.PublicKey()); err != nil {
		return fmt.Errorf("%s: %w", f, ErrNotInitialised)
	}
	lock, err := durable.TryLock(f.lock())
	if err != nil {
		return fmt.Errorf("logger directory %s: %w", f, err)
	}
	return errors.Join(do(), lock.Unlock())
}

// prepare makes a key, has the change signed and writes key.next.
func (f Files) prepare(ring Keyring, sign func(text []byte, r *ledger.Rotation) error) (string, error) {
	old := ring.inForce()
	skey, vkey, err := note.GenerateKey(rand.Reader, old.verifier.Name())
	if err != nil {
		return "", err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return "", err
	}
	n := nextKey{Key: skey, Rotation: ledger.Rotation{Old: old.Verifier, New: vkey}}
	text := ledger.RotationText(old.verifier.Name(), old.Verifier, vkey)
	if n.Rotation.NewSignature, err = ledger.SignRotation(text, signer); err != nil {
		return "", err
	}
	if err := sign(text, &n.Rotation); err != nil {
		return "", err
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	return vkey, durable.WriteFile(f.next(), append(raw, '\n'), 0o600)
}

// PreparedKey is the verifier key of a rotation that waits; "" without one.
func PreparedKey(f Files) (string, error) {
	next, err := loadNext(f)
	if err != nil || next == nil {
		return "", err
	}
	return next.Rotation.New, nil
}

// loadNext is nil when no rotation waits.
func loadNext(f Files) (*nextKey, error) {
	raw, err := os.ReadFile(f.next())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var n nextKey
	if err := json.Unmarshal(raw, &n, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", f.next(), err)
	}
	return &n, nil
}

// observe takes a rotation that stands in the stream at seq into the ring.
func (l *Logger) observe(seq ledger.Seq, rot *ledger.Rotation) error {
	ring := l.keys.ring
	old := ring.inForce()
	if seq <= old.From {
		return nil // known
	}
	if err := rot.Check(old.verifier.Name(), old.Verifier, l.recoveryHash); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	ring, err := ring.with(seq, rot.New)
	if err != nil {
		return err
	}
	l.cfg.Log.Warn().Uint64("seq", uint64(seq)).Str("key", rot.New).Msg("the log's key was rotated")
	l.keys.ring, l.keys.unsaved = ring, true
	return nil
}

// saveRing stores what was observed, once the records were found to be those
// that the checkpoints sign.
func (l *Logger) saveRing() error {
	if !l.keys.unsaved {
		return nil
	}
	l.keys.unsaved = false
	return l.keys.ring.save(l.files)
}

// rotate brings the key that signs in line with the ledger: it appends a
// prepared rotation that is not there yet, and puts its key in its place.
func (l *Logger) rotate(ctx context.Context) error {
	next := l.keys.next
	if next != nil && !l.keys.ring.has(next.Rotation.New) {
		old := l.keys.ring.inForce()
		if err := next.Rotation.Check(old.verifier.Name(), old.Verifier, l.recoveryHash); err != nil {
			return fmt.Errorf("%s: %w", l.files.next(), err)
		}
		if err := l.appendRotation(ctx, &next.Rotation); err != nil {
			return err
		}
	}
	if err := l.swapKey(); err != nil {
		return err
	}
	return l.keys.inForce(l.files)
}

// swapKey puts a prepared key in its place, once its rotation is in the ledger.
func (l *Logger) swapKey() error {
	next := l.keys.next
	if next == nil || !l.keys.ring.has(next.Rotation.New) {
		return nil
	}
	signer, err := note.NewSigner(next.Key)
	if err != nil {
		return fmt.Errorf("%s: %w", l.files.next(), err)
	}
	if err := l.keys.ring.save(l.files); err != nil {
		return err
	}
	if err := durable.WriteFile(l.files.path("key"), []byte(next.Key+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Remove(l.files.next()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // gone: another logger of this directory was as far
	}
	l.keys.signer, l.keys.next, l.keys.unsaved = signer, nil, false
	return durable.SyncDir(string(l.files))
}

// appendRotation appends the record and takes it into the ring.
func (l *Logger) appendRotation(ctx context.Context, rot *ledger.Rotation) error {
	l.w.own(&events.LedgerKeyRotated{
		Context: ownContext(), OldKey: rot.Old, NewKey: rot.New,
		OldSignature: optional(rot.OldSignature), NewSignature: rot.NewSignature,
		RecoveryKey: optional(rot.RecoveryKey), RecoverySignature: optional(rot.RecoverySignature),
	})
	for len(l.w.ownQueue) > 0 {
		b := l.w.build()
		if err := l.w.settle(ctx, b, <-l.w.send(ctx, b)); err != nil {
			l.w.drop(b)
			l.w.ownQueue = nil // it is for a start to append, which then takes the key
			return fmt.Errorf("append ledger.key_rotated: %w", err)
		}
		if err := l.w.finish(b); err != nil {
			return err
		}
	}
	return l.observe(l.w.head.seq, rot)
}

// inForce says whether the private key is the one that has to sign.
func (k *Keys) inForce(f Files) error {
	want := k.ring.inForce()
	switch {
	case k.signer == nil:
		return fmt.Errorf("%s: %w", f.path("key"), ErrNotInitialised)
	case k.signer.Name() != want.verifier.Name() || k.signer.KeyHash() != want.verifier.KeyHash():
		return fmt.Errorf("%w: since size %d it is %s; copy it here, or `assay key recover`", ErrKeyNotInForce, want.From, want.Verifier)
	}
	return nil
}

// optional is nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// openedBy is the content of record 1; nil where it is no ledger.opened, so that
// no recovery is valid.
func openedBy(body []byte) *events.LedgerOpened {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return nil
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return nil
	}
	opened, _ := ev.Data.(*events.LedgerOpened)
	return opened
}
