package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplacesAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, want := range []string{"one", "two, longer", ""} {
		if err := WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Fatalf("directory holds %v, %v", es, err)
	}
}

func TestCreateFileKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := CreateFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CreateFile(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second create: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "first" {
		t.Fatalf("file holds %q", got)
	}
}

func TestTryLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	l, err = TryLock(path)
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	l.Unlock()
}

func TestRemovePendingKeepsAWriteFromItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(path, []byte("new"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := RemovePending(path); err != nil {
		t.Fatal(err)
	}
	if err := p.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("commit: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Fatalf("file holds %q", got)
	}
}

func TestSharedLockKeepsOutWhoWantsItAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, err := TryShared(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := TryShared(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Unlock()
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("alone beside one that shares: %v", err)
	}
	b.Unlock()
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if _, err := TryShared(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("shared beside one alone: %v", err)
	}
}

// What is written piece by piece takes the place of the old file when it is whole;
// until then, and when that fails, the old one stands and nothing is left behind.
func TestWriteFrom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	broken := errors.New("broken")
	for _, tc := range []struct {
		end  error
		want string
	}{{nil, "one two"}, {broken, "one two"}} {
		err := WriteFrom(path, 0o600, func(w io.Writer) error {
			io.WriteString(w, "one ")
			if raw, err := os.ReadFile(path); err == nil && string(raw) != "one two" {
				t.Errorf("half way it is %q", raw)
			}
			io.WriteString(w, "two")
			return tc.end
		})
		raw, _ := os.ReadFile(path)
		if entries, _ := os.ReadDir(dir); !errors.Is(err, tc.end) || string(raw) != tc.want || len(entries) != 1 {
			t.Errorf("%v, %q, %d files", err, raw, len(entries))
		}
	}
}
