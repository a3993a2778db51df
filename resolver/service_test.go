package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/resolver/criterion"
)

func serviceOf(t testing.TB, m *memory, blobs Blobs, r *criterion.Registry) *Service {
	s, err := NewService(ServiceConfig{
		Ledger: m, Publisher: m, Blobs: blobs, Registry: r, Poll: time.Millisecond, Log: zerolog.Nop(),
		Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: "UKEY"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// copyBlobs puts a book's segments into a blob store.
func copyBlobs(t fataler, b *book, blobs Blobs) {
	for _, raw := range b.blobs {
		if _, err := blobs.Put(raw); err != nil {
			t.Fatal(err)
		}
	}
}

// A service that is killed and started anywhere leaves the same resolutions in
// the ledger as one that was never interrupted, each once.
func TestServiceRestarts(t *testing.T) {
	r := testRegistry(t)
	blobs := make(memoryBlobs)
	rapid.Check(t, func(rt *rapid.T) {
		source := genBook(rt)
		copyBlobs(rt, source, blobs)
		run := func(restarts bool) map[string]string {
			m := newMemory(rt)
			s := serviceOf(t, m, blobs, r)
			for _, body := range source.bodies {
				m.take(body)
				if restarts && rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
					s = serviceOf(t, m, blobs, r)
				}
				m.catchUp(s)
				if s.Differed() != 0 {
					rt.Fatal("a restart made other bytes")
				}
			}
			out := make(map[string]string)
			for _, body := range m.book.bodies {
				rec, _ := ledger.ParseRecord(body)
				if ev, err := events.Decode(rec.Event); err == nil {
					switch d := ev.Data.(type) {
					case *events.PredictionResolved:
						out[ev.ID] = fmt.Sprint(d.PredID, d.Verdict, text(d.Reason), d.Evidence, d.CutSeq)
					case *events.PredictionResolutionAmended:
						out[ev.ID] = fmt.Sprint(d.PredID, d.Supersedes, d.Verdict, text(d.Reason), d.Evidence, d.CutSeq)
					}
				}
			}
			return out
		}
		whole, restarted := run(false), run(true)
		if fmt.Sprint(whole) != fmt.Sprint(restarted) {
			rt.Fatalf("%v\nwith restarts\n%v", whole, restarted)
		}
	})
}

func TestServicePinsTheRegistry(t *testing.T) {
	m := newMemory(t)
	blobs := mustBlobs(t)
	m.book.predict(0, "p", low)
	m.sign()
	ctx := t.Context()
	if ok, err := serviceOf(t, m, blobs, testRegistry(t)).Advance(ctx); !ok || err != nil {
		t.Fatal(ok, err)
	}
	// The operator drops the signal. What is armed goes on under the old registry.
	changed := mustRegistry(t, signalOf("beat", criterion.Gauge, "beat"))
	m.book.predict(1, "q", low)
	m.book.seal(11, 10, ticks(5, 10, 99)...)
	copyBlobs(t, m.book, blobs)
	m.sign()
	if ok, err := serviceOf(t, m, blobs, changed).Advance(ctx); !ok || err != nil {
		t.Fatal(ok, err)
	}
	got := make(map[string]string)
	for _, body := range m.book.bodies {
		rec, _ := ledger.ParseRecord(body)
		if ev, err := events.Decode(rec.Event); err == nil {
			if d, ok := ev.Data.(*events.PredictionResolved); ok {
				got[d.PredID] = d.Verdict + " " + d.RegistrySHA256
			}
		}
	}
	want := map[string]string{"p": "refuted " + testRegistry(t).HashString(), "q": "void " + changed.HashString()}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Without the bytes of the old registry it says so instead of judging anew.
	empty := mustBlobs(t)
	if _, err := empty.Put(changed.Bytes()); err != nil {
		t.Fatal(err)
	}
	fresh := newMemory(t)
	fresh.book.predict(0, "p", low)
	armed := machineOf(fresh.book, testRegistry(t))
	for _, e := range fresh.book.fold(armed) {
		fresh.book.event(at(1), "resolver/main", e.Event)
	}
	fresh.sign()
	if _, err := serviceOf(t, fresh, empty, changed).Advance(ctx); !errors.Is(err, ErrRegistry) {
		t.Errorf("%v, want ErrRegistry", err)
	}
}

func TestServiceStops(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(m *memory)
		want   error
	}{
		"a flipped byte":       {func(m *memory) { m.book.bodies[0] = bytes.Replace(m.book.bodies[0], []byte(`"x"`), []byte(`"y"`), 1) }, ErrBroken},
		"a record that is not": {func(m *memory) { m.book.bodies[1] = []byte("x") }, ErrBroken},
		"a missing record":     {func(m *memory) { m.book.bodies = slices.Delete(m.book.bodies, 1, 2); m.signed-- }, ErrBroken},
		"a lost tail":          {func(m *memory) { m.book.bodies = m.book.bodies[:1] }, ErrBroken},
		"a missing segment":    {func(m *memory) {}, blob.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			m.book.predict(0, "p", low)
			m.book.tick(1)
			m.book.seal(11, 10, ticks(5, 10, 99)...)
			m.sign()
			tc.change(m)
			if _, err := serviceOf(t, m, mustBlobs(t), testRegistry(t)).Advance(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
	t.Run("a checkpoint that went back", func(t *testing.T) {
		m := newMemory(t)
		m.book.tick(0)
		m.book.tick(1)
		m.sign()
		s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
		if ok, err := s.Advance(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		m.signed = 1
		if _, err := s.Advance(t.Context()); !errors.Is(err, ErrRolledBack) {
			t.Errorf("%v, want ErrRolledBack", err)
		}
	})
}

// A record that the operator acknowledged as foreign has no effect, be it
// garbage or a well-made forgery.
func TestServicePassesForeignRecords(t *testing.T) {
	m := newMemory(t)
	b := m.book
	blobs := mustBlobs(t)
	b.predict(0, "p", low)
	foreign := b.seal(11, 10, ticks(5, 10, 99)...)
	b.add(12, "operator/main", &events.ForeignAcknowledged{Seq: uint64(foreign), SHA256: ledger.Leaf(b.bodies[foreign-1]).String()})
	b.bodies = append(b.bodies, []byte("garbage"))
	b.head = ledger.Leaf([]byte("garbage"))
	b.add(13, "operator/main", &events.ForeignAcknowledged{Seq: uint64(len(b.bodies)), SHA256: b.head.String()})
	b.seal(66, 65, ticks(15, 60, 1)...)
	copyBlobs(t, b, blobs)
	m.sign()
	if ok, err := serviceOf(t, m, blobs, testRegistry(t)).Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	last, err := ledger.ParseRecord(m.book.bodies[len(m.book.bodies)-1])
	if err != nil {
		t.Fatal(err)
	}
	ev, err := events.Decode(last.Event)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := ev.Data.(*events.PredictionResolved); !ok || d.Verdict != Confirmed {
		t.Errorf("%+v", ev.Data)
	}
}

// The whole room: a sensor's batches in the buffer, sealed, checkpointed,
// evaluated and resolved while the service runs.
func TestServiceRun(t *testing.T) {
	m := newMemory(t)
	m.book.predict(0, "held", low)
	m.book.predict(0, "broken", strings.Replace(low, `"value":60`, `"value":1`, 1))
	m.sign()
	s, err := NewService(ServiceConfig{
		Ledger: m, Publisher: m, Blobs: mustBlobs(t), Registry: testRegistry(t), Buffer: memoryBuffer{m}, SealEvery: 6 * time.Second,
		Poll: time.Millisecond, Log: zerolog.Nop(), Resolver: events.ResolverIdentity{ID: "resolver/main", Kind: "telemetry", Key: "UKEY"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	verdicts := make(map[string]string)
	lastSealed := func() uint64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		list := mustSealed(t, m.book)
		if len(list) == 0 {
			return 0
		}
		return list[len(list)-1].Last
	}
	for n := uint64(1); len(verdicts) < 2; n++ {
		now := float64(n)*10 - 5
		if now > 600 {
			t.Fatalf("only %v resolved", verdicts)
		}
		m.mu.Lock()
		m.now = max(m.now, now)
		m.mu.Unlock()
		m.send(now, ticks(now, now+1, 2)...)
		if n > 1 {
			wait(t, "the next segment", func() bool { return lastSealed() == n })
		}
		m.sign()
		cp, _ := m.Checkpoint(ctx)
		wait(t, "the next checkpoint's reading", func() bool { return uint64(s.Applied()) >= cp.Size })
		m.mu.Lock()
		for _, raw := range m.byID {
			if ev, err := events.Decode([]byte(raw)); err == nil {
				if d, ok := ev.Data.(*events.PredictionResolved); ok {
					verdicts[d.PredID] = d.Verdict
				}
			}
		}
		m.mu.Unlock()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the service ended with %v", err)
	}
	if verdicts["held"] != Confirmed || verdicts["broken"] != Refuted {
		t.Errorf("%v", verdicts)
	}
}

// What a checkpoint calls for is published together and in order, whatever
// fails meanwhile; its records are read once.
func TestServicePublishesTogether(t *testing.T) {
	const n = 2*maxMessage + 10
	m := toArm(t, n)
	m.failing, m.stored = 3, true
	s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
	if ok, err := s.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if len(m.book.bodies) != 2*n {
		t.Fatalf("%d records, want %d", len(m.book.bodies), 2*n)
	}
	wantArmed(t, m, n)
	// Two outboxes, the rest, and what failed of the first message again.
	calls := 2*((maxMessage+gentleMessage-1)/gentleMessage) + 2
	if m.calls != calls {
		t.Errorf("%d messages to the intake, want %d", m.calls, calls)
	}
	if m.reads != 1 {
		t.Errorf("the records were read %d times", m.reads)
	}
	m.sign()
	if ok, err := s.Advance(t.Context()); !ok || err != nil || m.reads != 2 || m.calls != calls {
		t.Errorf("%v %v after %d reads and %d messages", ok, err, m.reads, m.calls)
	}
}

// A backlog that is too long to be kept between looking and folding is read
// again, and so is what an interrupted reading left.
func TestServiceReadsAgain(t *testing.T) {
	m := newMemory(t)
	pad := strings.Repeat("x", 60_000)
	for i := range maxBodies/len(pad) + 2 {
		m.book.event(at(float64(i)), "agent/piper", []byte(`{"pad":"`+pad+`"}`))
	}
	m.book.predict(1000, "p", low)
	m.sign()
	s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
	if ok, err := s.Advance(t.Context()); !ok || err != nil || m.reads != 2 || s.bodies != nil {
		t.Fatalf("%v %v after %d reads", ok, err, m.reads)
	}
	last := len(m.book.bodies)
	for m.cut = 1; m.cut >= 0; m.cut-- { // the reading ends early twice, before and behind its first record
		m.book.predict(1001, fmt.Sprint("q", m.cut), low)
		m.sign()
		if ok, err := s.Advance(t.Context()); ok || err != nil {
			t.Fatalf("%v %v of a reading that was cut off", ok, err)
		}
	}
	if ok, err := s.Advance(t.Context()); !ok || err != nil || len(m.book.bodies) != last+4 {
		t.Fatalf("%v %v, %d records, want %d", ok, err, len(m.book.bodies), last+4)
	}
}
