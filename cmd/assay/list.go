package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

type listCmd struct {
	Kind      string `arg:"" help:"One of ${kinds}."`
	Namespace string `help:"Namespace to list." default:"production"`
	Limit     int    `help:"List at most this many." default:"1000"`
	At        uint64 `help:"With graph or beliefs: as it stood behind this record." placeholder:"SEQ"`
	Cause     string `help:"With graph: edges of this cause."`
	Effect    string `help:"With graph: edges of this effect."`
}

func (c *listCmd) Run(a *app) error {
	if !slices.Contains(view.Kinds(), c.Kind) {
		return usageError("unknown kind %q, want one of %s", c.Kind, strings.Join(view.Kinds(), ", "))
	}
	if c.Limit < 1 || c.Limit > node.MaxListed {
		return usageError("--limit is %d, want 1 to %d; assay export jsonl --kind %s writes all of them", c.Limit, node.MaxListed, c.Kind)
	}
	graph := view.GraphQuery{At: ledger.Seq(c.At), Cause: c.Cause, Effect: c.Effect}
	switch {
	case c.At > 0 && c.Kind != view.Graph && c.Kind != view.Beliefs:
		return usageError("--at is for graph and beliefs")
	case (c.Cause != "" || c.Effect != "") && c.Kind != view.Graph:
		return usageError("--cause and --effect are for graph")
	}
	out, err := a.list(node.ListQuery{Kind: c.Kind, Namespace: c.Namespace, Limit: c.Limit, Graph: graph})
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		for _, item := range out.Items {
			fmt.Fprintln(w, visible(string(item)))
		}
		if out.More {
			fmt.Fprintf(a.stderr, "there are more than %d; give a larger --limit, or see assay export\n", c.Limit)
		}
	})
}

// list asks the running projector, or reads the views when none runs.
func (a *app) list(q node.ListQuery) (node.Listed, error) {
	return ofViews(a, "/list", q.Values(), func(s *projector.State) (node.Listed, error) { return node.List(a.dir, s, q) })
}
