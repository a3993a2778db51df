package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	ledgerstream "assay/ledger/stream"
	"assay/resolver/criterion"
)

const (
	// StreamName is the buffer's stream.
	StreamName = "TELEMETRY"
	// DefaultMaxAhead is how far in the future a sample may be dated.
	DefaultMaxAhead = time.Minute
	// DefaultKeep is about twice as long as a cluster takes to elect a leader.
	DefaultKeep = 20 * time.Second

	maxPendingMessages = 4096
	maxPendingBytes    = 64 << 20

	retryWait = 250 * time.Millisecond
)

// BufferSubject is where the ingress puts a source's batches.
func BufferSubject(source string) string { return "buffer." + source }

// IngressConfig is one ingress.
type IngressConfig struct {
	// Conn is a connection of the TELEMETRY account, which imports each
	// sensor's one subject.
	Conn *nats.Conn
	// Sources that are taken in.
	Sources []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// MaxAhead is how far ahead of Now a sample may be dated before its batch
	// is refused; 0 is DefaultMaxAhead.
	MaxAhead time.Duration
	// Keep is how long a batch is sent again while nobody stores it, as when a
	// cluster elects a leader; 0 is DefaultKeep.
	Keep time.Duration
	Log  zerolog.Logger
}

// IngressStats counts batches since the start. A lost batch was forwarded, or
// was to be, and is not known to have reached the buffer.
type IngressStats struct {
	Received  uint64 `json:"received"`
	Refused   uint64 `json:"refused"`
	Forwarded uint64 `json:"forwarded"`
	Lost      uint64 `json:"lost"`
	Dropped   uint64 `json:"dropped"` // by the client, its queue being full
}

// Ingress checks what sensors send and puts it into the buffer.
type Ingress struct {
	cfg  IngressConfig
	js   jetstream.JetStream
	subs []*nats.Subscription

	received, refused, forwarded, lost atomic.Uint64
}

// StartIngress subscribes to every source, each with its own bounded queue, so
// that one that floods starves none. Close ends it.
func StartIngress(cfg IngressConfig) (*Ingress, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxAhead == 0 {
		cfg.MaxAhead = DefaultMaxAhead
	}
	cfg.Keep = cmp.Or(cfg.Keep, DefaultKeep)
	in := &Ingress{cfg: cfg}
	var err error
	in.js, err = jetstream.New(cfg.Conn,
		jetstream.WithPublishAsyncMaxPending(maxPendingMessages),
		jetstream.WithPublishAsyncTimeout(cfg.Keep),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			in.lose(m.Subject, err)
		}))
	if err != nil {
		return nil, fmt.Errorf("start ingress: %w", err)
	}
	for _, source := range cfg.Sources {
		if !criterion.IsSource(source) {
			return nil, errors.Join(fmt.Errorf("start ingress: source %q", source), in.Close())
		}
		sub, err := cfg.Conn.Subscribe(Subject(source), func(m *nats.Msg) { in.take(source, m.Data) })
		if err == nil {
			err = sub.SetPendingLimits(maxPendingMessages, maxPendingBytes)
			in.subs = append(in.subs, sub)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start ingress for %s: %w", source, err), in.Close())
		}
	}
	if err := cfg.Conn.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("start ingress: %w", err), in.Close())
	}
	return in, nil
}

// take forwards the payload alone: a new message, so that no header that a
// sensor set reaches the buffer.
func (in *Ingress) take(source string, batch []byte) {
	in.received.Add(1)
	now := in.cfg.Now()
	if err := in.check(source, batch, now); err != nil {
		in.refused.Add(1)
		in.cfg.Log.Warn().Err(err).Str("source", source).Int("bytes", len(batch)).Msg("telemetry refused")
		return
	}
	if _, err := in.js.PublishAsync(BufferSubject(source), EncodeArrival(now, batch),
		jetstream.WithRetryWait(retryWait), jetstream.WithRetryAttempts(int(in.cfg.Keep/retryWait))); err != nil {
		in.lose(source, err)
		return
	}
	in.forwarded.Add(1)
}

func (in *Ingress) check(source string, batch []byte, now time.Time) error {
	samples, err := ParseBatch(source, batch)
	if err != nil {
		return err
	}
	if len(samples) == 0 {
		return fmt.Errorf("%w: no samples", ErrBatch)
	}
	for i := range samples {
		if ahead := samples[i].Time.Sub(now); ahead > in.cfg.MaxAhead {
			return fmt.Errorf("%w: /samples/%d/time is %v ahead", ErrBatch, i, ahead)
		}
	}
	return nil
}

func (in *Ingress) lose(subject string, err error) {
	in.lost.Add(1)
	in.cfg.Log.Warn().Err(err).Str("subject", subject).Msg("telemetry lost before the buffer")
}

// Stats counts what happened so far.
func (in *Ingress) Stats() IngressStats {
	st := IngressStats{
		Received: in.received.Load(), Refused: in.refused.Load(), Forwarded: in.forwarded.Load(), Lost: in.lost.Load(),
	}
	for _, sub := range in.subs {
		if n, err := sub.Dropped(); err == nil {
			st.Dropped += uint64(n)
		}
	}
	return st
}

// Flush waits until every batch taken in so far is acknowledged or lost.
func (in *Ingress) Flush(ctx context.Context) error {
	select {
	case <-in.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the subscriptions; the connection stays the caller's.
func (in *Ingress) Close() error {
	var errs []error
	for _, sub := range in.subs {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// led says whether the answer is to be believed where it says less than before.
func led(i *jetstream.StreamInfo) bool {
	if i.Cluster == nil {
		return i.Config.Replicas <= 1
	}
	var heard []time.Duration
	for _, r := range i.Cluster.Replicas {
		heard = append(heard, r.Active)
	}
	return ledgerstream.Led(i.Config.Replicas, i.Cluster.Leader, heard)
}

// ErrRewound means that the buffer ends before the place to read from: it was
// replaced or restored, and waiting there would be for ever.
var ErrRewound = errors.New("telemetry buffer ends before the cursor")

// Buffer reads the buffer's stream.
type Buffer struct{ JS jetstream.JetStream }

// Read calls fn for the source's messages after a buffer sequence, in order
// and then as they come, until ctx ends or fn fails. Messages that the buffer
// dropped are passed over. The body belongs to fn. ErrRewound is returned at once.
func (b Buffer) Read(ctx context.Context, source string, after uint64, fn func(seq uint64, body []byte) error) error {
	stream, err := b.JS.Stream(ctx, StreamName)
	if err != nil {
		return fmt.Errorf("read buffer of %s: %w", source, err)
	}
	if last := stream.CachedInfo().State.LastSeq; last < after {
		if !led(stream.CachedInfo()) {
			return fmt.Errorf("read buffer of %s: %w", source, ledgerstream.ErrNoLeader)
		}
		return fmt.Errorf("%w: at %d, cursor %d", ErrRewound, last, after)
	}
	cons, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{BufferSubject(source)},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return fmt.Errorf("read buffer of %s: %w", source, err)
	}
	messages, err := cons.Messages()
	if err != nil {
		return fmt.Errorf("read buffer of %s: %w", source, err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("read buffer of %s: %w", source, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read buffer of %s: %w", source, err)
		}
		if err := fn(meta.Sequence.Stream, m.Data()); err != nil {
			return err
		}
	}
}
