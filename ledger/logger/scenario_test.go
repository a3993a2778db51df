package logger_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/principal"
	"assay/ledger"
	"assay/ledger/broker"
	"assay/ledger/broker/brokertest"
	"assay/ledger/logger"
	"assay/ledger/stream"
)

// faultyBroker is the real stream with the simulation's fates before it.
type faultyBroker struct {
	logger.Stream
	other logger.Stream // for what somebody else does

	mu    sync.Mutex
	fates []fate // of the next appends
	reads int    // how many reads fail
	late  sync.WaitGroup
}

func (f *faultyBroker) next(fates ...fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fates = append(f.fates, fates...)
}

func (f *faultyBroker) take() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fates) == 0 {
		return fateStored
	}
	out := f.fates[0]
	f.fates = f.fates[1:]
	return out
}

func (f *faultyBroker) Append(ctx context.Context, first ledger.Seq, msgs []stream.Message) error {
	undecided := fmt.Errorf("append at %d: %w: timeout", first, stream.ErrUndecided)
	wrong := fmt.Errorf("append at %d: %w", first, stream.ErrWrongSequence)
	switch fate := f.take(); fate {
	case fateUnacked, fateRepeated:
		if err := f.Stream.Append(ctx, first, msgs); err != nil {
			return err
		}
		if fate == fateRepeated {
			return wrong
		}
		return undecided
	case fateLost:
		return undecided
	case fatePrefix:
		return errors.Join(undecided, f.Stream.Append(ctx, first, msgs[:(len(msgs)+1)/2]))
	case fateLate:
		var own []stream.Message
		for _, m := range msgs {
			own = append(own, stream.Message{Subject: m.Subject, Body: append([]byte(nil), m.Body...)})
		}
		f.late.Go(func() {
			time.Sleep(30 * time.Millisecond)
			_ = f.other.Append(context.Background(), first, own) // or it comes too late
		})
		return undecided
	case fateMisleading:
		return wrong
	case fateStranger:
		err := f.other.Append(ctx, first, []stream.Message{{Subject: "ledger.gate.chosen", Body: []byte("not a record")}})
		if err != nil {
			return err
		}
	}
	return f.Stream.Append(ctx, first, msgs)
}

func (f *faultyBroker) failing() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads == 0 {
		return nil
	}
	f.reads--
	return errLink
}

func (f *faultyBroker) Head(ctx context.Context) (stream.Head, error) {
	if err := f.failing(); err != nil {
		return stream.Head{}, err
	}
	return f.Stream.Head(ctx)
}

func (f *faultyBroker) Get(ctx context.Context, seq ledger.Seq) ([]byte, error) {
	if err := f.failing(); err != nil {
		return nil, err
	}
	return f.Stream.Get(ctx, seq)
}

// brokerHouse is a ledger on a real broker behind a connection that can be cut.
type brokerHouse struct {
	*house
	e    *brokertest.Env
	f    *faultyBroker
	d    *cutDialer
	sent [][]byte
	acks []answer
}

func newBrokerHouse(t *testing.T) *brokerHouse {
	e, d := brokertest.New(t), &cutDialer{}
	f := &faultyBroker{Stream: cutStream(t, e, d, 300*time.Millisecond), other: cutStream(t, e, &cutDialer{}, 10*time.Second)}
	b := &brokerHouse{house: looseHouse(t, t.TempDir()), e: e, f: f, d: d}
	b.cfg.Stream, b.cfg.Clock, b.cfg.Log = f, nil, zerolog.Nop()
	if _, err := logger.CreateKeys(b.files(), "example.com/log"); err != nil {
		t.Fatal(err)
	}
	if err := logger.Genesis(t.Context(), b.cfg, recoveryHash); err != nil {
		t.Fatal(err)
	}
	return b
}

// publish sends one event and a batch of 30, which have to be acked.
func (b *brokerHouse) publish(s *session) {
	b.t.Helper()
	one, many := gate(b.t), gates(b.t, 30)
	first := s.submit(principal.Agent, one)
	batch := s.submitBatch(principal.Agent, many)
	b.sent, b.acks = append(b.sent, one), append(b.acks, first.wait())
	b.sent, b.acks = append(b.sent, many...), append(b.acks, batch.all(30)...)
}

