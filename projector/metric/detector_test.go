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

// TestDetectComponents: figures of who spoke, where a scan names her alone. Of the operator
// 20 are found, 10 of 10 rightly, and 1 of 10 of 40 others is overseen: 20/(20 + 4). The
// agent's turns stand in one scan with the tester's, and one of them is labelled.
func TestDetectComponents(t *testing.T) {
	b := book{ledgertest.New()}
	found := func(component string, n int, eligible []bool) {
		for i := range n {
			id := fmt.Sprint("opp-", component, i)
			b.Put(detector, prod, &events.OpportunityDetected{OpportunityID: id, Kind: "why", DetectorVersion: "a", Component: component})
			if i < len(eligible) {
				b.eligible("opportunity", id, "r1", true, &eligible[i])
			}
		}
	}
	scan := func(name string, labels []bool, strata ...events.ScannedStratum) {
		d := &events.DetectorScanned{DetectorVersion: "a", Strata: strata}
		for _, st := range strata {
			d.Turns, d.Positive, d.Negative = d.Turns+st.Turns, d.Positive+st.Positive, d.Negative+st.Negative
		}
		for i := range d.Negative {
			d.NegativeTurnIDs = append(d.NegativeTurnIDs, fmt.Sprint("turn-", name, i))
		}
		b.Put(detector, prod, d)
		for i, is := range labels {
			b.eligible("turn", d.NegativeTurnIDs[i], "r1", true, &is)
		}
	}
	found("operator", 20, answers(10, 10))
	found("agent", 12, answers(6, 12))
	scan("o", answers(1, 10), events.ScannedStratum{Stratum: "operator", Turns: 60, Positive: 20, Negative: 40})
	scan("a", answers(0, 10), events.ScannedStratum{Stratum: "agent", Turns: 30, Positive: 10, Negative: 20})
	// The tester said nothing without one here, so that the turns are the agent's.
	scan("b", answers(1, 2), events.ScannedStratum{Stratum: "agent", Turns: 5, Positive: 1, Negative: 4}, events.ScannedStratum{Stratum: "tester", Turns: 1, Positive: 1})
	check := func(unplaced bool) {
		fold(t, b.Ledger, func(st *projector.State) {
			d, err := metric.Detect(st, prod, "")
			if err != nil || len(d.Components) != 3 {
				t.Fatalf("%+v, %v", d, err)
			}
			agent, operator, tester := d.Components[0], d.Components[1], d.Components[2]
			near(t, "operator's precision", operator.Precision.Value, "1")
			near(t, "operator's recall", operator.Recall.Value, "0.833333")
			near(t, "agent's precision", agent.Precision.Value, "0.5")
			if operator.Component != "operator" || operator.Turns != 60 || operator.Undetected != (metric.Labels{Population: 40, Labelled: 10, Eligible: 1}) {
				t.Errorf("%+v", operator)
			}
			if tester.Turns != 1+map[bool]int64{true: 2}[unplaced] || tester.Precision.Value != nil || tester.Recall.Value != nil {
				t.Errorf("%+v", tester)
			}
			if !unplaced { // 6 of 12 stand for 6, 1 of 12 for 2 of 24
				near(t, "agent's recall", agent.Recall.Value, "0.75")
				return
			}
			near(t, "agent's recall", agent.Recall.Value, "null")
			if agent.Recall.Why != "1 labelled turns without an opportunity are of scans that name several components" || tester.Unplaced != 1 {
				t.Errorf("%+v, %+v", agent, tester)
			}
		})
	}
	check(false)
	scan("c", answers(0, 1), events.ScannedStratum{Stratum: "agent", Turns: 2, Negative: 2}, events.ScannedStratum{Stratum: "tester", Turns: 2, Negative: 2})
	check(true)
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
