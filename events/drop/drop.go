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
// id. What can never be delivered is set aside as NAME.refused, and keeps nothing
// behind it waiting.
//
// The directory's owner is whose events these are: a file of another user is
// nobody's event. Whoever delivers may be of the directory's group, and writes
// nothing into it.
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
	// ErrForeign means what is no file of the drop's owner.
	ErrForeign = errors.New("not of the drop's owner")
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
	refused = ".refused"
	logName = "errors.log"
	oldName = logName + ".old"
)

// Dir is a drop. It need not exist to be looked at; "" is none.
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
	return durable.CreateFile(filepath.Join(string(d), name), event, 0o640) // the group's that delivers
}

// Item is an event that waits.
type Item struct {
	path string
	// Event is its bytes. They are whatever stands in the file.
	Event []byte
	// Err says why the file is nobody's event. It is to be set aside.
	Err error
}

// Waiting lists the events that wait, the oldest first, at most so many.
func (d Dir) Waiting(most int) ([]Item, error) {
	entries, err := d.entries()
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	owner, err := d.Owner()
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, e := range entries {
		if len(items) == most {
			break
		}
		if !isEvent(e) {
			continue
		}
		path := filepath.Join(string(d), e.Name())
		event, err := read(path, owner, MaxEvent+1)
		switch {
		case errors.Is(err, fs.ErrNotExist): // taken away since
		case err == nil || errors.Is(err, ErrForeign) || errors.Is(err, fs.ErrPermission):
			items = append(items, Item{path, event, err})
		default: // of this moment, or of the disk
			return items, err
		}
	}
	return items, nil
}

// entries are those of the directory by name, none if it does not exist.
func (d Dir) entries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// isEvent says whether an entry may be one of Put's. A link or a pipe is none.
func isEvent(e fs.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasSuffix(e.Name(), suffix)
}

// Owner is the user whose drop it is, by its number.
func (d Dir) Owner() (uint32, error) {
	var st unix.Stat_t
	if err := unix.Lstat(string(d), &st); err != nil {
		return 0, &fs.PathError{Op: "lstat", Path: string(d), Err: err}
	}
	return st.Uid, nil
}

// read follows no link and waits for no pipe.
func read(path string, owner uint32, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &st); {
	case err != nil:
		return nil, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%w: %s is no file", ErrForeign, path)
	case st.Uid != owner:
		return nil, fmt.Errorf("%w: %s has uid %d, want %d", ErrForeign, path, st.Uid, owner)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// Remove takes the event out: the ledger has answered for it.
func (i Item) Remove() error { return gone(os.Remove(i.path)) }

// SetAside keeps what can never be delivered under another name, and gives that.
func (i Item) SetAside() (name string, err error) {
	to := strings.TrimSuffix(i.path, suffix) + refused
	return filepath.Base(to), gone(os.Rename(i.path, to))
}

// gone is nil where somebody was quicker.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Count is what a drop holds.
type Count struct {
	Waiting int // events to be delivered
	Refused int // set aside
	Strange int // named like an event, and no file
}

// Count counts what is in the drop.
func (d Dir) Count() (n Count, err error) {
	entries, err := d.entries()
	for _, e := range entries {
		switch {
		case isEvent(e):
			n.Waiting++
		case strings.HasSuffix(e.Name(), suffix):
			n.Strange++
		case strings.HasSuffix(e.Name(), refused):
			n.Refused++
		}
	}
	return n, err
}

// Sweep removes what a Put that was killed before a time left unfinished. Nobody was
// told that it was taken.
func (d Dir) Sweep(before time.Time) {
	entries, _ := d.entries()
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular() && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(string(d), e.Name()))
		}
	}
}

// Complain writes a line into the log of errors. It is for those who can tell
// nobody else, and has no error of its own.
func (d Dir) Complain(now time.Time, text string) {
	if d == "" {
		return
	}
	path := filepath.Join(string(d), logName)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		_ = os.Rename(path, filepath.Join(string(d), oldName))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o640)
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
// there is none. Those of logs begun anew twice are not known any more, and a
// log that is no file of the owner's has none.
func (d Dir) Complaints() (n int, last string) {
	owner, err := d.Owner()
	if err != nil {
		return 0, ""
	}
	for _, name := range []string{oldName, logName} {
		raw, err := read(filepath.Join(string(d), name), owner, 2*maxLog)
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
		n, last = n+len(lines), string(lines[len(lines)-1])
	}
	return n, last
}
