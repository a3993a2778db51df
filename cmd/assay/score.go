package main

import (
	"io"
	"net/url"

	"assay/cmd/internal/node"
	"assay/projector"
	"assay/projector/metric"
)

type scoreCmd struct {
	Namespace string `help:"Namespace to score." default:"production"`
}

func (c *scoreCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	score := &metric.Score{}
	err := node.Ask(a.ctx, a.dir.Socket(), "GET", "/score", url.Values{"namespace": {c.Namespace}}, score)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			score, err = metric.Compute(s, c.Namespace)
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.print(score, func(w io.Writer) { printScore(w, score) })
}

func printScore(w io.Writer, s *metric.Score) {
	_, _ = io.WriteString(w, visible(s.Text()))
}
