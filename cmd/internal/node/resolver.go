package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/publish"
	"assay/internal/blob"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/ledger/witness"
	"assay/resolver"
	"assay/resolver/canary"
	"assay/resolver/telemetry"
)

// ResolverConfig says how the resolver runs.
type ResolverConfig struct {
	// Name is that of the principal resolver/<name>; "" is main.
	Name string
	// Seal is how far a source's watermark moves between two segments; 0 is
	// ten seconds.
	Seal time.Duration
	Log  zerolog.Logger
}

// Resolver is a running resolver with its sealers.
type Resolver struct {
	*resolver.Service
	conns []*nats.Conn
	done  chan struct{}
	err   error
}

// StartResolver folds the ledger up to its last checkpoint, from where it was
// saved or from record 1, and then goes on; it seals the telemetry buffer once
// it has caught up.
func StartResolver(ctx context.Context, dir Dir, hub *Hub, cfg ResolverConfig) (*Resolver, error) {
	r := &Resolver{done: make(chan struct{})}
	if err := r.open(dir, hub, cfg); err != nil {
		r.close()
		return nil, err
	}
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	return r, nil
}

func (r *Resolver) open(dir Dir, hub *Hub, cfg ResolverConfig) error {
	reg, err := LoadRegistry(dir)
	if err != nil {
		return err
	}
	id := "resolver/" + cmp.Or(cfg.Name, "main")
	cred, err := principal.LoadCredential(principal.CredentialPath(dir.Creds(), userOf(id)))
	if err != nil {
		return err
	}
	policy, err := LoadPolicy(dir)
	if err != nil {
		return err
	}
	s, nc, err := hub.OpenReader(principal.ReadResolver)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, nc)
	intake, err := hub.DialAs(cred, true)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, intake)
	sealer, err := hub.ConnectInProcess(principal.Sealer)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, sealer)
	js, err := jetstream.New(sealer)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir.Resolver(), 0o700); err != nil {
		return err
	}
	blobs, err := blob.Open(dir.Blobs())
	if err != nil {
		return err
	}
	who := events.ResolverIdentity{ID: id, Kind: "telemetry", Key: cred.Public}
	r.Service, err = resolver.NewService(resolver.ServiceConfig{
		Ledger:    &signedLedger{Stream: s, dir: dir, policy: policy},
		Publisher: intakePublisher{publish.New(intake, id)},
		Blobs:     blobs, Registry: reg, Buffer: telemetry.Buffer{JS: js},
		Resolver:  who,
		Beside:    func() resolver.Companion { return canary.New(canary.Config{Resolver: who}) },
		SealEvery: cmp.Or(cfg.Seal, 10*time.Second), State: filepath.Join(dir.Resolver(), "state"), Log: cfg.Log,
	})
	return err
}

// Wait returns once the resolver has stopped.
func (r *Resolver) Wait() error {
	<-r.done
	r.close()
	if errors.Is(r.err, context.Canceled) {
		return nil
	}
	return r.err
}

func (r *Resolver) close() {
	for _, nc := range r.conns {
		nc.Close()
	}
}

// ResolverStatus is where the resolver stands.
type ResolverStatus struct {
	Applied  ledger.Seq `json:"applied"`  // last record folded
	Differed uint64     `json:"differed"` // stored events that this build would write otherwise
	Skipped  uint64     `json:"skipped"`  // records that do not decode
	Unsaid   uint64     `json:"unsaid"`   // rollbacks that were called for and cannot be encoded or were refused, since the start
	// The rest is of when it was last caught up with a checkpoint: ledger time,
	// how many predictions are not settled, when the first of them was recorded,
	// how many are settled and amendable, how many segments had samples that came
	// too late to amend anything, and up to where each source's telemetry is sealed.
	LedgerTime time.Time            `json:"ledger_time,omitzero"`
	Open       int                  `json:"open"`
	Oldest     time.Time            `json:"oldest_open,omitzero"`
	Amendable  int                  `json:"amendable"`
	TooLate    int                  `json:"too_late"`
	Watermarks map[string]time.Time `json:"watermarks,omitzero"`
}

// StatusOf is the service's status.
func (r *Resolver) StatusOf() *ResolverStatus {
	st := r.Stats()
	return &ResolverStatus{
		Applied: r.Applied(), Differed: r.Differed(), Skipped: r.Skipped(), Unsaid: r.Unsaid(),
		LedgerTime: st.LedgerTime, Open: st.Open, Oldest: st.Oldest, Amendable: st.Amendable, TooLate: st.TooLate, Watermarks: st.Watermarks,
	}
}

// ready says why the resolver does not do its job; nothing if it does.
func (r *Resolver) ready() []string {
	select {
	case <-r.done:
		return []string{fmt.Sprintf("the resolver has stopped: %v", r.err)}
	default:
	}
	return disconnected("resolver", r.conns...)
}

// intakePublisher is the resolver's way into the intake.
type intakePublisher struct{ c *publish.Client }

// Publish implements resolver.Publisher.
func (p intakePublisher) Publish(ctx context.Context, events ...[]byte) []error {
	answers, failed := p.c.PublishBatch(ctx, events)
	errs := make([]error, len(events))
	for i, a := range answers {
		switch {
		case a.Refusal != nil:
			errs[i] = refusedBy(a.Refusal)
		case a.Leaf == "":
			errs[i] = refusedBy(failed)
		}
	}
	return errs
}

// refusedBy says which of the resolver's errors it is that an event was not
// taken.
func refusedBy(err error) error {
	var refused *publish.Refusal
	switch {
	case !errors.As(err, &refused) || refused.RetryAfter != nil:
		return err
	case refused.Code == string(logger.CodeConflict):
		return fmt.Errorf("%w: %w", resolver.ErrConflict, err)
	}
	return fmt.Errorf("%w: %w", resolver.ErrRefused, err)
}

// signedLedger is the stream with the checkpoint that counts.
type signedLedger struct {
	*stream.Stream
	dir    Dir
	policy *witness.Policy   // nil: the newest checkpoint counts
	last   ledger.Checkpoint // the largest so far
}

// Checkpoint implements resolver.Ledger. What counted once does not cease to
// when the policy's files lag behind.
func (l *signedLedger) Checkpoint(context.Context) (ledger.Checkpoint, error) {
	cp, err := counting(l.dir, l.policy)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if cp.Size > l.last.Size {
		l.last = cp.Checkpoint
	}
	return l.last, nil
}
