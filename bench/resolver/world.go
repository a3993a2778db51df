package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/bench/house"
	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

const (
	// interval is between two samples of a series.
	interval = time.Second
	// windowLength is how long each prediction's window is: one period of the
	// signals.
	windowLength = 10 * time.Second
	lateness     = time.Second
	// maxPerSensor keeps a sensor's batch below the ingress's limit in bytes.
	maxPerSensor = 5000
)

// world is what sensors measure and what is predicted of it: signals of several
// sources, each with one series for every unit. All of them are the same saw
// tooth from 0 to 9, so that each value comes once in any ten seconds.
type world struct{ signals, units, sensors int }

func newWorld(o options) *world {
	return &world{signals: o.signals, units: o.rate / o.signals, sensors: o.sensors}
}

// rate is how many samples the sensors take each second, heartbeats left out.
func (w *world) rate() int { return w.signals * w.units }

func sourceName(i int) string { return "s" + strconv.Itoa(i) }
func signalName(i int) string { return fmt.Sprintf("level_%04d", i) }
func beatName(source int) string {
	return "beat_" + sourceName(source)
}

// registry makes the signals, of which signal i is source i modulo sensors'.
func (w *world) registry() ([]byte, error) {
	signal := func(name string, source int) criterion.Signal {
		return criterion.Signal{
			Name: name, Source: sourceName(source), Unit: "1", Kind: criterion.Gauge, Heartbeat: beatName(source), Writer: "sensor/" + sourceName(source),
			Interval: interval, MaxStaleness: 10 * interval, CoverageFloor: 0.5, MaxGap: 5 * interval, AllowedLateness: lateness,
			Lo: math.Inf(-1), Hi: math.Inf(1),
		}
	}
	var all []criterion.Signal
	for s := range w.sensors {
		all = append(all, signal(beatName(s), s))
	}
	for i := range w.signals {
		all = append(all, signal(signalName(i), i%w.sensors))
	}
	return criterion.AddSignals([]byte(`{"v":1,"signals":[]}`), all...)
}

// prepare makes the directory with the sensors' principals and the registry.
func (w *world) prepare(ctx context.Context, h *house.House) error {
	if err := h.Run(ctx, "init", "--offline-dir", house.Offline(h.Dir)); err != nil {
		return err
	}
	for s := range w.sensors {
		if _, err := principal.Dir(h.Dir).Add(principal.New(principal.Sensor, sourceName(s), "production")); err != nil {
			return err
		}
	}
	if _, err := broker.WriteConfig(h.Dir); err != nil {
		return err
	}
	raw, err := w.registry()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.Dir, "registry.json"), raw, 0o600)
}

// sensor is one source's telemetry.Reader.
type sensor struct {
	signals []string
	beat    string
	labels  []map[string]string
	seq     uint64
	offered *atomic.Int64
}

func (w *world) sensor(source int, offered *atomic.Int64) *sensor {
	s := &sensor{beat: beatName(source), offered: offered}
	for i := source; i < w.signals; i += w.sensors {
		s.signals = append(s.signals, signalName(i))
	}
	for u := range w.units {
		s.labels = append(s.labels, unitLabel(u))
	}
	return s
}

func unitLabel(u int) map[string]string { return map[string]string{"unit": strconv.Itoa(u)} }

// Read implements telemetry.Reader.
func (s *sensor) Read() []telemetry.Sample {
	now := time.Now().UTC().Round(0)
	value := float64(now.Unix() % 10)
	out := make([]telemetry.Sample, 0, len(s.signals)*len(s.labels)+1)
	add := func(signal string, labels map[string]string, v float64) {
		s.seq++
		out = append(out, telemetry.Sample{Seq: s.seq, Signal: signal, Labels: labels, Time: now, Value: v})
	}
	for _, signal := range s.signals {
		for _, labels := range s.labels {
			add(signal, labels, value)
		}
	}
	add(s.beat, nil, 1)
	s.offered.Add(int64(len(out)))
	return out
}

// sense runs every sensor until ctx ends; they tick one after another within
// the interval.
func (w *world) sense(ctx context.Context, h *house.House, offered *atomic.Int64) (wait func(), err error) {
	url, err := broker.ReadURL(h.Dir)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for source := range w.sensors {
		cred, err := principal.LoadCredential(principal.Dir(h.Dir).Credential("sensor." + sourceName(source)))
		if err != nil {
			return nil, err
		}
		nc, err := broker.Dial(url, cred)
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			defer nc.Close()
			select {
			case <-time.After(interval * time.Duration(source) / time.Duration(w.sensors)):
			case <-ctx.Done():
				return
			}
			// It ends with ctx only.
			_ = telemetry.RunSensor(ctx, telemetry.SensorConfig{
				Source: sourceName(source), Stream: "bench", Reader: w.sensor(source, offered), Publisher: telemetry.NATSPublisher{Conn: nc},
				Interval: interval, Log: zerolog.New(os.Stderr),
			})
		})
	}
	return wg.Wait, nil
}

// promise is one prediction's criterion with the verdict that it must get.
type promise struct{ clause, expires, verdict string }

// Of ten predictions six are confirmed when their window closes, of which one
// needs coverage both ways, three are refuted by a sample within it, and one
// watches a series that does not exist.
var promises = func() []promise {
	confirmed := promise{`"reduce":"max","op":"<=","value":9`, "10m", "confirmed"}
	refuted := promise{`"reduce":"max","op":"<=","value":4`, "10m", "refuted"}
	return []promise{
		confirmed, refuted, confirmed, {`"reduce":"avg","op":"<=","value":9`, "10m", "confirmed"}, refuted,
		confirmed, {`"reduce":"max","op":"<=","value":9`, "5s", "unresolved"}, confirmed, refuted, confirmed,
	}
}()

// promiseOf is that of prediction i, and the signal and unit that it is about:
// the signals come in turn, and of each every unit with every promise.
func (w *world) promiseOf(i int) (p promise, signal int, unit string) {
	round := i / w.signals
	p = promises[round%len(promises)]
	unit = strconv.Itoa(round / len(promises) % w.units)
	if p.verdict == "unresolved" {
		unit = "none"
	}
	return p, i % w.signals, unit
}

// criterion is that of prediction i with a window that opens after offset.
func (w *world) criterion(i int, offset time.Duration) string {
	p, signal, unit := w.promiseOf(i)
	return fmt.Sprintf(`{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"%dms","length":"%ds"},"all":[{"signal":%q,"labels":{"unit":%q},%s}],"expires_after":%q}`,
		offset.Milliseconds(), int(windowLength.Seconds()), signalName(signal), unit, p.clause, p.expires)
}
