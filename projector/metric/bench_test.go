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

// BenchmarkScore scores the views of a busy agent: afresh, and as a running
// projector does after a hundred more records.
func BenchmarkScore(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := ledgertest.New()
	l.Mix(rng, *benchRecords)
	db, err := kv.Open(b.TempDir(), kv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All()})
	if err != nil {
		b.Fatal(err)
	}
	catchUp := func() {
		if err := r.CatchUp(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
	catchUp()
	score := func(m *metric.Scorer) {
		err := r.View(func(s *projector.State) error {
			_, err := m.Score(s, "")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("afresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			score(new(metric.Scorer))
		}
	})
	b.Run("kept", func(b *testing.B) {
		var m metric.Scorer
		score(&m)
		b.ReportAllocs()
		pages := 0
		for b.Loop() {
			b.StopTimer()
			l.Mix(rng, 100)
			catchUp()
			b.StartTimer()
			score(&m)
			pages += metric.Read(&m)
		}
		b.ReportMetric(float64(pages)/float64(b.N), "pages/op")
	})
}
