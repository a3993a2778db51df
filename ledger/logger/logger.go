// Package logger is the one writer of the ledger. It takes intake messages,
// checks them, chains them onto the LEDGER stream and answers with receipts.
//
// # The append, as one state machine
//
//	idle → sent → undecided → confirmed → indexed → replied → signed
//
//	sent       what is waiting goes out at an expected sequence, one append at
//	           a time; the next one may be built and staged meanwhile, never
//	           committed
//	undecided  no ack: the same bytes are sent again at the same position until
//	           the broker acks them or says that the stream ends elsewhere; then
//	           leaf hashes tell how much of it is stored
//	confirmed  the broker has fsynced it
//	indexed    (principal, id) → seq, head and Merkle frontier are one commit of
//	           the index, not fsynced: a crash rewinds the index, and start-up
//	           catches it up from the stream
//	replied    receipts go out: an ack means fsynced and chained
//	signed     the index is fsynced, then the checkpoint is signed and stored
//
// Nothing is ever appended behind an undecided append, no append is rebuilt,
// and no unconfirmed size is signed.
package logger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"assay/events"
	"assay/internal/durable"
	"assay/internal/kv"
	"assay/ledger"
	"assay/ledger/stream"
	"assay/ledger/witness"
)

// Principal and namespace of the logger's own records.
const (
	Principal = "logger/main"
	Namespace = "production"
)

var (
	// ErrNotInitialised means that the directory has no key: run init first.
	ErrNotInitialised = errors.New("no logger key here: run `assay init` first")
	// ErrNoKey means that the directory is a log's, but not its signing key: it
	// can be read and not written.
	ErrNoKey = errors.New("the log's signing key is not here, so that the ledger can be read and not written: put the key back, or replace it with `assay key recover` and the offline recovery key")
	// ErrNoCheckpoint means that there are records but no checkpoint to hold
	// them against.
	ErrNoCheckpoint = errors.New("the ledger has records but its checkpoint is missing")
	// ErrBehind means that the stream ends before something that was signed or
	// indexed: records are lost or an older copy was put in place.
	ErrBehind = errors.New("the stream ends before what this logger has confirmed")
	// ErrFork means that the stream's records are not those that were signed
	// or indexed: somebody changed them behind the broker's back.
	ErrFork = errors.New("the stream's records are not those that this logger confirmed")
	// ErrFenced means that another logger appends to the same stream: what it
	// wrote is linked to the same predecessor as what this one would write.
	ErrFenced = errors.New("another logger writes to this stream")
)

// Stream is what the logger needs of the LEDGER stream; *stream.Stream
// implements it.
type Stream interface {
	// Append stores msgs at first and after, and keeps nothing of them when it
	// returns. Errors wrap stream.ErrUndecided or stream.ErrWrongSequence.
	Append(ctx context.Context, first ledger.Seq, msgs []stream.Message) error
	// Stage may bring msgs nearer while the Append of what is before them is under
	// way, without waiting. Nothing of them is stored before an Append of the same
	// msgs, and nothing of them is used once an Append at first or behind it returns.
	Stage(first ledger.Seq, msgs []stream.Message)
	// Head, Get and Read are answered by the stream's leader. Get's error for
	// an absent message wraps stream.ErrNotFound.
	Head(ctx context.Context) (stream.Head, error)
	Get(ctx context.Context, seq ledger.Seq) ([]byte, error)
	Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error
	// MaxBatch is how many messages one Append should carry at most.
	MaxBatch() int
}

