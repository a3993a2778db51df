package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/internal/kv"
	"assay/ledger"
)

const (
	snapshotVersion = 1
	manifestFile    = "manifest.json"
	snapshotStore   = "store"
	unfinished      = ".tmp-" // prefix of a snapshot that is being written
)

// ErrSnapshot means that a snapshot does not hold what its manifest says.
var ErrSnapshot = errors.New("snapshot does not match its manifest")

// Manifest names the state that a snapshot holds. It is written last, so that a
// directory without one is no snapshot.
type Manifest struct {
	V int `json:"v"` // 1
	Digest
}

// Snapshot writes the views of this moment to a new directory under dir, named
// by the record they stand at, and returns its path. One that exists already is
// returned as it is. The live views may go on meanwhile.
func (r *Runner) Snapshot(ctx context.Context, dir string) (path string, m Manifest, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	tmp, err := os.MkdirTemp(dir, unfinished)
	if err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	defer os.RemoveAll(tmp) // after a success it has another name
	store := filepath.Join(tmp, snapshotStore)
	if err := r.cfg.DB.Checkpoint(store); err != nil {
		return "", Manifest{}, err
	}
	if err := ctx.Err(); err != nil {
		return "", Manifest{}, err
	}
	d, err := digestStore(store)
	if err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	m = Manifest{V: snapshotVersion, Digest: d}
	path = filepath.Join(dir, SeqKey(d.Seq))
	if have, err := readManifest(path); err == nil && have.SHA256 == m.SHA256 {
		return path, have, nil
	}
	if err := writeManifest(tmp, m); err != nil {
		return "", Manifest{}, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	return path, m, syncDir(dir)
}

func digestStore(store string) (Digest, error) {
	db, err := kv.Open(store, kv.Options{ReadOnly: true})
	if err != nil {
		return Digest{}, err
	}
	defer db.Close()
	s, err := NewState(db)
	if err != nil {
		return Digest{}, err
	}
	return s.Digest()
}

func writeManifest(dir string, m Manifest) error {
	data, err := json.Marshal(m, encoding)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	tmp := filepath.Join(dir, manifestFile+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, manifestFile)); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

func readManifest(path string) (Manifest, error) {
	data, err := os.ReadFile(filepath.Join(path, manifestFile))
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m, json.RejectUnknownMembers(true)); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest of %s: %w", ErrSnapshot, path, err)
	}
	if m.V != snapshotVersion {
		return Manifest{}, fmt.Errorf("%s: %w %d", path, ledger.ErrUnsupportedVersion, m.V)
	}
	return m, nil
}

// VerifySnapshot computes the state digest of a snapshot again and compares it,
// its record, root and versions with the manifest; ErrSnapshot when they differ.
func VerifySnapshot(path string) (Manifest, error) {
	m, err := readManifest(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("snapshot %s: %w", path, err)
	}
	d, err := digestStore(filepath.Join(path, snapshotStore))
	if err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrSnapshot, path, err)
	}
	for _, c := range []struct{ what, want, got string }{
		{"seq", fmt.Sprint(m.Seq), fmt.Sprint(d.Seq)},
		{"leaf", m.Leaf, d.Leaf},
		{"root", m.Root, d.Root},
		{"versions", fmt.Sprint(m.Versions), fmt.Sprint(d.Versions)},
		{"digest", m.SHA256, d.SHA256},
	} {
		if c.want != c.got {
			return m, fmt.Errorf("%w: %s: %s is %s, want %s", ErrSnapshot, path, c.what, c.got, c.want)
		}
	}
	return m, nil
}

// OpenSnapshot opens a snapshot's views to be read; close the store after use.
// It does not verify them.
func OpenSnapshot(path string) (*State, *kv.DB, error) {
	db, err := kv.Open(filepath.Join(path, snapshotStore), kv.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	s, err := NewState(db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return s, db, nil
}

// SnapshotInfo is one entry of ListSnapshots.
type SnapshotInfo struct {
	Path     string   `json:"path"`
	Manifest Manifest `json:"manifest"`
}

// ListSnapshots reads the manifests under dir in the order of records; a dir
// that does not exist holds none.
func ListSnapshots(dir string) ([]SnapshotInfo, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var list []SnapshotInfo
	for _, n := range names {
		path := filepath.Join(dir, n.Name())
		if strings.HasPrefix(n.Name(), unfinished) || !n.IsDir() {
			continue
		}
		m, err := readManifest(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, SnapshotInfo{path, m})
	}
	slices.SortFunc(list, func(a, b SnapshotInfo) int { return cmp.Compare(a.Manifest.Seq, b.Manifest.Seq) })
	return list, nil
}
