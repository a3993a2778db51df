package main

import (
	"fmt"
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
	out := scored{Score: score}
	if anchor, err := node.LoadAnchor(node.AnchorConfig{Dir: a.dir}); err == nil && len(anchor.Signed) > 0 {
		out.CheckpointSize = &anchor.Signed[0].Size
	}
	return a.print(out, func(w io.Writer) {
		printScore(w, score)
		out.printSigned(w)
	})
}

// scored says beside a score how much of what it rests on is signed: views may
// run ahead of the last checkpoint.
type scored struct {
	*metric.Score
	CheckpointSize *uint64 `json:"checkpoint_size"` // null without a readable checkpoint
}

func (s scored) printSigned(w io.Writer) {
	switch seq := uint64(s.Inputs.Seq); {
	case s.CheckpointSize == nil:
		fmt.Fprintf(w, "%-22s no checkpoint was found to hold these records against\n", "signed")
	case *s.CheckpointSize < seq:
		fmt.Fprintf(w, "%-22s up to record %d; the last %d that this score rests on are not yet\n", "signed", *s.CheckpointSize, seq-*s.CheckpointSize)
	default:
		fmt.Fprintf(w, "%-22s every record that this score rests on\n", "signed")
	}
}

func printScore(w io.Writer, s *metric.Score) {
	_, _ = io.WriteString(w, visible(s.Text()))
}
