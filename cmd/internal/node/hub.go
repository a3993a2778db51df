// Package node puts assay's services together in a process: it opens
// connections, stores and sockets and hands them to the packages that do the
// work. Commands call it; it decides nothing about records or scores.
package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/stream"
)

// Hub opens broker connections as the users of one credentials directory.
type Hub struct {
	creds    string
	embedded *broker.Broker // nil when the broker is elsewhere
	url      string
	// Monitor is the monitoring address of an external broker, "" if it has none;
	// of several, with commas between them.
	Monitor string
	// Cluster says that the streams there have copies on several brokers.
	Cluster bool
	// local is the directory of a broker that another process of assay runs on
	// this host, "" for any other.
	local Dir
}

// EmbeddedHub uses a broker of this process.
func EmbeddedHub(b *broker.Broker, credsDir string) *Hub {
	return &Hub{creds: credsDir, embedded: b, url: b.ClientURL()}
}

// RemoteHub uses the broker at url, or those of a cluster at several, with commas
// between them.
func RemoteHub(url, credsDir string) *Hub { return &Hub{creds: credsDir, url: url} }

// LocalHub uses the broker that runs on DIR, or the cluster that DIR is of.
func LocalHub(dir Dir) (*Hub, error) {
	if cluster, err := broker.LoadCluster(string(dir)); err != nil {
		return nil, err
	} else if cluster != nil {
		h := RemoteHub(cluster.URLs(), dir.Creds())
		h.Cluster = true
		return h, nil
	}
	url, err := broker.ReadURL(string(dir))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoBroker, err)
	}
	h := RemoteHub(url, dir.Creds())
	h.local = dir
	return h, nil
}

// awaitedHub is LocalHub for who can wait until a broker runs on DIR.
func awaitedHub(dir Dir) *Hub {
	h, err := LocalHub(dir)
	if err != nil { // the address is read anew at each attempt
		h = RemoteHub("nats://"+broker.DefaultListen, dir.Creds())
		h.local = dir
	}
	return h
}

// Replicas is how many copies of a stream there have to be.
func (h *Hub) Replicas() int {
	if h.Cluster {
		return broker.ClusterSize
	}
	return 1
}

// onHost says that the broker's store is on a disk of this host.
func (h *Hub) onHost() bool { return h.embedded != nil || h.local != "" }

// ErrUnsafeBroker means that the broker would lose or change what it acked.
var ErrUnsafeBroker = errors.New("the broker is not fit for a ledger")

// CheckBroker holds the broker's settings against what an ack promises: the
// streams' own over nc, and that it fsyncs before it acks. An external broker
// without a monitoring address does not tell; the mode is then unknown.
func (h *Hub) CheckBroker(ctx context.Context, nc *nats.Conn) (broker.SyncMode, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return broker.SyncUnknown, err
	}
	deviations, err := broker.CheckStreams(ctx, js, h.Replicas(), broker.LedgerStream, broker.QuarantineStream)
	if err != nil {
		return broker.SyncUnknown, err
	}
	var errs []error
	for _, d := range deviations {
		if d.Missing() {
			return broker.SyncUnknown, fmt.Errorf("the broker has no stream %s: %w", d.Stream, ErrNotInitialised)
		}
		errs = append(errs, fmt.Errorf("%w: %s", ErrUnsafeBroker, d))
	}
	mode, err := h.SyncMode(ctx)
	if err != nil {
		return mode, err
	}
	if mode == broker.SyncInterval {
		errs = append(errs, fmt.Errorf("%w: it acks up to minutes before it fsyncs; set jetstream { sync_interval: always }", ErrUnsafeBroker))
	}
	return mode, errors.Join(errs...)
}

// SyncMode says when the broker fsyncs, as far as it tells.
func (h *Hub) SyncMode(ctx context.Context) (broker.SyncMode, error) {
	if h.embedded != nil {
		return h.embedded.SyncMode(), nil
	}
	if h.local != "" {
		for _, socket := range []string{h.local.service("broker"), h.local.Socket()} { // alone, or under up
			var st Status
			if err := Ask(ctx, socket, "GET", "/status", nil, &st); err == nil && st.Sync != "" {
				return st.Sync, nil
			}
		}
	}
	// Of several brokers the one that says least counts.
	worst := broker.SyncAlways
	for _, monitor := range strings.Split(h.Monitor, ",") {
		mode, err := broker.ExternalSyncMode(ctx, monitor)
		if err != nil {
			return mode, err
		}
		if worst == broker.SyncAlways || mode == broker.SyncInterval {
			worst = mode
		}
	}
	return worst, nil
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
	if h.local != "" {
		opts = append([]nats.Option{nats.SetCustomDialer(localDialer{h.local})}, opts...)
	}
	var nc *nats.Conn
	var err error
	if inProcess && h.embedded != nil {
		nc, err = h.embedded.Connect(c, opts...)
	} else {
		nc, err = broker.Dial(h.url, c, opts...)
	}
	if h.local != "" && errors.Is(err, nats.ErrNoServers) {
		return nil, fmt.Errorf("%w (nothing answers at %s, which run/nats.url names; a broker that was killed leaves it behind)", ErrNoBroker, h.url)
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
