package fsck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"assay/ledger"
	"assay/ledger/tiles"
)

// column is the tile of a level that the entries are filling.
type column struct {
	n      uint64 // index of the tile
	hashes []ledger.Hash
	// sure[i]: hash i is over entries that nothing was found about. Of others a
	// tile above would only repeat what is known.
	sure []bool
}

// entries checks all bundles with the tiles over them. One goroutine compares
// hashes while another follows the chain.
func (c *check) entries(ctx context.Context) error {
	bundles := make(chan bundle, ahead)
	read := make(chan bundle, ahead+2) // memory to use again
	audited := make(chan ledger.Report)
	go func() { audited <- follow(ledger.Anchor{Key: c.cfg.Key, Checkpoints: c.cfg.Heads}, bundles, read) }()
	err := c.compareAll(ctx, bundles, read)
	close(bundles)
	chain := <-audited
	if err != nil {
		return err
	}
	c.report.Root, c.report.Foreign, c.report.Keys, c.report.Losses = chain.Root, chain.Foreign, chain.Keys, chain.Losses
	if chain.Verdict == ledger.Inconsistent {
		seq := *chain.FirstBadSeq
		t := tiles.Tile{Level: tiles.Entries, N: uint64(seq.Index()) / tiles.Width}
		t.Width = int(min(tiles.Width, max(c.cp.Size, t.N*tiles.Width+1)-t.N*tiles.Width))
		f := Finding{Kind: Chain, File: t.Path(), Seq: seq, Text: *chain.Finding}
		if *chain.FailedCheck == ledger.CheckRoot { // of a trusted head
			f.Kind, f.Last, f.coarse = Root, ledger.Seq(c.cp.Size), true
		}
		c.report.add(f)
	}
	if c.cp.Size > 0 && chain.Root != c.cp.Root.String() {
		c.report.add(Finding{
			Kind: Root, File: tiles.CheckpointName, Seq: 1, Last: ledger.Seq(c.cp.Size), coarse: true,
			Text: fmt.Sprintf("the checkpoint signs root %s over %d records, but the %d that are here hash to %s", c.cp.Root, c.cp.Size, chain.Size, chain.Root),
		})
	}
	return c.checkSignature(chain.Keys)
}

// ahead is how many bundles the one goroutine may be ahead of the other. A
// bundle has up to MaxBundle bytes.
const ahead = 3

type bundle struct {
	tiles.Tile
	raw    []byte
	leaves []ledger.Hash // of the entries up to the first that is malformed
}

// follow audits the chain. The export's own checkpoint is held against its root
// apart from it.
func follow(anchor ledger.Anchor, bundles <-chan bundle, read chan<- bundle) ledger.Report {
	d := ledger.NewAuditor(anchor)
	for b := range bundles {
		// A malformed end was noted by the other side.
		_ = tiles.ReadBundle(b.raw, b.Width, func(i int, body []byte) error {
			d.AddHashed(ledger.Seq(b.First(i))+1, body, b.leaves[i])
			return nil
		})
		read <- b
	}
	return d.Report()
}

// compareAll compares every tile of the tree with what the entries hash to.
func (c *check) compareAll(ctx context.Context, out chan<- bundle, read <-chan bundle) error {
	c.levels = []column{{}}
	for n := uint64(0); n*tiles.Width < c.cp.Size && !c.report.hopeless(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		done := min(c.cp.Size, (n+1)*tiles.Width)
		var b bundle
		select {
		case b = <-read:
		default:
		}
		b.Tile = tiles.Tile{Level: tiles.Entries, N: n, Width: int(done - n*tiles.Width)}
		if err := c.hash(&b); err != nil {
			return err
		}
		if b.raw != nil {
			out <- b
		}
		if err := c.full(0); err != nil {
			return err
		}
		if c.cfg.Progress != nil {
			c.cfg.Progress(done, c.cp.Size)
		}
	}
	for level := range c.levels {
		if err := c.compare(level); err != nil {
			return err
		}
	}
	return nil
}

