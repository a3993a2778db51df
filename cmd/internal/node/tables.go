package node

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rs/zerolog"

	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
	"assay/projector/table"
	"assay/projector/table/files"
	"assay/projector/view"
)

// TablesConfig says what ExportTables writes.
type TablesConfig struct {
	Format files.Format
	Path   string
	Kinds  []string // of table.Kinds
	// From and To are files.About's, no more than the checkpoint's size.
	From, To   ledger.Seq
	Checkpoint ledger.SignedCheckpoint
	Software   string
	// Progress, if set, is told how many messages of how many were read.
	Progress func(done, total uint64)
	Log      zerolog.Logger
}

// ExportTables writes events and views as they stand at c.To. The views are
// folded from record 1 in a scratch store; then the messages are read again and
// written. Nothing is committed unless both readings have the Merkle root of
// the checkpoint: ErrOtherRecords.
func ExportTables(ctx context.Context, e Evidence, c TablesConfig) (files.Manifest, error) {
	x := &tableExport{TablesConfig: c, source: e, kinds: slices.Clone(c.Kinds)}
	slices.SortFunc(x.kinds, func(a, b string) int { return slices.Index(table.Kinds(), a) - slices.Index(table.Kinds(), b) })
	x.kinds = slices.Compact(x.kinds)
	defer x.discard()
	if c.To == 0 {
		return x.empty(ctx)
	}
	if slices.ContainsFunc(x.kinds, isView) {
		x.projections = view.All()
	}
	err := projector.Fold(ctx, projector.ReplayConfig{
		Source: e, Projections: x.projections, To: c.To, Logger: c.Log,
		Progress: func(s projector.Status) { x.show(uint64(s.Seq)) },
		Inspect:  func(s *projector.State) error { return x.write(ctx, s) },
	})
	if err != nil {
		return files.Manifest{}, err
	}
	return x.out.Commit()
}

func isView(kind string) bool { return kind != table.Events && kind != table.Foreign }

// tableExport is one run of ExportTables.
type tableExport struct {
	TablesConfig
	source      Evidence
	kinds       []string // in the order of table.Kinds, each once
	projections []projector.Projection
	about       files.About
	out         *files.Export // nil before the first table
}

func (x *tableExport) discard() {
	if x.out != nil {
		_ = x.out.Discard() // after a commit there is nothing
	}
}

// readsAgain says that the messages are read a second time: for the events, or
// for the records behind To that the checkpoint signs as well.
func (x *tableExport) readsAgain() bool {
	return slices.Contains(x.kinds, table.Events) || uint64(x.To) < x.Checkpoint.Size
}

func (x *tableExport) show(done uint64) {
	if x.Progress == nil {
		return
	}
	total := uint64(x.To)
	if x.readsAgain() {
		total += x.Checkpoint.Size
	}
	x.Progress(done, total)
}

// empty writes the tables of no records at all.
func (x *tableExport) empty(ctx context.Context) (files.Manifest, error) {
	var none ledger.Tree
	if err := x.create(none.Root()); err != nil {
		return files.Manifest{}, err
	}
	for _, kind := range x.kinds {
		if err := x.table(ctx, kind, func(func(table.Row) error) error { return nil }); err != nil {
			return files.Manifest{}, err
		}
	}
	return x.out.Commit()
}

func (x *tableExport) table(ctx context.Context, kind string, scan func(func(table.Row) error) error) error {
	t, err := table.Of(kind)
	if err != nil {
		return err
	}
	_, err = x.out.Table(ctx, t, scan)
	return err
}

