package main

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"assay/cmd/internal/node"
	"assay/internal/principal"
	"assay/ledger/broker"
)

type principalCmd struct {
	Add    principalAddCmd    `cmd:"" help:"Add a principal and make its credential."`
	List   principalListCmd   `cmd:"" help:"List the principals."`
	Revoke principalRevokeCmd `cmd:"" help:"Take a principal's access away; its records stay."`
}

type principalAddCmd struct {
	ID         string `arg:"" name:"role/name" help:"Role (agent, dispatcher, detector, resolver, sensor, harness, operator) and name."`
	Namespace  string `help:"Namespace of its records: production, sandbox, canary, shadow or bench/RUN." default:"production"`
	HideSeq    bool   `help:"Receipts do not tell the position in the ledger."`
	Rejections int    `help:"Rejections a second that get a record of their own; more are counted. 0: the default."`
}

type principalView struct {
	ID          string  `json:"id"`
	Namespace   string  `json:"namespace"`
	NKey        string  `json:"nkey"`
	ReceiptsSeq bool    `json:"receipts_seq"`
	RevokedAt   *string `json:"revoked_at"`
	Credential  string  `json:"credential,omitzero"`
	Live        *bool   `json:"live,omitzero"` // the running services took the change up
}

func viewOf(p principal.Principal) principalView {
	v := principalView{ID: p.ID(), Namespace: p.Namespace, NKey: p.NKey, ReceiptsSeq: p.ReceiptsSeq}
	if p.Revoked() {
		at := p.RevokedAt.UTC().Format(time.RFC3339)
		v.RevokedAt = &at
	}
	return v
}

func (c *principalAddCmd) Run(a *app) error {
	role, name, err := principal.ParseID(c.ID)
	if err != nil {
		return err
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	p := principal.New(role, name, c.Namespace)
	p.ReceiptsSeq, p.RejectionsPerSecond = !c.HideSeq, c.Rejections
	dir := principal.Dir(a.dir)
	if p, err = dir.Add(p); err != nil {
		return err
	}
	v := viewOf(p)
	v.Credential = dir.Credential(p.User())
	return a.changed(v, "added")
}

type principalRevokeCmd struct {
	ID string `arg:"" name:"role/name" help:"Principal to revoke."`
}

func (c *principalRevokeCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	dir := principal.Dir(a.dir)
	if err := dir.Revoke(c.ID, time.Now()); err != nil {
		return err
	}
	f, err := principal.Load(dir.Principals())
	if err != nil {
		return err
	}
	for _, p := range f.Principals {
		if p.ID() == c.ID {
			return a.changed(viewOf(p), "revoked")
		}
	}
	return fmt.Errorf("%s: %w", c.ID, principal.ErrUnknown)
}

// changed renders the broker's configuration anew and asks the running
// services to take it up.
func (a *app) changed(v principalView, verb string) error {
	if _, err := broker.WriteConfig(string(a.dir)); err != nil {
		return err
	}
	live := true
	sockets, err := a.dir.StatusSockets()
	if err != nil {
		return err
	}
	var failed error
	asked := 0
	for _, s := range sockets {
		var out map[string]bool
		switch err := node.Ask(a.ctx, s, "POST", "/reload", url.Values{}, &out); {
		case err == nil:
			asked++
		case isNotServed(err):
		default:
			live, failed = false, err
		}
	}
	live = live && asked > 0
	v.Live = &live
	if err := a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s (namespace %s)\n", verb, v.ID, v.Namespace)
		if v.Credential != "" {
			fmt.Fprintf(w, "credential  %s\n", v.Credential)
		}
		if !live {
			fmt.Fprintln(w, "No running service took it up: it holds from the next start on. An external broker must reload its configuration, and so must those of a cluster, once their directories below nodes/ are copied.")
		}
	}); err != nil {
		return err
	}
	return failed
}

type principalListCmd struct{}

func (c *principalListCmd) Run(a *app) error {
	if err := a.dir.Check(); err != nil {
		return err
	}
	f, err := principal.Load(principal.Dir(a.dir).Principals())
	if err != nil {
		return err
	}
	views := make([]principalView, len(f.Principals))
	for i, p := range f.Principals {
		views[i] = viewOf(p)
	}
	return a.print(views, func(w io.Writer) {
		for _, v := range views {
			state := "active"
			if v.RevokedAt != nil {
				state = "revoked " + *v.RevokedAt
			}
			fmt.Fprintf(w, "%-24s %-16s %s\n", v.ID, v.Namespace, state)
		}
	})
}
