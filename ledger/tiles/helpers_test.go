package tiles

import (
	"context"
	"io/fs"
	"os"
	"testing"
)

type ctx = context.Context

// listFiles lists the files below a directory.
func listFiles(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
