// Package kv is the small ordered key-value store under the views and the
// logger's index. It is the only package that imports Pebble.
//
// # Durability
//
// A Batch is applied whole or not at all, whatever crashes. When it survives
// is a choice made at Commit:
//
//	Commit(false)  in the write-ahead log's buffer: readers see it at once, a
//	               crash of the process or machine may lose it and everything
//	               committed after it, never only something before it
//	Commit(true)   in the write-ahead log and fsynced before Commit returns
//	Sync()         every batch committed before the call is fsynced when it
//	               returns; one Sync after many Commit(false) costs one fsync
//
// So a crash rewinds the store to a prefix of its commits. A caller that keeps
// its cursor in the same batch as the effects is rewound with them.
//
// # Failure
//
// Pebble's own answer to a failed write of its log is to end the process, and
// to a failed flush, to try again for ever. Here both make the store fail-stop:
// the failing call and every later write return an error that wraps ErrFailed
// and the cause, and Failed is closed. Nothing in this package ends the process.
package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

var (
	// ErrLocked means that another process, or this one, has the store open.
	ErrLocked = errors.New("store is open elsewhere")
	// ErrNotFound means that the key, or in a read-only Open the store, is absent.
	ErrNotFound = errors.New("not found")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrFailed means that a write failed and the store takes no more of them.
	ErrFailed = errors.New("store failed")
)

const (
	memTableSize     = 16 << 20
	defaultCache     = 32 << 20
	scratchTableSize = 16 << 20
	scratchCache     = 16 << 20
	closeAfterFail   = 5 * time.Second
	// flushRetryPause slows Pebble's retries of a failed flush or compaction,
	// which it repeats without any pause of its own.
	flushRetryPause = 50 * time.Millisecond
)

// Options are the settings of Open; the zero value works.
type Options struct {
	// Logger gets Pebble's errors; the zero value discards them.
	Logger zerolog.Logger
	// ReadOnly opens an existing store without writing to it. The lock is
	// taken all the same.
	ReadOnly bool
	// NoLog switches the write-ahead log off: for scratch stores that are
	// thrown away. Commit(true) and Sync then return an error.
	NoLog bool
	// WrittenMore is for a store that is written far more than it is read, and
	// where little is deleted: it is compacted less, and a read may look into four
	// times as many tables.
	WrittenMore bool
	// CacheBytes is the block cache's size; 0 means 32 MiB, or 16 without a log.
	CacheBytes int64

	// FS is the file system that the store is on; nil is the host's.
	FS FS
}

// FS is a file system for a store; package kvtest has one that crashes.
type FS = vfs.FS

// Reader is what both a DB and a Snapshot offer.
type Reader interface {
	// Get returns a copy of the key's value, or ErrNotFound.
	Get(key []byte) ([]byte, error)
	// Scan calls fn in key order for every key that starts with prefix and, if
	// after is not nil, sorts behind it. The slices are valid during the call
	// only. fn ends the scan with ErrStop, or with an error that Scan returns.
	Scan(prefix, after []byte, fn func(key, value []byte) error) error
}

// ErrStop ends a Scan early without an error.
var ErrStop = errors.New("stop")

// DB is an open store. Its methods may be called from several goroutines.
type DB struct {
	db    *pebble.DB
	fail  *failure
	noLog bool

	// users counts the operations that are inside Pebble, which panics when it
	// is used after Close. A reader's callback may start another operation, so
	// this cannot be a read-write lock.
	mu     sync.Mutex
	idle   sync.Cond // users fell to zero
	users  int
	closed bool
	open   map[*Snapshot]struct{}
	// write serialises the calls into Pebble's commit pipeline: a commit that
	// fails there leaves the pipeline's lock held, so that the next one must
	// be refused before it enters. Waiting for the fsync is outside of it.
	write sync.Mutex
}

