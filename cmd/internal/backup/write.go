package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/blob"
	"assay/internal/durable"
	"assay/ledger"
	"assay/ledger/tiles"
)

var (
	// ErrNotBackup means that a directory holds something else.
	ErrNotBackup = errors.New("the directory is neither empty nor a backup")
	// ErrOtherLog means that a directory holds a backup of another log.
	ErrOtherLog = errors.New("the directory holds a backup of another log")
)

// Content is a file to back up, by its path below the ledger's directory.
type Content struct {
	Path string
	Data []byte
}

// Config says what to back up, and where to.
type Config struct {
	To     string
	Ledger tiles.Source
	// Checkpoint is what is backed up; the caller has checked who signed it.
	Checkpoint ledger.SignedCheckpoint
	Blobs      *blob.Store
	Files      []Content
	Secrets    bool // Files has keys and credentials
	// Prune are names of erased blobs, to be removed from the backup as well.
	Prune []string
	// Begin is called before the first byte of the ledger goes to the directory.
	Begin    func() error
	Progress func(done, total uint64) // records
}

// Written is what Write did.
type Written struct {
	Dir     string `json:"dir"`
	Origin  string `json:"origin"`
	Size    uint64 `json:"size"` // records
	Root    string `json:"root"`
	Added   uint64 `json:"added"`   // records that were not there before
	Blobs   int    `json:"blobs"`   // that belong to it
	Copied  int    `json:"copied"`  // of them, now
	Pruned  int    `json:"pruned"`  // erased blobs that were removed from it
	Files   int    `json:"files"`   // configuration, checkpoints, secrets
	Secrets bool   `json:"secrets"` // it holds keys and credentials, perhaps from an earlier run
	// Corrupt are refs of blobs that were left out, since their bytes are not
	// those that they are named for.
	Corrupt []string `json:"corrupt"`
	// Digest is the manifest's: kept elsewhere, it tells whether the
	// configuration in the backup is still what was backed up.
	Digest string `json:"digest"`
}

// Write makes a backup or brings the one that is there up to date.
func Write(ctx context.Context, c Config) (out Written, err error) {
	if err := os.MkdirAll(c.To, 0o700); err != nil {
		return out, err
	}
	if _, err := begin(c); err != nil { // before a lock is left in somebody else's directory
		return out, err
	}
	lock, err := durable.TryLock(filepath.Join(c.To, lockName))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	old, err := begin(c)
	if err != nil {
		return out, err
	}
	if err := c.Begin(); err != nil {
		return out, err
	}
	if old == nil {
		if err := durable.WriteFile(filepath.Join(c.To, unfinishedName), []byte(manifestMagic+"\n"), 0o600); err != nil {
			return out, err
		}
	}
	exported, err := export(ctx, c)
	if err != nil {
		return out, err
	}
	m := Manifest{
		Origin: exported.Origin, Size: exported.Size, Root: exported.Root, Checkpoint: string(c.Checkpoint.Raw), Secrets: c.Secrets,
		Files: []File{}, Blobs: []Blob{},
	}
	out = Written{
		Dir: c.To, Origin: m.Origin, Size: m.Size, Root: m.Root, Added: exported.Added, Files: len(c.Files),
		Secrets: c.Secrets || old != nil && old.Secrets, Corrupt: []string{},
	}
	if err := m.addBlobs(ctx, c, &out); err != nil {
		return out, err
	}
	if err := m.addFiles(c); err != nil {
		return out, err
	}
	if out.Digest, err = m.commit(c.To); err != nil {
		return out, err
	}
	out.Pruned, err = prune(c)
	return out, err
}

// begin looks at what is in the directory; nil when there is no backup yet.
func begin(c Config) (*Manifest, error) {
	cp := c.Checkpoint
	old, _, err := readManifest(c.To)
	if err == nil {
		if old.Origin != cp.Origin {
			return nil, fmt.Errorf("%w: %s, not %s", ErrOtherLog, old.Origin, cp.Origin)
		}
		if old.Size > cp.Size {
			return nil, fmt.Errorf("the backup holds %d records, the ledger's checkpoint signs %d: give it another directory", old.Size, cp.Size)
		}
		return old, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.To, manifestName), err)
	}
	there, err := os.ReadDir(c.To)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.To, unfinishedName)); err != nil && (len(there) > 1 || there[0].Name() != lockName) {
		return nil, fmt.Errorf("%s: %w", c.To, ErrNotBackup)
	}
	return nil, nil
}

func export(ctx context.Context, c Config) (done tiles.Exported, err error) {
	disk, err := tiles.OpenDisk(filepath.Join(c.To, ledgerDir))
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	return tiles.Export(ctx, tiles.Config{To: disk, Source: c.Ledger, Checkpoint: c.Checkpoint, Progress: c.Progress})
}

// addBlobs copies what is new. A blob that the ledger's directory has damaged
// counts as backed up if the backup has it whole.
func (m *Manifest) addBlobs(ctx context.Context, c Config, out *Written) error {
	to, err := blob.Open(filepath.Join(c.To, BlobsDir))
	if err != nil {
		return err
	}
	return c.Blobs.List(func(f blob.File) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		size, err := to.Size(f.Name)
		if errors.Is(err, blob.ErrNotFound) || err == nil && size != f.Size {
			err = to.Import(c.Blobs, f.Name)
			out.Copied++
		}
		switch {
		case errors.Is(err, blob.ErrNotFound):
			out.Copied--
			return nil // erased meanwhile
		case errors.Is(err, blob.ErrCorrupt):
			out.Copied--
			out.Corrupt = append(out.Corrupt, blob.Ref(f.Name))
			if _, err := to.Check(f.Name); err != nil {
				return nil
			}
			f.Size = size
		case err != nil:
			return err
		}
		out.Blobs++
		m.Blobs = append(m.Blobs, Blob{f.Name, f.Size})
		return nil
	})
}

func (m *Manifest) addFiles(c Config) error {
	to, err := blob.Open(filepath.Join(c.To, filesDir))
	if err != nil {
		return err
	}
	for _, f := range c.Files {
		name, err := to.Put(f.Data)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, File{Path: f.Path, SHA256: name, Size: int64(len(f.Data))})
	}
	return nil
}

// commit puts the manifest in place: from then on the backup is whole.
func (m *Manifest) commit(dir string) (digest string, err error) {
	raw, err := m.encode()
	if err != nil {
		return "", err
	}
	if _, digest, err = parseManifest(raw); err != nil {
		return "", err
	}
	name := filepath.Join(dir, manifestName)
	if there, err := os.ReadFile(name); err != nil || !bytes.Equal(there, raw) {
		if err := durable.WriteFile(name, raw, 0o600); err != nil {
			return "", err
		}
	}
	if err := os.Remove(filepath.Join(dir, unfinishedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return digest, durable.SyncDir(dir)
}

// prune removes erased blobs, once no manifest names them.
func prune(c Config) (n int, err error) {
	store, err := blob.Open(filepath.Join(c.To, BlobsDir))
	if err != nil {
		return 0, err
	}
	for _, name := range c.Prune {
		if _, err := c.Blobs.Size(name); err == nil {
			continue // its erasure was cut off: the manifest names it
		}
		if _, err := store.Size(name); errors.Is(err, blob.ErrNotFound) {
			continue
		}
		if err := store.Remove(name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func readManifest(dir string) (*Manifest, string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, "", err
	}
	return parseManifest(raw)
}
