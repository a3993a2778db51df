package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"assay/cmd/internal/backup"
	"assay/internal/blob"
	"assay/internal/principal"
	"assay/ledger"
)

// backupBlobs is the blob store of a backup.
const backupBlobs = backup.BlobsDir

// BackupConfig says what to back up, and where to.
type BackupConfig struct {
	Dir Dir
	To  string
	// Secrets also copies the log's keys and the credentials: whoever reads the
	// backup can then forge the ledger.
	Secrets bool
	// Prune are refs of erased blobs, to be removed from the backup as well.
	Prune    []string
	Progress func(done, total uint64)
}

// Backup copies the ledger up to the signed checkpoint, the blobs and what else
// a restore needs. open is called once the checkpoint is chosen, so that what it
// opens holds what the checkpoint signs.
func Backup(ctx context.Context, c BackupConfig, open func() (Evidence, error)) (out backup.Written, err error) {
	if err := c.Dir.Check(); err != nil {
		return out, err
	}
	cp, err := NewestCheckpoint(AnchorConfig{Dir: c.Dir})
	if err != nil {
		return out, err
	}
	e, err := open()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	files, err := c.files(cp)
	if err != nil {
		return out, err
	}
	blobs, err := blob.Open(c.Dir.Blobs())
	if err != nil {
		return out, err
	}
	var prune []string
	for _, ref := range c.Prune {
		if name, ok := blob.ParseRef(ref); ok {
			prune = append(prune, name)
		}
	}
	return backup.Write(ctx, backup.Config{
		To: c.To, Ledger: e, Checkpoint: cp, Blobs: blobs,
		Files: files, Secrets: c.Secrets, Prune: prune,
		Begin:    func() error { return NoteCopy(c.Dir, CopyBackup, c.To, cp.Size) },
		Progress: c.Progress,
	})
}

// plainFiles are what a backup has of DIR beside checkpoints and secrets; those
// that are not there are left out. A witness's own state is none of them: put
// back, it would have forgotten what it cosigned.
var plainFiles = []string{clusterFile, "principals.json", "broker/services.json", "registry.json", "gateway.json", "witness-policy.txt", "copies.json", "logger/key.pub"}

// secretFiles let whoever has them sign checkpoints, act as any principal and pass
// for a broker of the cluster.
var secretFiles = []string{"logger/key", "logger/hmac.key", clusterSecretFile}

// The files that make a directory one of a cluster; a restore to one broker
// leaves them out.
const (
	clusterFile       = "cluster.json"
	clusterSecretFile = "cluster.secret"
)

// files reads them. Checkpoints of more records than are backed up stay out.
func (c BackupConfig) files(newest ledger.SignedCheckpoint) ([]backup.Content, error) {
	out := []backup.Content{{Path: "logger/checkpoint/latest", Data: newest.Raw}}
	paths := plainFiles
	if c.Secrets {
		creds, err := c.Dir.below("creds", principal.CredentialSuffix)
		if err != nil {
			return nil, err
		}
		paths = append(append(append([]string{}, paths...), secretFiles...), creds...)
	}
	for _, p := range paths {
		data, err := os.ReadFile(c.Dir.join(filepath.FromSlash(p)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, backup.Content{Path: p, Data: data})
	}
	for _, dir := range []string{"logger/checkpoint", "logger/checkpoint/lost"} {
		names, err := c.Dir.below(dir, "")
		if err != nil {
			return nil, err
		}
		for _, p := range names {
			raw, err := os.ReadFile(c.Dir.join(filepath.FromSlash(p)))
			if errors.Is(err, fs.ErrNotExist) {
				continue // replaced meanwhile
			}
			if err != nil {
				return nil, err
			}
			cp, err := ledger.ParseCheckpoint(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			if p == "logger/checkpoint/latest" || backup.IsCheckpoint(p) && cp.Size > newest.Size {
				continue
			}
			out = append(out, backup.Content{Path: p, Data: raw})
		}
	}
	return out, nil
}

// below lists the files of a directory of DIR, by their path below DIR with
// slashes; none if there is no such directory.
func (d Dir) below(dir, suffix string) (out []string, err error) {
	entries, err := os.ReadDir(d.join(filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), suffix) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out, err
}
