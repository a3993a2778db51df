package tiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"assay/ledger"
)

// maxCheckpoint is the size in bytes of the largest checkpoint, with room for
// the signatures of many witnesses.
const maxCheckpoint = 1 << 16

var (
	// ErrNewer means that the directory holds, or was to hold, an export of
	// more records than the checkpoint signs.
	ErrNewer = errors.New("the directory holds a newer export")
	// ErrOtherLog means that the directory holds an export of another log.
	ErrOtherLog = errors.New("the directory holds an export of another log")
	// ErrFork means that the export in the directory and the ledger have
	// different histories, though both are of this log.
	ErrFork = errors.New("the export and the ledger have different histories")
	// ErrNotExport means that the directory holds something else.
	ErrNotExport = errors.New("the directory is neither empty nor an export")
	// ErrDamaged means that the export in the directory is not whole.
	ErrDamaged = errors.New("the export is damaged")
	// ErrRoot means that the records of the ledger are not those that the
	// checkpoint signs.
	ErrRoot = errors.New("the ledger does not hold what the checkpoint signs")
	// ErrFile means that something in an export is no file of the wanted kind.
	ErrFile = errors.New("not a file of an export")
)

// Source is a ledger to export.
type Source interface {
	// Read calls fn for each stored message from from to to, in order. Bodies
	// belong to fn. An error of fn ends the read and is returned.
	Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error
}

// Config says what to export, and where to.
type Config struct {
	To     FS
	Source Source
	// Checkpoint is what is exported. Who signed it is for the caller to check;
	// that its root is the records' is not.
	Checkpoint ledger.SignedCheckpoint
	// Progress, if set, is told now and then how many records are exported.
	Progress func(done, total uint64)
}

// Exported is what an export did.
type Exported struct {
	Origin string `json:"origin"`
	Size   uint64 `json:"size"` // records that the checkpoint signs
	Root   string `json:"root"` // hex
	// Added records were not in the checkpoint that was there before.
	Added uint64 `json:"added"`
	// FilesWritten counts tiles, bundles and the checkpoint.
	FilesWritten int `json:"files_written"`
	// ResumedFrom is how many records were there already, those of an export
	// that was cut off included.
	ResumedFrom uint64 `json:"resumed_from"`
}

// step is how many records may have to be exported again after a crash.
const step = Width * Width

// Export writes records 1 to the checkpoint's size and their Merkle tree, or
// adds what is missing to the export that is there. Each record is checked as it
// passes by: its position at once, its link to the one before when the root
// says that something is wrong. Memory does not grow with the ledger.
//
// An export can be cut off at any write and is continued by the next:
//
//   - Full tiles and bundles are written once, before any checkpoint commits to
//     them. Files that the checkpoint in place commits to are never touched, so
//     that it stays a whole export until the new checkpoint replaces it.
//   - Single files are not synced. The file system is, before anything refers to
//     what was written: before the state in the file "unfinished" moves on and
//     before the new checkpoint is put in place. A crash in between leaves lost
//     or torn files only beyond the synced size, where the next export writes all
//     of them again. Both files are replaced atomically and durably.
//   - The state carries the root over what it says is synced. The next export
//     computes it again from the tiles and starts over from the checkpoint in
//     place if it differs.
//   - The state outlives the checkpoint's replacement until partial tiles whose
//     full tile has come are removed. Others stay, since somebody may hold the
//     checkpoint that they belong to.
//
// ErrNewer, ErrOtherLog, ErrFork, ErrNotExport and ErrDamaged say why the
// directory is refused, ErrRoot that the ledger is not what was signed.
func Export(ctx context.Context, cfg Config) (Exported, error) {
	return export(ctx, cfg, step)
}

func export(ctx context.Context, cfg Config, step uint64) (Exported, error) {
	cp := cfg.Checkpoint
	if cp.Size == 0 || cp.Size > ledger.MaxSize {
		return Exported{}, fmt.Errorf("a checkpoint of size %d cannot be exported", cp.Size)
	}
	w := &writer{cfg: cfg, cp: cp, step: step}
	err := w.open()
	if err != nil {
		return Exported{}, err
	}
	done := Exported{Origin: cp.Origin, Size: cp.Size, Root: cp.Root.String(), Added: cp.Size - w.old.Size, ResumedFrom: max(w.old.Size, w.tree.size)}
	if cp.Size > w.old.Size {
		err = w.grow(ctx)
	}
	if err == nil {
		err = w.finish()
	}
	done.FilesWritten = w.files
	return done, err
}

// writer is an export under way.
type writer struct {
	cfg  Config
	cp   ledger.SignedCheckpoint // what is exported
	step uint64

	// old is what is in place; size 0 when nothing is. Its signature adds
	// nothing: its root is held against its tiles and the ledger's records.
	old   ledger.SignedCheckpoint
	state *unfinished // as it is in the directory; nil when there is none

	tree   *frontier
	bundle []byte
	doubt  error // about the first record that is not linked as it should be
	files  int
}

// base is the size up to which the export in place has full bundles.
func (w *writer) base() uint64 { return w.old.Size - w.old.Size%Width }

