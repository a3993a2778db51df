package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

var (
	// ErrBroken means that the ledger's records do not follow each other. The
	// service stops: nothing may be resolved from such a ledger.
	ErrBroken = errors.New("broken ledger")
	// ErrRolledBack means that the checkpoint lies before what was read already.
	ErrRolledBack = errors.New("checkpoint went back")
	// ErrUnencodable means that what a companion calls for has no bytes. The service
	// goes on without it.
	ErrUnencodable = errors.New("event that cannot be encoded")
)

// DefaultSource is the CloudEvents source of what a resolver writes.
const DefaultSource = "assay/resolver"

// Ledger is the ledger as the service reads it.
type Ledger interface {
	// Checkpoint is the last signed checkpoint, of size 0 when there is none.
	Checkpoint(ctx context.Context) (ledger.Checkpoint, error)
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
	// State is the file that keeps the fold between starts; "" keeps none, and
	// every start folds from record 1.
	State string
	// Beside makes a fold that runs beside the machine, over the same records;
	// nil runs none.
	Beside func() Companion
	// Poll is how often the checkpoint is looked at; 0 is 250 ms.
	Poll time.Duration
	Log  zerolog.Logger
}

// Companion is what the service needs of a fold that runs beside its machine. Like
// the machine it depends on the ledger alone.
type Companion interface {
	// Apply takes the next record, as Machine.Apply does. After ErrUnencodable it
	// stands behind the record as well, and what came beside the error is published:
	// one event that cannot be said silences no other. Nor does one that the intake
	// refuses.
	Apply(ledger.Record) ([]Emission, error)
	// Rules names what Apply does; a state that other rules made is not restored.
	Rules() string
	// Save is one JSON value, and Restore takes it up again.
	Save() ([]byte, error)
	Restore([]byte) error
}

// Service keeps nothing that the ledger does not say: its state is a fold of
// it. A saved state only spares it the beginning (see state.go).
//
// The records of a checkpoint are gone through twice: first to see that they are
// those that it signs and to learn what is said later of a record, then to fold
// them.
type Service struct {
	cfg     ServiceConfig
	mu      sync.Mutex // held while a record is applied and while a work list is made
	machine *Machine
	beside  Companion // nil without one
	sealers map[string]*Sealer

	tree   ledger.Tree // over what was looked at; whole at each checkpoint
	tip    ledger.Hash // leaf of the last record of tree
	folded ledger.Tree // over what is applied
	head   ledger.Hash // leaf of the last applied record
	broken bool        // an error left the machine where no record ends
	news   news        // of records that are not applied yet

	bodies [][]byte // that look read, from the first record that is not applied yet; nil when they were too many

	out     outbox    // of applied records
	begunAt time.Time // when the fold set out for the checkpoint

	begun     bool       // the saved state was looked for
	unproven  bool       // it was taken, and no checkpoint was reached since
	whole     bool       // everything up to tree's size is applied and published
	saved     ledger.Seq // last record of the saved state
	tried     ledger.Seq // record at which it was last to be saved, in vain or not
	saveEvery ledger.Seq

	applied  atomic.Uint64
	differed atomic.Uint64
	skipped  atomic.Uint64
	unsaid   atomic.Uint64
	stats    atomic.Pointer[Stats]
}

// Stats is where the fold stood when it was last caught up with a checkpoint.
type Stats struct {
	// LedgerTime is that of the last record folded.
	LedgerTime time.Time
	// Open counts the predictions that are not settled. Oldest is when the
	// first of them was recorded; zero without any.
	Open   int
	Oldest time.Time
	// Amendable counts the predictions settled within events.AmendableFor.
	Amendable int
	// TooLate counts the segments with samples that came too late to amend
	// anything.
	TooLate int
	// Watermarks say up to where each source's telemetry is sealed.
	Watermarks map[string]time.Time
}

// Stats is zero before the fold has caught up for the first time.
func (s *Service) Stats() Stats {
	if st := s.stats.Load(); st != nil {
		return *st
	}
	return Stats{}
}

