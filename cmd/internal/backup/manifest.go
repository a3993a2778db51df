// Package backup is the format of a backup, and how one is written and checked.
//
// A backup is a directory:
//
//	manifest       what belongs to it; written last, so that it names a whole backup
//	ledger/        the records as a C2SP tlog-tiles export (package tiles)
//	blobs/         the blob store (package blob)
//	files/         configuration, checkpoints and perhaps secrets, each named by its hash
//	unfinished     only until the first manifest is there
//
// Everything is added beside what is there, under names that say what it is, and
// nothing that a manifest names is ever changed: while a backup is brought up to
// date, and if that is cut off, the manifest before still names a whole backup.
//
// The manifest is a line of text and a JSON object:
//
//	assay backup 1 <SHA-256 of all that follows, hex>\n
//	{"origin":"…","size":4100,"root":"<hex>","checkpoint":"<signed note>","secrets":false,
//	 "files":[{"path":"principals.json","sha256":"<hex>","size":900},…],
//	 "blobs":[{"sha256":"<hex>","size":67},…]}
//
// Paths are those below the directory of the ledger, with slashes. The records
// that it names are the first size of the export, which may have more.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/blob"
	"assay/ledger"
)

const (
	manifestName   = "manifest"
	unfinishedName = "unfinished"
	lockName       = "lock"
	ledgerDir      = "ledger"
	filesDir       = "files"
	// BlobsDir is the blob store of a backup.
	BlobsDir = "blobs"

	manifestMagic = "assay backup 1 "
)

// ErrManifest means that bytes are no manifest.
var ErrManifest = errors.New("malformed manifest")

// Manifest says what belongs to a backup.
type Manifest struct {
	Origin     string `json:"origin"`
	Size       uint64 `json:"size"` // records
	Root       string `json:"root"` // hex, of their Merkle tree
	Checkpoint string `json:"checkpoint"`
	Secrets    bool   `json:"secrets"` // keys and credentials are among the files
	Files      []File `json:"files"`
	Blobs      []Blob `json:"blobs"`
}

// File is a file of the ledger's directory.
type File struct {
	Path   string `json:"path"` // below that directory, with slashes
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Blob is a file of the blob store.
type Blob struct {
	SHA256 string `json:"sha256"` // its name
	Size   int64  `json:"size"`
}

// find is the file of a path.
func (m *Manifest) find(path string) (File, bool) {
	for _, f := range m.Files {
		if f.Path == path {
			return f, true
		}
	}
	return File{}, false
}

func (m *Manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	sum := sha256.Sum256(body)
	return append([]byte(manifestMagic+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// parseManifest reads exactly what encode writes. The digest is that in its
// first line.
func parseManifest(raw []byte) (m *Manifest, digest string, err error) {
	line, body, ok := strings.Cut(string(raw), "\n")
	digest, magic := strings.CutPrefix(line, manifestMagic)
	if !ok || !magic {
		return nil, "", fmt.Errorf("%w: it does not begin with %q", ErrManifest, manifestMagic)
	}
	if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) != digest {
		return nil, "", fmt.Errorf("%w: it does not hash to what its first line says", ErrManifest)
	}
	m = &Manifest{}
	if err := json.Unmarshal([]byte(body), m, json.RejectUnknownMembers(true)); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.validate(); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, digest, nil
}

func (m *Manifest) validate() error {
	cp, err := ledger.ParseCheckpoint([]byte(m.Checkpoint))
	if err != nil {
		return err
	}
	if cp.Origin != m.Origin || cp.Size != m.Size || cp.Root.String() != m.Root || m.Size == 0 {
		return errors.New("its checkpoint signs something else")
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		switch {
		case !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "." || strings.Contains(f.Path, `\`):
			return fmt.Errorf("%q is no path below a directory", f.Path)
		case seen[f.Path]:
			return fmt.Errorf("%s is listed twice", f.Path)
		case !isHash(f.SHA256) || f.Size < 0:
			return fmt.Errorf("%s has no hash or size", f.Path)
		}
		seen[f.Path] = true
	}
	for _, b := range m.Blobs {
		if !isHash(b.SHA256) || b.Size < 0 || seen[b.SHA256] {
			return fmt.Errorf("blob %q has no hash or size, or is listed twice", b.SHA256)
		}
		seen[b.SHA256] = true
	}
	return nil
}

func isHash(s string) bool {
	_, ok := blob.ParseRef(blob.Ref(s))
	return ok
}
