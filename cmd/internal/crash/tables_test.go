package crash

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
	"assay/projector/ledgertest"
	"assay/projector/table/files"
)

// signedFile writes a ledger as a plain export, with its checkpoint and key, and
// returns the flags that name them.
func signedFile(t *testing.T, records int) []string {
	t.Helper()
	l := ledgertest.New()
	l.Mix(mrand.New(mrand.NewPCG(1, 2)), records)
	size, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	var tree ledger.Tree
	for seq := ledger.Seq(1); seq <= size; seq++ {
		plain.Write(l.Body(seq))
		plain.WriteByte('\n')
		tree.Append(ledger.Leaf(l.Body(seq)))
	}
	key, public, err := note.GenerateKey(rand.Reader, "test/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	cp, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: "test/log", Size: uint64(size), Root: tree.Root()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, body := range map[string][]byte{"plain": plain.Bytes(), "checkpoint": cp} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--file", filepath.Join(dir, "plain"), "--checkpoint", filepath.Join(dir, "checkpoint"), "--key", public}
}

// TestKilledExportLooksLikeNone: kill -9 at any moment leaves a whole export under
// the name, or nothing; what it leaves beside is in nobody's way.
func TestKilledExportLooksLikeNone(t *testing.T) {
	from := signedFile(t, 3000)
	for _, format := range []files.Format{files.JSONL, files.Parquet, files.SQLite} {
		t.Run(string(format), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x")
			export := func(out string) *exec.Cmd {
				return exec.Command(assay, append([]string{"--dir", filepath.Join(dir, "none"), "export", string(format), "--out", out}, from...)...)
			}
			whole := filepath.Join(dir, "whole")
			start := time.Now()
			if out, err := export(whole).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			took := time.Since(start)
			want := hashOf(t, whole)
			killed := 0
			for range 6 {
				cmd := export(path)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(mrand.Int64N(int64(took))))
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
					killed++
					continue
				}
				if got := hashOf(t, path); got != want {
					t.Fatal("half an export stands under its name")
				}
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			}
			if killed == 0 {
				t.Error("no kill came before the end")
			}
			if out, err := export(path).CombinedOutput(); err != nil {
				t.Fatalf("after the kills: %v\n%s", err, out)
			}
			if hashOf(t, path) != want {
				t.Error("after the kills the export is another")
			}
		})
	}
}

// hashOf hashes a file, or names and bytes of all files of a directory.
func hashOf(t *testing.T, path string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		sum := sha256.Sum256(raw)
		h.Write(append(sum[:], p[len(path):]...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}
