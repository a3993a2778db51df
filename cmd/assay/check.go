package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/mod/sumdb/note"

	"assay/cmd/internal/node"
	"assay/ledger"
)

type checkCmd struct {
	File    string `arg:"" help:"Proof that prove wrote." type:"existingfile"`
	Key     string `help:"Verifier key of the log, or a file that holds it. Default: DIR/logger/key.pub." placeholder:"KEY"`
	Pin     string `help:"Take the key, and for a consistency proof the older head, from this file of verify." type:"existingfile" placeholder:"FILE"`
	Receipt string `help:"File with a receipt: is this the record that was acknowledged?" type:"existingfile" placeholder:"FILE"`
	Old     string `help:"File with the older signed checkpoint that a consistency proof starts from." type:"existingfile" placeholder:"FILE"`
}

// checked is what a proof file was found to be.
type checked struct {
	Verdict ledger.Verdict `json:"verdict"`
	Kind    string         `json:"kind"`   // inclusion or consistency
	Origin  string         `json:"origin"` // as the checkpoint says
	Size    uint64         `json:"size"`
	Root    string         `json:"root"`
	Since   *uint64        `json:"since,omitzero"`   // consistency: the older size
	Record  *recordView    `json:"record,omitzero"`  // inclusion
	Receipt *bool          `json:"receipt,omitzero"` // null without one
	Finding *string        `json:"finding"`
}

// errBadReceipt means that a proof is good and of another record.
var errBadReceipt = errors.New("the receipt is not of this record")

func (c *checkCmd) Run(a *app) error {
	raw, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	var pin *node.Pin
	if c.Pin != "" {
		if pin, err = node.LoadPin(c.Pin); err != nil {
			return err
		}
	}
	key, err := node.LoadKey(node.AnchorConfig{Dir: a.dir, Key: c.Key, Pin: pin})
	if err != nil {
		return err
	}
	var out checked
	if ledger.IsInclusionProof(raw) {
		out, err = c.inclusion(raw, key)
	} else {
		out, err = c.consistency(raw, key, pin)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if err := a.print(out, out.print); err != nil {
		return err
	}
	return verdictError(out.Verdict)
}

// conclude turns what a check said into a verdict; an error that is not about
// the proof is returned.
func (o *checked) conclude(err error, key note.Verifier) error {
	switch {
	case err == nil && key == nil:
		o.Verdict = ledger.Unanchored
		o.Finding = ptr("there is no key to check the checkpoint's signature with: the path leads to its root, which anybody may have written")
	case err == nil:
		o.Verdict = ledger.Consistent
	case errors.Is(err, ledger.ErrBadProof), errors.Is(err, ledger.ErrBadCheckpoint), errors.Is(err, ledger.ErrSize),
		errors.Is(err, ledger.ErrCorrupt), errors.Is(err, ledger.ErrUnsupportedVersion), errors.Is(err, errBadReceipt):
		o.Verdict = ledger.Inconsistent
		o.Finding = ptr(err.Error())
	default:
		return err
	}
	return nil
}

func (c *checkCmd) inclusion(raw []byte, key note.Verifier) (checked, error) {
	out := checked{Kind: "inclusion"}
	if c.Old != "" {
		return out, usageError("--old goes with a consistency proof")
	}
	p, err := ledger.ParseInclusionProof(raw)
	if err != nil {
		return out, err
	}
	cp, err := ledger.ParseCheckpoint(p.Checkpoint)
	if err != nil {
		return out, out.conclude(err, key)
	}
	out.describe(cp.Checkpoint)
	if key != nil {
		_, _, err = p.Check(key)
	} else {
		err = ledger.CheckInclusion(p.Path, p.Index, ledger.Leaf(p.Body), cp.Size, cp.Root)
	}
	if err == nil {
		view := viewRecord(ledger.Seq(p.Index)+1, p.Body)
		out.Record = &view
		if c.Receipt != "" {
			err = c.checkReceipt(&out)
		}
	}
	return out, out.conclude(err, key)
}

func (c *checkCmd) checkReceipt(out *checked) error {
	r, err := readReceipt(c.Receipt)
	if err != nil {
		return err
	}
	v := out.Record
	same := r.Leaf == v.Leaf && (r.Seq == nil || ledger.Seq(*r.Seq) == v.Seq) && (r.RecordedAt == "" || r.RecordedAt == v.RecordedAt)
	out.Receipt = &same
	if !same {
		return fmt.Errorf("%w: it names leaf %s", errBadReceipt, r.Leaf)
	}
	return nil
}

func (c *checkCmd) consistency(raw []byte, key note.Verifier, pin *node.Pin) (checked, error) {
	out := checked{Kind: "consistency"}
	if c.Receipt != "" {
		return out, usageError("--receipt goes with the proof of a record")
	}
	p, err := ledger.ParseConsistencyProof(raw)
	if err != nil {
		return out, err
	}
	out.Since = &p.Old
	cp, err := ledger.ParseCheckpoint(p.Checkpoint)
	if err != nil {
		return out, out.conclude(err, key)
	}
	out.describe(cp.Checkpoint)
	old, err := c.older(key, pin)
	if err != nil {
		return out, out.conclude(err, key)
	}
	if old == nil {
		out.Verdict = ledger.CouldNotCompare
		out.Finding = ptr("the proof starts from a head that was not given: name the older checkpoint with --old, or --pin")
		return out, nil
	}
	if key != nil {
		_, err = p.Check(*old, key)
	} else {
		err = ledger.CheckConsistency(p.Path, *old, cp.Checkpoint)
	}
	return out, out.conclude(err, key)
}

// older is the head that a consistency proof starts from; nil if none was given.
func (c *checkCmd) older(key note.Verifier, pin *node.Pin) (*ledger.Checkpoint, error) {
	switch {
	case c.Old != "" && key != nil:
		raw, err := os.ReadFile(c.Old)
		if err != nil {
			return nil, err
		}
		cp, err := ledger.OpenCheckpoint(raw, key)
		return &cp, err
	case c.Old != "":
		cp, err := node.ReadCheckpoint(c.Old)
		return &cp.Checkpoint, err
	case pin != nil:
		return pin.Head(), nil
	}
	return nil, nil
}

func (o *checked) describe(cp ledger.Checkpoint) {
	o.Origin, o.Size, o.Root = cp.Origin, cp.Size, cp.Root.String()
}

func (o *checked) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", o.Kind, o.Verdict)
	if o.Root != "" {
		fmt.Fprintf(w, "log         %s\nsize        %d\nroot        %s\n", visible(o.Origin), o.Size, o.Root)
	}
	if o.Since != nil {
		fmt.Fprintf(w, "begins with the log of size %d\n", *o.Since)
	}
	if r := o.Record; r != nil {
		fmt.Fprintf(w, "record      %d\nleaf        %s\nrecorded at %s\nprincipal   %s\nnamespace   %s\n%s\n",
			r.Seq, r.Leaf, r.RecordedAt, r.Principal, r.Namespace, visible(string(r.Event)))
	}
	if o.Receipt != nil && *o.Receipt {
		fmt.Fprintln(w, "receipt     is of this record")
	}
	if o.Finding != nil {
		fmt.Fprintf(w, "finding     %s\n", visible(*o.Finding))
	}
}

func ptr[T any](v T) *T { return &v }