// holds reads the broker's stream and audits it: every acked event is there
// once, where its receipt says.
func (b *brokerHouse) holds() {
	b.t.Helper()
	b.f.late.Wait()
	b.s.bodies = nil
	err := b.f.other.Read(context.Background(), 1, 1<<62, func(_ ledger.Seq, body []byte) error {
		b.s.bodies = append(b.s.bodies, body)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.fullySigned()
	at := b.positions()
	for i, raw := range b.sent {
		if b.acks[i].Error != nil {
			b.t.Fatalf("event %d: %+v", i, b.acks[i])
		}
		b.checkReceipt(at, raw, b.acks[i])
	}
}

// TestScenariosOnTheBroker goes through what the simulation does in memory on
// a real broker: whatever comes between, what was acked is in the ledger once.
func TestScenariosOnTheBroker(t *testing.T) {
	t.Parallel()
	b := newBrokerHouse(t)
	for _, c := range []struct {
		name string
		do   func(*session)
	}{
		{"answers lost", func(*session) { b.f.next(fateUnacked, fateStored, fateUnacked) }},
		{"appends lost", func(*session) { b.f.next(fateLost, fateLost, fateStored, fateLost) }},
		{"a part is stored", func(*session) { b.f.next(fateStored, fatePrefix) }},
		{"a part is stored, the answer to the rest lost", func(*session) { b.f.next(fateStored, fatePrefix, fateStored, fateUnacked) }},
		{"stored after the answer was given up", func(*session) { b.f.next(fateLate, fateStored, fateLate) }},
		{"wrong sequence, although it is not", func(*session) { b.f.next(fateMisleading, fateStored, fateMisleading) }},
		{"a repeat is answered", func(*session) { b.f.next(fateRepeated, fateRepeated) }},
		{"reads fail while undecided", func(*session) { b.f.next(fateStored, fatePrefix); b.f.reads = 3 }},
		{"the connection loses an answer", func(*session) {
			b.d.deafen()
			time.AfterFunc(100*time.Millisecond, b.d.heal)
		}},
		{"the connection breaks within a batch", func(*session) { b.d.sever(4000) }},
		{"the broker restarts", func(*session) {
			b.f.next(fateUnacked)
			go func() {
				if err := b.e.Broker.Restart(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.house.t = t
			s := b.start()
			c.do(s)
			b.publish(s)
			s.awaitState(logger.Serving)
			b.f.mu.Lock()
			b.f.fates, b.f.reads = nil, 0
			b.f.mu.Unlock()
			b.d.heal()
			s.stop()
			b.holds()
			s = b.start()
			for i, raw := range b.sent[len(b.sent)-31:] {
				if again := s.must(principal.Agent, raw); again != b.acks[len(b.acks)-31+i] {
					t.Fatalf("after a restart %+v, first %+v", again, b.acks[len(b.acks)-31+i])
				}
			}
			s.stop()
		})
	}
}

// TestNeighboursOnTheBroker: a stranger's message stops the intake until the
// operator's word, another logger's record ends this one, an older copy of the
// store is refused.
func TestNeighboursOnTheBroker(t *testing.T) {
	t.Parallel()
	b := newBrokerHouse(t)
	s := b.start()
	b.f.next(fateStranger)
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	s.awaitState(logger.ForeignIn)
	s.must(principal.Operator, ackOf(t, 3, ledger.Leaf([]byte("not a record")).String()))
	b.publish(s)
	s.stop()
	b.holds()

	copied := filepath.Join(t.TempDir(), "store")
	b.swapStore(func(store string) { copyDir(t, store, copied) })

	s = b.start()
	b.publish(s)
	other := looseHouse(t, t.TempDir())
	other.cfg.Stream, other.cfg.Clock = cutStream(t, b.e, &cutDialer{}, 10*time.Second), nil
	copyDir(t, b.cfg.Dir, other.cfg.Dir)
	o := other.start() // takes the ledger over
	s.mustRefuse(principal.Agent, gate(t), "unavailable")
	if err := s.wait(); !errors.Is(err, logger.ErrFenced) {
		t.Fatalf("run: %v", err)
	}
	o.must(principal.Agent, gate(t))
	o.stop()

	b.swapStore(func(store string) {
		remove(t, store)
		copyDir(t, copied, store)
	})
	other.refuses(logger.ErrBehind)
	_ = s.end() // fenced
	b.refuses(logger.ErrBehind)
}

// swapStore does something to the broker's files while it does not run.
func (b *brokerHouse) swapStore(do func(store string)) {
	b.t.Helper()
	at, err := broker.ReadURL(b.e.Dir)
	if err != nil {
		b.t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		b.t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.e.Broker.Stop(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	do(filepath.Join(broker.Dir(b.e.Dir).Store(), "jetstream"))
	if b.e.Broker, err = broker.Start(broker.Config{Dir: b.e.Dir, Port: port}); err != nil {
		b.t.Fatal(err)
	}
	await(b.t, "the connection", func() bool {
		_, err := b.f.Stream.Head(context.Background())
		_, oerr := b.f.other.Head(context.Background())
		return err == nil && oerr == nil
	})
}
