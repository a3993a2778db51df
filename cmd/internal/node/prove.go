package node

import (
	"context"
	"errors"
	"fmt"

	"assay/ledger"
)

var (
	// ErrNotSigned means that no checkpoint covers a record yet.
	ErrNotSigned = errors.New("no checkpoint covers this record yet")
	// ErrNotThere means that the ledger holds no such record.
	ErrNotThere = errors.New("the ledger holds no such record")
	// ErrOtherRecords means that the records are not those that the checkpoint
	// signs, so that nothing can be proved or exported with it: run verify.
	ErrOtherRecords = errors.New("the records do not hash to the signed root")
)

// ProveInclusion makes the proof that a record is among those that cp signs; see
// ProveInclusions.
func ProveInclusion(ctx context.Context, e Evidence, cp ledger.SignedCheckpoint, seq ledger.Seq, progress func(done, total ledger.Seq)) (*ledger.InclusionProof, error) {
	proofs, err := ProveInclusions(ctx, e, cp, []ledger.Seq{seq}, progress)
	if err != nil {
		return nil, err
	}
	return proofs[0], nil
}

// ProveInclusions makes the proofs that records are among those that cp signs, in
// one pass over them, whose memory grows with what is proved alone; of an export
// with that checkpoint it reads a handful of files a record.
func ProveInclusions(ctx context.Context, e Evidence, cp ledger.SignedCheckpoint, seqs []ledger.Seq, progress func(done, total ledger.Seq)) ([]*ledger.InclusionProof, error) {
	proofs, of, wanted := make([]*ledger.InclusionProof, len(seqs)), map[ledger.Seq][]byte{}, []int64(nil)
	for i, seq := range seqs {
		if seq == 0 {
			return nil, ErrNotThere
		}
		if uint64(seq) > cp.Size {
			return nil, fmt.Errorf("%w: record %d, the newest signs %d", ErrNotSigned, seq, cp.Size)
		}
		nodes, err := ledger.WantInclusion(seq.Index(), cp.Size)
		if err != nil {
			return nil, err
		}
		proofs[i], of[seq], wanted = &ledger.InclusionProof{Index: seq.Index(), Checkpoint: cp.Raw}, nil, append(wanted, nodes...)
	}
	if r := treeOf(e, cp); r != nil {
		for i, p := range proofs {
			var err error
			if p.Body, err = r.Record(seqs[i]); err == nil {
				p.Path, err = ledger.ProveInclusion(p.Index, cp.Size, r)
			}
			if err != nil {
				return nil, err
			}
		}
		return proofs, nil
	}
	c := ledger.NewCollector(nil, wanted)
	err := collect(ctx, e, c, cp, progress, func(at ledger.Seq, body []byte) {
		if _, ok := of[at]; ok {
			of[at] = body
		}
	})
	if err != nil {
		return nil, err
	}
	for i, p := range proofs {
		p.Body = of[seqs[i]]
		if p.Path, err = ledger.ProveInclusion(p.Index, cp.Size, c); err != nil {
			return nil, err
		}
	}
	return proofs, nil
}

// ProveConsistency makes the proof that the log of size old is a prefix of what
// cp signs, in one pass and constant memory.
func ProveConsistency(ctx context.Context, e Evidence, cp ledger.SignedCheckpoint, old uint64, progress func(done, total ledger.Seq)) (*ledger.ConsistencyProof, error) {
	wanted, err := ledger.WantConsistency(old, cp.Size)
	if err != nil {
		return nil, err
	}
	p := &ledger.ConsistencyProof{Old: old, Checkpoint: cp.Raw}
	if r := treeOf(e, cp); r != nil {
		p.Path, err = ledger.ProveConsistency(old, cp.Size, r)
		return p, err
	}
	c := ledger.NewCollector(nil, wanted)
	if err := collect(ctx, e, c, cp, progress, nil); err != nil {
		return nil, err
	}
	p.Path, err = ledger.ProveConsistency(old, cp.Size, c)
	return p, err
}

// collect passes the records that cp signs by c and holds their root against it.
func collect(ctx context.Context, e Evidence, c *ledger.Collector, cp ledger.SignedCheckpoint, progress func(done, total ledger.Seq), see func(ledger.Seq, []byte)) error {
	err := e.Read(ctx, 1, ledger.Seq(cp.Size), func(seq ledger.Seq, body []byte) error {
		if want := ledger.Seq(c.Tree().Size()) + 1; seq != want {
			return fmt.Errorf("%w: after record %d the stream continues at %d", ledger.ErrCorrupt, want-1, seq)
		}
		c.Add(ledger.Leaf(body))
		if see != nil {
			see(seq, body)
		}
		if progress != nil && seq%4096 == 0 {
			progress(seq, ledger.Seq(cp.Size))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.Tree().Size() != cp.Size || c.Tree().Root() != cp.Root {
		return fmt.Errorf("%w: %d records hash to %s, the checkpoint of size %d signs %s",
			ErrOtherRecords, c.Tree().Size(), c.Tree().Root(), cp.Size, cp.Root)
	}
	return nil
}

// FindLeaf is the position of the record with this leaf hash, for a receipt that
// does not tell it: ErrNotThere.
func FindLeaf(ctx context.Context, e Evidence, leaf ledger.Hash) (at ledger.Seq, err error) {
	last, err := e.Head(ctx)
	if err != nil {
		return 0, err
	}
	found := errors.New("found")
	err = e.Read(ctx, 1, last, func(seq ledger.Seq, body []byte) error {
		if ledger.Leaf(body) == leaf {
			at = seq
			return found
		}
		return nil
	})
	switch {
	case errors.Is(err, found):
		return at, nil
	case err != nil:
		return 0, err
	}
	return 0, fmt.Errorf("%w: leaf %s", ErrNotThere, leaf)
}
