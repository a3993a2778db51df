// Package brokertest starts a real broker in a test's own directory, with the
// default principals and the streams made.
package brokertest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger/broker"
)

// Env is a broker on a fresh directory.
type Env struct {
	Dir        string
	Offline    string
	Principals *principal.File
	Broker     *broker.Broker
	tb         testing.TB
}

// New starts a broker; the test's end stops it.
func New(tb testing.TB) *Env {
	tb.Helper()
	e := &Env{Dir: tb.TempDir(), Offline: tb.TempDir(), tb: tb}
	var err error
	if e.Principals, _, err = principal.Dir(e.Dir).Init(e.Offline); err != nil {
		tb.Fatal(err)
	}
	if e.Broker, err = broker.Start(broker.Config{Dir: e.Dir}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Broker.Stop(ctx); err != nil {
			tb.Error(err)
		}
	})
	store, telemetry := e.offline(principal.BootstrapStore), e.offline(principal.BootstrapTelemetry)
	defer store.Close()
	defer telemetry.Close()
	if err := broker.CreateStreams(e.Context(), store, telemetry, 1); err != nil {
		tb.Fatal(err)
	}
	return e
}

// Context ends a while before a test that hangs would.
func (e *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	e.tb.Cleanup(cancel)
	return ctx
}

// Credential loads a principal's or service user's credential.
func (e *Env) Credential(user string) principal.Credential {
	e.tb.Helper()
	c, err := principal.LoadCredential(principal.Dir(e.Dir).Credential(user))
	if err != nil {
		e.tb.Fatal(err)
	}
	return c
}

func (e *Env) offline(user string) *nats.Conn {
	e.tb.Helper()
	c, err := principal.LoadCredential(filepath.Join(e.Offline, user+principal.CredentialSuffix))
	if err != nil {
		e.tb.Fatal(err)
	}
	return e.connect(c)
}

func (e *Env) connect(c principal.Credential, opts ...nats.Option) *nats.Conn {
	e.tb.Helper()
	nc, err := e.Broker.Connect(c, opts...)
	if err != nil {
		e.tb.Fatal(err)
	}
	e.tb.Cleanup(nc.Close)
	return nc
}

// Connect opens a connection as a user of DIR/creds.
func (e *Env) Connect(user string, opts ...nats.Option) *nats.Conn {
	e.tb.Helper()
	return e.connect(e.Credential(user), opts...)
}

// Bootstrap opens a connection that may change streams.
func (e *Env) Bootstrap() *nats.Conn {
	e.tb.Helper()
	return e.offline(principal.BootstrapStore)
}
