package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
)

// publisherFunc is an intake whose every call is seen.
type publisherFunc func(ctx context.Context, raws ...[]byte) []error

func (f publisherFunc) Publish(ctx context.Context, raws ...[]byte) []error { return f(ctx, raws...) }

// toArm is a ledger with n predictions, p0 and so on, each of which is to be armed.
func toArm(t *testing.T, n int) *memory {
	t.Helper()
	m := newMemory(t)
	for i := range n {
		m.book.predict(0, fmt.Sprint("p", i), low)
	}
	m.sign()
	return m
}

// armings are the predictions that a ledger says are armed, in its order.
func armings(t *testing.T, m *memory) (ids []string) {
	t.Helper()
	for _, body := range m.book.bodies {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		if ev, err := events.Decode(rec.Event); err == nil {
			if d, ok := ev.Data.(*events.PredictionArmed); ok {
				ids = append(ids, d.PredID)
			}
		}
	}
	return ids
}

func wantArmed(t *testing.T, m *memory, n int) {
	t.Helper()
	got := armings(t, m)
	if len(got) != n {
		t.Fatalf("%d are armed, want %d", len(got), n)
	}
	for i, id := range got {
		if id != fmt.Sprint("p", i) {
			t.Fatalf("arming %d is of %s", i, id)
		}
	}
}

// While a message is under way the fold goes on, until another one is full.
func TestFoldGoesOnDuringDelivery(t *testing.T) {
	const n = 3 * maxMessage
	m := toArm(t, n)
	s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
	first := true
	s.cfg.Publisher = publisherFunc(func(ctx context.Context, raws ...[]byte) []error {
		if first {
			first = false
			wait(t, "the fold of what fills the next message", func() bool { return s.Applied() == 2*maxMessage })
			time.Sleep(20 * time.Millisecond)
			if at := s.Applied(); at != 2*maxMessage {
				t.Errorf("the fold went on to %d with two messages full", at)
			}
		}
		return m.Publish(ctx, raws...)
	})
	if ok, err := s.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantArmed(t, m, n)
}

// A fold that keeps up with the ledger sends so few events at once that the logger
// takes those of others between them; one that does not sends as many as it may. The
// order stays.
func TestMessagesWhileItKeepsUp(t *testing.T) {
	const n = maxMessage + gentleMessage + 1
	for _, tt := range []struct {
		name  string
		since time.Duration
		most  int
	}{
		{"keeps up", 0, gentleMessage},
		{"does not", patience, maxMessage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := toArm(t, n)
			s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
			var list []Emission
			for _, body := range m.book.bodies {
				rec, err := ledger.ParseRecord(body)
				if err != nil {
					t.Fatal(err)
				}
				out, err := s.fold(rec)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, out...)
			}
			var sizes []int
			s.cfg.Publisher = publisherFunc(func(ctx context.Context, raws ...[]byte) []error {
				sizes = append(sizes, len(raws))
				return m.Publish(ctx, raws...)
			})
			if left, err := s.deliver(t.Context(), time.Now().Add(-tt.since), list); len(left) > 0 || err != nil {
				t.Fatal(len(left), err)
			}
			wantArmed(t, m, n)
			for i, size := range sizes {
				if want := min(tt.most, n-i*tt.most); size != want {
					t.Fatalf("message %d of %d has %d events, want %d", i, len(sizes), size, want)
				}
			}
		})
	}
}

// A stop cuts a delivery off. What it had not brought to the ledger is sent once
// more, the fold is saved behind it, and the next start goes on from there.
func TestStopDuringDelivery(t *testing.T) {
	const n = 5 * maxMessage
	m := toArm(t, n)
	blobs, state := mustBlobs(t), filepath.Join(t.TempDir(), "state")
	s := serviceOf(t, m, blobs, testRegistry(t))
	s.cfg.State = state
	var taken atomic.Int64
	var hung atomic.Bool
	hangs := make(chan struct{})
	s.cfg.Publisher = publisherFunc(func(ctx context.Context, raws ...[]byte) []error {
		errs := m.Publish(ctx, raws...)
		if taken.Add(int64(len(raws))) <= maxMessage || !hung.CompareAndSwap(false, true) {
			return errs
		}
		close(hangs) // stored, and the answer does not come
		<-ctx.Done()
		for i := range errs {
			errs[i] = ctx.Err()
		}
		return errs
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-hangs
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the service ended with %v", err)
	}
	at := int(s.Applied())
	if at < 2*maxMessage || at >= n {
		t.Fatalf("it stopped at %d", at)
	}
	wantArmed(t, m, at)
	again := serviceOf(t, m, blobs, testRegistry(t))
	again.cfg.State = state
	cp, _ := m.Checkpoint(t.Context())
	if err := again.begin(t.Context(), cp); err != nil || int(again.Applied()) != at {
		t.Fatalf("%v: it goes on behind %d, stopped at %d", err, again.Applied(), at)
	}
	if ok, err := again.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantArmed(t, m, n)
}

// What the intake refuses for good ends the service also when it was under way
// beside the fold. The fold is not saved behind it, so that the next start calls for
// it again.
func TestRefusalDuringDelivery(t *testing.T) {
	const n = 3 * maxMessage
	m := toArm(t, n)
	blobs, state := mustBlobs(t), filepath.Join(t.TempDir(), "state")
	s := serviceOf(t, m, blobs, testRegistry(t))
	s.cfg.State = state
	var refused []byte // the first event that came
	s.cfg.Publisher = publisherFunc(func(ctx context.Context, raws ...[]byte) []error {
		if refused == nil {
			refused = raws[0]
		}
		if !bytes.Equal(raws[0], refused) {
			return m.Publish(ctx, raws...)
		}
		errs := make([]error, len(raws))
		errs[0] = ErrRefused
		for i := range errs[1:] {
			errs[1+i] = errLost
		}
		return errs
	})
	if err := s.Run(t.Context()); !errors.Is(err, ErrRefused) {
		t.Fatalf("%v, want ErrRefused", err)
	}
	wantArmed(t, m, 0)
	again := serviceOf(t, m, blobs, testRegistry(t))
	again.cfg.State = state
	if ok, err := again.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantArmed(t, m, n)
}
