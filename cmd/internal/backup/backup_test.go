package backup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/projector/ledgertest"
)

// house is a ledger in memory with a key, blobs and a directory for a backup.
type house struct {
	t     *testing.T
	book  *ledgertest.Ledger
	key   note.Signer
	vkey  string
	blobs *blob.Store
	store string // its directory
	to    string
	named string // a blob
}

func newHouse(t *testing.T, records int) *house {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, book: ledgertest.New(), vkey: vkey, to: filepath.Join(t.TempDir(), "backup")}
	if h.key, err = note.NewSigner(skey); err != nil {
		t.Fatal(err)
	}
	h.store = t.TempDir()
	if h.blobs, err = blob.Open(h.store); err != nil {
		t.Fatal(err)
	}
	h.named = h.put("content")
	h.book.Put("logger/main", "production", &events.LedgerOpened{PublicKey: vkey})
	h.grow(records - 1)
	return h
}

func (h *house) put(content string) string {
	name, _, err := h.blobs.PutContent(strings.NewReader(content), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	return name
}

func (h *house) grow(n int) {
	for range n {
		h.book.Put("agent/piper", "production", &events.GateChosen{Action: "KNOW"})
	}
}

func (h *house) checkpoint() ledger.SignedCheckpoint {
	h.t.Helper()
	var tree ledger.Tree
	if err := h.book.Read(h.t.Context(), 1, math.MaxInt, func(_ ledger.Seq, body []byte) error {
		tree.Append(ledger.Leaf(body))
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	raw, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: h.key.Name(), Size: tree.Size(), Root: tree.Root()}, h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	cp, err := ledger.ParseCheckpoint(raw)
	if err != nil {
		h.t.Fatal(err)
	}
	return cp
}

func (h *house) config() Config {
	cp := h.checkpoint()
	return Config{
		To: h.to, Ledger: h.book, Checkpoint: cp, Blobs: h.blobs, Begin: func() error { return nil },
		Files: []Content{
			{"logger/key.pub", []byte(h.vkey + "\n")}, {"logger/checkpoint/latest", cp.Raw}, {"principals.json", []byte("{}\n")},
		},
	}
}

func (h *house) write() Written {
	h.t.Helper()
	w, err := Write(h.t.Context(), h.config())
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

func (h *house) check(c CheckConfig) (*Backup, Checked) {
	h.t.Helper()
	b, err := Open(h.to)
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := b.Check(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return b, found
}

func (h *house) whole(size uint64) {
	h.t.Helper()
	b, found := h.check(CheckConfig{Key: h.vkey})
	if len(found.Findings) > 0 || found.Audit.Size != size || b.Manifest.Size != size {
		h.t.Errorf("a backup of %d records: %v, audit of %d", b.Manifest.Size, found.Findings, found.Audit.Size)
	}
}

// Whatever file of a backup is changed or lost, the check says which.
func TestTamperedBackup(t *testing.T) {
	h := newHouse(t, 300)
	h.write()
	h.whole(300)
	n := 0
	err := filepath.WalkDir(h.to, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(p, lockName) {
			return err
		}
		n++
		name, err := filepath.Rel(h.to, p)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, at := range []int{0, len(raw) / 2, len(raw) - 1} {
			changed := append([]byte{}, raw...)
			changed[at] ^= 1
			if err := os.WriteFile(p, changed, 0o600); err != nil {
				return err
			}
			if got := h.findings(); !strings.Contains(got, name) {
				t.Errorf("byte %d of %s changed: %q", at, name, got)
			}
		}
		if err := os.Remove(p); err != nil {
			return err
		}
		if got := h.findings(); !strings.Contains(got, name) {
			t.Errorf("%s removed: %q", name, got)
		}
		return os.WriteFile(p, raw, 0o600)
	})
	if err != nil || n < 10 {
		t.Fatalf("%d files tried: %v", n, err)
	}
	h.whole(300)
}

func (h *house) findings() string {
	b, err := Open(h.to)
	if err != nil {
		return err.Error()
	}
	found, err := b.Check(h.t.Context(), CheckConfig{Key: h.vkey})
	if err != nil {
		return err.Error()
	}
	return strings.Join(found.Findings, "; ")
}

// A backup of somebody else's making is not trusted because it agrees with itself.
func TestRewrittenBackup(t *testing.T) {
	h, forger := newHouse(t, 5), newHouse(t, 5)
	forger.write()
	h.to = forger.to
	if got := h.findings(); got == "" {
		t.Error("a backup signed by another key was taken")
	}
	if got := forger.findings(); got != "" {
		t.Errorf("its own key: %s", got)
	}
	// Nor one that differs from a head that is known.
	known := newHouse(t, 5)
	_, found := forger.check(CheckConfig{Key: forger.vkey, Known: []ledger.SignedCheckpoint{known.checkpoint()}})
	if len(found.Findings) == 0 {
		t.Error("a backup with another root than a known checkpoint was taken")
	}
}

// cutSource ends its reads after some records, as a killed process would.
type cutSource struct {
	*ledgertest.Ledger
	after ledger.Seq
}

var errCut = errors.New("cut off")

func (s cutSource) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return s.Ledger.Read(ctx, from, to, func(seq ledger.Seq, body []byte) error {
		if seq > s.after {
			return errCut
		}
		return fn(seq, body)
	})
}

// A backup that is cut off at any step is none, or still the one before; the
// next run finishes it.
func TestInterruptedBackup(t *testing.T) {
	steps := map[string]func(*house, *Config){
		"before anything":       func(_ *house, c *Config) { c.Begin = func() error { return errCut } },
		"while records come":    func(h *house, c *Config) { c.Ledger = cutSource{h.book, 250} },
		"while blobs come":      func(h *house, c *Config) { h.blockDir(c, BlobsDir) },
		"while files come":      func(h *house, c *Config) { h.blockDir(c, filesDir) },
		"before the manifest":   func(h *house, c *Config) { c.Files = append(c.Files, Content{Path: "../x"}) },
		"before it is recorded": func(h *house, c *Config) { c.Files = append(c.Files, c.Files[0]) },
	}
	for name, cut := range steps {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, 260)
			c := h.config()
			cut(h, &c)
			if _, err := Write(t.Context(), c); err == nil {
				t.Fatal("nothing was cut off")
			}
			h.unblock()
			if _, err := Open(h.to); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an unfinished backup opens: %v", err)
			}
			h.write()
			h.whole(260)

			h.grow(300)
			h.put("more")
			c = h.config()
			cut(h, &c)
			if cutting, ok := c.Ledger.(cutSource); ok {
				cutting.after = 500
				c.Ledger = cutting
			}
			if _, err := Write(t.Context(), c); err == nil {
				t.Fatal("the update was not cut off")
			}
			h.unblock()
			h.whole(260)
			h.write()
			h.whole(560)
		})
	}
}

