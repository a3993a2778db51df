package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/cmd/internal/node"
	"assay/events/publish"
	"assay/internal/durable"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/tiles"
)

type proveCmd struct {
	evidenceFlags
	Seq        uint64 `arg:"" optional:"" help:"Record to prove."`
	Receipt    string `help:"File with the receipt of the event to prove, as emit prints it." type:"existingfile" placeholder:"FILE" xor:"what"`
	Leaf       string `help:"Leaf hash of the record to prove." placeholder:"HEX" xor:"what"`
	Since      uint64 `help:"Prove that the log of this size is a prefix of the present one." placeholder:"SIZE" xor:"what"`
	Size       uint64 `help:"Use the checkpoint of this size that is on file. Default: the newest, or that of the export." placeholder:"SIZE"`
	Checkpoint string `help:"Use the signed checkpoint in this file." type:"existingfile" placeholder:"FILE"`
	Out        string `help:"Write the proof here instead of to stdout." short:"o" type:"path" placeholder:"FILE"`
}

// signedWithin is how long a proof waits for the checkpoint that covers a record
// which is stored: a logger signs each second, later on a busy machine.
const (
	signedWithin = 5 * time.Second
	signedPoll   = 250 * time.Millisecond
)

// mayBeSigned says whether the newest checkpoint is asked for, of a ledger that has
// the record, which a logger may be about to sign.
func (c *proveCmd) mayBeSigned(a *app, e node.Evidence) bool {
	if c.Size != 0 || c.Checkpoint != "" || c.Export != "" || c.File != "" {
		return false
	}
	seq, _, err := c.target(a, e)
	if err != nil {
		return false
	}
	head, err := e.Head(a.ctx)
	return err == nil && seq <= head
}

// proved says what a proof file proves.
type proved struct {
	File  string     `json:"file"`
	Kind  string     `json:"kind"` // inclusion or consistency
	Seq   ledger.Seq `json:"seq,omitzero"`
	Leaf  string     `json:"leaf,omitzero"`
	Since uint64     `json:"since,omitzero"`
	Size  uint64     `json:"size"`
	Root  string     `json:"root"`
}

func (c *proveCmd) Run(a *app) error {
	if n := count(c.Seq != 0, c.Receipt != "", c.Leaf != "", c.Since != 0); n != 1 {
		return usageError("name one thing to prove: SEQ, --receipt, --leaf or --since")
	}
	if a.json && c.Out == "" {
		return usageError("--json describes the proof, which needs --out then")
	}
	cp, err := c.checkpoint(a)
	if err != nil {
		return err
	}
	e, err := c.open(a)
	if err != nil {
		return notCompared(err)
	}
	defer e.Close()
	file, out, err := c.prove(a, e, cp)
	for wait := signedWithin; errors.Is(err, node.ErrNotSigned) && c.mayBeSigned(a, e) && wait > 0; wait -= signedPoll {
		select {
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-time.After(signedPoll):
		}
		if cp, err = c.checkpoint(a); err == nil {
			file, out, err = c.prove(a, e, cp)
		}
	}
	if err != nil {
		return err
	}
	if c.Out == "" {
		_, err := a.stdout.Write(file)
		return err
	}
	if err := durable.WriteFile(c.Out, file, 0o644); err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Kind == "inclusion" {
			fmt.Fprintf(w, "%s proves record %d (leaf %s) in the log of size %d\n", out.File, out.Seq, out.Leaf, out.Size)
			return
		}
		fmt.Fprintf(w, "%s proves that the log of size %d begins with the one of size %d\n", out.File, out.Size, out.Since)
	})
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// checkpoint is the one that the proof leads to.
func (c *proveCmd) checkpoint(a *app) (ledger.SignedCheckpoint, error) {
	if c.Export != "" && c.Checkpoint == "" && c.Size == 0 {
		c.Checkpoint = filepath.Join(c.Export, tiles.CheckpointName)
	}
	if c.Checkpoint != "" {
		return node.ReadCheckpoint(c.Checkpoint)
	}
	cps, err := logger.ReadCheckpoints(a.dir.Logger())
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no checkpoint here to prove anything by; give one with --checkpoint (%w)", err)
	}
	if err != nil {
		return ledger.SignedCheckpoint{}, err
	}
	var sizes []uint64
	for _, cp := range cps { // the largest first
		if c.Size == 0 || c.Size == cp.Size {
			return cp, nil
		}
		sizes = append(sizes, cp.Size)
	}
	return ledger.SignedCheckpoint{}, fmt.Errorf("no checkpoint of size %d is on file; there are %v", c.Size, sizes)
}