// hash reads a bundle and fills the level 0 tile with the hashes of its entries.
// b.raw is nil afterwards if it cannot be read.
func (c *check) hash(b *bundle) (err error) {
	col := &c.levels[0]
	b.leaves = b.leaves[:0]
	if b.raw, err = tiles.ReadInto(b.raw, c.cfg.FS, b.Path(), tiles.MaxBundle); err != nil {
		err = c.problem(b.Tile, err)
	} else if bad := tiles.ReadBundle(b.raw, b.Width, func(_ int, body []byte) error {
		b.leaves = append(b.leaves, ledger.Leaf(body))
		return nil
	}); bad != nil {
		c.report.add(about(Malformed, b.Tile, min(len(b.leaves), b.Width-1), "%v", bad))
	}
	for i := range b.Width {
		if i < len(b.leaves) {
			col.add(b.leaves[i], true)
		} else {
			col.add(ledger.Hash{}, false)
		}
	}
	return err
}

func (col *column) add(h ledger.Hash, sure bool) {
	col.hashes, col.sure = append(col.hashes, h), append(col.sure, sure)
}

// full compares the tile of the level if it is full and passes its root up.
func (c *check) full(level int) error {
	col := &c.levels[level]
	if len(col.hashes) < tiles.Width {
		return nil
	}
	if err := c.compare(level); err != nil {
		return err
	}
	var tree ledger.Tree
	sure := true
	for i, h := range col.hashes {
		tree.Append(h)
		sure = sure && col.sure[i]
	}
	*col = column{n: col.n + 1, hashes: col.hashes[:0], sure: col.sure[:0]}
	if level+1 == len(c.levels) {
		c.levels = append(c.levels, column{})
	}
	c.levels[level+1].add(tree.Root(), sure)
	return c.full(level + 1)
}

// compare holds the tile's file against what the entries gave.
func (c *check) compare(level int) error {
	col := &c.levels[level]
	t := tiles.Tile{Level: level, N: col.n, Width: len(col.hashes)}
	if t.Width == 0 {
		return nil
	}
	size := len(ledger.Hash{})
	raw, err := tiles.ReadInto(c.hashes, c.cfg.FS, t.Path(), t.Width*size)
	if err != nil {
		return c.problem(t, err)
	}
	c.hashes = raw
	if len(raw) != t.Width*size {
		f := about(Malformed, t, 0, "%d bytes, want %d", len(raw), t.Width*size)
		f.Seq, f.Last = 0, 0
		c.report.add(f)
		return nil
	}
	found := false
	for i, h := range col.hashes {
		if !col.sure[i] || bytes.Equal(raw[i*size:(i+1)*size], h[:]) {
			continue
		}
		col.sure[i] = false
		if !found { // one finding a tile
			c.report.add(about(Hash, t, i, "hash %d is %x, but the entries hash to %s", i, raw[i*size:(i+1)*size], h))
		}
		found = true
	}
	return nil
}

// stale compares a partial tile of a smaller tree with the beginning of the
// tile that the tree has now.
func (c *check) stale(t tiles.Tile) error {
	now := t
	now.Width = int(min(tiles.Width, tiles.Count(t.Level, c.cp.Size)-t.N*tiles.Width))
	raw, err := tiles.ReadFile(c.cfg.FS, t.Path(), tiles.MaxBundle)
	if errors.Is(err, tiles.ErrFile) {
		return c.problem(t, err)
	}
	if err != nil {
		return err
	}
	whole, err := tiles.ReadFile(c.cfg.FS, now.Path(), tiles.MaxBundle)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, tiles.ErrFile) {
		return nil // found already
	}
	if err != nil {
		return err
	}
	i, same := t.Width, len(raw) == t.Width*len(ledger.Hash{}) && bytes.HasPrefix(whole, raw)
	if t.Level == tiles.Entries {
		i, same = staleEntries(raw, whole, t.Width)
	}
	if !same {
		f := about(Stale, t, min(i, t.Width-1), "it is not the beginning of %s", now.Path())
		if t.Level != tiles.Entries {
			f.Seq, f.Last = 0, 0
		}
		c.report.add(f)
	}
	return nil
}

// staleEntries is the number of entries that both bundles begin with, and
// whether these are all of the stale one.
func staleEntries(stale, whole []byte, width int) (n int, same bool) {
	for ; n < width; n++ {
		a, stale2, err := tiles.NextEntry(stale)
		b, whole2, err2 := tiles.NextEntry(whole)
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			return n, false
		}
		stale, whole = stale2, whole2
	}
	return n, len(stale) == 0
}
