package kv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableSuffix ends the names of the files that Pebble never changes once they
// are written.
const tableSuffix = ".sst"

// Hold keeps everybody else from opening the store in dir until the returned
// function is called; ErrLocked when it is open.
func Hold(dir string) (release func() error, err error) {
	l, err := pebble.LockDirectory(dir, vfs.Default)
	switch {
	case err == nil:
		return l.Close, nil
	case isLocked(err):
		return nil, fmt.Errorf("hold store %s: %w", dir, ErrLocked)
	}
	return nil, fmt.Errorf("hold store %s: %w", dir, err)
}

// Clone makes a store of its own in to, which must not exist, of the one in
// from, which nobody may have open: ErrLocked. Tables are linked where the file
// system can, everything else is copied, so that the clone may be written to.
// It is not synced: clones are scratch.
func Clone(from, to string) (err error) {
	release, err := Hold(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("clone store: %w", err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("clone store: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == "LOCK" {
			continue
		}
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if filepath.Ext(src) == tableSuffix && os.Link(src, dst) == nil {
			continue
		}
		if err := copyFile(src, dst); err != nil {
			return fmt.Errorf("clone store: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
