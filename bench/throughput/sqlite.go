package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// errNoSQLite means that the comparison cannot be built here.
var errNoSQLite = errors.New("bench/sqlite does not build here")

// sqlite is the built comparison.
type sqlite struct{ program string }

// buildSQLite compiles bench/sqlite, which needs a C compiler and the root of
// the repository as the working directory or above it.
func buildSQLite(ctx context.Context, scratch string) (*sqlite, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	root := strings.TrimSpace(string(out))
	if err != nil || root == "" {
		return nil, fmt.Errorf("%w: the working directory is not in assay's module", errNoSQLite)
	}
	s := &sqlite{program: filepath.Join(scratch, "sqlite")}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.program, ".")
	cmd.Dir = filepath.Join(root, "bench", "sqlite")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", errNoSQLite, err, bytes.TrimSpace(text))
	}
	return s, nil
}

// insert stores the messages as rows in a new database.
func (s *sqlite) insert(ctx context.Context, scratch string, msgs []message) (sample, error) {
	dir, err := os.MkdirTemp(scratch, "sqlite-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "records")
	if err := writeLines(input, msgs); err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, s.program, "--input", input, "--db", filepath.Join(dir, "ledger.db"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("sqlite: %w", err)
	}
	var r struct {
		Rows   int   `json:"rows"`
		WallNS int64 `json:"wall_ns"`
		CPUNS  int64 `json:"cpu_ns"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return sample{}, fmt.Errorf("sqlite: %w", err)
	}
	if r.Rows != len(msgs) {
		return sample{}, fmt.Errorf("sqlite: %d rows of %d", r.Rows, len(msgs))
	}
	return sample{r.Rows, time.Duration(r.WallNS), time.Duration(r.CPUNS)}, nil
}

// writeLines writes one record a line.
func writeLines(path string, msgs []message) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, m := range msgs {
		w.Write(m.body)
		w.WriteByte('\n')
	}
	return errors.Join(w.Flush(), f.Close())
}
