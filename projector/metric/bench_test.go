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

// BenchmarkCompute scores the views of a busy agent.
func BenchmarkCompute(b *testing.B) {
	l := ledgertest.New()
	l.Mix(rand.New(rand.NewPCG(1, 2)), *benchRecords)
	db, err := kv.Open(b.TempDir(), kv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	r, err := projector.NewRunner(projector.Config{DB: db, Source: l, Projections: view.All()})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.CatchUp(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := r.View(func(s *projector.State) error {
			_, err := metric.Compute(s, "")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
