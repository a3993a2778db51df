package kv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"
)

func mustOpen(t testing.TB, dir string, o Options) *DB {
	t.Helper()
	d, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustPut(t testing.TB, d *DB, sync bool, kvs ...string) {
	t.Helper()
	b := d.NewBatch()
	defer b.Close()
	for i := 0; i < len(kvs); i += 2 {
		b.Put([]byte(kvs[i]), []byte(kvs[i+1]))
	}
	if err := b.Commit(sync); err != nil {
		t.Fatal(err)
	}
}

func keys(t testing.TB, r Reader, prefix, after string) string {
	t.Helper()
	var out []string
	var a []byte
	if after != "" {
		a = []byte(after)
	}
	err := r.Scan([]byte(prefix), a, func(k, v []byte) error {
		out = append(out, string(k)+"="+string(v))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// TestCloseEndsSnapshots: a store closes while somebody reads a snapshot of it, who then
// learns that it is closed.
func TestCloseEndsSnapshots(t *testing.T) {
	d := mustOpen(t, t.TempDir(), Options{})
	mustPut(t, d, true, "a", "x", "b", "y")
	s, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	reading, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-reading
		closed <- d.Close()
	}()
	n := 0
	if err := s.Scan(nil, nil, func(_, _ []byte) error {
		if n++; n == 1 {
			close(reading)
		}
		return nil
	}); n != 2 || err != nil {
		t.Errorf("the scan under way: %d keys, %v", n, err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := s.Get([]byte("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("Get of a snapshot after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close of the snapshot: %v", err)
	}
	if _, err := d.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("Snapshot after Close: %v", err)
	}
}

func TestReadWrite(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir, Options{})
	mustPut(t, d, true, "a/1", "x", "a/2", "y", "b/1", "z", "a0", "w")
	if got := keys(t, d, "a/", ""); got != "a/1=x a/2=y" {
		t.Errorf("scan: %s", got)
	}
	if got := keys(t, d, "a/", "a/1"); got != "a/2=y" {
		t.Errorf("scan after: %s", got)
	}
	if _, err := d.Get([]byte("none")); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of an absent key: %v", err)
	}
	s, err := d.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	b := d.NewBatch()
	b.DeletePrefix([]byte("a/"))
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if got := keys(t, d, "a", ""); got != "a0=w" {
		t.Errorf("after DeletePrefix: %s", got)
	}
	if got := keys(t, s, "a", ""); got != "a/1=x a/2=y a0=w" {
		t.Errorf("snapshot: %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get([]byte("a0")); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	if err := d.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	d = mustOpen(t, dir, Options{ReadOnly: true})
	defer d.Close()
	if got := keys(t, d, "", ""); got != "a0=w b/1=z" {
		t.Errorf("reopened: %q", got)
	}
	rb := d.NewBatch()
	rb.Put([]byte("q"), nil)
	if err := rb.Commit(false); err == nil {
		t.Error("a read-only store took a write")
	}
}

// TestStoreIsItsOwnersAlone, also where no umask says so.
func TestStoreIsItsOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "store")
	defer mustOpen(t, dir, Options{}).Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestReadOnlyNeedsStore(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{ReadOnly: true}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
}

// TestLocked has a second opener in this process, and one in another.
func TestLocked(t *testing.T) {
	if dir := os.Getenv("KV_TEST_LOCKED_DIR"); dir != "" {
		_, err := Open(dir, Options{ReadOnly: true})
		fmt.Println("locked:", errors.Is(err, ErrLocked), err)
		return
	}
	dir := t.TempDir()
	d := mustOpen(t, dir, Options{})
	defer d.Close()
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("same process: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLocked$", "-test.v")
	cmd.Env = append(os.Environ(), "KV_TEST_LOCKED_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "locked: true") {
		t.Errorf("other process: %v\n%s", err, out)
	}
}

func TestCheckpointHoldsUnsyncedCommits(t *testing.T) {
	for _, noLog := range []bool{false, true} {
		t.Run(fmt.Sprintf("noLog=%v", noLog), func(t *testing.T) {
			base := t.TempDir()
			d := mustOpen(t, filepath.Join(base, "live"), Options{NoLog: noLog})
			mustPut(t, d, false, "k", "v")
			if err := d.Checkpoint(filepath.Join(base, "copy")); err != nil {
				t.Fatal(err)
			}
			mustPut(t, d, false, "k", "later")
			d.Close()
			c := mustOpen(t, filepath.Join(base, "copy"), Options{ReadOnly: true})
			defer c.Close()
			if got := keys(t, c, "", ""); got != "k=v" {
				t.Errorf("checkpoint holds %q", got)
			}
		})
	}
}

// TestSyncSurvivesPowerLoss drops everything unsynced, as a power cut would.
func TestSyncSurvivesPowerLoss(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d := mustOpen(t, "db", Options{FS: mem})
	mustPut(t, d, true, "a", "1")
	mustPut(t, d, false, "b", "2")
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, d, false, "c", "3")
	cut := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	d.Close()
	d = mustOpen(t, "db", Options{FS: cut})
	defer d.Close()
	if got := keys(t, d, "", ""); got != "a=1 b=2" {
		t.Errorf("after power loss: %q", got)
	}
}

// TestWriteErrorIsReturned: a full disk must reach the caller as an error, stop
// the store, and lose nothing that was synced before.
func TestWriteErrorIsReturned(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			var full atomic.Bool
			mem := vfs.NewMem()
			inj := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && (op.Kind == kind || kind == errorfs.OpFileSyncData && op.Kind == errorfs.OpFileSync) {
					return syscall.ENOSPC
				}
				return nil
			})
			d := mustOpen(t, "db", Options{FS: errorfs.Wrap(mem, inj)})
			mustPut(t, d, true, "a", "1")
			full.Store(true)
			b := d.NewBatch()
			b.Put([]byte("b"), make([]byte, 1<<20))
			err := b.Commit(true)
			if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("commit on a full disk: %v", err)
			}
			<-d.Failed()
			if err := d.Sync(); !errors.Is(err, ErrFailed) {
				t.Errorf("Sync after the failure: %v", err)
			}
			if got, err := d.Get([]byte("a")); err != nil || string(got) != "1" {
				t.Errorf("read after the failure: %q, %v", got, err)
			}
			full.Store(false)
			if err := d.Close(); !errors.Is(err, ErrFailed) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func TestFlushErrorIsReturned(t *testing.T) {
	var full atomic.Bool
	inj := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	d := mustOpen(t, "db", Options{FS: errorfs.Wrap(vfs.NewMem(), inj)})
	full.Store(true)
	val := make([]byte, 4<<20)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		b := d.NewBatch()
		b.Put(fmt.Append(nil, i), val)
		err = b.Commit(false)
		b.Close()
	}
	if !errors.Is(err, ErrFailed) {
		t.Fatalf("commits with a full disk under the flush: %v", err)
	}
	full.Store(false)
	if err := d.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseDuringUse(t *testing.T) {
	d := mustOpen(t, t.TempDir(), Options{})
	mustPut(t, d, false, "k", "v")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				err := d.Scan(nil, nil, func(k, _ []byte) error {
					_, err := d.Get(k)
					return err
				})
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestPrefixEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "prefix")
		k := rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "key")
		end := PrefixEnd(p)
		in := string(k) >= string(p) && (end == nil || string(k) < string(end))
		if has := strings.HasPrefix(string(k), string(p)); in != has {
			t.Fatalf("key %x, prefix %x, end %x: in range %v, has prefix %v", k, p, end, in, has)
		}
	})
}

func TestLastKey(t *testing.T) {
	d, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := d.NewBatch()
	defer b.Close()
	for _, k := range []string{"a1", "b1", "b2", "b2\xff", "c"} {
		b.Put([]byte(k), nil)
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{"a": "a1", "b": "b2\xff", "b1": "b1", "c": "c", "": "c"} {
		if got, err := d.LastKey([]byte(prefix)); err != nil || string(got) != want {
			t.Errorf("last key of %q is %q, %v; want %q", prefix, got, err, want)
		}
	}
	if got, err := d.LastKey([]byte("d")); !errors.Is(err, ErrNotFound) {
		t.Errorf("last key of a prefix without keys is %q, %v", got, err)
	}
}