// Open opens the store in dir, creating it unless ReadOnly is set. A store that
// is open already, here or in another process, gives ErrLocked.
func Open(dir string, o Options) (*DB, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.ReadOnly {
		if at, err := pebble.Peek(dir, o.FS); errors.Is(err, fs.ErrNotExist) || err == nil && !at.Exists {
			return nil, fmt.Errorf("open store %s: %w", dir, ErrNotFound)
		}
	}
	fail := newFailure(o.Logger)
	files := &failFS{FS: o.FS, fail: fail}
	db, err := openPebble(dir, pebbleOptions(o, files), files)
	switch {
	case err == nil:
		files.armed.Store(true)
		d := &DB{db: db, fail: fail, noLog: o.NoLog, open: map[*Snapshot]struct{}{}}
		d.idle.L = &d.mu
		if failed := d.Err(); failed != nil {
			return nil, fmt.Errorf("open store %s: %w", dir, errors.Join(failed, d.Close()))
		}
		return d, nil
	case isLocked(err):
		return nil, fmt.Errorf("open store %s: %w", dir, ErrLocked)
	}
	return nil, fmt.Errorf("open store %s: %w", dir, err)
}

// openPebble is pebble.Open that comes back: what fails to be flushed while the
// log is replayed, on a full disk say, Pebble tries again for ever. The store is
// then taken away from it, so that it can be opened again.
func openPebble(dir string, o *pebble.Options, files *failFS) (*pebble.DB, error) {
	fail := files.fail
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		defer o.Cache.Unref()
		db, err := pebble.Open(dir, o)
		done <- opened{db, err}
	}()
	select {
	case r := <-done:
		return r.db, r.err
	case <-fail.ch:
	}
	select {
	case r := <-done:
		return r.db, r.err
	case <-time.After(closeAfterFail):
		files.abandon()
		return nil, fail.err()
	}
}

func pebbleOptions(o Options, files *failFS) *pebble.Options {
	fail := files.fail
	switch {
	case o.CacheBytes != 0:
	case o.NoLog:
		o.CacheBytes = scratchCache
	default:
		o.CacheBytes = defaultCache
	}
	p := &pebble.Options{
		FS:                          files,
		Cache:                       pebble.NewCache(o.CacheBytes),
		Logger:                      fail,
		ReadOnly:                    o.ReadOnly,
		DisableWAL:                  o.NoLog,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		ErrorIfNotExists:            o.ReadOnly,
		EventListener: &pebble.EventListener{
			BackgroundError: fail.background,
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				fail.set(fmt.Errorf("corrupt store file %s: %w", i.Path, i.Details))
			},
		},
	}
	if o.WrittenMore {
		p.L0CompactionThreshold, p.L0StopWritesThreshold = 16, 48
		// They help to reclaim what is deleted, which is next to nothing. Pebble
		// collects them beside an Open, and panics when that fails meanwhile.
		p.DisableTableStats = true
	}
	if o.NoLog {
		// A scratch store is written once and read once: it is not worth
		// compressing, and compacting only so that a read does not search hundreds of
		// tables. Pebble counts tables in twos there.
		p.L0CompactionThreshold, p.L0CompactionFileThreshold, p.L0StopWritesThreshold = 128, 8192, 512
		p.Experimental.ReadSamplingMultiplier = -1
		p.MemTableSize, p.MemTableStopWritesThreshold = scratchTableSize, 3
	}
	for i := range p.Levels {
		if o.NoLog {
			p.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].FilterType = pebble.TableFilter
	}
	return p
}

// isLocked recognises a held directory lock: fcntl's answer for another
// process, Pebble's own table of locks for this one.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process")
}

// Failed is closed once a write has failed.
func (d *DB) Failed() <-chan struct{} { return d.fail.ch }

// Err is nil until a write has failed, then an error that wraps ErrFailed.
func (d *DB) Err() error { return d.fail.err() }

// enter guards an operation against Close; the caller must leave.
func (d *DB) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.users++
	return nil
}

func (d *DB) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.idle.Broadcast()
	}
}

// Get implements Reader.
func (d *DB) Get(key []byte) ([]byte, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	return get(d.db, key)
}

// Scan implements Reader over the state at the time of the call.
func (d *DB) Scan(prefix, after []byte, fn func(key, value []byte) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return scan(d.db, prefix, after, fn)
}

