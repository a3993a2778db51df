package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// Evidence is a ledger that can be read: the running service's stream, a
// scratch copy of a store that nobody serves, an external broker, an export, or
// a file of lines.
type Evidence interface {
	// Head is the number of the last stored message, 0 when there is none.
	Head(ctx context.Context) (ledger.Seq, error)
	// Read is stream.Stream.Read.
	Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error
	// Close releases it and removes scratch copies.
	Close() error
	// Origin says in words what is read.
	Origin() string
}

// EvidenceConfig says where to read.
type EvidenceConfig struct {
	Dir Dir
	// NATS and CredsDir name an external broker and the directory with the
	// credential service.read-operator.
	NATS, CredsDir string
	// Export is a directory that `assay export` wrote.
	Export string
	// File is a plain export: one record a line.
	File string
	// Scratch is where a copy is made; "" is the system's temporary directory.
	Scratch string
	// Copied, if set, is told how many bytes of how many are copied.
	Copied func(done, total int64)
	Log    zerolog.Logger
}

// OpenEvidence opens a ledger for reading. It never opens a store in place:
// the broker mends what it opens, and what it mends is evidence.
func OpenEvidence(ctx context.Context, c EvidenceConfig) (Evidence, error) {
	switch {
	case c.File != "":
		return openExport(c.File)
	case c.Export != "":
		return openTiles(c.Export)
	case c.NATS != "":
		if c.CredsDir == "" {
			c.CredsDir = c.Dir.Creds()
		}
		return openStream(RemoteHub(c.NATS, c.CredsDir), "the broker at "+c.NATS, nil)
	}
	if err := c.Dir.Check(); err != nil {
		return nil, err
	}
	hub, err := LocalHub(c.Dir)
	if err == nil {
		origin := "the running service of " + string(c.Dir)
		if hub.Cluster {
			origin = "the cluster of " + string(c.Dir)
		}
		var e Evidence
		if e, err = openStream(hub, origin, nil); err == nil {
			return e, nil
		}
		if hub.Cluster {
			return nil, err // what DIR itself may hold of a store is older
		}
	}
	e, cerr := openCopy(ctx, c)
	if errors.Is(cerr, broker.ErrLocked) {
		// A store that is written to while it is copied would look damaged.
		return nil, fmt.Errorf("a broker runs on %s but cannot be read from: %w", c.Dir, err)
	}
	return e, cerr
}

type streamEvidence struct {
	*stream.Stream
	origin string
	close  func() error
}

func openStream(hub *Hub, origin string, cleanup func() error) (Evidence, error) {
	s, nc, err := hub.OpenReader(principal.ReadOperator)
	if err != nil {
		return nil, err
	}
	return &streamEvidence{s, origin, func() error {
		nc.Close()
		if cleanup != nil {
			return cleanup()
		}
		return nil
	}}, nil
}

func (e *streamEvidence) Origin() string { return e.origin }
func (e *streamEvidence) Close() error   { return e.close() }

func (e *streamEvidence) Head(ctx context.Context) (ledger.Seq, error) {
	h, err := e.Stream.Head(ctx)
	if errors.Is(err, stream.ErrNoStream) {
		return 0, nil // an empty ledger; a checkpoint will say whether it may be
	}
	return h.Last, err
}

// openCopy copies the broker's store and serves the copy.
func openCopy(ctx context.Context, c EvidenceConfig) (Evidence, error) {
	scratch, err := os.MkdirTemp(c.Scratch, "assay-copy-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(scratch) }
	if err := c.Dir.whileIdle(func() error { return copyStore(ctx, c, scratch) }); err != nil {
		return nil, errors.Join(err, remove())
	}
	// What the broker mends in the copy is no news: the audit says what it finds.
	b, err := broker.Start(broker.Config{Dir: scratch, Log: c.Log.Level(max(c.Log.GetLevel(), zerolog.ErrorLevel))})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve a copy of the store: %w", err), remove())
	}
	cleanup := func() error { return errors.Join(stopBroker(b), remove()) }
	e, err := openStream(EmbeddedHub(b, Dir(scratch).Creds()), "a copy of the store of "+string(c.Dir), cleanup)
	if err != nil {
		return nil, errors.Join(err, cleanup())
	}
	return e, nil
}

// copyStore copies what a broker needs to serve LEDGER for reading.
func copyStore(ctx context.Context, c EvidenceConfig, scratch string) error {
	from, to := principal.Dir(c.Dir), principal.Dir(scratch)
	pairs := [][2]string{
		{from.Principals(), to.Principals()},
		{from.Services(), to.Services()},
		{from.Credential(principal.ReadOperator), to.Credential(principal.ReadOperator)},
	}
	root := filepath.Join(broker.Dir(c.Dir).Store(), "jetstream")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		pairs = append(pairs, [2]string{path, filepath.Join(broker.Dir(scratch).Store(), "jetstream", rel)})
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	total, err := c.Dir.storeBytes()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var done int64
	for _, p := range pairs {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := copyFile(p[0], p[1])
		if err != nil {
			return err
		}
		done += n
		if c.Copied != nil {
			c.Copied(min(done, total), total)
		}
	}
	return nil
}

func copyFile(from, to string) (int64, error) {
	src, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return 0, err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(dst, src)
	return n, errors.Join(err, dst.Close())
}

// exportEvidence is a file of record bodies, one a line, as `tail --raw`
// writes them. A record's position is its line number.
type exportEvidence struct{ path string }

func openExport(path string) (Evidence, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return exportEvidence{path}, nil
}

func (e exportEvidence) Origin() string { return e.path }
func (e exportEvidence) Close() error   { return nil }

func (e exportEvidence) Head(ctx context.Context) (n ledger.Seq, err error) {
	err = e.Read(ctx, 1, 0, func(seq ledger.Seq, _ []byte) error {
		n = seq
		return nil
	})
	return n, err
}

func (e exportEvidence) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	f, err := os.Open(e.path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	for seq := ledger.Seq(1); to == 0 || seq <= to; seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A line longer than the buffer is no record; its head is enough to
		// find that out.
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		body := bytes.Clone(bytes.TrimSuffix(line, []byte("\n")))
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if seq < from {
			continue
		}
		if err := fn(seq, body); err != nil {
			return err
		}
	}
	return nil
}
