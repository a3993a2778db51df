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
	Kind      string `arg:"" help:"audits, blobs, canaries, claims, episodes, experiments, hypotheses, opportunities, orphans, parked, predictions, queries, rejections, scans, sequences, shadow, skews, tool_calls or weeks."`
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
	out, err := a.list(c.Kind, c.Namespace, c.Limit)
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

// list asks the running projector, or reads the views when none runs.
func (a *app) list(kind, namespace string, limit int) (out node.Listed, err error) {
	if err := a.dir.Check(); err != nil {
		return out, err
	}
	err = node.Ask(a.ctx, a.dir.Socket(), "GET", "/list", url.Values{
		"kind": {kind}, "namespace": {namespace}, "limit": {strconv.Itoa(limit)},
	}, &out)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			out, err = node.List(a.dir, s, kind, namespace, limit)
			return err
		})
	}
	return out, err
}
