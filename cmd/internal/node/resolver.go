package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// StartResolver folds the ledger from record 1, up to its last checkpoint,
// and then goes on; it seals the telemetry buffer once it has caught up.
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
	blobs, err := blob.Open(dir.Blobs())
	if err != nil {
		return err
	}
	r.Service, err = resolver.NewService(resolver.ServiceConfig{
		Ledger:    &signedLedger{stream: s, dir: dir, policy: policy},
		Publisher: intakePublisher{publish.New(intake, id)},
		Blobs:     blobs, Registry: reg, Buffer: telemetry.Buffer{JS: js},
		Resolver:  events.ResolverIdentity{ID: id, Kind: "telemetry", Key: cred.Public},
		SealEvery: cmp.Or(cfg.Seal, 10*time.Second), Log: cfg.Log,
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
}

// StatusOf is the service's status.
func (r *Resolver) StatusOf() *ResolverStatus {
	return &ResolverStatus{Applied: r.Applied(), Differed: r.Differed(), Skipped: r.Skipped()}
}

// intakePublisher is the resolver's way into the intake.
type intakePublisher struct{ c *publish.Client }

func (p intakePublisher) Publish(ctx context.Context, event []byte) error {
	_, err := p.c.Publish(ctx, event)
	var refused *publish.Refusal
	switch {
	case !errors.As(err, &refused) || refused.RetryAfter != nil:
		return err
	case refused.Code == string(logger.CodeConflict):
		return fmt.Errorf("%w: %w", resolver.ErrConflict, err)
	}
	return fmt.Errorf("%w: %w", resolver.ErrRefused, err)
}

// errUnsigned means that the stream's records are not those that the
// checkpoint signs.
var errUnsigned = errors.New("the records do not hash to the signed root")

// signedLedger is the stream up to the last checkpoint that counts, whose root
// it recomputes from the records.
type signedLedger struct {
	stream *stream.Stream
	dir    Dir
	policy *witness.Policy // nil: the newest checkpoint counts
	tree   ledger.Tree
	size   ledger.Seq // of the last checkpoint that matched
}

// Checkpointed implements resolver.Ledger.
func (l *signedLedger) Checkpointed(ctx context.Context) (ledger.Seq, error) {
	cps, err := logger.LoadCheckpoints(l.dir.Logger())
	if err != nil {
		return 0, err
	}
	cp, err := counting(l.dir, l.policy, cps)
	if err != nil {
		return 0, err
	}
	if cp.Size <= uint64(l.size) {
		return l.size, nil
	}
	err = l.stream.Read(ctx, ledger.Seq(l.tree.Size())+1, ledger.Seq(cp.Size), func(seq ledger.Seq, body []byte) error {
		if uint64(seq) != l.tree.Size()+1 {
			return fmt.Errorf("%w: after record %d the stream continues at %d", ledger.ErrCorrupt, l.tree.Size(), seq)
		}
		l.tree.Append(ledger.Leaf(body))
		return nil
	})
	if err != nil {
		return 0, err
	}
	if l.tree.Size() != cp.Size {
		return 0, fmt.Errorf("the checkpoint signs %d records, the stream gave %d", cp.Size, l.tree.Size())
	}
	if l.tree.Root() != cp.Root {
		return 0, fmt.Errorf("%w of size %d", errUnsigned, cp.Size)
	}
	l.size = ledger.Seq(cp.Size)
	return l.size, nil
}

// Read implements resolver.Ledger.
func (l *signedLedger) Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	return l.stream.Read(ctx, from, to, fn)
}
