package main

import (
	"fmt"
	"io"
	"strings"

	"assay/events"
	"assay/events/publish"
	"assay/ledger"
)

type foreignCmd struct {
	Ack foreignAckCmd `cmd:"" help:"Acknowledge a message that somebody else wrote into the ledger's stream; readers give it no effect."`
}

type foreignAckCmd struct {
	evidenceFlags
	Seq  uint64 `arg:"" help:"Position of the message, as status names it."`
	As   string `help:"Operator who acknowledges." default:"operator/main" placeholder:"ROLE/NAME"`
	NKey string `name:"nkey" help:"File with the seed of --as." type:"path" placeholder:"FILE"`
}

// acknowledged is the receipt of an acknowledgement.
type acknowledged struct {
	Foreign ledger.Seq `json:"foreign"`
	SHA256  string     `json:"sha256"` // leaf hash of the message
	publish.Receipt
}

func (c *foreignAckCmd) Run(a *app) error {
	if !strings.HasPrefix(c.As, "operator/") {
		return usageError("only an operator acknowledges, not %s", c.As)
	}
	if c.File != "" {
		return usageError("an export cannot be written to")
	}
	seq := ledger.Seq(c.Seq)
	body, err := c.message(a, seq)
	if err != nil {
		return err
	}
	if _, err := ledger.ParseRecord(body); err == nil {
		// A record in form may still be foreign; the logger knows.
		a.log.Warn().Uint64("seq", c.Seq).Msg("this message has the form of a record")
	}
	out := acknowledged{Foreign: seq, SHA256: ledger.Leaf(body).String()}
	component, capture := "assay foreign ack", "live"
	ev, err := events.Maker{Source: "urn:assay:operator"}.New(&events.ForeignAcknowledged{
		Context: events.Context{Component: &component, Capture: &capture, Author: &c.As}, Seq: c.Seq, SHA256: out.SHA256,
	})
	if err != nil {
		return err
	}
	raw, err := events.Encode(ev)
	if err != nil {
		return err
	}
	emit := emitCmd{As: c.As, NATS: c.NATS, CredsDir: c.CredsDir, NKey: c.NKey}
	if out.Receipt, err = emit.publish(a.ctx, a, raw); err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "acknowledged message %d (%s)\n", out.Foreign, out.SHA256)
	})
}

func (c *foreignAckCmd) message(a *app, seq ledger.Seq) (body []byte, err error) {
	e, err := c.open(a)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	err = e.Read(a.ctx, seq, seq, func(s ledger.Seq, b []byte) error {
		if s == seq {
			body = b
		}
		return nil
	})
	if err == nil && body == nil {
		err = fmt.Errorf("the ledger holds no message %d", seq)
	}
	return body, err
}
