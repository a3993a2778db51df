package metric_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"assay/internal/kv"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/projector/view"
)

var benchRecords = flag.Int("records", 100_000, "length of the ledger that benchmarks work on")

// BenchmarkScore scores the views of a busy agent: afresh, by what is kept, and after
// a hundred records more.
func BenchmarkScore(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := ledgertest.New()
	l.Mix(rng, *benchRecords)
	db, err := kv.Open(b.TempDir(), kv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	waits := false
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All(), Keep: func(k *projector.Keeping) error {
		if waits {
			return nil
		}
		return metric.Keep(k)
	}})
	if err != nil {
		b.Fatal(err)
	}
	catchUp := func() {
		if err := r.CatchUp(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
	catchUp()
	run := func(name string, more int, score func(*projector.State, string) (*metric.Score, error)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if more > 0 {
					b.StopTimer()
					waits = false
					catchUp()
					waits = true
					l.Mix(rng, more)
					catchUp()
					b.StartTimer()
				}
				err := r.View(func(s *projector.State) error {
					_, err := score(s, "")
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("afresh", 0, metric.Afresh)
	run("kept", 0, metric.Compute)
	run("changed", 100, metric.Compute)
}
