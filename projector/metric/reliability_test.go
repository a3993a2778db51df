package metric_test

import (
	"fmt"
	"testing"

	"assay/ledger"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// Reliability is over the predictions that brier counts: scorable, with a verdict.
func TestReliability(t *testing.T) {
	l := ledgertest.New()
	one := func(id string, p float64, verdict string, scorable bool) {
		l.Put(piper, prod, prediction(id, "", p))
		d := resolved(id, verdict, ledger.Seq(1))
		d.Scorable = scorable
		l.Put(resolver, prod, d)
	}
	one("a", 0.8, "confirmed", true)
	one("b", 0.75, "refuted", true)
	one("c", 0, "refuted", true)
	one("d", 0.9, "confirmed", false) // known beforehand
	one("e", 0.3, "void", false)
	l.Put(piper, prod, prediction("f", "", 0.3)) // open
	fold(t, l, func(st *projector.State) { checkReliability(t, st) })
}

func checkReliability(t *testing.T, st *projector.State) {
	t.Helper()
	r, err := metric.ReliabilityOf(st, prod)
	if err != nil {
		t.Fatal(err)
	}
	brier, _ := explain(t, st, "brier", metric.Options{})
	if int64(r.N) != *brier.Denominator || r.N != 3 || r.At != 11 || len(r.Bins) != metric.ReliabilityBins {
		t.Errorf("%+v, brier of %d", r, *brier.Denominator)
	}
	near(t, "ece", r.ECE, fmt.Sprintf("%.6g", 2.0/3*(0.775-0.5)))
	for i, b := range r.Bins {
		stated, frequency, n := "null", "null", 0
		switch i {
		case 0:
			stated, frequency, n = "0", "0", 1
		case 7: // (0.7, 0.8]
			stated, frequency, n = "0.775", "0.5", 2
		}
		near(t, fmt.Sprintf("stated in bin %d", i), b.Stated, stated)
		near(t, fmt.Sprintf("frequency in bin %d", i), b.Frequency, frequency)
		if b.N != n {
			t.Errorf("%d predictions in bin %d", b.N, i)
		}
	}
	empty, err := metric.ReliabilityOf(st, "sandbox")
	if err != nil || empty.N != 0 || empty.ECE != nil || len(empty.Bins) != 0 {
		t.Errorf("of nothing: %+v, %v", empty, err)
	}
}
