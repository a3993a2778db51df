// Package spool is a bounded queue on disk for the events of one principal that
// cannot be delivered now. What Append took survives a crash and is handed out
// in order, at least once: an event that was delivered and not yet marked so
// before a crash comes again, which the ledger answers with the first receipt.
//
// # Files
//
// DIR holds a file lock and segments, <number>.seg with the number in 16 hex
// digits. A segment is a header and entries; all integers are big-endian.
//
//	header  "assay spool 1\n", uint16 length of the principal, the principal
//	        (role/name), uint32 CRC-32C of all that
//	entry   uint32 length of the event (1 to MaxEvent), uint32 CRC-32C of those
//	        four bytes, uint32 CRC-32C of the event, the event
//
// A segment is written to until it has SegmentSize bytes or a write failed, and
// removed once each of its events was delivered. Every append ends with an
// fsync, and a new segment's name is durable before its first event counts.
//
// A crash may leave an entry without its end, which nobody was promised: it is
// named (Torn) and passed over. An entry that is whole and wrong is damage: the
// segment is kept beside the queue as <number>.damaged once the events that can
// be read are delivered.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"assay/internal/durable"
)

var (
	// ErrFull means that the queue has no room for an event: nothing was taken.
	ErrFull = errors.New("the spool is full")
	// ErrTooLarge means an event of no byte or of more than MaxEvent.
	ErrTooLarge = errors.New("no event that a spool takes")
	// ErrClosed means that the spool was closed.
	ErrClosed = errors.New("the spool is closed")
	// ErrCorrupt means that a segment has no valid header.
	ErrCorrupt = errors.New("corrupt spool segment")
	// ErrUnsupportedVersion means a segment of another version of the format.
	ErrUnsupportedVersion = errors.New("unsupported version of a spool segment")
	// ErrOtherPrincipal means a segment of somebody else's events.
	ErrOtherPrincipal = errors.New("the spool belongs to another principal")
)

const (
	// MaxEvent is the largest event in bytes.
	MaxEvent = 1 << 20
	// SegmentSize is the size in bytes from which a segment is not added to.
	// After a crash at most so much is delivered again.
	SegmentSize = 256 << 10
	// DefaultLimit is how many bytes a spool holds unless told otherwise.
	DefaultLimit = 64 << 20
)

