package logger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"assay/internal/durable"
	"assay/ledger"
)

// Several loggers may be started for one ledger. One writes; the others stand
// by, and one of them takes over when the ledger falls silent. Nothing but the
// stream decides who writes: every append names the sequence that it expects,
// so of two loggers that both think it is their turn one gets no further.
//
//	standby  follows the stream, index caught up; answers and signs nothing
//	active   writes, at least a clock.ticked every leaseTick or so
//	fenced   met a record of another logger where its own should be: answers
//	         nothing more, signs nothing more
//
// The active one's lease runs from the moment at which it sent the last append
// that the broker acked. A standby counts silence from the moment at which it
// received a record, which is later, and takes over after takeoverAfter, which
// is longer than leaseTime: as long as monotonic clocks run at about the same
// rate, the lease is over before anyone else writes. What hangs on it:
//
//   - A checkpoint is signed only within the lease. Were it signed later, it
//     would still be of confirmed records, a true prefix of the ledger: the
//     lease keeps the order of what is published, the stream keeps it true.
//   - Past its lease a logger takes nothing before an append of its own has
//     shown that it is still the one. A process that was stopped for a minute
//     therefore finds out that it is fenced before it answers anybody.
const (
	// leaseTick is the time without records after which an active logger with
	// standbys writes a tick. Housekeeping looks once a second.
	leaseTick = 1500 * time.Millisecond
	leaseTime = 4 * time.Second
	// takeoverAfter leaves two and a half seconds for an append that is slow.
	takeoverAfter = 5 * time.Second
	pollEvery     = 100 * time.Millisecond
	// keepEvery is how often a standby commits what it followed.
	keepEvery = time.Second
	// retryStandby is the pause after a broker that does not answer.
	retryStandby = 500 * time.Millisecond
)

// The roles of a logger.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
	RoleFenced  = "fenced"
)

// ErrInstance means that an instance's name cannot name a file.
var ErrInstance = errors.New("an instance is named by up to 32 of a-z, 0-9 and -")

// errQuiet means that logger.started waits: for the operator's word, or for room.
var errQuiet = errors.New("nothing is written at present")

var instanceName = regexp.MustCompile(`^[a-z0-9-]{0,32}$`)

// CheckInstance says whether name can be a logger's Instance; "" is one.
func CheckInstance(name string) error {
	if !instanceName.MatchString(name) {
		return fmt.Errorf("%w: %q", ErrInstance, name)
	}
	return nil
}

// OpenStandby opens a logger that writes nothing yet: it holds the ledger
// against checkpoint and index like Open, and TakeOver does the rest.
func OpenStandby(ctx context.Context, cfg Config) (*Logger, error) {
	cfg.standby = true
	return open(ctx, cfg)
}

// TakeOver follows the stream until it has been silent for so long that nobody
// can hold a lease, and returns nil once logger.started is appended: then this
// logger is the active one, and Run and Listen may follow. It outlasts a
// broker that is away, and the race with other standbys. Its error is ctx's, or
// why the ledger must not be written (as for Open).
func (l *Logger) TakeOver(ctx context.Context) error {
	for {
		err := l.follow(ctx)
		if err == nil {
			err = l.tryTakeOver(ctx)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case l.refused(err):
			l.stopped(err)
			return err
		}
		l.setState(StandingBy, err.Error())
		if errors.Is(err, ErrFenced) {
			continue // another was quicker
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryStandby):
		}
	}
}

// refused says whether err is about the ledger or this host, and not about the
// way to the broker.
func (l *Logger) refused(err error) bool {
	for _, why := range []error{ErrNotInitialised, ErrNoCheckpoint, ErrBehind, ErrFork, ledger.ErrCorrupt, ledger.ErrBadCheckpoint,
		ledger.ErrBadRotation, ErrKeyNotInForce, ErrBadKeyring} {
		if errors.Is(err, why) {
			return true
		}
	}
	return l.index.db.Err() != nil
}

// tryTakeOver reads the tail again, as a start does, and appends logger.started
// where the stream ended when it fell silent. Whoever wrote in between wins:
// before the tail was read, it is seen there; after that, the append fails.
func (l *Logger) tryTakeOver(ctx context.Context) error {
	l.setState(Starting, "taking over")
	end := l.w.head.seq
	// Another logger of this directory may have rotated the key meanwhile.
	keys, err := LoadKeys(l.files)
	if err != nil {
		return err
	}
	l.keys = keys
	if err := l.recover(ctx); err != nil {
		return err
	}
	if l.w.head.seq != end {
		return fmt.Errorf("%w: record %d came just now", ErrFenced, end+1)
	}
	if err := l.announce(ctx); err != nil {
		return err
	}
	if l.roleIs(RoleStandby) {
		return errQuiet
	}
	l.w.rest()
	return nil
}

