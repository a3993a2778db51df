// Package fsck checks an export of a ledger from its files alone. It knows
// nothing of how exports are written: it shares only the hash, the record, the
// checkpoint, and the names and codec of the files.
//
// Everything is computed again from the entries: each leaf and with it every
// hash of every tile, the links between records, and the root that the
// checkpoint signs. Then the directory is searched for what does not belong
// there. Memory does not grow with the ledger.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/note"

	"assay/ledger"
	"assay/ledger/tiles"
)

// Config says what to check.
type Config struct {
	FS fs.FS // the export
	// Key is a note verifier key that was ever in force in the log: rotations
	// are followed through the entries. "" when there is none, and then the
	// answer is never better than unanchored.
	Key string
	// Heads are checkpoints that are trusted already, such as one that was
	// remembered: the export must go on from each.
	Heads []ledger.Checkpoint
	// Progress, if set, is told how many records are checked.
	Progress func(done, total uint64)
}

// Check checks an export. What it finds wrong is in the report; an error means
// that it could not read what it had to check.
func Check(ctx context.Context, cfg Config) (Report, error) {
	c := &check{cfg: cfg}
	c.report.Root = ledger.EmptyRoot.String()
	ok, err := c.readCheckpoint()
	if err != nil {
		return Report{}, err
	}
	if ok {
		if err := c.entries(ctx); err != nil {
			return Report{}, err
		}
	}
	if err := c.walk(ctx, ok); err != nil {
		return Report{}, err
	}
	c.report.conclude(c.sound())
	if c.report.Verdict == ledger.Unanchored {
		text := "internally consistent only: without a key, a whole rewrite would look the same"
		c.report.Finding = &text
	}
	return c.report, nil
}

type check struct {
	cfg    Config
	report Report
	cp     ledger.SignedCheckpoint
	levels []column
	hashes []byte // memory of the tile that is compared
}

// sound is the verdict when nothing was found.
func (c *check) sound() ledger.Verdict {
	switch {
	case c.cp.Size == 0:
		return ledger.NothingToVerify
	case c.cfg.Key == "":
		return ledger.Unanchored
	}
	return ledger.Consistent
}

// readCheckpoint says whether there is a checkpoint to hold the entries against.
// Its signature is checked when the entries have said which key had to sign.
func (c *check) readCheckpoint() (bool, error) {
	cp, err := tiles.ReadCheckpoint(c.cfg.FS)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there, err := fs.ReadDir(c.cfg.FS, ".")
		if err == nil && len(there) > 0 {
			c.badCheckpoint("there are files but no checkpoint")
		}
		return false, err
	case errors.Is(err, tiles.ErrFile), errors.Is(err, ledger.ErrBadCheckpoint):
		c.badCheckpoint(err.Error())
		return false, nil
	case err != nil:
		return false, err
	}
	c.cp, c.report.Origin, c.report.Size = cp, cp.Origin, cp.Size
	return true, nil
}

func (c *check) badCheckpoint(text string) {
	c.report.add(Finding{Kind: Checkpoint, File: tiles.CheckpointName, Text: text})
}

// checkSignature opens the checkpoint with the key that was in force at its
// size: the pinned one, or what the rotations in the ledger led to.
func (c *check) checkSignature(rotated []ledger.Key) error {
	if c.cfg.Key == "" {
		return nil
	}
	key := c.cfg.Key
	for _, k := range rotated {
		key = k.Verifier
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	if _, err := ledger.OpenCheckpoint(c.cp.Raw, v); err != nil {
		c.badCheckpoint(err.Error())
	}
	return nil
}

// problem turns the error of a read into a finding, or returns it if it says
// nothing about the export.
func (c *check) problem(t tiles.Tile, err error) error {
	f := about(Malformed, t, 0, "%v", err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Kind, f.Text = Missing, t.Path()+" is missing"
	case !errors.Is(err, tiles.ErrFile):
		return err
	}
	if t.Level == tiles.Entries {
		f.Last = ledger.Seq(t.First(t.Width))
	} else {
		f.Seq, f.Last = 0, 0 // no record is the worse for it
	}
	c.report.add(f)
	return nil
}

// walk looks at every file of the directory for those that do not belong there.
func (c *check) walk(ctx context.Context, known bool) error {
	unfinished, err := c.readUnfinished()
	if err != nil {
		return err
	}
	return fs.WalkDir(c.cfg.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() || c.report.hopeless() {
			return err
		}
		c.report.Files++
		if path == tiles.CheckpointName || path == tiles.UnfinishedName {
			return nil
		}
		t, err := tiles.ParsePath(path)
		switch {
		case err != nil:
			c.report.add(Finding{Kind: Extra, File: path, Text: fmt.Sprintf("%.200q is no file of an export", path)})
		case !known || t.In(c.cp.Size):
			// Without a checkpoint nothing says what belongs here; what it
			// commits to was checked.
		case t.Width < tiles.Width && t.N*tiles.Width+uint64(t.Width) <= tiles.Count(t.Level, c.cp.Size):
			return c.stale(t)
		case t.In(unfinished):
			c.report.Unchecked++
		default:
			c.report.add(Finding{Kind: Extra, File: path, Text: fmt.Sprintf("%s: no tree of %d records has such a file", path, c.cp.Size)})
		}
		return nil
	})
}

// readUnfinished is the size of an export that is under way, 0 without one.
func (c *check) readUnfinished() (uint64, error) {
	raw, err := tiles.ReadFile(c.cfg.FS, tiles.UnfinishedName, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil && !errors.Is(err, tiles.ErrFile) {
		return 0, err
	}
	var size uint64
	if err == nil {
		size, err = tiles.UnfinishedSize(raw)
	}
	if err != nil {
		c.report.add(Finding{Kind: Malformed, File: tiles.UnfinishedName, Text: err.Error()})
		return 0, nil
	}
	c.report.Unfinished = &size
	return size, nil
}
