package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"assay/cmd/internal/node"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/ledger"
)

type eraseCmd struct {
	Ref     string `arg:"" optional:"" help:"Blob to erase: sha256: and 64 hex digits."`
	Reason  string `help:"Why, as a code such as subject_request." placeholder:"CODE"`
	As      string `help:"Operator who erases." default:"operator/main" placeholder:"ROLE/NAME"`
	NKey    string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
	Residue bool   `help:"Erase nothing; list where the content of REF, or of every erased blob, may still be."`
}

func (c *eraseCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	switch {
	case c.Residue:
		return c.residue(a)
	case c.Ref == "":
		return usageError("name the blob to erase, or give --residue")
	case c.Reason == "":
		return usageError("--reason is missing: a code that says why")
	case !strings.HasPrefix(c.As, "operator/"):
		return usageError("only an operator erases, not %s", c.As)
	}
	if _, ok := blob.ParseRef(c.Ref); !ok {
		return usageError("%q is no ref of the blob store (sha256: and 64 hex digits)", c.Ref)
	}
	e, err := (evidenceFlags{}).open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	show, end := progress[ledger.Seq](a, "looking for records that name it")
	out, err := node.Erase(a.ctx, node.EraseConfig{
		Dir: a.dir, Evidence: e, Ref: c.Ref, Reason: c.Reason, As: c.As,
		Publish: func(ctx context.Context, event []byte) (publish.Receipt, error) {
			return (&emitCmd{As: c.As, NKey: c.NKey}).publish(ctx, a, event)
		},
		Progress: show,
	})
	end()
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "erased %s (%s)\n", out.Ref, visible(out.Reason))
		if !out.Removed {
			fmt.Fprintln(w, "its file was not there")
		}
		if out.Seq != nil {
			fmt.Fprintf(w, "receipt     %d %s %s\n", *out.Seq, out.Leaf, out.RecordedAt)
		}
		fmt.Fprintf(w, "named by    %d records, which keep its hash\n", out.Records)
		fmt.Fprintf(w, "`assay erase --residue %s` lists where the content may still be\n", out.Ref)
	})
}

func (c *eraseCmd) residue(a *app) error {
	refs := []string{c.Ref}
	if c.Ref == "" {
		list, err := a.listBlobs()
		if err != nil {
			return err
		}
		refs = nil
		for _, b := range list.Blobs {
			if b.Erased != nil {
				refs = append(refs, b.Ref)
			}
		}
	} else if _, ok := blob.ParseRef(c.Ref); !ok {
		return usageError("%q is no ref of the blob store (sha256: and 64 hex digits)", c.Ref)
	}
	r, err := node.FindResidue(a.ctx, a.dir, refs)
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) { printResidue(w, r) })
}

func printResidue(w io.Writer, r node.Residue) {
	for _, ref := range r.Present {
		fmt.Fprintf(w, "here        %s\n", ref)
	}
	if r.Unfinished.Count > 0 {
		fmt.Fprintf(w, "unfinished  %d files of interrupted uploads in the blob store, %d bytes; they may hold anything\n", r.Unfinished.Count, r.Unfinished.Bytes)
	}
	for _, c := range r.Copies {
		fmt.Fprintf(w, "%-11s %s: ", c.Kind, visible(c.Path))
		switch {
		case !c.Reachable:
			fmt.Fprintf(w, "cannot be reached; it was last written %s\n", c.At)
		case c.Kind == node.CopyExport:
			fmt.Fprintln(w, "records only, which name blobs and never hold them")
		case len(c.Holds) == 0:
			fmt.Fprintln(w, "holds none of them")
		default:
			fmt.Fprintf(w, "still holds %s\n", strings.Join(c.Holds, " "))
		}
	}
	fmt.Fprintf(w, "snapshots   %d, which never hold a blob's content\n", r.Snapshots)
	switch q := r.Quarantine; {
	case q == nil:
		fmt.Fprintln(w, "quarantine  unknown: no logger runs to ask; it may hold the same text")
	case q.Messages == 0:
		fmt.Fprintln(w, "quarantine  empty")
	default:
		fmt.Fprintf(w, "quarantine  %d refused messages, %d bytes, the oldest of %s; they may hold the same text\n", q.Messages, q.Bytes, q.Oldest)
	}
	fmt.Fprintln(w, r.Note)
}
