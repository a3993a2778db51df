package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/projector"
)

type snapshotCmd struct{}

// snapshotView is a snapshot's place and manifest.
type snapshotView struct {
	Path string `json:"path"`
	projector.Manifest
}

func (c *snapshotCmd) Run(a *app) error {
	var v snapshotView
	if err := node.Ask(a.ctx, a.dir.Socket(), "POST", "/snapshot", nil, &v); err != nil {
		return err
	}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "snapshot    %s\nrecord      %d\nroot        %s\ndigest      %s\n", v.Path, v.Seq, v.Root, v.SHA256)
	})
}
