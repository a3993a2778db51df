package main

import (
	"errors"
	"net/url"
	"strconv"

	"assay/cmd/internal/node"
	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

type showCmd struct {
	evidenceFlags
	Ref       string `arg:"" name:"seq|id" help:"Record number, or the id of an event or of anything that assay list lists by id. Or shadow, and a claim's id."`
	Claim     string `arg:"" optional:"" name:"claim" help:"With shadow: the claim."`
	Namespace string `help:"With shadow: namespace of the claim." default:"production"`
}

func (c *showCmd) Run(a *app) error {
	if c.Ref == view.Shadow && c.Claim != "" {
		return c.shadow(a)
	}
	if c.Claim != "" {
		return usageError("show takes one id, or shadow and a claim's")
	}
	if seq, err := strconv.ParseUint(c.Ref, 10, 64); err == nil && seq > 0 {
		v, err := c.record(a, ledger.Seq(seq))
		if err == nil {
			v.Blob, err = c.blob(a, v.Event)
		}
		if err != nil {
			return err
		}
		return a.printJSON(v)
	}
	found, err := a.find(c.Ref)
	if err != nil {
		return err
	}
	return a.printJSON(found)
}

// find looks an id up in the views, of the service that runs or on disk.
func (a *app) find(ref string) (view.Found, error) {
	return ofViews(a, "/show", url.Values{"ref": {ref}}, func(s *projector.State) (view.Found, error) { return node.Show(s, ref) })
}

// shadow shows a claim as it stood before its outcome was known.
func (c *showCmd) shadow(a *app) error {
	query := url.Values{"claim": {c.Claim}, "namespace": {c.Namespace}}
	sc, err := ofViews(a, "/shadow", query, func(s *projector.State) (*view.ShadowCase, error) {
		return node.ShowShadow(s, c.Namespace, c.Claim)
	})
	if err != nil {
		return err
	}
	return a.printJSON(sc)
}

// blob says what became of the content that the event names; nil when it names
// none in the blob store of DIR.
func (c *showCmd) blob(a *app, event []byte) (*node.BlobStatus, error) {
	ev, err := events.DecodeEnvelope(event)
	if err != nil || c.File != "" || c.NATS != "" {
		return nil, nil
	}
	if _, ok := blob.ParseRef(ev.DataRef); !ok {
		return nil, nil
	}
	var b node.BlobStatus
	err = node.Ask(a.ctx, a.dir.Socket(), "GET", "/blob", url.Values{"ref": {ev.DataRef}}, &b)
	if isNotServed(err) {
		err = node.OpenViews(a.dir, func(s *projector.State) (err error) {
			b, err = node.StatBlob(a.dir, s, ev.DataRef)
			return err
		})
	}
	if errors.Is(err, node.ErrNoViews) {
		b, err = node.StatBlob(a.dir, nil, ev.DataRef)
	}
	return &b, err
}

func (c *showCmd) record(a *app, seq ledger.Seq) (v recordView, err error) {
	e, err := c.open(a)
	if err != nil {
		return v, err
	}
	defer e.Close()
	found := false
	err = e.Read(a.ctx, seq, seq, func(s ledger.Seq, body []byte) error {
		if s == seq {
			v, found = viewRecord(s, body), true
		}
		return nil
	})
	if err == nil && !found {
		err = &exitError{exitDoesNot, node.ErrNotFound}
	}
	return v, err
}
