package projector_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/view"
)

var benchRecords = flag.Int("records", 100_000, "length of the ledger that benchmarks work on")

func benchLedger() *ledgertest.Ledger {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), *benchRecords)
	return l
}

func BenchmarkReplay(b *testing.B) {
	l := benchLedger()
	bytes := 0
	for seq := range *benchRecords {
		bytes += len(l.Body(ledger.Seq(seq + 1)))
	}
	b.ReportMetric(float64(bytes)/float64(*benchRecords), "B/record")
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		_, err := projector.Replay(context.Background(), projector.ReplayConfig{Source: l, Projections: view.All(), Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
	}
	report(b, before)
}

// report gives the wall-clock rate and, since benchmarks share machines, the
// processor time of all threads.
func report(b *testing.B, before time.Duration) {
	n := float64(b.N) * float64(*benchRecords)
	b.ReportMetric(n/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/n, "cpu-ns/record")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDecodeOnly(b *testing.B) {
	l := benchLedger()
	before := cpuTime(b)
	for b.Loop() {
		for seq := range *benchRecords {
			body := l.Body(ledger.Seq(seq + 1))
			ledger.Leaf(body)
			r, err := ledger.ParseRecord(body)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := events.Decode(r.Event); err != nil {
				b.Fatal(err)
			}
		}
	}
	report(b, before)
}

// BenchmarkCatchUp folds into a store that keeps its log and the hashes of its
// chunks, as a running projector does.
func BenchmarkCatchUp(b *testing.B) {
	l := benchLedger()
	before := cpuTime(b)
	for b.Loop() {
		db := mustOpen(b, b.TempDir())
		r := mustRunner(b, projector.Config{DB: db, Source: l, Projections: view.All()})
		if err := r.CatchUp(context.Background(), 0); err != nil {
			b.Fatal(err)
		}
		db.Close()
	}
	report(b, before)
}

// BenchmarkSnapshot takes snapshots of views that a runner keeps up to date,
// each after a thousand more records: what is seen is how long that takes, and
// how large the store is. A snapshot whose digest is computed from every byte
// is beside it.
func BenchmarkSnapshot(b *testing.B) {
	l := benchLedger()
	dir := b.TempDir()
	db := mustOpen(b, dir+"/views")
	defer db.Close()
	r := mustRunner(b, projector.Config{DB: db, Source: l, Projections: view.All()})
	if err := r.CatchUp(ctx, 0); err != nil {
		b.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(stop) }()
	for projector.Stale(db) > 1024 {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	more := func() {
		l.Mix(rng, 1000)
		if err := r.CatchUp(ctx, 0); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("kept", func(b *testing.B) {
		var m projector.Manifest
		for b.Loop() {
			b.StopTimer()
			more()
			b.StartTimer()
			var err error
			if _, m, err = r.Snapshot(ctx, dir+"/snapshots", 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(m.Bytes)/1e6, "MB")
	})
	b.Run("computed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			more()
			b.StartTimer()
			if _, err := r.Digest(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
