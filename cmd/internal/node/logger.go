package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/kv"
	"assay/internal/principal"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// QuarantineSubject goes before role.name in the subject of a rejected
// message's raw bytes.
const QuarantineSubject = "quarantine."

// Logger is a running logger with its connections.
type Logger struct {
	hub    *Hub
	cfg    UpConfig
	room   func() (uint64, error) // nil: unknown
	sync   broker.SyncMode
	store  *nats.Conn
	stream *stream.Stream
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu     sync.Mutex // guards what follows, which is made anew when the index failed
	ledger *logger.Logger
	intake *logger.Intake
	waits  string // for what the logger waits before it opens the ledger again
}

// StartLogger opens the ledger, starts the writer and then listens. local says
// that the broker's store is on this host, so that its disk can be watched.
func StartLogger(ctx context.Context, hub *Hub, local bool, cfg UpConfig) (*Logger, error) {
	if err := cfg.Dir.Logger().CheckRestored(); err != nil { // before anybody misses the streams
		return nil, err
	}
	l := &Logger{hub: hub, cfg: cfg, done: make(chan struct{})}
	if local {
		l.room = loggerRoom(cfg.Dir, hub.storeRoom)
	}
	var err error
	if l.store, err = hub.ConnectInProcess(principal.LoggerStore); err != nil {
		return nil, err
	}
	if err := l.check(ctx); err != nil {
		l.store.Close()
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		l.store.Close()
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.ledger.Run(ctx) }()
	go func() {
		defer close(l.done)
		l.err = l.follow(ctx, <-ended)
	}()
	if err := l.listen(); err != nil {
		l.cancel()
		return nil, errors.Join(err, l.Wait())
	}
	return l, nil
}

// check holds the broker against what an ack promises.
func (l *Logger) check(ctx context.Context) (err error) {
	if l.sync, err = l.hub.CheckBroker(ctx, l.store); err != nil {
		return err
	}
	if l.sync == broker.SyncUnknown {
		l.cfg.Log.Warn().Msg("the broker does not tell whether it fsyncs before it acks: give its monitoring address with --monitor")
	}
	l.stream, err = stream.New(l.store, stream.Config{})
	return err
}

// open opens the ledger.
func (l *Logger) open(ctx context.Context) error {
	policy, err := LoadPolicy(l.cfg.Dir)
	if err != nil {
		return err
	}
	opened, err := logger.Open(ctx, logger.Config{
		Dir: string(l.cfg.Dir.Logger()), Stream: l.stream, Witnesses: policy, Software: l.cfg.Software, Log: l.cfg.Log,
		FreeBytes: l.room, LowWater: l.cfg.lowWater(),
		Quarantine: func(who string, raw []byte) {
			// Bounded and best effort: the record of the rejection is what counts.
			_ = l.store.Publish(QuarantineSubject+userOf(who), raw)
		},
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledger, l.waits = opened, ""
	return nil
}

func (l *Logger) listen() error {
	file, err := principal.Load(principal.Dir(l.cfg.Dir).Principals())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intake, err = l.ledger.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return l.hub.ConnectInProcess(principal.LoggerIntake, opts...)
	}, file.Principals)
	return err
}

// follow takes the result of the first run. When a full disk failed the
// logger's index, which then takes no more writes, it opens the ledger again
// once there is room: the stream says what the index missed.
func (l *Logger) follow(ctx context.Context, err error) error {
	for pause := firstReopen; ctx.Err() == nil && errors.Is(err, kv.ErrFailed); pause = min(2*pause, lastReopen) {
		l.waitFor(fmt.Sprintf("%v; waits for room on the disk", err))
		l.cfg.Log.Error().Err(err).Msg("the logger's index failed: open it again once there is room")
		// Until then the intake answers that the ledger is unavailable.
		if awaitRoom(ctx, l.room, l.cfg.lowWater(), pause) != nil {
			return nil
		}
		began := time.Now()
		if err = l.reopen(ctx); err == nil {
			err = l.ledger.Run(ctx)
		} else if fullDisk(err) {
			err = fmt.Errorf("%w: %w", kv.ErrFailed, err)
		}
		if time.Since(began) > lastReopen {
			pause = firstReopen
		}
	}
	return err
}

func (l *Logger) waitFor(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = why
}

// reopen closes what failed and opens and listens again.
func (l *Logger) reopen(ctx context.Context) error {
	_ = l.release() // it says again why the index failed
	if err := l.open(ctx); err != nil {
		return err
	}
	return l.listen()
}

// release ends the intake and closes the ledger.
func (l *Logger) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.intake != nil {
		l.intake.Close()
		l.intake = nil
	}
	if l.ledger == nil {
		return nil
	}
	err := l.ledger.Close()
	l.ledger = nil
	return err
}

// Reload takes a changed principals file up.
func (l *Logger) Reload() error {
	file, err := principal.Load(principal.Dir(l.cfg.Dir).Principals())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.intake == nil {
		return nil // it will listen to those of the file
	}
	return l.intake.Update(file.Principals)
}

// Wait returns once the logger has stopped, after the context it was started
// with ended or because it must not go on, and releases everything.
func (l *Logger) Wait() error {
	<-l.done
	l.cancel()
	err := errors.Join(l.err, l.release())
	l.store.Close()
	return err
}

// LoggerStatus is what the logger says of itself.
type LoggerStatus = logger.Status

// StatusOf is the logger's status.
func (l *Logger) StatusOf() *LoggerStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := logger.Status{State: logger.Starting}
	if l.ledger != nil {
		s = l.ledger.Status()
	}
	if l.waits != "" {
		s.State, s.Detail = logger.LowDisk, l.waits
	}
	return &s
}
