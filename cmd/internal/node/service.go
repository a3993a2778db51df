package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"assay/ledger/broker"
)

// ServiceConfig says which service runs alone in this process.
type ServiceConfig struct {
	UpConfig
	Service string // broker, logger, projector, resolver, ingress, sensor or gateway
	// Source is the source of the registry that the service sensor reads with its
	// adapter; "" is assay's own sensor of this host.
	Source string
	// Input is read to its end in place of that source, after which the service
	// ends; nil is the source itself.
	Input io.Reader
	// Node names the broker of a cluster that the service broker is.
	Node string
	// NATS is the external broker's address, Monitor its monitoring address and
	// CredsDir where the credentials are; "" is the broker that serves Dir.
	NATS, Monitor, CredsDir string
}

// Service is one service in a process of its own. It answers on
// DIR/run/<service>.sock, <service>-<instance>.sock or sensor-<source>.sock; the projector, which
// holds the views, on DIR/run/assay.sock, and the gateway on gateway-status.sock.
type Service struct {
	name   string
	hub    *Hub
	wait   func() error
	status func(*Status)
	reload func() error
	routes func(*http.ServeMux)
	ready  func() []string
	health *Health
	socket *Socket
	scrape *scrapeServer
}

// StartService starts one service.
func StartService(ctx context.Context, cfg ServiceConfig) (*Service, error) {
	if err := cfg.checkDir(); err != nil {
		return nil, err
	}
	s := &Service{name: cfg.Service, status: func(*Status) {}, reload: func() error { return nil }, routes: func(*http.ServeMux) {}}
	s.health = newHealth(cfg.UpConfig, s.Status, func() []string { return s.ready() })
	ctx, cancel := context.WithCancel(ctx)
	err := s.start(ctx, cfg)
	if err != nil {
		cancel()
		return nil, explain(err)
	}
	path := cfg.Dir.service(cfg.Service)
	switch {
	case cfg.Service == "projector":
		path = cfg.Dir.Socket()
	case cfg.Instance != "":
		path = cfg.Dir.service(cfg.Service + "-" + cfg.Instance)
	case cfg.Source != "":
		path = cfg.Dir.service(cfg.Service + "-" + cfg.Source)
	}
	if s.socket, err = ListenSocket(path, s.mux()); err == nil {
		s.scrape, err = s.health.listen(cfg.Metrics)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(err, s.wait(), s.socket.Close())
	}
	wait := s.wait
	s.wait = func() error {
		defer cancel()
		return errors.Join(wait(), s.scrape.Close(), s.socket.Close())
	}
	return s, nil
}

func (s *Service) start(ctx context.Context, cfg ServiceConfig) (err error) {
	if cfg.Service == "broker" {
		return s.startBroker(ctx, cfg)
	}
	if s.hub, err = cfg.hub(); err != nil {
		return err
	}
	switch cfg.Service {
	case "logger":
		cfg.observer = s.health.observer()
		l, err := StartLogger(ctx, s.hub, cfg.UpConfig)
		if err != nil {
			return err
		}
		s.routes, s.ready = l.routes, l.ready
		s.wait, s.reload, s.status = l.Wait, l.Reload, func(st *Status) { st.Logger, st.Sync = l.StatusOf(), l.sync }
	case "projector":
		p, err := StartProjector(ctx, s.hub, cfg.UpConfig)
		if err != nil {
			return err
		}
		s.wait, s.routes, s.ready, s.status = p.Wait, p.routes, p.ready, func(st *Status) { st.Projector = p.StatusOf() }
	case "resolver":
		r, err := StartResolver(ctx, cfg.Dir, s.hub, ResolverConfig{Seal: cfg.Seal, Log: cfg.Log})
		if err != nil {
			return err
		}
		s.routes = r.routes
		s.wait, s.ready, s.status = r.Wait, r.ready, func(st *Status) { st.Resolver = r.StatusOf() }
	case "ingress", "sensor":
		t, err := StartTelemetry(ctx, cfg.Dir, s.hub, TelemetryConfig{
			Ingress: cfg.Service == "ingress", Sensor: cfg.Service == "sensor" && cfg.Source == "", Source: cfg.Source, Input: cfg.Input,
			Watch: cfg.Watch, Interval: cfg.Sensor, Log: cfg.Log,
		})
		if err != nil {
			return err
		}
		s.wait, s.ready, s.status = t.Wait, t.ready, func(st *Status) { st.Telemetry, st.Sources = t.StatusOf(), t.SourcesOf() }
	case "gateway":
		g, err := StartGateway(ctx, cfg.Dir, s.hub, GatewayConfig{LowWater: cfg.lowWater(), Log: cfg.Log})
		if err != nil {
			return err
		}
		g.show(s.health)
		h := StartHooks(ctx, cfg.Dir, s.hub, g, cfg.Log)
		s.wait = func() error { return errors.Join(h.Wait(), g.Wait()) }
		s.reload, s.ready, s.status = g.Reload, g.ready, func(st *Status) { st.Gateway, st.Hooks = g.StatusOf(), h.StatusOf() }
	default:
		return fmt.Errorf("no service is called %q", cfg.Service)
	}
	return nil
}

