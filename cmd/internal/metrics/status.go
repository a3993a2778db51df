package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/ledger/logger"
	"assay/projector"
	"assay/resolver/telemetry"
)

// metric is one number of the status, with at most one label.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, label ...string) metric {
	return metric{prometheus.NewDesc(Prefix+name, help, label, nil), prometheus.GaugeValue}
}

func counter(name, help string, label ...string) metric {
	return metric{prometheus.NewDesc(Prefix+name, help, label, nil), prometheus.CounterValue}
}

var (
	ready = gauge("ready", "1 while every service of this process does its job, as /readyz says.")

	brokerServing  = gauge("broker_store_serving", "1 while the broker's store takes writes.")
	brokerFree     = gauge("broker_disk_free_bytes", "Room on the broker's disk that is left to unprivileged users.")
	brokerUsed     = gauge("broker_store_bytes", "What the broker's streams hold.")
	brokerRoom     = gauge("broker_store_room_bytes", "What the broker's streams may still grow by before the store limit.")
	brokerRestarts = counter("broker_restarts_total", "Restarts of the embedded broker after its store failed.")
	brokerRefused  = counter("broker_refused_total", "Publishes, subscriptions and connections that the broker itself refused, by principal or account.", "principal")

	loggerState     = gauge("logger_state", "1 for the state that the logger is in, 0 for the others.", "state")
	loggerWarning   = gauge("logger_warning", "1 while the logger has a warning for the operator; the status has its text.")
	loggerLease     = gauge("logger_lease_age_seconds", "Age of the active logger's lease, or for a standby the time since it last heard of one.")
	records         = gauge("ledger_records", "Records that are confirmed and indexed.")
	ledgerTime      = gauge("ledger_time_timestamp_seconds", "Ledger time: the recorded_at of the last confirmed record.")
	signed          = gauge("checkpoint_records", "Size of the newest checkpoint.")
	signedAge       = gauge("checkpoint_age_seconds", "Time since this logger last signed a checkpoint. An idle log grows by a tick every ten seconds.")
	waiting         = gauge("intake_waiting_events", "Events that wait for the writer, by principal.", "principal")
	rejected        = counter("intake_rejected_total", "Events that were refused for what they are, by code.", "code")
	unavailable     = counter("intake_unavailable_total", "Events that were refused for now: they may come again.")
	dropped         = counter("intake_dropped_total", "Messages that were dropped before the intake's queues, because too many waited.")
	witnessed       = gauge("witnessed_records", "Size of the newest checkpoint that met the witness policy.")
	cosigned        = gauge("witness_cosigned_records", "Size of the checkpoint that a witness cosigned last.", "witness")
	cosignedAge     = gauge("witness_cosigned_age_seconds", "Time since a witness last cosigned.", "witness")
	witnessFailing  = gauge("witness_failing", "1 while the last request to a witness failed.", "witness")
	projected       = gauge("projector_records", "Last record in every view.")
	projectorHead   = gauge("projector_head_records", "Last record of the stream that the projector knows of.")
	projectorLag    = gauge("projector_lag_records", "Records between a projection and the stream's end.", "projection")
	projectorParked = gauge("projector_parked_records", "Records that a projection could not apply.")
	projectorHalted = gauge("projector_halted", "1 while the views stand still because something is wrong.")

	received = counter("telemetry_received_batches_total", "Telemetry batches that the ingress heard.")
	batches  = counter("telemetry_batches_total", "What became of telemetry batches: forwarded, refused, lost or dropped.", "outcome")

	resolved  = gauge("resolver_records", "Last record that the resolver folded.")
	differed  = counter("resolver_differing_events_total", "Stored events that this build would have written otherwise.")
	skipped   = counter("resolver_skipped_records_total", "Records that the resolver could not decode.")
	open      = gauge("predictions_open", "Predictions that are not settled, up to the checkpoint that the resolver caught up with.")
	oldest    = gauge("prediction_oldest_open_age_seconds", "Age of the oldest prediction that is not settled, in ledger time; 0 without one.")
	watermark = gauge("telemetry_watermark_timestamp_seconds", "Up to where a source's telemetry is sealed.", "source")
	sealLag   = gauge("telemetry_watermark_lag_seconds", "Ledger time less a source's watermark.", "source")
)

func all() []metric {
	return []metric{
		ready, brokerServing, brokerFree, brokerUsed, brokerRoom, brokerRestarts, brokerRefused, loggerState, loggerWarning, loggerLease,
		records, ledgerTime, signed, signedAge, waiting, rejected, unavailable, dropped, witnessed, cosigned, cosignedAge, witnessFailing,
		projected, projectorHead, projectorLag, projectorParked, projectorHalted, received, batches, resolved, differed, skipped,
		open, oldest, watermark, sealLag,
	}
}

