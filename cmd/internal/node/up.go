package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"assay/ledger/broker"
	"assay/ledger/logger"
)

// UpConfig says what `up` runs.
type UpConfig struct {
	Dir      Dir
	Port     int // loopback port of the broker; 0 lets the system choose
	Software string
	Log      zerolog.Logger
	// LowWater is the room in bytes below which the intake takes nothing but
	// the resolver's and the operator's events, and which a failed store waits
	// for; 0 is DefaultLowWater.
	LowWater uint64
	// MaxStore is how many bytes the broker's streams may hold; 0 leaves it to
	// the disk.
	MaxStore int64
	// Standby runs a logger as one of several: it writes when no other does.
	// Instance names it among those of one directory. Both are for a logger that
	// is served alone.
	Standby  bool
	Instance string
	// Clock dates what the logger appends; nil is the host's.
	Clock logger.Clock
	// Watch are pids whose memory and life the host sensor reads from the start.
	Watch []int
	// Sources runs the adapter of every source of the registry that has one.
	Sources bool
	// Gateway runs the HTTP gateway beside the other services.
	Gateway bool
	// Sensor and Seal are the host sensor's interval and the longest time for
	// which samples stay unsealed; zero means one second each.
	Sensor, Seal time.Duration
	// Metrics is the TCP address, made by ListenAddress, on which metrics and
	// health are served beside the service's socket; "" is none.
	Metrics string

	observer logger.Observer
}

func (c UpConfig) lowWater() uint64 { return cmp.Or(c.LowWater, DefaultLowWater) }

// Up is every service in one process on an embedded broker.
type Up struct {
	cfg    UpConfig
	Hub    *Hub
	Broker *kept
	Logger *Logger
	Views  *Projector
	Tele   *Telemetry
	Judge  *Resolver
	Hooks  *Hooks
	Door   *Gateway // nil without one
	health *Health
	socket *Socket
	scrape *scrapeServer

	cancel context.CancelFunc
	errs   chan error
	tasks  int
}

// StartUp starts the services in the order of the data path, the intake last.
// Each lives until ctx ends or one of them fails; Wait tells.
func StartUp(ctx context.Context, cfg UpConfig) (*Up, error) {
	if err := cfg.Dir.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	u := &Up{cfg: cfg, cancel: cancel, errs: make(chan error, 8)}
	u.health = newHealth(cfg, u.Status, u.ready)
	u.cfg.observer = u.health.observer()
	if err := u.start(ctx); err != nil {
		return nil, errors.Join(explain(err), u.Stop())
	}
	return u, nil
}

func (u *Up) start(ctx context.Context) (err error) {
	c := u.cfg
	if u.Broker, err = startBroker(c); err != nil {
		return err
	}
	u.Hub = EmbeddedHub(u.Broker.Broker, c.Dir.Creds())
	if u.Logger, err = StartLogger(ctx, u.Hub, c); err != nil {
		return err
	}
	u.run("logger", u.Logger.Wait)
	if u.Views, err = StartProjector(ctx, u.Hub, c); err != nil {
		return err
	}
	u.run("projector", u.Views.Wait)
	if u.Tele, err = StartTelemetry(ctx, c.Dir, u.Hub, TelemetryConfig{
		Ingress: true, Sensor: true, AllSources: c.Sources, Watch: c.Watch, Interval: c.Sensor, Log: c.Log,
	}); err != nil {
		return err
	}
	u.run("telemetry", u.Tele.Wait)
	if u.Judge, err = StartResolver(ctx, c.Dir, u.Hub, ResolverConfig{Seal: c.Seal, Log: c.Log}); err != nil {
		return err
	}
	u.run("resolver", u.Judge.Wait)
	if c.Gateway {
		if u.Door, err = StartGateway(ctx, c.Dir, u.Hub, GatewayConfig{LowWater: c.lowWater(), Log: c.Log}); err != nil {
			return err
		}
		u.Door.show(u.health)
		u.run("gateway", u.Door.Wait)
	}
	u.Hooks = StartHooks(ctx, c.Dir, u.Hub, u.Door, c.Log)
	u.run("hooks", u.Hooks.Wait)
	if u.socket, err = ListenSocket(c.Dir.Socket(), u.mux()); err != nil {
		return err
	}
	u.scrape, err = u.health.listen(c.Metrics)
	return err
}

