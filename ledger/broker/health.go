package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrStoreFailed means that the broker refuses to write to its store. It does
// so from the first failed write on, until it is restarted.
var ErrStoreFailed = errors.New("the broker's store failed")

// Check says whether the store takes writes: nil, ErrStoreFailed with what the
// server says of it, or ErrNotRunning. A stream that reached a limit is not
// failed: it takes writes again as soon as there is room.
func (b *Broker) Check() error {
	srv, err := b.server()
	if err != nil {
		return err
	}
	for _, e := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if storeFailed(e) {
			return fmt.Errorf("%w: %s", ErrStoreFailed, e.Error)
		}
	}
	return nil
}

// storeFailed says whether a fault is one of the store. Others, such as a stream
// that was not recovered, are nothing that a restart mends; and one of a cluster
// that waits for the others would only be farther behind after it.
func storeFailed(e server.HealthzError) bool {
	if strings.Contains(e.Error, "write error") {
		return true
	}
	waits := strings.Contains(e.Error, "meta leader") || strings.Contains(e.Error, "recovering")
	return e.Type == server.HealthzErrorJetStream && !waits
}

// StoreUse is how many bytes the streams hold, and how many they may still grow
// by before they reach the server's own limit, whatever the disk has.
func (b *Broker) StoreUse() (used, room uint64, err error) {
	srv, err := b.server()
	if err != nil {
		return 0, 0, err
	}
	info, err := srv.Jsz(nil)
	if err != nil {
		return 0, 0, fmt.Errorf("use of the store: %w", err)
	}
	if info.Disabled {
		return 0, 0, fmt.Errorf("%w: JetStream is off", ErrStoreFailed)
	}
	return info.Store, uint64(max(0, info.Config.MaxStore-int64(info.Store))), nil
}

// StoreRoom is StoreUse's room.
func (b *Broker) StoreRoom() (uint64, error) {
	_, room, err := b.StoreUse()
	return room, err
}
