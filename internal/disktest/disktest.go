// Package disktest gives a test a small disk of its own that it can fill.
package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Mount mounts a tmpfs of mib MiB and returns where; the test's end unmounts
// it. Where that is not permitted the test is skipped.
func Mount(tb testing.TB, mib int64) string {
	tb.Helper()
	dir := tb.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%dm", mib))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		tb.Skipf("a full disk is tried on a tmpfs, which only root may mount: %v", err)
	}
	if err != nil {
		tb.Fatalf("mount a tmpfs: %v", err)
	}
	tb.Cleanup(func() {
		var err error
		for range 50 { // a process that was just killed may still hold it
			if err = unix.Unmount(dir, 0); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		tb.Errorf("unmount %s: %v", dir, errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
	})
	return dir
}

// Free is how many bytes are left on the disk of dir.
func Free(tb testing.TB, dir string) int64 {
	tb.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		tb.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// ballast is the file that fills the disk.
const ballast = "ballast"

// Leave makes a file grow, or shrink, until about leave bytes are free.
func Leave(tb testing.TB, dir string, leave int64) {
	tb.Helper()
	f, err := os.OpenFile(filepath.Join(dir, ballast), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for range 10 { // others write at the same time
		info, err := f.Stat()
		if err != nil {
			tb.Fatal(err)
		}
		more := Free(tb, dir) - leave
		switch {
		case more < 0:
			err = f.Truncate(max(0, info.Size()+more))
		case more > 0:
			err = unix.Fallocate(int(f.Fd()), 0, info.Size(), more)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, unix.ENOSPC) {
			tb.Fatalf("leave %d bytes: %v", leave, err)
		}
	}
}

// Release removes the file that filled the disk.
func Release(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.Remove(filepath.Join(dir, ballast)); err != nil {
		tb.Fatal(err)
	}
}
