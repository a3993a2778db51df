package principal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"assay/internal/durable"
)

// CredentialSuffix ends the name of a credential's file, <user>.nk.
const CredentialSuffix = ".nk"

// ErrCredential means that a file holds no usable seed.
var ErrCredential = errors.New("not a credential")

// Credential is the secret of one user: an Ed25519 key in the nkeys form. Its
// file holds the seed on one line.
type Credential struct {
	// User is role.name, service.<name> or an offline name.
	User string
	// Public is the key that the broker's configuration lists.
	Public string
	pair   nkeys.KeyPair
}

// Sign answers the broker's challenge.
func (c Credential) Sign(nonce []byte) ([]byte, error) { return c.pair.Sign(nonce) }

// ParseCredential reads a seed; white space around it is ignored.
func ParseCredential(user string, seed []byte) (Credential, error) {
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	return Credential{User: user, Public: public, pair: pair}, nil
}

// LoadCredential reads the seed at path; the user is the file's name without
// its suffix.
func LoadCredential(path string) (Credential, error) {
	seed, err := os.ReadFile(path)
	if err != nil {
		return Credential{}, err
	}
	c, err := ParseCredential(strings.TrimSuffix(filepath.Base(path), CredentialSuffix), seed)
	if err != nil {
		return Credential{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// CredentialPath is where the user's seed is kept in dir.
func CredentialPath(dir, user string) string {
	return filepath.Join(dir, user+CredentialSuffix)
}

// ensureCredential returns the user's credential, making it if there is none:
// an interrupted set-up keeps the seeds that it already gave out.
func ensureCredential(dir, user string, create func() (nkeys.KeyPair, error)) (Credential, error) {
	path := CredentialPath(dir, user)
	c, err := LoadCredential(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	pair, err := create()
	if err != nil {
		return Credential{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credential{}, err
	}
	err = durable.CreateFile(path, append(seed, '\n'), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return Credential{}, err
	}
	return LoadCredential(path) // of two that raced, the first stands
}
