package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"assay/cmd/internal/demo"
	"assay/cmd/internal/node"
)

type demoCmd struct {
	Keep bool `help:"Keep the demo's directory, to look around in it."`
}

func (c *demoCmd) Run(a *app) (err error) {
	dir, err := os.MkdirTemp("", "assay-demo-")
	if err != nil {
		return err
	}
	if !c.Keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	start := time.Now()
	say := func(format string, args ...any) {
		if !a.json {
			fmt.Fprintf(a.stdout, "%5.1fs  %s\n", time.Since(start).Seconds(), visible(fmt.Sprintf(format, args...)))
		}
	}
	r, err := demo.Run(a.ctx, demo.Config{Dir: node.Dir(dir), Software: software(), Say: say, Log: a.log})
	if err != nil && !errors.Is(err, demo.ErrNotAsPromised) {
		return err
	}
	if !c.Keep {
		r.Dir = "" // it is about to be removed
	}
	if perr := a.print(r, func(w io.Writer) { printDemo(w, r, c.Keep) }); perr != nil {
		return perr
	}
	return err
}

func printDemo(w io.Writer, r demo.Result, kept bool) {
	fmt.Fprintf(w, "\n%-26s %5s  %-11s %s\n", "PROMISE", "P", "VERDICT", "REASON")
	for _, p := range r.Resolved {
		reason := "-"
		if p.Reason != nil {
			reason = *p.Reason
		}
		fmt.Fprintf(w, "%-26s %5.2f  %-11s %s\n", strings.TrimPrefix(p.PredID, "pred-"), p.P, p.Verdict, visible(reason))
	}
	fmt.Fprintf(w, "\nledger   %d records, %d refused messages\n", r.Records, r.Rejected)
	fmt.Fprintf(w, "verify   %s, root %s\n", r.Verify.Verdict, r.Verify.Root)
	fmt.Fprintf(w, "tamper   a byte of record %d flipped in a copy: %s", r.Tamper.FlippedSeq, r.Tamper.Verdict)
	if r.Tamper.FirstBadSeq != nil {
		fmt.Fprintf(w, ", first bad record %d", *r.Tamper.FirstBadSeq)
	}
	match := "the same digest as the live views"
	if !r.Replay.Match {
		match = "NOT the digest of the live views"
	}
	fmt.Fprintf(w, "\nreplay   %s: %s\n\n", match, r.Replay.Digest)
	if r.Score != nil {
		_, _ = io.WriteString(w, visible(r.Score.Text()))
	}
	if kept {
		fmt.Fprintf(w, "\nkept in %s: try `assay --dir %s tail --from 1`\n", r.Dir, r.Dir)
	}
}

// hogCmd is the process that the demo's incident is about.
type hogCmd struct {
	MiB  int           `arg:""`
	Life time.Duration `arg:""`
}

func (c *hogCmd) Run(a *app) error {
	demo.Hog(context.WithoutCancel(a.ctx), c.MiB, c.Life)
	return nil
}
