package logger

import (
	"context"
	"errors"
	"fmt"

	"assay/events"
	"assay/internal/durable"
	"assay/ledger"
	"assay/schema"
)

// sign signs the confirmed end, if the log grew and no foreign message waits for
// the operator's word. The index is fsynced first,
// so that start-up never finds a checkpoint beyond an index that the stream
// could not catch up.
func (l *Logger) sign() error {
	l.signing.Lock()
	defer l.signing.Unlock()
	l.mu.Lock()
	snap, before := l.snap, l.signed
	l.mu.Unlock()
	if snap.foreign || snap.tree == nil || snap.tree.Size() == before.Size || l.keys.inForce(l.files) != nil || !l.maySign() {
		return nil
	}
	if err := l.index.putSigned(snap.head, snap.tree, before.Size); err != nil {
		return fmt.Errorf("store signed position %d: %w", snap.head.seq, err)
	}
	cp := ledger.Checkpoint{Origin: l.keys.origin(), Size: snap.tree.Size(), Root: snap.tree.Root()}
	raw, err := ledger.SignCheckpoint(cp, l.keys.signer)
	if err != nil {
		return err
	}
	switch err := l.saveCheckpoint(cp, raw); {
	case errors.Is(err, errNotSaved):
		return nil
	case err != nil:
		return fmt.Errorf("store checkpoint of size %d: %w", cp.Size, err)
	}
	if err := l.index.putStored(cp.Size); err != nil {
		return fmt.Errorf("note the stored checkpoint: %w", err)
	}
	l.mu.Lock()
	l.signed, l.signedAt, l.signs = cp, l.cfg.Clock.Monotonic(), true
	l.mu.Unlock()
	l.cosign.offer(cp, raw, snap.tree)
	return nil
}

// Genesis opens a new ledger: record 1 is ledger.opened, which commits to the
// logger's key and to the hash of the offline recovery key, and the first
// checkpoint signs it. Calling it again after an interruption goes on from
// there; on an opened ledger it does nothing. Only init calls it.
func Genesis(ctx context.Context, cfg Config, recoveryKeySHA256 string) error {
	if _, err := LoadZone(cfg.WeekZone); err != nil {
		return err
	}
	l, err := alone(cfg)
	if err != nil {
		return err
	}
	return errors.Join(l.genesis(ctx, recoveryKeySHA256), l.release())
}

// alone is a logger for one act on a directory that no other logger uses.
func alone(cfg Config) (*Logger, error) {
	cfg = cfg.withDefaults()
	l := &Logger{cfg: cfg, files: Files(cfg.Dir), state: Starting, role: RoleActive}
	l.maker = events.Maker{Source: "urn:assay:logger", Now: cfg.Clock.Wall, NewID: cfg.NewID}
	lock, err := durable.TryLock(l.files.lock())
	if err != nil {
		return nil, fmt.Errorf("logger directory %s: %w", cfg.Dir, err)
	}
	l.lock = lock
	return l, nil
}

func (l *Logger) genesis(ctx context.Context, recoveryKeySHA256 string) (err error) {
	if l.keys, err = LoadKeys(l.files); err != nil {
		return err
	}
	if l.index, err = openIndex(l.files.index(""), &l.cfg); err != nil {
		return err
	}
	l.w.init(l)
	cps, err := LoadCheckpoints(l.files)
	if err != nil {
		return err
	}
	if len(cps) > 0 {
		// The attempt that wrote it may have failed at just this.
		return durable.SyncDir(l.files.Checkpoints())
	}
	head, err := l.cfg.Stream.Head(ctx)
	if err != nil {
		return err
	}
	switch head.Last {
	case 0:
		err = l.openLedger(ctx, recoveryKeySHA256)
	case 1:
		err = l.adoptOpening(ctx, recoveryKeySHA256)
	default:
		err = fmt.Errorf("%w: the stream holds %d records", ErrNoCheckpoint, head.Last)
	}
	if err != nil {
		return err
	}
	return l.sign()
}

func (l *Logger) openLedger(ctx context.Context, recoveryKeySHA256 string) error {
	l.w.started = true // no logger.started before there is a ledger
	l.w.own(&events.LedgerOpened{
		Context: ownContext(), Origin: l.keys.origin(), PublicKey: l.keys.Verifier(),
		RecoveryKeySHA256: recoveryKeySHA256, SchemaSHA256: schema.Digest(), Software: l.cfg.Software, WeekZone: optional(l.cfg.WeekZone),
	})
	b := l.w.build()
	if err := l.w.settle(ctx, b, l.cfg.Stream.Append(ctx, b.first, b.msgs)); err != nil {
		return fmt.Errorf("append ledger.opened: %w", err)
	}
	return l.w.finish(b)
}

// adoptOpening goes on after an interruption between record 1 and its
// checkpoint: record 1 must be this key's opening.
func (l *Logger) adoptOpening(ctx context.Context, recoveryKeySHA256 string) error {
	body, err := l.cfg.Stream.Get(ctx, 1)
	if err != nil {
		return err
	}
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return fmt.Errorf("record 1: %w", err)
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return fmt.Errorf("record 1: %w", err)
	}
	switch opened, ok := ev.Data.(*events.LedgerOpened); {
	case !ok || opened.PublicKey != l.keys.Verifier() || r.Seq != 1 || r.Prev != ledger.Hash{}:
		return fmt.Errorf("record 1 does not open a ledger of this key: %w", ErrFork)
	case l.cfg.WeekZone != "" && l.cfg.WeekZone != zoneOf(opened):
		return fmt.Errorf("%w: it is %s", ErrOtherZone, zoneOf(opened))
	case opened.RecoveryKeySHA256 != recoveryKeySHA256:
		return fmt.Errorf("record 1 commits to another recovery key than %s: %w", recoveryKeySHA256, ErrFork)
	}
	w := &l.w
	w.tree.Append(r.Leaf())
	w.head = position{1, r.Leaf(), r.RecordedAt, r.RecordedAt}
	w.tip = w.head
	kb := l.index.db.NewBatch()
	defer kb.Close()
	return w.commit(kb)
}
