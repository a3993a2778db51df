package blob

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	name, err := s.Put([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Put([]byte("hello")); err != nil || again != name {
		t.Fatalf("second put: %s, %v; want %s", again, err, name)
	}
	reopened, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := reopened.Get(name); err != nil || string(got) != "hello" {
		t.Fatalf("get: %q, %v", got, err)
	}
	for _, bad := range []string{"", "../x", strings.Repeat("0", 64), strings.ToUpper(name)} {
		if _, err := s.Get(bad); !errors.Is(err, ErrNotFound) {
			t.Errorf("get %q: %v, want ErrNotFound", bad, err)
		}
	}
	if err := os.WriteFile(s.path(name), []byte("jello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(name); !errors.Is(err, ErrCorrupt) {
		t.Errorf("get of changed bytes: %v, want ErrCorrupt", err)
	}
	if _, err := s.Put([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(name); err != nil || string(got) != "hello" {
		t.Errorf("put did not mend the corrupt blob: %q, %v", got, err)
	}
}