func (c *proveCmd) prove(a *app, e node.Evidence, cp ledger.SignedCheckpoint) ([]byte, proved, error) {
	show, end := progress[ledger.Seq](a, "proving")
	defer end()
	out := proved{File: c.Out, Size: cp.Size, Root: cp.Root.String()}
	if c.Since != 0 {
		p, err := node.ProveConsistency(a.ctx, e, cp, c.Since, show)
		if err != nil {
			return nil, out, err
		}
		out.Kind, out.Since = "consistency", c.Since
		return p.Encode(), out, nil
	}
	seq, leaf, err := c.target(a, e)
	if err != nil {
		return nil, out, err
	}
	p, err := node.ProveInclusion(a.ctx, e, cp, seq, show)
	if err != nil {
		return nil, out, err
	}
	out.Kind, out.Seq, out.Leaf = "inclusion", seq, ledger.Leaf(p.Body).String()
	if leaf != "" && leaf != out.Leaf {
		return nil, out, fmt.Errorf("record %d hashes to %s, the receipt says %s: the ledger does not hold what was acknowledged", seq, out.Leaf, leaf)
	}
	return p.Encode(), out, nil
}

// target is the record to prove, and the leaf that it must have if that is known.
func (c *proveCmd) target(a *app, e node.Evidence) (seq ledger.Seq, leaf string, err error) {
	leaf = c.Leaf
	if c.Receipt != "" {
		r, err := readReceipt(c.Receipt)
		if err != nil {
			return 0, "", err
		}
		if r.Seq != nil {
			return ledger.Seq(*r.Seq), r.Leaf, nil
		}
		leaf = r.Leaf
	}
	if leaf == "" {
		return ledger.Seq(c.Seq), "", nil
	}
	h, err := ledger.ParseHash(leaf)
	if err != nil {
		return 0, "", usageError("%v", err)
	}
	seq, err = node.FindLeaf(a.ctx, e, h)
	return seq, leaf, err
}

// readReceipt reads the answer to an event that was taken, as JSON or in the
// readable form that emit prints.
func readReceipt(path string) (publish.Receipt, error) {
	raw, err := os.ReadFile(path)
	var r publish.Receipt
	if err == nil {
		r, err = parseReceipt(raw)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

var errNoReceipt = errors.New("not one receipt: want its JSON, or `SEQ LEAF TIME` as emit prints it")

func parseReceipt(raw []byte) (r publish.Receipt, err error) {
	fields := strings.Fields(string(raw))
	if len(fields) > 0 && strings.HasPrefix(fields[0], "{") {
		err = json.Unmarshal(raw, &r)
	} else {
		if len(fields) != 3 {
			return r, errNoReceipt
		}
		if fields[0] != "-" { // a principal that is told no positions
			seq, err := strconv.ParseUint(fields[0], 10, 64)
			if err != nil {
				return r, fmt.Errorf("%w: %w", errNoReceipt, err)
			}
			r.Seq = &seq
		}
		r.Leaf, r.RecordedAt = fields[1], fields[2]
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", errNoReceipt, err)
	}
	if _, err := ledger.ParseHash(r.Leaf); err != nil {
		return r, fmt.Errorf("%w: %w", errNoReceipt, err)
	}
	return r, nil
}
