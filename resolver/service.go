package resolver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

var (
	// ErrBroken means that the ledger's records do not follow each other. The
	// service stops: nothing may be resolved from such a ledger.
	ErrBroken = errors.New("broken ledger")
	// ErrRolledBack means that the checkpoint lies before what was read already.
	ErrRolledBack = errors.New("checkpoint went back")
)

// DefaultSource is the CloudEvents source of what a resolver writes.
const DefaultSource = "assay/resolver"

// Ledger is the ledger as the service reads it.
type Ledger interface {
	// Checkpointed is the size of the last signed checkpoint that matches the
	// stream; 0 when there is none.
	Checkpointed(ctx context.Context) (ledger.Seq, error)
	// Read calls fn for the record bodies from from to to, both included, in
	// order. An error of fn ends it and is returned.
	Read(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error
}

// ServiceConfig is what a resolver runs on.
type ServiceConfig struct {
	Ledger    Ledger
	Publisher Publisher
	// Blobs holds segments, manifests and registries.
	Blobs    Blobs
	Registry *criterion.Registry
	// Resolver is written into each resolution.
	Resolver events.ResolverIdentity
	// Source is the CloudEvents source; "" is DefaultSource.
	Source string
	// Buffer is sealed for every source of the registry; nil seals nothing.
	Buffer Buffer
	// SealEvery and SealMaxSamples are a sealer's; 0 is its default.
	SealEvery      time.Duration
	SealMaxSamples int
	// Poll is how often the checkpoint is looked at; 0 is 250 ms.
	Poll time.Duration
	Log  zerolog.Logger
}

// Service keeps nothing of its own: its state is a fold of the ledger, and it
// starts by folding from record 1.
type Service struct {
	cfg     ServiceConfig
	machine *Machine
	sealers map[string]*Sealer

	head     ledger.Hash
	foreign  map[ledger.Seq]bool
	pins     map[string]string            // armed event id → registry hash
	stored   map[string][sha256.Size]byte // armed and resolved event id → its bytes' hash
	applied  atomic.Uint64
	differed atomic.Uint64
	skipped  atomic.Uint64
}

// NewService stores the registry by its hash, so that what it judged can be
// judged again.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Source == "" {
		cfg.Source = DefaultSource
	}
	if cfg.Poll == 0 {
		cfg.Poll = 250 * time.Millisecond
	}
	if _, err := cfg.Blobs.Put(cfg.Registry.Bytes()); err != nil {
		return nil, fmt.Errorf("keep registry: %w", err)
	}
	s := &Service{
		cfg: cfg, sealers: make(map[string]*Sealer), foreign: make(map[ledger.Seq]bool),
		pins: make(map[string]string), stored: make(map[string][sha256.Size]byte),
	}
	s.machine = NewMachine(MachineConfig{
		Registry: cfg.Registry, Registries: s.registry, Segments: BlobSegments{cfg.Blobs}, Resolver: cfg.Resolver, Source: cfg.Source,
		Pinned:     func(id string) (string, bool) { sha, ok := s.pins[id]; return sha, ok },
		IsResolved: func(id string) bool { _, ok := s.stored[id]; return ok },
	})
	if cfg.Buffer != nil {
		for _, source := range cfg.Registry.Sources() {
			s.sealers[source] = NewSealer(SealerConfig{
				TelemetrySource: source, Registry: cfg.Registry, Buffer: cfg.Buffer, Blobs: cfg.Blobs, Publisher: cfg.Publisher,
				Source: cfg.Source, Every: cfg.SealEvery, MaxSamples: cfg.SealMaxSamples, Log: cfg.Log,
			})
		}
	}
	return s, nil
}

func (s *Service) registry(sha string) (*criterion.Registry, error) {
	raw, err := s.cfg.Blobs.Get(sha)
	if err != nil {
		return nil, err
	}
	return criterion.ParseRegistry(raw)
}

// BlobSegments loads segments from a blob store.
type BlobSegments struct{ Blobs Blobs }

// Load implements Segments.
func (b BlobSegments) Load(sha256 string) ([]criterion.Sample, error) {
	raw, err := b.Blobs.Get(sha256)
	if err != nil {
		return nil, err
	}
	_, samples, err := DecodeSegment(raw)
	return samples, err
}

// Applied is the last record folded.
func (s *Service) Applied() ledger.Seq { return ledger.Seq(s.applied.Load()) }

// Differed counts events that the ledger has in other bytes than this build
// makes: another engine or registry was at work. The stored ones stand.
func (s *Service) Differed() uint64 { return s.differed.Load() }

// Skipped counts records that do not decode; they have no effect but on time.
func (s *Service) Skipped() uint64 { return s.skipped.Load() }

// Run folds the ledger up to each new checkpoint and publishes what that calls
// for, and seals once it has caught up. It ends with ctx, whose error it
// returns, or with the first error that waiting does not mend.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sealing := make(chan error, len(s.sealers))
	started := 0
	defer func() {
		cancel(nil)
		for range started {
			<-sealing
		}
	}()
	for {
		caughtUp, err := s.Advance(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		if caughtUp && started == 0 {
			for _, sealer := range s.sealers {
				started++
				go func() {
					err := sealer.Run(ctx)
					if err != nil && ctx.Err() == nil {
						cancel(fmt.Errorf("sealer: %w", err))
					}
					sealing <- err
				}()
			}
		}
		if err := sleep(ctx, s.cfg.Poll); err != nil {
			return context.Cause(ctx)
		}
	}
}

