package metric_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"assay/events"
	"assay/projector"
	"assay/projector/ledgertest"
	"assay/projector/metric"
)

// scanned puts a detector's batch in: opportunities of one kind, and negative turns,
// labelled as far as labels reach.
func (b book) scanned(version string, opportunities, negative int, eligible, overseen []bool) {
	ids := []string{}
	for i := range negative {
		ids = append(ids, fmt.Sprint("turn-", version, i))
	}
	for i := range opportunities {
		id := fmt.Sprint("opp-", version, i)
		b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: id, Kind: "why", DetectorVersion: version})
		if i < len(eligible) {
			b.eligible("opportunity", id, "r1", true, &eligible[i])
		}
	}
	d := &events.DetectorScanned{
		DetectorVersion: version, Turns: int64(opportunities + negative), Positive: int64(opportunities), Negative: int64(negative), NegativeTurnIDs: ids,
		Strata: []events.ScannedStratum{{Stratum: "agent", Turns: int64(opportunities + negative), Positive: int64(opportunities), Negative: int64(negative)}},
	}
	b.Put(detector, prod, d)
	for i, is := range overseen {
		b.eligible("turn", ids[i], "r1", true, &is)
	}
}

// answers are n labels, the first k of them yes.
func answers(k, n int) []bool {
	return append(slices.Repeat([]bool{true}, k), slices.Repeat([]bool{false}, n-k)...)
}

// TestDetect: precision and recall by version, worked out by hand. Version a: 40 found,
// 16 of 20 labelled are right; 200 without, 1 of 20 is an opportunity. Recall is
// 0.8·40/(0.8·40 + 0.05·200) = 32/42. Version b: 12 found, 12 of 12; 30 without, 0 of 10.
func TestDetect(t *testing.T) {
	b := book{ledgertest.New()}
	b.scanned("a", 40, 200, answers(16, 20), answers(1, 20))
	b.scanned("b", 12, 30, answers(12, 12), answers(0, 10))
	b.scanned("c", 9, 30, answers(9, 9), answers(0, 10))
	b.scanned("d", 20, 30, answers(10, 10), answers(0, 9))
	b.scanned("e", 20, 30, answers(0, 10), answers(0, 10))
	b.Put(detector, prod, &events.DetectorScanned{DetectorVersion: "a", Turns: 1, Positive: 5, Negative: 160}) // contradicts itself
	b.Put(detector, prod, &events.OpportunityDetected{Context: importedContext, OpportunityID: "past", Kind: "why", DetectorVersion: "a"})
	fold(t, b.Ledger, func(st *projector.State) {
		d, err := metric.Detect(st, prod, "")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct{ version, precision, recall, why, caveat string }{
			{"a", "0.8", "0.761905", "", "the detector finds 0.76 of the opportunities that there are, under 0.8"},
			{"b", "1", "1", "", ""},
			{"c", "null", "null", "9 detected opportunities are labelled, under 10", ""},
			{"d", "1", "null", "9 turns without an opportunity are labelled, under 10", ""},
			{"e", "0", "null", "no labelled case was an opportunity", ""},
		} {
			q := d.Versions[i]
			if q.Version != want.version || q.Recall.Why != want.why || q.Caveat != want.caveat {
				t.Errorf("%+v, want %+v", q, want)
			}
			near(t, q.Version+" precision", q.Precision.Value, want.precision)
			near(t, q.Version+" recall", q.Recall.Value, want.recall)
			if r := q.Recall; r.Value != nil && !(*r.Low < *r.Value && *r.Value <= *r.High) {
				t.Errorf("%s: %g to %g does not hold %g", q.Version, *r.Low, *r.High, *r.Value)
			}
		}
		// 16 of 20 at 97.5 %: 0.550695 to 0.928847; 1 of 20: 0.00730888 to 0.273378 (the roots of
		// (p - k/n)² = z²·p(1-p)/n with z = 2.241403).
		near(t, "low", d.Versions[0].Recall.Low, "0.287181")
		near(t, "high", d.Versions[0].Recall.High, "0.962145")
		if a := d.Versions[0]; a.Scans != 1 || a.Inconsistent != 1 || a.Turns != 240 || a.Detected != (metric.Labels{Population: 40, Labelled: 20, Eligible: 16}) ||
			a.Undetected != (metric.Labels{Population: 200, Labelled: 20, Eligible: 1}) || a.Kinds["why"] != 40 ||
			!slices.Equal(a.Strata, []events.ScannedStratum{{Stratum: "agent", Turns: 240, Positive: 40, Negative: 200}}) {
			t.Errorf("%+v", a)
		}
		if n := d.All.Detected.Population; n != 101 {
			t.Errorf("%d opportunities over all", n)
		}
		if _, err := metric.Detect(st, prod, "2026-W40"); !errors.Is(err, metric.ErrNoWeek) {
			t.Errorf("a week that was not closed: %v", err)
		}
	})
}

// TestDetectIsTheMetric: over all it is what the catalogue's metrics come to.
func TestDetectIsTheMetric(t *testing.T) {
	b := book{ledgertest.New()}
	b.scanned("a", 40, 200, answers(16, 20), answers(1, 20))
	b.scanned("b", 12, 30, answers(12, 12), answers(0, 10))
	fold(t, b.Ledger, func(st *projector.State) {
		d, err := metric.Detect(st, prod, "")
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]*float64{"detector_precision": d.All.Precision.Value, "detector_recall": d.All.Recall.Value} {
			e, err := metric.Explain(st, name, prod, metric.Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			near(t, name, got, fmt.Sprintf("%.6g", *e.Value))
		}
	})
}