func (s *Service) startBroker(ctx context.Context, cfg ServiceConfig) error {
	b, err := startBroker(cfg.UpConfig)
	if err != nil {
		return err
	}
	s.hub = EmbeddedHub(b.Broker, cfg.Dir.Creds())
	s.reload, s.ready, s.status = b.Reload, b.ready, func(st *Status) { st.Refused, st.Sync, st.Broker = refusals(b.Broker), b.SyncMode(), b.statusOf() }
	s.wait = func() error {
		<-ctx.Done()
		return b.stop()
	}
	return nil
}

// checkDir looks for what the service needs; a broker of a cluster has a
// directory of its own.
func (c *ServiceConfig) checkDir() error {
	if c.Node == "" {
		return c.Dir.Check()
	}
	c.Dir = Dir(broker.Dir(c.Dir).Node(c.Node))
	cluster, err := broker.LoadCluster(string(c.Dir))
	if err != nil {
		return err
	}
	if cluster == nil || cluster.Node != c.Node {
		return fmt.Errorf("%w: %s; `assay init --peer` made it on the host that has the keys, copy it here", broker.ErrNoNode, c.Dir)
	}
	return nil
}

func (c ServiceConfig) hub() (*Hub, error) {
	if c.NATS == "" && c.Service == "gateway" {
		return awaitedHub(c.Dir), nil
	}
	if c.NATS == "" {
		return LocalHub(c.Dir)
	}
	if c.CredsDir == "" {
		c.CredsDir = c.Dir.Creds()
	}
	h := RemoteHub(c.NATS, c.CredsDir)
	h.Monitor = c.Monitor
	cluster, err := broker.LoadCluster(string(c.Dir))
	h.Cluster = cluster != nil
	return h, err
}

func (s *Service) mux() *http.ServeMux {
	mux := http.NewServeMux()
	s.routes(mux)
	s.health.routes(mux)
	handle(mux, "GET /status", func(*http.Request) (any, error) { return s.Status(), nil })
	handle(mux, "POST /reload", func(*http.Request) (any, error) {
		return map[string]bool{"reloaded": true}, s.Reload()
	})
	return mux
}

// Reload has the service take up what changed in the files that it goes by while
// it runs: the broker and the logger the principals, the gateway its callers. With
// an error it goes on by what held before.
func (s *Service) Reload() error { return s.reload() }

// Status is the service's part of a Status.
func (s *Service) Status() Status {
	st := Status{Services: s.name, Software: s.health.software, URL: s.hub.URL()}
	s.status(&st)
	return st
}

// Wait returns when the service has stopped.
func (s *Service) Wait() error { return s.wait() }
