// Package durable writes small files so that they survive a crash, and holds
// the advisory locks that keep two processes out of one directory.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process, or another open in this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// WriteFile replaces path by data with the given mode: after a crash the file
// has the old bytes or the new ones, never a part. Parent directories must exist.
// A file that root replaces keeps its owner, group and mode: it is another
// user's, who must find it as before.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	p, err := Prepare(path, data, mode)
	if err != nil {
		return err
	}
	return p.Commit()
}

// WriteFrom is WriteFile of what write writes.
func WriteFrom(path string, mode fs.FileMode, write func(io.Writer) error) error {
	p, err := prepare(path, mode, write)
	if err != nil {
		return err
	}
	return p.Commit()
}

// Pending is a file that is written and synced beside the one that it will
// replace.
type Pending struct{ path, temp string }

// Prepare is the first half of WriteFile. Commit or Discard must follow.
func Prepare(path string, data []byte, mode fs.FileMode) (*Pending, error) {
	return prepare(path, mode, bytesOf(data))
}

func bytesOf(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func prepare(path string, mode fs.FileMode, write func(io.Writer) error) (*Pending, error) {
	f, err := os.CreateTemp(filepath.Dir(path), pendingPrefix(path)+"*")
	if err != nil {
		return nil, err
	}
	p := &Pending{path, f.Name()}
	mode, err = keepOwner(f, path, mode)
	if err == nil {
		err = fill(f, mode, write)
	} else {
		f.Close()
	}
	if err != nil {
		p.Discard()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return p, nil
}

// keepOwner gives f the owner of the file at path that it will replace, where
// root does that, and returns the mode that it should have.
func keepOwner(f *os.File, path string, mode fs.FileMode) (fs.FileMode, error) {
	if os.Geteuid() != 0 {
		return mode, nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mode, nil
	}
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 && st.Gid == 0 || !info.Mode().IsRegular() {
		return mode, nil
	}
	return info.Mode().Perm(), f.Chown(int(st.Uid), int(st.Gid))
}

// Target is the path that a symbolic link at path names, else path itself:
// where a file belongs whose directory is not its writer's.
func Target(path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	if filepath.IsAbs(to) {
		return to
	}
	return filepath.Join(filepath.Dir(path), to)
}

// Commit puts the file in its place: fs.ErrNotExist after a RemovePending.
func (p *Pending) Commit() error {
	if err := os.Rename(p.temp, p.path); err != nil {
		p.Discard()
		return err
	}
	return SyncDir(filepath.Dir(p.path))
}

// Discard gives the file up.
func (p *Pending) Discard() { _ = os.Remove(p.temp) }

// RemovePending removes what was prepared for path and is not in its place
// yet, by whichever process, so that it never will be.
func RemovePending(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), pendingPrefix(path)) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return SyncDir(dir)
}

func pendingPrefix(path string) string { return "." + filepath.Base(path) + "." }

// CreateFile is WriteFile for a file that must not exist yet: fs.ErrExist if it does.
func CreateFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, pendingPrefix(path)+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := fill(f, mode, bytesOf(data)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike rename, never replaces
		return err
	}
	return SyncDir(dir)
}

func fill(f *os.File, mode fs.FileMode, write func(io.Writer) error) error {
	err := write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock is a held advisory lock; the kernel drops it when the process ends.
type Lock struct{ f *os.File }

// TryLock takes the exclusive lock named by path, creating the file if absent.
// It does not wait: ErrLocked if it is held.
func TryLock(path string) (*Lock, error) {
	return lock(path, unix.LOCK_EX|unix.LOCK_NB)
}

// TryShared takes the lock so that others may share it, and none may hold it
// alone. It does not wait: ErrLocked if somebody does.
func TryShared(path string) (*Lock, error) {
	return lock(path, unix.LOCK_SH|unix.LOCK_NB)
}

// WaitLock is TryLock that waits for the holder.
func WaitLock(path string) (*Lock, error) {
	return lock(path, unix.LOCK_EX)
}

func lock(path string, how int) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return &Lock{f}, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Unlock releases the lock. The file stays: removing it would let two holders in.
func (l *Lock) Unlock() error { return l.f.Close() }