// run waits for a service in the background; its end, wanted or not, ends all.
func (u *Up) run(name string, wait func() error) {
	u.tasks++
	go func() {
		err := wait()
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		u.cancel()
		u.errs <- err
	}()
}

// Wait returns when every service has stopped: after ctx ended, nil; after one
// failed, its error.
func (u *Up) Wait() error {
	var errs []error
	for ; u.tasks > 0; u.tasks-- {
		if err := <-u.errs; err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, u.scrape.Close(), u.socket.Close())
	u.scrape, u.socket = nil, nil
	if u.Broker != nil {
		errs = append(errs, u.Broker.stop())
		u.Broker = nil
	}
	return errors.Join(errs...)
}

// Stop ends every service and waits for it.
func (u *Up) Stop() error {
	u.cancel()
	return u.Wait()
}

func (u *Up) mux() *http.ServeMux {
	mux := http.NewServeMux()
	u.Views.routes(mux)
	u.Logger.routes(mux)
	u.Judge.routes(mux)
	u.health.routes(mux)
	handle(mux, "GET /status", func(*http.Request) (any, error) { return u.Status(), nil })
	handle(mux, "POST /reload", func(*http.Request) (any, error) {
		if err := u.Broker.Reload(); err != nil {
			return nil, err
		}
		if err := u.Logger.Reload(); err != nil {
			return nil, err
		}
		return map[string]bool{"reloaded": true}, u.Door.Reload()
	})
	return mux
}

// Status is what runs on a directory. A nil part does not run in the process
// that answers.
type Status struct {
	Services  string                  `json:"services"` // up, or the one service that serves alone
	Software  string                  `json:"software"` // the build that answers
	URL       string                  `json:"url,omitzero"`
	Sync      broker.SyncMode         `json:"sync,omitzero"` // when the broker fsyncs: always, interval or unknown
	Broker    *BrokerStatus           `json:"broker,omitzero"`
	Logger    *LoggerStatus           `json:"logger,omitzero"`
	Projector *ProjectorStatus        `json:"projector,omitzero"`
	Telemetry *TelemetryStatus        `json:"telemetry,omitzero"`
	Sources   map[string]SourceStatus `json:"sources,omitzero"` // that an adapter reads here
	Resolver  *ResolverStatus         `json:"resolver,omitzero"`
	Gateway   *GatewayStatus          `json:"gateway,omitzero"`
	Hooks     map[string]HookStatus   `json:"hooks,omitzero"`             // by agent
	Refused   map[string]uint64       `json:"refused_by_broker,omitzero"` // by principal or account, counted from the broker's log
}

// Status asks every service of this process.
func (u *Up) Status() Status {
	return Status{
		Services: "up", Software: u.cfg.Software, URL: u.Hub.URL(), Sync: u.Broker.SyncMode(), Broker: u.Broker.statusOf(), Logger: u.Logger.StatusOf(), Projector: u.Views.StatusOf(),
		Telemetry: u.Tele.StatusOf(), Sources: u.Tele.SourcesOf(), Resolver: u.Judge.StatusOf(), Gateway: u.Door.StatusOf(), Hooks: u.Hooks.StatusOf(), Refused: refusals(u.Broker.Broker),
	}
}

// ready says what does not do its job; nothing if all do.
func (u *Up) ready() []string {
	why := slices.Concat(u.Broker.ready(), u.Logger.ready(), u.Views.ready(), u.Tele.ready(), u.Judge.ready())
	if u.Door != nil {
		why = append(why, u.Door.ready()...)
	}
	return why
}

// refusals counts what the broker itself refused, by principal where the
// account is one's.
func refusals(b *broker.Broker) map[string]uint64 {
	out := map[string]uint64{}
	for account, n := range b.Refusals() {
		if id, ok := broker.PrincipalOf(account); ok {
			account = id
		}
		out[account] += n
	}
	return out
}
