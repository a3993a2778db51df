package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Publisher sends one batch of a source's samples. A batch that could not be
// sent is lost, and its ticks are a gap.
type Publisher interface {
	Publish(ctx context.Context, source string, batch []byte) error
}

// Reader takes one tick of samples, with sequence numbers that never repeat
// while it lives.
type Reader interface {
	Read() []Sample
}

// SensorConfig is one sensor's run.
type SensorConfig struct {
	// Source names the sensor; its samples are published as this source.
	Source string
	// Stream must be new for each Reader, as sequence numbers start again.
	Stream    string
	Reader    Reader
	Publisher Publisher
	// Interval between two ticks; it must be positive.
	Interval time.Duration
	Log      zerolog.Logger
}

// RunSensor reads and publishes at once and then every interval until ctx
// ends; it returns ctx's error. A failed publish is logged and not retried.
func RunSensor(ctx context.Context, cfg SensorConfig) error {
	ticker := time.NewTicker(cfg.Interval)
	defer ticker.Stop()
	for {
		batch, err := EncodeBatch(cfg.Stream, cfg.Reader.Read())
		if err == nil {
			err = cfg.Publisher.Publish(ctx, cfg.Source, batch)
		}
		if err != nil && ctx.Err() == nil {
			cfg.Log.Warn().Err(err).Str("source", cfg.Source).Msg("a tick of samples is lost")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Subject is where a source's sensor publishes.
func Subject(source string) string { return "telemetry." + source }

// NATSPublisher publishes on a sensor's own connection.
type NATSPublisher struct{ Conn *nats.Conn }

// Publish is a core publish: sent, not acknowledged.
func (p NATSPublisher) Publish(_ context.Context, source string, batch []byte) error {
	if err := p.Conn.Publish(Subject(source), batch); err != nil {
		return fmt.Errorf("publish telemetry: %w", err)
	}
	return nil
}
