package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/ledger/tiles"
	"assay/ledger/tiles/fsck"
)

// Backup is an opened backup.
type Backup struct {
	Manifest *Manifest
	Digest   string // of the manifest, hex

	dir   string
	files *blob.Store
	Blobs *blob.Store
}

// Open reads the manifest of a backup; nothing else is checked.
func Open(dir string) (*Backup, error) {
	m, digest, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no whole backup is here: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	b := &Backup{Manifest: m, Digest: digest, dir: dir}
	if b.files, err = blob.OpenExisting(filepath.Join(dir, filesDir)); err != nil {
		return nil, err
	}
	b.Blobs, err = blob.OpenExisting(filepath.Join(dir, BlobsDir))
	return b, err
}

// File is the content of a file of the ledger's directory, checked;
// fs.ErrNotExist if the backup has none at the path.
func (b *Backup) File(path string) ([]byte, error) {
	f, ok := b.Manifest.find(path)
	if !ok {
		return nil, fmt.Errorf("%s: the backup has none: %w", path, fs.ErrNotExist)
	}
	data, err := b.files.Get(f.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Read calls fn for the records from from to to (0: the last), as the bundles
// have them. Bodies belong to fn.
func (b *Backup) Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error {
	fsys := os.DirFS(filepath.Join(b.dir, ledgerDir))
	cp, err := tiles.ReadCheckpoint(fsys)
	if err != nil {
		return err
	}
	if last := ledger.Seq(b.Manifest.Size); to == 0 || to > last {
		to = last
	}
	return tiles.ReadRecords(ctx, fsys, cp.Size, from, to, fn)
}

// CheckConfig says what to hold a backup against.
type CheckConfig struct {
	// Key is the log's pinned verifier key; "" takes the backup's own, which
	// whoever rewrote the whole backup would have replaced.
	Key string
	// Known are checkpoints from elsewhere, of no more records than the backup has.
	Known    []ledger.SignedCheckpoint
	Progress func(done, total uint64) // records
}

// Checked is what a check found.
type Checked struct {
	// Findings name each file that is not what was backed up; none: it is whole.
	Findings []string
	Audit    ledger.Report
	// Erased are the names of the blobs that the records say were erased.
	Erased map[string]bool
}

// Check checks everything that belongs to the backup: each file and blob
// against its hash, and the ledger twice, as files and as a chain of records up
// to the signed root. An error means that it could not read what it had to check.
func (b *Backup) Check(ctx context.Context, c CheckConfig) (Checked, error) {
	out := Checked{Erased: map[string]bool{}}
	bad := func(format string, args ...any) { out.Findings = append(out.Findings, fmt.Sprintf(format, args...)) }
	for _, f := range b.Manifest.Files {
		if err := damaged(b.files, f.SHA256, f.Size); err != nil {
			bad("%s (%s): %v", path.Join(filesDir, f.SHA256[:2], f.SHA256), f.Path, err)
		}
	}
	for _, f := range b.Manifest.Blobs {
		if err := damaged(b.Blobs, f.SHA256, f.Size); err != nil {
			bad("%s: %v", path.Join(BlobsDir, f.SHA256[:2], f.SHA256), err)
		}
	}
	if err := b.checkExport(ctx, c, bad); err != nil || len(out.Findings) > 0 {
		return out, err
	}
	return out, b.audit(ctx, c, &out)
}

func damaged(store *blob.Store, name string, size int64) error {
	if _, err := store.Check(name); err != nil {
		return err
	}
	if got, err := store.Size(name); err != nil || got != size {
		return fmt.Errorf("%d bytes, the manifest says %d", got, size)
	}
	return nil
}

// checkExport checks the files of the export. The key is for the audit, which
// knows those that were in force before.
func (b *Backup) checkExport(ctx context.Context, c CheckConfig, bad func(string, ...any)) error {
	fsys := os.DirFS(filepath.Join(b.dir, ledgerDir))
	cp, err := tiles.ReadCheckpoint(fsys)
	switch {
	case err != nil:
		bad("%s: %v", path.Join(ledgerDir, tiles.CheckpointName), err)
		return nil
	case cp.Size < b.Manifest.Size:
		bad("%s: it signs %d records, the manifest names %d", path.Join(ledgerDir, tiles.CheckpointName), cp.Size, b.Manifest.Size)
		return nil
	case cp.Size == b.Manifest.Size && !bytes.Equal(cp.Raw, []byte(b.Manifest.Checkpoint)):
		bad("%s: it is not the one that the manifest names", path.Join(ledgerDir, tiles.CheckpointName))
		return nil
	}
	r, err := fsck.Check(ctx, fsck.Config{FS: fsys, Progress: c.Progress})
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		bad("%s: %s", path.Join(ledgerDir, f.File), f.Text)
	}
	if r.MoreFindings > 0 {
		bad("%s: %d more findings", ledgerDir, r.MoreFindings)
	}
	return nil
}

// audit follows the chain from record 1 to the signed root.
func (b *Backup) audit(ctx context.Context, c CheckConfig, out *Checked) error {
	anchor := ledger.Anchor{Key: c.Key, Signed: slices.Clone(c.Known)}
	if anchor.Key == "" {
		own, err := b.File("logger/key.pub")
		if err != nil {
			return err
		}
		anchor.Key = strings.TrimSpace(string(own))
	}
	notes := map[string][]byte{manifestName: []byte(b.Manifest.Checkpoint)}
	for _, f := range b.Manifest.Files {
		if !IsCheckpoint(f.Path) {
			continue
		}
		raw, err := b.File(f.Path)
		if err != nil {
			return err
		}
		notes[f.Path] = raw
	}
	for from, raw := range notes {
		signed, err := ledger.ParseCheckpoint(raw)
		if err != nil {
			out.Findings = append(out.Findings, fmt.Sprintf("%s: %v", from, err))
			return nil
		}
		anchor.Signed = append(anchor.Signed, signed)
	}
	a := ledger.NewAuditor(anchor)
	marker := []byte(events.TypeBlobErased)
	err := b.Read(ctx, 1, 0, func(seq ledger.Seq, body []byte) error {
		a.Add(seq, body)
		if bytes.Contains(body, marker) {
			out.erasedBy(body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out.Audit = a.Report()
	if out.Audit.Verdict != ledger.Consistent {
		text := string(out.Audit.Verdict)
		if out.Audit.Finding != nil {
			text = *out.Audit.Finding
		}
		out.Findings = append(out.Findings, ledgerDir+": "+text)
	}
	return nil
}

// IsCheckpoint says whether a path is that of a checkpoint in force: those of a
// declared loss stand one directory deeper.
func IsCheckpoint(p string) bool { return path.Dir(p) == "logger/checkpoint" }

func (c *Checked) erasedBy(body []byte) {
	r, err := ledger.ParseRecord(body)
	if err != nil || !strings.HasPrefix(r.Principal, "operator/") {
		return
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return
	}
	if d, ok := ev.Data.(*events.BlobErased); ok {
		if name, ok := blob.ParseRef(d.Ref); ok {
			c.Erased[name] = true
		}
	}
}
