package main

import (
	"errors"
	"fmt"
	"io"

	"assay/cmd/internal/node"
	"assay/ledger"
	"assay/resolver"
)

type resolveCmd struct {
	evidenceFlags
	Replay bool   `help:"Fold the ledger and its segments again, from record 1, and compare." required:""`
	To     uint64 `help:"Last record to fold. Default: the head." placeholder:"SEQ"`
}

func (c *resolveCmd) Run(a *app) error {
	e, err := c.open(a)
	if err != nil {
		return notCompared(err)
	}
	defer e.Close()
	show, end := progress[ledger.Seq](a, "resolving")
	r, err := node.ReplayResolutions(a.ctx, a.dir, e, ledger.Seq(c.To), show)
	end()
	switch {
	case errors.Is(err, resolver.ErrBroken):
		return err // it was read, and does not hold
	case err != nil:
		return notCompared(err)
	}
	if err := a.print(r, func(w io.Writer) { printResolutions(w, r) }); err != nil {
		return err
	}
	switch {
	case len(r.Differences) > 0:
		return errDoesNotHold
	case r.Compared() == 0:
		return &exitError{code: exitNotCompare}
	}
	return nil
}

func printResolutions(w io.Writer, r resolver.Replayed) {
	fmt.Fprintf(w, "folded      %d records\ncompared    %d resolutions and %d amendments, %d of them to the byte\n", r.Seq, r.Resolutions, r.Amendments, r.SameBytes)
	if r.Pending > 0 {
		fmt.Fprintf(w, "pending     %d that the resolver has not written yet\n", r.Pending)
	}
	for _, s := range r.Others {
		fmt.Fprintf(w, "other       record %d resolves %s by engine %s: not comparable\n", s.Seq, visible(s.PredID), visible(s.Engine))
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "DIFFERENT   %s", visible(d.PredID))
		if d.Principal != "" {
			fmt.Fprintf(w, " of %s", d.Principal)
		}
		if d.Seq > 0 {
			fmt.Fprintf(w, ", record %d", d.Seq)
		}
		fmt.Fprintf(w, ": %s is %q, recomputed %q\n", d.Field, d.Stored, d.Recomputed)
	}
	switch {
	case len(r.Differences) > 0:
	case r.Compared() == 0:
		fmt.Fprintln(w, "There was nothing to compare: no resolution of this engine.")
	default:
		fmt.Fprintln(w, "match       each is what the ledger and its segments call for")
	}
}
