package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// house is a broker on a fresh directory, configured as `assay init` does.
type house struct {
	dir        string
	principals *principal.File
	broker     *broker.Broker
}

func openHouse(ctx context.Context, parent, name string) (h *house, err error) {
	h = &house{dir: filepath.Join(parent, name)}
	offline := h.dir + "-offline"
	if h.principals, _, err = principal.Dir(h.dir).Init(offline); err != nil {
		return nil, err
	}
	if h.broker, err = broker.Start(broker.Config{Dir: h.dir}); err != nil {
		return nil, err
	}
	var conns [2]*nats.Conn
	for i, user := range []string{principal.BootstrapStore, principal.BootstrapTelemetry} {
		c, err := principal.LoadCredential(principal.CredentialPath(offline, user))
		if err == nil {
			conns[i], err = h.broker.Connect(c)
		}
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		defer conns[i].Close()
	}
	if err := broker.CreateStreams(ctx, conns[0], conns[1], 1); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// close stops the broker and removes the directory.
func (h *house) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(h.broker.Stop(ctx), os.RemoveAll(h.dir))
}

func (h *house) credential(user string) (principal.Credential, error) {
	return principal.LoadCredential(principal.Dir(h.dir).Credential(user))
}

// connect is a connection within the process, as the logger's own are.
func (h *house) connect(user string, opts ...nats.Option) (*nats.Conn, error) {
	c, err := h.credential(user)
	if err != nil {
		return nil, err
	}
	return h.broker.Connect(c, opts...)
}

// dial is a connection over loopback, as those of principals are.
func (h *house) dial(user string) (*nats.Conn, error) {
	c, err := h.credential(user)
	if err != nil {
		return nil, err
	}
	return broker.Dial(h.broker.ClientURL(), c)
}

// running is a logger at work in a house.
type running struct {
	*logger.Logger
	tally  *tally
	store  *nats.Conn
	intake *logger.Intake
	stop   context.CancelFunc
	done   chan error
}

// startLogger opens the ledger and serves it with the connections that `assay
// up` uses.
func (h *house) startLogger(ctx context.Context) (r *running, err error) {
	r = &running{done: make(chan error, 1)}
	if r.store, err = h.connect(principal.LoggerStore); err != nil {
		return nil, err
	}
	s, err := stream.New(r.store, stream.Config{})
	if err != nil {
		return nil, err
	}
	r.tally = &tally{Stream: s}
	files := logger.Files(filepath.Join(h.dir, "logger"))
	cfg := logger.Config{Dir: string(files), Stream: r.tally, Software: "bench"}
	if _, err := logger.CreateKeys(files, "bench/throughput"); err != nil {
		return nil, err
	}
	if err := logger.Genesis(ctx, cfg, strings.Repeat("0", 2*len(ledger.Hash{}))); err != nil {
		return nil, err
	}
	if r.Logger, err = logger.Open(ctx, cfg); err != nil {
		return nil, err
	}
	ctx, r.stop = context.WithCancel(ctx)
	go func() { r.done <- r.Run(ctx) }()
	r.intake, err = r.Listen(func(opts ...nats.Option) (*nats.Conn, error) {
		return h.connect(principal.LoggerIntake, opts...)
	}, h.principals.Principals)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *running) close() error {
	r.stop()
	err := <-r.done
	if r.intake != nil {
		r.intake.Close()
	}
	err = errors.Join(err, r.Logger.Close())
	r.store.Close()
	return err
}

// tally notes how the logger cut its appends.
type tally struct {
	*stream.Stream
	mu    sync.Mutex
	sizes []int
}

// Append implements logger.Stream.
func (t *tally) Append(ctx context.Context, first ledger.Seq, msgs []stream.Message) error {
	err := t.Stream.Append(ctx, first, msgs)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sizes = append(t.sizes, len(msgs))
	return err
}

// take returns the sizes since the last call.
func (t *tally) take() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.sizes
	t.sizes = nil
	return out
}

// awaitSigned waits until a checkpoint covers the whole ledger, so that an
// audit has all of it to check.
func (r *running) awaitSigned(ctx context.Context) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		if s := r.Status(); s.CheckpointSize == s.Size {
			return nil
		} else if time.Now().After(deadline) {
			return fmt.Errorf("the checkpoint covers %d of %d records", s.CheckpointSize, s.Size)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