// write writes every table from the views at To.
func (x *tableExport) write(ctx context.Context, s *projector.State) error {
	root, err := s.Root()
	if err != nil {
		return err
	}
	if uint64(x.To) == x.Checkpoint.Size && root != x.Checkpoint.Root {
		return fmt.Errorf("%w: root %s over %d records, signed is %s", ErrOtherRecords, root, x.To, x.Checkpoint.Root)
	}
	if len(x.projections) > 0 {
		d, err := s.Digest()
		if err != nil {
			return err
		}
		x.about.StateDigest, x.about.Views = &d.SHA256, d.Versions
	}
	if err := x.create(root); err != nil {
		return err
	}
	if x.readsAgain() {
		if err := x.readAgain(ctx, s, root); err != nil {
			return err
		}
	}
	for _, kind := range x.kinds {
		switch {
		case kind == table.Foreign:
			err = x.table(ctx, kind, func(fn func(table.Row) error) error { return table.ScanForeign(s, fn) })
		case isView(kind):
			err = x.table(ctx, kind, func(fn func(table.Row) error) error { return table.ScanView(s, kind, fn) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *tableExport) create(root ledger.Hash) error {
	x.about.Software, x.about.Origin = x.Software, x.Checkpoint.Origin
	x.about.Checkpoint, x.about.CheckpointSize = string(x.Checkpoint.Raw), x.Checkpoint.Size
	x.about.From, x.about.To, x.about.Root = x.From, x.To, root.String()
	var err error
	x.out, err = files.Create(x.Format, x.Path, x.about)
	return err
}

// readAgain writes the events, if they were asked for, while it holds what it
// reads against the root that was folded and against the checkpoint.
func (x *tableExport) readAgain(ctx context.Context, s *projector.State, folded ledger.Hash) error {
	if !slices.Contains(x.kinds, table.Events) {
		return x.readSigned(ctx, folded, func(ledger.Seq, []byte) error { return nil })
	}
	t, err := table.Of(table.Events)
	if err != nil {
		return err
	}
	nextForeign, stop := iter.Pull2(foreign(s))
	defer stop()
	skip, err, more := nextForeign()
	if err != nil {
		return err
	}
	return x.table(ctx, table.Events, func(fn func(table.Row) error) error {
		row := make(table.Row, len(t.Columns))
		return x.readSigned(ctx, folded, func(seq ledger.Seq, body []byte) error {
			if more && seq == skip {
				skip, err, more = nextForeign()
				return err
			}
			if seq < x.From || seq > x.To {
				return nil
			}
			r, err := ledger.ParseRecord(body)
			if err != nil { // it was one when it was folded
				return fmt.Errorf("%w: message %d: %w", ErrOtherRecords, seq, err)
			}
			table.EventRow(row, &r)
			return fn(row)
		})
	})
}

// foreign are the sequences of the foreign messages in order, ending with the
// error that ends them.
func foreign(s *projector.State) iter.Seq2[ledger.Seq, error] {
	return func(yield func(ledger.Seq, error) bool) {
		err := s.Foreign(func(f projector.Foreign) error {
			if !yield(f.Seq, nil) {
				return kv.ErrStop
			}
			return nil
		})
		if err != nil {
			yield(0, err)
		}
	}
}

// readSigned reads all that the checkpoint signs and checks its root, and at To
// the one that was folded.
func (x *tableExport) readSigned(ctx context.Context, folded ledger.Hash, fn func(ledger.Seq, []byte) error) error {
	var tree ledger.Tree
	err := x.source.Read(ctx, 1, ledger.Seq(x.Checkpoint.Size), func(seq ledger.Seq, body []byte) error {
		tree.Append(ledger.Leaf(body))
		if seq == x.To && tree.Root() != folded {
			return fmt.Errorf("%w: root %s over %d records, folded was %s", ErrOtherRecords, tree.Root(), seq, folded)
		}
		if seq%1024 == 0 {
			x.show(uint64(x.To) + uint64(seq))
		}
		return fn(seq, body)
	})
	if err == nil && (tree.Size() != x.Checkpoint.Size || tree.Root() != x.Checkpoint.Root) {
		err = fmt.Errorf("%w: root %s over %d records, signed is %s over %d", ErrOtherRecords, tree.Root(), tree.Size(), x.Checkpoint.Root, x.Checkpoint.Size)
	}
	return err
}