// LastKey returns a copy of the last key with the prefix, or ErrNotFound.
func (d *DB) LastKey(prefix []byte) (key []byte, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: PrefixEnd(prefix)})
	if err != nil {
		return nil, fmt.Errorf("last key: %w", err)
	}
	if it.Last() {
		key = bytes.Clone(it.Key())
	}
	if err := it.Close(); err != nil {
		return nil, fmt.Errorf("last key: %w", err)
	}
	if key == nil {
		return nil, ErrNotFound
	}
	return key, nil
}

// Sync makes every batch committed before the call durable.
func (d *DB) Sync() error {
	b := d.NewBatch()
	defer b.Close()
	if err := b.b.LogData(nil, nil); err != nil {
		return fmt.Errorf("sync store: %w", err)
	}
	return b.commit(true)
}

// Checkpoint writes a consistent copy of the store to dir, which must not
// exist: hard links where it can, every committed batch included and fsynced.
func (d *DB) Checkpoint(dir string) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if err := d.Err(); err != nil {
		return err
	}
	var opts []pebble.CheckpointOption
	if d.noLog {
		// Without a log only what was flushed is in a checkpoint.
		if err := d.db.Flush(); err != nil {
			return fmt.Errorf("checkpoint store: %w", err)
		}
	} else {
		opts = append(opts, pebble.WithFlushedWAL())
	}
	if err := d.db.Checkpoint(dir, opts...); err != nil {
		return fmt.Errorf("checkpoint store: %w", err)
	}
	// Pebble's fatal errors come back through its logger, not its result.
	return d.Err()
}

// Close releases the store, and snapshots that are still open: whoever reads one gets
// ErrClosed. A failed store is
// given a few seconds to let go; if it does not, Close reports that and the
// lock is kept until the process ends, so that nobody can write beside it.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	d.closed = true
	for d.users > 0 {
		d.idle.Wait()
	}
	open := d.open
	d.open = nil
	d.mu.Unlock()
	closeAll := func() error {
		var err error
		for s := range open {
			err = errors.Join(err, s.s.Close())
		}
		return errors.Join(err, d.db.Close())
	}
	if d.Err() == nil {
		if err := closeAll(); err != nil {
			return fmt.Errorf("close store: %w", err)
		}
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("close failed store: %v", p)
			}
		}()
		done <- closeAll()
	}()
	select {
	case <-done:
		return d.Err()
	case <-time.After(closeAfterFail):
		return fmt.Errorf("close failed store: still locked until this process ends: %w", d.Err())
	}
}

// Snapshot is a frozen view of the store; it must be closed, and ends with the store.
type Snapshot struct {
	d *DB
	s *pebble.Snapshot
}

// Snapshot freezes the state between two commits.
func (d *DB) Snapshot() (*Snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	s := &Snapshot{d: d, s: d.db.NewSnapshot()}
	d.open[s] = struct{}{}
	return s, nil
}

// Get implements Reader.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	if err := s.d.enter(); err != nil {
		return nil, err
	}
	defer s.d.leave()
	return get(s.s, key)
}

// Scan implements Reader.
func (s *Snapshot) Scan(prefix, after []byte, fn func(key, value []byte) error) error {
	if err := s.d.enter(); err != nil {
		return err
	}
	defer s.d.leave()
	return scan(s.s, prefix, after, fn)
}

// Close releases the snapshot.
func (s *Snapshot) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if _, open := s.d.open[s]; !open {
		return nil // the store's Close released it
	}
	delete(s.d.open, s)
	return s.s.Close()
}

func get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	defer closer.Close()
	return bytes.Clone(v), nil
}

func scan(r pebble.Reader, prefix, after []byte, fn func(key, value []byte) error) (err error) {
	lower := prefix
	if after != nil && bytes.Compare(after, prefix) >= 0 {
		lower = append(bytes.Clone(after), 0)
	}
	if len(lower) == 0 {
		lower = nil // Pebble's way to say unbounded
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: PrefixEnd(prefix)})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("scan: %w", cerr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		v, verr := it.ValueAndErr()
		if verr != nil {
			return fmt.Errorf("scan: %w", verr)
		}
		if ferr := fn(it.Key(), v); errors.Is(ferr, ErrStop) {
			return nil
		} else if ferr != nil {
			return ferr
		}
	}
	return nil
}

// PrefixEnd is the first key that sorts behind every key with the prefix; nil
// when there is none.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
