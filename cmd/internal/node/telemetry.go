package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/internal/principal"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// TelemetryConfig says which parts of the telemetry path run here.
type TelemetryConfig struct {
	Ingress bool
	Sensor  bool   // assay's own, of this host
	Source  string // of the registry, read by its adapter
	// AllSources reads every source of the registry that has an adapter.
	AllSources bool
	// Input is read to its end in place of the source; nil is the source itself.
	Input    io.Reader
	Watch    []int
	Interval time.Duration // between two ticks of the sensor; 0 is one second
	Log      zerolog.Logger
}

// Telemetry is the running ingress with host sensor and adapters.
type Telemetry struct {
	Host     *telemetry.Host
	ingress  *telemetry.Ingress
	adapters map[string]telemetry.Adapter // by source
	conns    []*nats.Conn
	done     sync.WaitGroup
	stop     <-chan struct{}
	cancel   context.CancelFunc
	failed   chan error
}

// StartTelemetry starts the ingress first, so that the sensor is heard.
func StartTelemetry(ctx context.Context, dir Dir, hub *Hub, cfg TelemetryConfig) (*Telemetry, error) {
	t := &Telemetry{adapters: map[string]telemetry.Adapter{}, failed: make(chan error, 1)}
	ctx, t.cancel = context.WithCancel(ctx)
	t.stop = ctx.Done()
	if err := t.start(ctx, dir, hub, cfg); err != nil {
		t.cancel()
		t.done.Wait()
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *Telemetry) start(ctx context.Context, dir Dir, hub *Hub, cfg TelemetryConfig) error {
	if cfg.Ingress {
		if err := t.startIngress(dir, hub, cfg.Log); err != nil {
			return err
		}
	}
	if cfg.Sensor {
		if err := t.startSensor(ctx, dir, hub, cfg); err != nil {
			return err
		}
	}
	return t.startSources(ctx, dir, hub, cfg)
}

func (t *Telemetry) startIngress(dir Dir, hub *Hub, log zerolog.Logger) error {
	reg, err := LoadRegistry(dir)
	if err != nil {
		return err
	}
	nc, err := hub.ConnectInProcess(principal.Ingress)
	if err != nil {
		return err
	}
	t.conns = append(t.conns, nc)
	t.ingress, err = telemetry.StartIngress(telemetry.IngressConfig{Conn: nc, Sources: reg.Sources(), Log: log})
	return err
}

func (t *Telemetry) startSensor(ctx context.Context, dir Dir, hub *Hub, cfg TelemetryConfig) error {
	nc, err := hub.ConnectInProcess("sensor." + criterion.HostSource)
	if err != nil {
		return err
	}
	t.conns = append(t.conns, nc)
	t.Host = telemetry.NewHost(telemetry.HostConfig{})
	cursor, err := sourceCursor(dir, criterion.HostSource)
	if err == nil {
		err = t.Host.PinBoot(cursor)
	}
	if err != nil {
		cfg.Log.Warn().Err(err).Msg("the boot time is read again: if the clock was set since the last start, counters seem to have restarted")
	}
	for _, pid := range cfg.Watch {
		if _, err := t.Host.Watch(pid); err != nil {
			return err
		}
	}
	run, err := uuid.NewV7()
	if err != nil {
		return err
	}
	t.done.Go(func() {
		// It ends with ctx only.
		_ = telemetry.RunSensor(ctx, telemetry.SensorConfig{
			Source: criterion.HostSource, Stream: run.String(), Reader: t.Host, Publisher: telemetry.NATSPublisher{Conn: nc},
			Interval: cmp.Or(cfg.Interval, time.Second), Log: cfg.Log,
		})
	})
	return nil
}

// fail ends every part; the first error is the one that Wait returns.
func (t *Telemetry) fail(err error) {
	select {
	case t.failed <- err:
	default:
	}
	t.cancel()
}

// Wait returns once the context has ended or a part failed, and all have stopped.
func (t *Telemetry) Wait() error {
	<-t.stop
	t.done.Wait()
	var err error
	select {
	case err = <-t.failed:
	default:
	}
	return errors.Join(err, t.close())
}

func (t *Telemetry) close() error {
	var err error
	if t.ingress != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		// A batch that is not acked by now is lost, which the stats say.
		_ = t.ingress.Flush(ctx)
		err = t.ingress.Close()
	}
	for _, nc := range t.conns {
		nc.Close()
	}
	return err
}

// TelemetryStatus counts the ingress's batches.
type TelemetryStatus = telemetry.IngressStats

// StatusOf is nil where no ingress runs.
func (t *Telemetry) StatusOf() *TelemetryStatus {
	if t.ingress == nil {
		return nil
	}
	s := t.ingress.Stats()
	return &s
}

// SourceStatus is what a source's adapter counts.
type SourceStatus = telemetry.AdapterStats

// SourcesOf is the status of each adapter that runs here, by source; nil where
// none does.
func (t *Telemetry) SourcesOf() map[string]SourceStatus {
	if len(t.adapters) == 0 {
		return nil
	}
	out := make(map[string]SourceStatus, len(t.adapters))
	for name, a := range t.adapters {
		out[name] = a.Stats()
	}
	return out
}

// ready says why ingress and sensors do not do their job; nothing if they do.
func (t *Telemetry) ready() []string {
	why := disconnected("telemetry", t.conns...)
	for name, st := range t.SourcesOf() {
		for _, trouble := range []string{st.Error, st.Doubt} {
			if trouble != "" {
				why = append(why, "source "+name+": "+trouble)
			}
		}
	}
	slices.Sort(why)
	return why
}

// LoadRegistry reads the operator's signal registry.
func LoadRegistry(dir Dir) (*criterion.Registry, error) {
	raw, err := os.ReadFile(dir.Registry())
	if err != nil {
		return nil, err
	}
	reg, err := criterion.ParseRegistry(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir.Registry(), err)
	}
	return reg, nil
}
