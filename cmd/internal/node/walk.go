package node

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"assay/ledger"
)

// walk reads the ledger from record 1 on and keeps its spine, a quarter of a byte a
// record: enough to say whether a checkpoint signs what was read, and to prove a
// record by the bundle that it is in. It is no audit, which checks links, times and
// keys too.
type walk struct {
	evidence   Evidence
	checkpoint func() (ledger.SignedCheckpoint, error)
	log        zerolog.Logger
	cancel     context.CancelFunc
	done       sync.WaitGroup

	mu      sync.Mutex
	spine   ledger.Spine
	matched ledger.SignedCheckpoint // the last whose root the records hash to
	fault   string                  // the first that was found; it stays
}

// walkPause is how long the walk waits before it reads on after an error, and between
// two looks at the checkpoint.
const walkPause = time.Second

func startWalk(ctx context.Context, e Evidence, checkpoint func() (ledger.SignedCheckpoint, error), log zerolog.Logger) *walk {
	w := &walk{evidence: e, checkpoint: checkpoint, log: log}
	ctx, w.cancel = context.WithCancel(ctx)
	w.done.Go(func() { w.each(ctx, w.read) })
	w.done.Go(func() { w.each(ctx, w.compare) })
	return w
}

func (w *walk) stop() {
	w.cancel()
	w.done.Wait()
}

// each calls fn again and again until ctx ends or there is a fault.
func (w *walk) each(ctx context.Context, fn func(context.Context) error) {
	for ctx.Err() == nil {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg("reads on in a second")
		}
		if _, _, fault := w.state(); fault != "" {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(walkPause):
		}
	}
}

// read goes on behind what was read.
func (w *walk) read(ctx context.Context) error {
	w.mu.Lock()
	from := ledger.Seq(w.spine.Tree().Size()) + 1
	w.mu.Unlock()
	return w.evidence.Read(ctx, from, 0, func(seq ledger.Seq, body []byte) error {
		leaf := ledger.Leaf(body)
		w.mu.Lock()
		defer w.mu.Unlock()
		if want := ledger.Seq(w.spine.Tree().Size()) + 1; seq != want {
			w.fault = fmt.Sprintf("records %d to %d are missing: run assay verify", want, seq-1)
			return fmt.Errorf("%w: %s", ledger.ErrCorrupt, w.fault)
		}
		w.spine.Add(leaf)
		return nil
	})
}

// compare holds the checkpoint that counts against what was read.
func (w *walk) compare(ctx context.Context) error {
	cp, err := w.checkpoint()
	if err != nil {
		return err
	}
	w.mu.Lock()
	spine, matched := w.spine.Clone(), w.matched.Raw
	w.mu.Unlock()
	if cp.Size == 0 || cp.Size > spine.Tree().Size() || bytes.Equal(cp.Raw, matched) {
		return nil // not yet read, or compared before
	}
	root, err := ledger.RootAt(cp.Size, spine.Reader(w.leaves(ctx)))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if root != cp.Root {
		w.fault = fmt.Sprintf("the checkpoint of size %d signs root %s, and the records hash to %s: run assay verify", cp.Size, cp.Root, root)
		return fmt.Errorf("%w: %s", ErrOtherRecords, w.fault)
	}
	w.matched = cp
	return nil
}

func (w *walk) state() (read, matched ledger.Seq, fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ledger.Seq(w.spine.Tree().Size()), ledger.Seq(w.matched.Size), w.fault
}

// leaves reads the leaf hashes of a bundle.
func (w *walk) leaves(ctx context.Context) func(first, last ledger.Seq) ([]ledger.Hash, error) {
	return func(first, last ledger.Seq) (out []ledger.Hash, err error) {
		err = w.evidence.Read(ctx, first, last, func(_ ledger.Seq, body []byte) error {
			out = append(out, ledger.Leaf(body))
			return nil
		})
		return out, err
	}
}

// prove makes the proof of a record under the last checkpoint that was compared:
// ErrNotSigned when that does not cover it.
func (w *walk) prove(ctx context.Context, seq ledger.Seq) (*ledger.InclusionProof, error) {
	w.mu.Lock()
	cp, p := w.matched, &ledger.InclusionProof{Index: seq.Index(), Checkpoint: w.matched.Raw}
	spine := w.spine.Clone()
	w.mu.Unlock()
	if uint64(seq) > cp.Size {
		return nil, fmt.Errorf("%w: record %d, and the last that was checked here signs %d", ErrNotSigned, seq, cp.Size)
	}
	err := w.evidence.Read(ctx, seq, seq, func(_ ledger.Seq, body []byte) error {
		p.Body = body
		return nil
	})
	if err == nil {
		p.Path, err = ledger.ProveInclusion(p.Index, cp.Size, spine.Reader(w.leaves(ctx)))
	}
	if err == nil {
		err = ledger.CheckInclusion(p.Path, p.Index, ledger.Leaf(p.Body), cp.Size, cp.Root)
	}
	return p, err
}
