package metric_test

import (
	"fmt"
	"time"
)

var predictionByHand = []byHand{
	{
		// Five old ones, of which two have a verdict of telemetry; a reported one has
		// none. p6 is too young, p7 was imported.
		metric: "prediction_resolution_coverage",
		build: func(b book) {
			for i, verdict := range []string{"confirmed", "refuted", "void", "unresolved", ""} {
				b.promise(fmt.Sprint("p", i+1), "", 0.5, verdict) // 1, 3, 5, 7, 9
			}
			d := prediction("p7", "", 0.5)
			d.Context = importedContext
			b.Put(piper, prod, d) // 10
			b.Advance(8 * day)
			b.promise("p6", "", 0.5, "confirmed") // 11
		},
		want: "0.4 (2/5) imported 1 not older than seven days 1",
		rows: "1d p1, 2n p1, 3d p2, 4n p2, 5d p3, 7d p4, 9d p5, 11e p6, 10e p7",
	},
	{
		// Of one open and one unresolved prediction the younger is the median of two.
		metric: "unresolved_prediction_age",
		build: func(b book) {
			b.promise("p1", "", 0.5, "")
			b.Advance(day - time.Second)
			b.promise("p2", "", 0.5, "unresolved")
			b.promise("p3", "", 0.5, "void")
			b.promise("p4", "", 0.5, "confirmed")
			b.Advance(day - 6*time.Second)
			b.call("t", "look", "")
		},
		want: "1 (259200/2) settled or void 2", rows: "1n p1=172800, 2n p2=86400, 4e p3, 6e p4",
	},
	{
		// Two verdicts, of which one was known beforehand; an unresolved one is none.
		metric: "scorable_share",
		build: func(b book) {
			b.promise("p1", "", 0.5, "confirmed")
			at := b.promise("p2", "", 0.5, "")
			d := resolved("p2", "refuted", at)
			d.Foreknowledge, d.Scorable = "known", false
			b.Put(resolver, prod, d)
			b.promise("p3", "", 0.5, "unresolved")
		},
		want: "0.5 (1/2) no verdict 1", rows: "1d p1, 2n p1, 3d p2, 5e p3",
	},
	{
		// By category: the claims of rung intervention came to one of two, what is on no
		// claim to one of one.
		metric: "confirmed_share",
		build: func(b book) {
			b.claim("c1", "asserted")
			b.promise("p1", "c1", 0.8, "confirmed") // 2, 3
			b.promise("p2", "c1", 0.8, "refuted")   // 4, 5
			b.promise("p3", "", 0.8, "confirmed")   // 6, 7
			b.promise("p4", "", 0.8, "void")        // 8, 9
		},
		want: "0.666667 (2/3) no verdict 1", rows: "2d p1, 3n p1, 4d p2, 6d p3, 7n p3, 8e p4",
		groups: "intervention 0.5 (1/2); no claim 1 (1/1) no verdict 1",
	},
	{
		// (0.8−1)² = 0.04 and (0.8−0)² = 0.64, together 0.68, in mean 0.34; 0.5 of an
		// unresolved one counts for nothing.
		metric: "brier",
		build: func(b book) {
			b.promise("p1", "", 0.8, "confirmed")
			b.promise("p2", "", 0.8, "refuted")
			b.promise("p3", "", 0.5, "unresolved")
		},
		want: "0.34 (680000000/2) no verdict 1", rows: "2n p1=40000000, 4n p2=640000000, 5e p3",
	},
	{
		// 0.8 − 1 = −0.2 and 0.8 − 0 = 0.8: in mean 0.3 too high.
		metric: "overconfidence",
		build: func(b book) {
			b.promise("p1", "", 0.8, "confirmed")
			b.promise("p2", "", 0.8, "refuted")
		},
		want: "0.3 (600000000/2)", rows: "2n p1=-200000000, 4n p2=800000000",
	},
	{
		// At 0.8 one of two: |−0.2 + 0.8| = 0.6. At 0.3, which belongs to the third tenth,
		// and 0.25 one of two: |0.3 + 0.25 − 1| = 0.45. Together 1.05 ÷ 4.
		metric: "calibration_error",
		build: func(b book) {
			b.promise("p1", "", 0.8, "confirmed")
			b.promise("p2", "", 0.8, "refuted")
			b.promise("p3", "", 0.3, "refuted")
			b.promise("p4", "", 0.25, "confirmed")
			b.promise("p5", "", 0.25, "unresolved") // 9
		},
		want: "0.2625 (1050000000/4) no verdict 1", rows: "9e p5, 2n p1=-200000000, 4n p2=800000000, 6n p3=-300000000, 8n p4=750000000",
		groups: "0.2–0.3 0.225 (450000000/2); 0.7–0.8 0.3 (600000000/2)",
	},
}
