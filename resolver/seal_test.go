package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"assay/events"
	"assay/internal/blob"
	"assay/ledger"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
	"assay/schema"
)

func TestSegment(t *testing.T) {
	a, b := sample("level", 5, 1), sample("beat", 3, 2)
	b.Labels = map[string]string{"z": "1", "a": "2"}
	raw := EncodeSegment("s", []criterion.Sample{a, b, a})
	again := EncodeSegment("s", []criterion.Sample{b, a})
	if !bytes.Equal(raw, again) {
		t.Errorf("order or repeats change the bytes:\n%s%s", raw, again)
	}
	source, samples, err := DecodeSegment(raw)
	if err != nil || source != "s" || len(samples) != 2 || criterion.Compare(&samples[0], &b) != 0 || criterion.Compare(&samples[1], &a) != 0 {
		t.Errorf("%s %+v %v", source, samples, err)
	}
	lines := strings.SplitAfter(string(raw), "\n")
	for name, bad := range map[string]string{
		"empty":            "",
		"no magic":         strings.Replace(string(raw), "assay-segment", "segment", 1),
		"a count too many": strings.Replace(string(raw), `"samples":2`, `"samples":3`, 1),
		"swapped":          lines[0] + lines[2] + lines[1],
		"doubled":          lines[0] + lines[1] + lines[1] + lines[2],
		"cut off":          string(raw[:len(raw)-1]),
		"another spelling": strings.Replace(string(raw), `"value":1}`, `"value":1.0}`, 1),
		"trailing":         string(raw) + "\n",
		"source":           strings.Replace(string(raw), `"source":"s"`, `"source":"S"`, 1),
	} {
		if _, _, err := DecodeSegment([]byte(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	if _, _, err := DecodeSegment([]byte(strings.Replace(string(raw), `"v":1`, `"v":2`, 1))); !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("version 2: %v", err)
	}
}

func FuzzDecodeSegment(f *testing.F) {
	f.Add(EncodeSegment("s", []criterion.Sample{
		{Source: "s", Stream: "b", Seq: 1, Signal: "level", Time: epoch, Value: 1.5},
		{Source: "s", Stream: "b", Seq: 2, Signal: "total", Labels: map[string]string{"a": "b"}, Time: epoch, Start: epoch, Value: 2},
	}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		source, samples, err := DecodeSegment(raw)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(EncodeSegment(source, samples), raw) {
			t.Fatal("accepted what is not canonical")
		}
	})
}

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

// mustSealed lists the telemetry.sealed payloads of a ledger, checking that they
// follow each other.
func mustSealed(t *testing.T, b *book) []*events.TelemetrySealed {
	t.Helper()
	var out []*events.TelemetrySealed
	for _, body := range b.bodies {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := events.Decode(rec.Event)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Data.(*events.TelemetrySealed); ok {
			if n := len(out); n > 0 && (d.Start != out[n-1].End || d.First != out[n-1].Last+1) {
				t.Errorf("segment %s from %d after one to %s, %d", d.Start, d.First, out[n-1].End, out[n-1].Last)
			}
			out = append(out, d)
		}
	}
	return out
}

func TestCutter(t *testing.T) {
	cfg := SealerConfig{TelemetrySource: "s", Registry: testRegistry(t), Every: 10 * time.Second, MaxSamples: 5}
	c := newCutter(cfg, cursor{})
	add := func(seq uint64, arrived float64, samples ...criterion.Sample) (segmentCut, bool) {
		return c.add(seq, telemetry.Arrival{Arrived: at(arrived), Samples: samples})
	}
	if _, ok := add(1, 1, sample("beat", 1, 1)); ok {
		t.Fatal("cut at once")
	}
	if _, ok := add(2, 100, sample("level", 90, 1)); ok {
		t.Fatal("a sample that is no heartbeat moved the watermark")
	}
	if _, ok := add(4, 9, sample("beat", 50, 1)); ok {
		t.Fatal("a heartbeat from the future moved the watermark past its arrival")
	}
	first, ok := add(5, 12, sample("beat", 11, 1))
	if !ok || first.first != 1 || first.last != 5 || !first.start.Equal(at(1)) || !first.watermark.Equal(at(11)) || len(first.samples) != 4 || !first.end.After(at(90)) {
		t.Fatalf("%+v, %v", first, ok)
	}
	for seq := uint64(6); seq < 10; seq++ {
		if _, ok := add(seq, 13, sample("level", 12, 1)); ok {
			t.Fatalf("cut at %d", seq)
		}
	}
	second, ok := add(10, 13, sample("level", 3, 1))
	if !ok || second.first != 6 || second.last != 10 || !second.start.Equal(first.end) || !second.end.After(second.start) || !second.watermark.Equal(at(11)) {
		t.Fatalf("%+v, %v", second, ok)
	}
	// A cutter that starts from the ledger cuts what this one cuts.
	again := newCutter(cfg, second.cursor)
	for seq := uint64(11); ; seq++ {
		a := telemetry.Arrival{Arrived: at(float64(seq + 5)), Samples: []criterion.Sample{sample("beat", float64(seq+5), 1)}}
		x, okX := c.add(seq, a)
		y, okY := again.add(seq, a)
		if okX != okY || x.cursor != y.cursor || x.first != y.first {
			t.Fatalf("%+v, %v; from the ledger %+v, %v", x, okX, y, okY)
		}
		if okX {
			break
		}
	}
}

// start runs a sealer until the returned function stops it.
func start(t *testing.T, s *Sealer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the sealer ended with %v", err)
		}
	}
}

