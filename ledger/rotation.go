package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"
	"golang.org/x/mod/sumdb/note"
)

// ErrBadRotation means that a ledger.key_rotated record does not carry the
// signatures that a change of the log's key needs.
var ErrBadRotation = errors.New("the key was not rotated by those who may")

// Rotation is the content of a ledger.key_rotated event: from its record on the
// log signs with New. Old signs the change, or, when that key was lost or
// stolen, the offline recovery key that record 1 commits to; New always does.
type Rotation struct {
	Old               string `json:"old_key"` // note verifier keys
	New               string `json:"new_key"`
	OldSignature      string `json:"old_signature"` // base64 of key hash ‖ signature, as in a note
	NewSignature      string `json:"new_signature"`
	RecoveryKey       string `json:"recovery_key"`       // nkeys public operator key
	RecoverySignature string `json:"recovery_signature"` // base64
}

// ParseRotation reads a ledger.key_rotated event of the logger; ok is false for
// every other record.
func ParseRotation(r *Record) (rot Rotation, ok bool) {
	return ownEvent[Rotation](r, "ledger.key_rotated")
}

// ownEvent reads the data of an event of this type that the logger wrote.
func ownEvent[T any](r *Record, typ string) (data T, ok bool) {
	if !strings.HasPrefix(r.Principal, "logger/") || !bytes.Contains(r.Event, []byte(typ)) {
		return data, false
	}
	var ev struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if json.Unmarshal(r.Event, &ev) != nil || ev.Type != typ {
		return data, false
	}
	return data, json.Unmarshal(ev.Data, &data) == nil
}

// RotationText is what the keys sign:
//
//	assay key rotation v1
//	<origin>
//	old <verifier key>
//	new <verifier key>
func RotationText(origin, oldKey, newKey string) []byte {
	return fmt.Appendf(nil, "assay key rotation v1\n%s\nold %s\nnew %s\n", origin, oldKey, newKey)
}

// SignRotation signs a rotation's text the way a note's signature line does.
func SignRotation(text []byte, key note.Signer) (string, error) {
	sig, err := key.Sign(text)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, key.KeyHash()), sig...)), nil
}

// Check says whether the rotation may follow on the key that is in force.
// recoverySHA256 is what record 1 commits to. ErrBadRotation with the reason.
func (r *Rotation) Check(origin, inForce, recoverySHA256 string) error {
	next, err := note.NewVerifier(r.New)
	switch {
	case err != nil:
		return fmt.Errorf("%w: new key: %w", ErrBadRotation, err)
	case next.Name() != origin:
		return fmt.Errorf("%w: the new key is named %q, the log %q", ErrBadRotation, next.Name(), origin)
	case r.Old != inForce:
		return fmt.Errorf("%w: it replaces the key %q, but %q is in force", ErrBadRotation, r.Old, inForce)
	case r.New == r.Old:
		return fmt.Errorf("%w: both keys are the same", ErrBadRotation)
	}
	text := RotationText(origin, r.Old, r.New)
	if err := checkSignature(text, r.NewSignature, next); err != nil {
		return fmt.Errorf("%w: new key: %w", ErrBadRotation, err)
	}
	if r.RecoveryKey != "" {
		return r.checkRecovery(text, recoverySHA256)
	}
	old, err := note.NewVerifier(r.Old)
	if err == nil {
		err = checkSignature(text, r.OldSignature, old)
	}
	if err != nil {
		return fmt.Errorf("%w: old key: %w", ErrBadRotation, err)
	}
	return nil
}

var errSignature = errors.New("no good signature")

func checkSignature(text []byte, sig string, key note.Verifier) error {
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || len(raw) < 4 || binary.BigEndian.Uint32(raw) != key.KeyHash() || !key.Verify(text, raw[4:]) {
		return errSignature
	}
	return nil
}

func (r *Rotation) checkRecovery(text []byte, committed string) error {
	if got := Hash(sha256.Sum256([]byte(r.RecoveryKey))).String(); got != committed {
		return fmt.Errorf("%w: the recovery key hashes to %s, record 1 commits to %s", ErrBadRotation, got, committed)
	}
	key, err := nkeys.FromPublicKey(r.RecoveryKey)
	var sig []byte
	if err == nil {
		sig, err = base64.StdEncoding.DecodeString(r.RecoverySignature)
	}
	if err == nil {
		err = key.Verify(text, sig)
	}
	if err != nil {
		return fmt.Errorf("%w: recovery key: %w", ErrBadRotation, err)
	}
	return nil
}

// SignRecovery signs a rotation's text with the seed of the recovery key, and
// names that key.
func SignRecovery(text, seed []byte) (key, sig string, err error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", "", fmt.Errorf("recovery seed: %w", err)
	}
	defer pair.Wipe()
	if key, err = pair.PublicKey(); err != nil {
		return "", "", err
	}
	raw, err := pair.Sign(text)
	return key, base64.StdEncoding.EncodeToString(raw), err
}

// Loss is the content of a ledger.restored event: the records Size+1 to
// KnownSize were signed once and are gone.
type Loss struct {
	Seq        Seq    `json:"seq"` // of the record that declares it
	Size       uint64 `json:"size"`
	KnownSize  uint64 `json:"known_size"`
	KnownRoot  string `json:"known_root"`
	AcceptedBy string `json:"accepted_by"`
}

// ParseLoss reads a ledger.restored event of the logger; ok is false for every
// other record.
func ParseLoss(r *Record) (l Loss, ok bool) {
	l, ok = ownEvent[Loss](r, "ledger.restored")
	l.Seq = r.Seq
	return l, ok
}