// note makes Stats of a fold that stands at a checkpoint. It costs the same
// however many predictions there are.
func (s *Service) note() {
	m := s.machine
	st := Stats{
		LedgerTime: m.now, Open: len(m.preds), Amendable: m.past.live, TooLate: m.tooLate, Watermarks: make(map[string]time.Time, len(m.order)),
	}
	if p := m.oldest(); p != nil {
		st.Oldest = p.recordedAt
	}
	for _, src := range m.order {
		st.Watermarks[src.name] = src.watermark
	}
	s.stats.Store(&st)
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
	s := &Service{cfg: cfg, sealers: make(map[string]*Sealer), saveEvery: saveEvery}
	s.reset()
	if cfg.Buffer != nil {
		sources, every := cfg.Registry.Sources(), cmp.Or(cfg.SealEvery, sealEvery)
		for i, source := range sources {
			s.sealers[source] = NewSealer(SealerConfig{
				TelemetrySource: source, Registry: cfg.Registry, Buffer: cfg.Buffer, Blobs: cfg.Blobs, Publisher: cfg.Publisher,
				Source: cfg.Source, Every: every, Phase: every * time.Duration(i) / time.Duration(len(sources)),
				MaxSamples: cfg.SealMaxSamples, Log: cfg.Log,
			})
		}
	}
	return s, nil
}

// reset puts the service before record 1.
func (s *Service) reset() {
	s.mu.Lock()
	s.machine = NewMachine(s.machineConfig())
	s.mu.Unlock()
	if s.cfg.Beside != nil {
		s.beside = s.cfg.Beside()
	}
	s.tree, s.tip, s.folded, s.head = ledger.Tree{}, ledger.Hash{}, ledger.Tree{}, ledger.Hash{}
	s.unproven, s.whole, s.saved, s.tried = false, false, 0, 0
	s.bodies, s.out = nil, outbox{}
	s.applied.Store(0)
	s.skipped.Store(0)
	s.unsaid.Store(0)
	s.news = newNews()
	for _, sealer := range s.sealers {
		sealer.resume(cursor{})
	}
}

func (s *Service) machineConfig() MachineConfig {
	return MachineConfig{
		Registry: s.cfg.Registry, Registries: registriesIn(s.cfg.Blobs), Segments: BlobSegments{s.cfg.Blobs}, Resolver: s.cfg.Resolver, Source: s.cfg.Source,
		Pinned: func(id string) (string, bool) { return s.news.pinned(id) }, IsFinal: func(id string) bool { return s.news.isFinal(id) },
	}
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

// Unsaid counts what the fold beside the machine called for and is not written, for
// it could not be encoded or was refused; since the start or, where that folded from
// record 1, in all.
func (s *Service) Unsaid() uint64 { return s.unsaid.Load() }

// Run folds the ledger up to each new checkpoint and publishes what that calls
// for, and seals once it has caught up. It ends with ctx, whose error it
// returns, or with the first error that waiting does not mend.
func (s *Service) Run(ctx context.Context) error {
	defer s.stop(ctx)
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
		if err := telemetry.Wait(ctx, s.cfg.Poll); err != nil {
			return context.Cause(ctx)
		}
	}
}

// stopGrace is how long a stop waits for the intake: a service manager gives a
// stop at least ten seconds.
const stopGrace = 3 * time.Second

// stop saves the fold at the record where it stands, be it between two
// checkpoints, once what it called for so far is in the ledger.
func (s *Service) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if s.flush(ctx) == nil {
		s.save()
	}
}

