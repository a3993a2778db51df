// Package blob is a content-addressed store of files: each is named by the
// SHA-256 of its bytes, so a name that resolves cannot lie.
//
// Two kinds of files stand in it. What verdicts rest on, telemetry segments and
// signal registries, is stored as it is. A
// content blob, which an event names in its dataref, starts with a salt, so that
// its name tells nothing about its content: without one, short content could be
// guessed from the hash that stays in the ledger after the blob was erased.
//
//	assay blob 1\n          the version of the format
//	32 random bytes         the salt
//	…                       the content
//
// A dataref is sha256: and the 64 hex digits of the file's SHA-256, salt
// included. The same content put twice has two names.
//
// The directory is its owner's alone (0700, files 0600). Whoever may read it may
// read every blob.
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
	"strings"

	"assay/internal/durable"
)

var (
	// ErrNotFound means that no file of that name is stored.
	ErrNotFound = errors.New("no such blob")
	// ErrCorrupt means that a file's bytes are not those it is named for.
	ErrCorrupt = errors.New("corrupt blob")
)

const refPrefix = "sha256:"

// Ref is the dataref of a name.
func Ref(name string) string { return refPrefix + name }

// ParseRef is the name in a dataref; false for one of another form, such as an
// address of something that is stored elsewhere.
func ParseRef(ref string) (name string, ok bool) {
	name, ok = strings.CutPrefix(ref, refPrefix)
	return name, ok && isName(name)
}

func isName(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

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

// OpenExisting opens a store for reading; fs.ErrNotExist if there is none.
func OpenExisting(dir string) (*Store, error) {
	if _, err := os.Stat(dir); err != nil {
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
	if err := s.room(name); err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	if err := durable.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	return name, nil
}

// room makes the directory that a name stands in.
func (s *Store) room(name string) error {
	err := os.Mkdir(filepath.Dir(s.path(name)), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(s.dir)
}

// Get returns the bytes of a name: ErrNotFound or ErrCorrupt.
func (s *Store) Get(name string) ([]byte, error) {
	if !isName(name) {
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

// File is a stored file.
type File struct {
	Name string
	Size int64 // bytes, header and salt included
}

// List calls fn for every stored file in the order of names, whatever it holds.
func (s *Store) List(fn func(File) error) error {
	return s.walk(func(path string, e fs.DirEntry) error {
		name := e.Name()
		if !isName(name) || s.path(name) != path {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // erased meanwhile
		}
		if err != nil {
			return err
		}
		return fn(File{Name: name, Size: info.Size()})
	})
}

// Leftovers sums the files that an interrupted put left behind. They have no
// name yet, but may hold content.
func (s *Store) Leftovers() (n, size int64, err error) {
	err = s.walk(func(path string, e fs.DirEntry) error {
		if isName(e.Name()) && s.path(e.Name()) == path {
			return nil
		}
		info, err := e.Info()
		if err == nil {
			n++
			size += info.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return n, size, err
}

func (s *Store) walk(fn func(path string, e fs.DirEntry) error) error {
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != s.dir {
			return nil // it was removed while this walked
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return fn(path, e)
	})
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	return nil
}

// Remove removes a file, and what an interrupted put of it left behind. When it
// returns, no crash brings them back. One that is not there is no error: the
// removal before may have been cut off before it was durable.
func (s *Store) Remove(name string) error {
	if !isName(name) {
		return fmt.Errorf("%w: %q is no SHA-256", ErrNotFound, name)
	}
	sub := filepath.Dir(s.path(name))
	parts, err := filepath.Glob(filepath.Join(sub, "."+name+".*"))
	if err != nil {
		return err
	}
	for _, path := range append(parts, s.path(name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove blob: %w", err)
		}
	}
	if err := durable.SyncDir(sub); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove blob %s: %w", name, err)
	}
	return nil
}
