package files

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"

	"assay/internal/durable"
	"assay/projector/table"
)

// rowWriter encodes a table's rows to a file.
type rowWriter interface {
	write(table.Row) error
	close() error // writes what is left; the file stays open
}

// newRowWriter begins a table's file; ext is how its name ends.
type newRowWriter func(w io.Writer, t *table.Table) (rw rowWriter, ext string, err error)

// dir is an export of one file a table.
type dir struct {
	path string
	new  newRowWriter
	open *dirFile // the table that is being written; nil between tables
}

func newDir(path string, fn newRowWriter) (writer, error) { return &dir{path: path, new: fn}, nil }

// dirFile is the file of one table.
type dirFile struct {
	rowWriter
	dir  *dir
	name string
	f    *os.File
	buf  *bufio.Writer
	sum  hash.Hash
	n    int64
}

// Write implements io.Writer: to the file, counted and hashed.
func (d *dirFile) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	d.sum.Write(p)
	return d.buf.Write(p)
}

func (d *dir) add(t *table.Table) (rows, error) {
	f, err := os.CreateTemp(d.path, "table-")
	if err != nil {
		return nil, err
	}
	file := &dirFile{dir: d, f: f, buf: bufio.NewWriterSize(f, 1<<16), sum: sha256.New()}
	d.open = file
	var ext string
	if file.rowWriter, ext, err = d.new(file, t); err != nil {
		return nil, err
	}
	file.name = t.Name + "." + ext
	return file, nil
}

// close implements rows.
func (d *dirFile) close() (Written, error) {
	err := d.rowWriter.close()
	if err == nil {
		err = d.buf.Flush()
	}
	if err == nil {
		err = d.f.Sync()
	}
	err = errors.Join(err, d.f.Close())
	d.dir.open = nil
	if err == nil {
		err = os.Rename(d.f.Name(), filepath.Join(d.dir.path, d.name))
	}
	return Written{File: d.name, Bytes: d.n, SHA256: hex.EncodeToString(d.sum.Sum(nil))}, err
}

func (d *dir) finish(m *Manifest) error {
	raw, err := encodeIndented(m)
	if err != nil {
		return err
	}
	return durable.CreateFile(filepath.Join(d.path, ManifestFile), raw, 0o600) // syncs the directory, too
}

func (d *dir) commit(path string) error { return os.Rename(d.path, path) }

func (d *dir) abandon() {
	if d.open != nil {
		_ = d.open.f.Close()
	}
}
