package resolver

import (
	"fmt"
	"strings"
	"testing"

	"assay/ledger"
	"assay/resolver/criterion"
)

// BenchmarkFold applies sealed ticks of four samples while predictions watch:
// none, or a hundred on one series.
func BenchmarkFold(b *testing.B) {
	for _, open := range []int{0, 100} {
		b.Run(fmt.Sprint("open=", open), func(b *testing.B) {
			bk := newBook(b)
			long := strings.Replace(low, `"1m"`, `"7d"`, 1)
			for i := range open {
				bk.predict(0, fmt.Sprint("p", i), long)
			}
			for i := range 2000 {
				s := float64(i*10 + 5)
				bk.seal(s+1, s, append(ticks(s, s+1, 1), sample("happening", s, 1), sample("other", s, 1))...)
			}
			records := make([]ledger.Record, len(bk.bodies))
			for i, body := range bk.bodies {
				rec, err := ledger.ParseRecord(body)
				if err != nil {
					b.Fatal(err)
				}
				records[i] = rec
			}
			r := testRegistry(b)
			for b.Loop() {
				m := machineOf(bk, r)
				for _, rec := range records {
					if _, err := m.Apply(rec); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(records))/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkSegment encodes and decodes 10,000 samples.
func BenchmarkSegment(b *testing.B) {
	var samples []criterion.Sample
	for i := range 10_000 {
		s := sample("process_rss_bytes", float64(i), float64(i))
		s.Labels = map[string]string{"pid": "7", "start": "99"}
		samples = append(samples, s)
	}
	raw := EncodeSegment("s", samples)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			EncodeSegment("s", samples)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := DecodeSegment(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
