package blob

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
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

func TestContent(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for label, content := range map[string]string{"empty": "", "short": "yes", "long": strings.Repeat("x", 200_000)} {
		t.Run(label, func(t *testing.T) {
			name, size, err := s.PutContent(strings.NewReader(content), rand.Reader)
			if err != nil || size != int64(len(content)) {
				t.Fatalf("put: %d bytes, %v", size, err)
			}
			again, _, err := s.PutContent(strings.NewReader(content), rand.Reader)
			if err != nil || again == name {
				t.Errorf("put again: %s, %v; the same content must have another name", again, err)
			}
			salt := bytes.Repeat([]byte{7}, 32)
			if salted, _, err := s.PutContent(strings.NewReader(content), bytes.NewReader(salt)); err != nil || salted != ContentName([]byte(content), salt) {
				t.Errorf("put with a known salt: %s, %v; ContentName says %s", salted, err, ContentName([]byte(content), salt))
			}
			var got bytes.Buffer
			if err := s.Content(name, &got); err != nil || got.String() != content {
				t.Errorf("content: %d bytes, %v", got.Len(), err)
			}
			if is, err := s.Check(name); err != nil || !is {
				t.Errorf("check: %v, %v", is, err)
			}
			if is, err := s.IsContent(name); err != nil || !is {
				t.Errorf("is content: %v, %v", is, err)
			}
			if info, err := os.Stat(s.path(name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode: %v, %v; want 0600", info.Mode(), err)
			}
		})
	}
}

// The format is frozen: a ref in a ledger must resolve for ever.
func TestContentBytesAreFrozen(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := s.PutContent(strings.NewReader("hello"), strings.NewReader(strings.Repeat("s", 40)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.Get(name)
	if want := "assay blob 1\n" + strings.Repeat("s", 32) + "hello"; err != nil || string(raw) != want {
		t.Errorf("stored %q, %v; want %q", raw, err, want)
	}
	if want := "sha256:" + name; Ref(name) != want {
		t.Errorf("ref %s, want %s", Ref(name), want)
	}
	// Without a whole salt nothing is stored.
	if _, _, err := s.PutContent(strings.NewReader("hello"), strings.NewReader("short")); err == nil {
		t.Error("a short salt was taken")
	}
	if n, _, err := s.Leftovers(); n != 0 || err != nil {
		t.Errorf("%d files left over, %v", n, err)
	}
}

func TestContentOfOtherFiles(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	segment, err := s.Put([]byte("assay blob 1\n and no salt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Content(segment, io.Discard); !errors.Is(err, ErrNotContent) {
		t.Errorf("content of a segment: %v, want ErrNotContent", err)
	}
	name, _, err := s.PutContent(strings.NewReader("hello"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.path(name))
	if err != nil {
		t.Fatal(err)
	}
	for at := range raw {
		raw[at] ^= 1
		if err := os.WriteFile(s.path(name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := s.Content(name, &got); !errors.Is(err, ErrCorrupt) || got.Len() > 0 {
			t.Fatalf("byte %d changed: %v and %d bytes of content, want ErrCorrupt and none", at, err, got.Len())
		}
		raw[at] ^= 1
	}
}

func TestRemove(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err := s.PutContent(strings.NewReader("kept"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := s.PutContent(strings.NewReader("gone"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// What interrupted writes of this blob and of an unnamed one left.
	for _, path := range []string{filepath.Join(s.dir, name[:2], "."+name+".123"), filepath.Join(s.dir, ".put.1")} {
		if err := os.WriteFile(path, []byte("gone"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a repeat finishes what was cut off
		if err := s.Remove(name); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("after remove: %v, want ErrNotFound", err)
		}
	}
	var names []string
	err = s.List(func(f File) error { names = append(names, f.Name); return nil })
	if err != nil || !slices.Equal(names, []string{kept}) {
		t.Errorf("list: %v, %v; want %s alone", names, err, kept)
	}
	if n, size, err := s.Leftovers(); n != 1 || size != 4 || err != nil {
		t.Errorf("left over: %d files of %d bytes, %v; want the unnamed one", n, size, err)
	}
	if err := s.Remove("../x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("remove of no name: %v", err)
	}
	if err := s.Remove(strings.Repeat("0", 64)); err != nil {
		t.Errorf("remove of what was never there: %v", err)
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("sha256:" + strings.Repeat("0", 64))
	f.Add("https://example.com/x")
	f.Fuzz(func(t *testing.T, ref string) {
		if name, ok := ParseRef(ref); ok && (Ref(name) != ref || filepath.Base(name) != name || len(name) != 64) {
			t.Errorf("%q is taken as the name %q", ref, name)
		}
	})
}
