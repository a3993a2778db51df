package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

// Buffer is the telemetry buffer as a sealer reads it: telemetry.Buffer.
type Buffer interface {
	// Read calls fn for the source's messages after a buffer sequence, in
	// order and then as they come. It returns telemetry.ErrRewound when the
	// buffer ends before after.
	Read(ctx context.Context, source string, after uint64, fn func(seq uint64, body []byte) error) error
}

// Blobs stores bytes under their SHA-256. What Put has stored survives a crash.
type Blobs interface {
	Put(data []byte) (sha256 string, err error)
	Get(sha256 string) ([]byte, error)
}

var (
	// ErrConflict means that the ledger has another event of that id.
	ErrConflict = errors.New("another event has this id")
	// ErrRefused means that the intake will never take the event.
	ErrRefused = errors.New("event refused")
)

// Publisher hands events to the intake and says what became of each. Nil means
// that the ledger holds these bytes under their id, now or since before;
// ErrConflict and ErrRefused are final, and after any other error the same
// bytes are sent again.
type Publisher interface {
	Publish(ctx context.Context, events ...[]byte) []error
}

// sealEvery is the default of SealerConfig.Every.
const sealEvery = time.Second

// SealerConfig is one source's sealer.
type SealerConfig struct {
	// TelemetrySource is the source whose buffer is cut.
	TelemetrySource string
	// Registry says which signals are the source's heartbeats.
	Registry  *criterion.Registry
	Buffer    Buffer
	Blobs     Blobs
	Publisher Publisher
	// Source is the CloudEvents source of the events.
	Source string
	// Every is the time between two segments' ends: where the watermark passes a
	// multiple of it; 0 is 1 s.
	Every time.Duration
	// Phase, less than Every, is how long after the multiples this source's ends
	// lie, so that not all sources are sealed, and all that waits for them is
	// resolved, at once.
	Phase time.Duration
	// MaxSamples cuts earlier; 0 is 10,000. A segment holds whole batches.
	MaxSamples int
	// Retry is the pause after a failure; 0 is 500 ms.
	Retry time.Duration
	Log   zerolog.Logger
}

// cursor is where a source's sealing stands: the last segment in the ledger.
type cursor struct {
	start, end time.Time
	watermark  time.Time
	last       uint64 // buffer sequence
}

// segmentCut is a segment before it is sealed.
type segmentCut struct {
	cursor
	first    uint64
	samples  []criterion.Sample
	earliest time.Time // event time of its first sample
	at       time.Time // arrival of its last batch
}

// cutter decides where segments end, by what the buffer holds alone, so that a
// sealer that starts again cuts the same ones.
//
// Starts and ends follow each other without a hole. Every sample of a segment
// lies before its end; one that came late may lie before its start.
type cutter struct {
	cfg     SealerConfig
	from    cursor
	mark    time.Time // newest heartbeat, but no later than its arrival
	first   uint64
	pending []criterion.Sample
	lo, hi  time.Time // event times of pending
	room    int       // what the segment before it needed of pending
}

func newCutter(cfg SealerConfig, from cursor) *cutter {
	return &cutter{cfg: cfg, from: from, mark: from.watermark}
}

// add takes the next buffered batch; a cut ends with it.
func (c *cutter) add(seq uint64, a telemetry.Arrival) (segmentCut, bool) {
	if c.first == 0 {
		c.first = seq
	}
	if c.pending == nil {
		c.pending = make([]criterion.Sample, 0, max(c.room, len(a.Samples)))
	}
	for i := range a.Samples {
		s := &a.Samples[i]
		if len(c.pending) == 0 || s.Time.Before(c.lo) {
			c.lo = s.Time
		}
		if len(c.pending) == 0 || s.Time.After(c.hi) {
			c.hi = s.Time
		}
		c.pending = append(c.pending, *s)
		if s.Time.After(c.mark) && s.IsValid() && c.cfg.Registry.IsHeartbeat(c.cfg.TelemetrySource, s.Signal) {
			c.mark = s.Time
			if c.mark.After(a.Arrived) {
				c.mark = a.Arrived
			}
		}
	}
	if len(c.pending) == 0 {
		return segmentCut{}, false
	}
	since := c.from.watermark
	if c.from.end.IsZero() {
		since = c.lo
	}
	if len(c.pending) < c.cfg.MaxSamples && c.mark.Before(c.cfg.nextEnd(since)) {
		return segmentCut{}, false
	}
	return c.cut(seq, a.Arrived), true
}

// nextEnd is the first of the source's places in time after since.
func (cfg *SealerConfig) nextEnd(since time.Time) time.Time {
	return since.Add(-cfg.Phase).Truncate(cfg.Every).Add(cfg.Every + cfg.Phase)
}

func (c *cutter) cut(seq uint64, at time.Time) segmentCut {
	out := segmentCut{first: c.first, samples: c.pending, earliest: c.lo, at: at}
	out.last, out.watermark, out.start = seq, c.mark, c.from.end
	if out.start.IsZero() {
		out.start = c.lo
	}
	if out.watermark.IsZero() {
		out.watermark = time.Unix(0, 0).UTC() // no heartbeat yet: nothing is waited out
	}
	out.end = out.start
	for _, t := range []time.Time{c.hi, out.watermark.Add(-1)} {
		if t.After(out.end) {
			out.end = t
		}
	}
	out.end = out.end.Add(1)
	*c = cutter{cfg: c.cfg, from: out.cursor, mark: c.mark, room: len(out.samples)}
	return out
}

// Sealer cuts one source's buffer into segments and puts them into the ledger.
// It keeps no state but what ledger and buffer have.
type Sealer struct {
	cfg SealerConfig

	mu      sync.Mutex
	ledger  cursor
	changed chan struct{} // closed when ledger moves
}

