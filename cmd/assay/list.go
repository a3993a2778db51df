package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay/cmd/internal/node"
	"assay/projector"
	"assay/projector/view"
)

type listCmd struct {
	Kind      string `arg:"" help:"blobs, claims, episodes, experiments, opportunities, orphans, parked, predictions, rejections, sequences, skews or tool_calls."`
	Namespace string `help:"Namespace to list." default:"production"`
	Limit     int    `help:"List at most this many." default:"1000"`
}

func (c *listCmd) Run(a *app) error {
	if !slices.Contains(view.Kinds(), c.Kind) {
		return usageError("unknown kind %q, want one of %s", c.Kind, strings.Join(view.Kinds(), ", "))
	}
	if c.Limit < 1 {
		return usageError("--limit must be positive")
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	var out node.Listed
	err := node.Ask(a.ctx, a.dir.Socket(), "GET", "/list", url.Values{
		"kind": {c.Kind}, "namespace": {c.Namespace}, "limit": {strconv.Itoa(c.Limit)},
	}, &out)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			out, err = node.List(a.dir, s, c.Kind, c.Namespace, c.Limit)
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		for _, item := range out.Items {
			fmt.Fprintln(w, visible(string(item)))
		}
		if out.More {
			fmt.Fprintf(a.stderr, "there are more than %d; give a larger --limit\n", c.Limit)
		}
	})
}
