package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/ledger"
	"assay/projector/ui"
)

type tailCmd struct {
	evidenceFlags
	From   uint64 `help:"First record. Default: the last ten." placeholder:"SEQ"`
	To     uint64 `help:"Last record." placeholder:"SEQ"`
	Follow bool   `help:"Go on with new records." short:"f"`
	Raw    bool   `help:"Print the stored bytes, one record a line, and nothing else: with --from 1, a plain export."`

	Type      string `help:"Only events of this type; claim.* are all that begin so." placeholder:"TYPE"`
	Principal string `help:"Only events of this principal." placeholder:"ROLE/NAME"`
	Namespace string `help:"Only events of this namespace."`
	Episode   string `help:"Only events of this episode." placeholder:"ID"`
}

func (c *tailCmd) filter() ui.Filter {
	return ui.Filter{Type: c.Type, Principal: c.Principal, Namespace: c.Namespace, Episode: c.Episode}
}

const (
	tailRecords = 10
	// tailSearch is how many records a filter looks back at without --from.
	tailSearch = 100_000
)

// recordView is how a record is printed with --json.
type recordView struct {
	Seq        ledger.Seq     `json:"seq"`
	Leaf       string         `json:"leaf"`
	RecordedAt string         `json:"recorded_at,omitzero"`
	Principal  string         `json:"principal,omitzero"`
	Namespace  string         `json:"namespace,omitzero"`
	Event      jsontext.Value `json:"event,omitzero"`
	// Foreign holds the bytes of a message that is no record.
	Foreign *string `json:"foreign,omitzero"`
	// Blob is what became of the content that the event's dataref names; only
	// `show` looks.
	Blob *node.BlobStatus `json:"blob,omitzero"`
}

func viewRecord(seq ledger.Seq, body []byte) recordView {
	r, err := ledger.ParseRecord(body)
	if err == nil {
		err = r.CheckEvent()
	}
	if err != nil {
		text := fmt.Sprintf("%q", body)
		return recordView{Seq: seq, Leaf: ledger.Leaf(body).String(), Foreign: &text}
	}
	return recordView{
		Seq: seq, Leaf: r.Leaf().String(), RecordedAt: ledger.FormatTime(r.RecordedAt),
		Principal: r.Principal, Namespace: r.Namespace, Event: r.Event,
	}
}

func (c *tailCmd) Run(a *app) error {
	if c.Follow && (c.To != 0 || c.File != "") {
		return usageError("--follow goes neither with --to nor with --file")
	}
	e, err := c.open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	last, err := e.Head(a.ctx)
	if err != nil {
		return err
	}
	from, to := ledger.Seq(c.From), ledger.Seq(c.To)
	if to == 0 {
		to = last
	}
	out := bufio.NewWriterSize(a.stdout, 1<<16)
	filter := c.filter()
	if from == 0 {
		if err := c.latest(a, e, out, min(to, last)); err != nil {
			return err
		}
		from = to + 1
	}
	if c.Follow {
		to = 0
	} else if from > to {
		return out.Flush()
	}
	err = e.Read(a.ctx, from, to, func(seq ledger.Seq, body []byte) error {
		if !filter.Passes(body) {
			return nil
		}
		err := c.write(a, out, seq, body)
		if err == nil && c.Follow {
			err = out.Flush()
		}
		return err
	})
	if a.ctx.Err() != nil {
		err = nil // asked to stop
	}
	return errors.Join(err, out.Flush())
}

// latest writes the last records up to to that the filter picks.
func (c *tailCmd) latest(a *app, e node.Evidence, out *bufio.Writer, to ledger.Seq) error {
	found, from, err := ui.Latest(a.ctx, e.Read, to+1, c.filter(), tailRecords, tailSearch)
	if err != nil {
		return err
	}
	if from > 1 && len(found) < tailRecords {
		fmt.Fprintf(a.stderr, "looked at the records from %d on; --from goes further back\n", from)
	}
	for _, m := range slices.Backward(found) {
		if err := c.write(a, out, m.Seq, m.Body); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (c *tailCmd) write(a *app, w *bufio.Writer, seq ledger.Seq, body []byte) error {
	if c.Raw {
		if bytes.IndexByte(body, '\n') >= 0 {
			return fmt.Errorf("message %d holds a line break, so that it is no record and cannot stand on a line; see `assay show %d`", seq, seq)
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}
	v := viewRecord(seq, body)
	return (&app{json: a.json, stdout: w}).print(v, func(w io.Writer) { fmt.Fprintln(w, v.line()) })
}

// line is the record on one line of text.
func (v recordView) line() string {
	if v.Foreign != nil {
		return fmt.Sprintf("%d  FOREIGN %s", v.Seq, visible(*v.Foreign))
	}
	ev, err := events.DecodeEnvelope(v.Event)
	if err != nil {
		return fmt.Sprintf("%d  %s  %s  %v", v.Seq, v.RecordedAt, v.Principal, err)
	}
	return fmt.Sprintf("%d  %s  %-16s %-12s %-28s %s", v.Seq, v.RecordedAt, v.Principal, v.Namespace, ev.Type, visible(string(ev.RawData)))
}