// NewSealer makes a sealer; Observe tells it where the ledger stands before Run.
func NewSealer(cfg SealerConfig) *Sealer {
	cfg.Every = cmp.Or(cfg.Every, sealEvery)
	if cfg.MaxSamples == 0 {
		cfg.MaxSamples = 10_000
	}
	if cfg.Retry == 0 {
		cfg.Retry = 500 * time.Millisecond
	}
	return &Sealer{cfg: cfg, changed: make(chan struct{})}
}

// Observe takes the source's telemetry.sealed events in ledger order.
func (s *Sealer) Observe(d *events.TelemetrySealed) {
	var c cursor
	for _, f := range []struct {
		to   *time.Time
		from *string
	}{{&c.start, &d.Start}, {&c.end, &d.End}, {&c.watermark, &d.Watermark}} {
		t, ok := events.Time(f.from)
		if !ok {
			return
		}
		*f.to = t.UTC()
	}
	c.last = d.Last
	s.resume(c)
}

// resume puts the sealer behind a segment.
func (s *Sealer) resume(c cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = c
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Sealer) stored() (cursor, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger, s.changed
}

// conflictError says that the ledger has another segment of the same start.
type conflictError struct{ start time.Time }

func (e conflictError) Error() string {
	return "another segment starts at " + events.FormatTime(e.start)
}

// Run seals until ctx ends or the intake refuses a segment for good.
func (s *Sealer) Run(ctx context.Context) error {
	at, _ := s.stored()
	for {
		c := newCutter(s.cfg, at)
		err := s.cfg.Buffer.Read(ctx, s.cfg.TelemetrySource, at.last, func(seq uint64, body []byte) error {
			a, err := telemetry.ParseArrival(s.cfg.TelemetrySource, body)
			if err != nil {
				s.cfg.Log.Warn().Err(err).Uint64("buffer_seq", seq).Msg("buffered telemetry left out")
				return nil
			}
			cut, ok := c.add(seq, a)
			if !ok {
				return nil
			}
			if err := s.seal(ctx, cut); err != nil {
				return err
			}
			at = cut.cursor
			return nil
		})
		conflict, isConflict := errors.AsType[conflictError](err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrRefused):
			return err
		case isConflict:
			s.cfg.Log.Warn().Err(err).Str("source", s.cfg.TelemetrySource).Msg("adopting the stored segment")
			if at, err = s.adopt(ctx, conflict.start); err != nil {
				return err
			}
			continue
		case errors.Is(err, telemetry.ErrRewound):
			s.cfg.Log.Warn().Err(err).Str("source", s.cfg.TelemetrySource).Msg("the buffer was replaced: reading it from its start")
			at.last = 0
			continue
		}
		s.cfg.Log.Warn().Err(err).Str("source", s.cfg.TelemetrySource).Msg("sealing interrupted")
		if err := telemetry.Wait(ctx, s.cfg.Retry); err != nil {
			return err
		}
	}
}

// adopt waits until the ledger's reader has seen the segment of that start, or
// a later one.
func (s *Sealer) adopt(ctx context.Context, start time.Time) (cursor, error) {
	for {
		at, changed := s.stored()
		if !at.start.Before(start) {
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return cursor{}, ctx.Err()
		}
	}
}

// seal stores the blob first, so that no event names what is not there, and
// then sends the same bytes until the intake answers.
func (s *Sealer) seal(ctx context.Context, cut segmentCut) error {
	blob := EncodeSegment(s.cfg.TelemetrySource, cut.samples)
	var sha string
	err := retry(ctx, s.cfg.Retry, s.cfg.Log, "store segment", func() (err error) {
		sha, err = s.cfg.Blobs.Put(blob)
		return err
	})
	if err != nil {
		return err
	}
	event, err := s.event(cut, sha)
	if err != nil {
		return err
	}
	err = retry(ctx, s.cfg.Retry, s.cfg.Log, "publish segment", func() error { return s.cfg.Publisher.Publish(ctx, event)[0] })
	if errors.Is(err, ErrConflict) {
		return conflictError{cut.start}
	}
	return err
}

// event is the telemetry.sealed of a cut; each byte of it follows from the
// buffer.
func (s *Sealer) event(cut segmentCut, sha string) ([]byte, error) {
	component, capture := "sealer", "live"
	start, earliest := events.FormatTime(cut.start), events.FormatTime(cut.earliest)
	data := &events.TelemetrySealed{
		Context: events.Context{Component: &component, Capture: &capture},
		Source:  s.cfg.TelemetrySource, Start: start, End: events.FormatTime(cut.end), First: cut.first, Last: cut.last,
		Watermark: events.FormatTime(cut.watermark), SHA256: sha, Samples: int64(len(cut.samples)), Earliest: &earliest,
	}
	raw, err := events.Encode(&events.Event{
		ID:     events.DerivedID(events.TypeTelemetrySealed, s.cfg.TelemetrySource, start).String(),
		Source: s.cfg.Source, Type: events.TypeTelemetrySealed, Time: events.FormatTime(cut.at),
		DataSchema: events.DataSchema(events.TypeTelemetrySealed, 1), Version: 1, Data: data,
	})
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return raw, nil
}

// retry repeats do until it succeeds, fails for good or ctx ends.
func retry(ctx context.Context, pause time.Duration, log zerolog.Logger, what string, do func() error) error {
	for {
		err := do()
		if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrRefused) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn().Err(err).Msg(what + ": trying again")
		if err := telemetry.Wait(ctx, pause); err != nil {
			return err
		}
	}
}
