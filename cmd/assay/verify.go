package main

import (
	"errors"
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/ledger"
)

// evidenceFlags choose the ledger that a command reads.
type evidenceFlags struct {
	NATS     string `name:"nats" help:"Read from the broker at this address." placeholder:"URL"`
	CredsDir string `help:"Directory with the credential service.read-operator, for --nats. Default: DIR/creds." type:"path" placeholder:"DIR"`
	File     string `help:"Read a plain export (tail --raw --from 1) instead." type:"existingfile" placeholder:"FILE"`
}

func (f evidenceFlags) open(a *app) (node.Evidence, error) {
	var bar interface{ Set64(int64) error }
	return node.OpenEvidence(a.ctx, node.EvidenceConfig{
		Dir: a.dir, NATS: f.NATS, CredsDir: f.CredsDir, File: f.File, Log: a.log,
		Copied: func(done, total int64) {
			if bar == nil {
				bar = a.progress(total, "copying the store")
			}
			_ = bar.Set64(done)
		},
	})
}

type verifyCmd struct {
	evidenceFlags
	Key        string `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY"`
	Checkpoint string `help:"File with the signed checkpoint to hold the ledger against. Default: those in DIR/logger/checkpoint." type:"existingfile" placeholder:"FILE"`
}

func (c *verifyCmd) Run(a *app) error {
	// The anchor first: what is signed later is not held against what was
	// read before.
	anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: a.dir, Key: c.Key, Checkpoint: c.Checkpoint})
	if err != nil {
		return err
	}
	e, err := c.open(a)
	if err != nil {
		return notCompared(err)
	}
	defer e.Close()
	report, err := a.verify(e, anchor)
	if err != nil {
		return notCompared(err)
	}
	if err := a.print(report, func(w io.Writer) { printReport(w, report, e.Origin()) }); err != nil {
		return err
	}
	return verdictError(report.Verdict)
}

// notCompared is the end of a check that could not read what it had to check:
// neither a yes nor a no. A directory that was never initialised stays an
// error of use.
func notCompared(err error) error {
	if errors.Is(err, node.ErrNotInitialised) {
		return err
	}
	return &exitError{exitNotCompare, err}
}

func (a *app) verify(e node.Evidence, anchor ledger.Anchor) (ledger.Report, error) {
	bar := a.progress(-1, "verifying")
	defer bar.Finish()
	return node.Verify(a.ctx, e, anchor, func(done, total ledger.Seq) {
		bar.ChangeMax64(int64(total))
		_ = bar.Set64(int64(done))
	})
}

func verdictError(v ledger.Verdict) error {
	switch v {
	case ledger.Consistent:
		return nil
	case ledger.Inconsistent:
		return errDoesNotHold
	}
	return &exitError{code: exitNotCompare}
}

func printReport(w io.Writer, r ledger.Report, origin string) {
	fmt.Fprintf(w, "%s: %s\nrecords     %d\nroot        %s\n", origin, r.Verdict, r.Size, r.Root)
	if r.CheckpointSize != nil {
		fmt.Fprintf(w, "checkpoint  signs %d, %d after it are unsigned\n", *r.CheckpointSize, *r.UnsignedTail)
	} else {
		fmt.Fprintln(w, "checkpoint  none")
	}
	if r.FirstBadSeq != nil {
		fmt.Fprintf(w, "first bad   %d\n", *r.FirstBadSeq)
	}
	if r.Finding != nil {
		fmt.Fprintf(w, "finding     %s\n", visible(*r.Finding))
	}
	for _, f := range r.Foreign {
		fmt.Fprintf(w, "foreign     %d %s acknowledged: %v\n", f.Seq, f.SHA256, f.Acknowledged)
	}
}