// permanent marks an error that reading again does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Advance folds up to the present checkpoint. It reports whether it got there;
// a failure to read is logged and left to the next call.
func (s *Service) Advance(ctx context.Context) (caughtUp bool, err error) {
	to, err := s.cfg.Ledger.Checkpointed(ctx)
	from := s.Applied() + 1
	switch {
	case err != nil:
	case to < s.Applied():
		return false, fmt.Errorf("%w: to %d, read up to %d", ErrRolledBack, to, s.Applied())
	case to >= from:
		// What the ledger says later of a record comes first: that it is
		// foreign, and that a prediction is armed or resolved already.
		if err = s.cfg.Ledger.Read(ctx, from, to, s.scan); err == nil {
			err = s.cfg.Ledger.Read(ctx, from, to, func(seq ledger.Seq, body []byte) error { return s.apply(ctx, seq, body) })
		}
		if err == nil && s.Applied() < to {
			return false, fmt.Errorf("%w: it ends at %d, the checkpoint at %d", ErrBroken, s.Applied(), to)
		}
	}
	if p, ok := errors.AsType[permanent](err); ok {
		return false, p.error
	}
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		s.cfg.Log.Warn().Err(err).Msg("ledger not readable: trying again")
		return false, nil
	}
	return s.Applied() == to, nil
}

// scan collects what apply must know beforehand.
func (s *Service) scan(_ ledger.Seq, body []byte) error {
	rec, err := ledger.ParseRecord(body)
	if err != nil {
		return nil // apply judges it
	}
	role, _, _ := strings.Cut(rec.Principal, "/")
	if role != "operator" && role != "resolver" {
		return nil
	}
	ev, err := events.Decode(rec.Event)
	if err != nil {
		return nil
	}
	switch d := ev.Data.(type) {
	case *events.ForeignAcknowledged:
		if role == "operator" && d.Seq < uint64(rec.Seq) {
			s.foreign[ledger.Seq(d.Seq)] = true
		}
	case *events.PredictionArmed:
		if role == "resolver" {
			s.pins[ev.ID] = d.RegistrySHA256
			s.stored[ev.ID] = sha256.Sum256(rec.Event)
		}
	case *events.PredictionResolved:
		if role == "resolver" {
			s.stored[ev.ID] = sha256.Sum256(rec.Event)
		}
	}
	return nil
}

// apply checks the link, folds the record and publishes.
func (s *Service) apply(ctx context.Context, seq ledger.Seq, body []byte) error {
	if seq != s.Applied()+1 {
		return permanent{fmt.Errorf("%w: record %d after %d", ErrBroken, seq, s.Applied())}
	}
	rec, err := ledger.ParseRecord(body)
	if !s.foreign[seq] {
		if err != nil {
			return permanent{fmt.Errorf("%w: record %d: %w", ErrBroken, seq, err)}
		}
		if rec.Seq != seq || rec.Prev != s.head {
			return permanent{fmt.Errorf("%w: record %d does not follow its predecessor", ErrBroken, seq)}
		}
		emissions, err := s.machine.Apply(rec)
		if err != nil {
			return permanent{err}
		}
		s.skipped.Store(uint64(s.machine.Skipped()))
		s.tellSealer(rec)
		for _, e := range emissions {
			if err := s.publish(ctx, e); err != nil {
				return permanent{err}
			}
		}
	}
	s.head = ledger.Leaf(body)
	s.applied.Store(uint64(seq))
	return nil
}

func (s *Service) tellSealer(rec ledger.Record) {
	if len(s.sealers) == 0 || !strings.HasPrefix(rec.Principal, "resolver/") {
		return
	}
	ev, err := events.Decode(rec.Event)
	if err != nil {
		return
	}
	if d, ok := ev.Data.(*events.TelemetrySealed); ok && s.sealers[d.Source] != nil {
		s.sealers[d.Source].Observe(d)
	}
}

// publish sends an emission unless the ledger has it.
func (s *Service) publish(ctx context.Context, e Emission) error {
	sum := sha256.Sum256(e.Event)
	if old, ok := s.stored[e.ID]; ok {
		if old != sum {
			s.differs(e)
		}
		return nil
	}
	if e.Manifest != nil {
		err := retry(ctx, s.cfg.Poll, s.cfg.Log, "store manifest", func() error {
			_, err := s.cfg.Blobs.Put(e.Manifest)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := retry(ctx, s.cfg.Poll, s.cfg.Log, "publish "+e.Type, func() error { return s.cfg.Publisher.Publish(ctx, e.Event) })
	if errors.Is(err, ErrConflict) {
		s.differs(e)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish %s of %s: %w", e.Type, e.PredID, err)
	}
	s.stored[e.ID] = sum
	return nil
}

func (s *Service) differs(e Emission) {
	s.differed.Add(1)
	s.cfg.Log.Warn().Str("type", e.Type).Str("pred_id", e.PredID).Str("id", e.ID).
		Msg("the ledger has another version of this event, which stands")
}
