package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/durable"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// ErrSource means that a source cannot be read by an adapter; the text says
// what to do.
var ErrSource = errors.New("cannot read this source")

// fileCursor keeps an adapter's state in DIR/telemetry/<source>.json.
type fileCursor string

func (c fileCursor) Load() ([]byte, error) {
	raw, err := os.ReadFile(string(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (c fileCursor) Save(raw []byte) error { return durable.WriteFile(string(c), raw, 0o600) }

// wholeFile is the cursor of a file, which is read whole each time: it says
// nothing of where the source itself was read up to.
type wholeFile struct{}

func (wholeFile) Load() ([]byte, error) { return nil, nil }
func (wholeFile) Save([]byte) error     { return nil }

// sourceCursor is where the source's sensor keeps its state.
func sourceCursor(dir Dir, name string) (fileCursor, error) {
	return fileCursor(filepath.Join(dir.Telemetry(), name+".json")), os.MkdirAll(dir.Telemetry(), 0o700)
}

// newAdapter makes the adapter for a source of the registry.
func newAdapter(dir Dir, reg *criterion.Registry, name string, cfg TelemetryConfig) (telemetry.Adapter, error) {
	src, signals := reg.Source(name), reg.SignalsOf(name)
	if len(signals) == 0 {
		return nil, fmt.Errorf("%w: %s names no source %q; it has %v", ErrSource, dir.Registry(), name, reg.Sources())
	}
	if cfg.Input != nil {
		if src.Kind != criterion.JournaldKind {
			return nil, fmt.Errorf("%w: %q is of kind %s; only a journald source can be read from a file", ErrSource, name, src.Kind)
		}
		return telemetry.NewJournald(telemetry.JournaldConfig{Source: src, Signals: signals, Cursor: wholeFile{}, Input: cfg.Input, Log: cfg.Log})
	}
	cursor, err := sourceCursor(dir, name)
	if err != nil {
		return nil, err
	}
	log := cfg.Log
	switch src.Kind {
	case criterion.PrometheusKind:
		return telemetry.NewPrometheus(telemetry.PrometheusConfig{Source: src, Signals: signals, Cursor: cursor, Log: log})
	case criterion.AlertmanagerKind:
		return telemetry.NewAlertmanager(telemetry.AlertmanagerConfig{Source: src, Signals: signals, Cursor: cursor, Log: log})
	case criterion.JournaldKind:
		return telemetry.NewJournald(telemetry.JournaldConfig{Source: src, Signals: signals, Cursor: cursor, Log: log})
	case criterion.OTLPKind:
		return telemetry.NewOTLP(telemetry.OTLPConfig{Source: src, Signals: signals, Log: log}), nil
	}
	return nil, fmt.Errorf("%w: %q is of kind %s, for which this build has no adapter; say its kind under \"sources\" in %s", ErrSource, name, src.Kind, dir.Registry())
}

// adapted are the sources of the registry that an adapter reads.
func adapted(reg *criterion.Registry) []string {
	var out []string
	for _, name := range reg.Sources() {
		if reg.Source(name).Kind.HasAdapter() {
			out = append(out, name)
		}
	}
	return out
}

// startSources runs the adapters that cfg asks for.
func (t *Telemetry) startSources(ctx context.Context, dir Dir, hub *Hub, cfg TelemetryConfig) error {
	if cfg.Source == "" && !cfg.AllSources {
		return nil
	}
	reg, err := LoadRegistry(dir)
	if err != nil {
		return err
	}
	names := []string{cfg.Source}
	if cfg.AllSources {
		names = adapted(reg)
	}
	for _, name := range names {
		if err := t.startSource(ctx, dir, hub, reg, name, cfg); err != nil {
			return err
		}
	}
	return nil
}

// startSource runs a source's adapter on that sensor's own connection.
func (t *Telemetry) startSource(ctx context.Context, dir Dir, hub *Hub, reg *criterion.Registry, name string, cfg TelemetryConfig) error {
	adapter, err := newAdapter(dir, reg, name, cfg)
	if err != nil {
		return err
	}
	nc, err := hub.ConnectInProcess("sensor." + name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: `assay principal add sensor/%s` makes it", err, name)
	}
	if err != nil {
		return err
	}
	t.conns = append(t.conns, nc)
	t.adapters[name] = adapter
	t.done.Go(func() {
		switch err := adapter.Run(ctx, telemetry.NATSSink{Conn: nc, Source: name}); {
		case ctx.Err() != nil:
		case err == nil: // its input has ended
			t.cancel()
		default:
			t.fail(fmt.Errorf("source %s: %w", name, err))
		}
	})
	return nil
}
