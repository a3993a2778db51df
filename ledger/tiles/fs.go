package tiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/durable"
)

// FS is the directory that an export is written to. Names are those of io/fs.
type FS interface {
	fs.FS
	// WriteFile creates or overwrites a file, and the directories that it
	// stands in. Until the next Sync it may be lost or torn.
	WriteFile(name string, data []byte) error
	// Sync makes durable what was written and removed so far, or fails if
	// any of it may have been lost since the last Sync.
	Sync() error
	// Replace writes a file in the top directory so that after a crash it has
	// its old content or the new one; when it returns the new one is durable.
	Replace(name string, data []byte) error
	// RemoveAll removes a file or a directory with what is in it; one that is
	// not there is no error.
	RemoveAll(name string) error
}

// Disk is a directory of the operating system. It is locked while it is open.
type Disk struct {
	fs.FS
	dir string
	// root is open from before the first write: syncfs reports the errors of
	// write-back that came after its descriptor was opened.
	root *os.File
}

// OpenDisk opens a directory for an export, making it for its owner alone if it
// is not there. durable.ErrLocked if another export has it open.
func OpenDisk(dir string) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	d := &Disk{FS: os.DirFS(dir), dir: dir, root: root}
	if err := unix.Flock(int(root.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = durable.ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), root.Close())
	}
	if err := d.removeLeftovers(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// removeLeftovers removes the temporary files of a Replace that was cut off.
func (d *Disk) removeLeftovers() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, name := range []string{CheckpointName, UnfinishedName} {
			if strings.HasPrefix(e.Name(), "."+name+".") {
				if err := os.Remove(d.path(e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *Disk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// WriteFile implements FS.
func (d *Disk) WriteFile(name string, data []byte) error {
	path := d.path(name)
	err := os.WriteFile(path, data, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		err = os.WriteFile(path, data, 0o644)
	}
	return err
}

// Sync implements FS by syncing the whole file system: an export has some eighty
// thousand files for ten million records, and an fsync for each would take longer
// than all the rest.
func (d *Disk) Sync() error {
	if err := unix.Syncfs(int(d.root.Fd())); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", d.dir, err)
	}
	return nil
}

// Replace implements FS.
func (d *Disk) Replace(name string, data []byte) error {
	return durable.WriteFile(d.path(name), data, 0o644)
}

// RemoveAll implements FS.
func (d *Disk) RemoveAll(name string) error { return os.RemoveAll(d.path(name)) }

// Close releases the directory.
func (d *Disk) Close() error { return d.root.Close() }

// ReadFile reads a regular file of at most limit bytes; ErrFile for anything
// else, without reading what lies beyond the limit. An absent file is
// fs.ErrNotExist.
func ReadFile(fsys fs.FS, name string, limit int) ([]byte, error) {
	return ReadInto(nil, fsys, name, limit)
}

// ReadInto is ReadFile into the memory of buf, if that is large enough.
func ReadInto(buf []byte, fsys fs.FS, name string, limit int) ([]byte, error) {
	// Opening a pipe would wait for its other end.
	info, err := fs.Lstat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrFile, name)
	}
	if info.Size() > int64(limit) {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrFile, name, info.Size(), limit)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw := slices.Grow(buf[:0], int(info.Size())+1)[:info.Size()] // never nil
	if _, err := io.ReadFull(f, raw); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}
