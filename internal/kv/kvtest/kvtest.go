// Package kvtest has a disk in memory for tests of what is on a store: it can
// crash and fail, and costs no fsync.
package kvtest

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"assay/internal/kv"
)

// Disk is a file system in memory.
type Disk struct {
	fs *vfs.MemFS

	mu    sync.Mutex
	fault Fault
	ops   int
}

// Fault is how a disk fails. The zero value does not.
type Fault struct {
	// At counts the operations that change the disk, from 1: files created
	// and renamed, bytes written, files and directories synced. This one and
	// all behind it fail.
	At  int
	Err error
	// Outcome is what becomes of the first one that fails; the others have no
	// effect.
	Outcome Outcome
}

// Outcome is what a failing operation did all the same.
type Outcome int

// The outcomes.
const (
	Failed    Outcome = iota // nothing
	Persisted                // everything
	Torn                     // half of the bytes; for anything but bytes, nothing
)

// NewDisk makes an empty disk.
func NewDisk() *Disk { return &Disk{fs: vfs.NewCrashableMem()} }

// FS is what kv.Options takes.
func (d *Disk) FS() kv.FS { return faultyFS{d.fs, d} }

// Crash is a disk as a crash at this moment may leave it, and that does not
// fail: what was synced, and each block and directory entry that was not with
// a probability of percent. At 0 and 100 the result does not depend on rng.
func (d *Disk) Crash(percent int, rng *rand.Rand) *Disk {
	return &Disk{fs: d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
}

// Fail makes the disk fail. Operations are counted from its making.
func (d *Disk) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// Operations is how many operations changed the disk, or were to.
func (d *Disk) Operations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// next decides about an operation: whether it is done, by which part of its
// bytes, and what it returns.
func (d *Disk) next() (outcome Outcome, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops++
	switch {
	case d.fault.At == 0 || d.ops < d.fault.At:
		return Persisted, nil
	case d.ops == d.fault.At:
		return d.fault.Outcome, d.fault.Err
	}
	return Failed, d.fault.Err
}

// do is one operation without bytes.
func (d *Disk) do(op func() error) error {
	outcome, err := d.next()
	if outcome == Persisted {
		return errors.Join(op(), err)
	}
	return err
}

type faultyFS struct {
	vfs.FS
	d *Disk
}

// Create implements vfs.FS.
func (f faultyFS) Create(name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	return f.open(func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (f faultyFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

func (f faultyFS) open(open func() (vfs.File, error)) (file vfs.File, err error) {
	err = f.d.do(func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		if file != nil {
			_ = file.Close() // it is there, and nobody was told
		}
		return nil, err
	}
	return faultyFile{file, f.d}, nil
}

// OpenDir implements vfs.FS.
func (f faultyFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return faultyFile{file, f.d}, nil
}

// Rename implements vfs.FS.
func (f faultyFS) Rename(old, name string) error {
	return f.d.do(func() error { return f.FS.Rename(old, name) })
}

type faultyFile struct {
	vfs.File
	d *Disk
}

// Write implements vfs.File.
func (f faultyFile) Write(p []byte) (n int, err error) {
	switch outcome, ferr := f.d.next(); outcome {
	case Persisted:
		n, err = f.File.Write(p)
		return n, errors.Join(err, ferr)
	case Torn:
		n, err = f.File.Write(p[:len(p)/2])
		return n, errors.Join(err, ferr)
	default:
		return 0, ferr
	}
}

// Sync implements vfs.File.
func (f faultyFile) Sync() error { return f.d.do(f.File.Sync) }

// SyncData implements vfs.File.
func (f faultyFile) SyncData() error { return f.d.do(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f faultyFile) SyncTo(length int64) (full bool, err error) {
	err = f.d.do(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