// permanent marks an error that reading again does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Advance folds up to the present checkpoint. It reports whether it got there;
// a failure to read is logged and left to the next call.
func (s *Service) Advance(ctx context.Context) (caughtUp bool, err error) {
	cp, err := s.cfg.Ledger.Checkpoint(ctx)
	if err == nil && !s.begun {
		err = s.begin(ctx, cp)
	}
	if err == nil {
		err = s.advance(ctx, cp)
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
	return s.whole, nil
}

func (s *Service) advance(ctx context.Context, cp ledger.Checkpoint) error {
	to := ledger.Seq(cp.Size)
	switch {
	case cp.Size < s.tree.Size():
		return permanent{fmt.Errorf("%w: to %d, read up to %d", ErrRolledBack, to, s.tree.Size())}
	case to == s.Applied() && s.out.empty():
		if !s.whole { // a saved state may stand here already
			s.whole = true
			s.note()
		}
		return nil
	}
	s.whole, s.begunAt = false, time.Now()
	err := s.look(ctx, cp)
	if errors.Is(err, errUnsigned) && s.unproven {
		s.cfg.Log.Warn().Err(err).Msg("the saved state is not of this ledger: folding from record 1")
		s.reset()
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.applyAll(ctx, to); err != nil {
		return err
	}
	if s.Applied() < to || s.head != s.tip {
		return permanent{fmt.Errorf("%w: it ended at %d, then at %d or with another record there", ErrBroken, to, s.Applied())}
	}
	s.news = newNews() // what the fold still calls for lies behind
	s.whole = true
	s.note()
	return nil
}

// maxBodies is how many bytes of records look keeps for apply, so that only a
// long backlog is read twice.
const maxBodies = 16 << 20

// applyAll folds up to to and publishes what that calls for.
func (s *Service) applyAll(ctx context.Context, to ledger.Seq) error {
	bodies := s.bodies
	s.bodies = nil
	for _, body := range bodies {
		if err := s.apply(ctx, s.Applied()+1, body); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if s.Applied() < to {
		err := s.cfg.Ledger.Read(ctx, s.Applied()+1, to, func(seq ledger.Seq, body []byte) error { return s.apply(ctx, seq, body) })
		if err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// errUnsigned means that the records do not hash to the signed root.
var errUnsigned = fmt.Errorf("%w: it does not hash to the signed root", ErrBroken)

// look reads up to the checkpoint, holds the records against it and collects
// what apply must know beforehand.
func (s *Service) look(ctx context.Context, cp ledger.Checkpoint) error {
	s.bodies = nil
	if s.tree.Size() < cp.Size {
		kept, keep := 0, s.Applied() == ledger.Seq(s.tree.Size())
		err := s.cfg.Ledger.Read(ctx, ledger.Seq(s.tree.Size()+1), ledger.Seq(cp.Size), func(seq ledger.Seq, body []byte) error {
			if uint64(seq) != s.tree.Size()+1 {
				return permanent{fmt.Errorf("%w: record %d after %d", ErrBroken, seq, s.tree.Size())}
			}
			s.tip = ledger.Leaf(body)
			s.tree.Append(s.tip)
			s.news.learn(body)
			if kept += len(body); keep && kept <= maxBodies {
				s.bodies = append(s.bodies, body)
			} else {
				s.bodies, keep = nil, false
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case s.tree.Size() < cp.Size:
		return permanent{fmt.Errorf("%w: it ends at %d, the checkpoint at %d", ErrBroken, s.tree.Size(), cp.Size)}
	case s.tree.Root() != cp.Root:
		return permanent{fmt.Errorf("%w of size %d", errUnsigned, cp.Size)}
	}
	s.unproven = false
	return nil
}

// apply checks the link, folds the record and publishes.
func (s *Service) apply(ctx context.Context, seq ledger.Seq, body []byte) error {
	if seq != s.Applied()+1 {
		return permanent{fmt.Errorf("%w: record %d after %d", ErrBroken, seq, s.Applied())}
	}
	rec, err := ledger.ParseRecord(body)
	if !s.news.foreign[seq] {
		if err != nil {
			return permanent{fmt.Errorf("%w: record %d: %w", ErrBroken, seq, err)}
		}
		if rec.Seq != seq || rec.Prev != s.head {
			return permanent{fmt.Errorf("%w: record %d does not follow its predecessor", ErrBroken, seq)}
		}
		emissions, err := s.fold(rec)
		if err != nil {
			s.broken = true
			return permanent{err}
		}
		s.tellSealer(rec)
		for _, e := range emissions {
			s.publish(e)
		}
	}
	s.head = ledger.Leaf(body)
	s.folded.Append(s.head)
	s.applied.Store(uint64(seq))
	if s.Applied()-s.tried >= s.saveEvery {
		if err := s.flush(ctx); err != nil {
			return err
		}
		s.save()
	}
	if s.out.full() {
		return s.dispatch(ctx)
	}
	return nil
}

// fold hands a record to the machine and to what runs beside it.
func (s *Service) fold(rec ledger.Record) ([]Emission, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.machine.TooLate()
	emissions, err := s.machine.Apply(rec)
	if s.machine.TooLate() > late {
		s.cfg.Log.Warn().Uint64("seq", uint64(rec.Seq)).Msg("telemetry came more than seven days late: it amends nothing that was settled by then")
	}
	s.skipped.Store(uint64(s.machine.Skipped()))
	if err != nil || s.beside == nil {
		return emissions, err
	}
	more, err := s.beside.Apply(rec)
	if errors.Is(err, ErrUnencodable) {
		s.leaveUnsaid(rec.Seq, err)
		err = nil
	}
	for i := range more {
		more[i].beside = true
	}
	return append(emissions, more...), err
}

func (s *Service) tellSealer(rec ledger.Record) {
	if len(s.sealers) == 0 || !strings.HasPrefix(rec.Principal, "resolver/") {
		return
	}
	ev, err := events.DecodeEnvelope(rec.Event)
	if err != nil || ev.Type != events.TypeTelemetrySealed {
		return
	}
	if ev, err = events.Decode(rec.Event); err != nil {
		return
	}
	if d, ok := ev.Data.(*events.TelemetrySealed); ok && s.sealers[d.Source] != nil {
		s.sealers[d.Source].Observe(d)
	}
}