// status makes metrics of a Snapshot.
type status struct{ snapshot func() Snapshot }

// Describe implements prometheus.Collector.
func (s *status) Describe(out chan<- *prometheus.Desc) {
	for _, m := range all() {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (s *status) Collect(out chan<- prometheus.Metric) {
	snap := s.snapshot()
	e := emitter(out)
	e.put(ready, truth(snap.Ready))
	if snap.Broker != nil {
		e.broker(snap.Broker)
	}
	if snap.Logger != nil {
		e.logger(snap.Logger)
	}
	if snap.Projector != nil {
		e.projector(snap.Projector)
	}
	if snap.Ingress != nil {
		e.ingress(snap.Ingress)
	}
	if snap.Resolver != nil {
		e.resolver(snap.Resolver)
	}
}

type emitter chan<- prometheus.Metric

func (e emitter) put(m metric, value float64, labels ...string) {
	e <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

func (e emitter) maybe(m metric, value *uint64) {
	if value != nil {
		e.put(m, float64(*value))
	}
}

func (e emitter) broker(b *Broker) {
	e.put(brokerServing, truth(b.Serving))
	e.maybe(brokerFree, b.FreeBytes)
	e.maybe(brokerUsed, b.StoreUsed)
	e.maybe(brokerRoom, b.StoreRoom)
	e.put(brokerRestarts, float64(b.Restarts))
	for who, n := range b.Refused {
		e.put(brokerRefused, float64(n), who)
	}
}

func (e emitter) logger(l *logger.Status) {
	states := logger.States()
	if !slices.Contains(states, l.State) {
		states = append(states, l.State)
	}
	for _, state := range states {
		e.put(loggerState, truth(state == l.State), string(state))
	}
	e.put(loggerWarning, truth(l.Warning != ""))
	e.put(records, float64(l.Size))
	e.put(signed, float64(l.CheckpointSize))
	e.put(unavailable, float64(l.Unavailable))
	e.put(dropped, float64(l.Dropped))
	if t, err := time.Parse(time.RFC3339Nano, l.LedgerTime); err == nil {
		e.put(ledgerTime, seconds(t))
	}
	if l.CheckpointAge != nil {
		e.put(signedAge, *l.CheckpointAge)
	}
	if l.LeaseAge != nil {
		e.put(loggerLease, *l.LeaseAge)
	}
	for who, n := range l.WaitingBy {
		e.put(waiting, float64(n), who)
	}
	for _, code := range rejectionCodes(l.Rejected) {
		e.put(rejected, float64(l.Rejected[code]), code)
	}
	w := l.Witnessing
	if w == nil {
		return
	}
	e.put(witnessed, float64(w.Size))
	for _, p := range w.Witnesses {
		e.put(cosigned, float64(p.Size), p.Name)
		e.put(witnessFailing, truth(p.Error != ""), p.Name)
		if p.AgeSeconds != nil {
			e.put(cosignedAge, *p.AgeSeconds, p.Name)
		}
	}
}

// rejectionCodes are those that occurred, and the logger's own from the start:
// the first of a kind would otherwise be no increase.
func rejectionCodes(seen map[string]uint64) []string {
	codes := map[string]bool{}
	for _, c := range logger.RejectionCodes() {
		codes[string(c)] = true
	}
	for c := range seen {
		codes[c] = true
	}
	return slices.Sorted(maps.Keys(codes))
}

func (e emitter) projector(p *projector.Status) {
	e.put(projected, float64(p.Seq))
	e.put(projectorHead, float64(p.Head))
	e.put(projectorParked, float64(p.Parked))
	e.put(projectorHalted, truth(p.Halted != ""))
	for name, seq := range p.Views {
		e.put(projectorLag, float64(max(p.Head, seq)-seq), name)
	}
}

func (e emitter) ingress(t *telemetry.IngressStats) {
	e.put(received, float64(t.Received))
	e.put(batches, float64(t.Forwarded), "forwarded")
	e.put(batches, float64(t.Refused), "refused")
	e.put(batches, float64(t.Lost), "lost")
	e.put(batches, float64(t.Dropped), "dropped")
}

func (e emitter) resolver(r *Resolver) {
	e.put(resolved, float64(r.Applied))
	e.put(differed, float64(r.Differed))
	e.put(skipped, float64(r.Skipped))
	if r.LedgerTime.IsZero() {
		return
	}
	e.put(open, float64(r.Open))
	age := 0.0
	if !r.Oldest.IsZero() {
		age = r.LedgerTime.Sub(r.Oldest).Seconds()
	}
	e.put(oldest, age)
	for source, at := range r.Watermarks {
		if at.IsZero() {
			continue
		}
		e.put(watermark, seconds(at), source)
		e.put(sealLag, r.LedgerTime.Sub(at).Seconds(), source)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
