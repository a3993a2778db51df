package spool

import (
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// dirFS is a directory of the operating system.
type dirFS string

func (d dirFS) path(name string) string { return filepath.Join(string(d), name) }

func (d dirFS) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (d dirFS) ReadFile(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d dirFS) Create(name string) (File, error) {
	return os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d dirFS) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d dirFS) Remove(name string) error { return os.Remove(d.path(name)) }

func (d dirFS) Sync() error { return durable.SyncDir(string(d)) }
