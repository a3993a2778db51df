package blob

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// ErrNotContent means that an intact file is no content blob but evidence: a
// telemetry segment or a signal registry.
var ErrNotContent = errors.New("not a content blob")

const (
	magic    = "assay blob 1\n"
	saltSize = 32
	// HeaderSize is what a content blob has before its content, in bytes.
	HeaderSize = len(magic) + saltSize
)

// PutContent stores content behind a fresh salt from random and returns the
// blob's name and the content's length in bytes. When it returns, the blob
// survives a crash.
func (s *Store) PutContent(content, random io.Reader) (name string, size int64, err error) {
	f, err := os.CreateTemp(s.dir, ".put.*")
	if err != nil {
		return "", 0, fmt.Errorf("put blob: %w", err)
	}
	defer os.Remove(f.Name()) // fails once the rename has happened
	name, size, err = write(f, content, random)
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.install(f.Name(), name)
	}
	if err != nil {
		return "", 0, fmt.Errorf("put blob: %w", err)
	}
	return name, size, nil
}

// ContentName is the name that PutContent gives content whose salt, the first bytes of
// its random, is salt.
func ContentName(content, salt []byte) string {
	h := sha256.New()
	h.Write([]byte(magic))
	h.Write(salt[:saltSize])
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// install gives a synced file its name.
func (s *Store) install(temp, name string) error {
	if err := s.room(name); err != nil {
		return err
	}
	path := s.path(name)
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// Import copies a file of another store, checking it as it passes: ErrNotFound,
// ErrCorrupt. When it returns, the copy survives a crash.
func (s *Store) Import(from *Store, name string) error {
	src, err := from.open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := os.CreateTemp(s.dir, ".put.*")
	if err != nil {
		return fmt.Errorf("copy blob: %w", err)
	}
	defer os.Remove(f.Name()) // fails once the rename has happened
	_, err = check(io.TeeReader(src, f), name)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.install(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("copy blob %s: %w", name, err)
	}
	return nil
}

// write fills and syncs a file of mode 0600.
func write(f *os.File, content, random io.Reader) (name string, size int64, err error) {
	h := sha256.New()
	w := io.MultiWriter(f, h)
	if _, err := io.WriteString(w, magic); err != nil {
		return "", 0, err
	}
	if _, err := io.CopyN(w, random, saltSize); err != nil {
		return "", 0, fmt.Errorf("salt: %w", err)
	}
	if size, err = io.Copy(w, content); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, f.Sync()
}

// Content writes the content of a blob to w, once the file's hash was checked:
// ErrNotFound, ErrCorrupt, ErrNotContent.
func (s *Store) Content(name string, w io.Writer) error {
	f, err := s.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := check(f, name)
	if err != nil {
		return err
	}
	if !content {
		return fmt.Errorf("%w: %s", ErrNotContent, name)
	}
	if _, err := f.Seek(int64(HeaderSize), io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// Check holds a file against its name and says whether it is a content blob:
// ErrNotFound, ErrCorrupt.
func (s *Store) Check(name string) (content bool, err error) {
	f, err := s.open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return check(f, name)
}

// IsContent says whether a file has the form of a content blob, without reading
// more than its first line: ErrNotFound.
func (s *Store) IsContent(name string) (bool, error) {
	f, err := s.open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var start [HeaderSize]byte
	n, err := io.ReadFull(f, start[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return isContent(start[:n]), err
}

// Size is the length of a file in bytes, header and salt included: ErrNotFound.
func (s *Store) Size(name string) (int64, error) {
	f, err := s.open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func isContent(start []byte) bool {
	return len(start) == HeaderSize && bytes.HasPrefix(start, []byte(magic))
}

func (s *Store) open(name string) (*os.File, error) {
	if !isName(name) {
		return nil, fmt.Errorf("%w: %q is no SHA-256", ErrNotFound, name)
	}
	f, err := os.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	return f, nil
}

func check(f io.Reader, name string) (content bool, err error) {
	r := bufio.NewReaderSize(f, 1<<16)
	start, err := r.Peek(HeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("get blob %s: %w", name, err)
	}
	content = isContent(start)
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return false, fmt.Errorf("get blob %s: %w", name, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != name {
		return false, fmt.Errorf("%w: %s", ErrCorrupt, name)
	}
	return content, nil
}
