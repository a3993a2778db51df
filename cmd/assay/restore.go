package main

import (
	"fmt"
	"io"
	"strings"

	"assay/cmd/internal/node"
	"assay/ledger"
)

type restoreCmd struct {
	Src        string `arg:"" name:"src" help:"Directory that the command backup wrote." type:"existingdir" placeholder:"SRC"`
	NATS       string `name:"nats" help:"Bring the records to the external broker at this address, or several with commas between them. Default: the cluster that DIR is of, or the backup if DIR is new, else the broker embedded in DIR." placeholder:"URL"`
	Embedded   bool   `help:"Restore the backup of a cluster to the broker embedded in DIR."`
	OfflineDir string `help:"Directory with the bootstrap seeds that init wrote. Default: DIR-offline." type:"path" placeholder:"DIR"`
	Key        string `help:"Pinned verifier key, or a file that holds it. Default: DIR/logger/key.pub, else the backup's own." placeholder:"KEY"`
	Digest     string `help:"Digest of the manifest, as backup printed it." placeholder:"HEX"`
	Checkpoint string `help:"File with a signed checkpoint that the ledger is known to have reached." type:"existingfile" placeholder:"FILE"`
	Pin        string `help:"File in which verify remembers the ledger's head." type:"existingfile" placeholder:"FILE"`
	AcceptLoss bool   `help:"Restore a backup that is older than a known checkpoint; a record declares what is lost."`
	As         string `help:"Who accepts the loss." placeholder:"NAME"`
}

func (c *restoreCmd) Run(a *app) error {
	if c.AcceptLoss != (c.As != "") {
		return usageError("--accept-loss and --as NAME go together")
	}
	if c.Embedded && c.NATS != "" {
		return usageError("--embedded and --nats name two brokers")
	}
	if c.OfflineDir == "" {
		c.OfflineDir = string(a.dir) + "-offline"
	}
	show, end := phases(a)
	cfg := node.RestoreConfig{
		Dir: a.dir, Src: c.Src, NATS: c.NATS, Embedded: c.Embedded, OfflineDir: c.OfflineDir, Key: c.Key, Digest: c.Digest, AcceptLoss: c.AcceptLoss, As: c.As,
		Software: software(), Log: a.log, Progress: show,
	}
	if err := c.remembered(&cfg); err != nil {
		return err
	}
	out, err := node.Restore(a.ctx, cfg)
	end()
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) { printRestored(w, out) })
}

// remembered adds what the caller knows of the ledger.
func (c *restoreCmd) remembered(cfg *node.RestoreConfig) error {
	if c.Checkpoint != "" {
		cp, err := node.ReadCheckpoint(c.Checkpoint)
		if err != nil {
			return err
		}
		cfg.Known = append(cfg.Known, cp)
	}
	if c.Pin == "" {
		return nil
	}
	pin, err := node.LoadPin(c.Pin)
	if err != nil {
		return err
	}
	cp, err := ledger.ParseCheckpoint([]byte(pin.Checkpoint))
	if err != nil {
		return err
	}
	cfg.Known = append(cfg.Known, cp)
	if cfg.Key == "" {
		cfg.Key = pin.Key
	}
	return nil
}

// phases is progress for each part of the work.
func phases(a *app) (show func(what string, done, total uint64), end func()) {
	var name string
	var part func(done, total uint64)
	endPart := func() {}
	show = func(what string, done, total uint64) {
		if what != name {
			endPart()
			name = what
			part, endPart = progress[uint64](a, what)
		}
		part(done, total)
	}
	return show, func() { endPart() }
}

func printRestored(w io.Writer, out node.Restored) {
	fmt.Fprintf(w, "restored    %s\norigin      %s\nrecords     %d, %d of them now\nblobs       %d\n", out.Dir, out.Origin, out.Size, out.Written, out.Blobs)
	if out.Erased > 0 {
		fmt.Fprintf(w, "left out    %d blobs that the ledger says were erased\n", out.Erased)
	}
	if out.KeyFrom == "backup" {
		fmt.Fprintln(w, "key         the backup's own: whoever could rewrite the backup could replace it; pin it with --key")
	}
	if len(out.Renewed) > 0 {
		fmt.Fprintf(w, "renewed     %s\n", strings.Join(out.Renewed, " "))
	}
	if l := out.Loss; l != nil {
		fmt.Fprintf(w, "lost        records %d to %d; record %d declares it\n", l.Size+1, l.KnownSize, l.Seq)
	}
	printReport(w, out.Report, "the restored ledger")
	if out.ReadOnly {
		fmt.Fprintln(w, "\nThe log's signing key is not here: the ledger can be read, verified and replayed, and\n`assay up` refuses until the key is put back or recovered with the offline recovery key.")
	}
}