// blockDir puts a file where new entries of a store would be made.
func (h *house) blockDir(c *Config, dir string) {
	name := filepath.Join(h.to, dir)
	if err := os.MkdirAll(h.to, 0o700); err != nil {
		h.t.Fatal(err)
	}
	_ = os.Rename(name, name+".aside")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.to, unfinishedName), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) unblock() {
	for _, dir := range []string{BlobsDir, filesDir} {
		name := filepath.Join(h.to, dir)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			_ = os.Remove(name)
			_ = os.Rename(name+".aside", name)
		}
	}
}

func TestBlobsOfABackup(t *testing.T) {
	h := newHouse(t, 5)
	erased, damaged := h.put("erased"), h.put("damaged")
	h.write()
	if err := h.blobs.Remove(erased); err != nil {
		t.Fatal(err)
	}
	h.book.Put("operator/main", "production", &events.BlobErased{Ref: blob.Ref(erased), Reason: "subject_request"})
	fresh := h.put("damaged before it was ever backed up")
	for name, size := range map[string]int64{damaged: 3, fresh: 4} {
		if err := os.Truncate(filepath.Join(h.store, name[:2], name), size); err != nil {
			t.Fatal(err)
		}
	}
	w := h.write()
	if len(w.Corrupt) != 2 || w.Blobs != 2 || w.Copied != 0 {
		t.Errorf("%+v; want both damaged blobs named, and the one that the backup has kept", w)
	}
	b, found := h.check(CheckConfig{Key: h.vkey})
	if len(found.Findings) > 0 || !found.Erased[erased] || len(found.Erased) != 1 {
		t.Errorf("findings %v, erased %v", found.Findings, found.Erased)
	}
	if _, err := b.Blobs.Check(erased); err != nil {
		t.Errorf("the erased blob went without being asked for: %v", err)
	}
	if _, err := b.Blobs.Check(damaged); err != nil {
		t.Errorf("the backup's whole copy of a damaged blob: %v", err)
	}
	c := h.config()
	c.Prune = []string{erased, h.named}
	w, err := Write(t.Context(), c)
	if err != nil || w.Pruned != 1 {
		t.Errorf("pruned %d, %v; want the erased one, and never one that is there", w.Pruned, err)
	}
	h.whole(6)
}

func TestBackupRefuses(t *testing.T) {
	h := newHouse(t, 5)
	h.to = t.TempDir()
	if err := os.WriteFile(filepath.Join(h.to, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), h.config()); !errors.Is(err, ErrNotBackup) {
		t.Errorf("somebody else's directory: %v", err)
	}
	if there, err := os.ReadDir(h.to); err != nil || len(there) != 1 {
		t.Errorf("and left something there: %v, %v", there, err)
	}
	h.to = filepath.Join(t.TempDir(), "b")
	older := h.config()
	h.grow(2)
	h.write()
	if _, err := Write(t.Context(), older); err == nil {
		t.Error("an older ledger was written over a newer backup")
	}
	h.whole(7)
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"origin":"o","size":1,"root":"","checkpoint":"","secrets":false,"files":[{"path":"../x","sha256":"","size":0}],"blobs":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		m, _, err := parseManifest(append([]byte(manifestMagic+hex.EncodeToString(sum[:])+"\n"), body...))
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if !filepath.IsLocal(file.Path) {
				t.Errorf("a path that leads out: %q", file.Path)
			}
		}
	})
}

func TestManifestRefuses(t *testing.T) {
	h := newHouse(t, 3)
	h.write()
	raw, err := os.ReadFile(filepath.Join(h.to, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(raw), "\n")
	for name, r := range map[string][2]string{
		"a path that leads out": {`"principals.json"`, `"../principals.json"`},
		"an absolute path":      {`"principals.json"`, `"/principals.json"`},
		"a path twice":          {`"principals.json"`, `"logger/key.pub"`},
		"another size":          {`"size": 3`, `"size": 4`},
		"another origin":        {`"origin": "example.com/log"`, `"origin": "example.com/logs"`},
		"an unknown member":     {`"secrets"`, `"more": 1, "secrets"`},
	} {
		changed := strings.Replace(body, r[0], r[1], 1)
		if changed == body {
			t.Fatalf("%s: %s is not in the manifest", name, r[0])
		}
		sum := sha256.Sum256([]byte(changed))
		if _, _, err := parseManifest([]byte(manifestMagic + hex.EncodeToString(sum[:]) + "\n" + changed)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v, want ErrManifest", name, err)
		}
	}
}
