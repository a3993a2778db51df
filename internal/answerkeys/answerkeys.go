// Package answerkeys finds, for tests, answers that others wrote down. They
// stand beside the repository and are no part of it.
package answerkeys

import (
	"os"
	"path/filepath"
	"testing"
)

// Find is the path of a file of the answer keys; ok is false where it is not.
func Find(tb testing.TB, name string) (path string, ok bool) {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = up
	}
	path = filepath.Join(dir, "..", "shared", "keys", filepath.FromSlash(name))
	_, err = os.Stat(path)
	return path, err == nil
}

// Need is Find for a test that shows nothing without the file: it is skipped,
// and says so.
func Need(tb testing.TB, name string) (path string) {
	tb.Helper()
	path, ok := Find(tb, name)
	if !ok {
		tb.Skipf("SKIPPED: the answer keys have no %s here", name)
	}
	return path
}
