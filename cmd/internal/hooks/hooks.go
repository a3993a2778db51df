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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

var agent = regexp.MustCompile(`^agent/[a-z][a-z0-9_-]{0,31}$`)

// IsAgent says whether a principal is an agent, as whom alone hooks write.
func IsAgent(id string) bool { return agent.MatchString(id) }

// DefaultDir is $XDG_STATE_HOME/assay, or its default below the home directory.
func DefaultDir() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "assay"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no --dir given and no home directory: %w", err)
	}
	return filepath.Join(home, ".local", "state", "assay"), nil
}

// DropOf is where the hooks of a principal leave its events.
func DropOf(dir, principal string) drop.Dir {
	return drop.Dir(filepath.Join(dir, "hooks", strings.Replace(principal, "/", ".", 1)))
}

// MakeDrop makes a drop of DropOf, with room for the calls that are under way. dir
// itself must exist.
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
	c := Config{Now: time.Now}
	var on drop.Dir // none while it is not known whose
	fail := func(err any) {
		if on != "" {
			on.Complain(time.Now(), fmt.Sprint(err))
		}
		fmt.Fprintln(stderr, "assay:", err)
	}
	defer func() {
		if p := recover(); p != nil { // a broken hook must not break an agent
			fail(p)
		}
	}()
	flags := flag.NewFlagSet("assay hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.Dir, "dir", os.Getenv("ASSAY_DIR"), "")
	flags.StringVar(&c.As, "as", "agent/piper", "")
	if len(args) > 0 {
		c.Client = hook.Client(args[0])
	}
	err := flags.Parse(args[min(1, len(args)):])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "usage: assay hook claude-code|codex [--dir DIR] [--as agent/NAME] [PAYLOAD]; without PAYLOAD it is read from stdin")
		return
	}
	if c.Dir == "" {
		dir, dirErr := DefaultDir()
		c.Dir, err = dir, cmp.Or(err, dirErr)
	}
	if IsAgent(c.As) {
		on = DropOf(c.Dir, c.As)
	}
	if err == nil {
		err = c.hear(flags.Args(), stdin)
	}
	if err != nil {
		fail(err)
	}
}

// hear reads the payload and records it.
func (c Config) hear(rest []string, stdin io.Reader) error {
	var raw []byte
	if len(rest) > 0 {
		raw = []byte(rest[len(rest)-1])
	} else {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(stdin, maxPayload+1)); err != nil {
			return fmt.Errorf("read the payload: %w", err)
		}
	}
	if len(raw) > maxPayload {
		return fmt.Errorf("a payload of more than %d bytes is not read", maxPayload)
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
	started, err := b.take(r)
	if err != nil {
		return err
	}
	e, err := r.Event(events.Maker{Now: func() time.Time { return now }}, c.As, started, now)
	if err != nil {
		return err
	}
	event, err := events.Encode(e)
	if err != nil {
		return err
	}
	return to.Put(event, now)
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
	return os.Chtimes(path, now, now)
}

// take is when the call began, and forgets it; the zero time if nobody noted
// that. Of two that take one beginning at once, one has it.
func (b begun) take(r *hook.Report) (time.Time, error) {
	names := []string{r.Key()}
	if !r.Exact() {
		entries, err := os.ReadDir(string(b))
		if err != nil {
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
