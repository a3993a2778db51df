package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"assay/ledger/broker"
)

const (
	keepEvery = time.Second
	// A restart that did not help is repeated after a pause that doubles, until
	// the store was well for as long as the longest one.
	firstRestart = time.Second
	lastRestart  = time.Minute
)

// store is what the keeper watches; *broker.Broker implements it.
type store interface {
	Check() error
	Restart(ctx context.Context) error
}

// keeper restarts the embedded broker once there is room after its store
// failed: from the first failed write on the server refuses every other, and
// only a restart mends that. Clients reconnect by themselves.
type keeper struct {
	store store
	free  func() (uint64, error) // on the broker's disk
	mark  uint64
	log   zerolog.Logger

	pause     time.Duration // before the next restart
	notBefore time.Time
	restarted time.Time

	mu     sync.Mutex
	status keeperStatus
}

type keeperStatus struct {
	failed   string // why the store takes no writes, "" while it does
	restarts int
	reason   string // of the last restart
}

func (k *keeper) read() keeperStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *keeper) update(fn func(*keeperStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn(&k.status)
}

// run looks at the store until ctx ends.
func (k *keeper) run(ctx context.Context) {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			k.look(ctx, now)
		}
	}
}

// look restarts a failed store, if there is room and the last attempt is long
// enough ago.
func (k *keeper) look(ctx context.Context, now time.Time) {
	why := k.store.Check()
	if why == nil {
		k.update(func(s *keeperStatus) { s.failed = "" })
		if now.Sub(k.restarted) >= lastRestart {
			k.pause = 0
		}
		return
	}
	detail := why.Error()
	free, err := k.free()
	short := err == nil && free < k.mark
	if short {
		detail = fmt.Sprintf("%s; waits for room: %d bytes free, the mark is %d", detail, free, k.mark)
	}
	if k.read().failed == "" {
		k.log.Error().Err(why).Uint64("free_bytes", free).Msg("the broker's store failed")
	}
	k.update(func(s *keeperStatus) { s.failed = detail })
	if short || now.Before(k.notBefore) {
		return
	}
	k.pause = min(max(2*k.pause, firstRestart), lastRestart)
	k.notBefore, k.restarted = now.Add(k.pause), now
	k.update(func(s *keeperStatus) { s.restarts++; s.reason = why.Error() })
	k.log.Warn().Err(why).Uint64("free_bytes", free).Msg("restart the broker")
	if err := k.store.Restart(ctx); err != nil {
		k.log.Error().Err(err).Dur("again_in", k.pause).Msg("restart the broker")
		k.update(func(s *keeperStatus) { s.failed = err.Error() })
		return
	}
	k.look(ctx, now) // now it is well, or the next look is after the pause
}

// brokerServing is the state of a broker whose store takes writes.
const brokerServing = "serving"

// BrokerStatus is what is known of an embedded broker.
type BrokerStatus struct {
	State     string  `json:"state"`               // serving or failed
	Detail    string  `json:"detail,omitzero"`     // why it failed, and what it waits for
	FreeBytes *uint64 `json:"free_bytes,omitzero"` // on its disk
	StoreUsed *uint64 `json:"store_used,omitzero"` // bytes that the streams hold
	StoreRoom *uint64 `json:"store_room,omitzero"` // before its store limit
	Restarts  int     `json:"restarts"`            // after a failure of the store, since the start
	Restarted string  `json:"restarted,omitzero"`  // why, the last time
}

// kept is an embedded broker with its keeper.
type kept struct {
	*broker.Broker
	dir    Dir
	keeper *keeper
	cancel context.CancelFunc
	done   chan struct{}
}

// startBroker starts an embedded broker and watches its store until stop.
func startBroker(cfg UpConfig) (*kept, error) {
	b, err := broker.Start(broker.Config{Dir: string(cfg.Dir), Port: cfg.Port, MaxStore: cfg.MaxStore, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	k := &kept{Broker: b, dir: cfg.Dir, done: make(chan struct{})}
	k.keeper = &keeper{store: b, free: cfg.Dir.FreeBytes, mark: cfg.lowWater(), log: cfg.Log}
	var ctx context.Context
	ctx, k.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(k.done)
		k.keeper.run(ctx)
	}()
	return k, nil
}

func (k *kept) stop() error {
	k.cancel()
	<-k.done
	return stopBroker(k.Broker)
}

// statusOf asks broker and disk.
func (k *kept) statusOf() *BrokerStatus {
	seen := k.keeper.read()
	s := &BrokerStatus{State: brokerServing, Restarts: seen.restarts, Restarted: seen.reason}
	if seen.failed != "" {
		s.State, s.Detail = "failed", seen.failed
	}
	if free, err := k.dir.FreeBytes(); err == nil {
		s.FreeBytes = &free
	}
	if used, room, err := k.StoreUse(); err == nil {
		s.StoreUsed, s.StoreRoom = &used, &room
	}
	return s
}

// ready says why the broker does not do its job; nothing if it does.
func (k *kept) ready() []string {
	if seen := k.keeper.read(); seen.failed != "" {
		return []string{"the broker's store takes no writes: " + seen.failed}
	}
	if k.ClientURL() == "" {
		return []string{"the broker is not running"}
	}
	return nil
}
