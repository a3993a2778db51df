package resolver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"assay/ledger"
)

// BenchmarkMemory holds many predictions and prints what one of them takes while
// it is open, while it is settled and may be amended, and for ever after. Their
// criteria are all the same, or no two of them.
func BenchmarkMemory(b *testing.B) {
	const n = 20_000
	for _, bm := range []struct {
		name      string
		criterion func(i int) string
	}{
		{"same", func(int) string { return low }},
		{"distinct", func(i int) string { return strings.Replace(low, `"value":60`, fmt.Sprintf(`"value":%d`, 60+i), 1) }},
	} {
		b.Run("criteria="+bm.name, func(b *testing.B) {
			for b.Loop() {
				bk := newBook(b)
				m := machineOf(bk, testRegistry(b))
				apply := func() {
					for _, body := range bk.bodies[m.Seq():] {
						rec, err := ledger.ParseRecord(body)
						if err != nil {
							b.Fatal(err)
						}
						if _, err := m.Apply(rec); err != nil {
							b.Fatal(err)
						}
						bk.bodies[rec.Seq-1] = nil
					}
				}
				held := func() float64 {
					runtime.GC()
					runtime.GC()
					var st runtime.MemStats
					runtime.ReadMemStats(&st)
					return float64(st.HeapAlloc)
				}
				bk.tick(0)
				apply()
				empty := held() - float64(n*24) // bodies is to grow
				report := func(stage string) { b.ReportMetric((held()-empty-float64(cap(bk.bodies)*24))/n, "B/"+stage) }
				empty = held() - float64(cap(bk.bodies)*24)
				for i := range n {
					bk.predict(0, fmt.Sprintf("prediction-%d", i), bm.criterion(i))
					apply()
				}
				report("open")
				bk.seal(66, 65, ticks(5, 60, 1)...)
				apply()
				report("settled")
				bk.tick(8 * days)
				apply()
				report("done")
				runtime.KeepAlive(m)
			}
		})
	}
}
