package resolver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
	"assay/schema"
)

// memory is a ledger, an intake and a buffer in memory, with the rules that the
// real ones keep: one event an id, the same bytes again are fine.
type memory struct {
	mu      sync.Mutex
	book    *book
	byID    map[string]string
	signed  int  // records under the checkpoint
	failing int  // publishes to fail before one is taken
	stored  bool // a failing publish is stored all the same
	now     float64
	calls   int // of Publish
	reads   int // of Read
	cut     int // records after which a Read fails; −1: it does not
	buffer  map[string][][]byte
	grown   chan struct{}
}

func newMemory(t fataler) *memory {
	return &memory{cut: -1, book: newBook(t), byID: make(map[string]string), buffer: make(map[string][][]byte), grown: make(chan struct{})}
}

var errLost = errors.New("no ack")

func (m *memory) Publish(_ context.Context, raws ...[]byte) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	errs := make([]error, len(raws))
	for i, raw := range raws {
		errs[i] = m.publish(raw)
	}
	return errs
}

func (m *memory) publish(raw []byte) error {
	if _, fault := schema.Check(raw); fault != nil {
		return fmt.Errorf("%w: %+v", ErrRefused, fault)
	}
	fail := m.failing > 0
	if fail {
		if m.failing--; !m.stored {
			return errLost
		}
	}
	ev, err := events.Decode(raw)
	if err != nil {
		return err
	}
	if old, ok := m.byID[ev.ID]; ok && old != string(raw) {
		return ErrConflict
	} else if !ok {
		m.byID[ev.ID] = string(raw)
		m.now += 0.001
		m.book.event(at(m.now), "resolver/main", raw)
	}
	if fail {
		return errLost
	}
	return nil
}

// Checkpoint signs whatever the records are now.
func (m *memory) Checkpoint(context.Context) (ledger.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var t ledger.Tree
	for _, body := range m.book.bodies[:min(m.signed, len(m.book.bodies))] {
		t.Append(ledger.Leaf(body))
	}
	return ledger.Checkpoint{Origin: "test", Size: uint64(m.signed), Root: t.Root()}, nil
}

func (m *memory) Read(_ context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	m.mu.Lock()
	m.reads++
	to = min(to, ledger.Seq(len(m.book.bodies)))
	cut := m.cut
	m.mu.Unlock()
	for seq := from; seq <= to; seq++ {
		if cut >= 0 && seq == from+ledger.Seq(cut) {
			return errLost
		}
		m.mu.Lock()
		body := m.book.bodies[seq-1]
		m.mu.Unlock()
		if err := fn(seq, body); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) sign() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signed = len(m.book.bodies)
}

// take records what another ledger has, and signs it.
func (m *memory) take(body []byte) {
	rec, err := ledger.ParseRecord(body)
	if err != nil {
		m.book.t.Fatal(err)
	}
	m.now = max(m.now, rec.RecordedAt.Sub(epoch).Seconds())
	m.book.event(rec.RecordedAt, rec.Principal, rec.Event)
	m.sign()
}

// catchUp has s fold all records, also those that it writes: they are under the
// next checkpoint.
func (m *memory) catchUp(s *Service) {
	for {
		if ok, err := s.Advance(context.Background()); err != nil || !ok {
			m.book.t.Fatal(ok, err)
		}
		if m.signed == len(m.book.bodies) {
			return
		}
		m.sign()
	}
}

// send puts a batch into the buffer.
func (m *memory) send(arrived float64, samples ...criterion.Sample) {
	raw, err := telemetry.EncodeBatch("b", samples)
	if err != nil {
		m.book.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buffer["s"] = append(m.buffer["s"], telemetry.EncodeArrival(at(arrived), raw))
	close(m.grown)
	m.grown = make(chan struct{})
}

// memoryBuffer is the buffer side of memory.
type memoryBuffer struct{ *memory }

func (m memoryBuffer) Read(ctx context.Context, source string, after uint64, fn func(uint64, []byte) error) error {
	for seq := after + 1; ; {
		m.mu.Lock()
		list, grown := m.buffer[source], m.grown
		m.mu.Unlock()
		if after > uint64(len(list)) {
			return telemetry.ErrRewound
		}
		for ; seq <= uint64(len(list)); seq++ {
			if err := fn(seq, list[seq-1]); err != nil {
				return err
			}
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func mustBlobs(t testing.TB) *blob.Store {
	t.Helper()
	s, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// memoryBlobs spares a property test the syncs of the real store.
type memoryBlobs map[string][]byte

func (m memoryBlobs) Put(data []byte) (string, error) {
	name := hexSHA256(data)
	m[name] = data
	return name, nil
}

func (m memoryBlobs) Get(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, blob.ErrNotFound
}
