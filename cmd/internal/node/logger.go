package node

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

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
	*logger.Logger
	dir    Dir
	sync   broker.SyncMode
	store  *nats.Conn
	intake *logger.Intake
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// StartLogger opens the ledger, starts the writer and then listens. local says
// that the broker's store is on this host, so that its disk can be watched.
func StartLogger(ctx context.Context, dir Dir, hub *Hub, local bool, software string, log zerolog.Logger) (*Logger, error) {
	file, err := principal.Load(principal.Dir(dir).Principals())
	if err != nil {
		return nil, err
	}
	l := &Logger{dir: dir, done: make(chan struct{})}
	if l.store, err = hub.ConnectInProcess(principal.LoggerStore); err != nil {
		return nil, err
	}
	if err := l.open(ctx, hub, local, software, log); err != nil {
		l.store.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	go func() {
		defer close(l.done)
		l.err = l.Run(ctx)
	}()
	l.intake, err = l.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return hub.ConnectInProcess(principal.LoggerIntake, opts...)
	}, file.Principals)
	if err != nil {
		l.cancel()
		return nil, errors.Join(err, l.Wait())
	}
	return l, nil
}

// open holds the broker against what an ack promises and opens the ledger.
func (l *Logger) open(ctx context.Context, hub *Hub, local bool, software string, log zerolog.Logger) (err error) {
	if l.sync, err = hub.CheckBroker(ctx, l.store); err != nil {
		return err
	}
	if l.sync == broker.SyncUnknown {
		log.Warn().Msg("the broker does not tell whether it fsyncs before it acks: give its monitoring address with --monitor")
	}
	s, err := stream.New(l.store, stream.Config{})
	if err != nil {
		return err
	}
	cfg := logger.Config{
		Dir: string(l.dir.Logger()), Stream: s, Software: software, Log: log,
		Quarantine: func(who string, raw []byte) {
			// Bounded and best effort: the record of the rejection is what counts.
			_ = l.store.Publish(QuarantineSubject+userOf(who), raw)
		},
	}
	if local {
		cfg.FreeBytes = l.dir.FreeBytes
	}
	l.Logger, err = logger.Open(ctx, cfg)
	return err
}

// Reload takes a changed principals file up.
func (l *Logger) Reload() error {
	file, err := principal.Load(principal.Dir(l.dir).Principals())
	if err != nil {
		return err
	}
	return l.intake.Update(file.Principals)
}

// Wait returns once the logger has stopped, after the context it was started
// with ended or because it must not go on, and releases everything.
func (l *Logger) Wait() error {
	<-l.done
	l.cancel()
	if l.intake != nil {
		l.intake.Close()
	}
	err := errors.Join(l.err, l.Logger.Close())
	l.store.Close()
	return err
}

// LoggerStatus is what the logger says of itself.
type LoggerStatus = logger.Status

// StatusOf is the logger's status.
func (l *Logger) StatusOf() *LoggerStatus {
	s := l.Logger.Status()
	return &s
}
