// Package fill makes a ledger of many records as fast as the broker takes them: that of
// a system which was in use for a long time.
package fill

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"assay/bench/house"
	"assay/events"
	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/logger"
	"assay/ledger/stream"
	"assay/resolver/criterion"
)

// batch is how many records are appended at once: the broker's limit.
const batch = stream.DefaultMaxBatch

// Fill opens the ledger of a directory that `assay init --render-only` made,
// long ago by its own time, and appends records up to n.
func Fill(ctx context.Context, dir string, n int, out io.Writer) (err error) {
	b, err := broker.Start(broker.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, b.Stop(ctx))
	}()
	nc, err := open(ctx, b, dir, time.Now().Add(-time.Duration(n)*perRecord-time.Hour))
	if err != nil {
		return err
	}
	defer nc.Close()
	s, err := stream.New(nc, stream.Config{Timeout: time.Minute})
	if err != nil {
		return err
	}
	opening, err := s.Get(ctx, 1)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "registry.json"))
	if err != nil {
		return err
	}
	registry, err := criterion.ParseRegistry(raw)
	if err != nil {
		return err
	}
	who, err := principal.LoadCredential(principal.Dir(dir).Credential("resolver.main"))
	if err != nil {
		return err
	}
	w, err := newWorld(filepath.Join(dir, "blobs"), opening, registry, events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: who.Public})
	if err != nil {
		return err
	}
	sign, err := newSigner(logger.Files(filepath.Join(dir, "logger")), opening)
	if err != nil {
		return err
	}
	return appendAll(ctx, w, s, sign, n, out)
}

// open makes the streams and record 1 at the given time.
func open(ctx context.Context, b *broker.Broker, dir string, at time.Time) (*nats.Conn, error) {
	connect := func(path string) (*nats.Conn, error) {
		c, err := principal.LoadCredential(path)
		if err != nil {
			return nil, err
		}
		return b.Connect(c)
	}
	var conns []*nats.Conn
	for _, user := range []string{principal.BootstrapStore, principal.BootstrapTelemetry} {
		nc, err := connect(principal.CredentialPath(house.Offline(dir), user))
		if err != nil {
			return nil, err
		}
		defer nc.Close()
		conns = append(conns, nc)
	}
	if err := broker.CreateStreams(ctx, conns[0], conns[1], 1); err != nil {
		return nil, err
	}
	nc, err := connect(principal.Dir(dir).Credential(principal.LoggerStore))
	if err != nil {
		return nil, err
	}
	s, err := stream.New(nc, stream.Config{})
	if err == nil {
		err = logger.Genesis(ctx, logger.Config{
			Dir: filepath.Join(dir, "logger"), Stream: s, Software: "bench/fill", Clock: stoppedClock(at),
		}, strings.Repeat("0", 2*sha256.Size))
	}
	if err != nil {
		nc.Close()
	}
	return nc, err
}

// stoppedClock is a logger.Clock that stands still.
type stoppedClock time.Time

func (c stoppedClock) Wall() time.Time        { return time.Time(c) }
func (stoppedClock) Monotonic() time.Duration { return 0 }
func (stoppedClock) BootID() string           { return "bench" }

// appendAll makes the next batch while one is stored.
func appendAll(ctx context.Context, w *world, s *stream.Stream, sign *signer, n int, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []message, 1)
	go func() {
		defer close(batches)
		var msgs []message
		for int(w.head.Seq) <= n {
			var err error
			if msgs, err = w.next(msgs); err != nil {
				cancel(fmt.Errorf("record %d: %w", w.head.Seq, err))
				return
			}
			if len(msgs) >= batch-100 || int(w.head.Seq) > n {
				select {
				case batches <- msgs:
				case <-ctx.Done():
					return
				}
				msgs = nil
			}
		}
	}()
	first := ledger.Seq(2)
	for msgs := range batches {
		list := make([]stream.Message, len(msgs))
		for i, m := range msgs {
			list[i] = stream.Message{Subject: stream.SubjectPrefix + m.kind, Body: m.body}
			sign.tree.Append(ledger.Leaf(m.body))
		}
		if err := s.Append(ctx, first, list); err != nil {
			return err
		}
		first += ledger.Seq(len(list))
		if err := sign.sign(); err != nil {
			return err
		}
		if step := first / 1_000_000; step > (first-ledger.Seq(len(list)))/1_000_000 {
			fmt.Fprintf(out, "filled %d records\n", first-1)
		}
	}
	return context.Cause(ctx)
}

// signer keeps checkpoints as a logger would that signed after each batch.
type signer struct {
	dir    string
	key    note.Signer
	tree   ledger.Tree
	signed uint64
}

func newSigner(files logger.Files, opening []byte) (*signer, error) {
	raw, err := os.ReadFile(filepath.Join(string(files), "key"))
	if err != nil {
		return nil, err
	}
	s := &signer{dir: files.Checkpoints(), signed: 1}
	s.tree.Append(ledger.Leaf(opening))
	s.key, err = note.NewSigner(strings.TrimSpace(string(raw)))
	return s, err
}

func (s *signer) sign() error {
	latest := filepath.Join(s.dir, "latest")
	if ledger.KeepCheckpoint(s.signed, s.tree.Size()) {
		if err := os.Rename(latest, filepath.Join(s.dir, strconv.FormatUint(s.signed, 10))); err != nil {
			return err
		}
	}
	s.signed = s.tree.Size()
	raw, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: s.key.Name(), Size: s.signed, Root: s.tree.Root()}, s.key)
	if err != nil {
		return err
	}
	return os.WriteFile(latest, raw, 0o644)
}
