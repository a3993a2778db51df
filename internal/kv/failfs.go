package kv

import (
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// failFS keeps a write error away from the places where Pebble answers one by
// panicking with its locks in a state that nobody can recover from: the
// write-ahead log and the directory's fsync. There the error sets the latch and
// Pebble is told that all went well; Commit asks the latch before it reports
// success, so no caller is.
//
// Once the latch is set nothing more of the store changes on disk: log writes
// are dropped, no file is created, and the manifest, without which no new file
// counts, refuses. What is reopened later is the state before the failure.
type failFS struct {
	vfs.FS
	fail *failure
	// armed is set when Open is done: until then an error is Open's result,
	// that of the directory by the latch.
	armed atomic.Bool

	mu    sync.Mutex // guards locks
	locks []*lockFile
}

// abandon takes the store away from a Pebble that is stuck in Open: the latch
// keeps it from changing anything, and the directory belongs to whoever opens it
// next.
func (f *failFS) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.locks {
		_ = l.Close()
	}
}

// lockFile is the store's lock, which may be given up by either side.
type lockFile struct {
	io.Closer
	once sync.Once
	err  error
}

func (l *lockFile) Close() error {
	l.once.Do(func() { l.err = l.Closer.Close() })
	return l.err
}

// Lock implements vfs.FS.
func (f *failFS) Lock(name string) (io.Closer, error) {
	c, err := f.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	l := &lockFile{Closer: c}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks = append(f.locks, l)
	return l, nil
}

// own does op, unless the store failed or was taken away: a file that Pebble
// believes unused after a failure may be one that the manifest names.
func (f *failFS) own(op func() error) error {
	if err := f.fail.err(); err != nil {
		return err
	}
	return op()
}

// MkdirAll implements vfs.FS. A store is its owner's alone, whatever the umask.
func (f *failFS) MkdirAll(dir string, _ os.FileMode) error { return f.FS.MkdirAll(dir, 0o700) }

// Remove implements vfs.FS.
func (f *failFS) Remove(name string) error { return f.own(func() error { return f.FS.Remove(name) }) }

// RemoveAll implements vfs.FS.
func (f *failFS) RemoveAll(name string) error {
	return f.own(func() error { return f.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *failFS) Rename(from, to string) error {
	return f.own(func() error { return f.FS.Rename(from, to) })
}

// Link implements vfs.FS.
func (f *failFS) Link(from, to string) error {
	return f.own(func() error { return f.FS.Link(from, to) })
}

// tableFile is any other file that is written.
type tableFile struct {
	vfs.File
	fs *failFS
}

func (t *tableFile) Write(p []byte) (n int, err error) {
	err = t.fs.own(func() (err error) {
		n, err = t.File.Write(p)
		return err
	})
	return n, err
}

func (f *failFS) failed() bool { return f.fail.err() != nil }

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Create implements vfs.FS.
func (f *failFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.create(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (f *failFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.create(name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

func (f *failFS) create(name string, open func() (vfs.File, error)) (vfs.File, error) {
	isLog := isLog(name)
	if f.failed() {
		if isLog {
			return f.dropped(name), nil
		}
		return nil, f.fail.err()
	}
	file, err := open()
	switch {
	case err != nil && isLog && f.armed.Load():
		f.fail.set(err)
		return f.dropped(name), nil
	case err != nil:
		return nil, err
	case isLog:
		return &logFile{File: file, fs: f}, nil
	case strings.HasPrefix(f.PathBase(name), "MANIFEST-"):
		return &manifestFile{File: file, fs: f}, nil
	}
	return &tableFile{File: file, fs: f}, nil
}

// dropped stands for a log that could not be created.
func (f *failFS) dropped(name string) vfs.File {
	return &logFile{File: droppedFile{fs: f, dir: f.PathDir(name)}, fs: f}
}

// OpenDir implements vfs.FS.
func (f *failFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &logFile{File: d, fs: f, dir: true}, nil
}

// logFile is a log file, or the directory, whose errors go to the latch.
type logFile struct {
	vfs.File
	fs  *failFS
	dir bool
}

func (l *logFile) do(op func() error) error {
	if l.fs.failed() {
		return nil
	}
	err := op()
	// A failed sync of the directory makes Pebble panic during Open too.
	if err != nil && (l.fs.armed.Load() || l.dir) {
		l.fs.fail.set(err)
		return nil
	}
	return err
}

func (l *logFile) Write(p []byte) (int, error) {
	err := l.do(func() error {
		_, err := l.File.Write(p)
		return err
	})
	return len(p), err
}

func (l *logFile) Sync() error     { return l.do(l.File.Sync) }
func (l *logFile) SyncData() error { return l.do(l.File.SyncData) }

func (l *logFile) SyncTo(length int64) (full bool, err error) {
	err = l.do(func() (err error) {
		full, err = l.File.SyncTo(length)
		return err
	})
	return full, err
}

func (l *logFile) Close() error {
	if l.dir {
		return l.File.Close()
	}
	if err := l.File.Close(); err != nil {
		l.fs.fail.set(err)
	}
	return nil
}

// manifestFile refuses to name new files once the latch is set.
type manifestFile struct {
	vfs.File
	fs *failFS
}

func (m *manifestFile) Write(p []byte) (int, error) {
	if err := m.fs.fail.err(); err != nil {
		return 0, err
	}
	return m.File.Write(p)
}

// droppedFile takes no bytes; only what a log writer calls is there.
type droppedFile struct {
	vfs.File
	fs  *failFS
	dir string
}

func (droppedFile) Close() error                   { return nil }
func (droppedFile) Fd() uintptr                    { return vfs.InvalidFd }
func (droppedFile) Preallocate(int64, int64) error { return nil }
func (droppedFile) Prefetch(int64, int64) error    { return nil }
func (d droppedFile) Stat() (vfs.FileInfo, error)  { return d.fs.Stat(d.dir) }
