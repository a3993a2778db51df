package projector_test

import (
	"context"
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

const benchRecords = 100_000

func benchLedger() *ledgertest.Ledger {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), benchRecords)
	return l
}

func BenchmarkReplay(b *testing.B) {
	l := benchLedger()
	bytes := 0
	for seq := range benchRecords {
		bytes += len(l.Body(ledger.Seq(seq + 1)))
	}
	b.ReportMetric(float64(bytes)/benchRecords, "B/record")
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
	n := float64(b.N) * benchRecords
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
		for seq := range benchRecords {
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
