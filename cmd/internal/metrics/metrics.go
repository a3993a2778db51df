// Package metrics shows Prometheus what the services of one process do. It is
// the only room that knows the client library: services keep their numbers in
// their own status, which is read at each scrape, and tell an observer of what
// only the moment knows.
//
// Every name begins with assay_ and carries its unit. What does not run in the
// process has no metrics there, and what is not known is absent, never zero.
package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"assay/ledger/logger"
	"assay/projector"
	"assay/resolver/telemetry"
)

// Prefix begins every name of ours.
const Prefix = "assay_"

// Broker is an embedded broker. Nil numbers are unknown.
type Broker struct {
	Serving                         bool
	FreeBytes, StoreUsed, StoreRoom *uint64
	Restarts                        int
	Refused                         map[string]uint64 // by principal or account
}

// Resolver is where a resolver stands; see resolver.Stats.
type Resolver struct {
	Applied           uint64
	Differed, Skipped uint64
	LedgerTime        time.Time // zero before it caught up
	Open              int
	Oldest            time.Time // zero without an open prediction
	Watermarks        map[string]time.Time
}

// Snapshot is what the process's services say of themselves; nil is what does
// not run in it.
type Snapshot struct {
	Ready     bool
	Broker    *Broker
	Logger    *logger.Status
	Projector *projector.Status
	Ingress   *telemetry.IngressStats
	Resolver  *Resolver
}

// Config says what a Set shows.
type Config struct {
	// Software names the build.
	Software string
	// Snapshot is asked once a scrape, and must not scan anything.
	Snapshot func() Snapshot
	// Log is told why a scrape failed.
	Log zerolog.Logger
}

// Set is the metrics of one process, in a registry of its own.
type Set struct {
	registry *prometheus.Registry
	log      zerolog.Logger
	appends  appends
}

// New makes the set. The metrics of a logger's batches are there from the
// first that Observer tells of.
func New(c Config) *Set {
	s := &Set{registry: prometheus.NewRegistry(), log: c.Log, appends: newAppends()}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "build_info", Help: "Always 1; the labels name the build.",
		ConstLabels: prometheus.Labels{"version": c.Software, "goversion": runtime.Version()},
	})
	build.Set(1)
	s.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, &status{c.Snapshot},
	)
	return s
}

// Observer registers the metrics of a logger's batches and returns who fills
// them. It is called at most once.
func (s *Set) Observer() logger.Observer {
	s.registry.MustRegister(s.appends.collectors()...)
	return &s.appends
}

// Gauge adds a number of another part of the process, read at each scrape.
// name is without Prefix; a name that is there already panics.
func (s *Set) Gauge(name, help string, read func() float64) {
	s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: Prefix + name, Help: help}, read))
}

// Counter is Gauge for a number that never falls; its name ends with _total.
func (s *Set) Counter(name, help string, read func() float64) {
	s.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: Prefix + name, Help: help}, read))
}

// Handler answers a scrape.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorLog: failed{s.log}})
}

// failed logs what went wrong with a scrape.
type failed struct{ log zerolog.Logger }

// Println implements promhttp.Logger.
func (f failed) Println(v ...any) { f.log.Error().Interface("cause", v).Msg("scrape") }

// appends counts a logger's batches.
type appends struct {
	records, bytes           prometheus.Counter
	size, duration, answered prometheus.Histogram
}

func newAppends() appends {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: Prefix + name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: Prefix + name, Help: help, Buckets: buckets})
	}
	// From a single publish on a fast disk to a broker that is away.
	seconds := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
	return appends{
		records: counter("append_records_total", "Records that the broker confirmed, the logger's own included."),
		bytes:   counter("append_bytes_total", "Bytes of the records that the broker confirmed."),
		size: histogram("append_batch_records", "Records in a confirmed append; its count is the number of appends.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}),
		duration: histogram("append_duration_seconds", "Time from sending an append to its confirmation by the broker, repetitions included.", seconds),
		answered: histogram("intake_answer_duration_seconds",
			"Time from a request's arrival to its receipt or refusal, of the event in each append that was taken first.", seconds),
	}
}

func (a *appends) collectors() []prometheus.Collector {
	return []prometheus.Collector{a.records, a.bytes, a.size, a.duration, a.answered}
}

// Appended implements logger.Observer.
func (a *appends) Appended(records, bytes int, took time.Duration) {
	a.records.Add(float64(records))
	a.bytes.Add(float64(bytes))
	a.size.Observe(float64(records))
	a.duration.Observe(took.Seconds())
}

// Answered implements logger.Observer.
func (a *appends) Answered(after time.Duration) { a.answered.Observe(after.Seconds()) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
