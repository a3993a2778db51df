package node

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"assay/internal/durable"
	"assay/internal/kv"
	"assay/ledger/broker"
)

var (
	// ErrNoBroker means that no broker answers for a directory.
	ErrNoBroker = errors.New("no broker runs on this directory: start `assay up` or `assay serve broker`, or give --nats")
	// ErrRunning means that the service already runs on a directory.
	ErrRunning = errors.New("it already runs on this directory; `assay status` shows what does")
)

// explain says what the locks of a running service mean to whoever wanted to
// start a second one, and how the brokers of a cluster start.
func explain(err error) error {
	for _, held := range []error{broker.ErrLocked, durable.ErrLocked, kv.ErrLocked} {
		if errors.Is(err, held) {
			return fmt.Errorf("%w: %w", ErrRunning, err)
		}
	}
	if errors.Is(err, broker.ErrClustered) {
		return fmt.Errorf("%w; start one with `assay serve broker --node NAME`", err)
	}
	return err
}

const dialTimeout = 2 * time.Second

// localDialer finds the broker of a directory anew at each attempt, so that
// services survive a broker that comes back at another port.
type localDialer struct{ dir Dir }

// Dial implements nats.CustomDialer.
func (d localDialer) Dial(network, address string) (net.Conn, error) {
	if now, err := broker.ReadURL(string(d.dir)); err == nil {
		if u, err := url.Parse(now); err == nil && u.Host != "" {
			address = u.Host
		}
	}
	return net.DialTimeout(network, address, dialTimeout)
}

// whileIdle calls fn while no broker can start on the store; broker.ErrLocked
// if one runs. Where the lock cannot be made, as on a read-only copy of a
// directory, no broker could run either.
func (d Dir) whileIdle(fn func() error) error {
	lock, err := durable.TryLock(d.join("broker", "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return fmt.Errorf("%w: %s", broker.ErrLocked, broker.Dir(d).Store())
	}
	if err != nil {
		return fn()
	}
	return errors.Join(fn(), lock.Unlock())
}