// Config says where the logger's state is and what it works with.
type Config struct {
	// Dir holds key, hmac.key, index/ and checkpoint/ (see Files).
	Dir string
	// Stream is where records go.
	Stream Stream
	// Clock is the system's clock when nil.
	Clock Clock
	// Quarantine keeps the raw bytes of a rejected message; nil drops them.
	Quarantine func(principal string, raw []byte)
	// FreeBytes tells how much room the broker's disk has; nil means unknown.
	FreeBytes func() (uint64, error)
	// LowWater is the free room in bytes below which nothing but the resolver
	// and the operator is taken; below half of it, nothing. Zero means 256 MiB.
	LowWater uint64
	// Witnesses says who is asked to cosign the checkpoints and how many must
	// before one counts; nil asks nobody.
	Witnesses *witness.Policy
	// NewID makes the ids of the logger's own events; nil is uuid.NewV7.
	NewID func() (uuid.UUID, error)
	// IndexFS is the file system under index/; nil is the host's.
	IndexFS kv.FS
	// Prepare writes a checkpoint's file durably and whole; nil is
	// durable.Prepare.
	Prepare func(path string, data []byte, mode fs.FileMode) (Pending, error)
	// Observer is told of each batch; nil tells nobody.
	Observer Observer
	// WeekZone is the IANA time zone in which weeks begin, for Genesis to write
	// into record 1, where every start finds it; "" is UTC.
	WeekZone string
	// Software names this build in ledger.opened and logger.started.
	Software string
	Log      zerolog.Logger
	// Instance tells the loggers of one directory apart; each has an index of
	// its own. "" is the usual one.
	Instance string

	standby bool // opened by OpenStandby
}

// Pending is a file beside the one that it will replace: see durable.Pending.
type Pending interface {
	Commit() error
	Discard()
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.LowWater == 0 {
		c.LowWater = 256 << 20
	}
	if c.Prepare == nil {
		c.Prepare = func(path string, data []byte, mode fs.FileMode) (Pending, error) {
			return durable.Prepare(path, data, mode)
		}
	}
	return c
}

const (
	signEvery     = time.Second
	housekeep     = time.Second
	idleTick      = 10 * time.Second
	maxBatchBytes = 8 << 20
	// singlesBelow: an atomic batch costs about 7 ms, a single about a third
	// of one, so fewer than this many are faster one after another.
	singlesBelow = 20
	// maxTaken bounds the events that are looked at for one batch, since those
	// that are refused or known add nothing to it and others wait meanwhile.
	maxTaken = 8192
	// farewellTimeout is how long a stop may take to write down what was counted.
	farewellTimeout = 3 * time.Second
)

// Logger is an open logger. Run does the work; everything else may be called
// at the same time.
type Logger struct {
	cfg    Config
	files  Files
	lock   *durable.Lock
	keys   *Keys
	index  *index
	maker  events.Maker
	queues queues
	cosign *cosigner

	w writer // only Run's goroutine

	signing sync.Mutex // one signature at a time
	matched uint64     // size of the largest checkpoint that recover matched
	// recoveryHash is what record 1 commits to: SHA-256 of the recovery key.
	recoveryHash string
	// leased is when the lease began, by the monotonic clock.
	leased atomic.Int64

	mu      sync.Mutex // guards what follows
	role    string
	warning string // what the start found and the operator should know
	snap    snapshot
	signed  ledger.Checkpoint
	// signedAt is when signed was, by the monotonic clock; meaningless if it was
	// found on file.
	signedAt time.Duration
	signs    bool // signedAt means something
	state    State
	detail   string
}

// State is what the logger is doing about its intake.
type State string

// The states; only Serving takes everything.
const (
	Starting  State = "starting"
	Serving   State = "serving"
	Undecided State = "undecided" // an append has no answer yet
	LowDisk   State = "low_disk"
	ForeignIn State = "foreign_record" // waits for the operator's acknowledgement
	Stopped   State = "stopped"
	// StandingBy is the only state in which the logger takes nothing by design.
	StandingBy State = "standby"
)

// States lists every state.
func States() []State {
	return []State{Starting, Serving, Undecided, LowDisk, ForeignIn, Stopped, StandingBy}
}

// snapshot is the confirmed and indexed end of the ledger.
type snapshot struct {
	tree    *ledger.Tree
	head    position
	foreign bool // some message waits for the operator's acknowledgement
}

// position is the end of a chain.
type position struct {
	seq  ledger.Seq
	leaf ledger.Hash
	time time.Time // ledger time
	// since is the time of the last record that counts for weeks: all but those
	// that bypass week.closed. It is not stored; see findSince.
	since time.Time
}

