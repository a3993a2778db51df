package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/backup"
	"assay/cmd/internal/node"
)

type backupCmd struct {
	To          string `arg:"" name:"dest" help:"Directory to write to; a backup that is there is brought up to date." type:"path" placeholder:"DEST"`
	Secrets     bool   `help:"Also copy the log's keys and all credentials: whoever reads the backup can then forge the ledger."`
	PruneErased bool   `help:"Remove blobs from the backup that were erased since."`
}

func (c *backupCmd) Run(a *app) error {
	show, end := progress[uint64](a, "backing up")
	cfg := node.BackupConfig{Dir: a.dir, To: c.To, Secrets: c.Secrets, Progress: show}
	if c.PruneErased {
		list, err := a.listBlobs()
		if err != nil {
			return err
		}
		for _, b := range list.Blobs {
			if b.Erased != nil {
				cfg.Prune = append(cfg.Prune, b.Ref)
			}
		}
	}
	out, err := node.Backup(a.ctx, cfg, func() (node.Evidence, error) { return (evidenceFlags{}).open(a) })
	end()
	if err != nil {
		return err
	}
	if err := a.print(out, func(w io.Writer) { printBackup(w, out) }); err != nil {
		return err
	}
	if out.Secrets {
		fmt.Fprintf(a.stderr, "THE BACKUP HOLDS SECRETS: whoever can read %s can sign checkpoints and act as any principal. Keep it as you keep the logger's key.\n", out.Dir)
	}
	if len(out.Corrupt) > 0 {
		return errDoesNotHold
	}
	return nil
}

func printBackup(w io.Writer, out backup.Written) {
	fmt.Fprintf(w, "backup      %s\norigin      %s\nrecords     %d, %d of them new\nroot        %s\n", out.Dir, out.Origin, out.Size, out.Added, out.Root)
	fmt.Fprintf(w, "blobs       %d, %d of them new\nfiles       %d\n", out.Blobs, out.Copied, out.Files)
	if out.Pruned > 0 {
		fmt.Fprintf(w, "pruned      %d erased blobs\n", out.Pruned)
	}
	for _, ref := range out.Corrupt {
		fmt.Fprintf(w, "left out    %s: its file is damaged\n", ref)
	}
	fmt.Fprintf(w, "manifest    %s\n", out.Digest)
}