// open reads what is in the directory and finds where to go on.
func (w *writer) open() error {
	if err := w.readCheckpoint(); err != nil {
		return err
	}
	if err := w.readState(); err != nil {
		return err
	}
	if w.old.Raw == nil && w.state == nil {
		if there, err := fs.ReadDir(w.cfg.To, "."); err != nil || len(there) > 0 {
			return errors.Join(ErrNotExport, err)
		}
	}
	switch {
	case w.old.Size > w.cp.Size:
		return fmt.Errorf("%w: %d records, the checkpoint signs %d", ErrNewer, w.old.Size, w.cp.Size)
	case w.old.Size == w.cp.Size && w.old.Root != w.cp.Root:
		return fmt.Errorf("%w: two checkpoints sign different roots of the first %d records", ErrFork, w.cp.Size)
	}
	if err := w.checkOld(); err != nil {
		return err
	}
	return w.resume()
}

func (w *writer) readCheckpoint() (err error) {
	raw, err := ReadFile(w.cfg.To, CheckpointName, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if w.old, err = ledger.ParseCheckpoint(raw); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if w.old.Origin != w.cp.Origin {
		return fmt.Errorf("%w: %.200q, not %q", ErrOtherLog, w.old.Origin, w.cp.Origin)
	}
	return nil
}

func (w *writer) readState() error {
	raw, err := ReadFile(w.cfg.To, UnfinishedName, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	u, err := parseUnfinished(raw)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrDamaged, UnfinishedName, err)
	case u.origin != w.cp.Origin:
		return fmt.Errorf("%w: %q, not %q", ErrOtherLog, u.origin, w.cp.Origin)
	case u.to > w.cp.Size:
		return fmt.Errorf("%w: one of %d records was begun, the checkpoint signs %d", ErrNewer, u.to, w.cp.Size)
	}
	w.state = &u
	return nil
}

// checkOld computes the root of the export in place from its tiles and leaves
// the frontier of its full bundles in w.tree.
func (w *writer) checkOld() (err error) {
	if w.tree, err = loadFrontier(w.cfg.To, w.base()); err != nil {
		return err
	}
	f := w.tree.clone()
	for _, t := range Partial(w.old.Size) {
		switch {
		case t.Level == Entries:
			continue // its records are compared with the ledger's by their hashes
		case t.Level > 0:
			// What no full tile of the level below says, only this file does.
			hashes, err := readTile(w.cfg.To, t)
			if err == nil && !bytes.Equal(hashes, w.tree.pending[t.Level]) {
				err = fmt.Errorf("%w: %s is not what the tiles below it hash to", ErrDamaged, t.Path())
			}
			if err != nil {
				return err
			}
		default:
			hashes, err := readTile(w.cfg.To, t)
			if err != nil {
				return err
			}
			for ; len(hashes) > 0; hashes = hashes[tlog.HashSize:] {
				if err := f.add(ledger.Hash(hashes[:tlog.HashSize]), noTile); err != nil {
					return err
				}
			}
		}
	}
	if w.old.Size > 0 && f.root() != w.old.Root {
		return fmt.Errorf("%w: its tiles hash to %s, its checkpoint signs %s", ErrDamaged, f.root(), w.old.Root)
	}
	return nil
}

func noTile(Tile, []byte) error { return nil }

// resume goes on where an export was cut off, if what it says is synced is
// there.
func (w *writer) resume() error {
	u := w.state
	if u == nil || u.to == w.old.Size {
		return nil // only the removal of old partial tiles may be left
	}
	if u.from == w.old.Size && u.at > w.base() {
		if f, err := loadFrontier(w.cfg.To, u.at); err == nil && f.root() == u.root {
			w.tree = f
		}
	}
	// Its partial tiles, whole or not, are not those of the tree to come.
	stale := false
	for _, t := range Partial(u.to) {
		if !t.In(w.old.Size) {
			stale = true
			if err := w.cfg.To.RemoveAll(t.Path()); err != nil {
				return err
			}
		}
	}
	if !stale {
		return nil
	}
	return w.cfg.To.Sync()
}

// grow exports the records that are not there yet, up to partial tiles.
func (w *writer) grow(ctx context.Context) error {
	if w.state != nil && w.state.to == w.old.Size {
		if err := w.prune(w.state.from, w.old.Size); err != nil {
			return err
		}
	}
	if err := w.mark(); err != nil {
		return err
	}
	from := w.tree.size + 1
	err := w.cfg.Source.Read(ctx, ledger.Seq(from), ledger.Seq(w.cp.Size), w.add)
	switch {
	case err != nil:
	case w.tree.size < w.cp.Size:
		err = fmt.Errorf("%w: it ends at record %d, %d are signed", ErrRoot, w.tree.size, w.cp.Size)
	case w.tree.root() != w.cp.Root:
		err = fmt.Errorf("%w: records 1 to %d hash to %s, not to %s", ErrRoot, w.cp.Size, w.tree.root(), w.cp.Root)
		if w.doubt != nil {
			err = fmt.Errorf("%w: %w", err, w.doubt)
		}
	}
	if errors.Is(err, ErrRoot) || errors.Is(err, ErrFork) {
		// What was exported so far may be what is wrong.
		return errors.Join(err, w.forget())
	}
	return err
}

