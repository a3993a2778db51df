package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeTour runs the README's tour as a newcomer would, in an empty folder.
func TestReadmeTour(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, ok := strings.Cut(string(readme), "## A tour\n\n```sh\n")
	if !ok {
		t.Fatal("the README has no tour")
	}
	tour, _, _ = strings.Cut(tour, "```")
	dir := t.TempDir()
	const build = "go build -o assay ./cmd/assay"
	if !strings.Contains(tour, build) {
		t.Fatalf("the tour does not build with %q", build)
	}
	tour = strings.Replace(tour, build, "go build -C "+root+" -o "+dir+"/assay ./cmd/assay", 1)
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", tour+"\nwait\n")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gate.chosen", "claim.recorded", ": consistent", "the same as the live views", "routing rate"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the tour does not show %q", want)
		}
	}
}
