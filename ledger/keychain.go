package ledger

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"
)

// keychain follows the log's key through the ledger: record 1 names the first
// one, and each rotation that is signed as it must be puts the next in force,
// for checkpoints of its own record's size and more.
type keychain struct {
	pinned   string
	trusted  bool // the pinned key is or was in force
	origin   string
	recovery string // SHA-256 of the recovery key, hex
	keys     []Key
	current  note.Verifier // nil without a usable key
}

var errNoKey = errors.New("record 1 names no key")

func (k *keychain) open(r *Record) error {
	var ev struct {
		Type string `json:"type"`
		Data struct {
			PublicKey string `json:"public_key"`
			Recovery  string `json:"recovery_key_sha256"`
		} `json:"data"`
	}
	if err := json.Unmarshal(r.Event, &ev); err != nil || ev.Type != "ledger.opened" {
		return errors.New("record 1 is not a ledger.opened event")
	}
	v, err := note.NewVerifier(ev.Data.PublicKey)
	if err != nil {
		return fmt.Errorf("record 1 names the key %q: %w", ev.Data.PublicKey, err)
	}
	// The origin is the key's name: rotations keep it.
	k.origin, k.recovery = v.Name(), ev.Data.Recovery
	k.use(Key{From: 1, Verifier: ev.Data.PublicKey}, v)
	return nil
}

func (k *keychain) rotate(at Seq, rot *Rotation) error {
	if k.current == nil {
		return errNoKey
	}
	if err := rot.Check(k.origin, k.keys[len(k.keys)-1].Verifier, k.recovery); err != nil {
		return err
	}
	v, err := note.NewVerifier(rot.New)
	if err != nil {
		return err
	}
	k.use(Key{From: at, Verifier: rot.New, Recovered: rot.RecoveryKey != ""}, v)
	return nil
}

func (k *keychain) use(key Key, v note.Verifier) {
	k.keys = append(k.keys, key)
	k.current = v
	k.trusted = k.trusted || key.Verifier == k.pinned
}

// first is the key that record 1 names.
func (k *keychain) first() string {
	if len(k.keys) == 0 {
		return ""
	}
	return k.keys[0].Verifier
}

// check opens a checkpoint with the key in force.
func (k *keychain) check(raw []byte) error {
	if k.current == nil {
		return errNoKey
	}
	_, err := OpenCheckpoint(raw, k.current)
	return err
}

// checkBeyond opens a checkpoint of a size that the ledger does not reach. The
// rotation to its key may be among what is missing, so the pinned key will do;
// without any key it is taken at its word. A nil note is trusted already.
func (k *keychain) checkBeyond(raw []byte) error {
	if raw == nil || k.current == nil && k.pinned == "" {
		return nil
	}
	err := k.check(raw)
	if err != nil && k.pinned != "" {
		v, keyErr := note.NewVerifier(k.pinned)
		if keyErr != nil {
			return keyErr
		}
		_, err = OpenCheckpoint(raw, v)
	}
	return err
}
