package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"assay/cmd/internal/node"
	"assay/projector/ui"
)

type uiCmd struct {
	evidenceFlags
	Listen  string `help:"Address of the pages. Without a host, on loopback." default:"127.0.0.1:7777" placeholder:"[HOST:]PORT"`
	Public  bool   `help:"Let --listen name an address that other hosts can reach. The key crosses the network in the clear."`
	Reports string `help:"Show the weekly reports of this directory." type:"existingdir" placeholder:"DIR"`
}

// served is what the command prints at its start.
type served struct {
	Address string `json:"address"` // with the key
}

func (c *uiCmd) Run(a *app) error {
	addr, err := node.ListenAddress(c.Listen, c.Public)
	if errors.Is(err, node.ErrPublic) {
		return usageError("--listen: %w; --public allows it", err)
	}
	if err != nil {
		return usageError("--listen: %w", err)
	}
	if err := a.dir.Check(); err != nil {
		return err
	}
	e, err := c.open(a)
	if err != nil {
		return err
	}
	defer e.Close()
	source, err := node.OpenUISource(a.ctx, a.dir, e, a.log)
	if err != nil {
		return err
	}
	defer source.Close()
	return servePages(a, addr, func(addr, key string) (http.Handler, error) {
		return ui.New(ui.Config{Source: source, Addr: addr, Key: key, Reports: c.Reports, Log: a.log})
	}, "who has it reads the whole ledger")
}

// servePages listens, prints the address with a new key and serves pages until the
// command is stopped; may says what the key lets do.
func servePages(a *app, addr string, pages func(addr, key string) (http.Handler, error), may string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	key := rand.Text()
	h, err := pages(ln.Addr().String(), key)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	out := served{(&url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/", RawQuery: url.Values{"key": {key}}.Encode()}).String()}
	if err := a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "open %s\nThe key in it opens the pages until this command ends; %s.\n", out.Address, may)
	}); err != nil {
		return errors.Join(err, ln.Close())
	}
	return serveUntil(a.ctx, ln, h)
}

// serveUntil serves pages until ctx ends. Connections with live rows end with it.
func serveUntil(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return srv.Shutdown(end)
}