// Status is what an operator sees of a running logger.
type Status struct {
	State          State  `json:"state"`
	Detail         string `json:"detail,omitzero"`
	Size           uint64 `json:"size"`
	Root           string `json:"root"`
	LedgerTime     string `json:"ledger_time"`
	CheckpointSize uint64 `json:"checkpoint_size"`
	// CheckpointAge is the time in seconds since this logger last signed; nil
	// before it did.
	CheckpointAge *float64          `json:"checkpoint_age,omitzero"`
	Waiting       int               `json:"waiting"`
	WaitingBy     map[string]int    `json:"waiting_by,omitzero"` // principal
	Rejected      map[string]uint64 `json:"rejected"`            // by code, since the start
	// Unavailable counts the events that were answered or counted unavailable
	// since the start: they may come again, and have no record.
	Unavailable uint64 `json:"unavailable"`
	// Dropped counts the messages that never reached the intake's queues.
	Dropped  uint64 `json:"dropped"`
	Role     string `json:"role"` // active, standby or fenced
	Instance string `json:"instance,omitzero"`
	// LeaseAge is the time in seconds since the active logger's lease began, or
	// since a standby last heard of it. Nil where no standby is configured.
	LeaseAge *float64 `json:"lease_age,omitzero"`
	// Warning is what the operator should look into; it stops nothing.
	Warning    string      `json:"warning,omitzero"`
	Witnessing *Witnessing `json:"witnessing,omitzero"`
}

// Open checks the stream against index and checkpoint, catches the index up
// and appends logger.started. It refuses a ledger that does not hold what was
// signed: ErrNotInitialised, ErrNoCheckpoint, ErrBehind, ErrFork, or
// ledger.ErrCorrupt, each with the position. ctx bounds the start-up.
func Open(ctx context.Context, cfg Config) (*Logger, error) { return open(ctx, cfg) }

func open(ctx context.Context, cfg Config) (*Logger, error) {
	cfg = cfg.withDefaults()
	l := &Logger{cfg: cfg, files: Files(cfg.Dir), state: Starting, role: RoleActive}
	if cfg.standby {
		l.role = RoleStandby
	}
	l.maker = events.Maker{Source: "urn:assay:logger", Now: cfg.Clock.Wall, NewID: cfg.NewID}
	lock, err := l.lockDir()
	if err != nil {
		return nil, fmt.Errorf("logger directory %s: %w", cfg.Dir, err)
	}
	l.lock = lock
	if err := l.open(ctx); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *Logger) open(ctx context.Context) error {
	err := l.files.CheckRestored()
	if err != nil {
		return err
	}
	if l.keys, err = LoadKeys(l.files); err != nil {
		return err
	}
	if l.index, err = openIndex(l.files.index(l.cfg.Instance), &l.cfg); err != nil {
		return err
	}
	l.cosign = newCosigner(l)
	l.w.init(l)
	if l.cfg.standby {
		l.renew(l.cfg.Clock.Monotonic())
		return l.recover(ctx)
	}
	for try := 1; ; try++ {
		if err := l.recover(ctx); err != nil {
			return err
		}
		err := l.announce(ctx)
		if errors.Is(err, ErrFenced) && try < announceTries {
			// The last append of a logger that was killed may have landed
			// after the stream was read.
			l.cfg.Log.Warn().Err(err).Msg("read the stream again")
			continue
		}
		if err != nil && !errors.Is(err, errForeign) {
			return err
		}
		l.w.rest()
		return nil
	}
}

// announceTries is how often a start reads the stream before it gives way to
// another logger.
const announceTries = 3

// announce appends logger.started at the expected sequence: it proves, before
// anything is taken, that this logger can write and is the only one. With a
// foreign message in the stream it waits for the operator's word, on a full
// disk for room; then it goes before whatever is taken.
func (l *Logger) announce(ctx context.Context) error {
	if l.w.checkRoom(); l.w.quiet() {
		return l.swapKey()
	}
	l.w.ownQueue = nil
	l.w.compareClock()
	for begun := false; !begun; begun = l.w.started { // week.closed may go before it
		b := l.w.build()
		if err := l.w.settle(ctx, b, <-l.w.send(ctx, b)); err != nil {
			l.w.drop(b)
			return fmt.Errorf("append logger.started: %w", err)
		}
		if err := l.w.finish(b); err != nil {
			return err
		}
	}
	if err := l.rotate(ctx); err != nil {
		return err
	}
	// From here on this is the active logger; see saveCheckpoint.
	if err := l.files.removeUnsaved(); err != nil {
		return err
	}
	l.mu.Lock()
	l.role = RoleActive
	l.mu.Unlock()
	return l.sign()
}

