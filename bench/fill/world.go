package fill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/bench/workload"
	"assay/events"
	"assay/ledger"
	"assay/resolver"
	"assay/resolver/criterion"
)

const (
	// perRecord is the ledger time between two records: a hundred a second.
	perRecord = 10 * time.Millisecond
	// perSegment is how much telemetry one telemetry.sealed covers.
	perSegment = 10 * time.Second
	// heldSegments are kept decoded for the resolver's fold: more than its
	// windows reach back.
	heldSegments = 32
)

// promise is about a signal of the host sensor that stays between 0 and 4: of
// the thresholds that are used in turn some hold and some do not.
const promise = `{"criterion_version":1,"window":{"anchor":"recorded_at","offset":"0s","length":"30s"},` +
	`"all":[{"signal":"psi_memory_some_avg10","reduce":"max","op":"<=","value":%d}],"expires_after":"10m"}`

// world writes the records of a ledger that was in use for a long time: what
// agent, dispatcher and detector send, sealed telemetry, and what a resolver
// that never stopped made of it, which is taken from the resolver's own fold.
type world struct {
	blobs   string // directory of the segments
	mix     *workload.Mix
	machine *resolver.Machine
	head    ledger.Header // of the next record
	last    ledger.Hash
	sealed  time.Time // end of the last segment
	buffer  uint64    // last sequence of the telemetry buffer
	sample  uint64
	authors []workload.Author // a hundred, each as often as its share
	n       int

	segments map[string][]criterion.Sample
	order    []string // of segments, the oldest first
}

// newWorld goes on behind record 1.
func newWorld(blobs string, opening []byte, registry *criterion.Registry, who events.ResolverIdentity) (*world, error) {
	rec, err := ledger.ParseRecord(opening)
	if err != nil {
		return nil, err
	}
	w := &world{
		blobs: blobs, mix: workload.New(), last: rec.Leaf(), sealed: rec.RecordedAt.Truncate(time.Second), segments: make(map[string][]criterion.Sample),
	}
	w.head = ledger.Header{Seq: 2, RecordedAt: rec.RecordedAt}
	w.mix.Now = func() time.Time { return w.head.RecordedAt }
	w.machine = resolver.NewMachine(resolver.MachineConfig{Registry: registry, Segments: w, Resolver: who, Source: resolver.DefaultSource})
	// Largest remaining share first, so that the authors alternate.
	left := make([]int, len(workload.Authors))
	for range 100 {
		most := 0
		for i, a := range workload.Authors {
			if left[i] += a.Share; left[i] > left[most] {
				most = i
			}
		}
		left[most] -= 100
		w.authors = append(w.authors, workload.Authors[most])
	}
	_, err = w.machine.Apply(rec)
	return w, err
}

// message is one record with its type.
type message struct {
	kind string
	body []byte
}

// next appends the next event's record, and those of what the resolver makes
// of it, to out.
func (w *world) next(out []message) ([]message, error) {
	w.head.RecordedAt = w.head.RecordedAt.Add(perRecord)
	if w.head.RecordedAt.Sub(w.sealed) >= perSegment+time.Second {
		raw, err := w.seal()
		if err != nil {
			return out, err
		}
		return w.record(out, "resolver/main", events.TypeTelemetrySealed, raw)
	}
	w.n++
	w.mix.Criterion = fmt.Sprintf(promise, w.n%7)
	author := w.authors[w.n%len(w.authors)]
	raw, kind, err := w.mix.Event(author)
	if err != nil {
		return out, err
	}
	return w.record(out, strings.Replace(author.User, ".", "/", 1), kind, raw)
}

func (w *world) record(out []message, principal, kind string, event []byte) ([]message, error) {
	w.head.Prev, w.head.Principal, w.head.Namespace = w.last, principal, "production"
	body := ledger.AppendRecord(make([]byte, 0, len(event)+280), w.head, event)
	rec, err := ledger.ParseRecord(body)
	if err != nil {
		return out, err
	}
	out = append(out, message{kind, body})
	w.last = rec.Leaf()
	w.head.Seq++
	emitted, err := w.machine.Apply(rec)
	if err != nil {
		return out, err
	}
	for _, e := range emitted {
		w.head.RecordedAt = w.head.RecordedAt.Add(perRecord)
		if out, err = w.record(out, "resolver/main", e.Type, e.Event); err != nil {
			return out, err
		}
	}
	return out, nil
}

// seal writes a segment of ten ticks of the host sensor and its event.
func (w *world) seal() ([]byte, error) {
	start, end := w.sealed, w.sealed.Add(perSegment)
	var samples []criterion.Sample
	add := func(at time.Time, signal string, value float64) {
		w.sample++
		samples = append(samples, criterion.Sample{
			Source: criterion.HostSource, Stream: "boot", Seq: w.sample, Signal: signal, Time: at, Value: value,
		})
	}
	for at := start; at.Before(end); at = at.Add(time.Second) {
		add(at, criterion.SignalHeartbeat, 1)
		add(at, criterion.SignalMemoryStall, float64(w.sample/2%5))
	}
	raw := resolver.EncodeSegment(criterion.HostSource, samples)
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:])
	// As a blob store lays files out, but unsynced: nobody waits for these.
	path := filepath.Join(w.blobs, name[:2], name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600)); err != nil {
		return nil, err
	}
	w.hold(name, samples)
	w.sealed, w.buffer = end, w.buffer+10
	e, err := events.Maker{Source: resolver.DefaultSource, Now: w.mix.Now}.New(&events.TelemetrySealed{
		Source: criterion.HostSource, Start: events.FormatTime(start), End: events.FormatTime(end), First: w.buffer - 9, Last: w.buffer,
		Watermark: events.FormatTime(end.Add(-time.Second)), SHA256: name, Samples: int64(len(samples)),
	})
	if err != nil {
		return nil, err
	}
	return events.Encode(e)
}

func (w *world) hold(name string, samples []criterion.Sample) {
	w.segments[name] = samples
	if w.order = append(w.order, name); len(w.order) > heldSegments {
		delete(w.segments, w.order[0])
		w.order = w.order[1:]
	}
}

// Load implements resolver.Segments.
func (w *world) Load(sha256 string) ([]criterion.Sample, error) {
	if s, ok := w.segments[sha256]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("segment %s is no longer held", sha256)
}
