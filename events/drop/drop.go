// Package drop is a directory in which short-lived processes leave finished
// events, any number of them at once, for one that delivers them. It holds no
// lock and keeps nothing open, so that leaving an event is one small file:
//
//	DIR/<nanoseconds since 1970, 20 digits>-<16 hex digits>.event
//
// Put returns after the fsync of the file and of its name; until then the file
// has another name. Whoever delivers takes them by name, that is, in the order
// in which they were left, and removes each once the ledger has answered for it.
// After a crash an event may be delivered again, which the ledger knows by its
// id.
//
// What went wrong where nobody could be told stands in DIR/errors.log, a line
// each, and in errors.log.old once that has grown.
package drop

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/durable"
)

var (
	// ErrTooLarge means an event of no byte or of more than MaxEvent.
	ErrTooLarge = errors.New("no event that a drop takes")
	// ErrFull means that the disk has too little room: nothing was taken.
	ErrFull = errors.New("too little room on the disk of the drop")
)

const (
	// MaxEvent is the largest event in bytes, that of the ledger.
	MaxEvent = 64_000
	// LeastRoom is how many bytes an event leaves free on the disk.
	LeastRoom = 64 << 20
	// maxLog is the size in bytes from which the log of errors is begun anew.
	maxLog = 64 << 10
)

const (
	suffix  = ".event"
	logName = "errors.log"
	oldName = logName + ".old"
)

// Dir is a drop, its owner's alone. It need not exist to be looked at.
type Dir string

// Put leaves an event. When it returns nil, the event survives a crash.
func (d Dir) Put(event []byte, now time.Time) error {
	if len(event) == 0 || len(event) > MaxEvent {
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(event), MaxEvent)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(string(d), &disk); err != nil {
		return &fs.PathError{Op: "statfs", Path: string(d), Err: err}
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < LeastRoom {
		return fmt.Errorf("%w: %d bytes free, want %d", ErrFull, free, LeastRoom)
	}
	var random [8]byte
	rand.Read(random[:])
	name := fmt.Sprintf("%020d-%s%s", now.UnixNano(), hex.EncodeToString(random[:]), suffix)
	return durable.CreateFile(filepath.Join(string(d), name), event, 0o600)
}

// Item is an event that waits.
type Item struct {
	path string
	// Event is its bytes. They are whatever stands in the file.
	Event []byte
}

// Waiting lists the events that wait, the oldest first, and reads at most so many.
// total counts them all. A file that is none of Put's, a link say, is an error.
func (d Dir) Waiting(most int) (items []Item, total int, err error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), suffix) })
	for _, e := range entries[:min(most, len(entries))] {
		item := Item{path: filepath.Join(string(d), e.Name())}
		if item.Event, err = read(item.path); err != nil {
			return items, len(entries), err
		}
		items = append(items, item)
	}
	return items, len(entries), err
}

// read follows no link and waits for no pipe.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.LimitReader(f, MaxEvent+1))
}

// Remove takes the event out: the ledger has answered for it.
func (i Item) Remove() error { return os.Remove(i.path) }

// Complain writes a line into the log of errors. It is for those who can tell
// nobody else, and has no error of its own.
func (d Dir) Complain(now time.Time, text string) {
	path := filepath.Join(string(d), logName)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		_ = os.Rename(path, filepath.Join(string(d), oldName))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if r := []rune(text); len(r) > 500 {
		text = string(r[:500])
	}
	fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), text) // one write: lines of several processes stay whole
}

// Complaints counts the lines in the log of errors and gives the last one, "" if
// there is none. Those of logs begun anew twice are not known any more.
func (d Dir) Complaints() (n int, last string) {
	for _, name := range []string{oldName, logName} {
		raw, err := os.ReadFile(filepath.Join(string(d), name))
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
		n, last = n+len(lines), string(lines[len(lines)-1])
	}
	return n, last
}
