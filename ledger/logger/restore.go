package logger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/internal/durable"
	"assay/ledger"
)

// ErrRestoring means that a restore of the ledger was begun and not finished.
var ErrRestoring = errors.New("a restore is not finished: run `assay restore` again")

// Key is the file of the signing key.
func (f Files) Key() string { return f.path("key") }

// Lost is the directory of the checkpoints of records that a restore declared
// lost.
func (f Files) Lost() string { return filepath.Join(f.Checkpoints(), "lost") }

// Restoring is the file that stands while a restore is under way; the logger
// does not start on such a directory.
func (f Files) Restoring() string { return f.path("restoring") }

// CheckRestored is ErrRestoring while a restore is under way.
func (f Files) CheckRestored() error {
	_, err := os.Stat(f.Restoring())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, ErrRestoring)
}

// indexes are the index directories of every instance.
func (f Files) indexes() ([]string, error) { return filepath.Glob(f.index("") + "*") }

// KnownHead is the end of the ledger as the index that knows most has it; size 0
// when there is none. What it knows beyond the last checkpoint was acked, but
// not signed.
func KnownHead(f Files) (size uint64, root ledger.Hash, err error) {
	root = ledger.EmptyRoot
	dirs, err := f.indexes()
	for _, dir := range dirs {
		x, err := openIndex(dir, &Config{Log: zerolog.Nop()})
		if err != nil {
			return 0, root, fmt.Errorf("logger index: %w", err)
		}
		p, tree, err := x.head()
		if err = errors.Join(err, x.close()); err != nil {
			return 0, root, err
		}
		if uint64(p.seq) > size {
			size, root = uint64(p.seq), tree.Root()
		}
	}
	return size, root, err
}

// ForgetIndex removes every index: the next start makes its own again from
// record 1.
func ForgetIndex(f Files) error {
	dirs, err := f.indexes()
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(string(f))
}

// Loss is what a restore could not bring back.
type Loss struct {
	Size       uint64      // records that the backup held
	KnownSize  uint64      // records that there were
	KnownRoot  ledger.Hash // their Merkle root
	Checkpoint []byte      // signed note of that size; nil when only the index knew it
	AcceptedBy string
}

// Restored declares a loss: it appends ledger.restored behind the last restored
// record, and signs that. The stream and the checkpoints on file must be those
// of the backup. Called again after an interruption it goes on from there.
func Restored(ctx context.Context, cfg Config, loss Loss) error {
	l, err := alone(cfg)
	if err != nil {
		return err
	}
	return errors.Join(l.restored(ctx, loss), l.release())
}

func (l *Logger) restored(ctx context.Context, loss Loss) (err error) {
	if l.keys, err = LoadKeys(l.files); err != nil {
		return err
	}
	if l.index, err = openIndex(l.files.index(""), &l.cfg); err != nil {
		return err
	}
	l.w.init(l)
	if err := l.recover(ctx); err != nil {
		return err
	}
	switch size := l.w.tree.Size(); {
	case len(l.w.foreign) > 0:
		return errors.New("a foreign message in the backup waits for the operator's word, so that nothing can be appended")
	case size == loss.Size:
		err = l.declare(ctx, loss)
	case size == loss.Size+1:
		err = l.declared(ctx, loss)
	default:
		err = fmt.Errorf("%w: %d records, the backup held %d", ErrFork, size, loss.Size)
	}
	if err != nil {
		return err
	}
	return l.sign()
}

func (l *Logger) declare(ctx context.Context, loss Loss) error {
	component, capture := "assay restore", "live"
	own, err := l.w.encode(&events.LedgerRestored{
		Context: events.Context{Component: &component, Capture: &capture},
		Size:    loss.Size, KnownSize: loss.KnownSize, KnownRoot: loss.KnownRoot.String(),
		Checkpoint: string(loss.Checkpoint), AcceptedBy: loss.AcceptedBy,
	})
	if err != nil {
		return fmt.Errorf("ledger.restored: %w", err)
	}
	// Nothing goes before it; logger.started comes with the next start.
	l.w.readClock()
	b := &batch{first: l.w.tip.seq + 1}
	l.w.chain(b, Principal, Namespace, own.typ, own.raw)
	if err := l.w.settle(ctx, b, l.cfg.Stream.Append(ctx, b.first, b.msgs)); err != nil {
		return fmt.Errorf("append ledger.restored: %w", err)
	}
	return l.w.finish(b)
}

// declared finds the declaration of an attempt that was cut off behind it.
func (l *Logger) declared(ctx context.Context, loss Loss) error {
	body, err := l.cfg.Stream.Get(ctx, ledger.Seq(loss.Size+1))
	if err != nil {
		return err
	}
	r, err := ledger.ParseRecord(body)
	if err == nil {
		if was, ok := ledger.ParseLoss(&r); ok && was.Size == loss.Size && was.KnownSize == loss.KnownSize && was.KnownRoot == loss.KnownRoot.String() {
			return nil
		}
	}
	return fmt.Errorf("%w: record %d declares no such loss", ErrFork, loss.Size+1)
}
