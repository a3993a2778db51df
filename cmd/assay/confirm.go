package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/events/publish"
	"assay/internal/principal"
)

type confirmCmd struct {
	Pred      string `arg:"" help:"Prediction that the outcome is of."`
	Verdict   string `help:"What the outcome says of it: confirmed or refuted." enum:"confirmed,refuted" required:""`
	Note      string `help:"What was seen, in words." required:""`
	Source    string `help:"What it was seen by: operator_report, record or sandbox." enum:"operator_report,record,sandbox" default:"operator_report"`
	Principal string `help:"Whose prediction it is. Default: its one principal, as the views know it." placeholder:"ROLE/NAME"`
	As        string `help:"Operator who reports." default:"operator/main" placeholder:"ROLE/NAME"`
	NATS      string `name:"nats" help:"Publish to the broker at this address." placeholder:"URL"`
	CredsDir  string `help:"Directory with the credential of --as, for --nats." type:"path" placeholder:"DIR"`
	NKey      string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

// confirmed is the receipt of a report.
type confirmed struct {
	Principal string `json:"principal"`
	PredID    string `json:"pred_id"`
	Verdict   string `json:"verdict"`
	Source    string `json:"source"`
	publish.Receipt
}

func (c *confirmCmd) Run(a *app) error {
	if !strings.HasPrefix(c.As, "operator/") {
		return usageError("only an operator reports an outcome, not %s", c.As)
	}
	if c.Principal == "" {
		var err error
		if c.Principal, err = c.predictedBy(a); err != nil {
			return err
		}
	} else if _, _, err := principal.ParseID(c.Principal); err != nil {
		return usageError("--principal: %v", err)
	}
	component, capture := "assay confirm", "live"
	ev, err := events.Maker{Source: "urn:assay:operator"}.New(&events.OutcomeRecorded{
		Context: events.Context{Component: &component, Capture: &capture, Author: &c.As},
		What:    c.Note, Source: c.Source, Direct: c.Source != "operator_report",
		PredID: &c.Pred, PredPrincipal: &c.Principal, Verdict: &c.Verdict,
	})
	if err != nil {
		return err
	}
	raw, err := events.Encode(ev)
	if err != nil {
		return err
	}
	emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
	out := confirmed{Principal: c.Principal, PredID: c.Pred, Verdict: c.Verdict, Source: c.Source}
	if out.Receipt, err = emit.publish(a.ctx, a, raw); err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "reported %s of %s by %s, a report and no instrument: it counts only where telemetry leaves the prediction unknown\n",
			out.Verdict, visible(out.PredID), out.Principal)
		if out.Seq != nil {
			fmt.Fprintf(w, "receipt     %d %s %s\n", *out.Seq, out.Leaf, out.RecordedAt)
		}
	})
}

// predictedBy finds the one principal that has a prediction of this id.
func (c *confirmCmd) predictedBy(a *app) (string, error) {
	found, err := a.find(c.Pred)
	switch {
	case errors.Is(err, node.ErrNotFound) || err == nil && len(found.Predictions) == 0:
		return "", fmt.Errorf("no prediction %q is known here; if another ledger has it, name its --principal", c.Pred)
	case err != nil:
		return "", fmt.Errorf("whose prediction it is, is not known (give --principal): %w", err)
	}
	who := found.Predictions[0].Principal
	for _, p := range found.Predictions {
		if p.Principal != who {
			return "", usageError("%s and %s both have a prediction %q; give --principal", who, p.Principal, c.Pred)
		}
	}
	return who, nil
}
