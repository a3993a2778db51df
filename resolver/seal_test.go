package resolver

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
	"assay/resolver/telemetry"
)

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

// Sources take turns: each ends its segments at its own places in time, whenever
// it began and also after all of them stood still together.
func TestSourcesTakeTurns(t *testing.T) {
	const sources, every = 5, 10
	ends := make(map[float64]int) // place in the period, and whose
	for i := range sources {
		c := newCutter(SealerConfig{
			TelemetrySource: "s", Registry: testRegistry(t), Every: every * time.Second, Phase: time.Duration(i) * 2 * time.Second, MaxSamples: 1000,
		}, cursor{})
		cuts := 0
		for n, sec := 0, 3.0; n < 100; n, sec = n+1, sec+1 {
			if n == 50 {
				sec += 33 // nobody sees anything
			}
			cut, ok := c.add(uint64(n+1), telemetry.Arrival{Arrived: at(sec), Samples: []criterion.Sample{sample("beat", sec, 1)}})
			if !ok {
				continue
			}
			cuts++
			if n == 50 {
				continue // the first after the pause, for everybody
			}
			place := math.Mod(float64(cut.watermark.Unix()), every)
			if other, taken := ends[place]; taken && other != i {
				t.Errorf("sources %d and %d both end %v s behind a multiple of %d s", other, i, place, every)
			}
			ends[place] = i
		}
		if cuts < 10 || cuts > 12 {
			t.Errorf("%d segments in 100 s and a pause", cuts)
		}
	}
	if len(ends) != sources {
		t.Errorf("ends %v", ends)
	}
}

// They do so at the default pace too.
func TestSourcesTakeTurnsByDefault(t *testing.T) {
	m := newMemory(t)
	s, err := NewService(ServiceConfig{Ledger: m, Publisher: m, Blobs: mustBlobs(t), Registry: testRegistry(t), Buffer: memoryBuffer{m}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	phases := make(map[time.Duration]string)
	for name, sealer := range s.sealers {
		phase := sealer.cfg.Phase
		if other, taken := phases[phase]; taken || phase >= sealer.cfg.Every {
			t.Errorf("%s ends %v behind each %v, as %q does", name, phase, sealer.cfg.Every, other)
		}
		phases[phase] = name
	}
	if len(phases) < 3 {
		t.Errorf("phases %v", phases)
	}
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
