package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"assay/cmd/internal/node"
	"assay/internal/heap"
	"assay/ledger"
	"assay/ledger/tiles"
)

// evidenceFlags choose the ledger that a command reads.
type evidenceFlags struct {
	NATS     string `name:"nats" help:"Read from the broker at this address." placeholder:"URL"`
	CredsDir string `help:"Directory with the credential service.read-operator, for --nats. Default: DIR/creds." type:"path" placeholder:"DIR"`
	Export   string `help:"Read the tiles that the command export wrote instead." type:"existingdir" placeholder:"EXPORT"`
	File     string `help:"Read a plain export (tail --raw --from 1) instead." type:"existingfile" placeholder:"FILE"`
}

func (f evidenceFlags) open(a *app) (node.Evidence, error) {
	copied := false
	show, end := progress[int64](a, "copying the store")
	defer end()
	e, err := node.OpenEvidence(a.ctx, node.EvidenceConfig{
		Dir: a.dir, NATS: f.NATS, CredsDir: f.CredsDir, Export: f.Export, File: f.File, Log: a.log,
		Copied: func(done, total int64) {
			copied = true
			show(done, total)
		},
	})
	if err == nil && !copied { // no broker of a copy in this process
		heap.Bound()
	}
	return e, err
}

type verifyCmd struct {
	evidenceFlags
	Key        string `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY"`
	Checkpoint string `help:"File with the signed checkpoint to hold the ledger against. Default: that of the export, or those in DIR/logger/checkpoint." type:"existingfile" placeholder:"FILE"`
	Pin        string `help:"File that remembers the log's name, key and newest head: made on the first use, and from then on the log may only grow." type:"path" placeholder:"FILE"`
	Policy     string `help:"File with the witness policy that the newest checkpoint must meet. Default: DIR/witness-policy.txt, if there is one." type:"existingfile" placeholder:"FILE"`
}

// verified is a report with what is remembered after it.
type verified struct {
	ledger.Report
	Pin *pinned `json:"pin,omitzero"`
}

type pinned struct {
	File string `json:"file"`
	// Size is that of the remembered head; null when there was none to remember.
	Size    *uint64 `json:"size"`
	Changed bool    `json:"changed"`
}

// uncompared is the report of an audit that could not read what it had to.
type uncompared struct {
	Verdict ledger.Verdict `json:"verdict"`
	Finding string         `json:"finding"`
}

func (c *verifyCmd) Run(a *app) error {
	var pin *node.Pin
	if c.Pin != "" {
		var err error
		if pin, err = node.LoadPin(c.Pin); err != nil {
			return err
		}
		if pin != nil && c.Key != "" {
			return usageError("%s names the key already; give --key or --pin", c.Pin)
		}
	}
	// The anchor first: what is signed later is not held against what was
	// read before.
	if c.Export != "" && c.Checkpoint == "" {
		// An export is as old as its own checkpoint.
		c.Checkpoint = filepath.Join(c.Export, tiles.CheckpointName)
	}
	trust := node.AnchorConfig{Dir: a.dir, Key: c.Key, Checkpoint: c.Checkpoint, Policy: c.Policy, Pin: pin}
	quorum, err := node.LoadQuorum(a.ctx, trust)
	if err != nil {
		return err
	}
	anchor, err := node.LoadAnchor(trust)
	if err != nil {
		return err
	}
	e, err := c.open(a)
	if err != nil {
		return a.notCompared(err)
	}
	defer e.Close()
	report, err := a.verify(e, anchor)
	if err != nil {
		return a.notCompared(err)
	}
	quorum.Judge(&report)
	out := verified{Report: report}
	if c.Pin != "" {
		if out.Pin, err = remember(c.Pin, pin, anchor, report); err != nil {
			return err
		}
	}
	if err := a.print(out, func(w io.Writer) { out.print(w, e.Origin()) }); err != nil {
		return err
	}
	return verdictError(report.Verdict)
}

func remember(file string, pin *node.Pin, anchor ledger.Anchor, report ledger.Report) (*pinned, error) {
	next, err := node.Remember(file, pin, anchor, report)
	if err != nil {
		return nil, err
	}
	out := &pinned{File: file, Changed: next != pin}
	if next != nil {
		out.Size = &next.Size
	}
	return out, nil
}

func (v *verified) print(w io.Writer, origin string) {
	printReport(w, v.Report, origin)
	switch p := v.Pin; {
	case p == nil:
	case p.Size == nil:
		fmt.Fprintf(w, "remembered  nothing: %s is made once a checkpoint is found good\n", p.File)
	case p.Changed:
		fmt.Fprintf(w, "remembered  size %d from now on (%s)\n", *p.Size, p.File)
	default:
		fmt.Fprintf(w, "remembered  size %d as before (%s)\n", *p.Size, p.File)
	}
}

// notCompared reports that what had to be checked could not be read.
func (a *app) notCompared(err error) error {
	if !a.json || errors.Is(err, node.ErrNotInitialised) {
		return notCompared(err)
	}
	if err := a.print(uncompared{ledger.CouldNotCompare, err.Error()}, nil); err != nil {
		return err
	}
	return &exitError{code: exitNotCompare}
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
	show, end := progress[ledger.Seq](a, "verifying")
	defer end()
	return node.Verify(a.ctx, e, anchor, show)
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
	if r.FailedCheck != nil {
		fmt.Fprintf(w, "check       %s\n", *r.FailedCheck)
	}
	if r.Finding != nil {
		fmt.Fprintf(w, "finding     %s\n", visible(*r.Finding))
	}
	printHistory(w, r.Keys, r.Losses, r.Foreign)
}

// printHistory says what an audit came across that is no fault.
func printHistory(w io.Writer, keys []ledger.Key, losses []ledger.Loss, foreign []ledger.Foreign) {
	for _, k := range keys {
		how := ""
		if k.Recovered {
			how = ", put in force by the recovery key"
		}
		fmt.Fprintf(w, "key         %s from record %d%s\n", k.Verifier, k.From, how)
	}
	for _, l := range losses {
		fmt.Fprintf(w, "lost        records %d to %d when the ledger was restored, says record %d (accepted by %s)\n", l.Size+1, l.KnownSize, l.Seq, visible(l.AcceptedBy))
	}
	for _, f := range foreign {
		fmt.Fprintf(w, "foreign     %d %s acknowledged: %v\n", f.Seq, f.SHA256, f.Acknowledged)
	}
}
