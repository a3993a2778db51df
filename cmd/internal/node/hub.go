// Package node puts assay's services together in a process: it opens
// connections, stores and sockets and hands them to the packages that do the
// work. Commands call it; it decides nothing about records or scores.
package node

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// Hub opens broker connections as the users of one credentials directory.
type Hub struct {
	creds    string
	embedded *broker.Broker // nil when the broker is elsewhere
	url      string
}

// EmbeddedHub uses a broker of this process.
func EmbeddedHub(b *broker.Broker, credsDir string) *Hub {
	return &Hub{creds: credsDir, embedded: b, url: b.ClientURL()}
}

// RemoteHub uses the broker at url.
func RemoteHub(url, credsDir string) *Hub { return &Hub{creds: credsDir, url: url} }

// LocalHub uses the broker that runs on DIR.
func LocalHub(dir Dir) (*Hub, error) {
	url, err := broker.ReadURL(string(dir))
	if err != nil {
		return nil, fmt.Errorf("no broker runs on %s: %w", dir, err)
	}
	return RemoteHub(url, dir.Creds()), nil
}

// URL is the broker's address.
func (h *Hub) URL() string { return h.url }

// Connect opens a connection as user: role.name, or one of principal's service
// users. It goes over loopback or the network.
func (h *Hub) Connect(user string, opts ...nats.Option) (*nats.Conn, error) {
	return h.dial(user, false, opts)
}

// ConnectInProcess is Connect without a socket where the broker is in this
// process: faster for appends, slower for reads.
func (h *Hub) ConnectInProcess(user string, opts ...nats.Option) (*nats.Conn, error) {
	return h.dial(user, true, opts)
}

func (h *Hub) dial(user string, inProcess bool, opts []nats.Option) (*nats.Conn, error) {
	c, err := principal.LoadCredential(principal.CredentialPath(h.creds, user))
	if err != nil {
		return nil, fmt.Errorf("credential of %s: %w", user, err)
	}
	return h.DialAs(c, inProcess, opts...)
}

// DialAs connects with a credential from elsewhere.
func (h *Hub) DialAs(c principal.Credential, inProcess bool, opts ...nats.Option) (*nats.Conn, error) {
	var nc *nats.Conn
	var err error
	if inProcess && h.embedded != nil {
		nc, err = h.embedded.Connect(c, opts...)
	} else {
		nc, err = broker.Dial(h.url, c, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the broker at %s as %s: %w", h.url, c.User, err)
	}
	return nc, nil
}

// OpenReader opens the LEDGER stream for reading as one of the read users. The
// caller closes the connection.
func (h *Hub) OpenReader(user string) (*stream.Stream, *nats.Conn, error) {
	nc, err := h.Connect(user)
	if err != nil {
		return nil, nil, err
	}
	s, err := stream.New(nc, stream.Config{APIPrefix: broker.ReadPrefix})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return s, nc, nil
}
