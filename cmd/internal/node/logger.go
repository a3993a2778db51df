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

	mu     sync.Mutex // guards what follows, which is made anew when the index failed or another logger wrote
	ledger *logger.Logger
	intake *logger.Intake
	waits  string // for what the logger waits before it opens the ledger again
}

// StartLogger opens the ledger, starts the writer and then listens; with
// standbys it stands by first. Where the broker's store is on this host, its
// disk is watched.
func StartLogger(ctx context.Context, hub *Hub, cfg UpConfig) (*Logger, error) {
	if err := cfg.Dir.Logger().CheckRestored(); err != nil { // before anybody misses the streams
		return nil, err
	}
	l := &Logger{hub: hub, cfg: cfg, done: make(chan struct{})}
	if hub.onHost() {
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
	listening := make(chan error, 1)
	go func() {
		defer close(l.done)
		l.err = l.run(ctx, listening)
	}()
	if cfg.Standby {
		return l, nil
	}
	if err := <-listening; err != nil {
		return nil, l.Wait()
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
	open := logger.Open
	if l.cfg.Standby {
		open = logger.OpenStandby
	}
	opened, err := open(ctx, logger.Config{
		Dir: string(l.cfg.Dir.Logger()), Stream: l.stream, Witnesses: policy, Software: l.cfg.Software, Log: l.cfg.Log, Instance: l.cfg.Instance, Clock: l.cfg.Clock,
		FreeBytes: l.room, LowWater: l.cfg.lowWater(), Observer: l.cfg.observer,
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

// run serves, and opens the ledger again when another logger fenced this one,
// to stand by, and when a full disk failed the index, which then takes no more
// writes: the stream says what the index missed. listening gets what the first
// start of the intake said.
func (l *Logger) run(ctx context.Context, listening chan<- error) error {
	err := l.serve(ctx, listening)
	for pause := firstReopen; ctx.Err() == nil; {
		switch {
		case l.cfg.Standby && errors.Is(err, logger.ErrFenced):
			l.cfg.Log.Warn().Err(err).Msg("stand by again")
		case errors.Is(err, kv.ErrFailed):
			if l.awaitRoom(ctx, err, pause) != nil {
				return nil
			}
			pause = min(2*pause, lastReopen)
		default:
			return err
		}
		began := time.Now()
		_ = l.release() // it says again why the index failed
		if err = l.open(ctx); err == nil {
			err = l.serve(ctx, make(chan error, 1))
		} else if fullDisk(err) {
			err = fmt.Errorf("%w: %w", kv.ErrFailed, err)
		}
		if time.Since(began) > lastReopen {
			pause = firstReopen
		}
	}
	return err
}

// serve runs the opened logger until it stops. The intake stays: release ends it.
func (l *Logger) serve(ctx context.Context, listening chan<- error) error {
	if l.cfg.Standby {
		if err := l.ledger.TakeOver(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.ledger.Run(running) }()
	err := l.listen()
	listening <- err
	if err != nil {
		cancel()
		return errors.Join(err, <-ended)
	}
	return <-ended
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

// awaitRoom waits until the disk has room for the index that failed.
func (l *Logger) awaitRoom(ctx context.Context, why error, pause time.Duration) error {
	l.cfg.Log.Error().Err(why).Msg("the logger's index failed: open it again once there is room")
	l.mu.Lock()
	l.waits = fmt.Sprintf("%v; waits for room on the disk", why)
	if l.cfg.Standby && l.intake != nil {
		// Another logger takes over and answers. Without one, the intake answers
		// meanwhile that the ledger is unavailable.
		l.intake.Close()
		l.intake = nil
	}
	l.mu.Unlock()
	return awaitRoom(ctx, l.room, l.cfg.lowWater(), pause)
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

// ready says why the logger does not do its job; nothing if it does. Standing
// by is a job.
func (l *Logger) ready() []string {
	reasons := disconnected("logger", l.store)
	if s := l.StatusOf(); s.State != logger.Serving && s.State != logger.StandingBy {
		reasons = append(reasons, fmt.Sprintf("the logger's state is %s: %s", s.State, s.Detail))
	}
	return reasons
}
