package metric_test

import (
	"fmt"
	"math"
	"testing"

	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// stated are four promises with a verdict of telemetry, and one without.
func stated(b book) {
	b.promise("p1", "", 0.8, "confirmed")
	b.promise("p2", "", 0.8, "refuted")
	b.promise("p3", "", 0.3, "refuted")
	b.promise("p4", "", 0, "confirmed")
	b.promise("p5", "", 0.25, "unresolved") // 9
}

var calibrationByHand = []byHand{
	{
		// −ln 0.8 = 0.223144, −ln 0.2 = 1.609438, −ln 0.7 = 0.356675; p4's 0 counts as
		// a millionth, −ln 0.000001 = 13.815511.
		metric: "log_loss", build: stated,
		want: "4.00119 (16004766965/4) no verdict 1",
		rows: "2n p1=223143551, 4n p2=1609437912, 6n p3=356674944, 8n p4=13815510558, 9e p5",
	},
	{
		metric: "stated_probability", build: stated, want: "0.475 (1900000000/4) no verdict 1",
		groups: "0.0–0.1 0 (0/1); 0.2–0.3 0.3 (300000000/1); 0.7–0.8 0.8 (1600000000/2)",
	},
	{
		metric: "observed_share", build: stated, want: "0.5 (2/4) no verdict 1", rows: "1d p1, 2n p1, 3d p2, 5d p3, 7d p4, 8n p4, 9e p5",
		groups: "0.0–0.1 1 (1/1); 0.2–0.3 0 (0/1); 0.7–0.8 0.5 (1/2)",
	},
}

// The diagram is over the predictions that calibration_error counts; what that is of is
// the distance between its two sides.
func TestReliability(t *testing.T) {
	b := book{ledgertest.New()}
	stated(b)
	fold(t, b.Ledger, func(st *projector.State) {
		of := func(name, namespace string) *metric.Explanation {
			e, err := metric.Explain(st, name, namespace, metric.Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		bins := metric.Reliability(of("stated_probability", prod), of("observed_share", prod))
		want := []struct {
			tenth            string
			stated, happened float64
			n                int64
		}{{"0.0–0.1", 0, 1, 1}, {"0.2–0.3", 0.3, 0, 1}, {"0.7–0.8", 0.8, 0.5, 2}}
		if len(bins) != len(want) {
			t.Fatalf("%d bins, want %d: %+v", len(bins), len(want), bins)
		}
		distance, n := 0.0, int64(0)
		for i, w := range want {
			g := bins[i]
			if g.Tenth != w.tenth || *g.Stated.Value != w.stated || *g.Observed.Value != w.happened || *g.Stated.Denominator != w.n || *g.Observed.Denominator != w.n {
				t.Errorf("bin %d is %+v, want %+v", i, g, w)
			}
			distance, n = distance+math.Abs(w.stated-w.happened)*float64(w.n), n+w.n
		}
		near(t, "calibration_error", of("calibration_error", prod).Value, fmt.Sprintf("%.6g", distance/float64(n)))
		if bins := metric.Reliability(of("stated_probability", "sandbox"), of("observed_share", "sandbox")); bins == nil || len(bins) != 0 {
			t.Errorf("of nothing: %+v", bins)
		}
	})
}
