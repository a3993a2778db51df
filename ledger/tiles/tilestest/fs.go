package tilestest

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"
)

// ErrCrash is what a write fails with.
var ErrCrash = errors.New("injected failure")

// Fault is what happens at one operation of an FS. Every later one fails, as if
// the process had ended.
type Fault struct {
	Name string
	// Written is how much of the data the failing operation leaves: 0 nothing,
	// 1 half, 2 all of it.
	Written int
	Err     error
	// PowerLoss forgets or tears what was not synced.
	PowerLoss bool
}

// Faults are those that a write can have.
func Faults() []Fault {
	return []Fault{
		{Name: "failed", Err: ErrCrash},
		{Name: "failed but persisted", Written: 2, Err: ErrCrash},
		{Name: "torn", Written: 1, Err: ErrCrash},
		{Name: "ENOSPC", Written: 1, Err: syscall.ENOSPC},
		{Name: "EIO", Err: syscall.EIO},
		{Name: "power loss before", Err: ErrCrash, PowerLoss: true},
		{Name: "power loss after", Written: 2, Err: ErrCrash, PowerLoss: true},
	}
}

// FS is a directory in memory that implements tiles.FS and knows which of its
// content would survive the loss of power.
type FS struct {
	fstest.MapFS
	synced fstest.MapFS
	rng    *rand.Rand
	// Ops counts the writing operations; the one numbered At (from 1) has the
	// fault.
	Ops, At int
	Fault   Fault
	failed  bool
}

// NewFS is an empty directory.
func NewFS() *FS {
	return &FS{MapFS: fstest.MapFS{}, synced: fstest.MapFS{}, rng: rand.New(rand.NewPCG(1, 2))}
}

// Clone is an independent copy with everything synced and no fault to come.
func (f *FS) Clone() *FS {
	return &FS{MapFS: maps.Clone(f.MapFS), synced: maps.Clone(f.MapFS), rng: rand.New(rand.NewPCG(1, 2))}
}

// Recover ends the failure: what a later process finds.
func (f *FS) Recover() {
	if f.failed && f.Fault.PowerLoss {
		f.losePower()
	}
	f.At, f.failed = 0, false
}

// op says how much of the operation is to be done.
func (f *FS) op() (written int, err error) {
	f.Ops++
	switch {
	case f.failed:
		return 0, f.Fault.Err
	case f.Ops == f.At:
		f.failed = true
		return f.Fault.Written, f.Fault.Err
	}
	return 2, nil
}

func file(data []byte) *fstest.MapFile { return &fstest.MapFile{Data: slices.Clone(data), Mode: 0o644} }

// WriteFile implements tiles.FS.
func (f *FS) WriteFile(name string, data []byte) error {
	written, err := f.op()
	if written > 0 {
		f.MapFS[name] = file(data[:len(data)*written/2])
	}
	return err
}

// Sync implements tiles.FS.
func (f *FS) Sync() error {
	written, err := f.op()
	if written == 2 {
		f.synced = maps.Clone(f.MapFS)
	}
	return err
}

// Replace implements tiles.FS: it is whole or not there, torn never.
func (f *FS) Replace(name string, data []byte) error {
	written, err := f.op()
	if written == 2 {
		f.MapFS[name] = file(data)
		f.synced[name] = f.MapFS[name]
	}
	return err
}

// RemoveAll implements tiles.FS.
func (f *FS) RemoveAll(name string) error {
	written, err := f.op()
	if written == 2 {
		maps.DeleteFunc(f.MapFS, func(n string, _ *fstest.MapFile) bool {
			return n == name || strings.HasPrefix(n, name+"/")
		})
	}
	return err
}

// losePower leaves of each file that was changed since the last sync, by chance,
// the old state, the new one, or the new one torn or empty.
func (f *FS) losePower() {
	names := slices.Sorted(maps.Keys(f.synced))
	for name := range f.MapFS {
		if f.synced[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		before, now := f.synced[name], f.MapFS[name]
		if before == now {
			continue
		}
		switch left := f.rng.IntN(4); {
		case left == 0 && before == nil:
			delete(f.MapFS, name)
		case left == 0:
			f.MapFS[name] = before
		case now == nil:
			// removed, and that it stays
		case left == 1:
			f.MapFS[name] = file(now.Data[:len(now.Data)/2])
		case left == 2:
			f.MapFS[name] = file(nil)
		}
	}
	f.synced = maps.Clone(f.MapFS)
}

var _ fs.FS = (*FS)(nil)
