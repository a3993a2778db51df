package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/cmd/internal/node"
	"assay/internal/blob"
	"assay/projector"
)

type blobCmd struct {
	Put  blobPutCmd  `cmd:"" help:"Store content and print its ref, which an event then names as its dataref."`
	Get  blobGetCmd  `cmd:"" help:"Print the content of a blob, after its hash was checked."`
	List blobListCmd `cmd:"" help:"List content blobs: present, missing, erased, erased_but_present or corrupt."`
}

type blobPutCmd struct {
	File string `arg:"" optional:"" default:"-" help:"File with the content; - is stdin."`
}

func (c *blobPutCmd) Run(a *app) error {
	store, err := a.blobs()
	if err != nil {
		return err
	}
	in := a.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	name, size, err := store.PutContent(in, rand.Reader)
	if err != nil {
		return err
	}
	out := struct {
		Ref  string `json:"ref"`
		Size int64  `json:"size"` // of the content in bytes
	}{blob.Ref(name), size}
	return a.print(out, func(w io.Writer) { fmt.Fprintln(w, out.Ref) })
}

type blobGetCmd struct {
	Ref string `arg:"" help:"sha256: and 64 hex digits."`
}

func (c *blobGetCmd) Run(a *app) error {
	store, err := a.blobs()
	if err != nil {
		return err
	}
	name, ok := blob.ParseRef(c.Ref)
	if !ok {
		return usageError("%q is no ref of the blob store (sha256: and 64 hex digits)", c.Ref)
	}
	return store.Content(name, a.stdout)
}

func (a *app) blobs() (*blob.Store, error) {
	if err := a.dir.Check(); err != nil {
		return nil, err
	}
	return blob.Open(a.dir.Blobs())
}

type blobListCmd struct{}

func (c *blobListCmd) Run(a *app) error {
	list, err := a.listBlobs()
	if err != nil {
		return err
	}
	return a.print(list, func(w io.Writer) {
		for _, b := range list.Blobs {
			fmt.Fprintf(w, "%s  %-18s", b.Ref, b.State)
			if b.Size != nil {
				fmt.Fprintf(w, "  %d bytes", *b.Size)
			}
			switch {
			case b.Records > 0:
				fmt.Fprintf(w, "  named by %d records, first %d", b.Records, b.FirstSeq)
			default:
				fmt.Fprint(w, "  named by no record")
			}
			if e := b.Erased; e != nil {
				fmt.Fprintf(w, "  erased at %d: %s", e.Seq, visible(e.Reason))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%d other files (telemetry segments, signal registries), %d bytes\n", list.Others.Count, list.Others.Bytes)
	})
}

// listBlobs asks the running service, or opens the views; where no projector
// ever ran, the store alone answers.
func (a *app) listBlobs() (list node.BlobList, err error) {
	list, err = ofViews(a, "/blobs", nil, func(s *projector.State) (node.BlobList, error) { return node.ListBlobs(a.dir, s) })
	if errors.Is(err, node.ErrNoViews) {
		list, err = node.ListBlobs(a.dir, nil)
	}
	return list, err
}