// mark records that everything up to the frontier is synced.
func (w *writer) mark() error {
	u := unfinished{origin: w.cp.Origin, from: w.old.Size, to: w.cp.Size, at: w.tree.size, root: w.tree.root()}
	if w.state != nil && *w.state == u {
		return nil
	}
	if err := w.cfg.To.Replace(UnfinishedName, u.encode()); err != nil {
		return fmt.Errorf("note that %d records are synced: %w", u.at, err)
	}
	w.state = &u
	return nil
}

// forget makes the next export start over from the checkpoint in place.
func (w *writer) forget() error {
	f, err := loadFrontier(w.cfg.To, w.base())
	if err != nil {
		return err
	}
	w.tree = f
	return w.mark()
}

// add takes the next record.
func (w *writer) add(seq ledger.Seq, body []byte) (err error) {
	if want := ledger.Seq(w.tree.size) + 1; seq != want {
		return fmt.Errorf("%w: record %d is missing, %d follows %d", ErrRoot, want, seq, want-1)
	}
	w.checkLink(seq, body)
	if w.bundle, err = AppendEntry(w.bundle, body); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	if err := w.tree.add(ledger.Leaf(body), w.writeFull); err != nil {
		return err
	}
	if size := w.tree.size; size == w.old.Size && w.tree.root() != w.old.Root {
		err := fmt.Errorf("%w: records 1 to %d of the ledger hash to %s, the export's checkpoint signs %s", ErrFork, size, w.tree.root(), w.old.Root)
		if w.doubt != nil {
			err = fmt.Errorf("%w: %w", err, w.doubt)
		}
		return err
	}
	if w.tree.size%w.step != 0 {
		return nil
	}
	if w.cfg.Progress != nil {
		w.cfg.Progress(w.tree.size, w.cp.Size)
	}
	if w.tree.size <= w.old.Size {
		return nil
	}
	if err := w.cfg.To.Sync(); err != nil {
		return err
	}
	return w.mark()
}

// checkLink notes the first record that is not linked to the one before. That
// alone is no error: the logger chains over a message that somebody else wrote
// to the stream, and the root says whether it signed it.
func (w *writer) checkLink(seq ledger.Seq, body []byte) {
	if w.doubt != nil {
		return
	}
	r, err := ledger.ParseRecord(body)
	switch {
	case err != nil:
		w.doubt = fmt.Errorf("record %d: %w", seq, err)
	case r.Seq != seq:
		w.doubt = fmt.Errorf("the record at position %d says seq %d", seq, r.Seq)
	case r.Prev != w.tree.last:
		w.doubt = fmt.Errorf("record %d does not name the hash of record %d", seq, seq-1)
	}
}

// writeFull writes a tile of hashes that is full, and with a level 0 tile its bundle.
func (w *writer) writeFull(t Tile, hashes []byte) error {
	if t.Level == 0 {
		if err := w.write(Tile{Level: Entries, N: t.N, Width: Width}, w.bundle); err != nil {
			return err
		}
		w.bundle = w.bundle[:0]
	}
	return w.write(t, hashes)
}

func (w *writer) write(t Tile, data []byte) error {
	if err := w.cfg.To.WriteFile(t.Path(), data); err != nil {
		return fmt.Errorf("write %s: %w", t.Path(), err)
	}
	w.files++
	return nil
}

// finish writes the partial tiles and puts the checkpoint in place. On an export
// that is complete it does what was left undone.
func (w *writer) finish() error {
	if w.cp.Size > w.old.Size {
		for _, t := range Partial(w.cp.Size) {
			if t.In(w.old.Size) {
				continue // checked, and the checkpoint in place needs it
			}
			data := w.bundle
			if t.Level != Entries {
				data = w.tree.pending[t.Level]
			}
			if err := w.write(t, data); err != nil {
				return err
			}
		}
		if err := w.cfg.To.Sync(); err != nil {
			return err
		}
	}
	if !bytes.Equal(w.old.Raw, w.cp.Raw) {
		if err := w.cfg.To.Replace(CheckpointName, w.cp.Raw); err != nil {
			return fmt.Errorf("put the checkpoint in place: %w", err)
		}
		w.files++
	}
	if w.cfg.Progress != nil {
		w.cfg.Progress(w.cp.Size, w.cp.Size)
	}
	if w.state == nil {
		return nil
	}
	if err := w.prune(w.state.from, w.cp.Size); err != nil {
		return err
	}
	return w.cfg.To.RemoveAll(UnfinishedName)
}

// prune removes partial tiles of the tree of size from whose full tile the tree
// of size to has. Those of smaller trees were removed when that one came.
func (w *writer) prune(from, to uint64) error {
	for _, t := range Partial(from) {
		if t.N < Count(t.Level, to)/Width {
			if err := w.cfg.To.RemoveAll(t.Partials()); err != nil {
				return err
			}
		}
	}
	return nil
}
