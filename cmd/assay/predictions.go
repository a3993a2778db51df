package main

import (
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/resolver"
)

type predictionsCmd struct {
	Open       bool   `help:"Those without a verdict (the default)." xor:"which"`
	Due        bool   `help:"Of them those whose window and lateness have passed." xor:"which"`
	Unresolved bool   `help:"Those that ended without a verdict in the last 7 days, which late telemetry or a report can still change." xor:"which"`
	Principal  string `help:"Only those of this principal." placeholder:"ROLE/NAME"`
	Limit      int    `help:"List at most this many." default:"1000"`
}

func (c *predictionsCmd) Run(a *app) error {
	if c.Limit < 1 {
		return usageError("--limit must be positive")
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	q := resolver.WorkQuery{Which: resolver.WorkOpen, Principal: c.Principal, Limit: c.Limit}
	switch {
	case c.Due:
		q.Which = resolver.WorkDue
	case c.Unresolved:
		q.Which = resolver.WorkUnresolved
	}
	list, err := node.AskWorkList(a.ctx, a.dir, q)
	if isNotServed(err) {
		list, err = c.fold(a, q)
	}
	if err != nil {
		return err
	}
	return a.print(list, func(w io.Writer) {
		for _, p := range list.Items {
			fmt.Fprintf(w, "%s  %s  record %d  %s\n  %s\n", visible(p.PredID), p.Principal, p.Seq, p.State, visible(p.Why))
			for _, seq := range p.Reports {
				fmt.Fprintf(w, "  record %d reports an outcome\n", seq)
			}
		}
		fmt.Fprintf(w, "%d predictions, as of record %d", len(list.Items), list.Seq)
		if list.More {
			fmt.Fprintf(w, "; there are more, give a larger --limit")
		}
		fmt.Fprintln(w)
	})
}

// fold makes the list here, for no resolver runs.
func (c *predictionsCmd) fold(a *app, q resolver.WorkQuery) (resolver.WorkList, error) {
	e, err := (evidenceFlags{}).open(a)
	if err != nil {
		return resolver.WorkList{}, err
	}
	defer e.Close()
	show, end := progress[ledger.Seq](a, "folding")
	defer end()
	return node.FoldWorkList(a.ctx, a.dir, e, q, show)
}
