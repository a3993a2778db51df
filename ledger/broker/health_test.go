package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"assay/internal/disktest"
	"assay/internal/principal"
)

// fillUp publishes until the broker no longer acks, and returns why and how
// many messages it acked.
func fillUp(t *testing.T, js jetstream.JetStream, batch int) (acked int, err error) {
	t.Helper()
	body := make([]byte, 60_000)
	for range 2000 / batch {
		if err := publishAll(t, js, body, batch); err != nil {
			return acked, err
		}
		acked += batch
	}
	t.Fatal("the disk never filled")
	return 0, nil
}

func publishAll(t *testing.T, js jetstream.JetStream, body []byte, batch int) error {
	msg := &nats.Msg{Subject: "ledger.claim.recorded", Data: body} // the batch keeps its headers in it
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if batch == 1 {
		_, err := js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return err
	}
	b, err := jetstreamext.NewBatchPublisher(js, jetstreamext.BatchFlowControl{AckTimeout: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	for range batch - 1 {
		if err := b.AddMsg(msg); err != nil {
			return err
		}
	}
	_, err = b.CommitMsg(ctx, msg)
	return err
}

func lastSeq(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	s, err := js.Stream(t.Context(), LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.LastSeq)
}

// What a full disk does to the broker: the append that meets it is not
// answered and may be stored in part, the store stays failed when there is
// room again, and a restart mends it without losing what was acked. Then the
// rest of the batch may be there too.
func TestFullDiskFailsTheStoreUntilARestart(t *testing.T) {
	for _, batch := range []int{1, 20} {
		t.Run(map[int]string{1: "single", 20: "inside a batch"}[batch], func(t *testing.T) {
			dir := disktest.Mount(t, 64)
			h := startHouseAt(t, dir, Config{})
			js := mustJS(t, h.connect(t, principal.LoggerStore))
			must(t, publishAll(t, js, []byte("x"), 1))
			must(t, h.Check())

			disktest.Leave(t, dir, 2<<20)
			acked, err := fillUp(t, js, batch)
			acked++
			var api *jetstream.APIError
			if errors.As(err, &api) {
				t.Fatalf("the broker answered: %v", err)
			}
			if err := h.Check(); !errors.Is(err, ErrStoreFailed) {
				t.Fatalf("on a full disk: %v", err)
			}
			stored := lastSeq(t, js)
			disktest.Release(t, dir)
			if err := publishAll(t, js, nil, 1); err == nil {
				t.Error("a failed store took a message")
			}
			if err := h.Check(); !errors.Is(err, ErrStoreFailed) {
				t.Fatalf("with room again: %v", err)
			}
			must(t, h.Restart(t.Context()))
			must(t, h.Check())
			after := lastSeq(t, js)
			if stored < acked || after < stored || after > acked+batch {
				t.Errorf("%d acked, %d stored, %d after the restart of at most %d", acked, stored, after, acked+batch)
			}
			t.Logf("%d acked; %d of the failed %d stored, %d after the restart", acked, stored-acked, batch, after-acked)
			must(t, publishAll(t, js, nil, 1))
		})
	}
}

// The server's own limit is known, and so is the room before it.
func TestStoreRoom(t *testing.T) {
	h := startHouse(t)
	if room, err := h.StoreRoom(); err != nil || room < 1<<49 {
		t.Fatalf("room of the rendered limit: %d, %v", room, err)
	}
	must(t, h.Stop(t.Context()))
	if _, err := h.StoreRoom(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("room of a stopped broker: %v", err)
	}
	if err := h.Check(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a stopped broker: %v", err)
	}
	// Less than the streams with a bound may take is no limit to start with.
	if _, err := Start(Config{Dir: h.dir, MaxStore: MinStore - 1}); !errors.Is(err, ErrSmallStore) {
		t.Errorf("a limit that is too small: %v", err)
	}
	b, err := Start(Config{Dir: h.dir, MaxStore: MinStore})
	must(t, err)
	h.Broker = b
	js := mustJS(t, h.connect(t, principal.LoggerStore))
	before, err := h.StoreRoom()
	if err != nil || before > MinStore {
		t.Fatalf("room: %d, %v", before, err)
	}
	must(t, publishAll(t, js, make([]byte, 60_000), 20))
	after, err := h.StoreRoom()
	if used := int64(before - after); err != nil || used < 1_200_000 || used > 1_250_000 {
		t.Errorf("1.2 MB took %d bytes of room, %v", used, err)
	}
}

// A limit that is reached is an answer, not a failure: nothing of the append
// is stored, and a higher limit is enough to go on.
func TestStoreLimitIsAnswered(t *testing.T) {
	h := startHouse(t)
	boot := mustJS(t, h.connect(t, principal.BootstrapStore))
	cfg := ledgerConfig(1)
	cfg.MaxBytes = 4 << 20
	_, err := boot.UpdateStream(t.Context(), cfg)
	must(t, err)
	js := mustJS(t, h.connect(t, principal.LoggerStore))
	acked, err := fillUp(t, js, 20)
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		t.Fatalf("at the limit: %v", err)
	}
	t.Logf("the broker answers %d: %s", api.ErrorCode, api.Description)
	if got := lastSeq(t, js); got != acked {
		t.Errorf("%d stored, %d acked", got, acked)
	}
	must(t, h.Check())
	_, err = boot.UpdateStream(t.Context(), ledgerConfig(1))
	must(t, err)
	must(t, publishAll(t, js, make([]byte, 60_000), 20))
}