func ownContext() events.Context {
	component, capture := "logger", "live"
	return events.Context{Component: &component, Capture: &capture}
}

// Close releases the index and the lock; Run must have returned. What still
// waits is answered.
func (l *Logger) Close() error {
	l.queues.refuseAll(errStopping)
	l.stopped(nil)
	return l.release()
}

// stopped keeps the reason of the first stop.
func (l *Logger) stopped(why error) {
	l.mu.Lock()
	already := l.state == Stopped
	l.mu.Unlock()
	switch {
	case already:
	case why != nil:
		l.setState(Stopped, why.Error())
	default:
		l.setState(Stopped, "")
	}
}

func (l *Logger) release() error {
	var errs []error
	if l.index != nil {
		errs = append(errs, l.index.close())
	}
	errs = append(errs, l.lock.Unlock())
	return errors.Join(errs...)
}

func (l *Logger) setState(s State, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != s {
		l.cfg.Log.Info().Str("state", string(s)).Str("detail", detail).Msg("logger state")
	}
	l.state, l.detail = s, detail
}

// Status reports the confirmed end of the ledger and the state of the intake.
func (l *Logger) Status() Status {
	waiting := l.queues.waiting()
	rejected := l.queues.rejectedByCode()
	waitingBy := l.queues.bySource()
	witnessing, alarm := l.cosign.status()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		State: l.state, Detail: l.detail, Waiting: waiting, WaitingBy: waitingBy, CheckpointSize: l.signed.Size, Rejected: rejected,
		Unavailable: l.queues.unavailable.Load(), Dropped: l.queues.dropped.Load(),
		Warning: cmp.Or(alarm, l.warning), Witnessing: witnessing,
	}
	if l.snap.tree != nil {
		s.Size, s.Root = l.snap.tree.Size(), l.snap.tree.Root().String()
	}
	if l.signs {
		age := (l.cfg.Clock.Monotonic() - l.signedAt).Seconds()
		s.CheckpointAge = &age
	}
	s.Role, s.Instance = l.role, l.cfg.Instance
	if l.cfg.standby {
		age := l.leaseAge().Seconds()
		s.LeaseAge = &age
	}
	if !l.snap.head.time.IsZero() {
		s.LedgerTime = ledger.FormatTime(l.snap.head.time)
	}
	return s
}

// Run serves the intake until ctx ends or the ledger must not be written any
// more: ErrFenced, ErrBehind, ErrFork, or an error of the index. What was
// acked is durable; the last checkpoint is signed before it returns.
func (l *Logger) Run(ctx context.Context) error {
	defer l.cosign.start()() // until the last checkpoint is signed
	signerDone := make(chan struct{})
	signCtx, stopSigner := context.WithCancel(ctx)
	go func() {
		defer close(signerDone)
		l.signLoop(signCtx)
	}()
	err := l.w.loop(ctx)
	stopSigner()
	<-signerDone
	l.queues.refuseAll(errStopping)
	if err == nil {
		err = l.w.farewell()
		if errors.Is(err, context.DeadlineExceeded) {
			l.cfg.Log.Error().Err(err).Msg("the last counts are lost")
			err = nil
		}
	} else if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // stopped with an append undecided: the next start finds out
	}
	l.stopped(err)
	if err != nil {
		return err
	}
	return l.sign()
}

func (l *Logger) signLoop(ctx context.Context) {
	t := time.NewTicker(signEvery)
	defer t.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := l.sign()
		if err == nil {
			said = ""
			continue
		}
		// A full disk may last for hours: each reason is told once.
		if err.Error() != said {
			said = err.Error()
			l.cfg.Log.Error().Err(err).Msg("sign checkpoint")
		}
	}
}
