// Package blob is a content-addressed store of small files: each is named by
// the SHA-256 of its bytes, so a name that resolves cannot lie.
package blob

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

var (
	// ErrNotFound means that no file of that name is stored.
	ErrNotFound = errors.New("no such blob")
	// ErrCorrupt means that a file's bytes are not those it is named for.
	ErrCorrupt = errors.New("corrupt blob")
)

// Store is a directory of blobs, DIR/<first two digits>/<64 hex digits>. It may
// be used from several goroutines and processes.
type Store struct{ dir string }

// Open makes the directory if it is absent.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return &Store{dir}, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name[:2], name) }

// Put stores data and returns its name. When it returns, the bytes survive a
// crash; storing what is there already is cheap.
func (s *Store) Put(data []byte) (name string, err error) {
	sum := sha256.Sum256(data)
	name = hex.EncodeToString(sum[:])
	path := s.path(name)
	// A file under its final name was synced before it was renamed, but only
	// its content says that the disk kept it.
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return name, nil
	}
	sub := filepath.Dir(path)
	if err := os.Mkdir(sub, 0o700); err == nil {
		err = durable.SyncDir(s.dir)
		if err != nil {
			return "", fmt.Errorf("put blob %s: %w", name, err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	if err := durable.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	return name, nil
}

// Get returns the bytes of a name: ErrNotFound or ErrCorrupt.
func (s *Store) Get(name string) ([]byte, error) {
	if raw, err := hex.DecodeString(name); err != nil || hex.EncodeToString(raw) != name || len(raw) != sha256.Size {
		return nil, fmt.Errorf("%w: %q is no SHA-256", ErrNotFound, name)
	}
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("%w: %s", ErrCorrupt, name)
	}
	return data, nil
}
