package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/internal/heap"
	"assay/ledger"
	"assay/ledger/tiles/fsck"
)

type exportCmd struct {
	Tiles   exportTilesCmd   `cmd:"" default:"withargs" help:"Write records and Merkle tree as C2SP tlog-tiles, which other tools can check. The word may be left out."`
	Parquet exportParquetCmd `cmd:"" help:"Write events and views as tables: a directory of Parquet files."`
	JSONL   exportJSONLCmd   `cmd:"" name:"jsonl" help:"Write events and views as tables: a directory of files with one JSON object a line."`
	SQLite  exportSQLiteCmd  `cmd:"" name:"sqlite" help:"Write events and views as tables of one SQLite database."`
}

type exportTilesCmd struct {
	evidenceFlags
	To         string `arg:"" name:"to" help:"Directory to write to; an export that is there is continued." type:"path" placeholder:"EXPORT"`
	Key        string `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY"`
	Checkpoint string `help:"File with the signed checkpoint to export up to. Default: the newest in DIR/logger/checkpoint." type:"existingfile" placeholder:"FILE"`
}

func (c *exportTilesCmd) Run(a *app) error {
	// The checkpoint first: what it signs is in the ledger when that is opened.
	cp, err := node.NewestCheckpoint(node.AnchorConfig{Dir: a.dir, Key: c.Key, Checkpoint: c.Checkpoint})
	if err != nil {
		return err
	}
	e, err := c.open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	if (c.evidenceFlags == evidenceFlags{}) {
		if err := node.NoteCopy(a.dir, node.CopyExport, c.To, cp.Size); err != nil {
			return err
		}
	}
	show, end := progress[uint64](a, "exporting")
	done, err := node.Export(a.ctx, e, cp, c.To, show)
	end()
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) {
		fmt.Fprintf(w, "export      %s\norigin      %s\nrecords     %d, %d of them new\nroot        %s\n", done.Dir, done.Origin, done.Size, done.Added, done.Root)
		fmt.Fprintf(w, "written     %d files, from record %d on\n", done.FilesWritten, done.ResumedFrom+1)
	})
}

type fsckCmd struct {
	Export string `arg:"" help:"Directory of tiles that the command export, or another log, wrote." type:"existingdir" placeholder:"EXPORT"`
	Key    string `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY" xor:"key"`
	Pin    string `help:"Take the key, and a head that the export must go on from, from this file of verify." type:"existingfile" placeholder:"FILE" xor:"key"`
}

func (c *fsckCmd) Run(a *app) error {
	var pin *node.Pin
	if c.Pin != "" {
		var err error
		if pin, err = node.LoadPin(c.Pin); err != nil {
			return err
		}
	}
	heap.Bound()
	show, end := progress[uint64](a, "checking")
	r, err := node.Fsck(a.ctx, node.AnchorConfig{Dir: a.dir, Key: c.Key, Pin: pin}, c.Export, show)
	end()
	if err != nil {
		return a.notCompared(err)
	}
	if err := a.print(r, func(w io.Writer) { printFsck(w, r, c.Export) }); err != nil {
		return err
	}
	return verdictError(r.Verdict)
}

func printFsck(w io.Writer, r fsck.Report, dir string) {
	fmt.Fprintf(w, "%s: %s\norigin      %s\nrecords     %d\nroot        %s\nfiles       %d\n", dir, r.Verdict, visible(r.Origin), r.Size, r.Root, r.Files)
	if r.Unfinished != nil {
		fmt.Fprintf(w, "unfinished  an export of %d records; %d files of it are not signed yet and were not checked\n", *r.Unfinished, r.Unchecked)
	}
	if r.FirstBadSeq != nil {
		fmt.Fprintf(w, "first bad   %d\n", *r.FirstBadSeq)
	}
	if r.Verdict == ledger.Unanchored {
		fmt.Fprintf(w, "finding     %s\n", *r.Finding)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-11s %s\n", f.Kind, visible(f.Text))
	}
	if r.MoreFindings > 0 {
		fmt.Fprintf(w, "and %d more\n", r.MoreFindings)
	}
	printHistory(w, r.Keys, r.Losses, r.Foreign)
}
