package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/durable"
	"assay/internal/versioned"
)

// copiesVersion is the format of copies.json that this build writes and reads.
const copiesVersion = 1

// CopyKind says what a copy holds.
type CopyKind string

// The kinds of copies that assay makes itself.
const (
	CopyBackup CopyKind = "backup" // records and blobs
	CopyExport CopyKind = "export" // records
)

// Copy is a copy of the ledger that was made from a directory.
type Copy struct {
	Kind CopyKind `json:"kind"`
	Path string   `json:"path"` // absolute
	Size uint64   `json:"size"` // records, when it was last written
	At   string   `json:"at"`   // RFC 3339, UTC
}

// copies is DIR/copies.json: where backups and exports of DIR went, so that an
// erasure can say where else the content may be.
//
//	{"v":1,"copies":[{"kind":"backup","path":"/…","size":4100,"at":"…Z"}]}
type copies struct {
	V      int    `json:"v"`
	Copies []Copy `json:"copies"`
}

func (d Dir) copies() string { return d.join("copies.json") }

// NoteCopy remembers that a copy was made at path, or brought up to size
// records. It is called before the first byte goes there.
func NoteCopy(dir Dir, kind CopyKind, path string, size uint64) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	lock, err := durable.WaitLock(dir.join("copies.lock"))
	if err != nil {
		return fmt.Errorf("note a copy: %w", err)
	}
	defer lock.Unlock()
	all, err := Copies(dir)
	if err != nil {
		return err
	}
	noted := Copy{Kind: kind, Path: path, Size: size, At: time.Now().UTC().Format(time.RFC3339)}
	at := slices.IndexFunc(all, func(c Copy) bool { return c.Kind == kind && c.Path == path })
	if at < 0 {
		all = append(all, noted)
	} else {
		all[at] = noted
	}
	raw, err := json.Marshal(copies{copiesVersion, all}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.WriteFile(dir.copies(), append(raw, '\n'), 0o600)
}

// Copies are those that were noted, in the order in which they were first made.
func Copies(dir Dir) ([]Copy, error) {
	raw, err := os.ReadFile(dir.copies())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c copies
	if err := versioned.Decode(raw, copiesVersion, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", dir.copies(), err)
	}
	return c.Copies, nil
}
