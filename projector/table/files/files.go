// Package files writes tables to files that analysts' tools read: Parquet, JSON
// Lines, and an SQLite database.
//
// An export appears under its name when it is whole. It is written beside that
// name, as .NAME.<digits>/, synced, and then moved; what a crash leaves there
// is to be removed and nothing else. Nothing that exists is replaced.
//
// Parquet and JSON Lines are a directory with one file a table and, written
// last, assay_export.json (Manifest). SQLite is one file with the same in the
// tables assay_export, assay_tables and assay_columns; each Parquet file has it
// in its metadata besides, under the keys assay_export and assay_table.
//
// The same records give the same bytes in every format, with one build.
// The memory that an export takes does not grow with its rows.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/durable"
	"assay/ledger"
	"assay/projector"
	"assay/projector/table"
)

// Format is a kind of file.
type Format string

// The formats.
const (
	Parquet Format = "parquet"
	JSONL   Format = "jsonl"
	SQLite  Format = "sqlite"
)

// Version is the format of About and Manifest, and of the tables' names and
// those about them. The columns follow the views, whose versions About has.
const Version = 1

// ManifestFile is the file of an export's directory that says what is in it.
const ManifestFile = "assay_export.json"

// About says of what ledger an export is, and up to where.
type About struct {
	V        int    `json:"v"` // Version
	Software string `json:"software"`
	// Origin names the log; Checkpoint is its signed note over CheckpointSize
	// records, which the exported ones belong to.
	Origin         string `json:"origin"`
	Checkpoint     string `json:"checkpoint"`
	CheckpointSize uint64 `json:"checkpoint_size"`
	// From is the first record of the table events, To the last of all tables;
	// 0 where there is none.
	From ledger.Seq `json:"from"`
	To   ledger.Seq `json:"to"`
	Root string     `json:"root"` // hex Merkle root over records 1 to To
	// StateDigest is that of all views at To, as replay computes it, and Views
	// are their versions; null and none where only events were asked for.
	StateDigest *string             `json:"state_digest"`
	Views       []projector.Version `json:"views"`
}

// Written is a table in an export.
type Written struct {
	table.Table
	Rows int64 `json:"rows"`
	// File, Bytes and SHA256 (hex) are of the table's file; absent in SQLite.
	File   string `json:"file,omitzero"`
	Bytes  int64  `json:"bytes,omitzero"`
	SHA256 string `json:"sha256,omitzero"`
}

// Manifest is what an export says of itself.
type Manifest struct {
	About
	Tables []Written `json:"tables"`
}

// Export is one that is being written.
type Export struct {
	path, temp string
	writer     writer
	manifest   Manifest
}

// writer is a format.
type writer interface {
	// add begins a table; the one before it is closed.
	add(t *table.Table) (rows, error)
	// finish writes the manifest and closes everything.
	finish(m *Manifest) error
	// commit moves what was written to its name.
	commit(path string) error
	// abandon closes what is open.
	abandon()
}

// rows takes a table's rows; close says what was written, but for their number.
type rows interface {
	write(table.Row) error
	close() (Written, error)
}

// Create begins an export to path: fs.ErrExist where something is there.
// Commit or Discard must follow.
func Create(f Format, path string, about About) (*Export, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := isFree(path); err != nil {
		return nil, err
	}
	about.V = Version
	if about.Views == nil {
		about.Views = []projector.Version{}
	}
	e := &Export{path: path, manifest: Manifest{About: about, Tables: []Written{}}}
	if e.temp, err = os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"."); err != nil {
		return nil, err
	}
	switch f {
	case Parquet:
		e.writer, err = newDir(e.temp, newParquet(about))
	case JSONL:
		e.writer, err = newDir(e.temp, newJSONL)
	case SQLite:
		e.writer, err = newSQLite(e.temp)
	default:
		err = fmt.Errorf("unknown format %q", f)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.temp))
	}
	return e, nil
}

// isFree is fs.ErrExist where something has the name.
func isFree(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return &fs.PathError{Op: "export to", Path: path, Err: fs.ErrExist}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Table writes one table: scan calls its argument for every row. It returns the
// number of rows.
func (e *Export) Table(ctx context.Context, t *table.Table, scan func(fn func(table.Row) error) error) (int64, error) {
	w, err := e.writer.add(t)
	if err != nil {
		return 0, fmt.Errorf("table %s: %w", t.Name, err)
	}
	var n int64
	err = scan(func(r table.Row) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Check(r); err != nil {
			return err
		}
		n++
		return w.write(r)
	})
	written, cerr := w.close()
	if err := errors.Join(err, cerr); err != nil {
		return n, fmt.Errorf("table %s: %w", t.Name, err)
	}
	written.Table, written.Rows = *t, n
	e.manifest.Tables = append(e.manifest.Tables, written)
	return n, nil
}

// Commit makes the export durable and gives it its name: fs.ErrExist where
// something has that meanwhile.
func (e *Export) Commit() (Manifest, error) {
	err := e.writer.finish(&e.manifest)
	if err == nil {
		err = isFree(e.path) // a rename over a file fails with another error
	}
	if err == nil {
		err = e.writer.commit(e.path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(e.path))
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("export to %s: %w", e.path, err)
	}
	return e.manifest, nil
}

// Discard removes what is not committed.
func (e *Export) Discard() error {
	e.writer.abandon()
	return os.RemoveAll(e.temp)
}

// encode is how an export's own facts are written as JSON.
func encode(v any) (string, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	return string(raw), err
}

func encodeIndented(v any) ([]byte, error) {
	raw, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(raw, '\n'), err
}
