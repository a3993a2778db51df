// Package hooks is what runs when a client runs a hook: it reads the payload,
// leaves the event and ends. An agent waits for it, so it links little, opens no
// connection, prints nothing on stdout and always ends well: what goes wrong is
// written beside the events, for the operator.
package hooks

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/events"
	"assay/events/drop"
	"assay/events/hook"
)

// Config says whose hook runs, and where its events go.
type Config struct {
	Client hook.Client
	// Dir is assay's directory, which must exist.
	Dir string
	// As is the agent in whose name events are, such as agent/piper.
	As string
	// Now is the clock.
	Now func() time.Time
}

// maxPayload is the largest payload in bytes: it holds what a tool gave back.
const maxPayload = 64 << 20

// begunKept is how long a call that began is remembered without an end.
const begunKept = 7 * 24 * time.Hour

// patience is how long a hook takes at most: whatever keeps it, a client that never
// sends its payload or a disk that stands still, the agent goes on. It is
// shorter than what the client's file allows, so that the reason is written down.
const patience = 5 * time.Second

// IsAgent says whether a principal is an agent, as whom alone hooks write.
func IsAgent(id string) bool {
	name, ok := strings.CutPrefix(id, "agent/")
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return ok && len(name) > 0 && len(name) <= 32
}

// DefaultDir is $XDG_STATE_HOME/assay, or its default below the home directory.
func DefaultDir() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "assay"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory: %w", err)
	}
	return filepath.Join(home, ".local", "state", "assay"), nil
}

// DropOf is where the hooks of a principal leave its events.
func DropOf(dir, principal string) drop.Dir {
	return drop.Dir(filepath.Join(dir, "hooks", strings.Replace(principal, "/", ".", 1)))
}

// MakeDrop makes a drop of DropOf, with room for the calls that are under way. dir
// itself must exist. Where each service has its user, the drop was made by root
// (node.Permissions), and only that room is left to make.
func MakeDrop(dir string, to drop.Dir) error {
	for _, path := range []string{filepath.Join(dir, "hooks"), string(to), filepath.Join(string(to), "begun")} {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Main is the whole hook, of the command line CLIENT [--dir DIR] [--as AGENT]
// [PAYLOAD]. Without a payload, which Codex's notify gives as an argument, it
// reads stdin. It returns whatever happens.
func Main(args []string, stdin io.Reader, stderr io.Writer) {
	signal.Ignore(syscall.SIGPIPE) // of a client that closed stderr
	c, rest, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "usage: assay hook claude-code|codex [--dir DIR] [--as agent/NAME] [PAYLOAD]; without PAYLOAD it is read from stdin")
		return
	}
	if err == nil {
		err = within(patience, func() error { return c.hear(rest, stdin) })
	}
	if err != nil {
		if c.Dir != "" && IsAgent(c.As) {
			DropOf(c.Dir, c.As).Complain(time.Now(), err.Error())
		}
		fmt.Fprintln(stderr, "assay:", err)
	}
}

// parse reads the command line. With an error c is what could be read of it.
func parse(args []string) (c Config, rest []string, err error) {
	c.Now = time.Now
	flags := flag.NewFlagSet("assay hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.Dir, "dir", os.Getenv("ASSAY_DIR"), "")
	flags.StringVar(&c.As, "as", "agent/piper", "")
	if len(args) > 0 {
		c.Client = hook.Client(args[0])
	}
	err = flags.Parse(args[min(1, len(args)):])
	if c.Dir == "" {
		dir, dirErr := DefaultDir()
		c.Dir, err = dir, cmp.Or(err, dirErr)
	}
	return c, flags.Args(), err
}

// within does something that may not end, and that may panic: a broken hook must not
// break an agent.
func within(d time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- do()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("gave up after %v: the payload did not come, or the disk stands still", d)
	}
}

// hear reads the payload and records it.
func (c Config) hear(rest []string, stdin io.Reader) error {
	if len(rest) > 0 {
		return c.Record([]byte(rest[len(rest)-1]))
	}
	raw, err := hook.Next(stdin, maxPayload)
	if err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	return c.Record(raw)
}

// Record notes that a call begins, or leaves the event of one that ended.
func (c Config) Record(raw []byte) error {
	switch {
	case !hook.IsClient(string(c.Client)):
		return fmt.Errorf("no client %q; there are %v", c.Client, hook.Clients())
	case !IsAgent(c.As):
		return fmt.Errorf("hooks write as an agent, not as %q", c.As)
	}
	now := c.Now()
	r, err := hook.Read(c.Client, raw)
	if err != nil || r.Phase == hook.Other {
		return err
	}
	to := DropOf(c.Dir, c.As)
	begun := begun(filepath.Join(string(to), "begun"))
	err = c.note(begun, r, to, now)
	if errors.Is(err, fs.ErrNotExist) { // the first time
		if err = MakeDrop(c.Dir, to); err == nil {
			err = c.note(begun, r, to, now)
		}
	}
	return err
}

func (c Config) note(b begun, r *hook.Report, to drop.Dir, now time.Time) error {
	if r.Phase == hook.Before {
		return b.put(r, now)
	}
	started, forgot := b.take(r) // an event without its beginning is better than none
	e, err := r.Event(events.Maker{Now: func() time.Time { return now }}, c.As, started, now)
	if err != nil {
		return err
	}
	event, err := events.Encode(e)
	if err != nil {
		return err
	}
	if err := to.Put(event, now); err != nil {
		return err
	}
	if forgot != nil {
		return fmt.Errorf("when the call began is not known: %w", forgot)
	}
	return nil
}

// begun is the directory of the calls that are under way: an empty file each,
// whose time of modification is when it began. A call with an id has one name;
// of others alike each has its own, and the oldest is the first to end.
type begun string

func (b begun) put(r *hook.Report, now time.Time) error {
	name := r.Key()
	if !r.Exact() {
		var random [8]byte
		rand.Read(random[:])
		name += fmt.Sprintf("-%020d-%s", now.UnixNano(), hex.EncodeToString(random[:]))
	}
	path := filepath.Join(string(b), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := os.Chtimes(path, now, now); err != nil {
		return err
	}
	if strings.HasPrefix(name, "00") { // one call in 256: names are hashes
		b.sweep(now.Add(-begunKept))
	}
	return nil
}

// sweep forgets calls that began before a time and never ended: denied ones, say.
func (b begun) sweep(before time.Time) {
	entries, _ := os.ReadDir(string(b))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(string(b), e.Name()))
		}
	}
}

// take is when the call began, and forgets it; the zero time if nobody noted
// that, or with an error if that cannot be found out. Of two that take one beginning at once, one has it.
func (b begun) take(r *hook.Report) (time.Time, error) {
	names := []string{r.Key()}
	if !r.Exact() {
		entries, err := os.ReadDir(string(b))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return time.Time{}, err
		}
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), r.Key()+"-") })
		names = names[:0]
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		path := filepath.Join(string(b), name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil {
			return info.ModTime(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil
}
