package node

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"assay/ledger/broker"
)

// fakeStore fails until it is restarted often enough.
type fakeStore struct {
	failed   error
	helps    int // the restart that helps
	restarts []time.Duration
	now      *time.Duration
	refuses  error // what Restart returns
}

func (s *fakeStore) Check() error { return s.failed }

func (s *fakeStore) Restart(context.Context) error {
	s.restarts = append(s.restarts, *s.now)
	if len(s.restarts) == s.helps {
		s.failed = nil
	}
	return s.refuses
}

func TestKeeper(t *testing.T) {
	const mark = 100
	fault := errors.Join(broker.ErrStoreFailed, errors.New("no space left"))
	for _, c := range []struct {
		name  string
		store fakeStore
		free  func(at time.Duration) (uint64, error)
		want  []time.Duration // restarts within the first 100 s
	}{
		{"well", fakeStore{}, func(time.Duration) (uint64, error) { return 0, nil }, nil},
		{"no room", fakeStore{failed: fault}, func(time.Duration) (uint64, error) { return mark - 1, nil }, nil},
		{"room at once", fakeStore{failed: fault, helps: 1}, func(time.Duration) (uint64, error) { return mark, nil }, []time.Duration{0}},
		{"room later", fakeStore{failed: fault, helps: 1}, func(at time.Duration) (uint64, error) {
			return uint64(at / time.Second * 10), nil
		}, []time.Duration{10 * time.Second}},
		{"room unknown", fakeStore{failed: fault, helps: 1}, func(time.Duration) (uint64, error) { return 0, errors.New("no such disk") }, []time.Duration{0}},
		{"no help", fakeStore{failed: fault}, func(time.Duration) (uint64, error) { return mark, nil },
			[]time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 63 * time.Second}},
		{"does not start", fakeStore{failed: fault, refuses: errors.New("port taken"), helps: 3}, func(time.Duration) (uint64, error) { return mark, nil },
			[]time.Duration{0, 1 * time.Second, 3 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var at time.Duration
			c.store.now = &at
			k := &keeper{store: &c.store, mark: mark, free: func() (uint64, error) { return c.free(at) }}
			for ; at < 100*time.Second; at += time.Second {
				k.look(t.Context(), time.Unix(0, 0).Add(at))
			}
			if len(c.store.restarts) != len(c.want) {
				t.Fatalf("restarts at %v, want %v", c.store.restarts, c.want)
			}
			for i, r := range c.store.restarts {
				if r != c.want[i] {
					t.Fatalf("restarts at %v, want %v", c.store.restarts, c.want)
				}
			}
			st := k.read()
			if st.restarts != len(c.want) || (st.failed == "") != (c.store.failed == nil) {
				t.Errorf("%+v", st)
			}
			if len(c.want) > 0 && !strings.Contains(st.reason, "no space left") {
				t.Errorf("the reason of the restart is %q", st.reason)
			}
			if c.name == "no room" && !strings.Contains(st.failed, "99 bytes free, the mark is 100") {
				t.Errorf("what it waits for: %q", st.failed)
			}
		})
	}
}

// A store that was well for long is restarted at once when it fails again.
func TestKeeperForgetsAnOldFailure(t *testing.T) {
	var at time.Duration
	s := &fakeStore{failed: broker.ErrStoreFailed, helps: 1, now: &at}
	k := &keeper{store: s, mark: 1, free: func() (uint64, error) { return 1, nil }}
	look := func() { k.look(t.Context(), time.Unix(0, 0).Add(at)) }
	look()
	for at = time.Second; at <= lastRestart; at += time.Second {
		look()
	}
	s.failed, s.helps = broker.ErrStoreFailed, 0
	look()
	at += time.Second
	look()
	if len(s.restarts) != 3 || s.restarts[2]-s.restarts[1] != firstRestart {
		t.Errorf("restarts at %v", s.restarts)
	}
}

func TestRoomIsTheSmallest(t *testing.T) {
	dir := Dir(t.TempDir())
	if _, err := loggerRoom(dir, nil)(); err == nil {
		t.Error("a directory without a store has room")
	}
	makeDirs(t, dir)
	free, err := dir.FreeBytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		limit func() (uint64, error)
		most  uint64
	}{
		{"limit", func() (uint64, error) { return 42, nil }, 42},
		{"no limit to speak of", func() (uint64, error) { return 1 << 60, nil }, 2 * free},
		{"unknown limit", func() (uint64, error) { return 0, errLimitUnknown }, 2 * free},
	} {
		room, err := loggerRoom(dir, c.limit)()
		if err != nil || room > c.most || room == 0 || c.most == 42 && room != 42 {
			t.Errorf("%s: %d, %v", c.name, room, err)
		}
	}
	if _, err := RemoteHub("nats://127.0.0.1:1", "").storeRoom(); !errors.Is(err, errLimitUnknown) {
		t.Errorf("limit of an external broker: %v", err)
	}
}

func makeDirs(t *testing.T, dir Dir) {
	t.Helper()
	for _, d := range []string{broker.Dir(dir).Store(), string(dir.Logger())} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