// followed is a stored message on its way to follow.
type followed struct {
	seq  ledger.Seq
	body []byte
}

// follow keeps the index at the stream's end and returns nil when nothing came
// for takeoverAfter.
func (l *Logger) follow(ctx context.Context) error {
	c := catchUp{l: l, signed: l.matched, indexed: l.w.head, pos: l.w.head, tree: l.w.tree.Clone(), batch: l.index.db.NewBatch()}
	defer func() { _ = c.batch.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	records, ended := make(chan followed), make(chan error, 1)
	from := c.pos.seq + 1
	go func() {
		ended <- l.cfg.Stream.Read(ctx, from, 0, func(seq ledger.Seq, body []byte) error {
			select {
			case records <- followed{seq, body}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(ended)
	}()
	defer func() {
		cancel()
		for range ended { // the reader must be gone before the index is
		}
	}()
	l.setState(StandingBy, "")
	heard := l.cfg.Clock.Monotonic()
	kept := heard
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return fmt.Errorf("follow the stream: %w", err)
		case r := <-records:
			if err := c.add(r.seq, r.body); err != nil {
				return err
			}
			heard = l.cfg.Clock.Monotonic()
			l.renew(heard)
		case <-poll.C:
			now := l.cfg.Clock.Monotonic()
			silent := now-heard >= takeoverAfter
			if silent || now-kept >= keepEvery {
				kept = now
				if err := c.keep(); err != nil {
					return err
				}
			}
			if silent && l.mayTakeOver(ctx, c.pos.seq) {
				return nil
			}
			if silent {
				heard = now
			}
		}
	}
}

// mayTakeOver says whether the silence is the active logger's, and there is
// something that this one could do better.
func (l *Logger) mayTakeOver(ctx context.Context, followed ledger.Seq) bool {
	head, err := l.cfg.Stream.Head(ctx)
	switch {
	case err != nil:
		// The active logger hears as little of the broker, and gets the same
		// time as everybody once it is back.
		l.setState(StandingBy, err.Error())
		return false
	case head.Last > followed:
		// It was the way to this standby that was silent, or the standby
		// itself was stopped.
		return false
	case len(l.w.foreign) > 0:
		// The active logger is silent until the operator has spoken, and so
		// would this one be.
		l.setState(StandingBy, l.w.foreignDetail())
		return false
	}
	if l.w.checkRoom(); l.w.room == roomForNone {
		l.setState(StandingBy, "the ledger's disk is nearly full")
		return false
	}
	return true
}

// keep commits what was followed and leaves a frontier there, so that a
// takeover reads no more than what came since.
func (c *catchUp) keep() error {
	w := &c.l.w
	if c.pos.seq == w.head.seq {
		return nil
	}
	if err := errors.Join(c.flush(), c.l.saveRing()); err != nil {
		return err
	}
	if err := c.l.index.putFollowed(c.pos, c.tree); err != nil {
		return err
	}
	w.head, w.tip, w.tree = c.pos, c.pos, c.tree.Clone()
	w.publish()
	c.l.setState(StandingBy, w.foreignDetail())
	return nil
}

// renew starts the lease: at the moment at which a confirmed append was sent,
// or, on standby, at which a record was received.
func (l *Logger) renew(sent time.Duration) { l.leased.Store(int64(sent)) }

// leaseAge is the time since the lease began.
func (l *Logger) leaseAge() time.Duration {
	return l.cfg.Clock.Monotonic() - time.Duration(l.leased.Load())
}

// lapsed says whether another logger may have taken over since this one's last
// append. Without standbys none does.
func (l *Logger) lapsed() bool { return l.cfg.standby && l.leaseAge() >= leaseTime }

func (l *Logger) roleIs(role string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.role == role
}

// maySign says whether this is the logger that signs.
func (l *Logger) maySign() bool { return l.roleIs(RoleActive) && !l.lapsed() }

// fence ends everything that could contradict the logger that writes now.
// Where that one answers too, silence is the only answer that cannot confuse:
// a client that gets none sends the same event again and receives the receipt.
func (l *Logger) fence() {
	l.mu.Lock()
	l.role = RoleFenced
	l.mu.Unlock()
	l.cfg.Log.Warn().Int("waiting", l.queues.waiting()).Msg("another logger writes: what waits here is left to it")
	if l.cfg.standby {
		l.queues.mute()
	}
}

// lockDir keeps loggers with and without standbys out of each other's way: a
// directory has one of the latter, or any number of the former.
func (l *Logger) lockDir() (*durable.Lock, error) {
	if err := CheckInstance(l.cfg.Instance); err != nil {
		return nil, err
	}
	if l.cfg.standby {
		return durable.TryShared(l.files.lock())
	}
	return durable.TryLock(l.files.lock())
}