// wait polls until ok, for what other goroutines do.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestSealer(t *testing.T) {
	m := newMemory(t)
	blobs := mustBlobs(t)
	cfg := SealerConfig{
		TelemetrySource: "s", Registry: testRegistry(t), Buffer: memoryBuffer{m}, Blobs: blobs, Publisher: m,
		Source: "assay/resolver", Every: 10 * time.Second, Retry: time.Millisecond, Log: zerolog.Nop(),
	}
	records := func() int { m.mu.Lock(); defer m.mu.Unlock(); return len(m.book.bodies) }

	// An ack that was lost, the segment stored or not: the same bytes again.
	m.failing, m.stored = 1, true
	stop := start(t, NewSealer(cfg))
	m.send(1, ticks(1, 2, 1)...)
	m.send(11, ticks(11, 12, 1)...)
	wait(t, "the first segment", func() bool { return records() == 1 })
	m.mu.Lock()
	m.failing, m.stored = 2, false
	m.mu.Unlock()
	m.send(21, ticks(21, 22, 1)...)
	wait(t, "the second segment", func() bool { return records() == 2 })
	stop()

	// Started again from the first segment only, as under an old checkpoint, it
	// cuts the second one anew, in the same bytes, and goes on.
	list := mustSealed(t, m.book)
	s := NewSealer(cfg)
	s.Observe(list[0])
	stop = start(t, s)
	m.send(31, ticks(31, 32, 1)...)
	wait(t, "the third segment", func() bool { return records() == 3 })
	stop()

	// A sealer that cuts otherwise is refused and adopts what is stored.
	other := cfg
	other.Every = 15 * time.Second
	s = NewSealer(other)
	list = mustSealed(t, m.book)
	s.Observe(list[0])
	s.Observe(list[1])
	stop = start(t, s)
	m.send(41, ticks(41, 42, 1)...) // makes it cut 31…41 where 31 alone is stored
	s.Observe(list[2])
	m.send(51, ticks(51, 52, 1)...)
	wait(t, "the fourth segment", func() bool { return records() == 4 })
	stop()

	total := int64(0)
	for _, d := range mustSealed(t, m.book) {
		samples, err := BlobSegments{blobs}.Load(d.SHA256)
		if err != nil || int64(len(samples)) != d.Samples {
			t.Errorf("segment %s: %d samples of %d, %v", d.Start, len(samples), d.Samples, err)
		}
		total += d.Samples
	}
	if total != 12 {
		t.Errorf("%d samples are sealed, want each of 12 once", total)
	}
}

func TestSealerAfterTheBufferWasReplaced(t *testing.T) {
	m := newMemory(t)
	s := NewSealer(SealerConfig{
		TelemetrySource: "s", Registry: testRegistry(t), Buffer: memoryBuffer{m}, Blobs: mustBlobs(t), Publisher: m,
		Source: "assay/resolver", Every: 10 * time.Second, Retry: time.Millisecond, Log: zerolog.Nop(),
	})
	s.Observe(&events.TelemetrySealed{Source: "s", Start: "2026-10-03T11:00:00Z", End: "2026-10-03T12:00:00Z", First: 1, Last: 900, Watermark: "2026-10-03T12:00:00Z"})
	stop := start(t, s)
	defer stop()
	m.send(11, ticks(11, 12, 1)...)
	wait(t, "a segment", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.book.bodies) == 1 })
	if d := mustSealed(t, m.book)[0]; d.First != 1 || d.Last != 1 || d.Start != "2026-10-03T12:00:00Z" {
		t.Errorf("%+v", d)
	}
}

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
				rec, err := ledger.ParseRecord(body)
				if err != nil {
					rt.Fatal(err)
				}
				m.now = max(m.now, rec.RecordedAt.Sub(epoch).Seconds())
				m.book.event(rec.RecordedAt, rec.Principal, rec.Event)
				m.sign()
				if restarts && rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
					s = serviceOf(t, m, blobs, r)
				}
				for { // its own records are under the next checkpoint
					if ok, err := s.Advance(t.Context()); err != nil || !ok {
						rt.Fatal(ok, err)
					}
					if m.signed == len(m.book.bodies) {
						break
					}
					m.sign()
				}
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
		Ledger: m, Publisher: m, Blobs: mustBlobs(t), Registry: testRegistry(t), Buffer: memoryBuffer{m}, SealEvery: 10 * time.Second,
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
	m := newMemory(t)
	const n = 2*maxPending + 10
	for i := range n {
		m.book.predict(0, fmt.Sprint("p", i), low)
	}
	m.sign()
	m.failing, m.stored = 3, true
	s := serviceOf(t, m, mustBlobs(t), testRegistry(t))
	if ok, err := s.Advance(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if len(m.book.bodies) != 2*n {
		t.Fatalf("%d records, want %d", len(m.book.bodies), 2*n)
	}
	for i, body := range m.book.bodies[n:] {
		rec, err := ledger.ParseRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := events.Decode(rec.Event)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Data.(*events.PredictionArmed); !ok || d.PredID != fmt.Sprint("p", i) {
			t.Fatalf("event %d is %+v", i, ev.Data)
		}
	}
	if m.calls != 4 { // two full ones, the rest, and again what failed of the first
		t.Errorf("%d messages to the intake", m.calls)
	}
	if m.reads != 1 {
		t.Errorf("the records were read %d times", m.reads)
	}
	m.sign()
	if ok, err := s.Advance(t.Context()); !ok || err != nil || m.reads != 2 || m.calls != 4 {
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
