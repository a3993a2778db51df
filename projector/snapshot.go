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

	"assay/internal/durable"
	"assay/internal/kv"
	"assay/ledger"
)

const (
	snapshotVersion = 2
	manifestFile    = "manifest.json"
	snapshotStore   = "store"
	unfinished      = ".tmp-" // prefix of a snapshot that is being written, or removed
)

var (
	// ErrSnapshot means that a snapshot does not hold what its manifest says.
	ErrSnapshot = errors.New("snapshot does not match its manifest")
	// ErrSnapshotFormat means that a snapshot is of a format that is not read.
	ErrSnapshotFormat = errors.New("unsupported format")
	// ErrNoSnapshot means that there is no such snapshot.
	ErrNoSnapshot = errors.New("no such snapshot")
)

// Manifest names the state that a snapshot holds. It is written last, so that a
// directory without one is no snapshot.
type Manifest struct {
	V int `json:"v"` // 2; in 1 the digest was of another format, and what follows it was not there
	Digest
	LedgerTime *string `json:"ledger_time,omitzero"` // null before the first record
	Bytes      int64   `json:"bytes,omitzero"`       // of its files; most share their place with the live views'
	Scorer     int     `json:"scorer,omitzero"`      // version of the scores of the build that wrote it
}

// Snapshot writes the views of this moment to a new directory under dir, named
// by the record they stand at and their digest, and returns its path. One that
// exists already is returned as it is. The live views may go on meanwhile. The
// digest is the kept one (State.KeptDigest); VerifySnapshot computes it from the
// bytes that were written.
func (r *Runner) Snapshot(ctx context.Context, dir string, scorer int) (path string, m Manifest, err error) {
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
	m = Manifest{V: snapshotVersion, Scorer: scorer}
	if err := m.describe(store); err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	path = filepath.Join(dir, SeqKey(m.Seq)+"-"+m.SHA256[:12])
	if have, err := readManifest(path); err == nil && have.SHA256 == m.SHA256 {
		return path, have, nil
	}
	if err := writeManifest(tmp, m); err != nil {
		return "", Manifest{}, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", Manifest{}, fmt.Errorf("snapshot: %w", err)
	}
	return path, m, durable.SyncDir(dir)
}

// describe fills in what a store holds.
func (m *Manifest) describe(store string) error {
	err := readStore(store, func(s *State) (err error) {
		if m.Digest, err = s.KeptDigest(); err != nil {
			return err
		}
		l, err := s.Ledger()
		if err == nil && !l.Time.IsZero() {
			text := ledger.FormatTime(l.Time)
			m.LedgerTime = &text
		}
		return err
	})
	if err != nil {
		return err
	}
	files, err := os.ReadDir(store)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		m.Bytes += info.Size()
	}
	return err
}

func readStore(store string, fn func(*State) error) error {
	db, err := kv.Open(store, kv.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	s, err := NewState(db)
	if err == nil {
		err = fn(s)
	}
	return errors.Join(err, db.Close())
}

func writeManifest(dir string, m Manifest) error {
	data, err := json.Marshal(m, encoding)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, manifestFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return nil
}

// readManifest reads a manifest. One of another format comes with
// ErrSnapshotFormat and what it says in the fields of both.
func readManifest(path string) (Manifest, error) {
	data, err := os.ReadFile(filepath.Join(path, manifestFile))
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest of %s: %w", ErrSnapshot, path, err)
	}
	if m.V != snapshotVersion {
		return m, fmt.Errorf("snapshot %s: %w: %d, want %d", path, ErrSnapshotFormat, m.V, snapshotVersion)
	}
	if err := json.Unmarshal(data, &m, json.RejectUnknownMembers(true)); err != nil {
		return Manifest{}, fmt.Errorf("%w: manifest of %s: %w", ErrSnapshot, path, err)
	}
	return m, nil
}

// VerifySnapshot computes the state digest of a snapshot again, from every byte
// of it, and compares it, its record, root and versions with the manifest;
// ErrSnapshot when they differ, kv.ErrLocked while somebody else reads it.
func VerifySnapshot(path string) (Manifest, error) {
	m, err := readManifest(path)
	if err != nil {
		return m, err
	}
	var d Digest
	err = readStore(filepath.Join(path, snapshotStore), func(s *State) (err error) {
		d, err = s.Digest()
		return err
	})
	if errors.Is(err, kv.ErrLocked) || errors.Is(err, fs.ErrPermission) {
		return m, fmt.Errorf("snapshot %s: %w", path, err)
	}
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

// ReadSnapshot calls fn with a snapshot's views. It does not verify them.
func ReadSnapshot(path string, fn func(*State) error) error {
	if err := readStore(filepath.Join(path, snapshotStore), fn); err != nil {
		return fmt.Errorf("snapshot %s: %w", path, err)
	}
	return nil
}

// CloneSnapshot makes a store of a snapshot's views in dir, which must not
// exist, to be folded on from there.
func CloneSnapshot(path, dir string) error {
	if err := kv.Clone(filepath.Join(path, snapshotStore), dir); err != nil {
		return fmt.Errorf("snapshot %s: %w", path, err)
	}
	return nil
}

// SnapshotInfo is one entry of ListSnapshots.
type SnapshotInfo struct {
	Path     string   `json:"path"`
	Manifest Manifest `json:"manifest"`
	// Problem says why it cannot be used; Manifest then holds what could be read.
	Problem string `json:"problem,omitzero"`
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
		if strings.HasPrefix(n.Name(), unfinished) || !n.IsDir() {
			continue
		}
		info := SnapshotInfo{Path: filepath.Join(dir, n.Name())}
		if info.Manifest, err = readManifest(info.Path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			info.Problem = err.Error()
		}
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b SnapshotInfo) int { return cmp.Compare(a.Manifest.Seq, b.Manifest.Seq) })
	return list, nil
}

// FindSnapshot finds a snapshot by its path, its record, or as "latest";
// ErrNoSnapshot when there is none.
func FindSnapshot(dir, ref string) (SnapshotInfo, error) {
	if strings.ContainsRune(ref, filepath.Separator) {
		m, err := readManifest(ref)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s", ErrNoSnapshot, ref)
		}
		return SnapshotInfo{Path: ref, Manifest: m}, err
	}
	list, err := ListSnapshots(dir)
	if err != nil {
		return SnapshotInfo{}, err
	}
	for _, s := range slices.Backward(list) {
		if s.Problem == "" && (ref == "latest" || ref == fmt.Sprint(uint64(s.Manifest.Seq)) || ref == filepath.Base(s.Path)) {
			return s, nil
		}
	}
	return SnapshotInfo{}, fmt.Errorf("%w: %s under %s", ErrNoSnapshot, ref, dir)
}