// FS is the directory that the segments stand in. Names have no path.
type FS interface {
	List() ([]string, error)
	ReadFile(name string) ([]byte, error)
	// Create makes a file that must not exist.
	Create(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes the names durable.
	Sync() error
}

// File is a segment that is being written.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// Config says where and how much.
type Config struct {
	// Dir is the spool's directory, its principal's alone; it is made if absent.
	Dir string
	// Principal is role/name.
	Principal string
	// Limit is how many bytes the segments may have together; 0 is DefaultLimit.
	Limit int64
	// FS replaces the files of Dir; nil uses them.
	FS FS
}

// Torn is what Open could not read of a segment.
type Torn struct {
	Segment string
	Offset  int64 // where what can be told apart ends
	Bytes   int64 // from there to the end of the file
	Damaged bool  // not cut off but altered: the segment is kept
}

// Stats is what a spool holds.
type Stats struct {
	Events int   `json:"events"`
	Bytes  int64 `json:"bytes"` // of the segments
	Limit  int64 `json:"limit"`
}

// Spool is an open queue. Its methods may be called from several goroutines;
// Peek and Done are for one consumer.
type Spool struct {
	cfg  Config
	fs   FS
	lock *durable.Lock
	torn []Torn

	commit sync.Mutex // held by the one who writes

	mu       sync.Mutex
	segments []*segment // those with events not delivered, oldest first
	next     uint64     // number of the next segment
	bytes    int64      // of the segments, and of what is being appended
	events   int
	waiting  *group
	changed  chan struct{} // closed at every change
	closed   bool

	open    File // of the last segment while it can be added to; guarded by commit
	current *segment
}

type segment struct {
	name    string
	size    int64 // bytes that count: header and durable entries
	read    int64 // where the first event that is not delivered starts
	events  int   // not delivered
	open    bool  // may be added to
	damaged bool
}

// group is what shares one fsync.
type group struct {
	buf    []byte
	events int
	done   bool
	err    error
}

// Open opens the queue and counts what it holds: durable.ErrLocked if another
// process has it open.
func Open(cfg Config) (*Spool, error) {
	cfg.Limit = cmp.Or(cfg.Limit, DefaultLimit)
	s := &Spool{cfg: cfg, fs: cfg.FS, next: 1, waiting: &group{}, changed: make(chan struct{})}
	if s.fs == nil {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
		lock, err := durable.TryLock(filepath.Join(cfg.Dir, "lock"))
		if err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
		s.fs, s.lock = dirFS(cfg.Dir), lock
	}
	if err := s.recover(); err != nil {
		err = fmt.Errorf("open spool %s: %w", cfg.Dir, err)
		if s.lock != nil {
			err = errors.Join(err, s.lock.Unlock())
		}
		return nil, err
	}
	return s, nil
}

// SetLimit bounds the segments' bytes from now on; 0 is DefaultLimit. What is
// over it already stays and is delivered.
func (s *Spool) SetLimit(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Limit = cmp.Or(bytes, DefaultLimit)
}

const (
	suffix        = ".seg"
	damagedSuffix = ".damaged"
)

func (s *Spool) recover() error {
	names, err := s.fs.List()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		n, err := strconv.ParseUint(digits, 16, 64)
		if !ok || err != nil || segmentName(n) != name {
			continue
		}
		s.next = max(s.next, n+1)
		if err := s.adopt(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// adopt takes a segment over from an earlier process. It is not added to: its
// end may be torn.
func (s *Spool) adopt(name string) error {
	raw, err := s.fs.ReadFile(name)
	if err != nil {
		return err
	}
	start, err := decodeHeader(raw, s.cfg.Principal)
	if errors.Is(err, errCut) { // a crash before the first event
		s.torn = append(s.torn, Torn{Segment: name, Bytes: int64(len(raw))})
		return s.fs.Remove(name)
	}
	if err != nil {
		return err
	}
	g := &segment{name: name, read: int64(start)}
	end, err := decodeEntries(raw, start, func(event []byte) bool {
		if event == nil {
			g.damaged = true
			return true
		}
		g.events++
		return true
	})
	g.size = int64(end)
	g.damaged = g.damaged || errors.Is(err, errAltered)
	if err != nil || g.damaged {
		s.torn = append(s.torn, Torn{Segment: name, Offset: g.size, Bytes: int64(len(raw) - end), Damaged: g.damaged})
	}
	if g.events == 0 {
		return s.retire(g)
	}
	s.segments = append(s.segments, g)
	s.bytes += g.size
	s.events += g.events
	return nil
}

// retire takes a delivered segment out of the queue's files.
func (s *Spool) retire(g *segment) error {
	if g.damaged {
		return s.fs.Rename(g.name, strings.TrimSuffix(g.name, suffix)+damagedSuffix)
	}
	return s.fs.Remove(g.name)
}

// Torn lists what Open found behind the last whole entry of a segment.
func (s *Spool) Torn() []Torn { return slices.Clone(s.torn) }

// Append takes all of the events or none. When it returns nil, they survive a
// crash; callers that wait at the same time share an fsync. ErrFull and
// ErrTooLarge take nothing; after any other error the events may be delivered
// or not.
func (s *Spool) Append(events ...[]byte) error {
	size := 0
	for _, e := range events {
		if len(e) == 0 || len(e) > MaxEvent {
			return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(e), MaxEvent)
		}
		size += entrySize(e)
	}
	if len(events) == 0 {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.bytes+int64(size) > s.cfg.Limit {
		defer s.mu.Unlock()
		return fmt.Errorf("%w: %d of %d bytes, %d events wait", ErrFull, s.bytes, s.cfg.Limit, s.events)
	}
	s.bytes += int64(size)
	g := s.waiting
	for _, e := range events {
		g.buf = appendEntry(g.buf, e)
	}
	g.events += len(events)
	s.mu.Unlock()

	s.commit.Lock()
	defer s.commit.Unlock()
	if !g.done { // nobody wrote it while this waited: then it is the waiting one
		s.mu.Lock()
		s.waiting = &group{}
		s.mu.Unlock()
		g.err = s.write(g)
		g.done = true
	}
	return g.err
}

// write makes a group durable. The caller holds commit.
func (s *Spool) write(g *group) error {
	s.mu.Lock()
	if s.closed { // while this waited: the files may be another's by now
		s.bytes -= int64(len(g.buf))
		s.mu.Unlock()
		return ErrClosed
	}
	s.mu.Unlock()
	err := s.room()
	if err == nil {
		_, err = s.open.Write(g.buf)
	}
	if err == nil {
		err = s.open.Sync()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// What stands behind the durable entries is unknown, so nothing may be
		// written there. Recovery may find some of this group: nobody was told no.
		s.bytes -= int64(len(g.buf))
		s.shut()
		return fmt.Errorf("spool: %w", err)
	}
	s.current.size += int64(len(g.buf))
	s.current.events += g.events
	s.events += g.events
	if s.current.size >= SegmentSize {
		s.shut()
	}
	s.signal()
	return nil
}

// room sees to a segment that can be added to.
func (s *Spool) room() error {
	s.mu.Lock()
	usable := s.open != nil && s.current.open
	if !usable {
		s.shut()
	}
	name := segmentName(s.next)
	if !usable {
		s.next++
	}
	s.mu.Unlock()
	if usable {
		return nil
	}
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	header := appendHeader(nil, s.cfg.Principal)
	if _, err = f.Write(header); err == nil {
		err = s.fs.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = f
	s.current = &segment{name: name, size: int64(len(header)), read: int64(len(header)), open: true}
	s.segments = append(s.segments, s.current)
	s.bytes += s.current.size
	return nil
}

// shut ends the current segment. The caller holds commit and mu.
func (s *Spool) shut() {
	if s.open == nil {
		return
	}
	_ = s.open.Close() // what counts was synced
	s.open = nil
	s.current.open = false
	if s.current.events == 0 {
		s.drop(s.current)
	}
}

// drop forgets a segment. The caller holds mu.
func (s *Spool) drop(g *segment) {
	i := slices.Index(s.segments, g)
	if i < 0 {
		return
	}
	s.segments = slices.Delete(s.segments, i, i+1)
	s.bytes -= g.size
	// Left behind, it is delivered once more after the next start.
	_ = s.retire(g)
}

func (s *Spool) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Batch is the head of the queue.
type Batch struct {
	Events  [][]byte
	segment *segment
	end     int64
}

// Peek reads the oldest events, at most so many and at most max bytes but one
// at least. It waits for one until ctx ends, or ErrClosed.
func (s *Spool) Peek(ctx context.Context, events, max int) (Batch, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return Batch{}, ErrClosed
		}
		var head *segment
		if s.events > 0 {
			head = s.segments[slices.IndexFunc(s.segments, func(g *segment) bool { return g.events > 0 })]
		}
		changed := s.changed
		var from, to int64
		if head != nil {
			from, to = head.read, head.size
		}
		s.mu.Unlock()
		if head != nil {
			return s.read(head, from, to, events, max)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

func (s *Spool) read(g *segment, from, to int64, events, max int) (Batch, error) {
	raw, err := s.fs.ReadFile(g.name)
	if err != nil {
		return Batch{}, fmt.Errorf("read spool: %w", err)
	}
	if int64(len(raw)) < to {
		return Batch{}, fmt.Errorf("%w: %s has %d bytes, %d were written", ErrCorrupt, g.name, len(raw), to)
	}
	b := Batch{segment: g}
	size := 0
	altered := false
	end, err := decodeEntries(raw[:to], int(from), func(event []byte) bool {
		if event == nil {
			altered = true
			return true
		}
		if len(b.Events) > 0 && (len(b.Events) >= events || size+len(event) > max) {
			return false
		}
		size += len(event)
		b.Events = append(b.Events, event)
		return true
	})
	if err != nil || altered && !g.damaged {
		return Batch{}, fmt.Errorf("%w: %s changed since it was written", ErrCorrupt, g.name)
	}
	b.end = int64(end)
	return b, nil
}

// Done takes a batch out of the queue: its events were delivered, or refused
// for good.
func (s *Spool) Done(b Batch) {
	s.commit.Lock() // a segment that is being added to must not go
	defer s.commit.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := b.segment
	g.read = b.end
	g.events -= len(b.Events)
	s.events -= len(b.Events)
	if g.events == 0 {
		if g.open {
			s.shut()
		} else {
			s.drop(g)
		}
	}
	s.signal()
}

// Empty says whether every event was delivered.
func (s *Spool) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events == 0
}

// Drained waits until the queue is empty.
func (s *Spool) Drained(ctx context.Context) error {
	for {
		s.mu.Lock()
		empty, changed := s.events == 0, s.changed
		s.mu.Unlock()
		if empty {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stats is what the queue holds now.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Events: s.events, Bytes: s.bytes, Limit: s.cfg.Limit}
}

// Close ends every Peek; what is queued stays for the next Open.
func (s *Spool) Close() error {
	s.commit.Lock()
	defer s.commit.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.shut()
	s.signal()
	if s.lock == nil {
		return nil
	}
	return s.lock.Unlock()
}
